"""The grouping of an operator by its arguments: its kind, its tensor, its layer, the type of its device.

Readers of formats whose names contain these (`matmul_ffn_up-12`) write them into the arguments of each slice, under
these keys. They also work for any other trace with these arguments.
"""

import json
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.arrow import functions as pc
from ...domain.profile import Profile
from ...domain.tables import NO_ID
from ..core.memo import memoize
from ..core.slice_selection import slices_of

OPERATOR_PARTS = ("kind", "tensor", "layer", "device")
NO_PART = "(none)"
"""Shown for operators without a kind, tensor, layer or device."""


def operator_parts_of(profile: Profile) -> dict[str, tuple[list[str], Array]]:
    """For each of PARTS that operators have: (the distinct values, their index by row of `argument_sets`; -1: none,
    also as the last entry)."""

    def build() -> dict[str, tuple[list[str], Array]]:
        slices, sets = slices_of(profile), profile.argument_sets
        there = np.zeros(sets.num_rows + 1, bool)
        there[slices.arguments[slices.is_kind("operator")]] = True
        used = np.flatnonzero(there[:-1])
        text = sets.column("text").take(used)
        some = pc.match_substring_regex(text, f'"(?:{"|".join(OPERATOR_PARTS)})"').to_numpy(zero_copy_only=False)
        values: dict[str, dict[str, int]] = {word: {} for word in OPERATOR_PARTS}
        codes = {word: np.full(sets.num_rows + 1, NO_ID, np.int32) for word in OPERATOR_PARTS}
        for row, arguments in zip(used[some].tolist(), text.filter(some).to_pylist(), strict=True):
            for word, value in _read(arguments).items():
                if word in values and isinstance(value, str | int):
                    codes[word][row] = values[word].setdefault(str(value), len(values[word]))
        return {word: (list(known), codes[word]) for word, known in values.items() if known}

    return memoize(profile, "operator parts", build)


def _read(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
