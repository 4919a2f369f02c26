"""Events with a time and no duration: instants, counters and flows, and the slices that they belong to."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array, Int32Array
from ...domain.builder import ProfileBuilder
from ...domain.tables import NO_ID
from ..jit.decorators import jit
from ..jit.hashing import RowIndex, factorize_pairs
from ..number_limits import number_category
from .argument_values import MAX_FLOAT, parse_arguments, to_float, to_int
from .arguments import ArgumentSets
from .events import TraceEvents
from .losses import NO_FLOW_ID, NO_NUMBER, NO_SLICE, UNMATCHED_FLOW
from .phases import FLOW
from .slices import SliceClassifier, SliceTable, describe_event, drop_impossible
from .tables import build_table
from .tracks import OTHER_TRACK, STREAM, THREAD

FLOW_PHASES = {ord("s"): 0, ord("t"): 1, ord("f"): 2}
"""The letters of flows: start, step, and end."""


def find_tracks(rows: SliceTable, event: Array) -> Array:
    """The line of some events that are no slices: the thread, stream or track of their pid and tid; NO_ID for none."""
    events = rows.events
    keys, lines = [], []
    for what in (THREAD, STREAM, OTHER_TRACK):
        for at, line in enumerate(rows.tracks):
            if line.track_kind == what:
                keys.append((line.places[0] << 32) | (line.places[1] & 0xFFFFFFFF))
                lines.append(at)
    index = RowIndex(np.array(keys, np.int64), np.array(lines, np.int32))
    return index.lookup(
        (events.process[event].astype(np.int64) << 32) | (events.thread[event].astype(np.int64) & 0xFFFFFFFF)
    )


@jit
def _find_open(line: Array, time_ns: Array, bounds: Array, start: Array, stop: Array, parent: Array) -> Int32Array:
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


def find_open_slices(rows: SliceTable, line: Array, time_ns: Array) -> Array:
    """The innermost slice that is open on a line at a time, of several the last to begin; NO_ID for none."""
    return _find_open(line, time_ns, rows.bounds, rows.start_ns, rows.stop_ns, rows.parent)


@jit
def _find_enclosing(row: Array, parent: Array, wanted: Array) -> Int32Array:
    found = np.empty(len(row), np.int32)
    for i in range(len(row)):
        at = row[i]
        while at >= 0 and not wanted[at]:
            at = parent[at]
        found[i] = at
    return found


def find_enclosing_slices(rows: SliceTable, row: Array, wanted: Array) -> Array:
    """For each row the innermost wanted slice that it is or is in. wanted: by row, as bools."""
    return _find_enclosing(row, rows.parent, wanted)


@dataclass(frozen=True, eq=False)
class InstantTable:
    """The table `instants`, and the categories that only it has."""

    table: pa.Table
    categories: list[tuple[str, str]]


def build_instants(
    rows: SliceTable,
    moments: Array,
    meaning: SliceClassifier,
    zero: int,
    arguments: ArgumentSets,
    builder: ProfileBuilder,
) -> InstantTable:
    """Instants of events in order of time."""
    events = rows.events
    known = {category: row for row, category in enumerate(rows.codes.categories)}
    code, shown = factorize_pairs(moments, events.category, events.name, len(events.texts))
    category, function = [], []
    for event in moments[shown].tolist():
        text, name = (events.texts[i] if i >= 0 else "" for i in (events.category[event], events.name[event]))
        category.append(number_category(known, (text, meaning.classify(text, name).kind)))
        function.append(builder.intern_function(name))
    instants = build_table(
        "instants",
        time_ns=events.time_ns[moments] - zero,
        thread=find_tracks(rows, moments),
        function=np.array(function or [0], np.int32)[code],
        category=np.array(category or [0], np.int16)[code],
        arguments=arguments.get_rows(events.arguments[moments]),
    )
    return InstantTable(instants, list(known)[len(rows.codes.categories) :])


@dataclass(eq=False)
class CounterSeries:
    """Collects series and their values. rows: of the table `series`."""

    rows: list[dict[str, Any]]
    times: list[Array]
    values: list[Array]

    @classmethod
    def make_empty(cls) -> "CounterSeries":
        """No series."""
        return cls([], [], [])

    def add(self, time_ns: Array, value: Array, **columns: Any) -> None:
        """Add a series. time_ns: from the profile's zero, in any order. value: each holds until the next."""
        order = np.argsort(time_ns, kind="stable")
        self.rows.append({"unit": "", "device": NO_ID, **columns})
        self.times.append(time_ns[order])
        self.values.append(value[order].astype(np.float64))

    def to_tables(self) -> tuple[pa.Table, pa.Table]:
        """The tables `series` and `counters`."""
        names = ("name", "unit", "rank", "pid", "process", "device")
        counts = [len(values) for values in self.times]
        counters = build_table(
            "counters",
            series=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
            time_ns=np.concatenate(self.times or [np.zeros(0, np.int64)]),
            value=np.concatenate(self.values or [np.zeros(0)]),
        )
        return build_table("series", **{name: [row.get(name) for row in self.rows] for name in names}), counters


