"""Bars of an event: how much each process or thread took of it, and which functions took that.

pygal lays the bars out; of its drawing only shapes and places are taken over, into an SVG of our own without script,
style or inline style, so that it may stand in a page under the strictest policy. Colors and sizes of text come from
static/css/bars.css by class. No name from a recording goes through pygal.
"""

import math
import sys
import unicodedata
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ..analysis.core.functions import KIND_WORDS, functions_of, last_part
from ..analysis.core.grouping import Group, groups_of
from ..analysis.core.measured import counted as counts_of
from ..analysis.core.measured import guessed_events
from ..analysis.core.picking import event_id, event_names, samples_kept, sums_on
from ..analysis.core.piles import piles_kept, piles_of
from ..analysis.counts.counting import measured_values
from ..analysis.stacks.hotspots import kinds_of
from ..analysis.stacks.reshaping import call_tree
from ..domain.errors import InvalidRequest
from ..domain.event_names import SAMPLED_ONLY
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.tables import NO_ID, ROOT, texts
from ..domain.units import axis_texts, percent, quantity

Array = np.ndarray[Any, Any]
BY = ("process", "thread", "rank", "host")
TOP = 8
BARS = 24
OF_SAMPLES = ("process", "thread")
"""What samples tell apart where an event was counted too; counts are of all processes and threads together."""
ROW, LEGEND_ROW, AXIS = 30, 20, 34
SCALE_PX = 11
"""The size of the marks' text, in static/css/bars.css."""
CHARACTER_EM = 0.6
"""What pygal takes a character of a label to be wide."""


@dataclass(frozen=True)
class Room:
    """How large a drawing is. css: its class. width: in its units, CSS pixels where it is as wide. label_em: room
    for the label of a bar. characters: of a name in the legend. marks: at most so many on the scale.
    """

    css: str
    width: int
    label_em: float
    characters: int
    marks: int


WIDE = Room("bars--wide", 960, 18.0, 110, 9)
NARROW = Room("bars--narrow", 350, 8.0, 40, 5)
"""For a phone: a page shows the one that fits, by static/css/bars.css."""


@dataclass(frozen=True)
class Series:
    """What one color stands for. name, module: of a function; other: it stands for all that has no color of its own.

    values: by bar, in the event's unit.
    """

    name: str
    module: str
    kind: str
    other: bool
    values: tuple[int | float, ...]


@dataclass(frozen=True)
class BarData:
    """Bars of one event, the longest first. labels: of the bars. left_out: how many more bars there are, and what they
    weigh in all (left_out_value). total: of the event, bars that are left out included. by_function: False where
    nothing of the event was sampled, so that nothing tells its functions and the bars are of one color.
    running_percent: of what was counted, for which share of the time there was a counter. note: why there is no total.
    """

    event: str
    unit: str
    by: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]
    total: int | float | None
    left_out: int
    left_out_value: int | float
    by_function: bool = True
    running_percent: float | None = None
    note: str = ""


def count_bars(
    profile: Profile, selection: Selection, by: str = "process", *, top: int = TOP, bars: int = BARS
) -> BarData:
    """The bars of the selected event (None: the main one) by process, thread, rank or host, stacked by function.

    A sample counts for its innermost function that is not hidden. The `top` functions with the greatest self weight
    have a series of their own; the rest, samples without a stack and what was counted without sampling are "other".
    Raises InvalidRequest.
    """
    if by not in BY:
        raise InvalidRequest(f"by is one of {', '.join(BY)}, not {by!r}.", "by")
    event = event_id(profile, selection.event)
    labels, weight, functions = _sampled(profile, selection, event, by, top)
    counted, running = measured_values(profile, selection, event, Group(by))
    guessed = event in guessed_events(profile)
    if guessed or (counted and by not in OF_SAMPLES):
        # Samples that tell no total; or what tells it beside them.
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
    known, kinds = functions_of(profile), kinds_of(profile)
    series = [
        Series(
            name=known.name_of(function),
            module=known.module_of(function),
            kind=KIND_WORDS[kinds[function]],
            other=False,
            values=tuple(table[n][s] for n in shown),
        )
        for s, function in enumerate(functions)
    ]
    others = tuple(table[n][-1] for n in shown)
    if any(others) or not series:
        series.append(Series("other", "", "unknown", True, others))
    return BarData(
        event=event_names(profile)[event] if event != NO_ID else "",
        unit=texts(profile.events, "unit")[event] if event != NO_ID else "count",
        by=by,
        labels=tuple(names[n] for n in shown),
        series=tuple(series),
        total=total,
        left_out=len(rest),
        left_out_value=sum(sum(table[n]) for n in rest),
        by_function=bool(weight.any()) or not counted,
        running_percent=running,
        note="" if total is not None else unknown or SAMPLED_ONLY,
    )


def _why_unknown(profile: Profile, selection: Selection, event: int) -> str:
    """Why an event has no count: "not counted", "not supported"; empty where it was not to be counted."""
    rows = [row for row in counts_of(profile, selection) if row.event == event]
    return ", ".join(sorted({row.status for row in rows if row.value is None and row.status}))


