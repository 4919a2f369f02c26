"""Trace events: the content of a trace in the JSON of Chrome's trace viewer, as columns, not yet interpreted.

A scanner or a JSON decoder fills them; the readers of such formats (PyTorch's first of all) build profiles from them.
The format is described in Google's "Trace Event Format".
"""

from dataclasses import dataclass, field
from typing import Any

from ...domain.arrays import Array

ID_TEXT = 1 << 30
"""An id from here on is a text, not a small number."""
MAX_DEPTH = 5_000
"""Deeper slices have the call stack of the slices around them; trees are processed level by level."""


@dataclass(frozen=True, eq=False)
class NumericArgument:
    """An argument with a different whole number for nearly every event: event (int32, ascending), value (int64). Values
    of counters, under the empty key, may have fractions (float64)."""

    event: Array
    value: Array


@dataclass(frozen=True, eq=False)
class TraceEvents:
    """The events of a file, in its order, one entry each in every column.

    texts: every distinct text once. phase: uint8, the letter `ph` (0: none). name, category, process, thread, id: int32
    indices into `texts`, -1 if missing; process and thread are the texts of `pid` and `tid`, a number as it is in the
    file, a string as its content. id: int32, equal if the texts of `id`, else of `id2` (if local, with that of `pid`),
    else of `bind_id`, are; -1 if there is none (a whole number below ID_TEXT is itself, another text its index in
    `texts` plus ID_TEXT). time_ns, duration_ns: int64 exact nanoseconds from `ts` and `dur` (µs), MISSING if there is
    none; less than 2^62 from zero. arguments: int32 indices into `texts` of the members of `args` as a JSON object,
    each as it is in the file, without those that are in `numbers`; -1 if none are left. numbers: by key, those of
    `tables.NUMBERED` that are whole numbers. top: the members next to `traceEvents`. lost: (reason, count, first
    example) of losses.
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
