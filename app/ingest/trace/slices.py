"""The slices of a trace: collected from its events, named, sorted, nested or assigned to lanes, with call stacks.

The format defines the meaning of categories and names: see `SliceClassifier`.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import numpy as np

from ...domain.arrays import MISSING, Array, Int32Array
from ...domain.builder import ProfileBuilder
from ...domain.tables import NO_ID, FrameKind
from ...domain.text import shorten
from ...domain.units import NS_PER_US
from ..jit.decorators import jit
from ..jit.hashing import HASH_FACTOR, factorize_pairs
from ..losses import MAX_EXAMPLE_CHARS
from ..number_limits import number_category
from .begin_end_pairs import SlicePairs, pair_async_events, pair_thread_events
from .events import MAX_DEPTH, TraceEvents
from .losses import IMPOSSIBLE_TIME, NEGATIVE, NEVER_ENDED, NO_DURATION, NO_TIME, TOO_DEEP, TWO_ARGUMENTS, UNMATCHED_END
from .nesting import OPEN_END_NS, assign_lanes, grow_tree, nest, sort_slices
from .phases import ASYNC_BEGIN, ASYNC_END, BEGIN, COMPLETE, COUNTER, END, PhaseIndex
from .tracks import OTHER_TRACK, THREAD, TraceTrack, assign_tracks

WORK = ("kernel", "memcpy", "memset")
"""Kinds of categories whose slices are work of a device."""


@dataclass(frozen=True)
class SliceType:
    """The meaning of a category and a name.

    kind: of the category, one of CategoryKinds. label: of its frame in call stacks. display, file, line, module: of the
    function. frame_kind: FrameKind. track_kind: THREAD, STREAM or TRACK. nesting_order: which of two slices with the
    same interval is the outer one, the smaller.
    """

    kind: str
    frame_kind: FrameKind
    track_kind: int = THREAD
    nesting_order: int = 0
    label: str | None = None
    display: str | None = None
    module: str = ""
    file: str | None = None
    line: int | None = None


PLAIN_SLICE = SliceType("other", FrameKind.USER)


@dataclass(frozen=True)
class SliceClassifier:
    """How a format interprets its events. classify: of a category and a name. non_process_pids: process ids that are
    not processes, whose time belongs to no process."""

    classify: Callable[[str, str], SliceType]
    non_process_pids: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class SliceTypes:
    """The distinct pairs of category and name: the meaning of each (by code), as arrays."""

    types: list[SliceType]
    name: list[str]
    category: Array
    function: Array
    frame: Array
    track_kind: Array
    nesting_order: Array
    categories: list[tuple[str, str]]

    def is_of_kind(self, *kinds: str) -> Array:
        """Which codes are of these kinds of categories, as bools; one if there are no codes."""
        return self.map(lambda what, name: what.kind in kinds, bool)

    def map(self, value: Callable[[SliceType, str], int], kind: type) -> Array:
        """A number for each code, by its meaning and its name; one if there are no codes."""
        return np.array([value(*one) for one in zip(self.types, self.name, strict=True)] or [0], kind)


@dataclass(eq=False)
class SliceTable:
    """The slices, in the order of the table `slices`. event: the event of each. code: into `codes`. start_ns, stop_ns:
    as in the file. arguments: places of texts. bounds: the rows of line i are bounds[i] … bounds[i+1]-1. row: by event,
    its slice or -1. parent, depth, end, self_ns: as in the table. node: the call stack, a node of `tree`."""

    events: TraceEvents
    phases: PhaseIndex
    codes: SliceTypes
    tracks: list[TraceTrack]
    event: Array
    code: Array
    track: Array
    start_ns: Array
    stop_ns: Array
    bounds: Array
    arguments: Array
    row: Array
    parent: Array = field(init=False)
    depth: Array = field(init=False)
    end: Array = field(init=False)
    self_ns: Array = field(init=False)
    node: Array = field(init=False)
    self_times: "SelfTimeIntervals" = field(init=False)
    tree: "CallingContextTree" = field(init=False)
    numbers: dict[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.event)

    def free_numbers(self, kept: Collection[str]) -> None:
        """Release the numbers of events except a few, unless there are counters, which may use any."""
        self.numbers.clear()
        if not len(self.phases.select(COUNTER)):
            numbers = self.events.numbers
            self.events = replace(self.events, numbers={key: numbers[key] for key in kept if key in numbers})

    def free_events(self) -> None:
        """Release the events: everything is derived from them."""
        no = self.row = self.event = np.zeros(0, np.int32)
        self.events = TraceEvents([], no, no, no, no, no, no, no, no, no)

    def get_number(self, key: str) -> Array:
        """The whole number in the argument `key` of each slice (int64), MISSING if there is none."""
        if key not in self.numbers:
            found = np.full(len(self), MISSING, np.int64)
            number = self.events.numbers.get(key)
            if number is not None:
                _scatter(number.event, number.value, self.row, found)
            self.numbers[key] = found
        return self.numbers[key]


@jit
def _scatter(event: Array, value: Array, row: Array, found: Array) -> None:
    for i in range(len(event)):
        at = row[event[i]]
        if at >= 0:
            found[at] = value[i]


@dataclass(eq=False)
class SelfTimeIntervals:
    """Intervals in which one slice is the innermost on its thread: its row, the start and the length, of the first
    `count` of each. There is room for as many more as there are slices on streams and tracks. on_threads: `count`
    before those were added."""

    row: Array
    start_ns: Array
    length_ns: Array
    count: int = 0
    on_threads: int = 0

    def append_slices(self, slices: Array, rows: "SliceTable") -> "SelfTimeIntervals":
        """Those, followed by some slices that are on no thread."""
        self.on_threads = self.count
        self.count += len(slices)
        room = slice(self.on_threads, self.count)
        self.row[room] = slices
        self.start_ns[room] = rows.start_ns[slices]
        self.length_ns[room] = rows.stop_ns[slices] - rows.start_ns[slices]
        return self

    def take_columns(self) -> tuple[Array, Array, Array]:
        """The three columns, which are released here."""
        row, start, length = (values[: self.count] for values in (self.row, self.start_ns, self.length_ns))
        del self.row, self.start_ns, self.length_ns
        return row, start, length


class CallingContextTree:
    """The calling context tree while it grows: parent and frame by node, node 0 is the root."""

    def __init__(self, most: int) -> None:
        self.parent = np.empty(most + 1, np.int32)
        self.frame = np.empty(most + 1, np.int32)
        self.parent[0] = self.frame[0] = -1
        self.nodes = 1
        self.keys = np.zeros(1 << 12, np.int64)
        self.values = np.full(1 << 12, -1, np.int32)

    def add_children(self, above: Array, frame: Array) -> Int32Array:
        """The nodes of these frames below these nodes."""
        node = np.empty(len(above), np.int32)
        missing = self.nodes + len(above) - len(self.parent)
        if missing > 0:
            room = np.empty(missing, np.int32)
            self.parent, self.frame = np.append(self.parent, room), np.append(self.frame, room)
        self.keys, self.values, self.nodes = grow_tree(
            above, frame, node, self.keys, self.values, self.parent, self.frame, self.nodes, HASH_FACTOR
        )
        return node


def build_slices(
    events: TraceEvents, phases: PhaseIndex, meaning: SliceClassifier, builder: ProfileBuilder
) -> SliceTable:
    """All slices of a trace. Functions, frames and losses go to the builder."""
    event, other_end, start, length = _gather_slices(events, phases, builder)
    codes, code = _encode_types(events, event, meaning, builder)
    complete = len(phases.select(COMPLETE)) >= len(event) and not len(other_end)
    asynchronous = np.zeros(0, bool) if complete else np.isin(events.phase[event], list(ASYNC_BEGIN))
    line, lines = assign_tracks(events, phases, event, code, codes.track_kind, asynchronous, meaning.non_process_pids)
    order, bounds = sort_slices(line, len(lines), start, length, codes.nesting_order[code])
    line = np.repeat(np.arange(len(lines), dtype=np.int32), np.diff(bounds))
    event, code, start, length = (values[order] for values in (event, code, start, length))
    row = np.full(len(events), NO_ID, np.int32)
    row[event] = np.arange(len(event), dtype=np.int32)
    arguments = events.arguments[event]
    if len(other_end):
        ends = other_end[order]
        ended = np.flatnonzero(ends >= 0)
        row[ends[ended]] = ended
        argument = events.arguments[ends[ended]]
        both = (arguments[ended] >= 0) & (argument >= 0) & (arguments[ended] != argument)
        _add_losses(builder, events, TWO_ARGUMENTS, event[ended[both]])
        arguments[ended] = np.where(arguments[ended] < 0, argument, arguments[ended])
    rows = SliceTable(
        # They are many, and not needed any more.
        events=replace(events, duration_ns=events.duration_ns[:0].copy()),
        phases=phases,
        codes=codes,
        tracks=lines,
        event=event,
        code=code,
        track=line,
        start_ns=start,
        stop_ns=np.where(length == OPEN_END_NS, OPEN_END_NS, start + length),
        bounds=bounds,
        arguments=arguments,
        row=row,
    )
    _nest_slices(rows)
    if len(rows) and int(rows.depth.max()) >= MAX_DEPTH:
        threads = np.array([about.track_kind == THREAD for about in lines], bool)
        _add_losses(builder, events, TOO_DEEP, event[(rows.depth >= MAX_DEPTH) & threads[line]])
    return rows


def _nest_slices(rows: SliceTable) -> None:
    """Nest the slices on threads, and assign lanes to the others."""
    n = len(rows)
    rows.parent, rows.depth, rows.end, rows.node = (np.empty(n, np.int32) for _ in range(4))
    rows.self_ns = np.empty(n, np.int64)
    start, stop, codes, tree = rows.start_ns, rows.stop_ns, rows.codes, CallingContextTree(n)
    ended = stop[stop != OPEN_END_NS]
    last = max(int(values.max()) for values in (start, ended, np.zeros(1, np.int64)) if len(values))
    stretches = SelfTimeIntervals(np.empty(2 * n, np.int32), np.empty(2 * n, np.int64), np.empty(2 * n, np.int64))
    outer, frame = codes.nesting_order[rows.code], codes.frame[rows.code]
    sort = np.where(codes.is_of_kind("device_annotation"), 0, np.where(codes.is_of_kind(*WORK), 1, 2)).astype(np.int8)
    sort = sort[rows.code]
    track_kinds = np.array([line.track_kind for line in rows.tracks], np.int8)
    stretches.count, tree.keys, tree.values, tree.nodes = nest(
        rows.bounds, track_kinds == THREAD, start, stop, outer, frame, last,
        rows.parent, rows.depth, rows.end, rows.self_ns, rows.node,
        stretches.row, stretches.start_ns, stretches.length_ns,
        tree.keys, tree.values, tree.parent, tree.frame, tree.nodes, HASH_FACTOR,
    )  # fmt: skip
    sort[track_kinds[rows.track] == OTHER_TRACK] = 1
    assign_lanes(
        rows.bounds, track_kinds != THREAD, last, start, stop, sort, rows.parent, rows.depth, rows.end, rows.self_ns
    )
    rows.tree = tree
    rows.self_times = stretches


@jit
def _check_complete_slices(
    rows: Array, time_ns: Array, duration_ns: Array, lengths: Array, fate: Array, missing: int, low: int, high: int
) -> None:
    """The length of each slice, and its defect: 1 no time, 2 implausible, 3 no duration, 4 ends before it starts."""
    for i in range(len(rows)):
        start, length = time_ns[rows[i]], duration_ns[rows[i]]
        if start == missing:
            fate[i] = 1
        elif start <= low or start >= high or length >= high - low:
            fate[i] = 2
        elif length == missing:
            fate[i] = 3
        elif length < 0:
            fate[i] = 4
        lengths[i] = max(length, 0)


def _gather_slices(
    events: TraceEvents, phases: PhaseIndex, builder: ProfileBuilder
) -> tuple[Array, Array, Array, Array]:
    """Event, end event, start and length of each slice, in the order of the file.

    The length is OPEN if a slice never ended. The end event is -1 for none; the array is empty if all slices are
    complete.
    """
    rows = phases.select(COMPLETE)
    lengths, fate = np.empty(len(rows), np.int64), np.zeros(len(rows), np.int8)
    _check_complete_slices(rows, events.time_ns, events.duration_ns, lengths, fate, MISSING, phases.low, phases.high)
    if fate.any():
        for reason, of in ((NO_TIME, 1), (IMPOSSIBLE_TIME, 2), (NO_DURATION, 3), (NEGATIVE, 4)):
            _add_losses(builder, events, reason, rows[fate == of])
        kept = (fate == 0) | (fate > 2)
        rows, lengths = rows[kept], lengths[kept]
    start = events.time_ns[rows]
    pairs = [
        pair_thread_events(events, drop_impossible(events, phases, phases.select(BEGIN + END), builder)),
        pair_async_events(events, drop_impossible(events, phases, phases.select(ASYNC_BEGIN + ASYNC_END), builder)),
    ]
    if not any(len(pair.begin) or len(pair.unmatched) for pair in pairs):
        return rows, np.zeros(0, np.int32), start, lengths
    parts = [(rows, np.full(len(rows), NO_ID, np.int32), start, lengths)]
    parts += [_get_pair_columns(pair, events, builder) for pair in pairs]
    columns = [np.concatenate(values) for values in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    event, end, start, lengths = (values[order] for values in columns)
    return event, end, start, lengths


def _get_pair_columns(
    pairs: SlicePairs, events: TraceEvents, builder: ProfileBuilder
) -> tuple[Array, Array, Array, Array]:
    _add_losses(builder, events, UNMATCHED_END, pairs.unmatched)
    opened = pairs.end < 0
    _add_losses(builder, events, NEVER_ENDED, pairs.begin[opened])
    length = np.where(opened, OPEN_END_NS, pairs.stop_ns - pairs.start_ns)
    return pairs.begin, pairs.end, pairs.start_ns, length


def _encode_types(
    events: TraceEvents, event: Array, meaning: SliceClassifier, builder: ProfileBuilder
) -> tuple[SliceTypes, Array]:
    code, shown = factorize_pairs(event, events.category, events.name, len(events.texts))
    categories: dict[tuple[str, str], int] = {}
    whats, names, category, function, frame = [], [], [], [], []
    for place in event[shown].tolist():
        text, name = (events.texts[i] if i >= 0 else "" for i in (events.category[place], events.name[place]))
        classify = meaning.classify(text, name)
        whats.append(classify)
        names.append(name)
        category.append(number_category(categories, (text, classify.kind)))
        of = builder.intern_function(name, classify.module, classify.file, classify.line, classify.display)
        function.append(of)
        if classify.label is not None:
            of = builder.intern_function(classify.label, classify.module, display=classify.display)
        frame.append(builder.intern_frame(of, kind=classify.frame_kind))
    codes = SliceTypes(
        types=whats,
        name=names,
        category=np.array(category or [0], np.int16),
        function=np.array(function or [0], np.int32),
        frame=np.array(frame or [0], np.int32),
        track_kind=np.array([classify.track_kind for classify in whats] or [0], np.int8),
        nesting_order=np.array([classify.nesting_order for classify in whats] or [0], np.int8),
        categories=list(categories),
    )
    return codes, code


def _add_losses(builder: ProfileBuilder, events: TraceEvents, reason: str, rows: Array) -> None:
    if len(rows):
        builder.add_loss(reason, describe_event(events, int(rows[0])), len(rows))


def drop_impossible(
    events: TraceEvents, phases: PhaseIndex, found: Array, builder: ProfileBuilder | None = None
) -> Array:
    """Those of some events that have a plausible time. The others are lost."""
    time_ns = events.time_ns[found]
    without = time_ns == MISSING
    absurd = ~without & ((time_ns <= phases.low) | (time_ns >= phases.high))
    if builder is not None:
        _add_losses(builder, events, NO_TIME, found[without])
        _add_losses(builder, events, IMPOSSIBLE_TIME, found[absurd])
    kept: Array = found[~(without | absurd)]
    return kept


def describe_event(events: TraceEvents, event: int) -> str:
    """An event in words, as an example of a loss."""
    name, process, thread = (
        events.texts[int(places[event])] if places[event] >= 0 else "?"
        for places in (events.name, events.process, events.thread)
    )
    time = int(events.time_ns[event])
    when = "" if time == MISSING else f" at {time // NS_PER_US}.{time % NS_PER_US:03} µs"
    return f"event {event + 1}: {shorten(name, MAX_EXAMPLE_CHARS)} of {process[:40]}/{thread[:40]}{when}"
