"""The diverging scale of a formula: around its mean, to both sides equally far.

A ratio can be twice its mean as well as half of it, so a scale is logarithmic where all values are positive: its ends
are mean ÷ factor and mean × factor. Else it is linear. The ends contain every function with at least 1 % of the weight
of the selection; so they do not depend on the zoom.
"""

import math
import sys
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, Float64Array

MIN_SHARE = 0.01
"""Functions with a smaller share of the weight do not widen a scale."""
FACTORS = (1.1, 1.2, 1.5, *(factor * 10**power for power in range(7) for factor in (2, 3, 5, 10)))


@dataclass(frozen=True)
class ColorScale:
    """mean: the middle. low, high: the ends. All are NaN if the mean is missing: then nothing has a color."""

    mean: float
    low: float
    high: float
    is_log: bool

    def place(self, values: Float64Array) -> Float64Array:
        """From -1 (the low end, and what is below it) over 0 (the mean) to 1; NaN is missing."""
        if not self.low < self.high:
            return np.full(values.shape, np.nan)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.is_log:
                found = np.log(np.maximum(values, 0.0) / self.mean) / math.log(self.high / self.mean)
            else:
                found = (values - self.mean) / (self.high - self.mean)
        return np.where(np.isnan(values), np.nan, np.clip(found, -1.0, 1.0))


MIN_REACH, MAX_REACH = 1e-300, 1e300
"""Beyond them, steps of a scale are not numbers any more."""


def build_scale(mean: float, values: Float64Array, weight: Array, whole: float) -> ColorScale:
    """The scale for the values of functions with these weights. whole: the weight of the selection. NaN is missing."""
    if not math.isfinite(mean):
        return ColorScale(math.nan, math.nan, math.nan, False)
    wide = np.isfinite(values) & (np.abs(weight) >= MIN_SHARE * abs(whole))
    shown = values[wide]
    if mean > 0 and (shown >= 0).all():
        positive = shown[shown > 0]
        with np.errstate(over="ignore"):
            most = float(np.maximum(positive / mean, mean / positive).max(initial=1.0))
        factor = next((one for one in FACTORS if one >= most), FACTORS[-1])
        return ColorScale(mean, mean / factor, min(mean * factor, sys.float_info.max), True)
    with np.errstate(over="ignore"):
        reach = float(np.abs(shown - mean).max(initial=0.0)) or abs(mean) or 1.0
    reach = min(max(reach, MIN_REACH), MAX_REACH)
    power = 10.0 ** math.floor(math.log10(reach))
    reach = next(step * power for step in (1, 2, 5, 10) if step * power >= reach * (1 - 1e-12))
    return ColorScale(mean, mean - reach, mean + reach, False)
