"""The names of the events of a perf script text, by its header if it has one."""

import re
from collections.abc import Iterable, Mapping, Sequence

from ...domain.event_names import EVENT_FACT, choose_main_event, is_unobservable, name_events, split_modifiers
from ...ingest.perf_text.grammar import decode_text

UNNAMED_EVENT = "samples"
_NAMED = re.compile(r"name = (.{1,200}?), (?:, )?(?:id|type) =")


def get_event_fact(value: str) -> str | None:
    """The name of the fact for a header line on an event; None for another line."""
    match = _NAMED.match(value)
    return EVENT_FACT + match[1] if match else None


class EventNames:
    """The events of one text. facts: of its header, as far as it was read."""

    def __init__(self, facts: Mapping[str, str]) -> None:
        self._facts = facts
        self._called: dict[str, tuple[str, str]] = {}

    def get_header_line(self, raw: bytes) -> str:
        """Facts about an event from the header; empty without any."""
        return self._facts.get(EVENT_FACT + decode_text(raw), "")

    def get_name(self, raw: bytes) -> tuple[str, str]:
        """The name of an event, and its attributes. Events in the header are named in its order."""
        name = decode_text(raw)
        if name not in self._called:
            recorded = dict.fromkeys((*self._list_requested_events(), *self._called, name))
            names = name_events((each or UNNAMED_EVENT, self._facts.get(EVENT_FACT + each, "")) for each in recorded)
            self._called |= dict(zip(recorded, names, strict=True))
        return self._called[name]

    def choose_main_event(self, met: Sequence[bytes]) -> str | None:
        """The main event of those in the text. The header lists events in the order of the command line; the first
        sample is no criterion, because page faults come before the first tick of a clock."""
        names = {decode_text(raw): self.get_name(raw)[0] for raw in met}
        requested_events = self._list_requested_events()
        in_order = dict.fromkeys([*(names[each] for each in requested_events if each in names), *names.values()])
        return choose_main_event(list(in_order), names.get(requested_events[0]) if requested_events else None)

    def find_unobservable(self, met: Iterable[bytes]) -> list[str]:
        """The events in the header without samples, because they happen where perf could not observe."""
        names = {decode_text(raw) for raw in met}
        return [
            requested_event
            for requested_event in self._list_requested_events()
            if requested_event not in names
            and is_unobservable(requested_event, self._facts[EVENT_FACT + requested_event])
        ]

    def _list_requested_events(self) -> list[str]:
        """The events in the header, except those that never occur, with which perf records other data."""
        names = (name.removeprefix(EVENT_FACT) for name in self._facts if name.startswith(EVENT_FACT))
        return [name for name in names if split_modifiers(name)[0] != "dummy"]