def add_counters(
    events: TraceEvents, found: Array, zero: int, rank: int | None, series: CounterSeries, builder: ProfileBuilder
) -> None:
    """Add the values of counters, the events `found`: a series for each number that each of them has."""
    if not len(found):
        return
    counter_values = _read_counter_values(events, found)
    without = np.setdiff1d(found, counter_values.event)
    if len(without):
        builder.add_loss(NO_NUMBER, describe_event(events, int(without[0])), len(without))
    # A series for each process, name, id and key; the series of one counter are distinguished by their keys.
    at = np.arange(len(counter_values.event))
    named, _ = factorize_pairs(at, events.process[counter_values.event], events.name[counter_values.event])
    counter, _ = factorize_pairs(at, named, events.id[counter_values.event])
    code, shown = factorize_pairs(at, counter, counter_values.key, len(counter_values.keys))
    alone = np.bincount(counter[shown], minlength=1) == 1
    order = np.argsort(code, kind="stable")
    bounds = np.searchsorted(code[order], np.arange(len(shown) + 1))
    for which, first in enumerate(shown.tolist()):
        mine = order[bounds[which] : bounds[which + 1]]
        event, key = int(counter_values.event[first]), counter_values.keys[int(counter_values.key[first])]
        name, number, process = int(events.name[event]), int(events.id[event]), int(events.process[event])
        words = [events.texts[name] if name >= 0 else "counter"]
        if key and (not alone[counter[first]] or words[0] == "counter"):
            words.append(key)
        text = events.texts[process] if process >= 0 else None
        pid = to_int(text)
        series.add(
            events.time_ns[counter_values.event[mine]] - zero,
            counter_values.value[mine],
            name=": ".join(words) + (f" {number}" if number >= 0 else ""),
            rank=rank,
            pid=pid,
            process=None if pid is not None else text,
        )


@dataclass(frozen=True, eq=False)
class _CounterValues:
    """Numbers of counters, in the order of their events. key: index into `keys`."""

    event: Array
    key: Array
    value: Array
    keys: list[str]


def _read_counter_values(events: TraceEvents, found: Array) -> _CounterValues:
    """The numbers of some events: separate ones, then those among the arguments, each text of which is parsed once."""
    keys: dict[str, int] = {}
    chosen = np.zeros(len(events), bool)
    chosen[found] = True
    parts: list[tuple[Array, Array, Array]] = []
    for name, number in events.numbers.items():
        mine = chosen[number.event] & (np.abs(number.value) < MAX_FLOAT)
        if mine.any():
            key = np.full(int(mine.sum()), keys.setdefault(name, len(keys)))
            parts.append((number.event[mine], key, number.value[mine].astype(np.float64)))
    with_arguments = found[events.arguments[found] >= 0]
    places, text = np.unique(events.arguments[with_arguments], return_inverse=True)
    counts, listed_keys, listed = np.zeros(len(places), np.int64), [], []
    for row, place in enumerate(places.tolist()):
        for name, value in parse_arguments(events.texts[place]).items():
            if (known := to_float(value)) is not None:
                counts[row] += 1
                listed_keys.append(keys.setdefault(name, len(keys)))
                listed.append(known)
    times, first = counts[text], (np.cumsum(counts) - counts)[text]
    entry = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times) + np.repeat(first, times)
    parts.append((np.repeat(with_arguments, times), np.array(listed_keys, np.int64)[entry], np.array(listed)[entry]))
    event, key, value = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(event, kind="stable")
    return _CounterValues(event[order], key[order], value[order], list(keys))


