"""The scatter of the page of ratios: its dots, axes, what is not on them, and what is in the box."""

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from ....analysis.ratios.frame_values import mean_of
from ....analysis.ratios.function_sums import BY
from ....analysis.ratios.metrics import RatioMetric
from ....analysis.ratios.scatter import MAX_DOTS, Scatter, ScatterSpec, focus_pattern
from ....charts.scatter import (
    ScatterAxis,
    draw_dots,
    draw_levels,
    draw_x_labels,
    draw_y_labels,
    fit_axis,
    weight_levels,
)
from ....domain.arrays import Array
from ....domain.profile import Profile
from ....domain.symbols.short_names import shorten_distinct
from ....domain.text import shorten
from ....domain.units import format_axis_labels, format_ratio, format_text
from ..results.result_frame import ResultFrame
from ..results.tables import current_url_with
from .parameters import APART, BOX_PARAMETERS, RatioRequest

MAX_NAMES = 20
MAX_TIP_CHARS = 300
MAX_NAMED = 40
"""Of the heaviest dots, so many get labels where there is room."""
NO_BOX = (*((word, None) for word in BOX_PARAMETERS), ("page", None))


@dataclass(frozen=True)
class ApartDots:
    """Dots that are not on the axes. text: how many, and why. names: of the heaviest. more: how many others. url: the
    table of them; everything: the table of all, empty where that is shown."""

    text: str
    names: tuple[str, ...]
    more: int
    url: str
    everything: str


@dataclass(frozen=True)
class SelectedBox:
    """The functions in the box. text: how many. focus: the page with a focus on them, empty without any. graph: the
    flame graph with it. note: what the focus lacks. clear: the page without the box. is_one: whether it is one."""

    text: str
    focus: str
    graph: str
    note: str
    clear: str
    is_one: bool


@dataclass(frozen=True)
class ScatterChart:
    """The scatter. svg, x_labels, y_labels, levels: SVG without scripts. x, y: its axes for the script. x_title,
    y_title: what is on them. summary: the scatter in a sentence. left_out: what is not
    drawn, in sentences. apart: None if all dots are on the axes. box: None without one. units: of the numbers of the
    box. is_difference: whether there is a reference."""

    svg: Markup
    x_labels: Markup
    y_labels: Markup
    levels: Markup
    level_labels: tuple[str, ...]
    x: ScatterAxis
    y: ScatterAxis
    x_title: str
    y_title: str
    units: tuple[str, str]
    color_title: str
    summary: str
    left_out: tuple[str, ...]
    apart: ApartDots | None
    box: SelectedBox | None
    is_difference: bool


def build_chart(frame: ResultFrame, profile: Profile, asked: RatioRequest, scatter: Scatter) -> ScatterChart:
    """The chart of the dots of a request."""
    spec = asked.spec
    rows = np.flatnonzero(scatter.drawn)
    axes = tuple(
        fit_axis(values[rows], scale == "log")
        for values, scale in zip((scatter.x, scatter.y), spec.scales, strict=True)
    )
    x, y = axes
    title_x, title_y = (
        _axis_title(metric, spec, scale) for metric, scale in zip((spec.x, spec.y), spec.scales, strict=True)
    )
    weight = scatter.weight[rows]
    most = float(np.abs(weight).max(initial=0))
    means = tuple(_mean_line(scatter, metric, spec, at) for at, metric in enumerate((spec.x, spec.y)))
    # `charts.scatter` escapes every text and uses neither script nor style; tests check this.
    return ScatterChart(
        svg=Markup(
            draw_dots(
                f"Functions by {title_x} and {title_y}",
                (x, y),
                scatter.x[rows],
                scatter.y[rows],
                weight_levels(weight),
                _tips(frame, profile, scatter, spec, rows),
                means=(means[0], means[1]),
                box=asked.box or None,
                names=_labels_of_dots(profile, scatter, rows),
            )
        ),
        x_labels=Markup(draw_x_labels(x, _labels(x, spec.x, spec, 0))),
        y_labels=Markup(draw_y_labels(y, _labels(y, spec.y, spec, 1))),
        levels=Markup(draw_levels()),
        # Colors are by the square root: the middle one is of a quarter of the weight.
        level_labels=format_axis_labels((0, most / 4, most), frame.unit),
        x=x,
        y=y,
        x_title=title_x,
        y_title=title_y,
        units=(_field_unit(spec.x, spec, 0), _field_unit(spec.y, spec, 1)),
        color_title=f"{frame.event} ({spec.part})",
        summary=_summarize(scatter, rows),
        left_out=_list_left_out(scatter, spec),
        apart=_find_apart(profile, scatter, asked),
        box=_select(frame, profile, scatter, asked) if asked.box else None,
        is_difference=bool(spec.reference),
    )


def _axis_title(metric: RatioMetric, spec: ScatterSpec, scale: str) -> str:
    unit = f", {metric.unit}" if metric.unit and not metric.is_event else ""
    name = f"{shorten(metric.text, 80)} ({spec.part}{unit})"
    if spec.reference:
        name = f"{name} {'÷' if scale == 'log' else '−'} {spec.reference}"
    return f"{name}, logarithmic" if scale == "log" else name


def _is_quotient(spec: ScatterSpec, at: int) -> bool:
    return bool(spec.reference) and spec.scales[at] == "log"


def _field_unit(metric: RatioMetric, spec: ScatterSpec, at: int) -> str:
    return "" if _is_quotient(spec, at) else metric.unit


