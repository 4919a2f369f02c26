"""The values of a formula in the frames of a flame graph."""

from dataclasses import dataclass, replace

import numpy as np

from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID
from ..core.flame_groups import FlameGroup
from ..core.functions import function_id
from ..core.sample_selection import event_id
from ..stacks.flame_tree import FlameTree, FrameValues
from ..stacks.flamegraph import flame_tree
from ..stacks.frame_sums import sum_frames
from ..stacks.layout import SiblingOrder
from ..stacks.shapes import TreeShape, sandwich_shapes, shape_of
from .color_scale import ColorScale, build_scale
from .function_sums import FunctionSums, weigh_functions
from .metrics import RatioMetric

PARTS = ("total", "self")


@dataclass(frozen=True)
class Coloring:
    """The metric that colors a flame graph. part: one of PARTS."""

    metric: RatioMetric
    part: str


def color_tree(
    profile: Profile,
    selection: Selection,
    coloring: Coloring | None,
    *,
    group: FlameGroup = FlameGroup.COMM,
    order: SiblingOrder = SiblingOrder.WEIGHT,
    zoom: int | None = None,
    min_share: float = 0.0,
) -> FlameTree:
    """`flame_tree`, with values if it has a coloring. Time order is then not supported: it is treated as "weight"."""
    if coloring is not None and order is SiblingOrder.TIME:
        order, zoom = SiblingOrder.WEIGHT, None
    tree = flame_tree(profile, selection, group=group, order=order, zoom=zoom, min_share=min_share)
    return tree if coloring is None else add_values(tree, profile, selection, coloring.metric, coloring.part)


def add_values(tree: FlameTree, profile: Profile, selection: Selection, metric: RatioMetric, part: str) -> FlameTree:
    """A flame graph of this selection with the values of a metric; part: one of PARTS. Not in time order."""
    return _add_values(tree, profile, selection, shape_of(profile, selection), metric, part)


def add_sandwich_values(
    trees: tuple[FlameTree, FlameTree],
    profile: Profile,
    selection: Selection,
    function: int | str,
    metric: RatioMetric,
    part: str,
) -> tuple[FlameTree, FlameTree]:
    """The same for the callers and callees of a function."""
    shapes = sandwich_shapes(profile, selection, function_id(profile, function))
    callers, callees = (
        _add_values(tree, profile, selection, shape, metric, part) for tree, shape in zip(trees, shapes, strict=True)
    )
    return callers, callees


def scale_of(profile: Profile, selection: Selection, metric: RatioMetric, part: str) -> ColorScale:
    """The scale of a metric for the functions of a selection."""
    width = event_id(profile, selection.event)
    if width == NO_ID:
        return build_scale(np.nan, np.zeros(0), np.zeros(0), 0.0)
    sums, wholes = {}, {}
    for event in dict.fromkeys((*metric.events, width)):
        found = weigh_functions(profile, selection, event)
        sums[event], wholes[event] = found.own if part == "self" else found.total, np.array([found.whole])
    mean = float(metric.evaluate(wholes)[0])
    return build_scale(mean, metric.evaluate(sums), sums[width], float(wholes[width][0]))


def mean_of(sums: FunctionSums, metric: RatioMetric) -> float:
    """The metric of all samples of a selection; NaN is missing."""
    if not set(metric.events) <= set(sums.whole):
        return float("nan")
    return float(metric.evaluate({event: np.array([sums.whole[event]]) for event in metric.events})[0])


def _add_values(
    tree: FlameTree, profile: Profile, selection: Selection, shape: TreeShape, metric: RatioMetric, part: str
) -> FlameTree:
    assert tree.order is not SiblingOrder.TIME
    sums = {
        event: sum_frames(profile, selection, event, shape, tree)[0 if part == "self" else 1] for event in metric.events
    }
    value, scale = metric.evaluate(sums), scale_of(profile, selection, metric, part)
    formula = metric.formula.formula
    values = FrameValues(
        name=formula.name,
        expression=formula.expression,
        unit=formula.unit,
        part=part,
        value=value,
        place=scale.place(value),
        mean=scale.mean,
        low=scale.low,
        high=scale.high,
        is_log=scale.is_log,
        note=metric.note,
    )
    return replace(tree, values=values)
