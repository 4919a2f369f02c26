"""Which symbol is found for an address: the rules of perf 6.1, symbols__fixup_end and choose_best_symbol."""

from __future__ import annotations

import numpy as np
import pytest

from perfloom.ingest.symbols.perf_names import PerfNames
from perfloom.ingest.symbols.symbol_table import GLOBAL, LOCAL, MAX_ALIASES, MAX_NAME_BYTES, WEAK, SymbolTable, fix_ends

Row = tuple[int, int, str, int]
"""(start, size, name, binding)"""


def make_table(rows: list[Row]) -> SymbolTable:
    rows = sorted(rows, key=lambda row: row[0])
    names = b"\0" + b"".join(row[2].encode() + b"\0" for row in rows)
    offsets = np.cumsum([1, *(len(row[2].encode()) + 1 for row in rows)])[:-1]
    start, size = (np.array([row[at] for row in rows], np.uint64) for at in (0, 1))
    binding = np.array([row[3] for row in rows], np.uint8)
    return SymbolTable(start, fix_ends(start, start + size), offsets, binding, names, is_sized=size > 0)


def find(rows: list[Row], address: int) -> str | None:
    table = make_table(rows)
    (row,) = table.find(np.array([address], np.uint64), PerfNames().format).tolist()
    return table.name_of(row).decode() if row >= 0 else None


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        (("label", 0, GLOBAL), ("sized", 8, LOCAL), "sized"),
        (("weak_name", 8, WEAK), ("local", 8, LOCAL), "local"),
        (("local_name", 8, LOCAL), ("name", 8, GLOBAL), "name"),
        (("__read", 8, GLOBAL), ("_read", 8, GLOBAL), "_read"),
        (("__libc_malloc", 8, GLOBAL), ("malloc", 8, GLOBAL), "malloc"),
        (("pread", 8, GLOBAL), ("pread64", 8, GLOBAL), "pread64"),
        (("alpha", 8, GLOBAL), ("gamma", 8, GLOBAL), "alpha"),
        (("SyS_open", 8, GLOBAL), ("sys_open", 8, GLOBAL), "sys_open"),
        # Constructors of a class and of its base differ in the mangled name alone.
        (("_ZN3BoxC2Ev", 8, WEAK), ("_ZN3BoxC1Ev", 8, WEAK), "_ZN3BoxC2Ev"),
        # Printed without parameters, f(int, int) is as short as f().
        (("_Z1fv", 8, GLOBAL), ("longer", 8, GLOBAL), "longer"),
        (("longer", 8, GLOBAL), ("_Z1fii", 8, GLOBAL), "longer"),
    ],
)
def test_one_of_several_names_is_chosen(first: tuple[str, int, int], second: tuple[str, int, int], chosen: str) -> None:
    rows = [(0x100, size, name, binding) for name, size, binding in (first, second)]
    assert find([*rows, (0x200, 8, "after", GLOBAL)], 0x104) == chosen


def test_a_symbol_without_a_size_reaches_to_the_next_one() -> None:
    rows = [(0x1000, 0, "start", GLOBAL), (0x1800, 0x10, "next", GLOBAL), (0x2000, 0, "last", GLOBAL)]
    found = [find(rows, address) for address in (0xFFF, 0x1000, 0x17FF, 0x1800, 0x1810, 0x2FFF, 0x3000)]
    assert found == [None, "start", "start", "next", None, "last", None]


def test_a_function_around_others_is_found() -> None:
    rows = [(0x100, 0x100, "around", LOCAL), (0x120, 8, "part", LOCAL), (0x140, 0, "label", LOCAL)]
    rows.append((0x400, 8, "far", LOCAL))
    found = [find(rows, address) for address in (0x110, 0x120, 0x128, 0x150, 0x1FF, 0x200, 0x3FF)]
    assert found == ["around", "part", "around", "around", "around", "label", "label"]


def test_names_end_where_the_table_ends() -> None:
    table = make_table([(1, 1, "x" * 1_000_000, GLOBAL)])
    assert table.name_of(0) == b"x" * MAX_NAME_BYTES
    cut = SymbolTable(table.start, table.end, np.array([10**9]), table.binding, table.names)
    assert cut.name_of(0) == b""


def test_sizes_that_overflow_count_as_none() -> None:
    assert find([(2**64 - 16, 2**63, "top", GLOBAL)], 2**64 - 16) == "top"
    assert find([(0x10, 2**64 - 8, "wrong", GLOBAL), (0x20, 8, "next", GLOBAL)], 0x18) == "wrong"
    assert find([], 1) is None


def test_of_very_many_names_the_first_ones_are_compared() -> None:
    rows = [(0x100, 8, f"{number:05}", GLOBAL) for number in range(MAX_ALIASES)]
    assert find([*rows[:-1], (0x100, 8, "longest", GLOBAL)], 0x100) == "longest"
    assert find([*rows, (0x100, 8, "longest", GLOBAL)], 0x100) == "00000"


def test_time_for_names_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    names = PerfNames()
    assert names.format(b"_Z5firstv") == "first"
    monkeypatch.setattr("time.thread_time", iter(range(0, 1000, 100)).__next__)
    assert names.format(b"_Z6secondv") == "second"
    assert names.format(b"_Z5thirdv") == "_Z5thirdv"
