"""What in a trace has a time and no length: instants, counters and arrows, and the slices that they belong to."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..domain.builder import ProfileBuilder
from ..domain.tables import NO_ID
from .compiled import compiled
from .hashing import Index, numbered
from .trace_arguments import ArgumentSets
from .trace_events import TraceEvents
from .trace_lines import STREAM, THREAD
from .trace_slices import Meaning, Rows, described
from .trace_tables import table
from .trace_words import parsed, real, whole

Array = np.ndarray[Any, Any]
ARROWS = {ord("s"): 0, ord("t"): 1, ord("f"): 2}
"""The letters of arrows: where they begin, go through, and end."""

NO_NUMBER = "counter without a number"
LONE_ARROW = "arrow of which only one end is there"
NO_SLICE = "arrow that does not begin and end at slices"


def lines_at(rows: Rows, event: Array) -> Array:
    """The line of some events that are no slices: the thread, else the stream, of their pid and tid; NO_ID without."""
    events = rows.events
    keys, lines = [], []
    for what in (THREAD, STREAM):
        for at, line in enumerate(rows.lines):
            if line.what == what:
                keys.append((line.places[0] << 32) | (line.places[1] & 0xFFFFFFFF))
                lines.append(at)
    index = Index(np.array(keys, np.int64), np.array(lines, np.int32))
    return index.of(
        (events.process[event].astype(np.int64) << 32) | (events.thread[event].astype(np.int64) & 0xFFFFFFFF)
    )


@compiled
def _open_at(line: Array, time_ns: Array, bounds: Array, start: Array, stop: Array, parent: Array) -> Array:
    found = np.full(len(line), -1, np.int32)
    for i in range(len(line)):
        if line[i] < 0:
            continue
        low, high = bounds[line[i]], bounds[line[i] + 1]
        first = low
        while low < high:
            middle = (low + high) // 2
            if start[middle] <= time_ns[i]:
                low = middle + 1
            else:
                high = middle
        at = low - 1
        if at < first:
            continue
        while at >= 0 and stop[at] < time_ns[i]:
            at = parent[at]
        found[i] = at
    return found


def open_at(rows: Rows, line: Array, time_ns: Array) -> Array:
    """The innermost slice that is open on a line at a time, of several the one that began last; NO_ID for none."""
    return _open_at(line, time_ns, rows.bounds, rows.start_ns, rows.stop_ns, rows.parent)


@compiled
def _around(row: Array, parent: Array, wanted: Array) -> Array:
    found = np.empty(len(row), np.int32)
    for i in range(len(row)):
        at = row[i]
        while at >= 0 and not wanted[at]:
            at = parent[at]
        found[i] = at
    return found


def around(rows: Rows, row: Array, wanted: Array) -> Array:
    """For each row the innermost wanted slice that it is or lies in. wanted: by row, as bools."""
    return _around(row, rows.parent, wanted)


@dataclass(frozen=True, eq=False)
class Instants:
    """The table `instants`, and the categories that only it has."""

    table: pa.Table
    categories: list[tuple[str, str]]


def instants_of(
    rows: Rows, moments: Array, meaning: Meaning, zero: int, arguments: ArgumentSets, builder: ProfileBuilder
) -> Instants:
    """Instants of events in order of time."""
    events = rows.events
    known = {category: row for row, category in enumerate(rows.codes.categories)}
    code, shown = numbered(moments, events.category, events.name, len(events.texts))
    category, function = [], []
    for event in moments[shown].tolist():
        text, name = (events.texts[i] if i >= 0 else "" for i in (events.category[event], events.name[event]))
        category.append(known.setdefault((text, meaning.what(text, name).kind), len(known)))
        function.append(builder.function(name))
    instants = table(
        "instants",
        time_ns=events.time_ns[moments] - zero,
        thread=lines_at(rows, moments),
        function=np.array(function or [0], np.int32)[code],
        category=np.array(category or [0], np.int16)[code],
        arguments=arguments.rows(events.arguments[moments]),
    )
    return Instants(instants, list(known)[len(rows.codes.categories) :])


@dataclass(eq=False)
class Series:
    """Series and their values while they are collected. rows: of the table `series`."""

    rows: list[dict[str, Any]]
    times: list[Array]
    values: list[Array]

    @classmethod
    def none(cls) -> "Series":
        """No series."""
        return cls([], [], [])

    def add(self, time_ns: Array, value: Array, **columns: Any) -> None:
        """Add a series. time_ns: from the profile's zero, in any order. value: each holds until the next."""
        order = np.argsort(time_ns, kind="stable")
        self.rows.append({"unit": "", "device": NO_ID, **columns})
        self.times.append(time_ns[order])
        self.values.append(value[order].astype(np.float64))

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """The tables `series` and `counters`."""
        names = ("name", "unit", "rank", "pid", "process", "device")
        counts = [len(values) for values in self.times]
        counters = table(
            "counters",
            series=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
            time_ns=np.concatenate(self.times or [np.zeros(0, np.int64)]),
            value=np.concatenate(self.values or [np.zeros(0)]),
        )
        return table("series", **{name: [row.get(name) for row in self.rows] for name in names}), counters


