"""Line programs have the rows that pyelftools finds; those of any bytes end with rows or an error that is expected."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

from elftools.dwarf.lineprogram import LineProgram
from elftools.dwarf.structs import DWARFStructs
from hypothesis import assume, given
from hypothesis import strategies as st

from perfloom.ingest.machine_code.elf import DAMAGED
from perfloom.ingest.machine_code.line_header import LineHeader
from perfloom.ingest.machine_code.line_program import run_line_program

HEADER = {
    "opcode_base": 13,
    "line_base": -5,
    "line_range": 14,
    "minimum_instruction_length": 1,
    "standard_opcode_lengths": [0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1],
    "maximum_operations_per_instruction": 1,
    "default_is_stmt": 1,
    "file_entry": [],
}
SHORT = HEADER | {"opcode_base": 10, "standard_opcode_lengths": HEADER["standard_opcode_lengths"][:9]}  # type: ignore[index]
Row = tuple[int, int, int]
set_address = st.integers(1, 2**40).map(lambda value: bytes([0, 9, 2]) + value.to_bytes(8, "little"))
number = st.integers(0, 2**20).map(lambda value: bytes([value & 127 | 128, value >> 7 & 127 | 128, value >> 14 & 127]))
steps = st.one_of(
    set_address,
    st.just(bytes([0, 1, 1])),
    st.integers(13, 255).map(lambda op: bytes([op])),
    st.sampled_from([1, 6, 7, 8]).map(lambda op: bytes([op])),
    st.tuples(st.sampled_from([2, 3, 4, 5, 12]), number).map(lambda pair: bytes([pair[0]]) + pair[1]),
    st.tuples(st.sampled_from([2, 3, 4, 5]), st.integers(0, 127)).map(bytes),
    st.binary(min_size=2, max_size=2).map(lambda value: bytes([9]) + value),
    # Opcodes of later versions are skipped by the number of their operands.
    st.just(bytes([0, 2, 4, 17])),
)


def run(code: bytes, header: dict[str, Any], *, little_endian: bool = True) -> list[Row]:
    parameters = [header[name] for name in ("minimum_instruction_length", "line_base", "line_range", "opcode_base")]
    read = LineHeader(*parameters, tuple(header["standard_opcode_lengths"]), code)
    columns = run_line_program(read, little_endian=little_endian, check=lambda: None)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def run_with_pyelftools(code: bytes, header: dict[str, Any]) -> list[Row]:
    """Its rows as `run_line_program` has them: without sequences at address 0 and those without an end."""
    structs = DWARFStructs(little_endian=True, dwarf_format=32, address_size=8, dwarf_version=4)
    program = LineProgram(header, io.BytesIO(code), structs, 0, len(code))  # type: ignore[no-untyped-call]
    rows: list[Row] = []
    sequence: list[Row] = []
    for entry in program.get_entries():  # type: ignore[no-untyped-call]
        state = entry.state
        if state is None:
            continue
        if not state.end_sequence:
            sequence.append((state.address, state.file, state.line))
            continue
        if sequence and sequence[0][0]:
            rows += [*sequence, (state.address, -1, 0)]
        sequence = []
    return rows


@given(st.lists(steps, max_size=40), st.sampled_from([HEADER, SHORT]))
def test_rows_are_those_of_pyelftools(parts: list[bytes], header: dict[str, Any]) -> None:
    code = b"".join([*parts, bytes([0, 1, 1])])
    try:
        rows = run(code, header)
    except IndexError:
        # With fewer opcodes, an operand may be an opcode that lasts beyond the end.
        assume(header is not SHORT)
        raise
    assert rows == run_with_pyelftools(code, header)


@given(st.binary(max_size=200), st.booleans())
def test_any_program_ends(code: bytes, little_endian: bool) -> None:
    with suppress(*DAMAGED):
        assert all(file >= -1 for _, file, _ in run(code, HEADER, little_endian=little_endian))


def test_rows_are_those_of_the_program() -> None:
    # Address 0x1000; line 3 by advance and copy; +2 bytes and +1 line by a special opcode; the end 4 bytes on.
    special = 13 + (1 + 5) + 14 * 2
    code = bytes([0, 9, 2]) + (0x1000).to_bytes(8, "little") + bytes([3, 2, 1, special, 2, 4, 0, 1, 1])
    assert run(code, HEADER) == [(0x1000, 1, 3), (0x1002, 1, 4), (0x1006, -1, 0)]


def test_removed_code_has_no_rows() -> None:
    code = bytes([0, 9, 2]) + bytes(8) + bytes([1, 2, 4, 0, 1, 1])
    assert run(code, HEADER) == []
