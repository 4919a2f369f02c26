"""Rows of tables: what pandas makes of them, and the same without pandas."""

import importlib
import pkgutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom import analysis
from perfloom.analysis.core.schema import Column, TableRows, build_rows, concatenate_rows, records
from perfloom.analysis.tables import TABLE_MODULES, TABLES

COLUMNS = (
    Column("text", "", "A text."),
    Column("count", "", "A count.", "Int64"),
    Column("share", "%", "A share.", "Float64"),
    Column("value", "", "A value.", "number"),
    Column("flag", "", "A flag.", "boolean"),
)
NUMBERS = st.integers(-(1 << 62), 1 << 62)
ROW = st.tuples(
    st.none() | st.text(max_size=3),
    st.none() | NUMBERS,
    st.none() | st.floats(-1e9, 1e9),
    st.none() | st.integers(-99, 99) | st.floats(-9, 9),
    st.none() | st.booleans(),
)


def build(rows: list[tuple[Any, ...]]) -> TableRows:
    return build_rows(COLUMNS, {c.name: [row[i] for row in rows] for i, c in enumerate(COLUMNS)})


@given(st.lists(ROW))
def test_records_are_those_of_the_frame(rows: list[tuple[Any, ...]]) -> None:
    table = build(rows)
    assert len(table) == len(rows)
    assert table.records() == records(table.to_frame()) == records(table)
    assert [row for block in table.record_blocks(2) for row in block] == table.records()


@given(st.lists(ROW), st.permutations([c.name for c in COLUMNS]), st.lists(st.booleans(), min_size=5, max_size=5))
def test_sort_is_that_of_pandas(rows: list[tuple[Any, ...]], names: list[str], descending: list[bool]) -> None:
    order = names[:2]
    found = build(rows).sort(*(("-" if down else "") + name for name, down in zip(order, descending, strict=False)))
    frame = build(rows).to_frame()
    expected = frame.sort_values(order, ascending=[not d for d in descending[:2]], kind="stable", na_position="last")
    assert found.records() == records(expected)


def test_numpy_columns_become_plain_values() -> None:
    columns = (Column("n", "", "A number.", "int64"), Column("x", "", "A number.", "float64"))
    table = build_rows(columns, {"n": np.array([2, 1], np.int32), "x": np.array([np.nan, 0.5], np.float32)})
    assert table.records() == [{"n": 2, "x": None}, {"n": 1, "x": 0.5}]
    assert table.sort("n").records() == records(table.to_frame().iloc[::-1])
    assert all(type(value) is int for value in table.column("n"))


def test_each_frame_can_be_changed_alone() -> None:
    table = build([("a", 1, 1.0, 1, True)])
    first = table.to_frame()
    first["text"] = "b"
    first["more"] = 1
    assert records(table.to_frame()) == table.records()


def test_rows_are_concatenated_in_order() -> None:
    parts = [build([("a", 1, None, 0.5, None)]), build([]), build([("b", None, 2.0, 3, False)])]
    assert concatenate_rows(COLUMNS, parts).records() == [row for part in parts for row in part.records()]
    assert concatenate_rows(COLUMNS, []).records() == []


def test_arrays_are_concatenated_like_lists() -> None:
    """Also those of different types: integers above 2**53 are not rounded."""
    columns = (Column("n", "", "A number.", "number"), Column("x", "", "A number.", "Float64"))
    exact = (1 << 53) + 1
    floats = [{"n": np.array(n), "x": np.array([np.nan])} for n in ([2.0], [0.5])]
    whole = {"n": np.array([exact]), "x": np.array([1.0])}
    for values in ([*floats], [whole, whole], [floats[0], whole], [floats[1]], [{**floats[0], "x": [None]}, whole]):
        parts = [build_rows(columns, one) for one in values]
        found = concatenate_rows(columns, parts)
        expected = build_rows(columns, {c.name: [v for part in parts for v in part.column(c.name)] for c in columns})
        assert found.records() == expected.records() == records(found.to_frame())


def test_missing_column_is_an_error() -> None:
    with pytest.raises(KeyError):
        build_rows(COLUMNS, {"text": []})


def test_registry_names_the_tables_of_all_modules() -> None:
    declared = {}
    for module in pkgutil.walk_packages(analysis.__path__, analysis.__name__ + "."):
        tables = () if module.name.endswith(".tables") else getattr(importlib.import_module(module.name), "TABLES", ())
        declared |= {table.name: module.name.removeprefix(analysis.__name__ + ".") for table in tables}
    assert declared == TABLE_MODULES
    assert list(TABLES) == list(TABLE_MODULES)
    assert len(TABLES) == len(TABLE_MODULES)


def test_tables_need_no_pandas() -> None:
    program = """
import sys
from perfloom.workers.base.without_pandas import load_pyarrow
load_pyarrow()
from perfloom.analysis.tables import TABLES
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.selection import Selection
for table in TABLES.values():
    table.rows(ProfileBuilder("test").finish(), Selection()).records()
sys.exit("pandas" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
