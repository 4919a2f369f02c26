"""The curves of a memory on its page: allocated, reserved and active, or by category, with the peak."""

import json
import math
from dataclasses import dataclass

from markupsafe import Markup

from ....analysis.core.schema import records
from ....analysis.core.windows import MAX_TIME_NS
from ....analysis.memory.allocations import compute_memory_events
from ....analysis.memory.blocks import find_block_peak
from ....analysis.memory.curves import (
    MIN_TIME_NS,
    Curve,
    DeviceMemory,
    categories_of,
    find_peak,
    load_curve,
    selected_windows,
)
from ....charts.axis import tick_step
from ....charts.curves import CurveLine, CurveMark, draw_curves, sample_curve
from ....domain.memory import ACTIVE, ALLOCATED, OUT_OF_MEMORY, RESERVED
from ....domain.profile import Profile
from ....domain.units import NS_PER_MS, NS_PER_US, format_axis_labels, format_duration, format_quantity
from ..results.result_frame import ResultFrame
from ..results.tables import current_url_with

SAMPLE_COUNT = 240
"""The number of times with values for the pointer."""
MAX_MARKS = 100
MAX_TICKS = 5
HEADROOM = 1.02
"""At least this multiple of the maximum is drawn."""


@dataclass(frozen=True)
class LegendKey:
    """An entry of the legend. max: the maximum in the window. is_area: an area instead of a line."""

    css: str
    label: str
    max: str
    description: str
    is_area: bool


@dataclass(frozen=True)
class MemoryChart:
    """svg: without script or style. levels: labels of the ticks, from the top to 0, at equal distances; ends: below its
    left and right. start_ms, end_ms: of what is drawn. summary: values for a script, by label. zoom_in_url: the address
    without a window, to which a script adds one; zoom_out_url, around_peak_url: the addresses of all, and of the time
    around the peak; empty without a target."""

    svg: Markup
    levels: tuple[str, ...]
    ends: tuple[str, ...]
    peak: str
    keys: tuple[LegendKey, ...]
    start_ms: float
    end_ms: float
    summary: str
    zoom_in_url: str
    zoom_out_url: str
    around_peak_url: str


def build_memory_chart(
    frame: ResultFrame, profile: Profile, place: DeviceMemory, at_ns: int | None
) -> MemoryChart | None:
    """The chart of a memory in the window that is selected; None if nothing was recorded over time."""
    allocated, reserved, active = (load_curve(profile, place, name) for name in (ALLOCATED, RESERVED, ACTIVE))
    if allocated is None or len(allocated.time_ns) < 2:
        return None
    start, end = _span(frame, profile, place, allocated)
    if start >= end:
        return None
    words = categories_of(profile, place)
    parts = [(word, curve) for word in words if (curve := load_curve(profile, place, word)) is not None]
    lines = [CurveLine(f"part-{n % 8 + 1}", curve, stacked=True) for n, (_, curve) in enumerate(parts)]
    lines += [CurveLine("reserved", reserved)] if reserved else []
    lines += [CurveLine("active", active)] if active and _differs(active, allocated) else []
    lines += [CurveLine("allocated", allocated, filled=not parts)]
    stretch = [(start, end + 1)]
    tops = [best for line in lines if not line.stacked and (best := find_peak(line.curve, stretch))]
    ticks = _ticks(max((one.value for one in tops), default=0) * HEADROOM)
    most_at = find_block_peak(profile, frame.selection, place)
    marks = _marks(frame, profile, place)
    peak = f"{format_quantity(most_at.value, 'bytes').text} at {format_duration(most_at.time_ns)}" if most_at else ""
    if most_at is not None:
        marks.append(CurveMark(most_at.time_ns, "peak", f"Peak: {peak}", float(most_at.value)))
    if at_ns is not None:
        marks.append(CurveMark(at_ns, "at", f"Time of the table: {format_duration(at_ns)}"))
    named = [("allocated", allocated)] + [(n, c) for n, c in (("reserved", reserved), ("active", active)) if c]
    narrow = current_url_with(("start-ms", None), ("end-ms", None), ("page", None), ("at-ms", None))
    windowed = frame.selection.start_ns is not None or frame.selection.end_ns is not None
    svg = draw_curves(f"Memory of {place.label} over time", lines, marks, start, end, ticks[0], ticks[1:-1])
    return MemoryChart(
        # `draw_curves` escapes every text and uses neither script nor style; tests hold it to that.
        svg=Markup(svg),
        levels=format_axis_labels(ticks, "bytes"),
        ends=format_axis_labels((start, end), "ns"),
        peak=peak,
        keys=_keys([line for line in lines if f'curves-{line.css}"' in svg], parts, stretch),
        start_ms=start / NS_PER_MS,
        end_ms=end / NS_PER_MS,
        summary=json.dumps({name: sample_curve(curve, start, end, SAMPLE_COUNT) for name, curve in (*named, *parts)}),
        zoom_in_url=narrow,
        zoom_out_url=narrow if windowed else "",
        around_peak_url=_zoom_url(most_at.time_ns, start, end) if most_at and not windowed else "",
    )


