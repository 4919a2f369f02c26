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

from ...domain.arrays import Array, IndexArray, number_values
from ...domain.arrow import functions as pc
from ...domain.units import NS_PER_S
from .grammar import (
    MAX_WEIGHT,
    RECORD,
    SampleHeader,
    has_odd_time,
    is_frame_like,
    is_tracepoint,
    parse_header,
)

NEWLINE, SPACE, TAB, HASH, DOT, COLON, ZERO, CLOSE = b"\n \t#.:0)"
PAD = 16
SWITCH_RECORD = RECORD + b"SWITCH"
_SWITCH_RECORD = re.compile(rb"\d: ++" + SWITCH_RECORD + rb"(?:_CPU_WIDE)? (?:IN|OUT)\b")
MAX_DIGITS = 18
MAX_SPACES = 64


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
    record = _find_switch_records(chunk, starts)
    indented &= ~record
    candidates = np.flatnonzero(~(blank | comment | indented | record))
    heads = _HeaderColumns(chunk, data, starts, candidates)
    after = candidates + 1
    others = np.append(np.flatnonzero(~indented), len(first))
    body_end = starts[others[np.searchsorted(others, after)]]
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
    stack, stacks = factorize(_slice_chunk(chunk, body_start[rows], body_end[rows]))
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


def factorize(values: pa.Array) -> tuple[Array, pa.Array]:
    """Codes of values, and the distinct values in order of first appearance."""
    encoded = pc.dictionary_encode(values)
    return encoded.indices.to_numpy(), encoded.dictionary


def _slice_chunk(chunk: bytes, start: Array, end: Array) -> pa.Array:
    """The parts of `chunk` from start to end; ascending and disjoint."""
    offsets = np.empty(2 * len(start) + 1, np.int32)
    offsets[0:-1:2] = start
    offsets[1::2] = end
    offsets[-1] = end[-1] if len(end) else 0
    pieces = pa.Array.from_buffers(
        pa.binary(), 2 * len(start), [None, pa.py_buffer(offsets), pa.py_buffer(chunk)], null_count=0
    )
    return pc.take(pieces, pa.array(np.arange(0, 2 * len(start), 2)))


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

    def __init__(self, chunk: bytes, data: Array, starts: Array, lines: Array) -> None:
        n = len(lines)
        self.chunk_start, self.chunk_end = starts[lines], starts[lines + 1]
        size = self.chunk_end - self.chunk_start
        blob, offset = self._gather_headers(chunk, size)
        fields = _find_fields(blob, offset[:-1], offset[1:])
        self.found = fields.ok
        self.sure = np.ones(n, bool)
        self.time_ns, self.weight = fields.time_ns, fields.weight
        self._encode_texts(blob, fields)
        place = self.chunk_start - offset[:-1]
        self.tail_start = np.where(fields.ok & fields.has_tail, fields.tail + place, 0)
        self.trace = np.array([is_tracepoint(event) for event in self.events] or [False], bool)[self.event]
        self._discard_tracepoint_fields(chunk)
        self._parse_odd_headers(chunk)

    def _gather_headers(self, chunk: bytes, size: Array) -> tuple[Array, Array]:
        """All header lines in one array with padding on both sides, and where each starts (and the last ends)."""
        pieces = _slice_chunk(chunk, self.chunk_start, self.chunk_end)
        offset = np.concatenate((np.zeros(1, np.int64), np.cumsum(size))) + PAD
        blob = np.full(int(offset[-1]) + PAD, NEWLINE, np.uint8)
        if len(size):
            blob[PAD : int(offset[-1])] = np.frombuffer(pieces.buffers()[2], np.uint8)[: int(offset[-1]) - PAD]
        return blob, offset

    def _encode_texts(self, blob: Array, fields: "_HeaderFields") -> None:
        """Codes for the text before the time and for the events."""
        n = len(fields.ok)
        offsets = np.empty(4 * n + 1, np.int32)
        for index, values in enumerate((fields.start, fields.seconds, fields.event, fields.event_end)):
            offsets[index:-1:4] = np.where(fields.ok, values, fields.start)
        offsets[-1] = len(blob) - PAD
        pieces = pa.Array.from_buffers(
            pa.binary(), 4 * n, [None, pa.py_buffer(offsets), pa.py_buffer(blob)], null_count=0
        )
        self.prefix, prefixes = factorize(pc.take(pieces, pa.array(np.arange(0, 4 * n, 4))))
        self.event, events = factorize(pc.take(pieces, pa.array(np.arange(2, 4 * n, 4))))
        self.prefixes: list[bytes] = [prefix.rstrip() for prefix in prefixes.to_pylist()]
        self.events: list[bytes] = events.to_pylist()
        usable = [e.split() == [e] and not e.startswith(RECORD) for e in self.events]
        self.found &= np.array(usable or [False], bool)[self.event]
        odd = [has_odd_time(prefix) for prefix in self.prefixes]
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


@dataclass(frozen=True)
class _HeaderFields:
    """The parts of each header as positions in the array of headers, and its numbers. Only rows that are ok count."""

    ok: Array
    start: Array
    seconds: Array
    event: Array
    event_end: Array
    tail: Array
    has_tail: Array
    time_ns: Array
    weight: Array


