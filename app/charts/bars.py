"""Bars of an event by process or thread, stacked by function.

SVG without script, style or inline style. Colors and sizes of text come from static/css/bars.css by class.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ..analysis.core.flame_groups import FlameGroup, groups_of
from ..analysis.core.functions import KIND_NAMES, base_name, functions_of
from ..analysis.core.measurements import find_share_only_events
from ..analysis.core.measurements import measure_counts as counts_of
from ..analysis.core.sample_rollup import roll_up_filtered_samples, roll_up_rows
from ..analysis.core.sample_selection import event_id, event_names, filter_samples, sum_by_index
from ..analysis.counts.totals import counted_values
from ..analysis.stacks.call_tree import build_call_tree
from ..analysis.stacks.hotspots import function_kinds
from ..domain.arrays import Array
from ..domain.event_names import SAMPLED_ONLY
from ..domain.profile import Profile
from ..domain.selection import Selection, check_choice
from ..domain.tables import NO_ID, ROOT, get_strings
from ..domain.text import shorten_middle
from ..domain.units import format_axis_labels, format_percent, format_quantity
from .axis import list_ticks
from .layout import Area, Rectangle, bar_layout
from .svg import add_element, add_link, fit_text, measure_text_em, strip_invalid_xml

BY = ("process", "thread", "rank", "host")
TOP_FUNCTIONS = 8
MAX_BARS = 24
SAMPLE_GROUPINGS = ("process", "thread")
"""Groupings that only samples support; counts are of all processes and threads."""
ROW_HEIGHT, LEGEND_ROW_HEIGHT, AXIS_HEIGHT, MARGIN = 30, 20, 26, 4
LABEL_PX, SCALE_PX = 12, 11
"""The sizes of the text of labels and of the scale, in static/css/bars.css."""
LABEL_GAP = 8
GAP = 0.22
"""The share of the height of a row that is free."""


@dataclass(frozen=True)
class BarLayout:
    """The size of a drawing. css_class: its class. width: in its units, which are CSS pixels if not scaled. label_em:
    room for the label of a bar. max_characters: of a name in the legend. max_ticks: of the scale.
    """

    css_class: str
    width: int
    label_em: float
    max_characters: int
    max_ticks: int


WIDE_LAYOUT = BarLayout("bars--wide", 960, 18.0, 110, 9)
NARROW_LAYOUT = BarLayout("bars--narrow", 350, 8.0, 40, 5)
"""For phones. The page shows the one that fits, by static/css/bars.css."""


@dataclass(frozen=True)
class BarSeries:
    """The values of one color. name, module: of a function; other: whether it is for everything without its own color.

    values: by bar, in the event's unit.
    """

    name: str
    module: str
    kind: str
    other: bool
    values: tuple[int | float, ...]


@dataclass(frozen=True)
class BarData:
    """Bars of one event, the longest first. labels: of the bars. hidden_bars: number of omitted bars;
    left_out_value: their total. total: of the event, including omitted bars. by_function: False if the event was not
    sampled, so its functions are unknown and the bars have one color. running_percent: of counts, the share of the time
    with a hardware counter. note: why there is no total.
    """

    event: str
    unit: str
    by: str
    labels: tuple[str, ...]
    series: tuple[BarSeries, ...]
    total: int | float | None
    hidden_bars: int
    hidden_value: int | float
    by_function: bool = True
    running_percent: float | None = None
    note: str = ""


def build_bars(
    profile: Profile, selection: Selection, by: str = "process", *, top: int = TOP_FUNCTIONS, bars: int = MAX_BARS
) -> BarData:
    """The bars of the selected event (None: the main one) by process, thread, rank or host, stacked by function.

    A sample counts for its innermost function that is not hidden. The `top` functions with the greatest self weight
    have their own series; the rest, samples without a stack and counts without samples are "other".
    Raises InvalidRequest.
    """
    check_choice("by", by, BY)
    event = event_id(profile, selection.event)
    labels, weight, functions = _sampled_groups(profile, selection, event, by, top)
    counted, running = counted_values(profile, selection, event, FlameGroup(by))
    guessed = event in find_share_only_events(profile)
    if guessed or (counted and by not in SAMPLE_GROUPINGS):
        # Samples without a total, or the counts.
        labels, weight, functions = (), np.zeros((0, 1), np.int64), []
    unknown = "" if counted or weight.any() else _why_unknown(profile, selection, event)
    total: int | float | None = None
    if counted or not (guessed or unknown):
        total = sum(counted.values()) if counted else int(weight.sum())
    if weight.any():
        counted = {}
    names = list(dict.fromkeys([*labels, *counted]))
    place = {name: n for n, name in enumerate(names)}
    table: list[list[int | float]] = [[0] * (len(functions) + 1) for _ in names]
    for label, row in zip(labels, weight.tolist(), strict=True):
        table[place[label]] = [a + b for a, b in zip(table[place[label]], row, strict=True)]
    for label, value in counted.items():
        table[place[label]][-1] += value
    order = sorted((n for n in range(len(names)) if sum(table[n])), key=lambda n: -sum(table[n]))
    shown, rest = order[:bars], order[bars:]
    known, kinds = functions_of(profile), function_kinds(profile)
    series = [
        BarSeries(
            name=known.name_of(function),
            module=known.module_of(function),
            kind=KIND_NAMES[kinds[function]],
            other=False,
            values=tuple(table[n][s] for n in shown),
        )
        for s, function in enumerate(functions)
    ]
    others = tuple(table[n][-1] for n in shown)
    if any(others) or not series:
        series.append(BarSeries("other", "", "unknown", True, others))
    return BarData(
        event=event_names(profile)[event] if event != NO_ID else "",
        unit=get_strings(profile.events, "unit")[event] if event != NO_ID else "count",
        by=by,
        labels=tuple(names[n] for n in shown),
        series=tuple(series),
        total=total,
        hidden_bars=len(rest),
        hidden_value=sum(sum(table[n]) for n in rest),
        by_function=bool(weight.any()) or not counted,
        running_percent=running,
        note="" if total is not None else unknown or SAMPLED_ONLY,
    )


def _why_unknown(profile: Profile, selection: Selection, event: int) -> str:
    """Why an event has no count: "not counted", "not supported"; empty if it was not requested."""
    rows = [row for row in counts_of(profile, selection) if row.event == event]
    return ", ".join(sorted({row.status for row in rows if row.value is None and row.status}))


def _sampled_groups(
    profile: Profile, selection: Selection, event: int, by: str, top: int
) -> tuple[tuple[str, ...], Array, list[int]]:
    """(labels of groups, weight by group and top function with the rest in the last column, the top functions)."""
    groups = groups_of(profile, FlameGroup(by))
    if groups.sample_groups is None:
        found = roll_up_filtered_samples(profile, selection, event)
        group = groups.thread_groups[found.thread]
    else:
        rows = filter_samples(profile, selection, event)
        found, group = roll_up_rows(profile, selection, rows), groups.for_samples(profile, rows)
    tree = build_call_tree(profile, selection.hide, kinds=False)
    node = found.call if tree.node is None else tree.node[found.call]
    function = tree.function[node]
    size = profile.functions.num_rows
    own = sum_by_index(function.astype(np.int64) + 1, found.weight, size + 1)[1:]
    best = np.argsort(-own, kind="stable")[:top]
    best = best[own[best] > 0]
    column = np.full(size + 1, len(best), np.int64)
    column[best] = np.arange(len(best))
    columns = len(best) + 1
    cell = group.astype(np.int64) * columns + np.where(node == ROOT, len(best), column[function])
    table = sum_by_index(cell, found.weight, len(groups.labels) * columns)
    return groups.labels, table.reshape(len(groups.labels), columns), best.tolist()


def draw_bars(data: BarData, room: BarLayout = WIDE_LAYOUT, function_url: Callable[[str], str] | None = None) -> str:
    """The bars as SVG, with a legend below. All text is escaped; it has no scripts, resources or inline style.

    function_url: makes the link of the parts of a function; empty for none.
    """
    bars = len(data.labels)
    if not bars:
        message = f"The selection has no {data.event}." if data.event else "The selection has no measurements."
        if data.note:
            message = f"{data.event}: {data.note}."
        return _text_only(message, room)
    labels = [fit_text(label, room.label_em) for label in data.labels]
    left = math.ceil(MARGIN + LABEL_GAP + LABEL_PX * max(map(measure_text_em, labels)))
    area = Area(left, MARGIN, room.width - MARGIN - left, ROW_HEIGHT * bars)
    height = ROW_HEIGHT * bars + AXIS_HEIGHT + MARGIN
    drawn = [number for number, series in enumerate(data.series) if any(series.values)]
    legend_height = 16 + LEGEND_ROW_HEIGHT * len(drawn) if data.by_function else 0
    svg = add_element(
        None,
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {room.width} {height + legend_height}",
            "class": f"bars {room.css_class}",
            # Images must not contain links.
            "role": "group" if function_url else "img",
        },
    )
    title = add_element(svg, "title", {})
    title.text = strip_invalid_xml(f"{data.event} by {data.by}: {format_quantity(data.total, data.unit).text} in total")
    longest = max(_sums(data))
    _guides(svg, data, area, room, longest)
    for number, label in enumerate(labels):
        y = area.y + ROW_HEIGHT * (number + 0.5) + 0.35 * LABEL_PX
        place = {"x": f"{left - LABEL_GAP}", "y": f"{y:.2f}", "class": "bars-label", "text-anchor": "end"}
        text = add_element(svg, "text", place)
        text.text = label
        add_element(text, "title", {}).text = strip_invalid_xml(data.labels[number])
    parts = bar_layout([series.values for series in data.series], area, longest, horizontal=True, gap=GAP)
    for number, rectangles in enumerate(parts):
        _bars(svg, data, number, rectangles, function_url)
    if data.by_function:
        _legend(svg, data, drawn, height + 16, room)
    return ElementTree.tostring(svg, encoding="unicode")


def color_class(data: BarData, number: int) -> str:
    """The class of the shapes and the legend entry of a series."""
    if not data.by_function:
        return "bars-plain"
    return "bars-other" if data.series[number].other else f"bars-{number % TOP_FUNCTIONS + 1}"


def _sums(data: BarData) -> list[int | float]:
    """The total of each bar."""
    return [sum(values) for values in zip(*(series.values for series in data.series), strict=True)]


def _guides(svg: Any, data: BarData, area: Area, room: BarLayout, longest: float) -> None:
    """The scale: lines, and their values below."""
    marks = list_ticks(longest, data.unit, room.max_ticks)
    for mark, words in zip(marks, format_axis_labels(marks, data.unit), strict=True):
        x = area.x + (area.width * mark / longest if longest > 0 else 0.0)
        add_element(svg, "path", {"d": f"M{x:.2f} {area.y}V{area.y + area.height}", "class": "bars-guide"})
        place = {"x": f"{x:.2f}", "y": str(area.y + area.height + 16), "class": "bars-scale", "text-anchor": "middle"}
        # Centered below its line, but within the drawing.
        if x + measure_text_em(words) * SCALE_PX / 2 > room.width:
            place |= {"x": str(room.width), "text-anchor": "end"}
        add_element(svg, "text", place).text = words


def _bars(
    svg: Any,
    data: BarData,
    number: int,
    rectangles: list[Rectangle],
    function_url: Callable[[str], str] | None,
) -> None:
    series = data.series[number]
    name = f"{series.name} ({series.module})" if series.module else series.name
    url = function_url(series.name) if function_url and data.by_function and not series.other else ""
    for bar, (value, whole, rectangle) in enumerate(zip(series.values, _sums(data), rectangles, strict=True)):
        if not value:
            continue
        css = f"bars-part {color_class(data, number)}"
        share = format_percent(100 * value / whole) if whole else ""
        text = format_quantity(value, data.unit).text
        said = f"{name}\n{text}, {share} of the bar" if data.by_function else text
        parent = add_link(svg, url, f"{name}, {data.labels[bar]}: {text}") if url else svg
        drawn = add_element(parent, "rect", rectangle.attributes | {"class": css})
        add_element(drawn, "title", {}).text = strip_invalid_xml(f"{data.labels[bar]}\n{said}")


def _legend(svg: Any, data: BarData, drawn: list[int], top: int, room: BarLayout) -> None:
    """The legend of the series that are drawn: those of hidden bars only are not."""
    for row, number in enumerate(drawn):
        series = data.series[number]
        y = top + LEGEND_ROW_HEIGHT * row
        swatch = {
            "x": "4",
            "y": str(y),
            "width": "12",
            "height": "12",
            "class": f"bars-part {color_class(data, number)}",
        }
        add_element(svg, "rect", swatch)
        text = add_element(svg, "text", {"x": "24", "y": str(y + 10), "class": "bars-legend"})
        short, full = (
            f"{series.name} ({module})" if module else series.name
            for module in (base_name(series.module), series.module)
        )
        text.text = strip_invalid_xml(shorten_middle(short, room.max_characters))
        add_element(text, "title", {}).text = strip_invalid_xml(full)


def _text_only(message: str, room: BarLayout) -> str:
    place = {"viewBox": f"0 0 {room.width} 40", "class": f"bars {room.css_class}", "role": "img"}
    svg = add_element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg"} | place)
    add_element(svg, "text", {"x": "4", "y": "24", "class": "bars-legend"}).text = strip_invalid_xml(message)
    return ElementTree.tostring(svg, encoding="unicode")
