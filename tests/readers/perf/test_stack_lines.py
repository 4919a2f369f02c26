"""Lines of stacks that are parsed together have the same frames as those that are parsed alone."""

from __future__ import annotations

import random

import pytest

from perfloom.ingest.perf_text.script_builder import ThreadedProfileBuilder
from perfloom.readers.perf_script.stack_lines import SPECIAL, StackLines

ADDRESSES = (
    b"\t    55d0",
    b"\t7fbac6aeadc0",
    b"\tffffffff81000000",
    b"\tABCD",
    b"\t 1234567890abcdef0",
    b"        55d0",
    b"\t",
)
NAMES = (
    *(b"main", b"[unknown]", b"a b", b"foo(int)", b"a->b", b"operator->", b"std::f<(lambda)>", b"py::run:/a.py"),
    *(b"x+0x1", b"f+0x12345678901234567", b" lead", b"trail ", b"\xff\xfe", b""),
)
OFFSETS = (b"", b"+0x0", b"+0x00", b"+0x12", b"+0xffffffffffffffff", b"+0xAB", b"+0x11112222333344445")
MODULES = (
    *(b"(/usr/bin/a)", b"([kernel.kallsyms])", b"([unknown])", b"(inlined)", b"(/tmp/perf-12.map)", b"()"),
    *(b"(/usr/lib/x.so (deleted))", b"(a", b"/usr/bin/a", b"(a)\r", b"(a) b"),
)
LINES = [
    b"%b %b%b %b\n" % (address, name, offset, module)
    for address in ADDRESSES
    for name in NAMES
    for offset in OFFSETS
    for module in MODULES
]


def describe(builder: ThreadedProfileBuilder, frames: list[int]) -> list[object]:
    """The frames as rows, with the names and modules of their functions."""
    profile = builder.finish()
    functions = profile.functions.to_pylist()
    rows = [row | {"function": functions[row["function"]]} for row in profile.frames.to_pylist()]
    return [None if frame == SPECIAL else rows[frame] for frame in frames]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_lines_that_are_parsed_together(size: int) -> None:
    lines = [b"\n", *LINES, *LINES[::50]]
    random.Random(size).shuffle(lines)
    builder, alone = (ThreadedProfileBuilder("perf-script") for _ in range(2))
    together, one_by_one = StackLines(builder), StackLines(alone)
    frames = [
        frame for at in range(0, len(lines), size) for frame in together.intern_many(lines[at : at + size]).tolist()
    ]
    wanted = [one_by_one.intern(line) for line in lines]
    assert sum(frame == SPECIAL for frame in frames) not in (0, len(frames))
    assert [together.describe(line) for line in lines] == [one_by_one.describe(line) for line in lines]
    assert describe(builder, frames) == describe(alone, wanted)