def find_flow_events(rows: SliceTable, builder: ProfileBuilder | None = None) -> Array:
    """The events of ARROWS with a time and an id, without which they cannot be linked. The others are lost."""
    events = rows.events
    found = drop_impossible(events, rows.phases, rows.phases.select(FLOW, ordered=False), builder)
    without = found[events.id[found] < 0]
    if builder is not None and len(without):
        builder.add_loss(NO_FLOW_ID, describe_event(events, int(without[0])), len(without))
    flow_events: Array = found[events.id[found] >= 0]
    return flow_events


@dataclass(frozen=True, eq=False)
class Flows:
    """Links between pairs of events."""

    source: Array
    target: Array


def match_flows(events: TraceEvents, found: Array, builder: ProfileBuilder) -> Flows:
    """The flows of some events of ARROWS: those of one category and id, in order of time."""
    key, _ = factorize_pairs(found, events.category, events.id)
    part = np.array([FLOW_PHASES.get(letter, 0) for letter in range(256)], np.int8)[events.phase[found]]
    order = np.lexsort((part, events.time_ns[found], key))
    found, key, part = found[order], key[order], part[order]
    new = np.ones(len(found), bool)
    new[1:] = key[1:] != key[:-1]
    first = np.maximum.accumulate(np.where(new, np.arange(len(found)), 0))
    begins = np.maximum.accumulate(np.where(part < 2, np.arange(len(found)), -1))
    begins = np.where(begins >= first, begins, -1)
    # The start of a flow precedes its end.
    before = np.concatenate(([-1], begins[:-1]))[: len(found)]
    before = np.where(before >= first, before, -1)
    ends = part > 0
    joined = ends & (before >= 0)
    used = np.zeros(len(found), bool)
    used[before[joined]] = True
    lone = (ends & (before < 0)) | ((part == 0) & ~used)
    if lone.any():
        builder.add_loss(UNMATCHED_FLOW, describe_event(events, int(found[lone][0])), int(lone.sum()))
    return Flows(found[before[joined]], found[joined])


def build_flows_table(
    rows: SliceTable, arrows: Flows, kinds: Array, preferred: Array, builder: ProfileBuilder
) -> pa.Table:
    """The table `flows`. kinds: FlowKind of each flow. preferred: by row, which of several slices that begin at the end
    of a flow is meant."""
    source, target = (_bind(rows, event, preferred) for event in (arrows.source, arrows.target))
    good = (source >= 0) & (target >= 0)
    if not good.all():
        builder.add_loss(NO_SLICE, describe_event(rows.events, int(arrows.source[~good][0])), int((~good).sum()))
    return build_table("flows", source=source[good], target=target[good], kind=kinds[good])


def _bind(rows: SliceTable, event: Array, preferred: Array) -> Array:
    time_ns = rows.events.time_ns[event]
    row = find_open_slices(rows, find_tracks(rows, event), time_ns)
    if not len(rows):
        return row
    enclosing_slices = find_enclosing_slices(rows, row, preferred)
    at = np.maximum(enclosing_slices, 0)
    exact = (enclosing_slices >= 0) & (rows.start_ns[at] == time_ns)
    return np.where(exact, enclosing_slices, row).astype(np.int32)