def _find_fields(blob: Array, start: Array, end: Array) -> _HeaderFields:
    """Find time, period and event in the headers blob[start:end], which end with a newline."""
    n = len(start)
    ok, dot, nine = _find_time_dots(blob, start)
    place = dot - 1
    seconds = np.zeros(n, np.int64)
    scale = 1
    for _ in range(13):
        digit = blob[place] - ZERO
        more = (digit < 10) & (place >= start)
        if not more.any():
            break
        seconds += np.where(more, digit, 0).astype(np.int64) * scale
        scale *= 10
        place = place - more
    else:
        ok &= ~more
    ok &= (place < start) | _is_space(blob[place])
    fraction = (blob[dot[:, None] + np.arange(1, 10)] - ZERO).astype(np.int64)
    weights = 10 ** np.arange(8, -1, -1)
    nanoseconds = np.where(nine, fraction @ weights, fraction[:, :6] @ weights[:6])
    at = dot + np.where(nine, 11, 8)
    ok &= _is_space(blob[at])
    period_start = _skip_spaces(blob, at, end)
    period, period_end, fits = _parse_numbers(blob, period_start)
    has_period = (period_end > period_start) & _is_space(blob[period_end])
    ok &= fits
    event = _skip_spaces(blob, np.where(has_period, period_end, period_start), end)
    colons = np.flatnonzero(blob == COLON)
    colons = np.append(colons[_is_space(blob[colons + 1])], len(blob))
    event_end = colons[np.searchsorted(colons, event)]
    ok &= (event_end < end) & (event < event_end)
    event_end = np.where(ok, event_end, start)
    tail = _skip_spaces(blob, event_end + 1, end)
    return _HeaderFields(
        ok=ok,
        start=start,
        seconds=np.where(ok, place + 1, start),
        event=np.where(ok, event, start),
        event_end=event_end,
        tail=event_end + 1,
        has_tail=ok & (tail < end - 1),
        time_ns=np.where(ok, seconds * NS_PER_S + nanoseconds, -1),
        weight=np.where(has_period, period, -1),
    )


def _find_time_dots(blob: Array, start: Array) -> tuple[Array, Array, Array]:
    """The dot of each header's time: whether there is one as perf writes it, its position (else the header's start),
    and whether nine digits follow."""
    n = len(start)
    dots = np.flatnonzero(blob == DOT)
    after = dots + 1
    # One digit more than the longest fraction, which then is too long. The padding ends the last one.
    for _ in range(MAX_DIGITS + 1):
        more = blob[after] - ZERO < 10
        if not more.any():
            break
        after = after + more
    digits = after - dots - 1
    good = (digits > 0) & (digits <= MAX_DIGITS) & (blob[after] == COLON) & (blob[dots - 1] - ZERO < 10)
    dots, digits = dots[good], digits[good]
    owner = np.searchsorted(start, dots, "right") - 1
    leading = np.ones(len(owner), bool)
    leading[1:] = owner[1:] != owner[:-1]
    dot, is_nine, ok = start.copy(), np.zeros(n, bool), np.zeros(n, bool)
    dot[owner[leading]] = dots[leading]
    is_nine[owner[leading]] = digits[leading] == 9
    # Other numbers of digits are left to the grammar.
    ok[owner[leading]] = np.isin(digits[leading], (6, 9))
    return ok, dot, is_nine


def _parse_numbers(blob: Array, start: Array) -> tuple[Array, Array, Array]:
    """The decimal number at each position (0 for none), where it ends, and whether it is short enough."""
    at = start
    value = np.zeros(len(start), np.int64)
    for _ in range(MAX_DIGITS):
        digit = blob[at] - ZERO
        more = digit < 10
        if not more.any():
            return value, at, np.ones(len(start), bool)
        value = np.where(more, value * 10 + digit, value)
        at = at + more
    return value, at, blob[at] - ZERO >= 10


def _skip_spaces(blob: Array, at: Array, end: Array) -> Array:
    """The first position from each on, before its line's end, that is no space or tab.

    After very many it is still a space; then the field is found to be odd and left to the grammar.
    """
    for _ in range(MAX_SPACES):
        more = ((blob[at] == SPACE) | (blob[at] == TAB)) & (at < end - 1)
        if not more.any():
            break
        at = at + more
    return at


def _is_space(values: Array) -> Array:
    result: Array = (values == SPACE) | (values == TAB) | (values == NEWLINE)
    return result


def build_call_tree(ends: Array, frames: Array, kept: Array) -> tuple[Array, Array, Array]:
    """The tree of call stacks given as sequences of frames, innermost first: stack i is frames[ends[i-1]:ends[i]].

    kept: mask of the stacks. Returns (parent, frame, node): of the tree's nodes without its root, which is NO_ID, and
    each stack's innermost node.
    """
    length = np.diff(ends, prepend=0)
    node = np.full(len(ends), -1, np.int64)
    width = int(frames.max()) + 1 if len(frames) else 1
    parents, labels, count, depth = [], [], 0, 0
    alive = np.flatnonzero(kept & (length > 0))
    while len(alive):
        keys = (node[alive] + 1) * width + frames[ends[alive] - 1 - depth]
        codes, first = number_values(keys)
        values = keys[first]
        parents.append((values // width - 1).astype(np.int32))
        labels.append((values % width).astype(np.int32))
        node[alive] = count + codes
        count += len(values)
        depth += 1
        alive = alive[length[alive] > depth]
    empty = [np.zeros(0, np.int32)]
    return np.concatenate(parents or empty), np.concatenate(labels or empty), node
