"""Numbers of files that would not fit into the columns of tables."""

from typing import Any, TypeVar, cast

import numpy as np

from ..domain.arrays import Array
from ..domain.tables import NO_ID

K = TypeVar("K", bound=tuple[Any, ...])
MAX_CATEGORIES = 32_000
OTHER_CATEGORIES = "(other categories)"
"""The name of all categories above MAX_CATEGORIES, one of each kind: their numbers are int16."""


def check_cpus(cpus: Array) -> Array:
    """The numbers of CPUs in a file; NO_ID for those that cannot be."""
    found: Array = np.where((cpus >= 0) & (cpus < 1 << 31), cpus, NO_ID)
    return found


def number_category(known: dict[K, int], category: K) -> int:
    """The number of a category, which is added to those that are known. It ends with the name and the kind."""
    if category not in known and len(known) >= MAX_CATEGORIES:
        category = cast(K, (*category[:-2], OTHER_CATEGORIES, category[-1]))
    return known.setdefault(category, len(known))
