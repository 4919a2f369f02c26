"""Parses the header of perf script's text."""

import re
from typing import TYPE_CHECKING

from .fields import REQUIRED_EVENTS, SCHEDULER

if TYPE_CHECKING:
    pass

HEAD_BYTES = 256 << 10


_EVENT = re.compile(rb"^# event : name = ([^,\n]{1,200}),", re.MULTILINE)


_EVENT_LINE = re.compile(rb"^# event : name = [^\n]*+", re.MULTILINE)


_BRANCH_STACK = re.compile(rb" sample_type = [A-Z_|]*\bBRANCH_STACK\b")


_SILENT = ("dummy", "dummy:")
"""Events that never occur: perf records other data with them."""


def detect_tracepoint_group(text: bytes) -> str | None:
    """SCHEDULER or LOCKS, if the header that `perf script --header` printed names events of that group and no others;
    empty if it names others, None if it names none."""
    names = [name for raw in _EVENT.findall(text) if not (name := raw.decode(errors="replace")).startswith(_SILENT)]
    if not names:
        return None
    return next(
        (g for g, one in REQUIRED_EVENTS.items() if one in names and all(name.startswith(g) for name in names)), ""
    )


def header_has_switches(text: bytes) -> bool:
    """Whether the header names switches of the scheduler among other events, and call stacks for all tracepoints: then
    their fields can be printed without being confused with addresses."""
    points = [line for line in _EVENT_LINE.findall(text) if b" type = 2," in line]
    return REQUIRED_EVENTS[SCHEDULER].encode() in _EVENT.findall(text) and all(b"|CALLCHAIN" in line for line in points)


def header_has_branch_stacks(text: bytes) -> bool:
    """Whether the header says that branch stacks were recorded (`perf record -b`), and not only for call stacks
    (`--call-graph lbr`)."""
    return any(
        (_BRANCH_STACK.search(line) is not None) and b"CALL_STACK" not in line for line in _EVENT_LINE.findall(text)
    )


def header_has_switch_records(text: bytes) -> bool:
    """Whether the header says that context switches were recorded (`perf record --switch-events`)."""
    return any(b" context_switch = 1" in line for line in _EVENT_LINE.findall(text))
