"""The lines of a trace: threads, streams of devices and tracks, with the names and the order of its metadata.

A thread is identified by the texts of `pid` and `tid`, and by its content: a device whose index is also the number of a
process is kept separate from it.
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array, sort_distinct
from ..jit.decorators import jit
from ..jit.hashing import RowIndex, factorize_pairs
from .argument_values import parse_arguments, to_int
from .events import TraceEvents
from .phases import INSTANT, METADATA, PhaseIndex

THREAD, STREAM, OTHER_TRACK = 0, 1, 2
"""The kind of a line."""
NO_TRACK = -1
ANY = -2
_OF_PROCESS = ("process_name", "process_sort_index")
_MEMBERS = {
    "process_name": "name",
    "process_sort_index": "sort_index",
    "thread_name": "name",
    "thread_sort_index": "sort_index",
}


@dataclass(frozen=True, eq=False)
class TraceTrack:
    """A thread, stream or track. process, thread: the texts of pid and tid, None if there are none; places: their
    indices in the texts of the events. pid, tid: those that are whole numbers."""

    track_kind: int
    places: tuple[int, int]
    process: str | None
    thread: str | None
    pid: int | None
    tid: int | None
    process_name: str | None = None
    name: str | None = None


@jit
def _assign(pair: Array, code: Array, where: Array, apart: Array, track: Array, slots: Array) -> tuple[Array, Array]:
    line = np.empty(len(pair), np.int32)
    shown = np.empty(len(slots), np.int64)
    count = 0
    for i in range(len(pair)):
        what = where[code[i]]
        if track[pair[i]] or (len(apart) and apart[i]):
            what = 2
        slot = 3 * pair[i] + what
        if slots[slot] < 0:
            slots[slot] = count
            shown[count] = slot
            count += 1
        line[i] = slots[slot]
    return line, shown[:count].copy()


def assign_tracks(
    events: TraceEvents,
    phases: PhaseIndex,
    event: Array,
    code: Array,
    where: Array,
    asynchronous: Array,
    tracks: Collection[str],
) -> tuple[Array, list[TraceTrack]]:
    """The line of each of some slices (int32 indices into the list), and the lines, in display order.

    where: by code, THREAD, STREAM or TRACK. asynchronous: which slices are, as bools, or empty: they are on a track by
    process and category. tracks: pids that are not processes. There are also lines of threads that have only instants.
    """
    thread = events.thread
    if len(asynchronous):
        thread = thread.copy()
        thread[event[asynchronous]] = events.category[event[asynchronous]]
    pair, shown = factorize_pairs(event, events.process, thread, len(events.texts))
    process, thread = events.process[event[shown]], thread[event[shown]]
    track = np.array([_get_text(events, p) in tracks for p in process.tolist()] or [False], bool)
    slots = np.full(3 * len(shown), NO_TRACK, np.int32)
    line, used = _assign(pair, code, where, asynchronous, track, slots)
    keys = [(int(process[slot // 3]), int(thread[slot // 3]), slot % 3) for slot in used.tolist()]
    existing = {key[:2] for key in keys}
    moments = phases.select(INSTANT)
    _, shown = factorize_pairs(moments, events.process, events.thread, len(events.texts))
    for p, t in zip(events.process[moments[shown]].tolist(), events.thread[moments[shown]].tolist(), strict=True):
        text = _get_text(events, p)
        if (p, t) not in existing and text not in tracks and to_int(text) is not None:
            keys.append((p, t, THREAD))
    lines, order = _describe_lines(events, phases, keys)
    place = np.empty(len(keys), np.int32)
    place[order] = np.arange(len(keys), dtype=np.int32)
    return place[line], [lines[i] for i in order]


def _describe_lines(
    events: TraceEvents, phases: PhaseIndex, keys: Sequence[tuple[int, int, int]]
) -> tuple[list[TraceTrack], list[int]]:
    """The lines of (process, thread, kind), and their order."""
    metadata = _read_metadata(events, phases, keys)
    lines, ranks = [], []
    process_order: dict[int, int] = {}
    shared = Counter(key[:2] for key in keys if key[2] != OTHER_TRACK)
    for i, (p, t, track_kind) in enumerate(keys):
        # If a stream and a thread have the same ids, the name decides which is meant.
        streams = [track_kind == STREAM] if shared[p, t] > 1 else [track_kind == STREAM, track_kind != STREAM]
        name, index = (
            next((value for stream in streams if (value := metadata.get((p, t, word, stream))) is not None), None)
            for word in ("thread_name", "thread_sort_index")
        )
        process, thread = _get_text(events, p), _get_text(events, t)
        lines.append(
            TraceTrack(
                track_kind=track_kind,
                places=(p, t),
                process=process,
                thread=thread,
                pid=to_int(process),
                tid=to_int(thread),
                process_name=_to_text(metadata.get((p, ANY, "process_name", False))),
                name=_to_text(name),
            )
        )
        of_process = _parse_sort_index(metadata.get((p, ANY, "process_sort_index", False)))
        # For a stream it is the index of its device.
        place = (
            process_order.setdefault(p, len(process_order))
            if track_kind != STREAM
            else _parse_sort_index(to_int(process))
        )
        ranks.append((track_kind, of_process, place, _parse_sort_index(index), i))
    return lines, sorted(range(len(lines)), key=ranks.__getitem__)


def _read_metadata(
    events: TraceEvents, phases: PhaseIndex, keys: Sequence[tuple[int, int, int]]
) -> dict[tuple[int, int, str, bool], Any]:
    """The metadata events of these processes and threads: by the texts' indices, the kind, and whether it names a
    stream; ANY instead of the thread for metadata of a process.

    There may be a million of them: only those of these threads are read, and of several the last.
    """
    rows = phases.select(METADATA)
    named = ((place, _get_text(events, place)) for place in sort_distinct(events.name[rows]).tolist())
    names = {place: text for place, text in named if text in _MEMBERS}
    rows = rows[np.isin(events.name[rows], list(names)) & (events.arguments[rows] >= 0)]
    process, thread, _ = np.array(keys or [(0, 0, 0)], np.int64).T
    row_index = RowIndex(process, np.arange(len(process)))
    rows = rows[row_index.lookup(events.process[rows]) >= 0]
    pairs = RowIndex(_pair(process, thread), np.arange(len(process)))
    paired = pairs.lookup(_pair(events.process[rows], events.thread[rows])) >= 0
    last: dict[tuple[int, int, str, bool], str] = {}
    for p, t, name, of_known, place in zip(
        events.process[rows].tolist(),
        events.thread[rows].tolist(),
        events.name[rows].tolist(),
        paired.tolist(),
        events.arguments[rows].tolist(),
        strict=True,
    ):
        what, text = names[name], events.texts[place]
        if what in _OF_PROCESS:
            last[p, ANY, what, False] = text
        elif of_known:
            last[p, t, what, '"stream ' in text] = text
    return {key: parse_arguments(text).get(_MEMBERS[key[2]]) for key, text in last.items()}


def _pair(process: Array, thread: Array) -> Array:
    return (process.astype(np.int64) << 32) | (thread.astype(np.int64) & 0xFFFFFFFF)


def _get_text(events: TraceEvents, place: int) -> str | None:
    return events.texts[place] if place >= 0 else None


def _to_text(value: Any) -> str | None:
    return (str(value).strip() or None) if isinstance(value, (str, int, float)) else None


def _parse_sort_index(value: Any) -> float:
    """A sort index; lines without one come last."""
    return float(value) if isinstance(value, (int, float)) and value == value else math.inf