def _ticks(most: float) -> list[float]:
    """Round values from one that is at least `most` down to 0."""
    step = tick_step(most, "bytes", MAX_TICKS)
    return [step * n for n in range(max(1, math.ceil(most / step)), -1, -1)]


def _span(frame: ResultFrame, profile: Profile, place: DeviceMemory, curve: Curve) -> tuple[int, int]:
    """The drawn time range: the part of the window with recorded values (if there are none, it ends before it
    begins)."""
    stretches = selected_windows(profile, frame.selection, place.rank)
    low = min((start for start, _ in stretches), default=MIN_TIME_NS)
    high = max((end for _, end in stretches), default=MAX_TIME_NS)
    whole = max(profile.meta.duration_ns or 0, int(curve.time_ns[-1]))
    start = int(max(low, min(0, int(curve.time_ns[0])), -(1 << 62)))
    end = int(min(high, whole))
    return start, end


def _differs(curve: Curve, other: Curve) -> bool:
    """Whether one curve is above another at the end of anything: where frees wait for streams."""
    return bool(
        len(curve.value)
        and len(other.value)
        and (curve.value.max() > other.value.max() or curve.value[-1] > other.value[-1])
    )


def _marks(frame: ResultFrame, profile: Profile, place: DeviceMemory) -> list[CurveMark]:
    curve_marks = []
    for record in records(compute_memory_events(profile, frame.selection)):
        if (record["device"], record["rank"]) == (place.label, place.rank):
            css = "oom" if record["event"] == OUT_OF_MEMORY else "retry"
            size = format_quantity(record["bytes"], "bytes").text if record["bytes"] is not None else "memory"
            words = (
                f"{record['event'].capitalize()}: {size} requested at {format_duration(record['time_us'] * NS_PER_US)}"
            )
            curve_marks.append(CurveMark(round(record["time_us"] * NS_PER_US), css, words))
    return curve_marks[:MAX_MARKS]


def _keys(
    lines: list[CurveLine], parts: list[tuple[str, Curve]], stretch: list[tuple[int, int]]
) -> tuple[LegendKey, ...]:
    described = {
        ALLOCATED: "Memory in use by the program",
        RESERVED: "Memory reserved by the allocator",
        ACTIVE: "Allocated memory, and freed memory that other streams still use",
    }
    named = {f"part-{n % 8 + 1}": word for n, (word, _) in enumerate(parts)}
    legend_keys = []
    for line in sorted(lines, key=lambda one: one.stacked):
        label = named.get(line.css, line.css)
        best = find_peak(line.curve, stretch)
        text = format_quantity(best.value, "bytes").text if best else ""
        legend_keys.append(
            LegendKey(line.css, label, text, described.get(label, "Part of the allocated memory"), line.stacked)
        )
    return tuple(legend_keys)


def _zoom_url(time_ns: int, start: int, end: int) -> str:
    """The URL of a tenth of the time range, centered at a time."""
    half = (end - start) // 20
    if half < NS_PER_US:
        return ""
    low, high = max(start, time_ns - half), min(end, time_ns + half)
    return current_url_with(
        ("start-ms", f"{low / NS_PER_MS:.6f}".rstrip("0").rstrip(".")),
        ("end-ms", f"{high / NS_PER_MS:.6f}".rstrip("0").rstrip(".")),
        ("page", None),
    )
