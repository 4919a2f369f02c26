"""Search for encoded names in a column, without a Python object for each name."""

import numpy as np
import pyarrow as pa

from ..arrays import Array
from .java import PACKAGE_ROOTS

_LONGEST_ROOT = max(map(len, PACKAGE_ROOTS))


def find_candidates(names: pa.StringArray) -> Array:
    """The rows of all names for which `may_be_encoded`, and of some others. names: without nulls."""
    _, offsets, buffer = names.buffers()
    data = np.frombuffer(buffer or b"", np.uint8)
    if not len(data):
        return np.zeros(0, np.int64)
    begin = np.frombuffer(offsets, np.int32)[names.offset : names.offset + len(names)]
    # A short name is followed by the next one: that only adds candidates.
    first, *others = (data[np.minimum(begin + at, len(data) - 1)] for at in (0, *range(2, _LONGEST_ROOT + 1)))
    found = (first == ord("_")) | (first == ord("L"))
    for sign in others:
        found |= sign == ord("/")
    colons = np.flatnonzero(data[:-2] == ord(":"))
    hashes = colons[(data[colons + 1] == ord(":")) & (data[colons + 2] == ord("h"))]
    for places in (np.flatnonzero(data == ord("$")), hashes):
        rows = np.searchsorted(begin, places, "right") - 1
        found[rows[rows >= 0]] = True
    return np.flatnonzero(found)
