"""Bars of an event by process, thread, rank or host, stacked by function.

Each bar is an SVG without script, style or inline style that stretches to its box in the page; its labels and values
are text of the page. Colors come from static/css/bars.css by class.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..analysis.core.functions import KIND_NAMES, functions_of
from ..analysis.core.sample_selection import event_names
from ..analysis.counts.shares import EventShares, build_shares
from ..analysis.formulas.measures import display_unit
from ..analysis.stacks.hotspots import function_kinds
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.tables import NO_ID, get_strings
from ..domain.units import MISSING, Quantity, format_percent, format_quantity, format_text
from .svg import escape_text

TOP_FUNCTIONS = 8
MAX_BARS = 24
WIDTH, HEIGHT = 100, 6
"""In units of a drawing, which has no proportions."""


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
    """Bars of one event, the longest first. labels: of the bars. totals: of each. longest: the largest total, also of
    bars that are not shown. bars: number of all bars. functions: number of all functions. total: of the event,
    including omitted bars. by_function: False if the event was not sampled, so its functions are unknown and the bars
    have one color; also for a formula (is_formula), whose values are not sums of parts. running_percent: of counts, the
    share of the time with a hardware counter. note: why there is no total.
    """

    event: str
    unit: str
    by: str
    labels: tuple[str, ...]
    totals: tuple[int | float, ...]
    series: tuple[BarSeries, ...]
    total: int | float | None
    longest: int | float
    bars: int
    functions: int
    by_function: bool = True
    running_percent: float | None = None
    note: str = ""
    is_formula: bool = False


@dataclass(frozen=True)
class BarScale:
    """How values of an event are written. reference: the value that is 100 %, or per_s: the seconds that values are
    divided by; both None: as they are."""

    unit: str
    reference: int | float | None = None
    per_s: float | None = None

    def format(self, value: int | float | None) -> Quantity:
        """A value on this scale, and the exact value."""
        if value is None:
            return Quantity(None, MISSING, "unknown")
        if self.reference is not None:
            percent = 100 * value / self.reference
            return Quantity(percent, format_percent(percent), format_quantity(value, self.unit).exact)
        if self.per_s is not None:
            rate = format_quantity(value / self.per_s, self.unit)
            return Quantity(rate.value, f"{rate.text}/s", f"{rate.exact}/s")
        return format_quantity(value, self.unit)

    def format_text(self, value: int | float) -> str:
        """The text of `format`."""
        if self.reference is not None:
            return format_percent(100 * value / self.reference)
        return f"{format_text(value / self.per_s, self.unit)}/s" if self.per_s else format_text(value, self.unit)


def build_bars(
    profile: Profile,
    selection: Selection,
    by: str = "process",
    *,
    top: int = TOP_FUNCTIONS,
    bars: int = MAX_BARS,
    first_function: int = 0,
    first_bar: int = 0,
) -> BarData:
    """The bars of the selected event, see `describe_bars`. Raises InvalidRequest."""
    shares = build_shares(profile, selection, by)
    return describe_bars(profile, shares, top=top, bars=bars, first_function=first_function, first_bar=first_bar)


def describe_bars(
    profile: Profile,
    shares: EventShares,
    *,
    top: int = TOP_FUNCTIONS,
    bars: int = MAX_BARS,
    first_function: int = 0,
    first_bar: int = 0,
) -> BarData:
    """The bars of an event, stacked by function.

    `top` functions, from the one at `first_function` in the order of their weight, have their own series; the rest,
    samples without a stack and counts without samples are "other". The `bars` bars from `first_bar` are shown.
    """
    shown = range(len(shares.participants))[first_bar : first_bar + bars]
    functions = shares.functions[first_function : first_function + top].tolist()
    table = shares.sum_parts(shown, functions)
    known, kinds = functions_of(profile), function_kinds(profile)
    series = [
        BarSeries(
            name=known.name_of(function),
            module=known.module_of(function),
            kind=KIND_NAMES[kinds[function]],
            other=False,
            values=tuple(table[:, n].tolist()),
        )
        for n, function in enumerate(functions)
    ]
    totals = tuple(shares.totals[bar] for bar in shown)
    others = tuple(total - part for total, part in zip(totals, table.sum(axis=1).tolist(), strict=True))
    if any(others) or not series:
        series.append(BarSeries("other", "", "unknown", True, others))
    event = shares.event
    return BarData(
        event=shares.formula.name if shares.formula else event_names(profile)[event] if event != NO_ID else "",
        unit=display_unit(shares.formula)
        if shares.formula
        else get_strings(profile.events, "unit")[event]
        if event != NO_ID
        else "count",
        by=shares.by,
        labels=tuple(shares.participants[bar] for bar in shown),
        totals=totals,
        series=tuple(series),
        total=shares.total,
        longest=max(shares.totals, default=0),
        bars=len(shares.participants),
        functions=len(shares.functions),
        by_function=shares.by_function,
        running_percent=shares.running_percent,
        note=shares.note,
        is_formula=shares.formula is not None,
    )


def draw_bar(
    data: BarData, bar: int, scale: BarScale | None = None, url: Callable[[BarSeries], str] | None = None
) -> str:
    """One bar as SVG; its length is its share of the longest. All text is escaped.

    url: makes the link of the part of a function; empty for none.
    """
    scale = scale or BarScale(data.unit)
    # Images must not contain links.
    role = "group" if url and data.by_function else "img"
    label, total = data.labels[bar], data.totals[bar]
    # Written as text: a page has hundreds, and elements take three times as long.
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
        f'class="bars bars--row" role="{role}"><title>{escape_text(f"{label}: {scale.format_text(total)}")}</title>'
    ]
    at = 0.0
    for number, series in enumerate(data.series):
        value = series.values[bar]
        width = WIDTH * max(0, value) / data.longest if data.longest > 0 else 0.0
        if not width:
            continue
        name, text = format_series(series), scale.format_text(value)
        said = f"{name}\n{text}, {format_percent(100 * value / total)} of the bar" if data.by_function else text
        tip = escape_text(f"{label}\n{said}")
        link = url(series) if url and data.by_function and not series.other else ""
        drawn = (
            f'<rect x="{at:.3f}" y="0" width="{width:.3f}" height="{HEIGHT}" '
            f'class="bars-part {color_class(data, number)}"><title>{tip}</title></rect>'
        )
        if link:
            drawn = f'<a href="{escape_text(link)}" aria-label="{escape_text(f"{name}, {label}: {text}")}">{drawn}</a>'
        parts.append(drawn)
        at += width
    return "".join((*parts, "</svg>"))


def list_drawn_series(data: BarData) -> tuple[int, ...]:
    """The indices of the series that the bars shown have parts of, for a legend; none if the bars have one color."""
    if not data.by_function:
        return ()
    return tuple(number for number, series in enumerate(data.series) if any(series.values))


def format_series(series: BarSeries) -> str:
    """The function and its module."""
    return f"{series.name} ({series.module})" if series.module else series.name


def color_class(data: BarData, number: int) -> str:
    """The class of the parts of a series and of its legend entry."""
    if not data.by_function:
        return "bars-plain"
    return "bars-other" if data.series[number].other else f"bars-{number % TOP_FUNCTIONS + 1}"
