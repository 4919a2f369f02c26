"""Samples of many files merged in order of time, without holding all of them in memory.

The samples of each file are spooled as they are read, ordered by time; the time of every STEP-th is kept in memory.
These times divide the merged samples into chunks of about as many samples as fit in memory, with the rows of every file
that each chunk contains. So each chunk is read, sorted and passed on before the next.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from ...domain.arrays import Array
from ..chunked_tables import SpillFile

STEP = 256
MERGE_ROWS = 1 << 18
PUT_ROWS = 1 << 19
ROW = np.dtype(
    [
        ("time_ns", np.int64),
        ("weight", np.int64),
        ("thread", np.int32),
        ("cpu", np.int32),
        ("event", np.int32),
        ("stack", np.int32),
    ]
)


class SampleRun:
    """The spooled samples of one file. first_ns, last_ns: their times, 0 without any."""

    def __init__(self, spill: SpillFile, columns: dict[str, Array]) -> None:
        """columns: by the names of ROW; in order of time. Raises OSError."""
        time_ns = columns["time_ns"]
        self.rows = len(time_ns)
        self.first_ns, self.last_ns = (int(time_ns[0]), int(time_ns[-1])) if self.rows else (0, 0)
        self._spill = spill
        self._at = 0
        self.every_step = time_ns[::STEP].astype(np.int64)
        for start in range(0, self.rows, PUT_ROWS):
            rows = np.empty(min(PUT_ROWS, self.rows - start), ROW)
            for name in ROW.names or ():
                rows[name] = columns[name][start : start + len(rows)]
            at = spill.put(rows)
            self._at = at if start == 0 else self._at

    def get(self, start: int, end: int) -> Array:
        """Rows [start, end). Raises OSError."""
        return np.frombuffer(self._spill.get(self._at + start * ROW.itemsize, (end - start) * ROW.itemsize), ROW)


def merge_runs(runs: Sequence[SampleRun], offsets: Sequence[int], stretch: int = MERGE_ROWS) -> Iterator[Array]:
    """The rows of all, chunk by chunk in order of time; at equal times the earlier run comes first.

    offsets: what is added to the times of each run. stretch: about how many rows a chunk has. Raises OSError.
    """
    done = np.zeros(len(runs), np.int64)
    for time_ns, run, row in (*_find_cuts(runs, offsets, stretch), (None, len(runs), 0)):
        parts = []
        for number, one in enumerate(runs):
            # Rows before the cut, including those of earlier runs at exactly its time.
            side: Literal["left", "right"] = "right" if number < run else "left"
            low = int(done[number])
            if time_ns is None:
                rows = one.get(low, one.rows)
            elif number == run:
                rows = one.get(low, row)
            else:
                local = time_ns - offsets[number]
                high = min(one.rows, STEP * int(np.searchsorted(one.every_step, local, side)))
                rows = one.get(low, max(low, high))
                rows = rows[: int(np.searchsorted(rows["time_ns"], local, side))]
            done[number] += len(rows)
            if len(rows):
                rows["time_ns"] += offsets[number]
                parts.append(rows)
        if parts:
            together = np.concatenate(parts)
            yield together[np.argsort(together["time_ns"], kind="stable")]


def _find_cuts(runs: Sequence[SampleRun], offsets: Sequence[int], stretch: int) -> list[tuple[int, int, int]]:
    """Where to cut: before this row, in this run, which is at this time."""
    times = [one.every_step + offset for one, offset in zip(runs, offsets, strict=True)]
    counts = [len(these) for these in times]
    every = np.concatenate([*times, np.zeros(0, np.int64)])
    run = np.repeat(np.arange(len(runs)), counts)
    row = np.concatenate([*(np.arange(count) * STEP for count in counts), np.zeros(0, np.int64)])
    order = np.argsort(every, kind="stable")
    # Each represents the STEP rows that begin with it.
    chosen = order[max(1, stretch // STEP) :: max(1, stretch // STEP)]
    return list(zip(every[chosen].tolist(), run[chosen].tolist(), row[chosen].tolist(), strict=True))
