"""The names of threads over time, from those that perf prints with samples."""

from collections.abc import Callable, Sequence

import numpy as np

from ...domain.arrays import Array, Int64Array
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
    for again in (True, False):
        thread = columns["thread"][rows]
        if (columns["time_ns"][1:] >= columns["time_ns"][:-1]).all():
            order = rows[np.argsort(thread, kind="stable")]
        else:
            order = rows[np.lexsort((columns["order"][rows], columns["time_ns"][rows], thread))]
        thread, name, time_ns = (columns[key][order] for key in ("thread", "name", "time_ns"))
        same = np.zeros(len(order), bool)
        same[1:] = thread[1:] == thread[:-1]
        changed = np.ones(len(order), bool)
        changed[1:] = ~same[1:] | (name[1:] != name[:-1])
        tied = np.zeros(len(order), bool)
        tied[1:] = changed[1:] & same[1:] & (time_ns[1:] == time_ns[:-1])
        if not (again and tied.any()):
            break
        for number in np.unique(thread[tied]).tolist():
            own = np.flatnonzero(columns["thread"] == number)
            for other in np.unique(columns["name"][own])[1:].tolist():
                columns["thread"][own[columns["name"][own] == other]] = split(number, other + 1)
    for row in np.flatnonzero(changed & (name >= 0)).tolist():
        builder.set_thread_name(int(thread[row]), int(time_ns[row]), names[int(name[row])])


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
    first_name = name[first]
    differs = name != first_name[thread]
    has_several = np.zeros(len(first), bool)
    has_several[thread[differs]] = True
    for number in np.flatnonzero((first != NO_ID) & ~has_several & (first_name >= 0)).tolist():
        builder.set_thread_name(number, int(time_ns[first[number]]), names[int(first_name[number])])
    return np.flatnonzero(has_several[thread]) if has_several.any() else np.zeros(0, np.int64)
