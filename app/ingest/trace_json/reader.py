"""Trace events from a stream, by the fastest available method."""

import sys
from dataclasses import replace
from typing import BinaryIO

import numpy as np

from ...domain.arrays import sort_distinct
from ..jit.decorators import HAS_NUMBA
from ..json_text import parse_json
from ..trace.events import ID_TEXT, TraceEvents


def read_events(stream: BinaryIO) -> TraceEvents:
    """The events in a stream of decompressed bytes: scanned, or decoded, which is slow, if loops are not compiled.

    Raises what reading the stream does; its content never raises.
    """
    return resolve_scoped_ids(_read_events(stream))


def _read_events(stream: BinaryIO) -> TraceEvents:
    if HAS_NUMBA and sys.byteorder == "little":
        # It needs the compiler.
        from .parallel_scan import scan_events_parallel

        return scan_events_parallel(stream)
    from .decoder import decode

    return decode(stream)


def resolve_scoped_ids(events: TraceEvents) -> TraceEvents:
    """Replace the texts of `id2`, such as {"local": "0x1"} or {"global": "0x1"}, by ids: a local id differs in each
    process, and both differ from the same text in `id`."""
    codes = sort_distinct(events.id[events.id >= ID_TEXT]) - ID_TEXT
    scopes = {code: _parse_scope(events.texts[code]) for code in codes.tolist() if events.texts[code].startswith("{")}
    # By code: a number, equal for equal ids, and whether the id is local to its process.
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
        at, owner = divmod(key, size + 1)
        texts.append(" ".join((*named[at], *([f"of {events.texts[owner - 1]}"] if owner else []))))
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
