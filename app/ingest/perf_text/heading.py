"""What the heading of perf script's text says was recorded."""

import re
from typing import TYPE_CHECKING

from .fields import SCHEDULER, TELLING

if TYPE_CHECKING:
    pass

HEAD_BYTES = 256 << 10


_EVENT = re.compile(rb"^# event : name = ([^,\n]{1,200}),", re.MULTILINE)


_EVENT_LINE = re.compile(rb"^# event : name = [^\n]*+", re.MULTILINE)


_SILENT = ("dummy", "dummy:")
"""Events that never occur: perf records other things with them."""


def told_by(text: bytes) -> str | None:
    """SCHEDULER or LOCKS, where the heading in what `perf script --header` printed names events of that group and no
    others; empty where it names others, None where it names none."""
    names = [name for raw in _EVENT.findall(text) if not (name := raw.decode(errors="replace")).startswith(_SILENT)]
    if not names:
        return None
    return next((g for g, one in TELLING.items() if one in names and all(name.startswith(g) for name in names)), "")


def tells_switches(text: bytes) -> bool:
    """Whether the heading names switches of the scheduler among other events, and call stacks for all tracepoints: then
    what they tell can be printed, and no address is mixed up with that."""
    points = [line for line in _EVENT_LINE.findall(text) if b" type = 2," in line]
    return TELLING[SCHEDULER].encode() in _EVENT.findall(text) and all(b"|CALLCHAIN" in line for line in points)
