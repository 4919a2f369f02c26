"""What packets of a Perfetto trace name by numbers."""

from functools import cached_property

import numpy as np

from ...domain.arrays import Array
from ...ingest.loops.hashing import Index, coded
from ...ingest.loops.wire_columns import messages
from ...ingest.trace.made import NONE
from .packets import Packets
from .texts import Place, texts_at

CATEGORIES, NAMES, KEYS, LOCATIONS, STRINGS = 1, 2, 3, 4, 29
"""Fields of InternedData."""
LARGEST = (1 << 31) - 1


class Interned:
    """What numbers of one sort stand for: places of texts."""

    def __init__(self, packets: Packets, kind: int, place: Place, content: int = 2) -> None:
        """kind: the field of InternedData. content: which field of its entries is meant."""
        found = packets.interned[kind]
        entries = messages(packets.all.data, found.spans, (1, content))
        told, spans = entries.inner(content)
        self.places = texts_at(packets.data, spans, place)
        self._numbers, self._generations = entries.number(1)[told], packets.generation[found.row[told]]
        wide = ((self._numbers < 0) | (self._numbers > LARGEST)).any()
        self._codes = Index(self._numbers, coded(self._numbers)[0]) if wide else None
        keys = self.keys(self._generations, self._numbers)
        # Of several the last counts.
        self.index = Index(keys[::-1], np.arange(len(keys))[::-1])

    @property
    def direct(self) -> bool:
        """Whether the numbers are small enough to stand in keys as they are."""
        return self._codes is None

    def keys(self, generation: Array, number: Array) -> Array:
        """Generations and numbers as one: the generation in the upper half; -1 for what is not known."""
        if self._codes is not None:
            number = self._codes.of(number)
        good = (number >= 0) & (number <= LARGEST)
        return np.where(good, (generation.astype(np.int64) << 32) | number, NONE)

    def of(self, generation: Array, number: Array) -> Array:
        """The place of each text, NONE where the number stands for nothing."""
        row = self.index.of(self.keys(generation, number))
        return np.append(self.places, NONE)[row]

    @cached_property
    def table(self) -> dict[tuple[int, int], int]:
        """The place of each text, by generation and number."""
        pairs = zip(self._generations.tolist(), self._numbers.tolist(), strict=True)
        return dict(zip(pairs, self.places.tolist(), strict=True))
