"""perf script's text split into tokens, a chunk of many samples at a time, by array operations.

A recording repeats itself: the same few events and tasks, the same stacks, and even if all stacks differ the same lines
within them. So only the numbers of the headers are parsed here. Everything else is replaced by a code for its text, and
the caller checks each distinct text once. Lines of an unusual form are left to the grammar, header by header, or listed
in `odd` for the caller to read line by line.

The array operations release the interpreter lock, so that chunks can be tokenized in parallel threads.
"""

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array, IndexArray
from .grammar import (
    MAX_WEIGHT,
    RECORD,
    SampleHeader,
    has_odd_time,
    is_frame_like,
    is_tracepoint,
    parse_header,
)
from .header_fields import HeaderFields, find_header_fields
from .text_parts import factorize, factorize_parts

NEWLINE, SPACE, TAB, HASH, CLOSE = b"\n \t#)"
SWITCH_RECORD = RECORD + b"SWITCH"
_SWITCH_RECORD = re.compile(rb"\d: ++" + SWITCH_RECORD + rb"(?:_CPU_WIDE)? (?:IN|OUT)\b")


@dataclass(frozen=True)
class Tokens:
    """The samples of one chunk. Lines are counted from 0 at its start.

    line: of each sample's header. time_ns, weight: -1 if not printed. prefix, event, stack: codes into prefixes, events
    and stacks. A stack is the lines stack_lines[stack_ends[code-1] : stack_ends[code]], each a code into `texts`,
    innermost first (line ends included). starts: where each line begins (and, last, where the chunk ends). comments:
    lines that start with "#". unparsed: lines that could not be parsed. sample_bounds: lines at which no sample is
    open: a sample's header, or an empty line. trailing_text: samples with text behind the event that is neither a frame
    nor a tracepoint's fields.
    """

    line: Array
    time_ns: Array
    weight: Array
    prefix: Array
    prefixes: list[bytes]
    event: Array
    events: list[bytes]
    stack: Array
    stack_ends: Array
    stack_lines: Array
    texts: list[bytes]
    starts: Array
    comments: Array
    unparsed: Array
    sample_bounds: Array
    trailing_text: Array


def tokenize(chunk: bytes) -> Tokens:
    """The tokens of `chunk`, which ends with a line end and in which line ends are single newlines."""
    data = np.frombuffer(chunk, np.uint8)
    ends = np.flatnonzero(data == NEWLINE)
    starts = np.concatenate((np.zeros(1, np.int64), ends + 1))
    first = data[starts[:-1]]
    blank = first == NEWLINE
    comment = first == HASH
    indented = (first == TAB) | (first == SPACE)
    if not blank.any() and not (first == TAB).any():
        # No stacks: each sample is one line, and perf aligns the command names to the right.
        indented[:] = False
    is_candidate = ~(blank | comment | indented)
    candidates = np.flatnonzero(is_candidate)
    fields = find_header_fields(chunk, starts[candidates], starts[candidates + 1])
    # Other lines that begin with a space may be records, too.
    may_have_records = SWITCH_RECORD in fields.layout_texts or (first == SPACE).any()
    if may_have_records and (record := _find_switch_records(chunk, starts)).any():
        indented &= ~record
        is_candidate = ~(blank | comment | indented | record)
        candidates = np.flatnonzero(is_candidate)
        fields = find_header_fields(chunk, starts[candidates], starts[candidates + 1])
    heads = _HeaderColumns(chunk, starts, candidates, fields)
    after = candidates + 1
    others = np.append(np.flatnonzero(~indented), len(first))
    body_end = starts[others[np.flatnonzero(is_candidate[others[:-1]]) + 1]]
    body_start = np.minimum(starts[after], body_end)
    inline = heads.tail_start > 0
    empty = body_start == body_end
    more = inline & ~empty & ~heads.trace
    inline &= empty
    body_start = np.where(inline, heads.tail_start, body_start)
    body_end = np.where(inline, starts[after], body_end)
    good = heads.found & (heads.sure | (body_start < body_end))
    orphans = _find_orphans(blank, comment, indented)
    rows = np.flatnonzero(good)
    closed = blank.copy()
    closed[candidates[rows]] = True
    closed[:1] = True
    stack, stacks = factorize_parts(chunk, body_start[rows], body_end[rows])
    stack_ends, stack_lines, texts = _lines_of(stacks)
    return Tokens(
        line=candidates[rows],
        time_ns=heads.time_ns[rows],
        weight=heads.weight[rows],
        prefix=heads.prefix[rows],
        prefixes=heads.prefixes,
        event=heads.event[rows],
        events=heads.events,
        stack=stack,
        stack_ends=stack_ends,
        stack_lines=stack_lines,
        texts=texts,
        starts=starts,
        comments=np.flatnonzero(comment),
        unparsed=np.concatenate((candidates[~good], orphans)),
        sample_bounds=np.flatnonzero(closed),
        trailing_text=candidates[more & good],
    )


def _find_switch_records(chunk: bytes, starts: Array) -> Array:
    """Which lines are context-switch records: many, and never parts of samples."""
    found = np.zeros(len(starts) - 1, bool)
    places = [match.start() for match in _SWITCH_RECORD.finditer(chunk)] if SWITCH_RECORD in chunk else []
    if places:
        found[np.searchsorted(starts, np.array(places, np.int64), "right") - 1] = True
    return found


