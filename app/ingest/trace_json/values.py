"""The ends of JSON values, compiled: strings, numbers, lists and objects, of strict JSON only.

Used by the loops of `scanner`. BAD if something is not strict, or deeper or longer than in traces.
"""

from typing import Any

import numpy as np

from ...domain.arrays import Array
from ..jit.decorators import jit_inline, uint64
from .grammar import MAX_NUMBER_CHARS
from .simd import (
    count_trailing_zeros,
    equal_mask,
    load_word,
    nonblank_mask,
    popcount,
    special_mask,
)

BAD = -1
MAX_NESTING = 60
_LOCAL, _GLOBAL = (np.uint64(int.from_bytes(word, "little")) for word in (b'local"', b'global"'))


@jit_inline
def mask_low_bytes(text: Any, length: int) -> Any:
    """The first bytes of a word; `length` up to 8."""
    return text if length >= 8 else text & ((uint64(1) << uint64(8 * length)) - uint64(1))


@jit_inline
def find_blank_end(data: Array, p: int) -> int:
    if data[p] > 32:
        return p
    if data[p] == 32 and data[p + 1] > 32:
        return p + 1
    while True:
        mask = nonblank_mask(data, p)
        if mask:
            p += count_trailing_zeros(mask)
            return p
        p += 64


@jit_inline
def _is_hex(byte: int) -> bool:
    return 48 <= byte <= 57 or 65 <= byte <= 70 or 97 <= byte <= 102


@jit_inline
def find_string_end(data: Array, p: int) -> int:
    """The position of the closing quote of the string whose text begins at p; BAD if it is not a strict string."""
    while True:
        mask = special_mask(data, p)
        if not mask:
            p += 64
            continue
        p += count_trailing_zeros(mask)
        byte = data[p]
        if byte == 34:
            return p
        if byte != 92:
            return BAD
        byte = data[p + 1]
        if byte == 117:
            for i in range(2, 6):
                if not _is_hex(data[p + i]):
                    return BAD
            p += 6
        elif byte in (34, 92, 47, 98, 102, 110, 114, 116):
            p += 2
        else:
            return BAD


@jit_inline
def find_number_end(data: Array, p: int) -> int:
    """The end of the number that begins at p; BAD if there is none, or it is very long, or may be very large."""
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
    if p - start >= MAX_NUMBER_CHARS:
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


@jit_inline
def find_value_end(data: Array, p: int) -> int:
    """The end of the strict JSON value that begins at p; BAD if there is none, or it is deeply nested."""
    inside = uint64(0)
    depth = 0
    while True:
        byte = data[p]
        if byte == 91 or byte == 123:
            is_object = byte == 123
            if depth == MAX_NESTING:
                return BAD
            depth += 1
            inside = (inside << uint64(1)) | uint64(is_object)
            p = find_blank_end(data, p + 1)
            if data[p] != (125 if is_object else 93):
                if is_object:
                    p = _find_value_start(data, p)
                    if p < 0:
                        return BAD
                continue
            p += 1
            depth -= 1
            inside >>= uint64(1)
        elif byte == 34:
            p = find_string_end(data, p + 1) + 1
            if p == 0:
                return BAD
        elif byte == 45 or 48 <= byte <= 57:
            p = find_number_end(data, p)
            if p < 0:
                return BAD
        else:
            p = find_literal_end(data, p)
            if p < 0:
                return BAD
        while depth:
            p = find_blank_end(data, p)
            is_object = (inside & uint64(1)) == uint64(1)
            if data[p] == 44:
                p = find_blank_end(data, p + 1)
                if is_object:
                    p = _find_value_start(data, p)
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


@jit_inline
def _find_value_start(data: Array, p: int) -> int:
    """The start of the value of the member whose key begins at p."""
    if data[p] != 34:
        return BAD
    p = find_string_end(data, p + 1)
    if p < 0:
        return BAD
    p = find_blank_end(data, p + 1)
    if data[p] != 58:
        return BAD
    return find_blank_end(data, p + 1)


@jit_inline
def find_literal_end(data: Array, p: int) -> int:
    text = load_word(data, p)
    if (text & uint64(0xFFFFFFFF)) in (uint64(0x65757274), uint64(0x6C6C756E)):
        return p + 4
    if (text & uint64(0xFFFFFFFFFF)) == uint64(0x65736C6166):
        return p + 5
    return BAD


@jit_inline
def find_nested_end(data: Array, start: int, end: int) -> int:
    """Where the brackets that open at `start` are closed. Only strings are checked within them."""
    p, depth = start, 0
    in_string = uint64(0)
    while p < end:
        if equal_mask(data, p, 92):
            return find_value_end(data, start)
        strings = equal_mask(data, p, 34)
        for shift in (1, 2, 4, 8, 16, 32):
            strings ^= strings << uint64(shift)
        strings ^= in_string
        opened = (equal_mask(data, p, 91) | equal_mask(data, p, 123)) & ~strings
        closed = (equal_mask(data, p, 93) | equal_mask(data, p, 125)) & ~strings
        count = popcount(closed)
        if count >= depth:
            left, seen = closed, 0
            while left:
                at: int = count_trailing_zeros(left)
                seen += 1
                if depth + popcount(opened & ((uint64(1) << uint64(at)) - uint64(1))) == seen:
                    return p + at + 1
                left &= left - uint64(1)
        depth += popcount(opened) - count
        in_string = uint64(0) - (strings >> uint64(63))
        p += 64
    return BAD


@jit_inline
def find_scoped_id_end(data: Array, p: int) -> int:
    """The end of the `id2` at p, as in {"local": "0x1"}; BAD if it has another form."""
    if data[p] != 123:
        return BAD
    p = find_blank_end(data, p + 1)
    if data[p] != 34:
        return BAD
    word = load_word(data, p + 1)
    p += 7 if mask_low_bytes(word, 6) == _LOCAL else 8 if mask_low_bytes(word, 7) == _GLOBAL else 0
    if data[p - 1] != 34:
        return BAD
    p = find_blank_end(data, p)
    if data[p] != 58:
        return BAD
    p = find_blank_end(data, p + 1)
    if data[p] != 34:
        return BAD
    p = find_string_end(data, p + 1)
    if p < 0:
        return BAD
    p = find_blank_end(data, p + 1)
    return p + 1 if data[p] == 125 else BAD
