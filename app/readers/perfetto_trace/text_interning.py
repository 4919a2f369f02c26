"""Distinct texts of a trace, found at memory speed. Needs the compiler."""

import numpy as np

from ...domain.arrays import Array, Int32Array
from ...ingest.jit.decorators import jit_no_refcount
from ...ingest.trace_json.simd import PAD
from ...ingest.trace_json.string_table import StringTable, grow, intern, make_table

TEXTS = 1 << 10
TEXT_BYTES = 1 << 16


@jit_no_refcount
def _intern_texts(data: Array, begin: Array, end: Array, texts: StringTable, codes: Array, at: Array) -> bool:
    """The number of each text from at[0] on; whether there was room for all."""
    for i in range(at[0], len(begin)):
        length = end[i] - begin[i]
        if at[2] == len(texts.start) or at[3] + length + PAD > len(texts.text):
            at[0] = i
            return False
        codes[i] = intern(data, begin[i], length, i, texts, at) if length >= 0 else length
    return True


class TextInterner:
    """The distinct texts, numbered from 0 in the order of first appearance."""

    def __init__(self) -> None:
        self._texts, self._at = make_table(TEXTS, TEXT_BYTES), np.zeros(4, np.int64)

    def intern(self, data: Array, spans: Array) -> Int32Array:
        """The number of each text between these positions (int32); a text that ends before it begins yields its
        negative length. data: with PAD bytes after the last text, read-only."""
        begin, end = np.ascontiguousarray(spans, np.int64)
        codes = np.empty(len(begin), np.int32)
        at = self._at
        at[0] = 0
        while not _intern_texts(data, begin, end, self._texts, codes, at):
            size = max(2 * int(at[3]) + int(end[at[0]] - begin[at[0]]) + PAD, len(self._texts.text))
            self._texts = grow(self._texts, int(at[2]), int(at[3]), 2 * len(self._texts.start), size)
        return codes

    def texts(self) -> list[bytes]:
        """The texts, by their numbers."""
        count = int(self._at[2])
        text = self._texts.text[: self._at[3]].tobytes()
        pairs = zip(self._texts.start[:count].tolist(), self._texts.length[:count].tolist(), strict=True)
        return [text[start : start + length] for start, length in pairs]