def _lines_of(stacks: pa.Array) -> tuple[Array, Array, list[bytes]]:
    """The lines of distinct stacks: where those of each end, as codes, and the distinct lines themselves."""
    if not len(stacks):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), []
    offsets = np.frombuffer(stacks.buffers()[1], np.int32)[stacks.offset : stacks.offset + len(stacks) + 1]
    base, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    if not size:
        return np.zeros(len(stacks), np.int64), np.zeros(0, np.int64), []
    data = stacks.buffers()[2].slice(base, size)
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == NEWLINE) + 1
    bounds = np.concatenate((np.zeros(1, np.int32), ends.astype(np.int32)))
    lines = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(bounds), data], null_count=0)
    codes, distinct = factorize(lines)
    return np.searchsorted(ends, offsets[1:] - base, "right"), codes, distinct.to_pylist()


def _find_orphans(blank: Array, comment: Array, indented: Array) -> IndexArray:
    """The first line of each sequence of indented lines without a header above."""
    outside = np.concatenate(([True], (blank | comment)[:-1]))
    return np.flatnonzero(indented & outside)


class _HeaderColumns:
    """The headers of a chunk as columns, one row per candidate line.

    found: it is a header; sure: even without a stack. tail_start: where in the chunk the text behind the event starts
    that may be a frame, 0 for none. trace: such text belongs to a tracepoint.
    """

    def __init__(self, chunk: bytes, starts: Array, lines: Array, fields: HeaderFields) -> None:
        self.chunk_start, self.chunk_end = starts[lines], starts[lines + 1]
        self.found = fields.ok
        self.sure = np.ones(len(lines), bool)
        self.time_ns, self.weight = fields.time_ns, fields.weight
        self._encode_texts(chunk, fields)
        self.tail_start = np.where(fields.has_tail, fields.tail, 0)
        self.trace = np.array([is_tracepoint(event) for event in self.events] or [False], bool)[self.event]
        self._discard_tracepoint_fields(chunk)
        self._parse_odd_headers(chunk)

    def _encode_texts(self, chunk: bytes, fields: HeaderFields) -> None:
        """Codes for the text before the time and for the events."""
        self.prefix, prefixes = factorize_parts(chunk, self.chunk_start, fields.seconds)
        self.prefixes: list[bytes] = [prefix.rstrip() for prefix in prefixes.to_pylist()]
        # A layout has a 9 for every digit.
        if any(b"9" in event for event in fields.layout_events):
            self.event, events = factorize_parts(chunk, fields.event, fields.event_end)
            self.events: list[bytes] = events.to_pylist()
        else:
            codes: dict[bytes, int] = {}
            of_layout = [codes.setdefault(event, len(codes)) for event in fields.layout_events]
            self.event, self.events = np.array(of_layout, np.int32)[fields.layout], list(codes)
        usable = [e.split() == [e] and not e.startswith(RECORD) for e in self.events]
        self.found &= np.array(usable or [False], bool)[self.event]
        odd = [has_odd_time(prefix) or RECORD in prefix for prefix in self.prefixes]
        self.found &= ~np.array(odd or [False], bool)[self.prefix]

    def _discard_tracepoint_fields(self, chunk: bytes) -> None:
        """Discard tails that are fields of tracepoints, unless they are a frame."""
        for row in np.flatnonzero((self.tail_start > 0) & self.trace):
            end = int(self.chunk_end[row])
            if CLOSE not in chunk[max(0, end - 3) : end] or not is_frame_like(chunk[self.tail_start[row] : end]):
                self.tail_start[row] = 0

    def _parse_odd_headers(self, chunk: bytes) -> None:
        """Parse headers of an unusual form one by one, each distinct text once."""
        known: dict[bytes, SampleHeader | None] = {}
        prefixes: dict[bytes, int] = {}
        events: dict[bytes, int] = {}
        old_prefixes, old_events = len(self.prefixes), len(self.events)
        self.prefix, self.event = self.prefix.astype(np.int64), self.event.astype(np.int64)
        for row in np.flatnonzero(~self.found):
            start, end = int(self.chunk_start[row]), int(self.chunk_end[row])
            line = chunk[start : end - 1]
            if line in known:
                header = known[line]
            else:
                header = known[line] = parse_header(line)
            if header is None or (header.weight or 0) > MAX_WEIGHT:
                continue
            self.found[row], self.sure[row] = True, header.certain
            self.time_ns[row] = -1 if header.time_ns is None else header.time_ns
            self.weight[row] = -1 if header.weight is None else header.weight
            self.prefix[row] = prefixes.setdefault(header.prefix, old_prefixes + len(prefixes))
            self.event[row] = events.setdefault(header.event, old_events + len(events))
            if header.tail and (is_frame_like(header.tail) or not is_tracepoint(header.event)):
                self.tail_start[row] = start + line.rindex(header.tail)
            self.trace[row] = is_tracepoint(header.event)
        self.prefixes += prefixes
        self.events += events
