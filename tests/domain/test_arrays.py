"""Values are numbered in the order in which they appear."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

from perfloom.domain.arrays import Array, number_keys, number_values, sort_distinct


def number_slowly(keys: Array) -> tuple[list[int], list[int]]:
    known: dict[int, tuple[int, int]] = {}
    codes = [known.setdefault(key, (len(known), row))[0] for row, key in enumerate(keys.tolist())]
    return codes, [row for _, row in known.values()]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000])
@pytest.mark.parametrize("shift", [0, 20, 54, 62])
def test_keys_are_numbered_in_order(count: int, shift: int) -> None:
    """Also those of which the upper or the lower bits are alike."""
    keys = np.random.default_rng(count).integers(0, 300, count).astype(np.uint64) << np.uint64(shift)
    codes, first = number_keys(keys)
    assert (codes.tolist(), first.tolist()) == number_slowly(keys)


@pytest.mark.parametrize("count", [0, 1, 3000])
def test_few_values_are_numbered_by_a_table_once_it_is_loaded(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    values = np.random.default_rng(count).integers(-300, 300, count, np.int32)
    table = importlib.import_module("pyarrow.compute")
    monkeypatch.delitem(sys.modules, "pyarrow.compute")
    expected = [part.tolist() for part in number_values(values)]
    monkeypatch.setitem(sys.modules, "pyarrow.compute", table)
    assert [part.tolist() for part in number_values(values)] == expected


@pytest.mark.parametrize("count", [1, 3000])
def test_rows_of_several_columns(count: int) -> None:
    """Also negative numbers, and columns whose values occur in the other one, too."""
    random = np.random.default_rng(count)
    columns = random.integers(-3, 4, count, np.int32), random.integers(-3, 4, count), random.random(count) < 0.5
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    codes, first = number_values(*columns)
    assert [rows[at] for at in first.tolist()] == list(dict.fromkeys(rows))
    assert [rows[first[code]] for code in codes.tolist()] == rows


@pytest.mark.parametrize(
    "ranges",
    [
        [(0, 200), (-70, 70), (5, 6), (0, 3)],
        [(0, 65_536), (0, 3)],
        [(0, 40_000), (100_000, 140_000), (7, 9)],
        [(2**63 - 3, 2**63 + 3), (-128, 127)],
        [(0, 2**64), (0, 2)],
    ],
)
@pytest.mark.parametrize("gap", [1, 97])
def test_rows_of_small_and_large_numbers(ranges: list[tuple[int, int]], gap: int) -> None:
    random = np.random.default_rng(1)
    columns = [
        random.integers(low, high, 4000, np.uint64) if high > 2**32 else random.integers(low, high, 4000) // gap * gap
        for low, high in ranges
    ]
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    codes, first = number_values(*columns)
    assert codes.dtype == np.int32
    assert [rows[at] for at in first.tolist()] == list(dict.fromkeys(rows))
    assert [rows[first[code]] for code in codes.tolist()] == rows


@pytest.mark.parametrize("count", [0, 1, 3000])
def test_distinct_values_are_in_order(count: int) -> None:
    values = np.random.default_rng(count).integers(-300, 300, count)
    assert sort_distinct(values).tolist() == sorted(set(values.tolist()))
