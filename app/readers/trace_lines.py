"""The lines of a trace: threads, streams of devices and tracks, with the names and the order that its metadata give.

A thread is told by the texts of `pid` and `tid`, and by what lies on it: a device whose index is also the number of a
process is not mixed up with it.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .hashing import Index, numbered
from .trace_events import TraceEvents

Array = np.ndarray[Any, Any]
THREAD, STREAM, TRACK = 0, 1, 2
"""What a line is."""
METADATA = ord("M")
_OF_PROCESS = {"process_name": "name", "process_labels": "labels", "process_sort_index": "sort_index"}
_OF_THREAD = {"thread_name": "name", "thread_sort_index": "sort_index"}
INT64 = 1 << 63


@dataclass(frozen=True, eq=False)
class Line:
    """A thread, stream or track. process, thread: the texts of pid and tid, None where there are none.
    pid, tid: those that are whole numbers."""

    what: int
    process: str | None
    thread: str | None
    pid: int | None
    tid: int | None
    process_name: str | None = None
    labels: str | None = None
    name: str | None = None


def members(text: str) -> dict[str, Any]:
    """The arguments in a text of TraceEvents; empty where they cannot be understood."""
    try:
        found = json.loads(text if text.startswith("{") else f"{{{text}}}", strict=False)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def whole(text: str | None) -> int | None:
    """A text that is a whole number which an int64 holds, as that number, else None."""
    if text is None or len(text) > 20:
        return None
    try:
        number = int(text)
    except ValueError:
        return None
    return number if -INT64 <= number < INT64 else None


def lines_of(events: TraceEvents, process: Array, thread: Array, what: Array) -> tuple[Array, list[Line]]:
    """The line of each of some slices (int32 places in the list), and the lines, in the order in which to show them.

    process, thread: texts' places of pid and tid of each slice. what: THREAD, STREAM or TRACK (int).
    """
    pair, _ = numbered(process, thread)
    code, shown = numbered(pair, what.astype(np.int32))
    used_process, used_thread, used_what = process[shown], thread[shown], what[shown]
    of_process, of_thread = _metadata(events, used_process, used_thread)
    keys, lines = [], []
    process_order: dict[int, int] = {}
    for i, (p, t, w) in enumerate(zip(used_process.tolist(), used_thread.tolist(), used_what.tolist(), strict=True)):
        about, about_thread = of_process.get(p, {}), of_thread.get((p, t), {})
        lines.append(
            Line(
                what=w,
                process=_text(events, p),
                thread=_text(events, t),
                pid=whole(_text(events, p)),
                tid=whole(_text(events, t)),
                process_name=_word(about.get("process_name")),
                labels=_word(about.get("process_labels")),
                name=_word(about_thread.get("thread_name")),
            )
        )
        process_order.setdefault(p, len(process_order))
        keys.append(
            (
                w,
                _number(about.get("process_sort_index")),
                process_order[p],
                _number(about_thread.get("thread_sort_index")),
                i,
            )
        )
    order = sorted(range(len(lines)), key=keys.__getitem__)
    place = np.empty(len(lines), np.int32)
    place[order] = np.arange(len(lines), dtype=np.int32)
    return place[code], [lines[i] for i in order]


def _metadata(
    events: TraceEvents, process: Array, thread: Array
) -> tuple[dict[int, dict[str, Any]], dict[tuple[int, int], dict[str, Any]]]:
    """What metadata events say of these processes and threads: by text's place, name of the metadata -> its value.

    There may be a million of them: only those of these threads are read, and of several the last.
    """
    rows = np.flatnonzero(events.phase == METADATA)
    named = ((place, _text(events, place)) for place in np.unique(events.name[rows]).tolist())
    names = {place: text for place, text in named if text in _OF_PROCESS or text in _OF_THREAD}
    rows = rows[np.isin(events.name[rows], list(names)) & (events.arguments[rows] >= 0)]
    wanted = Index(process.astype(np.int64), np.arange(len(process)))
    rows = rows[wanted.of(events.process[rows].astype(np.int64)) >= 0]
    pairs = Index(_pair(process, thread), np.arange(len(process)))
    paired = pairs.of(_pair(events.process[rows], events.thread[rows])) >= 0
    last: dict[tuple[int, int, str], int] = {}
    for row, p, t, name, of_known in zip(
        rows.tolist(),
        events.process[rows].tolist(),
        events.thread[rows].tolist(),
        events.name[rows].tolist(),
        paired.tolist(),
        strict=True,
    ):
        what = names[name]
        if what in _OF_PROCESS:
            last[p, -1, what] = row
        elif of_known:
            last[p, t, what] = row
    of_process: dict[int, dict[str, Any]] = {}
    of_thread: dict[tuple[int, int], dict[str, Any]] = {}
    for (p, t, what), row in last.items():
        found = members(events.texts[int(events.arguments[row])])
        if what in _OF_PROCESS:
            of_process.setdefault(p, {})[what] = found.get(_OF_PROCESS[what])
        else:
            of_thread.setdefault((p, t), {})[what] = found.get(_OF_THREAD[what])
    return of_process, of_thread


def _pair(process: Array, thread: Array) -> Array:
    return (process.astype(np.int64) << 32) | (thread.astype(np.int64) & 0xFFFFFFFF)


def _text(events: TraceEvents, place: int) -> str | None:
    return events.texts[place] if place >= 0 else None


def _word(value: Any) -> str | None:
    return (str(value).strip() or None) if isinstance(value, (str, int, float)) else None


def _number(value: Any) -> float:
    """A sort index; what has none comes last."""
    return float(value) if isinstance(value, (int, float)) and value == value else math.inf
