"""The slices of a trace: gathered from its events, named, put in order, nested or laid in lanes, with call stacks.

What a category or a name means is the format's to say: see `Meaning`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..domain.builder import ProfileBuilder
from ..domain.tables import FrameKind
from .hashing import FACTOR, numbered
from .nesting import OPEN, grow_tree, in_order, lay_in_lanes, nest
from .trace_events import MISSING, TraceEvents
from .trace_lines import THREAD, TRACK, Line, lines_of
from .trace_pairs import BEGIN, Pairs, pairs_of_ids, pairs_of_threads

Array = np.ndarray[Any, Any]
COMPLETE = ord("X")
FARTHEST = 1 << 61
SHOWN = 160

NO_TIME = "event without a time"
ABSURD = "event at a time, or for a time, that cannot be"
NEGATIVE = "slice that ends before it begins: counted as if it took no time"
NO_DURATION = "slice without a duration: counted as if it took no time"
LONE_END = "end of a slice that never began"
NEVER_ENDED = "slice that never ended: counted up to the end of the one around it"


@dataclass(frozen=True)
class What:
    """What a category and a name mean.

    kind: of the category, one of CategoryKinds. name: of its function. label: of its frame in call stacks. display,
    file, line, module: of the function. frame_kind: FrameKind. line: THREAD, STREAM or TRACK: where it belongs.
    outer: which of two slices that fill the same time is the outer one, the smaller.
    """

    kind: str
    frame_kind: FrameKind
    where: int = THREAD
    outer: int = 0
    label: str | None = None
    display: str | None = None
    module: str = ""
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Meaning:
    """What a format makes of its events. what: of a category and a name. tracks: processes that are none, by their pid:
    what stands there is nobody's time."""

    what: Callable[[str, str], What]
    tracks: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Codes:
    """The distinct pairs of category and name: what each means (by code), as arrays."""

    what: list[What]
    name: list[str]
    category: Array
    function: Array
    frame: Array
    where: Array
    outer: Array
    categories: list[tuple[str, str]]

    def of_kind(self, *kinds: str) -> Array:
        """Which codes are of these kinds of categories, as bools."""
        return np.array([what.kind in kinds for what in self.what], bool)


@dataclass(eq=False)
class Rows:
    """The slices, in the order of the table `slices`. event: the event of each. code: into `codes`. start_ns, stop_ns:
    as in the file. node: the call stack, a node of `tree`. row: by event, its slice or -1. bounds: the rows of line i
    are bounds[i] … bounds[i+1]-1."""

    events: TraceEvents
    codes: Codes
    lines: list[Line]
    event: Array
    code: Array
    line: Array
    start_ns: Array
    stop_ns: Array
    bounds: Array
    parent: Array
    depth: Array
    end: Array
    own: Array
    node: Array
    tree: "Tree"
    stretches: tuple[Array, Array, Array]
    row: Array
    numbers: dict[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.event)

    def number(self, key: str) -> Array:
        """The whole number that is the argument `key` of each slice (int64), MISSING where it has none."""
        if key not in self.numbers:
            found = np.full(len(self), MISSING, np.int64)
            given = self.events.numbers.get(key)
            if given is not None:
                rows = self.row[given.event]
                found[rows[rows >= 0]] = given.value[rows >= 0]
            self.numbers[key] = found
        return self.numbers[key]


class Tree:
    """The calling context tree while it grows: parent and frame by node, node 0 is the root."""

    def __init__(self, most: int) -> None:
        self.parent = np.empty(most + 1, np.int32)
        self.frame = np.empty(most + 1, np.int32)
        self.parent[0] = self.frame[0] = -1
        self.nodes = 1
        self.keys = np.zeros(1 << 12, np.int64)
        self.values = np.full(1 << 12, -1, np.int32)

    def below(self, above: Array, frame: Array) -> Array:
        """The nodes of these frames below these nodes."""
        node = np.empty(len(above), np.int32)
        self.keys, self.values, self.nodes = grow_tree(
            above, frame, node, self.keys, self.values, self.parent, self.frame, self.nodes, FACTOR
        )
        return node


def slices_of(events: TraceEvents, meaning: Meaning, builder: ProfileBuilder) -> Rows:
    """All slices of a trace. Functions, frames and losses go to the builder."""
    event, start, stop = _gathered(events, builder)
    codes, code = _codes(events, event, meaning, builder)
    where = codes.where[code] if len(code) else np.zeros(0, np.int64)
    asynchronous = (events.phase[event] != COMPLETE) & (events.phase[event] != BEGIN)
    apart = [at for at in np.unique(events.process[event]).tolist() if at >= 0 and events.texts[at] in meaning.tracks]
    where = np.where(asynchronous | np.isin(events.process[event], apart), TRACK, where)
    # The slices of one category and process are one track.
    thread = np.where(asynchronous, events.category[event], events.thread[event])
    line, lines = lines_of(events, events.process[event], thread, where)
    zero = int(start.min()) if len(start) else 0
    outer = codes.outer[code] if len(code) else np.zeros(0, np.int8)
    order = in_order(line, start - zero, stop - start, outer)
    event, code, line, start, stop = (values[order] for values in (event, code, line, start, stop))
    row = np.full(len(events), -1, np.int32)
    row[event] = np.arange(len(event), dtype=np.int32)
    bounds = np.searchsorted(line, np.arange(len(lines) + 1))
    return _laid_out(events, codes, lines, event, code, line, start, stop, bounds, row)


