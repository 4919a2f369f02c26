"""The curves of a memory on its page: allocated, reserved and active, or by category, with the peak."""

import json
from dataclasses import dataclass

from markupsafe import Markup

from ....analysis.core.schema import records
from ....analysis.core.windows import FOREVER
from ....analysis.memory.allocations import memory_events
from ....analysis.memory.blocks import peak
from ....analysis.memory.curves import ALWAYS, Curve, Place, categories_of, curve, top, windows
from ....charts.curves import Line, Mark, draw, sampled
from ....domain.memory import ACTIVE, ALLOCATED, OUT_OF_MEMORY, RESERVED
from ....domain.profile import Profile
from ....domain.units import axis_texts, duration, quantity
from ..results.frame import Frame
from ..results.tables import here

NS_PER_MS = 1_000_000
SAMPLES = 240
"""At so many times the value under the pointer is told."""
MOST_MARKS = 100
ROOM = 1.08
"""How much higher than the greatest value the drawing is."""


@dataclass(frozen=True)
class Key:
    """What a color stands for. most: its greatest value in the window. square: an area and no line."""

    css: str
    label: str
    most: str
    description: str
    square: bool


@dataclass(frozen=True)
class MemoryChart:
    """svg: without script or style of its own. levels: what stands beside its top, middle and bottom; ends: below its
    left and right. start_ms, end_ms: of what is drawn. told: values for a script, by label. narrow: the address without
    a window, to which a script adds one; out, around: the addresses of all, and of the time around the peak; empty
    where there is nothing to go to."""

    svg: Markup
    levels: tuple[str, ...]
    ends: tuple[str, ...]
    peak: str
    keys: tuple[Key, ...]
    start_ms: float
    end_ms: float
    told: str
    narrow: str
    out: str
    around: str


def chart_of(frame: Frame, profile: Profile, place: Place, at_ns: int | None) -> MemoryChart | None:
    """The chart of a memory in the window that is selected; None where nothing was recorded over time."""
    allocated, reserved, active = (curve(profile, place, name) for name in (ALLOCATED, RESERVED, ACTIVE))
    if allocated is None or len(allocated.time_ns) < 2:
        return None
    start, end = _span(frame, profile, place, allocated)
    if start >= end:
        return None
    words = categories_of(profile, place)
    parts = [(word, found) for word in words if (found := curve(profile, place, word)) is not None]
    lines = [Line(f"part-{n % 8 + 1}", found, stacked=True) for n, (_, found) in enumerate(parts)]
    lines += [Line("reserved", reserved)] if reserved else []
    lines += [Line("active", active)] if active and _differs(active, allocated) else []
    lines += [Line("allocated", allocated, filled=not parts)]
    stretch = [(start, end + 1)]
    tops = [best for line in lines if not line.stacked and (best := top(line.curve, stretch))]
    most = max((one.value for one in tops), default=0) * ROOM
    most_at = peak(profile, frame.selection, place)
    marks = _marks(frame, profile, place)
    said = f"{quantity(most_at.value, 'bytes').text} at {duration(most_at.time_ns)}" if most_at else ""
    if most_at is not None:
        marks.append(Mark(most_at.time_ns, "peak", f"Peak: {said}", float(most_at.value)))
    if at_ns is not None:
        marks.append(Mark(at_ns, "at", f"The table is of {duration(at_ns)}"))
    named = [("allocated", allocated)] + [(n, c) for n, c in (("reserved", reserved), ("active", active)) if c]
    narrow = here(("start-ms", None), ("end-ms", None), ("page", None), ("at-ms", None))
    windowed = frame.selection.start_ns is not None or frame.selection.end_ns is not None
    return MemoryChart(
        # `draw` escapes every text and uses neither script nor style; tests hold it to that.
        svg=Markup(draw(f"Memory of {place.label} over time", lines, marks, start, end, most)),
        levels=axis_texts((most, most / 2, 0), "bytes"),
        ends=axis_texts((start, end), "ns"),
        peak=said,
        keys=_keys(lines, parts, stretch),
        start_ms=start / NS_PER_MS,
        end_ms=end / NS_PER_MS,
        told=json.dumps({name: sampled(found, start, end, SAMPLES) for name, found in (*named, *parts)}),
        narrow=narrow,
        out=narrow if windowed else "",
        around=_around(most_at.time_ns, start, end) if most_at and not windowed else "",
    )


def _span(frame: Frame, profile: Profile, place: Place, allocated: Curve) -> tuple[int, int]:
    """The stretch of time that is drawn: the window, as far as anything was recorded in it (where nothing was, it ends
    before it begins)."""
    stretches = windows(profile, frame.selection, place.rank)
    low = min((start for start, _ in stretches), default=ALWAYS)
    high = max((end for _, end in stretches), default=FOREVER)
    whole = max(profile.meta.duration_ns or 0, int(allocated.time_ns[-1]))
    start = int(max(low, min(0, int(allocated.time_ns[0])), -(1 << 62)))
    end = int(min(high, whole))
    return start, end


def _differs(one: Curve, other: Curve) -> bool:
    """Whether one curve is above another at the end of anything: where frees wait for streams."""
    return bool(
        len(one.value) and len(other.value) and (one.value.max() > other.value.max() or one.value[-1] > other.value[-1])
    )


def _marks(frame: Frame, profile: Profile, place: Place) -> list[Mark]:
    found = []
    for one in records(memory_events(profile, frame.selection)):
        if (one["device"], one["rank"]) == (place.label, place.rank):
            css = "oom" if one["event"] == OUT_OF_MEMORY else "retry"
            size = quantity(one["bytes"], "bytes").text if one["bytes"] is not None else "memory"
            words = f"{one['event'].capitalize()}: {size} asked for at {duration(one['time_us'] * 1000)}"
            found.append(Mark(round(one["time_us"] * 1000), css, words))
    return found[:MOST_MARKS]


def _keys(lines: list[Line], parts: list[tuple[str, Curve]], stretch: list[tuple[int, int]]) -> tuple[Key, ...]:
    described = {
        ALLOCATED: "What programs held",
        RESERVED: "What the allocator had taken from the system",
        ACTIVE: "Allocated, and freed memory that other streams still use",
    }
    named = {f"part-{n % 8 + 1}": word for n, (word, _) in enumerate(parts)}
    found = []
    for line in sorted(lines, key=lambda one: one.stacked):
        label = named.get(line.css, line.css)
        best = top(line.curve, stretch)
        shown = quantity(best.value, "bytes").text if best else ""
        found.append(Key(line.css, label, shown, described.get(label, "A part of what is allocated"), line.stacked))
    return tuple(found)


def _around(time_ns: int, start: int, end: int) -> str:
    """The address of a tenth of the time, around a moment."""
    half = (end - start) // 20
    if half < 1000:
        return ""
    low, high = max(start, time_ns - half), min(end, time_ns + half)
    return here(
        ("start-ms", f"{low / NS_PER_MS:.6f}".rstrip("0").rstrip(".")),
        ("end-ms", f"{high / NS_PER_MS:.6f}".rstrip("0").rstrip(".")),
        ("page", None),
    )
