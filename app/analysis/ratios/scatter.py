"""Functions by two metrics: dots of a scatter plot."""

import math
import re
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, BoolArray, Float64Array
from ...domain.errors import InvalidRequest
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID
from ..core.functions import functions_of
from ..core.sample_selection import event_id, event_names
from ..core.schema import Column, TableRows, build_rows
from .function_sums import BY, NO_PLACE, FunctionSums, sum_functions, sum_places
from .metrics import RatioMetric, resolve_metric

MAX_DOTS = 2_000
MAX_FOCUS_CHARS = 2_000
MAX_VALUE = 1e300
"""Beyond it, distances of values are not finite."""
SCALES = ("log", "linear")
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
"""Only characters with a meaning in a pattern: there is room for more names than with all that RE2 escapes."""
COLUMNS = (
    Column("name", "", "Name of the function as displayed."),
    Column("module", "", "Program or library of the function."),
    Column("place", "", "The rank, process, thread or host; missing for all of them together."),
    Column("x", "", "The value of x_metric.", "Float64"),
    Column("y", "", "The value of y_metric.", "Float64"),
    Column("color", "", "The value of color_metric, which colors the flame graph.", "Float64"),
    Column("weight", "", "The weight of event here, in its unit.", "Float64"),
    Column("event", "", "The selected event."),
    Column("x_metric", "", "The event or formula of x."),
    Column("y_metric", "", "The event or formula of y."),
    Column("color_metric", "", "The formula that colors the flame graph."),
    Column("sums", "", "Of which sums they are: self or total."),
    Column("reference", "", "The place of which x and y are differences (linear) or quotients (log); else missing."),
    Column(
        "on_axes", "", "Whether both values are on the axes: they exist, and are above 0 on logarithmic ones.", "bool"
    ),
)
"""The columns of the dots as a file."""


@dataclass(frozen=True)
class ScatterSpec:
    """What a scatter shows. by: see BY. part: the sums, "self" or "total". reference: the place from which the
    difference is shown, "" for none. scales: of x and y, see SCALES."""

    x: RatioMetric
    y: RatioMetric
    by: str = BY[0]
    part: str = "total"
    reference: str = ""
    scales: tuple[str, str] = ("log", "linear")


@dataclass(frozen=True)
class Box:
    """A rectangle of a scatter, with its edges; None: without limit. x, y: (from, to)."""

    x: tuple[float | None, float | None]
    y: tuple[float | None, float | None]

    def __bool__(self) -> bool:
        return any(edge is not None for edge in (*self.x, *self.y))


@dataclass(frozen=True, eq=False)
class Scatter:
    """The dots, those with the most weight first. sums: of each. x, y: as shown, NaN is missing. value: of the metric
    that colors the flame graph. weight: of the event of the selection. on_axes: whether both values can be drawn.
    drawn: whether the dot is drawn. places: those to choose a reference from.
    """

    sums: FunctionSums
    x: Float64Array
    y: Float64Array
    value: Float64Array
    weight: Float64Array
    on_axes: BoolArray
    drawn: BoolArray
    places: tuple[str, ...]

    def inside(self, box: Box) -> BoolArray:
        """Which dots are in a rectangle, edges included. Values that are not on the axes are in none."""
        found = self.on_axes.copy()
        for values, (low, high) in ((self.x, box.x), (self.y, box.y)):
            found &= values >= (-math.inf if low is None else low)
            found &= values <= (math.inf if high is None else high)
        return found


