"""Trace events from a stream, the fastest way there is here."""

import sys
from dataclasses import replace
from typing import BinaryIO

import numpy as np

from ..jit.decorators import HAS_NUMBA
from ..json_text import parse_json
from ..trace.events import ID_TEXT, TraceEvents


def read_events(stream: BinaryIO) -> TraceEvents:
    """The events in a stream of unpacked bytes: scanned, or where loops are not compiled, decoded, which takes long.

    Raises what reading the stream does, nothing for what is in it.
    """
    return resolve_scoped_ids(_read_events(stream))


def _read_events(stream: BinaryIO) -> TraceEvents:
    if HAS_NUMBA and sys.byteorder == "little":
        # Needs the compiler.
        from .parallel_scan import scan_events_parallel

        return scan_events_parallel(stream)
    from .decoder import decode

    return decode(stream)


def resolve_scoped_ids(events: TraceEvents) -> TraceEvents:
    """Events with the ids that `id2` has, {"local": "0x1"} or {"global": "0x1"}, which so far are texts: a local one is
    different in each process, and both are different from the same text in `id`."""
    codes = np.unique(events.id[events.id >= ID_TEXT]) - ID_TEXT
    scopes = {code: _parse_scope(events.texts[code]) for code in codes.tolist() if events.texts[code].startswith("{")}
    # Of each code: the same number for the same id, and whether it is one of its process.
    numbers: dict[tuple[str, str], int] = {}
    size = len(events.texts)
    number, is_local = np.full(size, -1, np.int64), np.zeros(size, bool)
    for code, scope in scopes.items():
        if scope is not None:
            number[code], is_local[code] = numbers.setdefault(scope, len(numbers)), scope[0] == "local"
    rows = np.flatnonzero(events.id >= ID_TEXT)
    rows = rows[number[events.id[rows] - ID_TEXT] >= 0]
    if not len(rows):
        return events
    of = events.id[rows] - ID_TEXT
    process = np.where(is_local[of], events.process[rows].astype(np.int64) + 1, 0)
    keys, which = np.unique(number[of] * (size + 1) + process, return_inverse=True)
    named, texts = list(numbers), []
    for key in keys.tolist():
        at, place = divmod(key, size + 1)
        texts.append(" ".join((*named[at], *([f"of {events.texts[place - 1]}"] if place else []))))
    ids = events.id.copy()
    ids[rows] = ID_TEXT + size + which
    return replace(events, id=ids, texts=[*events.texts, *texts])


def _parse_scope(text: str) -> tuple[str, str] | None:
    """("local" or "global", the id) in the text of an `id2`."""
    try:
        found = parse_json(text)
    except ValueError:
        return None
    scopes = (scope for scope in ("local", "global") if isinstance(found.get(scope), str | int))
    scope = next(scopes, None)
    return None if scope is None else (scope, str(found[scope]))
