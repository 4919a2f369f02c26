"""Student's t distribution, and the normal one, which it is with infinite degrees of freedom.

Loading scipy.stats takes 0.6 s of processor time, more than the rest of a command on small files. scipy.special takes a
sixth of that; files of one run each need neither, since their degrees of freedom are infinite.
"""

import math
from statistics import NormalDist

import numpy as np

from ...domain.arrays import Float64Array

_NORMAL = NormalDist()


def compute_tail(value: Float64Array, degrees: Float64Array) -> Float64Array:
    """The probability of more than a value, for each value and its degrees of freedom."""
    # math.erfc keeps its precision far from 0, where 1 − Φ(x) would be 0.
    tails = np.array([math.erfc(x / math.sqrt(2)) / 2 for x in value.tolist()], np.float64)
    finite = np.isfinite(degrees)
    if finite.any():
        from scipy.special import stdtr

        tails[finite] = stdtr(degrees[finite], -value[finite])
    return tails


def compute_quantile(probability: float, degrees: Float64Array) -> Float64Array:
    """The value below which a value is with this probability, between 0 and 1, for each of the degrees of freedom."""
    quantiles = np.full(len(degrees), _NORMAL.inv_cdf(probability))
    finite = np.isfinite(degrees)
    if finite.any():
        from scipy.special import stdtrit

        quantiles[finite] = stdtrit(degrees[finite], probability)
    return quantiles
