"""Distinct texts of a trace, found at the speed of memory. Needs the compiler."""

import numpy as np

from ..loops.compiled import lean
from ..trace.events import Array
from ..trace.interning import Table, grown, interned, table
from ..trace.masks import PAD

TEXTS = 1 << 10
TEXT_BYTES = 1 << 16


@lean
def _known(data: Array, begin: Array, end: Array, texts: Table, codes: Array, at: Array) -> bool:
    """The number of each text from at[0] on; whether there was room for all."""
    for i in range(at[0], len(begin)):
        length = end[i] - begin[i]
        if at[2] == len(texts.start) or at[3] + length + PAD > len(texts.text):
            at[0] = i
            return False
        codes[i] = interned(data, begin[i], length, i, texts, at)
    return True


def known(data: Array, spans: Array) -> tuple[Array, list[bytes]]:
    """The number of each text (int32), from 0 in the order in which they first come, and these texts. data: with PAD
    bytes behind the last text."""
    begin, end = np.ascontiguousarray(spans, np.int64)
    codes = np.empty(len(begin), np.int32)
    texts, at = table(TEXTS, TEXT_BYTES), np.zeros(4, np.int64)
    while not _known(data, begin, end, texts, codes, at):
        size = 2 * int(at[3]) + int(end[at[0]] - begin[at[0]]) + PAD
        texts = grown(texts, int(at[2]), int(at[3]), 2 * len(texts.start), max(size, len(texts.text)))
    return codes, listed(texts, at)


def listed(texts: Table, at: Array) -> list[bytes]:
    """The texts of a table, by their numbers."""
    count = int(at[2])
    text = texts.text[: at[3]].tobytes()
    pairs = zip(texts.start[:count].tolist(), texts.length[:count].tolist(), strict=True)
    return [text[start : start + length] for start, length in pairs]
