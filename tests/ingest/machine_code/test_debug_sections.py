"""Headers of units and line programs, and address ranges, are those that pyelftools reads; any bytes end with an error
that is expected."""

from __future__ import annotations

import io
import posixpath
import struct
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from perfloom.ingest.machine_code.abbreviations import (
    MAX_ABBREVIATIONS,
    STMT_LIST,
    AbbreviationCache,
    Abbreviations,
    UnitSizes,
)
from perfloom.ingest.machine_code.debug_entries import DebugUnit
from perfloom.ingest.machine_code.debug_sections import DebugSections
from perfloom.ingest.machine_code.elf import DAMAGED
from perfloom.ingest.machine_code.elf_image import ElfImage
from perfloom.ingest.machine_code.line_header import read_line_header
from tests.support.parts import require

PROGRAM = """
#include <stdlib.h>
static inline __attribute__((always_inline)) int half(int a) { return a / 2; }
int main(int count, char **words) { volatile int v = half(count); return abs(v) + !words; }
"""
SIZES = UnitSizes(8, 4, 4, "<")


def compile_program(folder: Path, *options: str, compiler: str = "gcc") -> bytes:
    out = folder / "program"
    argv = [require(compiler), "-O1", "-x", "c", "-o", out, "-", *options]
    subprocess.run(argv, input=PROGRAM, text=True, check=True, cwd=folder)
    return out.read_bytes()


def list_paths(unit: Any, program: Any) -> tuple[str, ...]:
    """The files of a line program that pyelftools read."""
    directory = unit.get_top_DIE().attributes["DW_AT_comp_dir"].value.decode()
    folders = [name.decode() for name in program.header["include_directory"]]
    folders = folders if program.header["version"] >= 5 else [directory, *folders]
    files = ((folders[entry["dir_index"]], entry["name"].decode()) for entry in program.header["file_entry"])
    return tuple(posixpath.normpath(posixpath.join(directory, folder, name)) for folder, name in files)


@pytest.mark.parametrize(
    ("compiler", "options"),
    [
        ("gcc", ("-gdwarf-2", "-gstrict-dwarf")),
        ("gcc", ("-gdwarf-4",)),
        ("gcc", ("-gdwarf-5",)),
        ("gcc", ("-g", "-flto")),
        ("gcc", ("-g", "-Wl,--compress-debug-sections=zlib")),
        ("clang", ("-gdwarf-5",)),
        ("clang", ("-gdwarf-4", "-gdwarf-aranges")),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_headers_are_those_of_pyelftools(compiler: str, options: tuple[str, ...], tmp_path: Path) -> None:
    content = compile_program(tmp_path, *options, compiler=compiler)
    dwarf: Any = ELFFile(io.BytesIO(content)).get_dwarf_info()
    sections = DebugSections.of_image(ElfImage.read(io.BytesIO(content)))
    units = list(dwarf.iter_CUs())
    headers = sections.list_headers(lambda: None)
    assert [(one.offset, one.version, one.sizes.address, one.entries) for one in headers] == [
        (one.cu_offset, one["version"], one["address_size"], one.cu_die_offset) for one in units
    ]
    assert [one.end for one in headers][:-1] == [one.cu_offset for one in units][1:]
    for header, unit in zip(headers, units, strict=True):
        entry = DebugUnit(sections, header, lambda: None)
        program = dwarf.line_program_for_CU(unit)
        directory = unit.get_top_DIE().attributes["DW_AT_comp_dir"].value.decode()
        found = read_line_header(sections, entry.top.values[STMT_LIST][1], entry, directory)
        assert found.files == list_paths(unit, program)
        assert found.operand_counts == tuple(program.header["standard_opcode_lengths"])
        program.stream.seek(program.program_start_offset)
        assert found.code == program.stream.read(program.program_end_offset - program.program_start_offset)
    aranges = dwarf.get_aranges()
    expected = [] if aranges is None else [(one.begin_addr, one.length, one.info_offset) for one in aranges.entries]
    ranges = sections.read_address_ranges()
    lengths = (ranges.end - ranges.start).tolist()
    assert list(zip(ranges.start.tolist(), lengths, ranges.unit.tolist(), strict=True)) == [
        one for one in expected if one[1]
    ]


def test_units_with_64_bit_offsets_have_the_same_files(tmp_path: Path) -> None:
    """Their line program may have offsets of another size, which pyelftools does not expect."""
    files, sizes = [], []
    for option in ("-gdwarf32", "-gdwarf64"):
        sections = DebugSections.of_image(ElfImage.read(io.BytesIO(compile_program(tmp_path, "-g", option))))
        for header in sections.list_headers(lambda: None):
            unit = DebugUnit(sections, header, lambda: None)
            found = read_line_header(sections, unit.top.values[STMT_LIST][1], unit, "/")
            if any("stdin" in path for path in found.files):
                files.append((found.files, found.code))
                sizes.append(header.sizes.offset)
    assert sizes == [4, 8]
    assert files[0] == files[1]


@given(st.binary(max_size=120), st.binary(max_size=60), st.binary(max_size=120), st.sampled_from("<>"))
def test_any_bytes_end(info: bytes, abbreviations: bytes, lines: bytes, order: str) -> None:
    # A valid beginning, so that more than the first length is read.
    start = struct.pack(f"{order}IHBBI", 200, 5, 1, 8, 0)
    contents = {"info": start + info, "abbrev": abbreviations, "line": struct.pack(f"{order}IH", 300, 5) + lines}
    sections = DebugSections.of_contents(contents | {"aranges": lines}, order)
    assert len(sections.read_address_ranges().start) <= len(lines)
    with suppress(*DAMAGED):
        unit = DebugUnit(sections, sections.list_headers(lambda: None)[0], lambda: None)
        for child in unit.iterate_children(unit.top, frozenset(range(64))):
            unit.name_of(child)
        read_line_header(sections, 0, unit, "/")


def test_abbreviations_need_memory_only_when_entries_use_them() -> None:
    """Of a table with millions of attributes, only what an entry refers to is decoded."""
    long = bytes((0x34, 0, *(0x3F, 0x19) * 4000, 0, 0))
    table = b"".join(bytes((code,)) + long for code in range(1, 100)) + b"\0"
    found = Abbreviations(table, 0, SIZES, AbbreviationCache())
    assert found[99].size == 0
    assert list(found) == [99]
    many = b"".join(
        bytes((0x80 | code & 0x7F, 0x80 | code >> 7 & 0x7F, code >> 14, 1, 0, 0, 0))
        for code in range(1, MAX_ABBREVIATIONS + 2)
    )
    with pytest.raises(ValueError, match="too many abbreviations"):
        Abbreviations(many, 0, SIZES, AbbreviationCache())[0]
