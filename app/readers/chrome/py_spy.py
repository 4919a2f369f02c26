"""Conventions of py-spy's traces: files in arguments, threads and processes as the outermost slices."""

import os.path
import re
from dataclasses import replace
from typing import Any

import numpy as np
import orjson

from ...domain.arrays import MISSING
from ...domain.tables import FrameKind
from ...ingest.json_text import parse_json
from ...ingest.trace.events import TraceEvents
from ...ingest.trace.profile import Dialect
from ...ingest.trace.slices import SliceClassifier, SliceType
from .format import FORMAT

CATEGORY = "py-spy"

_THREAD = re.compile(r"thread \((?:\d+|0x[0-9A-Fa-f]+)\): (.+)", re.DOTALL)
_PROCESS = re.compile(r'process (\d+):"(.*)"', re.DOTALL)
_PYTHON = re.compile(r".*\.pyx?|<.*>", re.DOTALL)


def _classify(category: str, name: str) -> SliceType:
    kind = FrameKind.PYTHON if _PYTHON.fullmatch(category) else FrameKind.USER
    return SliceType("other", kind, file=category or None)


PY_SPY = Dialect(FORMAT, SliceClassifier(_classify), "py-spy saw no running thread. Record again, for longer.")


def is_py_spy_trace(events: TraceEvents) -> bool:
    """Whether all events are py-spy's."""
    if CATEGORY not in events.texts:
        return False
    categories = events.category[events.category >= 0]
    return bool(len(categories) and (categories == events.texts.index(CATEGORY)).all())


def convert_events(events: TraceEvents) -> TraceEvents:
    """The same events, with the file of a function as its category, and the names of threads and processes as metadata.
    For events of py-spy."""
    texts = list(events.texts)
    places = {text: index for index, text in enumerate(texts)}

    def place_of(text: str) -> int:
        if text not in places:
            places[text] = len(texts)
            texts.append(text)
        return places[text]

    mine = events.category == places[CATEGORY]
    files = np.full(len(texts) + 1, -1, np.int32)
    for index in np.unique(events.arguments[mine]).tolist():
        file = _get_file(texts[index]) if index >= 0 else ""
        # The last one represents events without arguments.
        files[index] = place_of(file) if file else -1
    category = np.where(mine, files[events.arguments], events.category).astype(np.int32)
    named = []
    begun = np.flatnonzero(mine & (events.phase == ord("B")) & (events.category >= 0))
    rows = np.unique(np.column_stack([events.process[begun], events.thread[begun], events.name[begun]]), axis=0)
    for process, thread, name in rows.tolist():
        text = texts[name] if name >= 0 else ""
        if match := _THREAD.fullmatch(text):
            named.append((place_of("thread_name"), process, thread, place_of(_name_argument(match[1]))))
        elif (match := _PROCESS.fullmatch(text)) and process >= 0 and texts[process] == match[1]:
            command = os.path.basename((match[2].split() or [""])[0])
            named.append((place_of("process_name"), process, thread, place_of(_name_argument(command))))
    name_of, process_of, thread_of, said = (
        (np.array(column, np.int32) for column in zip(*named, strict=True)) if (named) else (np.zeros(0, np.int32),) * 4
    )
    none, no_time = np.full(len(named), -1, np.int32), np.full(len(named), MISSING, np.int64)
    return replace(
        events,
        texts=texts,
        phase=np.append(events.phase, np.full(len(named), ord("M"), np.uint8)),
        name=np.append(events.name, name_of),
        category=np.append(category, none),
        process=np.append(events.process, process_of),
        thread=np.append(events.thread, thread_of),
        id=np.append(events.id, none),
        time_ns=np.append(events.time_ns, no_time),
        duration_ns=np.append(events.duration_ns, no_time),
        arguments=np.append(events.arguments, said),
    )


def _get_file(arguments: str) -> str:
    try:
        found: Any = parse_json(arguments)
    except ValueError:
        return ""
    file = found.get("filename") if isinstance(found, dict) else None
    return file if isinstance(file, str) else ""


def _name_argument(name: str) -> str:
    return orjson.dumps({"name": name}).decode()