def _sampled(
    profile: Profile, selection: Selection, event: int, by: str, top: int
) -> tuple[tuple[str, ...], Array, list[int]]:
    """(labels of groups, weight by group and top function with the rest in the last column, the top functions)."""
    groups = groups_of(profile, Group(by))
    if groups.of_sample is None:
        found = piles_kept(profile, selection, event)
        group = groups.of_thread[found.thread]
    else:
        rows = samples_kept(profile, selection, event)
        found, group = piles_of(profile, selection, rows), groups.of(profile, rows)
    tree = call_tree(profile, selection.hide, kinds=False)
    node = found.call if tree.node is None else tree.node[found.call]
    function = tree.function[node]
    size = profile.functions.num_rows
    own = sums_on(function.astype(np.int64) + 1, found.weight, size + 1)[1:]
    best = np.argsort(-own, kind="stable")[:top]
    best = best[own[best] > 0]
    column = np.full(size + 1, len(best), np.int64)
    column[best] = np.arange(len(best))
    columns = len(best) + 1
    cell = group.astype(np.int64) * columns + np.where(node == ROOT, len(best), column[function])
    table = sums_on(cell, found.weight, len(groups.labels) * columns)
    return groups.labels, table.reshape(len(groups.labels), columns), best.tolist()


def draw(data: BarData, room: Room = WIDE) -> str:
    """The bars as SVG, with a legend below. All text is escaped; nothing in it can run, load or be styled inline."""
    bars = len(data.labels)
    if not bars:
        message = f"Nothing of {data.event} was measured here." if data.event else "Nothing was measured here."
        if data.note:
            message = f"{data.event}: {data.note}."
        return _text_only(message, room)
    height = AXIS + ROW * bars
    drawn = _layout(data, height, room)
    svg = element(
        None,
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {room.width} {height + (16 + LEGEND_ROW * len(data.series) if data.by_function else 0)}",
            "class": f"bars {room.css}",
            "role": "img",
        },
    )
    title = element(svg, "title", {})
    title.text = clean(f"{data.event} by {data.by}: {quantity(data.total, data.unit).text} in all")
    plot = element(svg, "g", {"transform": drawn.get("transform", "")})
    for axis in drawn.iterfind("g"):
        words = set(axis.get("class", "").split())
        if "axis" in words and "x" in words:
            _guides(plot, axis, data, room)
    for axis in drawn.iterfind("g"):
        if {"axis", "y"} <= set(axis.get("class", "").split()):
            _bar_labels(plot, axis, data, room)
    for number, part in enumerate(g for g in drawn.iterfind("g") if "series" in g.get("class", "").split()):
        _bars(plot, part, data, number)
    if data.by_function:
        _legend(svg, data, height + 16, room)
    return ElementTree.tostring(svg, encoding="unicode")


def colour_class(data: BarData, number: int) -> str:
    """The class of a series' shapes and of its place in a legend."""
    if not data.by_function:
        return "bars-plain"
    return "bars-other" if data.series[number].other else f"bars-{number % TOP + 1}"


def _layout(data: BarData, height: int, room: Room) -> Any:
    """The group of pygal's drawing that holds axes and bars."""
    pygal = _pygal()
    chart = pygal.HorizontalStackedBar(
        js=[],
        width=room.width,
        height=height,
        margin=4,
        spacing=6,
        show_legend=False,
        print_values=False,
        show_y_guides=False,
        show_x_guides=True,
        x_labels_major_count=6,
        truncate_label=-1,
        style=pygal.style.Style(label_font_size=12, major_label_font_size=12),
    )
    # Only the width of a label matters to the layout; pygal draws the last one on top.
    widths = [width_em(fitting(label, room.label_em)) for label in reversed(data.labels)]
    chart.x_labels = ["m" * math.ceil(width / CHARACTER_EM) for width in widths]
    for series in data.series:
        chart.add("", [float(value) for value in reversed(series.values)])
    chart.y_labels = _marks(data, room)
    root = chart.render_tree()
    return next(g for g in root.iter("g") if g.get("class") == "plot")


def _marks(data: BarData, room: Room) -> list[float]:
    """Where the scale is marked: at multiples of 1, 2 or 5 times a power of ten, of bytes of a power of two."""
    longest = max(map(sum, zip(*(series.values for series in data.series), strict=True)), default=0)
    least = longest / (room.marks - 1)
    if data.unit == "bytes":
        step = float(1 << max(0, math.ceil(least) - 1).bit_length())
    else:
        power = 10.0 ** math.floor(math.log10(least or 1))
        step = next((factor * power for factor in (1, 2, 5) if factor * power >= least), 10 * power)
    return [step * n for n in range(math.floor(longest / step) + 1)]


