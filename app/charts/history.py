"""The chart of a history: a dot for each run with its interval, and a line with its interval for each level.

SVG without script or inline style. Positions are shares of the box in the page, so that dots stay round and text keeps
its size. Colors come from static/css/history.css by class.
"""

from collections.abc import Sequence
from xml.etree import ElementTree

import numpy as np

from ..analysis.compare.history import Levels
from ..domain.arrays import Array
from .axis import label_stride
from .scatter import ScatterAxis, fit_axis, to_share
from .svg import add_element, strip_invalid_xml

RADIUS = "5"
SHARE_OF_STEP = 0.5
"""Levels extend this much of the distance between two runs beyond their first and last run."""
LABEL_FONT_PX = 12
WIDTH_PX = 900
"""For which labels are chosen; in narrower windows every other one is hidden."""


def fit_history_axis(values: Array, low: Array, high: Array, levels: Levels) -> ScatterAxis:
    """The axis for all values, their intervals and the levels."""
    ends = [end for level in levels.levels for end in (level.low, level.high)]
    every = np.concatenate((values, low, high, np.array(ends, np.float64)))
    return fit_axis(every[np.isfinite(every)], is_log=False)


def draw_history(
    title: str,
    axis: ScatterAxis,
    values: Array,
    low: Array,
    high: Array,
    levels: Levels,
    tips: Sequence[str],
    urls: Sequence[str],
) -> str:
    """The chart. low, high: the interval of each value. tips: the text of each dot. urls: where it leads, empty for
    nowhere."""
    svg = add_element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "history-dots", "role": "group"})
    svg.set("aria-label", strip_invalid_xml(title))
    count = len(values)
    for tick in axis.ticks():
        y = to_share(1 - axis.place(tick))
        add_element(svg, "line", {"x1": "0", "x2": "100%", "y1": y, "y2": y, "class": "history-guide"})
    for number, level in enumerate(levels.levels):
        left, right = (to_share(_place(at, count)) for at in (level.first - SHARE_OF_STEP, level.end - SHARE_OF_STEP))
        if np.isfinite(level.low):
            top, bottom = 1 - axis.place(level.high), 1 - axis.place(level.low)
            width = to_share(_place(level.end, count) - _place(level.first, count))
            place = {"x": left, "width": width, "y": to_share(top), "height": to_share(bottom - top)}
            add_element(svg, "rect", place | {"class": "history-band"})
        y = to_share(1 - axis.place(level.mean))
        add_element(svg, "line", {"x1": left, "x2": right, "y1": y, "y2": y, "class": "history-level"})
        if number:
            add_element(svg, "line", {"x1": left, "x2": left, "y1": "0", "y2": "100%", "class": "history-change"})
    for at in range(count):
        x = to_share(_place(at, count))
        if low[at] < high[at]:
            ends = {
                "y1": to_share(1 - axis.place(float(high[at]))),
                "y2": to_share(1 - axis.place(float(low[at]))),
            }
            add_element(svg, "line", {"x1": x, "x2": x, "class": "history-interval"} | ends)
        parent = (
            add_element(svg, "a", {"href": urls[at], "aria-label": strip_invalid_xml(tips[at])}) if urls[at] else svg
        )
        css = "history-dot history-dot--new" if any(change.at == at for change in levels.changes) else "history-dot"
        y = to_share(1 - axis.place(float(values[at])))
        dot = add_element(parent, "circle", {"cx": x, "cy": y, "r": RADIUS, "class": css})
        add_element(dot, "title", {}).text = strip_invalid_xml(tips[at])
    return ElementTree.tostring(svg, encoding="unicode")


def draw_history_labels(labels: Sequence[str]) -> str:
    """The labels of the runs below the chart, as many as fit; all but every third have a class, to hide them where
    there is little room."""
    svg = add_element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "scatter-x", "aria-hidden": "true"})
    count = len(labels)
    stride = label_stride(labels, WIDTH_PX / max(1, count), LABEL_FONT_PX)
    for number, at in enumerate(range(0, count, stride)):
        share = _place(at, count)
        anchor = "start" if share < 0.06 else "end" if share > 0.94 else "middle"
        css = {"class": "scatter-minor"} if number % 3 else {}
        text = add_element(svg, "text", {"x": to_share(share), "y": "16", "text-anchor": anchor} | css)
        text.text = strip_invalid_xml(labels[at])
    return ElementTree.tostring(svg, encoding="unicode")


def _place(at: float, count: int) -> float:
    return (at + 0.5) / max(1, count)
