"""Own names for events of perf, such as `mem-loads` for `cpu/event=0xcd,umask=0x1/`, and files of them.

perf's term `name=` gives a counter its name, so that results show the own name.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...domain.errors import InvalidRequest
from ..recorders.event_grammar import find_event_problem
from ..recorders.events import RAW, single_events
from .events import event_problem
from .serialization import from_text, to_toml

MAX_EVENTS = 1_000
MAX_NAME_CHARS = 60
MAX_EVENT_CHARS = 300
MAX_DESCRIPTION_CHARS = 500
_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_.-]{{0,{MAX_NAME_CHARS - 1}}}")
_TERMS = re.compile(r"(?P<pmu>[\w.-]+)/(?P<terms>.*)/(?P<modifiers>\w*)")
_PLAIN = re.compile(r"(?P<event>[\w.-]+)(?::(?P<modifiers>\w+))?")
_FIELDS = ("name", "event", "description")


@dataclass(frozen=True)
class OwnEvent:
    """A name for an event in perf's notation."""

    name: str
    event: str
    description: str = ""

    @property
    def recorded(self) -> str:
        """The event for `perf -e`, with its name as a term."""
        if RAW.fullmatch(self.event):
            return f"cpu/config=0x{self.event[1:]},name={self.name}/"
        if match := _TERMS.fullmatch(self.event):
            terms = f"{match['terms']}," if match["terms"] else ""
            return f"{match['pmu']}/{terms}name={self.name}/{match['modifiers']}"
        plain = _PLAIN.fullmatch(self.event)
        assert plain is not None, "check_event accepts no other"
        return f"{plain['event']}/name={self.name}/{plain['modifiers'] or ''}"


def check_event(values: Mapping[str, str]) -> OwnEvent:
    """The own event of these fields. Raises InvalidRequest, which names the field."""
    name, event = values.get("name", "").strip(), values.get("event", "").strip()
    description = values.get("description", "").strip()
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"A name has letters, digits and _ . -, begins with a letter, and has at most {MAX_NAME_CHARS} characters.",
            "name",
        )
    if len(event) > MAX_EVENT_CHARS:
        raise InvalidRequest(f"The event is longer than {MAX_EVENT_CHARS} characters.", "event")
    if problem := event_problem(event):
        raise InvalidRequest(problem, "event")
    named = re.search(r"[/,]name=", event)
    if single_events(event) != [event] or named or not any(e.fullmatch(event) for e in (_TERMS, _PLAIN)):
        raise InvalidRequest(
            "Only a single event of a counter can have an own name: cpu/event=0xcd,umask=0x1/, r01cd or cycles:u, "
            "without another name, and no tracepoint or group.",
            "event",
        )
    if len(description) > MAX_DESCRIPTION_CHARS or not description.isprintable():
        raise InvalidRequest(
            f"The description is longer than {MAX_DESCRIPTION_CHARS} characters, or not all of them can be printed.",
            "description",
        )
    own = OwnEvent(name, event, description)
    if fault := find_event_problem(own.recorded, counting=True):
        raise InvalidRequest(f"{fault.text} {fault.advice}", "event")
    return own


def from_file(content: bytes) -> tuple[OwnEvent, ...]:
    """The own events in a file: TOML with a table `[[event]]` for each. Raises InvalidRequest, which names the event
    that is wrong."""
    data = from_text(content)
    rows = data.get("event", [])
    if set(data) - {"event"} or not isinstance(rows, list):
        raise InvalidRequest("Own names are written as tables [[event]] with name and event.", "file")
    if len(rows) > MAX_EVENTS:
        raise InvalidRequest(f"The file has {len(rows):,} names; at most {MAX_EVENTS:,} are permitted.", "file")
    events = [_from_row(row, number) for number, row in enumerate(rows, 1)]
    names = [each.name for each in events]
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise InvalidRequest(f"The file has two events with the name {twice}. Remove one.", "file")
    return tuple(events)


def to_file(events: Iterable[OwnEvent]) -> str:
    """The text of a file with these events."""
    rows = [{field: value for field in _FIELDS if (value := getattr(each, field))} for each in events]
    return to_toml({"event": rows}, "Own names for events of perf. Perfloom reads this file under Events.")


def _from_row(row: Any, number: int) -> OwnEvent:
    if not isinstance(row, dict) or not all(isinstance(value, str) for value in row.values()):
        raise InvalidRequest(f"Event {number} must be a table of texts: {', '.join(_FIELDS)}.", "file")
    unknown = sorted(set(row) - set(_FIELDS))
    if unknown:
        raise InvalidRequest(f"Event {number} has {unknown[0][:40]!r}; permitted are {', '.join(_FIELDS)}.", "file")
    try:
        return check_event(row)
    except InvalidRequest as error:
        raise InvalidRequest(f"Event {number}: {error.message}", "file") from None
