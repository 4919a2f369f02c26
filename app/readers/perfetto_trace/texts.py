"""Texts of a trace as numbers: each distinct one is decoded once."""

import math
from collections.abc import Callable

import numpy as np

from ...domain.arrays import Array
from ...ingest.loops.compiled import COMPILED

Place = Callable[[str], int]


def texts_at(data: bytes, spans: Array, place: Place) -> Array:
    """The texts between these places (int32), as the numbers that `place` gives them. data: with packets.PAD."""
    if not COMPILED:
        return _plainly(data, spans, place)
    from .known import Known

    known = Known()
    codes = known.add(np.frombuffer(data, np.uint8), spans)
    return np.array([place(decoded(text)) for text in known.texts()] or [0], np.int32)[codes]


def decoded(raw: bytes) -> str:
    """What is no UTF-8 is shown as the numbers of its bytes."""
    return raw.decode("utf-8", "backslashreplace")


def real_text(value: float) -> str:
    """A number in JSON, which has no word for what is not finite."""
    return repr(value) if math.isfinite(value) else f'"{value}"'


def _plainly(data: bytes, spans: Array, place: Place) -> Array:
    found: dict[bytes, int] = {}
    numbers = []
    for begin, end in spans.T.tolist():
        raw = data[begin:end]
        number = found.get(raw)
        if number is None:
            number = found[raw] = place(decoded(raw))
        numbers.append(number)
    return np.array(numbers, np.int32)
