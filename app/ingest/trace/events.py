"""Trace events: what is in a trace in the JSON of Chrome's trace viewer, as columns, before any meaning is given.

A scanner or a JSON decoder fills them; the readers of the formats that are such JSON (PyTorch's first of all) make
profiles of them. The format is described in Google's "Trace Event Format".
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...domain.arrays import Array

MISSING = np.iinfo(np.int64).min
"""In a column of times: the event does not have it."""
ID_TEXT = 1 << 30
"""An id from here on is a text, and no small number."""
MAX_DEPTH = 5_000
"""Slices nested deeper have the call stack of those around them; trees are worked through level by level."""


@dataclass(frozen=True, eq=False)
class NumericArgument:
    """An argument that nearly every event has another whole number for: event (int32, ascending), value (int64). What
    counters count, under the empty key, need not be whole (float64)."""

    event: Array
    value: Array


@dataclass(frozen=True, eq=False)
class TraceEvents:
    """The events of a file, in its order, one entry each in every column.

    texts: every distinct text once. phase: uint8, the letter `ph` (0: none). name, category, process, thread, id: int32
    places in `texts`, -1 where missing; process and thread are the texts of `pid` and `tid`, a number as it is in
    the file, a string as its content. id: int32, equal where the texts of `id`, else of `id2` (if local, with that of
    `pid`), else of `bind_id`, are; -1 where there is none (a whole number below ID_TEXT is itself, another text its
    place in `texts` plus ID_TEXT). time_ns, duration_ns: int64 exact nanoseconds from `ts` and `dur` (µs), MISSING
    where there is none; never as far as 2^62 from zero. arguments: int32 places in `texts` of the members of `args` as
    a JSON object, each as it is in the file, without those that are in `numbers`; -1 where none are left. numbers: by
    key, those of `tables.NUMBERED` that are whole numbers. top: what is next to `traceEvents`. lost: (reason, how many,
    first example) of what could not be read.
    """

    texts: list[str]
    phase: Array
    name: Array
    category: Array
    process: Array
    thread: Array
    id: Array
    time_ns: Array
    duration_ns: Array
    arguments: Array
    numbers: dict[str, NumericArgument] = field(default_factory=dict)
    top: dict[str, Any] = field(default_factory=dict)
    lost: list[tuple[str, int, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.phase)
