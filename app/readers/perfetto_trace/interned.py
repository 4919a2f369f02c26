"""Interned data: values that packets of a Perfetto trace refer to by number."""

from functools import cached_property

import numpy as np

from ...domain.arrays import Array
from ...ingest.jit.hashing import RowIndex, factorize
from ...ingest.jit.protobuf_columns import read_messages
from ...ingest.trace.event_builder import NONE
from .packets import Packets
from .texts import InternText, read_texts

CATEGORIES, NAMES, KEYS, LOCATIONS, STRINGS = 1, 2, 3, 4, 29
"""Fields of InternedData."""
MAX_NUMBER = (1 << 31) - 1


class InternedStrings:
    """The interned values of one kind: indices of texts."""

    def __init__(self, packets: Packets, kind: int, place: InternText, content: int = 2) -> None:
        """kind: the field of InternedData. content: the field of its entries with the value."""
        found = packets.interned[kind]
        entries = read_messages(packets.all.data, found.spans, (1, content))
        present, spans = entries.get_spans(content)
        self.places = read_texts(packets.data, spans, place)
        self._numbers, self._generations = entries.get_number(1)[present], packets.generation[found.row[present]]
        wide = ((self._numbers < 0) | (self._numbers > MAX_NUMBER)).any()
        self._codes = RowIndex(self._numbers, factorize(self._numbers)[0]) if wide else None
        keys = self.make_keys(self._generations, self._numbers)
        # Of several the last counts.
        self.index = RowIndex(keys[::-1], np.arange(len(keys))[::-1])

    @property
    def fits_in_key(self) -> bool:
        """Whether the numbers are small enough to be used in keys."""
        return self._codes is None

    def make_keys(self, generation: Array, number: Array) -> Array:
        """Generations and numbers as one: the generation in the upper half; -1 if unknown."""
        if self._codes is not None:
            number = self._codes.lookup(number)
        good = (number >= 0) & (number <= MAX_NUMBER)
        return np.where(good, (generation.astype(np.int64) << 32) | number, NONE)

    def lookup(self, generation: Array, number: Array) -> Array:
        """The index of each text, NONE if the number is unknown."""
        row = self.index.lookup(self.make_keys(generation, number))
        return np.append(self.places, NONE)[row]

    @cached_property
    def table(self) -> dict[tuple[int, int], int]:
        """The index of each text, by generation and number."""
        pairs = zip(self._generations.tolist(), self._numbers.tolist(), strict=True)
        return dict(zip(pairs, self.places.tolist(), strict=True))
