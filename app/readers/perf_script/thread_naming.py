"""The names of threads over time, from those that perf prints with samples."""

from collections.abc import Callable, Sequence

import numpy as np

from ...domain.arrays import Array, Int64Array, number_values, sort_rows
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
    rows = _name_in_turns(columns, names, builder)
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


def _name_in_turns(columns: dict[str, Array], names: Sequence[str], builder: ThreadedProfileBuilder) -> Int64Array:
    """Name the threads that had each of their names once, for some time. Returns the samples of the others. Samples
    that are not in order of time are all returned."""
    thread, name, time_ns = columns["thread"], columns["name"], columns["time_ns"]
    if not len(thread) or (time_ns[1:] < time_ns[:-1]).any():
        return np.arange(len(thread))
    pair, first = number_values(thread, name)
    last = np.empty(len(first), np.int64)
    for start in range(0, len(pair), _PART):
        part = pair[start : start + _PART]
        last[part] = np.arange(start, start + len(part))
    # The names of each thread, in the order of their first samples.
    first_of = thread[first]
    order = np.argsort(first_of, kind="stable")
    follows = first_of[order[1:]] == first_of[order[:-1]]
    before, after = last[order[:-1]][follows], first[order[1:]][follows]
    is_other = np.zeros(int(thread.max()) + 1, bool)
    is_other[thread[after[(before > after) | (time_ns[before] == time_ns[after])]]] = True
    for row in first[order][~is_other[first_of[order]]].tolist():
        if (code := int(name[row])) >= 0:
            builder.set_thread_name(int(thread[row]), int(time_ns[row]), names[code])
    return np.flatnonzero(is_other[thread]) if is_other.any() else np.zeros(0, np.int64)