def add_counters(
    events: TraceEvents, found: Array, zero: int, rank: int | None, series: Series, builder: ProfileBuilder
) -> None:
    """Add what counters counted, the events `found`: a series for each number that each of them has."""
    if not len(found):
        return
    numbers: dict[int, dict[str, float]] = {int(event): {} for event in found.tolist()}
    for key, given in events.numbers.items():
        for event, value in zip(given.event.tolist(), given.value.tolist(), strict=True):
            if event in numbers:
                numbers[event][key] = float(value)
    read: dict[int, dict[str, float]] = {}
    collected: dict[tuple[int, int, int, str], tuple[list[int], list[float]]] = {}
    without: list[int] = []
    for event in found.tolist():
        place = int(events.arguments[event])
        if place >= 0 and place not in read:
            read[place] = {k: n for k, v in parsed(events.texts[place]).items() if (n := real(v)) is not None}
        values = {**numbers[event], **read.get(place, {})}
        if not values:
            without.append(event)
        for key, number in values.items():
            identity = (int(events.process[event]), int(events.name[event]), int(events.id[event]), key)
            times, listed = collected.setdefault(identity, ([], []))
            times.append(int(events.time_ns[event]) - zero)
            listed.append(number)
    if without:
        builder.lost(NO_NUMBER, described(events, without[0]), len(without))
    several = {identity[:3] for identity in collected}
    alone = {one for one in several if sum(identity[:3] == one for identity in collected) == 1} if collected else set()
    for identity, (times, listed) in collected.items():
        process, name, number, key = identity
        words = [events.texts[name] if name >= 0 else "counter"]
        if key and (identity[:3] not in alone or words[0] == "counter"):
            words.append(key)
        text = events.texts[process] if process >= 0 else None
        pid = whole(text)
        series.add(
            np.array(times, np.int64),
            np.array(listed),
            name=": ".join(words) + (f" {number}" if number >= 0 else ""),
            rank=rank,
            pid=pid,
            process=None if pid is not None else text,
        )


@dataclass(frozen=True, eq=False)
class Arrows:
    """Arrows from event to event."""

    source: Array
    target: Array


def arrows_of(events: TraceEvents, found: Array, builder: ProfileBuilder) -> Arrows:
    """The arrows that some events of ARROWS are ends of: those of one category and id, in order of time."""
    key, _ = numbered(found, events.category, events.id)
    part = np.array([ARROWS.get(letter, 0) for letter in range(256)], np.int8)[events.phase[found]]
    order = np.lexsort((part, events.time_ns[found], key))
    found, key, part = found[order], key[order], part[order]
    new = np.ones(len(found), bool)
    new[1:] = key[1:] != key[:-1]
    first = np.maximum.accumulate(np.where(new, np.arange(len(found)), 0))
    begins = np.maximum.accumulate(np.where(part < 2, np.arange(len(found)), -1))
    begins = np.where(begins >= first, begins, -1)
    # What an arrow comes from is before it.
    before = np.concatenate(([-1], begins[:-1]))[: len(found)]
    before = np.where(before >= first, before, -1)
    ends = part > 0
    joined = ends & (before >= 0)
    used = np.zeros(len(found), bool)
    used[before[joined]] = True
    lone = (ends & (before < 0)) | ((part == 0) & ~used)
    if lone.any():
        builder.lost(LONE_ARROW, described(events, int(found[lone][0])), int(lone.sum()))
    return Arrows(found[before[joined]], found[joined])


def flows_table(rows: Rows, arrows: Arrows, kinds: Array, preferred: Array, builder: ProfileBuilder) -> pa.Table:
    """The table `flows`. kinds: FlowKind of each arrow. preferred: by row, which of several slices that begin with the
    end of an arrow is meant."""
    source, target = (_bound(rows, event, preferred) for event in (arrows.source, arrows.target))
    good = (source >= 0) & (target >= 0)
    if not good.all():
        builder.lost(NO_SLICE, described(rows.events, int(arrows.source[~good][0])), int((~good).sum()))
    return table("flows", source=source[good], target=target[good], kind=kinds[good])


def _bound(rows: Rows, event: Array, preferred: Array) -> Array:
    time_ns = rows.events.time_ns[event]
    row = open_at(rows, lines_at(rows, event), time_ns)
    if not len(rows):
        return row
    wanted = around(rows, row, preferred)
    at = np.maximum(wanted, 0)
    exact = (wanted >= 0) & (rows.start_ns[at] == time_ns)
    return np.where(exact, wanted, row).astype(np.int32)