def _labels(axis: ScatterAxis, metric: RatioMetric, spec: ScatterSpec, at: int) -> tuple[str, ...]:
    ticks = axis.ticks()
    if _is_quotient(spec, at) or not metric.is_event:
        # Of a round step a tick can be 0.30000000000000004.
        return tuple(format_ratio(round(tick, 12) if abs(tick) > 1e-9 else tick, "") for tick in ticks)
    return format_axis_labels(ticks, metric.unit or "count")


def _mean_line(scatter: Scatter, metric: RatioMetric, spec: ScatterSpec, at: int) -> float:
    """The line of the formula of the whole, or of no difference; NaN for events."""
    if spec.reference:
        return 1.0 if spec.scales[at] == "log" else 0.0
    return np.nan if metric.is_event else mean_of(scatter.sums, metric)


def _tips(frame: ResultFrame, profile: Profile, scatter: Scatter, spec: ScatterSpec, rows: Array) -> list[str]:
    names, _, places = scatter.sums.take(rows).names(profile)
    lines = [
        _value_lines(metric, spec, at, values[rows])
        for at, (metric, values) in enumerate(((spec.x, scatter.x), (spec.y, scatter.y)))
    ]
    # The weight is not repeated if an axis shows it.
    if spec.reference or frame.event not in (spec.x.text, spec.y.text):
        weights = scatter.weight[rows].tolist()
        lines.append([f"{frame.event} {format_text(weight, frame.unit)}" for weight in weights])
    heads = [
        shorten(name, MAX_TIP_CHARS) + (f" · {place}" if place else "")
        for name, place in zip(names, places, strict=True)
    ]
    return ["\n".join(tip) for tip in zip(heads, *lines, strict=True)]


def _labels_of_dots(profile: Profile, scatter: Scatter, rows: Array) -> list[str]:
    """Short names of the heaviest dots."""
    names, _, places = scatter.sums.take(rows[:MAX_NAMED]).names(profile)
    short = shorten_distinct(names)
    return [short(name) + (f" · {place}" if place else "") for name, place in zip(names, places, strict=True)]


def _value_lines(metric: RatioMetric, spec: ScatterSpec, at: int, values: Array) -> list[str]:
    name = shorten(metric.text, 80)
    if metric.is_event and not _is_quotient(spec, at):
        return [f"{name} {metric.format(value)}" for value in values.tolist()]
    unit = _field_unit(metric, spec, at)
    return [f"{name} {format_ratio(value, unit)}" for value in values.tolist()]


def _summarize(scatter: Scatter, rows: Array) -> str:
    return f"{len(rows):,} of {len(scatter.x):,} dots are drawn. The table below has the same values."


def _list_left_out(scatter: Scatter, spec: ScatterSpec) -> tuple[str, ...]:
    lines = []
    hidden = int(scatter.on_axes.sum() - scatter.drawn.sum())
    if hidden:
        lines.append(f"The {MAX_DOTS:,} dots with the most weight are drawn; {hidden:,} others are only in the table.")
    if scatter.sums.left_out:
        lines.append(
            f"{scatter.sums.left_out:,} functions with less weight are left out: with several {spec.by}s, about "
            f"{MAX_DOTS:,} dots are computed. Focus on other functions to see them; perfloom report ratios --by "
            f"{spec.by} has all."
        )
    return tuple(lines)


def _find_apart(profile: Profile, scatter: Scatter, asked: RatioRequest) -> ApartDots | None:
    rows = np.flatnonzero(~scatter.on_axes)
    if not len(rows):
        return None
    missing = int((np.isnan(scatter.x[rows]) | np.isnan(scatter.y[rows])).sum())
    parts = []
    if missing:
        parts.append(f"{missing:,} without a value (–)")
    if len(rows) - missing:
        parts.append(f"{len(rows) - missing:,} with 0 or less on a logarithmic axis")
    names, _, places = scatter.sums.take(rows[:MAX_NAMES]).names(profile)
    shown = tuple(
        shorten(name, 80) + (f" · {place}" if place else "") for name, place in zip(names, places, strict=True)
    )
    return ApartDots(
        text=f"Not on the axes: {', '.join(parts)}",
        names=shown,
        more=len(rows) - len(shown),
        url=current_url_with(("dots", APART), *NO_BOX),
        everything=current_url_with(("dots", None), ("page", None)) if asked.only_apart else "",
    )


def _select(frame: ResultFrame, profile: Profile, scatter: Scatter, asked: RatioRequest) -> SelectedBox:
    inside = np.flatnonzero(scatter.inside(asked.box))
    functions = scatter.sums.function[inside]
    # The heaviest first.
    functions = functions[np.sort(np.unique(functions, return_index=True)[1])]
    text = f"{len(functions):,} function{'s' if len(functions) != 1 else ''}"
    if asked.spec.by != BY[0]:
        text += f" in {len(inside):,} dot{'s' if len(inside) != 1 else ''}"
    pattern, fits = focus_pattern(profile, functions)
    note = ""
    if fits < len(functions):
        note = f"A focus has room for {fits:,} of them, those with the most weight."
    chosen = frame.selection.focus_on(pattern) if pattern else frame.selection
    kept = [(word, value) for word, value in frame.page_params if word not in BOX_PARAMETERS]
    return SelectedBox(
        text=text,
        focus=frame.url(None, chosen, *kept) if pattern else "",
        graph=frame.url("flamegraph", chosen) if pattern else "",
        note=note,
        clear=current_url_with(*NO_BOX),
        is_one=len(functions) == 1,
    )
