"""Entries of debug information: functions in local classes, and data that is made to take long."""

from __future__ import annotations

import io
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from perfloom.ingest.machine_code.debug_lines import DebugLines, OutOfTime
from perfloom.ingest.machine_code.debug_sections import DebugSections
from perfloom.ingest.machine_code.elf_image import ElfImage
from tests.support.parts import require

LOCAL_CLASS = """
static inline __attribute__((always_inline)) int square(int a) { return a * a; }
inline int outer(int n) {
    struct Local { __attribute__((noinline)) int call(int k) { volatile int v = square(k); return v; } };
    return Local().call(n);
}
int main(int count, char **) { return outer(count); }
"""
UNIT, VARIABLE, FUNCTION = 0x11, 0x34, 0x2E
ADDRESS, DATA_8, OFFSET = 0x01, 0x07, 0x17
LOW_PC, HIGH_PC, RANGES = 0x11, 0x12, 0x55


def abbreviation(code: int, tag: int, has_children: bool, *fields: int) -> bytes:
    return bytes((code, tag, has_children, *fields, 0, 0))


def make_debug_information(entries: bytes, *abbreviations: bytes, ranges: bytes = b"") -> DebugSections:
    """A unit of version 4 with these entries. Abbreviation 1 is that of the unit itself."""
    body = struct.pack("<HIB", 4, 0, 8) + b"\1" + struct.pack("<QQ", 0x1000, 0x1000) + entries
    table = abbreviation(1, UNIT, True, LOW_PC, ADDRESS, HIGH_PC, DATA_8) + b"".join(abbreviations) + b"\0"
    content = {"info": struct.pack("<I", len(body)) + body, "abbrev": table, "ranges": ranges}
    return DebugSections.of_contents(content)


def test_functions_of_local_classes_are_found(tmp_path: Path) -> None:
    program = tmp_path / "local"
    argv = [require("g++"), "-O1", "-g", "-x", "c++", "-o", program, "-"]
    subprocess.run(argv, input=LOCAL_CLASS, text=True, check=True)
    elf = ELFFile(io.BytesIO(program.read_bytes()))
    (symbol,) = (one for one in elf.get_section_by_name(".symtab").iter_symbols() if "Local" in one.name)
    lines = DebugLines(DebugSections.of_image(ElfImage.read(io.BytesIO(program.read_bytes()))), deadline_s=1e9)
    ((offset, starts),) = lines.find_units([symbol["st_value"]]).items()
    (calls,) = lines.list_scopes(offset, starts).values()
    assert [call.function for call in calls] == ["square"]


@pytest.mark.parametrize(
    "debug_information",
    [
        make_debug_information(b"\2" * 1000 + b"\0", abbreviation(2, VARIABLE, False)),
        make_debug_information(
            b"\2" + bytes(5),
            abbreviation(2, FUNCTION, False, RANGES, OFFSET),
            ranges=struct.pack("<QQ", 1, 2) * 1000 + bytes(16),
        ),
    ],
    ids=["entries", "ranges"],
)
def test_the_time_is_limited(debug_information: DebugSections, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = []
    monkeypatch.setattr(DebugLines, "_check_time", lambda lines: checks.append(1))
    DebugLines(debug_information, 1e9).list_scopes(0, [0x1500])
    assert len(checks) > 3
    monkeypatch.undo()
    with pytest.raises(OutOfTime):
        DebugLines(debug_information, deadline_s=0).list_scopes(0, [0x1500])


def test_an_entry_has_a_limited_number_of_attributes() -> None:
    fields = (0x3F, 0x19) * 5000
    with pytest.raises(ValueError, match="too many attributes"):
        DebugLines(
            make_debug_information(b"\2\0", abbreviation(2, FUNCTION, False, *fields)), deadline_s=1e9
        ).list_scopes(0, [0x1500])
