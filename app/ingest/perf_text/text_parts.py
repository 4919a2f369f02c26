"""Parts of a large text, known by their positions: which are equal, and the numbers in them."""

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array
from ...domain.arrow import functions as pc

WORD = 8
"""How many digits are read at once: the bytes of a number of 64 bits."""
_STEPS = ((10, 8, 0x00FF00FF00FF00FF), (100, 16, 0x0000FFFF0000FFFF), (10_000, 32, 0x00000000FFFFFFFF))
"""How pairs of digits, of numbers below 100, and of numbers below 10,000 become one number: factor of the first, its
distance in bits, and the bits of the results."""
_DIGITS = 0x0F0F0F0F0F0F0F0F


def factorize(values: pa.Array) -> tuple[Array, pa.Array]:
    """Codes of values, and the distinct values in order of first appearance."""
    encoded = pc.dictionary_encode(values)
    return encoded.indices.to_numpy(), encoded.dictionary


def factorize_parts(text: bytes | Array, start: Array, end: Array) -> tuple[Array, pa.Array]:
    """Codes (int32) of the parts of a text from start to end, which are ascending and disjoint, and the distinct parts
    in order of first appearance. The text has less than 2 GiB."""
    count = len(start)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = start
    offsets[1::2] = end
    offsets[-1] = end[-1] if count else 0
    # What is between the parts is null, so that nothing is copied.
    valid = np.full((2 * count + 7) // 8, 0b01010101, np.uint8)
    buffers = [pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(text)]
    encoded = pc.dictionary_encode(pa.Array.from_buffers(pa.binary(), 2 * count, buffers, null_count=count))
    codes = encoded.indices
    numbers = np.frombuffer(codes.buffers()[1], np.int32)[codes.offset : codes.offset + 2 * count : 2]
    return numbers.copy(), encoded.dictionary


def read_numbers(text: bytes, end: Array, digits: Array) -> Array:
    """The decimal numbers (int64) that end at these ascending positions of a text and have this many digits, at most
    18; 0 without any. There must be digits."""
    if not len(end):
        return np.zeros(0, np.int64)
    most = int(digits.max())
    value = np.zeros(len(end), np.int64)
    for step in range(0, most, WORD):
        if most - step == 1:
            last = np.frombuffer(text, np.uint8)[np.maximum(end - step - 1, 0)] & 0x0F
            value += np.where(digits > step, last.astype(np.int64) * 10**step, 0)
        else:
            value += _read_words(text, end - step, digits - step) * 10**step
    # Their words would begin before the text.
    for row in range(int(np.searchsorted(end, -(-most // WORD) * WORD))):
        value[row] = int(text[end[row] - digits[row] : end[row]] or b"0")
    return value


def _read_words(text: bytes, end: Array, digits: Array) -> Array:
    """Like `read_numbers`, of the last 8 digits. Wrong where the end is below 8."""
    if len(text) < WORD:
        return np.zeros(len(end), np.int64)
    at_byte = np.ndarray(len(text) - WORD + 1, f"V{WORD}", text, strides=(1,))
    words = at_byte[np.maximum(end - WORD, 0)].view("<u8").astype(np.uint64, copy=False)
    # The first digit is in the lowest byte. Bytes before the number become zeros.
    unused = (8 * np.clip(WORD - digits, 0, WORD)).astype(np.uint64)
    words &= np.uint64(_DIGITS)
    words >>= unused
    words <<= unused
    for factor, bits, kept in _STEPS:
        right = words >> np.uint64(bits)
        words *= np.uint64(factor)
        words += right
        words &= np.uint64(kept)
    numbers: Array = words.view(np.int64)
    return numbers
