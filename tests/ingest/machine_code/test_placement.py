"""Addresses of a recording are those of the binary plus the bias of their mapping."""

import numpy as np

from perfloom.domain.arrays import Array
from perfloom.ingest.machine_code.elf import Symbols
from perfloom.ingest.machine_code.placement import place_addresses

UNKNOWN = 2**64 - 1
COUNT = 1000
FIRST, SECOND = 0x400000, 0x7F0000000000
"""Biases of two mappings."""


def make_symbols() -> Symbols:
    """Functions f0, f1 … with gaps between them, all at the same few places of their pages."""
    start = np.arange(COUNT, dtype=np.uint64) * np.uint64(0x400) + np.uint64(0x1000)
    names = [f"f{number}".encode() for number in range(COUNT)]
    name = np.cumsum([0, *(len(one) + 1 for one in names[:-1])])
    return Symbols(start, start + np.uint64(0x100), name, b"\0".join(names) + b"\0")


def place(rows: list[tuple[str, int, int]]) -> list[int | None]:
    """The addresses in the binary of rows of (name, address, offset)."""
    names, address, offset = zip(*rows, strict=True)
    target, placed = place_addresses(names, as_addresses(address), as_addresses(offset), make_symbols())
    return [one if known else None for one, known in zip(target.tolist(), placed.tolist(), strict=True)]


def as_addresses(values: tuple[int, ...]) -> Array:
    return np.array(values, np.uint64)


def test_functions_of_two_mappings_are_placed() -> None:
    start = make_symbols().start.tolist()
    of_first = [(f"f{row}", FIRST + start[row] + 3, 3) for row in range(0, COUNT, 2)]
    of_second = [(f"f{row}", SECOND + start[row] + 5, 5) for row in range(1, COUNT, 250)]
    expected = [start[row] + 3 for row in range(0, COUNT, 2)] + [start[row] + 5 for row in range(1, COUNT, 250)]
    assert place(of_first + of_second) == expected


def test_code_without_a_function_is_not_placed_by_names_that_agree_by_chance() -> None:
    start = make_symbols().start.tolist()
    # f1 begins at the same place of its page as f13, whose name contains its own.
    rows = [(f"f{row}", FIRST + start[row], 0) for row in range(20)]
    before = [("[unknown]", FIRST + 0x400 * row + 0x10, UNKNOWN) for row in range(4)]
    assert place(rows + before) == start[:20] + [None] * len(before)


def test_code_without_an_offset_is_placed_by_the_bias_of_other_code() -> None:
    start = make_symbols().start.tolist()
    rows = [("f7", FIRST + start[7], 0), ("[unknown]", FIRST + start[400] + 9, UNKNOWN)]
    assert place(rows) == [start[7], start[400] + 9]


def test_without_an_offset_nothing_is_placed() -> None:
    assert place([("f7", FIRST + 0x1000, UNKNOWN)]) == [None]
