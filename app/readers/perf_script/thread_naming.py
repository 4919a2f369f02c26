"""The names of threads over time, from those that perf prints with samples."""

from collections.abc import Callable, Sequence

import numpy as np

from ...domain.arrays import Array, Int64Array, sort_rows
from ...domain.tables import NO_ID
from ...ingest.perf_text.script_builder import ThreadedProfileBuilder

_PART = 1 << 18
"""How many samples are taken together, to need little memory."""


def name_threads(
    columns: dict[str, Array], names: Sequence[str], builder: ThreadedProfileBuilder, split: Callable[[int, int], int]
) -> None:
    """Record the names of threads over time. If two names of a thread have the same time, it is unknown which one a
    sample had: the thread becomes one for each name.

    columns: of samples; those of threads are changed. split: see ScriptProfileBuilder.
    """
    rows = _name_unchanging(columns, names, builder)
    name, time_ns = columns["name"], columns["time_ns"]
    for again in (True, False):
        groups = _group_by_thread(columns, rows)
        # Where a thread's name changes, in its own samples.
        changes = [np.flatnonzero(name[own[1:]] != name[own[:-1]]) + 1 for own in groups]
        tied = [
            own for own, at in zip(groups, changes, strict=True) if (time_ns[own[at]] == time_ns[own[at - 1]]).any()
        ]
        if not (again and tied):
            break
        for own in tied:
            number = int(columns["thread"][own[0]])
            for other in np.unique(name[own])[1:].tolist():
                columns["thread"][own[name[own] == other]] = split(number, other + 1)
    for own, at in zip(groups, changes, strict=True):
        for row in own[np.append(0, at)].tolist():
            if name[row] >= 0:
                builder.set_thread_name(int(columns["thread"][row]), int(time_ns[row]), names[int(name[row])])


def _group_by_thread(columns: dict[str, Array], rows: Int64Array) -> list[Int64Array]:
    """The rows of each thread among them, in order of time."""
    if not len(rows):
        return []
    time_ns = columns["time_ns"]
    if (time_ns[1:] < time_ns[:-1]).any():
        rows = rows[np.lexsort((columns["order"][rows], time_ns[rows]))]
    thread = columns["thread"][rows]
    if (thread == thread[0]).all():
        return [rows]
    order = sort_rows(thread)
    sorted_thread = thread[order]
    return np.split(rows[order], np.flatnonzero(sorted_thread[1:] != sorted_thread[:-1]) + 1)


def _name_unchanging(columns: dict[str, Array], names: Sequence[str], builder: ThreadedProfileBuilder) -> Int64Array:
    """Name the threads that have one name in all of their samples. Returns the samples of the others. Samples that are
    not in order of time are all returned."""
    thread, name, time_ns = columns["thread"], columns["name"], columns["time_ns"]
    if (time_ns[1:] < time_ns[:-1]).any():
        return np.arange(len(thread))
    first = np.full(int(thread.max(initial=-1)) + 1, NO_ID)
    for start in reversed(range(0, len(thread), _PART)):
        part = thread[start : start + _PART]
        first[part[::-1]] = np.arange(start + len(part) - 1, start - 1, -1)
    has_several = np.zeros(len(first), bool)
    has_several[thread[name != name[first][thread]]] = True
    for number in np.flatnonzero((first != NO_ID) & ~has_several).tolist():
        if (code := int(name[first[number]])) >= 0:
            builder.set_thread_name(number, int(time_ns[first[number]]), names[code])
    return np.flatnonzero(has_several[thread]) if has_several.any() else np.zeros(0, np.int64)
