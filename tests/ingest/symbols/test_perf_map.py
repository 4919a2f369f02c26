"""Maps of just-in-time compilers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfloom.ingest.symbols.perf_map import parse_perf_map
from perfloom.ingest.symbols.perf_names import PerfNames


def find(text: bytes, *addresses: int) -> list[tuple[str, int] | None]:
    table = parse_perf_map(text)
    rows = table.find(np.array(addresses, np.uint64), PerfNames.keep).tolist()
    return [(PerfNames.keep(table.name_of(row)), table.start_of(row)) if row >= 0 else None for row in rows]


def test_names_may_have_spaces_and_lines_of_another_form_are_skipped() -> None:
    text = b"""
7f0000001000 20 LazyCompile:*fib /tmp/f.js:1:13
rubbish
7f0000002000 zz no_size
7f0000003000 0 empty
0x7f0000004000 0x10 with prefix
ffffffffffffffff ff overflow
7f0000005000 10
7f0000006000 8 \xff\xe2\x80\xae"""
    found = find(text, 0x7F0000001000, 0x7F000000101F, 0x7F0000001020, 0x7F0000003000, 0x7F0000004008, 0x7F0000005000)
    first = ("LazyCompile:*fib /tmp/f.js:1:13", 0x7F0000001000)
    assert found == [first, first, None, None, ("with prefix", 0x7F0000004000), None]
    assert find(text, 0x7F0000006001) == [("\\xff\u202e", 0x7F0000006000)]
    assert find(b"", 1) == find(b"1 1\n", 1) == [None]


def test_the_last_definition_of_an_address_counts() -> None:
    text = b"100 100 old\n140 20 within\n180 100 later\n100 10 again\n400 8 alone\n"
    addresses = (0x100, 0x110, 0x140, 0x15F, 0x160, 0x180, 0x27F, 0x280, 0x400)
    names = [found and found[0] for found in find(text, *addresses)]
    assert names == ["again", "old", "within", "within", "old", "later", "later", None, "alone"]
    # Offsets count from the start of the symbol.
    assert find(text, 0x170) == [("old", 0x100)]


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 30)), max_size=30))
def test_every_address_has_the_last_line_that_contains_it(lines: list[tuple[int, int]]) -> None:
    text = b"".join(b"%x %x f%d\n" % (start, size, number) for number, (start, size) in enumerate(lines))
    expected: list[tuple[str, int] | None] = []
    for address in range(100):
        last = [number for number, (start, size) in enumerate(lines) if start <= address < start + size]
        expected.append((f"f{last[-1]}", lines[last[-1]][0]) if last else None)
    assert find(text, *range(100)) == expected
