"""Changes relative to the base, defined once for all tables of differences."""

from collections.abc import Sequence

import numpy as np

from ...domain.arrays import Array, Float64Array

Values = Array | Sequence[float | None]
"""None, NaN: unknown."""


def divide(values: Values, by: Values) -> Float64Array:
    """values ÷ by; NaN where that is 0 or either is unknown."""
    above, below = np.asarray(values, np.float64), np.asarray(by, np.float64)
    found: Float64Array = np.divide(above, below, out=np.full(len(above), np.nan), where=below != 0)
    return found


def percent_of_base(delta: Values, base: Values) -> Float64Array:
    """delta in percent of the size of the base; NaN where that is 0 or either is unknown. It has the sign of delta also
    where the base is negative, as the sum of allocated and freed bytes may be."""
    return 100.0 * divide(delta, np.abs(np.asarray(base, np.float64)))