def _pygal() -> Any:
    """pygal, which takes its time to import and which few pages need."""
    import pygal

    # It leaves an import hook behind, for plugins, by a protocol that Python has given up and warns of at every import.
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != pygal.__name__]
    return pygal


def _guides(plot: Any, axis: Any, data: BarData, room: Room) -> None:
    left = float(plot.get("transform", "").removeprefix("translate(").partition(",")[0] or 0)
    written = axis_texts(_marks(data, room), data.unit)
    for guide, words in zip(axis.iterfind("g"), written, strict=True):
        for path in guide.iterfind("path"):
            element(plot, "path", {"d": path.get("d", ""), "class": "bars-guide"})
        for text in guide.iterfind("text"):
            place = _at(text) | {"class": "bars-scale", "text-anchor": "middle"}
            # In the middle below its line, but not over the edge of the drawing.
            if float(place["x"]) + left + width_em(words) * SCALE_PX / 2 > room.width:
                place |= {"x": str(room.width - left), "text-anchor": "end"}
            element(plot, "text", place).text = words


def _bar_labels(plot: Any, axis: Any, data: BarData, room: Room) -> None:
    for text, label in zip(axis.iterfind("g/text"), reversed(data.labels), strict=True):
        shown = element(plot, "text", _at(text) | {"class": "bars-label", "text-anchor": "end"})
        shown.text = fitting(label, room.label_em)
        element(shown, "title", {}).text = clean(label)


def _bars(plot: Any, part: Any, data: BarData, number: int) -> None:
    series = data.series[number]
    sums = [sum(s.values[n] for s in data.series) for n in range(len(data.labels))]
    places = range(len(data.labels) - 1, -1, -1)
    for rect, bar in zip((rect for rect in part.iter("rect")), places, strict=True):
        value = series.values[bar]
        if not value:
            continue
        shape = {name: rect.get(name, "0") for name in ("x", "y", "width", "height")}
        drawn = element(plot, "rect", shape | {"class": f"bars-part {colour_class(data, number)}"})
        name = f"{series.name} ({series.module})" if series.module else series.name
        share = percent(100 * value / sums[bar]) if sums[bar] else ""
        shown = quantity(value, data.unit).text
        said = f"{name}\n{shown}, {share} of the bar" if data.by_function else shown
        element(drawn, "title", {}).text = clean(f"{data.labels[bar]}\n{said}")


def _legend(svg: Any, data: BarData, top: int, room: Room) -> None:
    for number, series in enumerate(data.series):
        y = top + LEGEND_ROW * number
        swatch = {
            "x": "4",
            "y": str(y),
            "width": "12",
            "height": "12",
            "class": f"bars-part {colour_class(data, number)}",
        }
        element(svg, "rect", swatch)
        text = element(svg, "text", {"x": "24", "y": str(y + 10), "class": "bars-legend"})
        short, full = (
            f"{series.name} ({module})" if module else series.name
            for module in (last_part(series.module), series.module)
        )
        text.text = clean(shortened(short, room.characters))
        element(text, "title", {}).text = clean(full)


def _text_only(message: str, room: Room) -> str:
    place = {"viewBox": f"0 0 {room.width} 40", "class": f"bars {room.css}", "role": "img"}
    svg = element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg"} | place)
    element(svg, "text", {"x": "4", "y": "24", "class": "bars-legend"}).text = clean(message)
    return ElementTree.tostring(svg, encoding="unicode")


def element(parent: Any, tag: str, attributes: dict[str, str]) -> Any:
    """A new element, in another one or (None) the outermost."""
    if parent is None:
        return ElementTree.Element(tag, attributes)
    return ElementTree.SubElement(parent, tag, attributes)


def _at(text: Any) -> dict[str, str]:
    return {"x": text.get("x", "0"), "y": text.get("y", "0")}


def clean(text: str) -> str:
    """`text` with what XML cannot hold (control characters, half surrogates) replaced by U+FFFD."""
    return "".join(
        c if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff" else "\ufffd"
        for c in text
    )


def width_em(text: str) -> float:
    """What a line of `text` may take in the fonts of a page, in its size: as much as in the wider ones of them."""
    return sum(_em(character) for character in text)


def _em(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if not character.isascii():
        return 1.4 if unicodedata.east_asian_width(character) in "WF" else 1.0
    if character in "ijltfrIJ.,:;'|!()[] /-\\`\"":
        return 0.46
    if character in "mwMW@%":
        return 1.0
    return 0.85 if character.isupper() or character in "#&+<=>~^" else 0.64


def fitting(text: str, em: float) -> str:
    """`text`, cleaned and its middle left out where it may be wider than that."""
    text = clean(text)
    longest = min(len(text), int(em / 0.4))
    while longest > 1 and width_em(shortened(text, longest)) > em:
        longest -= 1
    return shortened(text, longest)


def shortened(text: str, longest: int) -> str:
    """`text`, its middle left out where it is longer than that."""
    if len(text) <= longest:
        return text
    head = longest // 2
    return f"{text[:head]}…{text[len(text) - (longest - head - 1) :]}"
