"""The events of a trace by phase, the letter `ph`."""

from collections.abc import Iterable

import numpy as np

from ...domain.arrays import MISSING, Array
from ..jit.decorators import jit
from .events import TraceEvents

COMPLETE, BEGIN, END, COUNTER, METADATA = b"X", b"B", b"E", b"C", b"M"
ASYNC_BEGIN, ASYNC_END = b"bS", b"eF"
INSTANT = b"iIRnTp"
FLOW = b"stf"
ALL = COMPLETE + BEGIN + END + COUNTER + METADATA + ASYNC_BEGIN + ASYNC_END + INSTANT + FLOW
"""The letters that are used."""
MAX_TIME_NS = 1 << 55
"""More than a year: no recording is this long."""
SAMPLED = 1000


@jit
def _group_phases(phase: Array) -> tuple[Array, Array]:
    bounds = np.zeros(257, np.int64)
    for i in range(len(phase)):
        bounds[phase[i] + 1] += 1
    for letter in range(256):
        bounds[letter + 1] += bounds[letter]
    free = bounds[:-1].copy()
    order = np.empty(len(phase), np.int32)
    for i in range(len(phase)):
        order[free[phase[i]]] = i
        free[phase[i]] += 1
    return order, bounds


class PhaseIndex:
    """The events of each phase, in the order of the file.

    low, high: the range of plausible times; a clock that was not yet set yields others.
    """

    def __init__(self, events: TraceEvents) -> None:
        self._order, self._bounds = _group_phases(events.phase)
        sample = events.time_ns[:: max(1, len(events) // SAMPLED)]
        sample = sample[sample != MISSING]
        middle = int(np.median(sample)) if len(sample) else 0
        self.low, self.high = middle - MAX_TIME_NS, middle + MAX_TIME_NS

    def select(self, letters: bytes, ordered: bool = True) -> Array:
        """The events (int32) of any of these letters, ascending, or else those of one letter after the other."""
        parts = [self._order[self._bounds[letter] : self._bounds[letter + 1]] for letter in letters]
        parts = [part for part in parts if len(part)]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return self._order[:0]
        return np.sort(np.concatenate(parts)) if ordered else np.concatenate(parts)

    def iterate_unknown(self) -> Iterable[tuple[int, int, int]]:
        """(letter or 0, number of events, the first of them) of unused phases."""
        for letter in np.flatnonzero(np.diff(self._bounds)).tolist():
            if letter not in ALL:
                first, last = int(self._bounds[letter]), int(self._bounds[letter + 1])
                yield letter, last - first, int(self._order[first])