def build_scatter(profile: Profile, selection: Selection, spec: ScatterSpec, color: RatioMetric) -> Scatter:
    """The dots of a selection. Raises InvalidRequest for an unknown reference.

    With a reference, a value is that of the dot minus that of the same function at the reference, on a logarithmic axis
    divided by it; the dots of the reference are not shown.
    """
    width = event_id(profile, selection.event)
    events = list(dict.fromkeys((width, *spec.x.events, *spec.y.events, *color.events)))
    if width == NO_ID:
        events = []
    if spec.by == BY[0]:
        sums = sum_functions(profile, selection, events)
    else:
        sums = sum_places(profile, selection, events, spec.by, spec.part, MAX_DOTS)
    sums = sums.take(np.argsort(-np.abs(_weight(sums, width, spec.part)), kind="stable"))
    places = tuple(sums.places[place] for place in np.unique(sums.place[sums.place != NO_PLACE]).tolist())
    of_part = sums.part(spec.part)
    values = [metric.evaluate(of_part) if events else np.zeros(0) for metric in (spec.x, spec.y, color)]
    if spec.reference:
        kept, values[:2] = _subtract(sums, values[:2], spec, places)
        sums, values = sums.take(kept), [one[kept] for one in values]
    x, y, value = values
    on_axes = _can_draw(x, spec.scales[0]) & _can_draw(y, spec.scales[1])
    drawn = np.zeros(len(x), bool)
    drawn[np.flatnonzero(on_axes)[:MAX_DOTS]] = True
    return Scatter(sums, x, y, value, _weight(sums, width, spec.part), on_axes, drawn, places)


def scatter_rows(
    profile: Profile, scatter: Scatter, spec: ScatterSpec, color: RatioMetric, event: str, *, complete: bool = True
) -> TableRows:
    """The dots as rows. event: the selected one. complete: with the columns that are the same in all rows."""
    names, modules, places = scatter.sums.names(profile)
    count = len(names)
    known = event in event_names(profile) and not resolve_metric(profile, event).unknown
    values: dict[str, object] = {
        "name": names,
        "module": modules,
        "place": places,
        "x": scatter.x,
        "y": scatter.y,
        "color": scatter.value,
        "weight": scatter.weight if known else np.full(count, np.nan),
    }
    if not complete:
        return build_rows(COLUMNS[: len(values)], values)
    values |= {
        "event": [event] * count,
        "x_metric": [spec.x.text] * count,
        "y_metric": [spec.y.text] * count,
        "color_metric": [color.text] * count,
        "sums": [spec.part] * count,
        "reference": [spec.reference or None] * count,
        "on_axes": scatter.on_axes,
    }
    return build_rows(COLUMNS, values)


def focus_pattern(profile: Profile, functions: Array) -> tuple[str, int]:
    """(the pattern that matches these functions by their names, how many of them have room in it)."""
    parts: list[str] = []
    size, count = len("^(?:)$"), 0
    known = set()
    for name in functions_of(profile).names_of(functions):
        part = _SPECIAL.sub(r"\\\g<0>", name)
        if name not in known:
            if size + len(part) + 1 > MAX_FOCUS_CHARS:
                break
            known.add(name)
            parts.append(part)
            size += len(part) + 1
        count += 1
    return (f"^(?:{'|'.join(parts)})$" if parts else ""), count


def _weight(sums: FunctionSums, event: int, part: str) -> Float64Array:
    weight = sums.part(part).get(event)
    return np.zeros(len(sums.function)) if weight is None else weight


def _can_draw(values: Float64Array, scale: str) -> BoolArray:
    found: BoolArray = (np.abs(values) < MAX_VALUE) & (values > (1 / MAX_VALUE if scale == "log" else -MAX_VALUE))
    return found


def _subtract(
    sums: FunctionSums, values: list[Float64Array], spec: ScatterSpec, places: tuple[str, ...]
) -> tuple[Array, list[Float64Array]]:
    """(the dots that are not the reference's, all values relative to it)."""
    if spec.by == BY[0] or spec.reference not in places:
        known = ", ".join(places[:20]) + (", …" if len(places) > 20 else "")
        raise InvalidRequest(
            f"reference must be one of {known}." if places else "There is no reference for dots of whole functions.",
            "reference",
        )
    at = sums.place == sums.places.index(spec.reference)
    rows = np.flatnonzero(at)
    order = np.argsort(sums.function[rows])
    known_functions = sums.function[rows][order]
    slot = np.minimum(np.searchsorted(known_functions, sums.function), len(rows) - 1)
    found = known_functions[slot] == sums.function
    relative = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for value, scale in zip(values, spec.scales, strict=True):
            there = np.where(found, value[rows[order[slot]]], np.nan)
            one = value / there if scale == "log" else value - there
            relative.append(np.where(np.isfinite(one), one, np.nan))
    return np.flatnonzero(~at), relative
