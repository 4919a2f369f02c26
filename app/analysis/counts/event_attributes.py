"""How an event was sampled, by the attributes that perf prints: "type = 0, size = 128, freq = 1, precise_ip = 2, …".

perf prints the fields of perf_event_attr (perf_event_open(2)) and leaves out those that are zero
(tools/perf/util/perf_event_attr_fprintf.c of Linux).
"""

import re
from dataclasses import dataclass

from ...domain.event_names import EVENT_FACT, name_events, split_modifiers

STACK_METHODS = ("dwarf", "lbr", "frame pointers", "none")
_FIELD = re.compile(r"\b(\w+) = ([\w|]+)")
_RATE = re.compile(r"\{ sample_period, sample_freq \} = (\d{1,18})", re.ASCII)
_NEXT_FILE = "; name = "
"""Begins the attributes of another file in a fact of several files (ingest/facts)."""


@dataclass(frozen=True)
class EventAttributes:
    """precise: precise_ip, 0 to 3: how far the address may be from the instruction that caused the event. user, kernel:
    whether it is measured there. stacks: one of STACK_METHODS, as far as the event decides. sampling:
    "period" or "frequency"; rate: its number. None: not known."""

    precise: int | None = None
    user: bool | None = None
    kernel: bool | None = None
    stacks: str | None = None
    sampling: str | None = None
    rate: float | None = None


def parse_attributes(name: str, about: str) -> EventAttributes:
    """The attributes of an event by its name as perf prints it, and by its attributes; `about` may be empty."""
    fields = dict(_FIELD.findall(about.partition(_NEXT_FILE)[0]))
    modifiers = split_modifiers(name)[1]
    if "size" not in fields and "sample_type" not in fields:
        spaces = {"u", "k", "h"} & {*modifiers}
        return EventAttributes(
            precise=modifiers.count("p") or None,
            user="u" in spaces if spaces else None,
            kernel="k" in spaces if spaces else None,
        )
    found = _RATE.search(about)
    rate = float(found[1]) if found else None
    return EventAttributes(
        precise=int(fields.get("precise_ip", "0")[:1]) if fields.get("precise_ip", "0").isdecimal() else None,
        user=fields.get("exclude_user", "0") == "0",
        kernel=fields.get("exclude_kernel", "0") == "0",
        stacks=_find_stack_method(fields),
        sampling=None if rate is None else "frequency" if fields.get("freq", "0") != "0" else "period",
        rate=rate,
    )


def list_recorded_events(facts: dict[str, str]) -> dict[str, tuple[str, str]]:
    """The events that the header of a recording lists, by the name in the profile: the name as perf prints it, and the
    attributes. Without those that never occur."""
    listed = [
        (fact.removeprefix(EVENT_FACT), about)
        for fact, about in facts.items()
        if fact.startswith(EVENT_FACT) and " = " in about
    ]
    listed = [one for one in listed if split_modifiers(one[0])[0] != "dummy"]
    names = [name for name, _ in name_events(listed)]
    return dict(zip(names, listed, strict=True))


def _find_stack_method(fields: dict[str, str]) -> str | None:
    kinds = fields.get("sample_type", "").split("|")
    if "CALLCHAIN" not in kinds:
        return "none" if kinds != [""] else None
    if "STACK_USER" in kinds:
        return "dwarf"
    return "lbr" if "CALL_STACK" in fields.get("branch_sample_type", "") else "frame pointers"
