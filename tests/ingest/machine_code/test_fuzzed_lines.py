"""Line programs of any bytes end with rows or an error that is expected."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from perfloom.ingest.machine_code.elf import DAMAGED
from perfloom.ingest.machine_code.line_program import run_line_program

HEADER = {
    "opcode_base": 13,
    "line_base": -5,
    "line_range": 14,
    "minimum_instruction_length": 1,
    "standard_opcode_lengths": [0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1],
}


@given(st.binary(max_size=200), st.booleans())
def test_any_program_ends(code: bytes, little_endian: bool) -> None:
    with suppress(*DAMAGED):
        for _, file, _ in run_line_program(code, HEADER, little_endian=little_endian, check=lambda: None):
            assert file >= -1


def test_rows_are_those_of_the_program() -> None:
    # Address 0x1000; line 3 by advance and copy; +2 bytes and +1 line by a special opcode; the end 4 bytes on.
    special = 13 + (1 + 5) + 14 * 2
    code = bytes([0, 9, 2]) + (0x1000).to_bytes(8, "little") + bytes([3, 2, 1, special, 2, 4, 0, 1, 1])
    found = run_line_program(code, HEADER, little_endian=True, check=lambda: None)
    assert found == [(0x1000, 1, 3), (0x1002, 1, 4), (0x1006, -1, 0)]


def test_removed_code_has_no_rows() -> None:
    code = bytes([0, 9, 2]) + bytes(8) + bytes([1, 2, 4, 0, 1, 1])
    assert run_line_program(code, HEADER, little_endian=True, check=lambda: None) == []
