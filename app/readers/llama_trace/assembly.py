"""Builds a Profile from the lines of a text trace: pairs begins and ends, classifies operators, finds decoding
steps."""

import json
from contextlib import suppress
from dataclasses import replace

import numpy as np

from ...domain.arrays import MISSING, Array, Int64Array
from ...domain.errors import UnreadableInput
from ...domain.profile import Profile
from ...domain.tables import FrameKind
from ...ingest.trace.begin_end_pairs import match_begin_end
from ...ingest.trace.events import TraceEvents
from ...ingest.trace.profile import Dialect
from ...ingest.trace.profile import build_profile as of_events
from ...ingest.trace.slices import SliceClassifier, SliceType
from .format import DROPPED, FORMAT, NO_BEGIN, NO_VALUE
from .lines import BEGIN, COUNTER, END, NONE, SHOWN, TraceLines
from .names import parse_operator_name
from .steps import MARK, steps_of

CUT_OFF = "The file ends without end_time: the program was killed, or the file is truncated."
PREFIX = "end_"
OPERATOR = "operator"
PROGRAM = "program"
"""A trace has events of one process, and no process name."""
_OPERATOR, _MARK = SliceType("operator", FrameKind.OPERATOR), SliceType("annotation", FrameKind.ANNOTATION)


def _pair_rows(lines: TraceLines) -> Int64Array:
    """By row the row of the other end of a slice, NONE if there is none."""
    rows = np.flatnonzero(lines.kind != COUNTER)
    keys = [column[rows] for column in (lines.number, lines.name, lines.thread)]
    order = np.lexsort(keys)
    new = np.zeros(len(rows), bool)
    new[1:] = np.logical_or.reduce([key[order[1:]] != key[order[:-1]] for key in keys])
    sorted_rows = rows[order].astype(np.int32)
    begins, no_category = lines.kind[sorted_rows] == BEGIN, np.full_like(lines.name, NONE)
    begin, end, _ = match_begin_end(sorted_rows, np.cumsum(new, dtype=np.int32), begins, lines.name, no_category, False)
    other = np.full(len(lines.kind), NONE, np.int64)
    begin, end = begin[end >= 0], end[end >= 0]
    other[begin], other[end] = end, begin
    return other


def _pair_names_like_ends(lines: TraceLines, other: Array, texts: dict[str, int]) -> list[int]:
    """Pair slices whose own name begins with `end_`, in `other`; returns ends without a begin.

    The begin of such a slice looks like an end, and its end like the end of another end.
    """
    open_: dict[tuple[int, int, int], list[int]] = {}
    for row in np.flatnonzero((lines.kind == END) & (other == NONE)).tolist():
        thread, number, name = (int(column[row]) for column in (lines.thread, lines.number, lines.name))
        if begun := open_.get((thread, number, name)):
            other[row] = begun.pop()
            other[other[row]] = row
        else:
            full_name = texts.setdefault(f"{PREFIX}{lines.texts[name]}", len(texts))
            open_.setdefault((thread, number, full_name), []).append(row)
    return sorted(row for rows in open_.values() for row in rows)


def _build_events(lines: TraceLines) -> TraceEvents:
    """Slices and counters, in the order of their begins."""
    texts = {text: index for index, text in enumerate(lines.texts)}
    pair_rows = _pair_rows(lines)
    lone = _pair_names_like_ends(lines, pair_rows, texts)
    lost = [(reason, count, first) for reason, (count, first) in lines.lost.items()]
    if lone:
        where, what = (lines.texts[int(column[lone[0]])] for column in (lines.thread, lines.name))
        lost.append((NO_BEGIN, len(lone), f"line {lines.line[lone[0]]}: thr: {where}, name: {PREFIX}{what}"[:SHOWN]))
    begins = np.ones(len(lines.kind), bool)
    begins[lines.kind == END] = False
    reversed_ = np.flatnonzero((lines.kind == END) & (pair_rows > np.arange(len(pair_rows))))
    begins[reversed_] = True
    shown = lines.name.copy()
    for row in reversed_.tolist():
        shown[row] = texts[f"{PREFIX}{lines.texts[shown[row]]}"]
    counter = lines.kind == COUNTER
    arguments = np.full(len(lines.kind), NONE, np.int32)
    bad = _write_values(lines, np.flatnonzero(counter), texts, arguments)
    if len(bad):
        value = lines.texts[int(lines.number[bad[0]])]
        lost.append((NO_VALUE, len(bad), f"line {lines.line[bad[0]]}: value: {value}"[:SHOWN]))
        begins[bad] = False
    rows = np.flatnonzero(begins)
    argument_sets = np.full(len(texts), NONE, np.int32)
    category = np.full(len(texts), texts.setdefault(MARK, len(texts)), np.int32)
    operator = texts.setdefault(OPERATOR, len(texts))
    program = texts.setdefault(PROGRAM, len(texts))
    names = list(texts)
    for index in np.unique(shown[rows[~counter[rows]]]).tolist():
        if operator_name := parse_operator_name(names[index]):
            argument_sets[index], category[index] = texts.setdefault(json.dumps(operator_name), len(texts)), operator
    end = pair_rows[rows]
    marks = ~counter[rows]
    name = shown[rows]
    return TraceEvents(
        texts=list(texts),
        phase=np.where(marks, np.where(end == NONE, ord("B"), ord("X")), ord("C")).astype(np.uint8),
        name=name,
        category=np.where(marks, category[name], NONE).astype(np.int32),
        process=np.full(len(rows), program, np.int32),
        thread=np.where(marks, lines.thread[rows], NONE).astype(np.int32),
        arguments=np.where(marks, argument_sets[name], arguments[rows]).astype(np.int32),
        id=np.full(len(rows), NONE, np.int32),
        time_ns=lines.time_ns[rows],
        duration_ns=np.where(marks & (end != NONE), lines.time_ns[end] - lines.time_ns[rows], MISSING),
        lost=lost,
    )


def _write_values(lines: TraceLines, counters: Array, texts: dict[str, int], arguments: Array) -> Array:
    """Write the values of counters into `arguments`; returns those whose value is not a number."""
    known = np.full(len(lines.texts), NONE, np.int32)
    for place in np.unique(lines.number[counters]).tolist():
        with suppress(ValueError):
            value = json.dumps({"": float(lines.texts[place])})
            known[place] = texts.setdefault(value, len(texts))
    arguments[counters] = known[lines.number[counters]]
    bad: Array = counters[arguments[counters] == NONE]
    return bad


def _classify(category: str, name: str) -> SliceType:
    return _OPERATOR if category == OPERATOR else _MARK


def build_profile(lines: TraceLines, source: str, defect: str | None) -> Profile:
    """The profile of the lines. Raises UnreadableInput if there are no events."""
    events, edges = _build_events(lines), lines.edges
    if not len(events):
        raise UnreadableInput(
            f"{source} has no events. Call begin_trace and end_trace between start_tracing_session and "
            "stop_tracing_session, and run the program again."
        )
    cut = None if "end_time" in edges else CUT_OFF
    if dropped := edges.get("lost", 0):
        events.lost.append((DROPPED, dropped, "as recorded in the file"))
    dialect = Dialect(FORMAT, SliceClassifier(_classify), "")
    profile = of_events(events, source, defect or cut, dialect)
    return replace(profile, steps=steps_of(profile))
