"""Metrics: names, units, and the values of single contexts from those that include callees."""

import re
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, Float64Array, Int64Array
from ...domain.event_names import get_unit
from ...domain.units import NS_PER_MS, NS_PER_S, NS_PER_US
from ...ingest.losses import MAX_SHORT_EXAMPLE_CHARS

MAX_WEIGHT = 1 << 62
NOISE = 1e-12
"""Differences below this part of a value come from rounding: a double has 15 digits."""
TEXT_NOISE = 1e-5
"""The same of values that are written with six digits."""
_UNIT = re.compile(r"(.+?) ?\((nsec|usec|msec|sec|ns|us|ms|s|bytes|B)\)$", re.DOTALL)
_UNITS = {
    **dict.fromkeys(("nsec", "ns"), ("ns", 1)),
    **dict.fromkeys(("usec", "us"), ("ns", NS_PER_US)),
    **dict.fromkeys(("msec", "ms"), ("ns", NS_PER_MS)),
    **dict.fromkeys(("sec", "s"), ("ns", NS_PER_S)),
    **dict.fromkeys(("bytes", "B"), ("bytes", 1)),
}


@dataclass(frozen=True)
class MetricEvent:
    """A metric as an event. factor: a value × factor is in the unit of the event."""

    event: str
    unit: str
    factor: int


def parse_metric(name: str) -> MetricEvent:
    """The metric with a name such as "CPUTIME (sec)": the event CPUTIME in ns."""
    name = " ".join(name.split()) or "metric without a name"
    if match := _UNIT.fullmatch(name):
        unit, factor = _UNITS[match[2]]
        return MetricEvent(match[1], unit, factor)
    return MetricEvent(name, get_unit(name), 1)


@dataclass(frozen=True)
class OwnValues:
    """The values of single contexts, in whole units of the event, without zeros. context: rows of the tree.

    impossible: how many values are left out because they are no numbers, negative or at least MAX_WEIGHT. too_small:
    contexts that have less than their callees together; they count 0.
    """

    context: Int64Array
    weight: Int64Array
    impossible: int = 0
    too_small: int = 0
    example: str = ""


def round_values(context: Array, values: Float64Array, metric: MetricEvent, too_small: int = 0) -> OwnValues:
    """Values of contexts in the unit of the metric's event."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = values * metric.factor
        possible = (scaled >= 0) & (scaled < MAX_WEIGHT)
        weight = np.rint(np.where(possible, scaled, 0)).astype(np.int64)
    kept = weight > 0
    bad = np.flatnonzero(~possible)
    example = f"{metric.event}: {values[bad[0]]:g}"[:MAX_SHORT_EXAMPLE_CHARS] if len(bad) else ""
    return OwnValues(context[kept].astype(np.int64), weight[kept], len(bad), too_small, example)


def subtract_callees(
    context: Array, values: Float64Array, parent: Array, noise: float = NOISE
) -> tuple[Float64Array, int]:
    """The own values of contexts whose values include those of other contexts.

    context: distinct rows, ascending. parent: of each, the row whose value includes this one's, -1 for none. noise: the
    part of a value that is no difference. Returns the own values, and how many contexts had less than they include.
    """
    if not len(context):
        return values, 0
    place = np.minimum(np.searchsorted(context, parent), len(context) - 1)
    part = (parent >= 0) & (context[place] == parent)
    with np.errstate(over="ignore", invalid="ignore"):
        own = values - np.bincount(place[part], values[part], minlength=len(values))
        small = np.abs(values) * noise
        too_small = int((own < -small).sum()) + int(((parent >= 0) & ~part & (values > 0)).sum())
        own[own <= small] = 0
    return own, too_small
