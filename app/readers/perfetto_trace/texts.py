"""Texts of a trace as numbers: each distinct one is decoded once."""

import math
from collections.abc import Callable

import numpy as np

from ...domain.arrays import Array
from ...ingest.jit.decorators import HAS_NUMBA

InternText = Callable[[str], int]


def read_texts(data: bytes, spans: Array, place: InternText) -> Array:
    """The texts between these positions (int32), as the numbers that `place` returns. data: with packets.PAD."""
    if not HAS_NUMBA:
        return _decode_plain(data, spans, place)
    from .text_interning import TextInterner

    text_interner = TextInterner()
    codes = text_interner.intern(np.frombuffer(data, np.uint8), spans)
    return np.array([place(decode_text(text)) for text in text_interner.texts()] or [0], np.int32)[codes]


def decode_text(raw: bytes) -> str:
    """Invalid UTF-8 is shown as the numbers of its bytes."""
    return raw.decode("utf-8", "backslashreplace")


def format_float(value: float) -> str:
    """A number in JSON, which cannot represent infinities and NaN."""
    return repr(value) if math.isfinite(value) else f'"{value}"'


def _decode_plain(data: bytes, spans: Array, place: InternText) -> Array:
    found: dict[bytes, int] = {}
    numbers = []
    for begin, end in spans.T.tolist():
        raw = data[begin:end]
        number = found.get(raw)
        if number is None:
            number = found[raw] = place(decode_text(raw))
        numbers.append(number)
    return np.array(numbers, np.int32)
