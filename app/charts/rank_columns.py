"""The load balance of an event: a column per rank, or per group of adjacent ranks, and their mean.

An SVG without script or inline style, of the same size for a hundred thousand ranks as for a hundred; colors come from
static/css/bars.css by class.
"""

from dataclasses import dataclass, replace
from xml.etree import ElementTree

from ..domain.units import format_quantity
from .layout import Area, bar_layout
from .svg import add_element, strip_invalid_xml

WIDTH, HEIGHT, LABEL_HEIGHT = 960, 96, 14
MAX_COLUMNS = 256


@dataclass(frozen=True)
class RankValue:
    """The value of a rank: None if it is unknown, with the reason in `note`."""

    rank: int
    value: int | float | None
    host: str = ""
    note: str = ""


@dataclass(frozen=True)
class RankBalance:
    """Statistics of values by rank. mean: of known values. max, min: the first rank with the
    greatest and the least. over_mean: the greatest value as a multiple of the mean; None where that is 0."""

    ranks: int
    hosts: int
    mean: float
    max: RankValue
    min: RankValue
    over_mean: float | None


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


def draw_rank_columns(event: str, unit: str, values: list[RankValue], note: RankBalance) -> str:
    """The columns as SVG. values: in the order of ranks."""
    size = -(-len(values) // MAX_COLUMNS)
    columns = [values[start : start + size] for start in range(0, len(values), size)]
    top = max(float(note.max.value or 0), 0.0)
    step = WIDTH / len(columns)
    svg = add_element(None, "svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "ranks", "role": "img"})
    svg.set("viewBox", f"0 0 {WIDTH} {HEIGHT + LABEL_HEIGHT}")
    add_element(svg, "title", {}).text = strip_invalid_xml(
        f"{event} by rank: {format_quantity(note.mean, unit).text} on average"
    )
    known = [[float(one.value) for one in column if one.value is not None] for column in columns]
    least, more = zip(
        *((min(some, default=0.0), max(some, default=0.0) - min(some, default=0.0)) for some in known), strict=True
    )
    drawn = bar_layout([least, more], Area(0, 0, WIDTH, HEIGHT), top, gap=min(0.2, 2.0 / step))
    for column, some, below, above in zip(columns, known, *drawn, strict=True):
        group = add_element(svg, "g", {"class": "ranks-column"})
        add_element(group, "title", {}).text = strip_invalid_xml(_format_tooltip(column, unit, note))
        if above.height:
            whole = replace(above, height=above.height + below.height)
            add_element(group, "rect", whole.attributes | {"class": "ranks-most"})
        if some:
            add_element(group, "rect", below.attributes | {"class": "ranks-least"})
        if len(some) < len(column):
            missing = replace(below, y=HEIGHT - 4, height=4)
            add_element(group, "rect", missing.attributes | {"class": "ranks-missing"})
    if top and note.mean >= 0:
        level = f"{HEIGHT - HEIGHT * note.mean / top:.2f}"
        add_element(svg, "path", {"d": f"M0 {level}H{WIDTH}", "class": "ranks-mean"})
    for at, anchor, one in ((0, "start", values[0]), (WIDTH, "end", values[-1])):
        text = add_element(svg, "text", {"x": str(at), "y": str(HEIGHT + LABEL_HEIGHT - 2), "text-anchor": anchor})
        text.text = f"rank {one.rank}"
    return ElementTree.tostring(svg, encoding="unicode")


def _format_tooltip(column: list[RankValue], unit: str, balance: RankBalance) -> str:
    first, last = column[0], column[-1]
    values = [one.value for one in column if one.value is not None]
    if first is last:
        where = f" on {first.host}" if first.host else ""
        if first.value is None:
            return f"rank {first.rank}{where}: {first.note or 'no data'}"
        share = f", {first.value / balance.mean:.2f} × the mean" if balance.mean else ""
        return f"rank {first.rank}{where}: {format_quantity(first.value, unit).text}{share}"
    missing = len(column) - len(values)
    words = f"{format_quantity(min(values), unit).text} to {format_quantity(max(values), unit).text}" if values else ""
    words += (", " if values and missing else "") + (f"no data for {missing}" if missing else "")
    return f"ranks {first.rank} to {last.rank}: {words}"