def _laid_out(
    events: TraceEvents,
    codes: Codes,
    lines: list[Line],
    event: Array,
    code: Array,
    line: Array,
    start: Array,
    stop: Array,
    bounds: Array,
    row: Array,
) -> Rows:
    n = len(event)
    parent, depth, end, node = (np.empty(n, np.int32) for _ in range(4))
    own = np.empty(n, np.int64)
    ended = stop[stop != OPEN]
    last = int(max(ended.max() if len(ended) else 0, start.max() if n else 0))
    frame = codes.frame[code] if n else np.zeros(0, np.int32)
    outer = codes.outer[code] if n else np.zeros(0, np.int8)
    around = codes.of_kind("device_annotation")[code] if n else np.zeros(0, bool)
    tree = Tree(n)
    stretches = 0
    of_row, of_start, of_length = np.empty(2 * n, np.int32), np.empty(2 * n, np.int64), np.empty(2 * n, np.int64)
    for at, about in enumerate(lines):
        first, behind = int(bounds[at]), int(bounds[at + 1])
        if about.what == THREAD:
            stretches, tree.keys, tree.values, tree.nodes = nest(
                first, behind, start, stop, outer, frame, last, parent, depth, end, own, node,
                of_row, of_start, of_length, stretches,
                tree.keys, tree.values, tree.parent, tree.frame, tree.nodes, FACTOR,
            )  # fmt: skip
        else:
            stop[first:behind][stop[first:behind] == OPEN] = last
            lay_in_lanes(first, behind, start, stop, around, parent, depth, end, own)
    return Rows(
        events=events,
        codes=codes,
        lines=lines,
        event=event,
        code=code,
        line=line,
        start_ns=start,
        stop_ns=stop,
        bounds=bounds,
        parent=parent,
        depth=depth,
        end=end,
        own=own,
        node=node,
        tree=tree,
        stretches=(of_row[:stretches], of_start[:stretches], of_length[:stretches]),
        row=row,
    )


def _gathered(events: TraceEvents, builder: ProfileBuilder) -> tuple[Array, Array, Array]:
    """Event, start and stop of each slice, in the order of the file; stop is OPEN where a slice never ended."""
    timeless = (events.time_ns == MISSING) & (events.phase != ord("M"))
    _lost(builder, events, NO_TIME, np.flatnonzero(timeless))
    complete = np.flatnonzero((events.phase == COMPLETE) & ~timeless).astype(np.int32)
    start, length = events.time_ns[complete], events.duration_ns[complete]
    without, negative = length == MISSING, (length < 0) & (length != MISSING)
    _lost(builder, events, NO_DURATION, complete[without])
    _lost(builder, events, NEGATIVE, complete[negative])
    length = np.where(without | negative, 0, length)
    absurd = (np.abs(start) >= FARTHEST) | (length >= FARTHEST)
    _lost(builder, events, ABSURD, complete[absurd])
    kept = ~absurd
    parts = [(complete[kept], start[kept], (start + length)[kept])]
    for pairs in (pairs_of_threads(events), pairs_of_ids(events)):
        parts.append(_possible(pairs, events, builder))
    if not any(len(part[0]) for part in parts[1:]):
        return parts[0]
    event, starts, stops = (np.concatenate(values) for values in zip(*parts, strict=True))
    order = np.argsort(event, kind="stable")
    return event[order], starts[order], stops[order]


def _possible(pairs: Pairs, events: TraceEvents, builder: ProfileBuilder) -> tuple[Array, Array, Array]:
    _lost(builder, events, LONE_END, pairs.lone)
    _lost(builder, events, NEVER_ENDED, pairs.begin[pairs.end < 0])
    absurd = (np.abs(pairs.start_ns) >= FARTHEST) | ((np.abs(pairs.stop_ns) >= FARTHEST) & (pairs.stop_ns != OPEN))
    _lost(builder, events, ABSURD, pairs.begin[absurd])
    return pairs.begin[~absurd], pairs.start_ns[~absurd], pairs.stop_ns[~absurd]


def _codes(events: TraceEvents, event: Array, meaning: Meaning, builder: ProfileBuilder) -> tuple[Codes, Array]:
    code, shown = numbered(events.category[event], events.name[event])
    categories: dict[tuple[str, str], int] = {}
    whats, names, category, function, frame = [], [], [], [], []
    for place in event[shown].tolist():
        text, name = (events.texts[i] if i >= 0 else "" for i in (events.category[place], events.name[place]))
        what = meaning.what(text, name)
        whats.append(what)
        names.append(name)
        category.append(categories.setdefault((text, what.kind), len(categories)))
        of = builder.function(name, what.module, what.file, what.line, what.display)
        function.append(of)
        if what.label is not None:
            of = builder.function(what.label, what.module, display=what.display)
        frame.append(builder.frame(of, kind=what.frame_kind))
    codes = Codes(
        what=whats,
        name=names,
        category=np.array(category, np.int16),
        function=np.array(function, np.int32),
        frame=np.array(frame, np.int32),
        where=np.array([what.where for what in whats], np.int8),
        outer=np.array([what.outer for what in whats], np.int8),
        categories=list(categories),
    )
    return codes, code


def _lost(builder: ProfileBuilder, events: TraceEvents, reason: str, rows: Array) -> None:
    if len(rows):
        builder.lost(reason, described(events, int(rows[0])), len(rows))


def described(events: TraceEvents, event: int) -> str:
    """An event in words, for a list of what was lost."""
    name, process, thread = (
        events.texts[int(places[event])] if places[event] >= 0 else "?"
        for places in (events.name, events.process, events.thread)
    )
    time = int(events.time_ns[event])
    when = "" if time == MISSING else f" at {time // 1000}.{time % 1000:03} µs"
    shown = name if len(name) <= SHOWN else name[:SHOWN] + "…"
    return f"event {event + 1}: {shown} of {process[:40]}/{thread[:40]}{when}"
