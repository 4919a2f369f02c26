"""The operations of `simd_compiled` without a compiler, for small files. Results are numpy's uint64, or int."""

import numpy as np

from ...domain.arrays import Array

MAX_WORD = (1 << 64) - 1


def special_mask(data: Array, position: int) -> np.uint64:
    """The quotes, backslashes and control characters from `position` on."""
    text = data[position : position + 64]
    return _pack((text < 32) | (text == 34) | (text == 92))


def nonblank_mask(data: Array, position: int) -> np.uint64:
    """The characters from `position` on that are no blanks of JSON."""
    text = data[position : position + 64]
    return _pack((text != 32) & (text != 10) & (text != 13) & (text != 9))


def equal_mask(data: Array, position: int, byte: int) -> np.uint64:
    """The characters from `position` on that are this byte."""
    return _pack(data[position : position + 64] == byte)


def copy64(source: Array, position: int, target: Array, to: int) -> None:
    """Copy 64 bytes from one array into another."""
    target[to : to + 64] = source[position : position + 64]


def load_word(data: Array, position: int) -> np.uint64:
    """The 8 bytes from `position` on as one number."""
    return np.uint64(int.from_bytes(data[position : position + 8].tobytes(), "little"))


def count_trailing_zeros(mask: np.uint64) -> int:
    """Which bit of a mask that has some is the first."""
    bits = int(mask)
    return (bits & -bits).bit_length() - 1


def popcount(mask: np.uint64) -> int:
    """How many bits of a mask are set."""
    return int(mask).bit_count()


def multiply_fold(one: np.uint64, other: np.uint64) -> np.uint64:
    """The upper half of a product of 128 bits, mixed with the lower."""
    product = int(one) * int(other)
    return np.uint64((product & MAX_WORD) ^ (product >> 64))


def _pack(flags: Array) -> np.uint64:
    return np.uint64(int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little"))
