"""Runs the opcodes of a pickle that create plain values, and refuses every other one: nothing is imported, called or
instantiated, and no Python object is created.

The result is a tape: one entry of two columns for each value (kind, value), the members of containers consecutively in
`items`, in chunks, because a pickler writes a long list in several parts. A value that is used again is on the tape
only once. So the memory of a pickle is bounded by its length: every byte adds at most one value, one member and one
chunk.

Opcodes: Python's Lib/pickletools.py, protocols 2 to 5. Imported only when a file is read.
"""

from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...ingest.jit.decorators import jit_bounds_checked

NONE, FALSE, TRUE, INT, FLOAT, TEXT, LIST, TUPLE, DICT, BIG = range(10)
"""Kinds of values. value: of INT the number, of FLOAT its 64 bits, of TEXT its index in `texts`, of containers the last
of their chunks (-1: empty). BIG: a whole number beyond 64 bits, which is not stored."""
SMALL = 3
"""The values 0 to 2 are None, False and True, those from here on the numbers 0 to 255."""
FIRST = SMALL + 256
MORE, DONE, REFUSED, UNDERFLOW, UNKNOWN, TOO_FAR, MISPLACED, TOO_NEW, TOO_MANY = range(9)
"""How a run ends: more bytes are needed (detail: the minimum number from where it stopped), the pickle ended, an opcode
is not permitted (detail: which), a value or a mark is missing, a value that is not in the memo is requested, a memo
number (detail) is not the next, a container gets a value that it cannot contain (detail: the opcode), the protocol is
unknown (detail), there are more than 2^31 values."""
VALUES, ITEMS, CHUNKS, STACK, MARKS, MEMO, ARENA, TEXTS, BEFORE = range(9)
"""Indices into the machine's counts: how much of each column is used, and how many bytes were run before this block."""


