"""Line programs of DWARF (DWARF 5, section 6.2.5), run over their bytes.

pyelftools reads their headers. Its own interpreter creates several objects for each opcode, which takes twenty times as
long as this one.
"""

from collections.abc import Callable
from typing import Any, Literal

EXTENDED, COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE, SET_COLUMN = range(6)
CONST_ADD_PC, FIXED_ADVANCE_PC = 8, 9
END_SEQUENCE, SET_ADDRESS = 1, 2
CHECK_EVERY = 1 << 14
MASK = 2**64 - 1


def run_line_program(
    code: bytes, header: Any, *, little_endian: bool, check: Callable[[], None]
) -> list[tuple[int, int, int]]:
    """The rows (address, file, line) of a line program, as it numbers files; file -1 where a sequence ends.

    Sequences at address 0 are left out: the linker removed their code. check: called now and then, may raise. Raises
    IndexError, ArithmeticError or LookupError for a damaged program.
    """
    base, line_base, line_range = (header[name] for name in ("opcode_base", "line_base", "line_range"))
    unit = header["minimum_instruction_length"]
    lengths = header["standard_opcode_lengths"]
    order: Literal["little", "big"] = "little" if little_endian else "big"
    constant = (255 - base) // line_range * unit
    # What each special opcode adds to address and line.
    special = [((op - base) // line_range * unit, line_base + (op - base) % line_range) for op in range(base, 256)]
    rows: list[tuple[int, int, int]] = []
    sequence: list[tuple[int, int, int]] = []
    address, file, line, at, steps = 0, 1, 1, 0, 0
    end = len(code)

    def number() -> int:
        """The next unsigned LEB128 number."""
        nonlocal at
        value = shift = 0
        while True:
            byte = code[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value & MASK
            shift += 7

    while at < end:
        steps += 1
        if not steps % CHECK_EVERY:
            check()
        op = code[at]
        at += 1
        if op >= base:
            more, lines = special[op - base]
            address += more
            line += lines
            sequence.append((address, file, line))
        elif op == EXTENDED:
            length = number()
            after = at + length
            kind = code[at]
            if kind == END_SEQUENCE:
                if sequence and sequence[0][0]:
                    rows += sequence
                    rows.append((address, -1, 0))
                sequence = []
                address, file, line = 0, 1, 1
            elif kind == SET_ADDRESS:
                address = int.from_bytes(code[at + 1 : after], order)
            at = after
        elif op == COPY:
            sequence.append((address, file, line))
        elif op == ADVANCE_PC:
            address += number() * unit
        elif op == ADVANCE_LINE:
            start = at
            value = number()
            bits = 7 * (at - start)
            line += value - (1 << bits) if bits < 64 and value >> (bits - 1) & 1 else value
        elif op == SET_FILE:
            file = number()
        elif op == CONST_ADD_PC:
            address += constant
        elif op == FIXED_ADVANCE_PC:
            address += int.from_bytes(code[at : at + 2], order)
            at += 2
        else:
            for _ in range(lengths[op - 1]):
                number()
    return rows
