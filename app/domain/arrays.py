"""The types of numpy arrays, each defined once. Annotations name the element type if it never varies."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING = np.iinfo(np.int64).min
"""The value of a missing number or time in an int64 column."""
Array = NDArray[Any]
"""Elements of several types, or of a type that depends on the data."""
IndexArray = NDArray[np.intp]
"""Indices into another array."""
BoolArray = NDArray[np.bool_]
Float64Array = NDArray[np.float64]
Int8Array = NDArray[np.int8]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