@jit_bounds_checked
def run(
    data: Array,
    length: int,
    counts: Array,
    kind: Array,
    value: Array,
    items: Array,
    chunk_start: Array,
    chunk_count: Array,
    chunk_before: Array,
    stack: Array,
    marks: Array,
    memo: Array,
    arena: Array,
    texts: Array,
) -> tuple[int, int, int]:
    """Run the opcodes in the first `length` bytes of `data`. Returns (number of bytes that were run, how it ended, a
    detail).

    Every column has room for `length` more entries than counted, items for as many and those on the stack.
    """
    values, item, chunks, top = counts[VALUES], counts[ITEMS], counts[CHUNKS], counts[STACK]
    depth, remembered, room, known = counts[MARKS], counts[MEMO], counts[ARENA], counts[TEXTS]
    at, status = 0, MORE
    detail: Any = 1
    gather: Any
    argument: Any
    while at < length:
        op = data[at]
        begin = at
        at += 1
        new, new_value, gather, takes, pairs = -1, -1, 0, False, False
        # The number of bytes of the argument. For a text, the number of bytes of its length at first.
        size = 0
        if op == 0x4B or op == 0x55 or op == 0x80 or op == 0x68 or op == 0x71 or op == 0x8C or op == 0x8A:
            size = 1
        elif op == 0x4D:
            size = 2
        elif op == 0x4A or op == 0x58 or op == 0x6A or op == 0x72 or op == 0x8B:
            size = 4
        elif op == 0x47 or op == 0x95 or op == 0x8D:
            size = 8
        if at + size > length:
            at, detail = begin, 1 + size
            break
        argument = 0
        if op != 0x47:
            for place in range(size):
                argument |= np.int64(data[at + place]) << (8 * place)
        at += size

        if op == 0x68 or op == 0x6A:
            # BINGET, LONG_BINGET
            if argument >= remembered:
                status, detail = UNKNOWN, argument
                at = begin
                break
            stack[top] = memo[argument]
            top += 1
        elif op == 0x4B:
            # BININT1
            stack[top] = SMALL + argument
            top += 1
        elif op == 0x94 or op == 0x71 or op == 0x72:
            # MEMOIZE, BINPUT, LONG_BINPUT
            put = remembered if op == 0x94 else argument
            if top == 0 or (depth > 0 and marks[depth - 1] == top):
                status, at = UNDERFLOW, begin
                break
            if put > remembered:
                status, detail, at = TOO_FAR, put, begin
                break
            memo[put] = stack[top - 1]
            remembered += put == remembered
        elif op == 0x28:
            # MARK
            marks[depth] = top
            depth += 1
        elif op == 0x4D:
            # BININT2
            new, new_value = INT, argument
        elif op == 0x4A:
            # BININT
            new, new_value = INT, argument - ((argument & 0x80000000) << 1)
        elif op == 0x8A or op == 0x8B:
            # LONG1, LONG4
            if argument < 0 or at + argument > length:
                detail = at - begin + argument
                at = begin
                if argument > 0x7FFFFFFF:
                    status, detail = REFUSED, np.int64(op)
                break
            past = False
            number: Any = np.int64(0)
            for place in range(argument):
                byte = np.int64(data[at + place])
                if place < 8:
                    number |= byte << (8 * place)
                elif byte != (255 if number < 0 else 0):
                    past = True
            if 0 < argument < 8 and data[at + argument - 1] >= 128:
                number -= np.int64(1) << (8 * argument)
            at += argument
            new, new_value = (BIG if past else INT), number
        elif op == 0x47:
            # BINFLOAT, big-endian
            number = np.int64(0)
            for place in range(8):
                number = (number << 8) | np.int64(data[at - 8 + place])
            new, new_value = FLOAT, number
        elif op == 0x8C or op == 0x58 or op == 0x8D:
            # SHORT_BINUNICODE, BINUNICODE, BINUNICODE8
            if argument < 0 or argument > 0x7FFFFFFF:
                status, detail, at = REFUSED, np.int64(op), begin
                break
            if at + argument > length:
                detail, at = at - begin + argument, begin
                break
            for place in range(argument):
                arena[room + place] = data[at + place]
            at += argument
            room += argument
            new, new_value = TEXT, known
            known += 1
            texts[known] = room
        elif op == 0x4E:
            stack[top] = 0
            top += 1
        elif op == 0x89 or op == 0x88:
            # NEWFALSE, NEWTRUE
            stack[top] = 2 if op == 0x88 else 1
            top += 1
        elif op == 0x5D:
            new = LIST
        elif op == 0x7D:
            new = DICT
        elif op == 0x29:
            new = TUPLE
        elif op == 0x61 or op == 0x73:
            # APPEND, SETITEM: to the value below
            takes, pairs = True, op == 0x73
            gather = top - (2 if pairs else 1)
        elif op == 0x65 or op == 0x75:
            # APPENDS, SETITEMS: the values above the mark to the value below it
            takes, pairs = True, op == 0x75
            if depth == 0:
                status, at = UNDERFLOW, begin
                break
            depth -= 1
            gather = marks[depth]
        elif op == 0x6C or op == 0x64 or op == 0x74:
            # LIST, DICT, TUPLE: of the values above the mark
            new, takes = (LIST if op == 0x6C else DICT if op == 0x64 else TUPLE), True
            if depth == 0:
                status, at = UNDERFLOW, begin
                break
            depth -= 1
            gather = marks[depth]
        elif op == 0x85 or op == 0x86 or op == 0x87:
            # TUPLE1, TUPLE2, TUPLE3
            new, takes = TUPLE, True
            gather = top - (np.int64(op) - 0x84)
        elif op == 0x80:
            if argument > 5:
                status, detail, at = TOO_NEW, argument, begin
                break
        elif op == 0x95:
            # FRAME: only the number of bytes that follow
            pass
        elif op == 0x2E:
            if top == 0:
                status, at = UNDERFLOW, begin
                break
            status = DONE
            break
        elif op == 0x30 or op == 0x31 or op == 0x32:
            # POP, POP_MARK, DUP
            if op == 0x31:
                if depth == 0:
                    status, at = UNDERFLOW, begin
                    break
                depth -= 1
                top = marks[depth]
            elif top == 0 or (depth > 0 and marks[depth - 1] == top):
                status, at = UNDERFLOW, begin
                break
            elif op == 0x30:
                top -= 1
            else:
                stack[top] = stack[top - 1]
                top += 1
        else:
            status, detail, at = REFUSED, np.int64(op), begin
            break

        if new >= 0:
            if values >= 0x7FFFFFFF or chunks >= 0x7FFFFFFF:
                status, at = TOO_MANY, begin
                break
            kind[values] = new
            value[values] = new_value
            values += 1
        if takes:
            # The container of the members: the value just created, else the one below them.
            floor = marks[depth - 1] if depth > 0 else 0
            below = gather if new >= 0 else gather - 1
            if below < floor or gather < floor:
                status, at = UNDERFLOW, begin
                break
            holder = values - 1 if new >= 0 else np.int64(stack[below])
            count = top - gather
            wanted = DICT if pairs or new == DICT else new if new >= 0 else LIST
            if kind[holder] != wanted or (wanted == DICT and count % 2 == 1):
                status, detail, at = MISPLACED, np.int64(op), begin
                break
            if count > 0:
                last = value[holder]
                if last >= 0 and chunk_start[last] + chunk_count[last] == item:
                    chunk_count[last] += count
                else:
                    chunk_start[chunks] = item
                    chunk_count[chunks] = count
                    chunk_before[chunks] = last
                    value[holder] = chunks
                    chunks += 1
                for place in range(count):
                    items[item + place] = stack[gather + place]
                item += count
            top = gather
        if new >= 0:
            stack[top] = values - 1
            top += 1
    counts[VALUES], counts[ITEMS], counts[CHUNKS], counts[STACK] = values, item, chunks, top
    counts[MARKS], counts[MEMO], counts[ARENA], counts[TEXTS] = depth, remembered, room, known
    return at, status, detail
