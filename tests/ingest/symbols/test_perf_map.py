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
    return [(PerfNames.keep(table.name_of(row)), int(table.start[row])) if row >= 0 else None for row in rows]


def test_names_may_have_spaces_and_lines_of_another_form_are_skipped() -> None:
    text = b"""
7f0000001000 20 LazyCompile:*fib /tmp/f.js:1:13
rubbish
7f0000002000 zz no_size
0x7f0000004000 0x10 with prefix
ffffffffffffffff ff overflow
7f0000005000 10
7f0000006000 8 \xff\xe2\x80\xae"""
    found = find(text, 0x7F0000001000, 0x7F000000101F, 0x7F0000001020, 0x7F0000003000, 0x7F0000004008, 0x7F0000005000)
    first = ("LazyCompile:*fib /tmp/f.js:1:13", 0x7F0000001000)
    assert found == [first, first, None, None, ("with prefix", 0x7F0000004000), None]
    assert find(text, 0x7F0000006001) == [("\\xff\u202e", 0x7F0000006000)]
    assert find(b"", 1) == find(b"1 1\n", 1) == [None]


def test_without_overlap_every_line_is_found() -> None:
    lines = [(number * 0x40, 0x40, f"f{number}") for number in (9, 3, 5, 1, 4, 2, 8)]
    text = "".join(f"{start:x} {size:x} {name}\n" for start, size, name in lines).encode()
    for start, size, name in lines:
        assert find(text, start, start + size - 1) == [(name, start)] * 2
    assert find(text, 0x3F, 0x180, 0x280) == [None, None, None]


def test_of_lines_with_the_same_address_the_search_finds_the_upper_one() -> None:
    # perf's tree: the second symbol is the root after a rotation.
    assert find(b"100 20 one\n100 20 two\n100 20 three\n", 0x110) == [("two", 0x100)]
    assert find(b"100 20 one\n100 20 two\n", 0x110) == [("one", 0x100)]


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 30)), max_size=40))
def test_an_address_in_a_line_has_a_line_that_contains_it(lines: list[tuple[int, int]]) -> None:
    text = b"".join(b"%x %x f%d\n" % (start, size, number) for number, (start, size) in enumerate(lines))
    for address, found in enumerate(find(text, *range(100))):
        containing = {number for number, (start, size) in enumerate(lines) if start <= address < start + size}
        named = containing | {number for number, (start, size) in enumerate(lines) if (start, size) == (address, 0)}
        # Of several with the same start one counts, which may be shorter.
        starts = [start for start, _ in lines]
        assert (found is not None) >= any(starts.count(starts[number]) == 1 for number in containing)
        assert found is None or int(found[0][1:]) in named
