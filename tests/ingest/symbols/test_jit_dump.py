"""Files of just-in-time compilers, whole and damaged."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.ingest.symbols.java_names import format_java_name
from perfloom.ingest.symbols.jit_dump import CodeLine, JitDump, parse_jit_dump
from perfloom.ingest.symbols.perf_names import PerfNames
from tests.support.machine_code.jit_dumps import LINES, make_dump, make_header, make_lines, make_load, make_record


def list_loads(dump: JitDump) -> list[tuple[int, int, str]]:
    rows = dump.table.find(dump.place, PerfNames.keep).tolist()
    names = [PerfNames.keep(dump.table.name_of(row)) for row in rows]
    return list(zip(dump.time.tolist(), dump.start.tolist(), names, strict=True))


@pytest.mark.parametrize("order", ["<", ">"])
def test_code_is_found_in_both_byte_orders(order: str) -> None:
    data = make_dump(order)
    dump = parse_jit_dump(data)
    assert dump is not None
    assert (dump.machine, dump.pid, dump.has_times) == (62, 7, True)
    assert list_loads(dump) == [(10, 0x1000, "f"), (12, 0x2000, r"g\xff h"), (13, 0x3000, "f")]
    place = int(dump.place[0])
    assert data[place : place + 8] == b"codecode"
    assert dump.read_lines(data, place) == [CodeLine(0, "/src/a.js", 3), CodeLine(4, "/src/a.js", 9)]
    assert dump.read_lines(data, int(dump.place[1])) == []


def test_times_of_the_processor_are_not_used() -> None:
    dump = parse_jit_dump(make_dump(flags=1))
    assert dump is not None
    assert not dump.has_times


def test_lines_of_node_begin_behind_a_header() -> None:
    data = (
        make_header()
        + make_lines(0x1000, (0x1040, 3, b"a"), (0x1044, 4, b"a"))
        + make_load(1, 0x1000, b"f", b"12345", 1)
    )
    dump = parse_jit_dump(data)
    assert dump is not None
    assert dump.read_lines(data, int(dump.place[0])) == [CodeLine(0, "a", 3), CodeLine(4, "a", 4)]


@pytest.mark.parametrize("lines", [((0x9000, 3, b"a"),), ((0x1000, 2**31, b"a"),)])
def test_lines_of_other_code_are_left_out(lines: tuple[tuple[int, int, bytes], ...]) -> None:
    data = make_header() + make_lines(0x1000, *lines) + make_load(1, 0x1000, b"f", b"12345", 1)
    dump = parse_jit_dump(data)
    assert dump is not None
    assert dump.read_lines(data, int(dump.place[0])) == []


def test_lines_end_with_their_record() -> None:
    # A record of an unknown kind begins like another line: its kind and size are the address.
    start = 18 << 32 | 0x1000
    entry = struct.pack("<QII", start, 3, 0) + b"a\0"
    lines = make_record(LINES, 1, struct.pack("<QQ", start, 2) + entry)
    data = make_header() + lines + make_record(0x1000, 3, b"a\0") + make_load(1, start, b"f", b"12345", 1)
    dump = parse_jit_dump(data)
    assert dump is not None
    assert dump.read_lines(data, int(dump.place[0])) == []


def test_a_truncated_dump_has_what_is_complete() -> None:
    data = make_dump()
    counts = []
    for size in range(len(data)):
        dump = parse_jit_dump(data[:size])
        counts.append(-1 if dump is None else len(dump.time))
    assert counts == sorted(counts)
    assert counts[-1] == 3


@pytest.mark.parametrize("data", [b"", b"DTiJ", make_header(version=2), b"\x7fELF" + bytes(60)])
def test_other_files_are_no_dumps(data: bytes) -> None:
    assert parse_jit_dump(data) is None


@given(st.binary(max_size=400), st.lists(st.tuples(st.integers(40, 400), st.integers(0, 255)), max_size=8))
def test_any_bytes_end(tail: bytes, changes: list[tuple[int, int]]) -> None:
    data = bytearray(make_dump() + tail)
    for at, value in changes:
        data[at % len(data)] = value
    content = bytes(data)
    dump = parse_jit_dump(content)
    for place, size in zip(dump.place.tolist(), dump.size.tolist(), strict=True) if dump else []:
        assert place + size <= len(content)
        dump.read_lines(content, place)  # type: ignore[union-attr]
    assert dump is None or (np.diff(dump.table.start.astype(np.int64)) > 0).all()


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("Ljava/lang/StringLatin1;equals([B[B)Z", "java.lang.StringLatin1.equals(byte[], byte[])"),
        ("Ljava/lang/Object;<init>()V", "java.lang.Object.<init>()"),
        ("La/B;c([[JLx/Y;I)Lx/Z;", "a.B.c(long[][], x.Y, int)"),
        ("Lmain", None),
        ("La/B;c(Q)V", None),
        ("La/B;c([)V", None),
        ("La/B;c(Lx)V", None),
        ("La/B;c()", None),
        ("JS:*f /a.js:1:1", None),
    ],
)
def test_java_names(raw: str, shown: str | None) -> None:
    assert format_java_name(raw) == shown
