"""Machine code and lines of a just-in-time compiler."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.schemas.code import Code, CodeStatus
from perfloom.ingest.machine_code.code_builder import CodeBuilder, ObjectFile, SourceText, deadline_after
from perfloom.ingest.symbols.jit_code import open_jit_code
from perfloom.ingest.symbols.jit_dump import parse_jit_dump
from perfloom.workers.read.binaries import Binaries
from tests.support.machine_code import list_chain
from tests.support.machine_code.jit_dumps import make_header, make_lines, make_load

MODULE = "/nowhere/jit-7.dump"
FIRST = bytes.fromhex("48ffc9 75fb e8f60f0000 e8f14f0000 c3")
"""dec %rcx; jne to the start; call 0x2000; call 0x6000; ret: if it is at 0x1000."""
DUMP = (
    make_header()
    + make_lines(0x1000, (0x1000, 3, b"/src/a.js"), (0x1005, 9, b"/src/b.js"))
    + make_load(10, 0x1000, b"first", FIRST, 1)
    + make_load(12, 0x2000, b"second", b"\xc3", 2)
)


def build(content: bytes) -> Code:
    """The code of a profile with a sample at the start of each function."""
    dump = parse_jit_dump(DUMP)
    assert dump is not None
    builder = ProfileBuilder("perf-data")
    event, thread = builder.intern_event("cpu-clock", "ns"), builder.intern_thread(pid=7, tid=7)
    for name, place in zip(("first", "second"), dump.place.tolist(), strict=True):
        frame = builder.intern_frame(builder.intern_function(name, MODULE), address=place, symbol_offset=0)
        builder.add_sample(place, thread, event, builder.intern_stack([frame]), 1)

    def open_object(module: str) -> ObjectFile:
        generated = open_jit_code(content)
        return ObjectFile(None, CodeStatus.MISSING if generated is None else CodeStatus.COMPLETE, generated=generated)

    return CodeBuilder(open_object, lambda path, module: SourceText("a"), deadline_after(60)).build(builder.finish())


def test_code_has_instructions_and_lines() -> None:
    code = build(DUMP)
    assert code.objects.column("module").to_pylist() == [MODULE]
    assert code.objects.column("status").to_pylist() == ["complete"]
    assert code.symbols.column("name").to_pylist() == ["first", "second"]
    first, second = code.symbols.column("start").to_pylist()
    assert DUMP[first : first + len(FIRST)] == FIRST
    rows = code.instructions.to_pylist()
    assert [row["address"] - first for row in rows[:-1]] == [0, 3, 5, 10, 15]
    # A target in the function, the other function, and memory without known code.
    assert [row["target"] for row in rows] == [None, first, second, None, None, None]
    assert rows[2]["text"].endswith(" <second>")
    assert rows[3]["text"].endswith(" <0x6000>")
    places = [list_chain(code, row["place"]) for row in rows]
    assert [(chain[0].file, chain[0].line) for chain in places[:-1]] == [("/src/a.js", 3)] * 2 + [("/src/b.js", 9)] * 3
    assert places[-1] == []


@pytest.mark.parametrize("content", [b"", b"\x7fELF" + bytes(100), DUMP[:60]])
def test_damaged_dumps_have_a_status(content: bytes) -> None:
    assert build(content).objects.column("status").to_pylist()[0] in (CodeStatus.MISSING, CodeStatus.NO_SYMBOLS)


def test_only_a_dump_of_the_process_is_opened(tmp_path: Path) -> None:
    def open_dump(name: str) -> ObjectFile:
        binaries = Binaries(
            {}, recorded_here=False, started=1.0, public=False, buildid_dir=os.devnull, reads_dumps=name != "jit-5.dump"
        )
        return binaries.open_object(str(tmp_path / name))

    for name in ("jit-7.dump", "jit-8.dump", "jit-5.dump"):
        (tmp_path / name).write_bytes(
            DUMP if name != "jit-5.dump" else DUMP.replace(struct.pack("<I", 7), bytes((5, 0, 0, 0)), 1)
        )
    found = open_dump("jit-7.dump")
    assert found.generated is not None
    assert found.generated.name_at(found.generated.symbols.start[0]) == "first"
    assert open_dump("jit-8.dump").status is CodeStatus.MISSING
    assert open_dump("jit-9.dump").status is CodeStatus.MISSING
    # Of a recording that was uploaded.
    assert open_dump("jit-5.dump").status is CodeStatus.MISSING
    (tmp_path / "jit-6.dump").write_text("#!/bin/sh")
    assert open_dump("jit-6.dump").generated is None


def test_a_source_that_was_changed_after_the_dump_is_named(tmp_path: Path) -> None:
    dump, source = tmp_path / "jit-7.dump", tmp_path / "a.js"
    dump.write_bytes(DUMP)
    source.write_text("let a;\n")
    binaries = Binaries(
        {}, recorded_here=False, started=None, public=False, buildid_dir=os.devnull, built=1.0, reads_dumps=True
    )
    for changed, detail in ((1000, ""), (3000, "It was changed after the recording.")):
        os.utime(dump, (2000, 2000))
        os.utime(source, (changed, changed))
        binaries.open_object(str(dump))
        found = binaries.read_source(str(source), str(dump))
        assert (found.text, found.detail) == ("let a;\n", detail)
