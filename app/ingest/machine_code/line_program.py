"""Line programs of DWARF (DWARF 5, section 6.2.5), run over their bytes.

All opcodes of a kind are decoded at once: creating objects for each opcode takes a hundred times as long.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from ...domain.arrays import Array
from .line_header import LineHeader

EXTENDED, COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE = range(5)
CONST_ADD_PC, FIXED_ADVANCE_PC = 8, 9
END_SEQUENCE, SET_ADDRESS = 1, 2
MAX_FILE = 2**31 - 1
MASK = 2**64 - 1
_DOUBLINGS = 6
"""So often the number of opcodes that are followed at once is doubled: to 64."""
_LEB_BYTES = 10
"""Of a number of 64 bits. Further bytes have no effect."""


def run_line_program(
    header: LineHeader, *, little_endian: bool, check: Callable[[], None]
) -> tuple[Array, Array, Array]:
    """The rows of a line program: (address uint64, file int64 as it numbers files, line int64).

    File -1 is where a sequence ends.
    Sequences at address 0 are left out: the linker removed their code. Addresses and lines are computed modulo 2^64.
    check: called now and then, may raise. Raises IndexError, ArithmeticError or LookupError for a damaged program.
    """
    base, unit, code = header.opcode_base, np.uint64(header.min_instruction_bytes), header.code
    program = _Bytes(code)
    at = _follow(program.list_ends(base, header.operand_counts), check)
    op = program.data[at].astype(np.int64)
    standard = np.where(op < base, op, -1)
    advance, more_lines = _decode_special(op, base, header.line_base, header.line_range)
    advance *= unit
    rows = standard == ADVANCE_PC
    advance[rows] = program.read(at[rows] + 1) * unit
    rows = standard == FIXED_ADVANCE_PC
    low, high = (1, 2) if little_endian else (2, 1)
    advance[rows] = program.data[at[rows] + low] + program.data[at[rows] + high] * np.uint64(256)
    rows = standard == ADVANCE_LINE
    more_lines[rows] = program.read_signed(at[rows] + 1)
    files = np.flatnonzero(standard == SET_FILE)
    file_of = np.minimum(program.read(at[files] + 1), np.uint64(MAX_FILE)).astype(np.int64)
    extended = np.flatnonzero(standard == EXTENDED)
    first = program.end(at[extended] + 1)
    kind = program.data[first]
    ends, moves = extended[kind == END_SEQUENCE], np.flatnonzero(kind == SET_ADDRESS)
    after = first[moves] + program.read(at[extended[moves]] + 1).astype(np.int64)
    order: Literal["little", "big"] = "little" if little_endian else "big"
    places = zip((first[moves] + 1).tolist(), after.tolist(), strict=True)
    moved_to = np.array([int.from_bytes(code[low:high], order) & MASK for low, high in places], np.uint64)

    is_end = np.zeros(len(op), bool)
    is_end[ends] = True
    row = np.flatnonzero(is_end | (standard < 0) | (standard == COPY))
    address = _sum_since(advance, row, (extended[moves], moved_to), (ends, np.zeros(len(ends), np.uint64)))
    line = 1 + _sum_since(more_lines, row, (ends, np.zeros(len(ends), np.int64)))
    file = 1 + _sum_since(np.zeros_like(more_lines), row, (files, file_of - 1), (ends, np.zeros(len(ends), np.int64)))
    is_end = is_end[row]
    sequence = np.cumsum(is_end) - is_end
    begin = np.searchsorted(sequence, np.arange(len(ends)))
    # Rows that no end follows are not valid.
    kept = np.append(~is_end[begin] & (address[begin] != 0), False)[sequence]
    return address[kept], np.where(is_end, -1, file)[kept], np.where(is_end, 0, line)[kept]


def _decode_special(op: Array, base: int, line_base: int, line_range: int) -> tuple[Array, Array]:
    """(advance of the address in units, uint64; of the line, int64) of each opcode; 0 for others than special opcodes
    and CONST_ADD_PC."""
    units, lines = np.zeros(256, np.uint64), np.zeros(256, np.int64)
    for code in range(base, 256):
        units[code] = (code - base) // line_range
        lines[code] = line_base + (code - base) % line_range
    if base > CONST_ADD_PC:
        units[CONST_ADD_PC] = (255 - base) // line_range
    return units[op], lines[op]


def _sum_since(more: Array, row: Array, *settings: tuple[Array, Array]) -> Array:
    """The value at each of the steps `row`: the one that was last set before, plus what the steps since then and this
    one add. more: of each step. settings: (steps that set a value, values)."""
    at, value = (np.concatenate(column) for column in zip(*settings, strict=True))
    order = np.argsort(at, kind="stable")
    # First 0 is set.
    at, value = np.append(-1, at[order]), np.concatenate((np.zeros(1, more.dtype), value[order]))
    total = np.append(np.zeros(1, more.dtype), np.cumsum(more))
    last = np.searchsorted(at, row) - 1
    found: Array = value[last] + (total[row + 1] - total[at[last] + 1])
    return found


class _Bytes:
    """A program, and the LEB128 numbers that begin at any place in it. data: uint8."""

    def __init__(self, code: bytes) -> None:
        self.data = np.frombuffer(code, np.uint8)
        # A number that begins at any place may have no end.
        self._padded = np.append(self.data, np.uint8(0))
        stops = self.data < 128
        # A number without a last byte ends beyond the program.
        self._stop = np.append(np.flatnonzero(stops), len(code))
        self._number = np.append(np.cumsum(stops) - stops, len(self._stop) - 1)

    def end(self, start: Array, count: Array | int = 1) -> Array:
        """The end of so many numbers that begin at `start`, which is there for none."""
        last = self._number[np.minimum(start, len(self.data))] + count - 1
        found: Array = np.where(count == 0, start, self._stop[np.minimum(last, len(self._stop) - 1)] + 1)
        return found

    def read(self, start: Array) -> Array:
        """The unsigned numbers that begin at `start`, modulo 2^64; uint64."""
        size = self.end(start) - start
        value = np.zeros(len(start), np.uint64)
        for place in range(min(int(size.max(initial=0)), _LEB_BYTES)):
            has = place < size
            value[has] |= (self._padded[start[has] + place] & np.uint64(127)) << np.uint64(7 * place)
        return value

    def read_signed(self, start: Array) -> Array:
        """The signed numbers that begin at `start`, modulo 2^64; int64."""
        bits = 7 * (self.end(start) - start)
        shift = np.maximum(64 - bits, 0)
        value: Array = (self.read(start) << shift.astype(np.uint64)).view(np.int64) >> shift
        return value

    def list_ends(self, base: int, lengths: Sequence[int]) -> Array:
        """Where the opcode ends that would begin at each place."""
        place, op = np.arange(len(self.data)), self.data
        count = np.zeros(256, np.int64)
        count[1 : len(lengths) + 1] = lengths
        count[[ADVANCE_PC, ADVANCE_LINE, SET_FILE]] = 1
        count[[COPY, CONST_ADD_PC, *range(base, 256)]] = 0
        end: Array = self.end(place + 1, count[op])
        if base > FIXED_ADVANCE_PC:
            end[op == FIXED_ADVANCE_PC] = place[op == FIXED_ADVANCE_PC] + 3
        if base > EXTENDED:
            number = place[op == EXTENDED] + 1
            size = np.minimum(self.read(number), np.uint64(len(op) + 1)).astype(np.int64)
            end[op == EXTENDED] = self.end(number) + size
        return end


def _follow(ends: Array, check: Callable[[], None]) -> Array:
    """The places of the opcodes. ends: where the opcode ends that would begin at each place."""
    size = len(ends)
    # Places behind the last byte lead to themselves.
    steps = [np.append(np.minimum(ends, size + 1), (size, size + 1))]
    for _ in range(_DOUBLINGS):
        check()
        steps.append(steps[-1][steps[-1]])
    many, found, at = steps.pop().data, [], 0
    while at < size:
        found.append(at)
        at = many[at]
    if at > size:
        raise IndexError("the last opcode is not complete")
    places = np.array(found, np.int64)
    for step in steps:
        places = np.append(places, step[places])
    is_place = np.zeros(size + 2, bool)
    is_place[places] = True
    return np.flatnonzero(is_place[:size])
