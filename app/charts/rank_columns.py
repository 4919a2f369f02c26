"""The load balance of an event: a column per rank, or per group of adjacent ranks, and their mean.

An SVG without script or inline style, of the same size for a hundred thousand ranks as for a hundred; colors come from
static/css/bars.css by class.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from xml.etree import ElementTree

from ..domain.units import format_axis_labels, format_quantity
from .axis import label_stride
from .layout import Area, bar_layout
from .svg import add_element, add_link, measure_text_em, strip_invalid_xml

WIDTH, HEIGHT, LABEL_HEIGHT = 960, 96, 14
SCALE_PX, LEVEL_GAP = 11, 6
"""The size of text, in static/css/bars.css, and the space between a label and the columns."""
MAX_COLUMNS = 256
LEGEND = (
    ("ranks-least", "least of adjacent ranks"),
    ("ranks-most", "most of adjacent ranks"),
    ("ranks-missing", "no data"),
    ("ranks-mean", "mean"),
)


@dataclass(frozen=True)
class RankValue:
    """The value of a rank: None if it is unknown, with the reason in `note`."""

    rank: int
    value: int | float | None
    host: str = ""
    note: str = ""


@dataclass(frozen=True)
class RankBalance:
    """Statistics of values by rank. mean: of known values. max, min: the first rank with the greatest and the least.
    over_mean: the greatest value as a multiple of the mean; None where that is 0. together: the mean is instead the
    value of all ranks together, as of a formula."""

    ranks: int
    hosts: int
    mean: float
    max: RankValue
    min: RankValue
    over_mean: float | None
    together: bool = False


def measure_balance(values: list[RankValue]) -> RankBalance | None:
    """The load balance; None if fewer than two values are known."""
    known = [value for value in values if value.value is not None]
    if len(known) < 2:
        return None
    mean = sum(value.value or 0 for value in known) / len(known)
    most, least = (pick(known, key=lambda value: value.value or 0) for pick in (max, min))
    return RankBalance(
        ranks=len(values),
        hosts=len({value.host for value in values if value.host}),
        mean=mean,
        max=most,
        min=least,
        over_mean=(most.value or 0) / mean if mean > 0 else None,
    )


def list_legend(svg: str, together: bool = False) -> tuple[tuple[str, str], ...]:
    """(class, label) of the colors of a drawing. Without adjacent ranks in one column, each rank has one. together: see
    `RankBalance`."""
    labels = dict(LEGEND) | ({"ranks-mean": "all ranks together"} if together else {})
    drawn = [(css, label) for css, label in labels.items() if f'class="{css}"' in svg]
    grouped = any(css == "ranks-most" for css, _ in drawn)
    return tuple((css, label if grouped or css != "ranks-least" else "each rank") for css, label in drawn)


def draw_rank_columns(
    event: str, unit: str, values: list[RankValue], note: RankBalance, rank_url: Callable[[int], str] | None = None
) -> str:
    """The columns as SVG with their scale. values: in the order of ranks. rank_url: makes the link of a column of one
    rank."""
    size = -(-len(values) // MAX_COLUMNS)
    columns = [values[start : start + size] for start in range(0, len(values), size)]
    top = max(float(note.max.value or 0), 0.0)
    levels = format_axis_labels((top, 0), unit)
    left = math.ceil(max(map(measure_text_em, levels)) * SCALE_PX + LEVEL_GAP)
    area = Area(left, SCALE_PX, WIDTH - left, HEIGHT)
    bottom, step = area.y + HEIGHT, area.width / len(columns)
    # Images must not contain links.
    role = "group" if rank_url and size == 1 else "img"
    svg = add_element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "ranks", "role": role})
    svg.set("viewBox", f"0 0 {WIDTH} {bottom + LABEL_HEIGHT}")
    add_element(svg, "title", {}).text = strip_invalid_xml(
        f"{event} by rank: {format_quantity(note.mean, unit).text} {'together' if note.together else 'on average'}"
    )
    known = [[float(one.value) for one in column if one.value is not None] for column in columns]
    least, more = zip(
        *((min(some, default=0.0), max(some, default=0.0) - min(some, default=0.0)) for some in known), strict=True
    )
    for level, y in zip(levels, (area.y, bottom), strict=True):
        add_element(svg, "path", {"d": f"M{left} {y}H{WIDTH}", "class": "ranks-guide"})
        place = {"x": str(left - LEVEL_GAP), "y": f"{y + 0.35 * SCALE_PX:.2f}", "text-anchor": "end"}
        add_element(svg, "text", place).text = level
    drawn = bar_layout([least, more], area, top, gap=min(0.2, 2.0 / step))
    for column, some, below, above in zip(columns, known, *drawn, strict=True):
        words = _format_tooltip(column, unit, note)
        url = rank_url(column[0].rank) if rank_url and size == 1 else ""
        group = add_link(svg, url, words, "ranks-column")
        add_element(group, "title", {}).text = strip_invalid_xml(words)
        if above.height:
            whole = replace(above, height=above.height + below.height)
            add_element(group, "rect", whole.attributes | {"class": "ranks-most"})
        if some:
            add_element(group, "rect", below.attributes | {"class": "ranks-least"})
        if len(some) < len(column):
            missing = replace(below, y=bottom - 4, height=4)
            add_element(group, "rect", missing.attributes | {"class": "ranks-missing"})
    if top and note.mean >= 0:
        height = f"{bottom - HEIGHT * note.mean / top:.2f}"
        add_element(svg, "path", {"d": f"M{left} {height}H{WIDTH}", "class": "ranks-mean"})
    baseline = f"{bottom + LABEL_HEIGHT - 2}"
    labels = [f"rank {one.rank}" for one in values]
    if size == 1:
        stride = label_stride(labels, step, SCALE_PX)
        places = [(left + step * (n + 0.5), "middle", labels[n]) for n in range(0, len(labels), stride)]
    else:
        places = [(float(left), "start", labels[0]), (float(WIDTH), "end", labels[-1])]
    for x, anchor, label in places:
        add_element(svg, "text", {"x": f"{x:.2f}", "y": baseline, "text-anchor": anchor}).text = label
    return ElementTree.tostring(svg, encoding="unicode")


def _format_tooltip(column: list[RankValue], unit: str, balance: RankBalance) -> str:
    first, last = column[0], column[-1]
    values = [one.value for one in column if one.value is not None]
    if first is last:
        where = f" on {first.host}" if first.host else ""
        if first.value is None:
            return f"rank {first.rank}{where}: {first.note or 'no data'}"
        share = (
            f", {first.value / balance.mean:.2f} × {'all together' if balance.together else 'the mean'}"
            if balance.mean
            else ""
        )
        return f"rank {first.rank}{where}: {format_quantity(first.value, unit).text}{share}"
    missing = len(column) - len(values)
    words = f"{format_quantity(min(values), unit).text} to {format_quantity(max(values), unit).text}" if values else ""
    words += (", " if values and missing else "") + (f"no data for {missing}" if missing else "")
    return f"ranks {first.rank} to {last.rank}: {words}"
