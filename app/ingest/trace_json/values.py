"""Where values end in JSON, compiled: strings, numbers, lists and objects, of strict JSON alone.

Parts of the loops of `kernel`. BAD where something is not strict, or deeper or longer than traces have it.
"""

from typing import Any

from numba import uint64

from ...domain.arrays import Array
from ..loops.compiled import inlined
from .grammar import LONGEST_NUMBER
from .masks import bits, equal, first, special, unblank, word

BAD = -1
NEST = 60


@inlined
def low(text: Any, length: int) -> Any:
    """The first bytes of a word; `length` up to 8."""
    return text if length >= 8 else text & ((uint64(1) << uint64(8 * length)) - uint64(1))


@inlined
def blank_end(data: Array, p: int) -> int:
    if data[p] > 32:
        return p
    if data[p] == 32 and data[p + 1] > 32:
        return p + 1
    while True:
        mask = unblank(data, p)
        if mask:
            p += first(mask)
            return p
        p += 64


@inlined
def _hex(byte: int) -> bool:
    return 48 <= byte <= 57 or 65 <= byte <= 70 or 97 <= byte <= 102


@inlined
def string_end(data: Array, p: int) -> int:
    """Where the closing quote of the string stands whose text begins at p; BAD where it is no strict string."""
    while True:
        mask = special(data, p)
        if not mask:
            p += 64
            continue
        p += first(mask)
        byte = data[p]
        if byte == 34:
            return p
        if byte != 92:
            return BAD
        byte = data[p + 1]
        if byte == 117:
            for i in range(2, 6):
                if not _hex(data[p + i]):
                    return BAD
            p += 6
        elif byte in (34, 92, 47, 98, 102, 110, 114, 116):
            p += 2
        else:
            return BAD


@inlined
def number_end(data: Array, p: int) -> int:
    """Where the number ends that begins at p; BAD where it is none, or very long, or may be very large."""
    start = p
    if data[p] == 45:
        p += 1
    if data[p] == 48:
        p += 1
    else:
        begin = p
        while 48 <= data[p] <= 57:
            p += 1
        if p == begin:
            return BAD
    if data[p] == 46:
        p += 1
        begin = p
        while 48 <= data[p] <= 57:
            p += 1
        if p == begin:
            return BAD
    if p - start >= LONGEST_NUMBER:
        return BAD
    if data[p] == 101 or data[p] == 69:
        p += 1
        if data[p] == 43 or data[p] == 45:
            p += 1
        begin = p
        while 48 <= data[p] <= 57:
            p += 1
        if p == begin or p > begin + 2:
            return BAD
    return p


@inlined
def value_end(data: Array, p: int) -> int:
    """Where the strict JSON value ends that begins at p; BAD where there is none, or it is nested deep."""
    inside = uint64(0)
    depth = 0
    while True:
        byte = data[p]
        if byte == 91 or byte == 123:
            is_object = byte == 123
            if depth == NEST:
                return BAD
            depth += 1
            inside = (inside << uint64(1)) | uint64(is_object)
            p = blank_end(data, p + 1)
            if data[p] != (125 if is_object else 93):
                if is_object:
                    p = _colon_end(data, p)
                    if p < 0:
                        return BAD
                continue
            p += 1
            depth -= 1
            inside >>= uint64(1)
        elif byte == 34:
            p = string_end(data, p + 1) + 1
            if p == 0:
                return BAD
        elif byte == 45 or 48 <= byte <= 57:
            p = number_end(data, p)
            if p < 0:
                return BAD
        else:
            p = literal_end(data, p)
            if p < 0:
                return BAD
        while depth:
            p = blank_end(data, p)
            is_object = (inside & uint64(1)) == uint64(1)
            if data[p] == 44:
                p = blank_end(data, p + 1)
                if is_object:
                    p = _colon_end(data, p)
                    if p < 0:
                        return BAD
                break
            if data[p] != (125 if is_object else 93):
                return BAD
            p += 1
            depth -= 1
            inside >>= uint64(1)
        if depth == 0:
            return p


@inlined
def _colon_end(data: Array, p: int) -> int:
    """Where the value begins of the member whose key begins at p."""
    if data[p] != 34:
        return BAD
    p = string_end(data, p + 1)
    if p < 0:
        return BAD
    p = blank_end(data, p + 1)
    if data[p] != 58:
        return BAD
    return blank_end(data, p + 1)


@inlined
def literal_end(data: Array, p: int) -> int:
    text = word(data, p)
    if (text & uint64(0xFFFFFFFF)) in (uint64(0x65757274), uint64(0x6C6C756E)):
        return p + 4
    if (text & uint64(0xFFFFFFFFFF)) == uint64(0x65736C6166):
        return p + 5
    return BAD


@inlined
def nested_end(data: Array, start: int, end: int) -> int:
    """Where the brackets are closed again that open at `start`. Nothing else is looked at but strings."""
    p, depth = start, 0
    in_string = uint64(0)
    while p < end:
        if equal(data, p, 92):
            return value_end(data, start)
        strings = equal(data, p, 34)
        for shift in (1, 2, 4, 8, 16, 32):
            strings ^= strings << uint64(shift)
        strings ^= in_string
        opened = (equal(data, p, 91) | equal(data, p, 123)) & ~strings
        closed = (equal(data, p, 93) | equal(data, p, 125)) & ~strings
        count = bits(closed)
        if count >= depth:
            left, seen = closed, 0
            while left:
                at: int = first(left)
                seen += 1
                if depth + bits(opened & ((uint64(1) << uint64(at)) - uint64(1))) == seen:
                    return p + at + 1
                left &= left - uint64(1)
        depth += bits(opened) - count
        in_string = uint64(0) - (strings >> uint64(63))
        p += 64
    return BAD
