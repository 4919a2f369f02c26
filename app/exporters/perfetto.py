"""Trace events in JSON, as Perfetto and Chrome's trace viewer open them. Format: Google's "Trace Event Format".

It contains slices with their arguments, flows, instants, counters and steps. The samples of one event become a profile
of each thread (see cpu_profiles), and each sample of other events an instant with its call stack as an argument.
Samples that were computed from slices or from allocations are omitted, because they would repeat these.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ..analysis.core.measurements import event_title
from ..analysis.core.sample_selection import event_id
from ..domain.arrays import Array
from ..domain.arrow import functions as pc
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.tables import DEVICE_TIME, HOST_TIME, NO_ID, NUMERIC_ARGUMENTS, ROOT, FlowKind, get_column, get_strings
from . import text_columns
from .cpu_profiles import has_duration, select_profile_samples, write_cpu_profiles
from .filter import filter_profile
from .overlap_tracks import assign_tracks

OPTIONS: Mapping[str, str] = {}
EVENT_SEPARATOR = ",\n"
FIRST_PID = 1
"""The number of an unknown process."""
FLOW_CATEGORIES = {FlowKind.FORWARD_BACKWARD: "fwdbwd", FlowKind.ASYNC: "async", FlowKind.OTHER: "flow"}
LAUNCH_CATEGORY = "ac2g"
"""PyTorch's name for the flow from a launch to the launched work."""


@dataclass(frozen=True)
class _ThreadIds:
    """The threads in the file. pid, tid: unique pairs of numbers, as JSON.
    overlap_tracks: additional tracks of threads, after all threads: row of the thread, and number of the track."""

    pid: list[str]
    tid: list[str]
    overlap_tracks: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class _TextColumns:
    """Names of functions and of categories, as JSON; the members of each set of arguments, as JSON without braces."""

    names: list[str]
    categories: list[str]
    arguments: list[str]


def write(profile: Profile, selection: Selection, options: Mapping[str, bool]) -> Iterator[bytes]:
    """The file. Raises InvalidRequest for what the profile does not have."""
    shown = filter_profile(profile, selection)
    top = {"displayTimeUnit": "ns", **_build_metadata(shown)}
    yield (json.dumps(top)[:-1] + ',"traceEvents":[').encode()
    first = True
    for rows in _blocks(shown):
        if len(rows):
            # Each block begins with the separator.
            yield text_columns.join_rows(rows)[first:]
            first = False
    yield b"\n]}\n"


def _build_metadata(profile: Profile) -> dict[str, Any]:
    """The metadata next to the events. For traces of PyTorch it is preserved, so that its readers recognize it."""
    meta = profile.meta
    found: dict[str, Any] = {"otherData": {"exporter": "Perfloom", "format": meta.format}}
    if meta.start_epoch_ns is not None:
        found["baseTimeNanoseconds"] = meta.start_epoch_ns
    if meta.format != "pytorch":
        return found
    found["schemaVersion"] = 1
    properties = [text for text in profile.devices.column("properties").to_pylist() if text]
    found["deviceProperties"] = [json.loads(text) for text in properties]
    ranks = {rank for rank in profile.threads.column("rank").to_pylist() if rank is not None}
    if len(ranks) == 1:
        found["distributedInfo"] = {"rank": ranks.pop()}
    return found


def _blocks(profile: Profile) -> Iterator[pa.Array]:
    """Events, each preceded by a comma and a line break."""
    places = _places(profile)
    thread = _spread(profile, places)
    words = _TextColumns(
        _quote_all(get_strings(profile.functions, "name")),
        _quote_all(get_strings(profile.categories, "name")),
        _members(profile),
    )
    yield pa.array([EVENT_SEPARATOR + event for event in _name_events(profile, places)], pa.string())
    yield from _slices(profile, places, words, thread)
    yield from _arrows(profile, places, thread)
    yield from _instants(profile, places, words)
    yield from _counters(profile)
    chosen = _select_samples(profile)
    if chosen.any():
        event = _choose_profile_event(profile, chosen)
        if event is not None:
            for sample in write_cpu_profiles(profile, event, places.pid, places.tid):
                yield pa.array([EVENT_SEPARATOR + sample], pa.string())
            chosen &= ~select_profile_samples(profile, event)
        yield from _samples(profile, places, chosen)


def _select_samples(profile: Profile) -> Array:
    """The samples to write, as bools: all except those computed from slices or from instants, which are written."""
    derived = np.zeros(profile.events.num_rows, bool)
    if profile.slices.num_rows:
        names, units = get_strings(profile.events, "name"), get_strings(profile.events, "unit")
        of_allocations = profile.allocations.num_rows > 0
        derived[:] = [
            name in (HOST_TIME, DEVICE_TIME) or (of_allocations and unit == "bytes")
            for name, unit in zip(names, units, strict=True)
        ]
    return ~derived[get_column(profile.samples, "event")]


def _choose_profile_event(profile: Profile, chosen: Array) -> int | None:
    """The event whose samples become profiles of threads: the main one, else that with most samples. None if there
    are slices and no event has durations that can be shown next to them. chosen: the samples to write."""
    count = np.bincount(get_column(profile.samples, "event")[chosen], minlength=profile.events.num_rows)
    events = np.flatnonzero(count).tolist()
    if profile.slices.num_rows:
        events = [event for event in events if has_duration(profile, event)]
    main = event_id(profile, profile.meta.main_event)
    return main if main in events else max(events, key=lambda event: int(count[event]), default=None)


def _places(profile: Profile) -> _ThreadIds:
    """Numbers for processes and threads: their own if unique, else the next free one."""
    rows = profile.threads.to_pylist()
    processes: dict[tuple[Any, ...], int] = {}
    numbers = set()
    for row in rows:
        key = (row["run"], row["host"], row["rank"], row["pid"])
        if key not in processes:
            number = row["pid"] if row["pid"] is not None else FIRST_PID
            while number in numbers:
                number += 1
            numbers.add(number)
            processes[key] = number
    pids, tids, used = [], [], set()
    for place, row in enumerate(rows):
        pid = processes[row["run"], row["host"], row["rank"], row["pid"]]
        tid = row["tid"] if row["tid"] is not None else place
        while (pid, tid) in used:
            tid += 1
        used.add((pid, tid))
        pids.append(str(pid))
        tids.append(str(tid))
    return _ThreadIds(pids, tids)


def _spread(profile: Profile, places: _ThreadIds) -> Array:
    """The track of each slice: its thread, or an overlap track, which is added."""
    thread, parent, start, length = (
        get_column(profile.slices, name) for name in ("thread", "parent", "start_ns", "duration_ns")
    )
    track = assign_tracks(thread, parent, start, start + length)
    rows = np.flatnonzero(track)
    if not len(rows):
        return thread
    found = thread.astype(np.int64)
    pairs, which = np.unique(np.column_stack((thread[rows], track[rows])), axis=0, return_inverse=True)
    found[rows] = len(places.pid) + which.reshape(-1)
    used = set(zip(places.pid, places.tid, strict=True))
    for of, number in pairs.tolist():
        pid, tid = places.pid[of], int(places.tid[of])
        while (pid, str(tid)) in used:
            tid += 1
        used.add((pid, str(tid)))
        places.pid.append(pid)
        places.tid.append(str(tid))
        places.overlap_tracks.append((of, number))
    return found


def _name_events(profile: Profile, places: _ThreadIds) -> list[str]:
    """The names of processes and threads, and their order."""
    name_events, pids = [], set()
    for place, row in enumerate(profile.threads.to_pylist()):
        pid, tid = places.pid[place], places.tid[place]
        if pid not in pids:
            pids.add(pid)
            words = [f"rank {row['rank']}"] if row["rank"] is not None else []
            name = " · ".join(words + [word for word in (row["host"], row["process"]) if word])
            name_events += _metadata("process_name", pid, "0", name=name) if name else []
        name_events += _metadata("thread_name", pid, tid, name=row["name"]) if row["name"] else []
        name_events += _metadata("thread_sort_index", pid, tid, sort_index=place)
    names = get_strings(profile.threads, "name")
    for at, (of, number) in enumerate(places.overlap_tracks, profile.threads.num_rows):
        pid, tid = places.pid[at], places.tid[at]
        name_events += _metadata("thread_name", pid, tid, name=f"{names[of] or places.tid[of]} ({number + 1})")
        name_events += _metadata("thread_sort_index", pid, tid, sort_index=of)
    return name_events


def _metadata(what: str, pid: str, tid: str, **arguments: Any) -> list[str]:
    return [f'{{"ph":"M","cat":"__metadata","name":"{what}","pid":{pid},"tid":{tid},"args":{json.dumps(arguments)}}}']


def _quote_all(values: list[str]) -> list[str]:
    return [json.dumps(value) for value in values]


def _arguments(members: pa.Array) -> pa.Array:
    """The end of an event with these arguments, null where it has none."""
    return pc.coalesce(text_columns.concat_columns(',"args":{', members, "}}"), "}")


def _take_places(places: _ThreadIds, thread: Array) -> pa.Array:
    known = [f'"pid":{pid},"tid":{tid}' for pid, tid in zip(places.pid, places.tid, strict=True)]
    return text_columns.take_texts(known, thread)


def _slices(profile: Profile, places: _ThreadIds, words: _TextColumns, thread: Array) -> Iterator[pa.Array]:
    """thread: the index of the track of each slice."""
    table = profile.slices
    start, length, function, category, arguments = (
        get_column(table, name) for name in ("start_ns", "duration_ns", "function", "category", "arguments")
    )
    names = [f'{EVENT_SEPARATOR}{{"ph":"X","name":{name},"cat":' for name in words.names]
    categories = [f"{category}," for category in words.categories]
    members = [text or None for text in words.arguments]
    numbers = _NumericArguments(profile)
    for rows in text_columns.split_blocks(table.num_rows):
        yield text_columns.concat_columns(
            text_columns.take_texts(names, function[rows]),
            text_columns.take_texts(categories, category[rows]),
            _take_places(places, thread[rows]),
            ',"ts":',
            text_columns.format_us(start[rows]),
            ',"dur":',
            text_columns.format_us(length[rows]),
            _arguments(text_columns.join_optional(text_columns.take_texts(members, arguments[rows]), numbers.of(rows))),
        )


_COLUMNS = (
    ("shapes", "Input Dims"),
    ("types", "Input type"),
    ("strides", "Input Strides"),
    ("values", "Concrete Inputs"),
    ("call_stack", "Call stack"),
)


def _members(profile: Profile) -> list[str]:
    """The members of each set of arguments, as JSON without the braces."""
    found = []
    for row in profile.argument_sets.to_pylist():
        text = (row["text"] or "").strip()
        members = [text[1:-1]] if text.startswith("{") and text != "{}" else []
        for name, key in _COLUMNS:
            if row[name] is not None:
                value = json.dumps(row[name]) if name == "call_stack" else row[name]
                members.append(f"{json.dumps(key)}:{value}")
        found.append(",".join(members))
    return found


class _NumericArguments:
    """The arguments of slices that are numbers."""

    def __init__(self, profile: Profile) -> None:
        table = profile.slice_numbers
        self._slice, self._key, self._value = (get_column(table, name) for name in ("slice", "key", "value"))
        self._keys = [f"{key}:" for key in _quote_all(list(NUMERIC_ARGUMENTS))]

    def of(self, rows: slice) -> pa.Array:
        """Those of each of some slices, null where there is none."""
        low, high = np.searchsorted(self._slice, (rows.start, rows.stop))
        counts = np.bincount(self._slice[low:high] - rows.start, minlength=rows.stop - rows.start)
        each = text_columns.concat_columns(
            text_columns.take_texts(self._keys, self._key[low:high]),
            text_columns.format_integers(self._value[low:high]),
        )
        return text_columns.join_groups(each, counts)


def _arrows(profile: Profile, places: _ThreadIds, thread: Array) -> Iterator[pa.Array]:
    """Two events per flow: start and end. thread: the index of the track of each slice."""
    start = get_column(profile.slices, "start_ns")
    flows, work = profile.flows, profile.device_work
    launched = get_column(work, "launch") >= 0
    source = np.concatenate((get_column(flows, "source"), get_column(work, "launch")[launched]))
    target = np.concatenate((get_column(flows, "target"), get_column(work, "slice")[launched]))
    kinds = [FLOW_CATEGORIES.get(kind, "") for kind in FlowKind]
    kind = np.concatenate((get_column(flows, "kind"), np.full(int(launched.sum()), len(kinds))))
    words = [f',"cat":"{word}","name":"{word}",' for word in (*kinds, LAUNCH_CATEGORY)]
    for rows in text_columns.split_blocks(len(source)):
        number, word = (
            text_columns.format_integers(np.arange(rows.start + 1, rows.stop + 1)),
            text_columns.take_texts(words, kind[rows]),
        )
        for letter, end, slices in (("s", "}", source[rows]), ("f", ',"bp":"e"}', target[rows])):
            yield text_columns.concat_columns(
                f'{EVENT_SEPARATOR}{{"ph":"{letter}","id":',
                number,
                word,
                _take_places(places, thread[slices]),
                ',"ts":',
                text_columns.format_us(start[slices]),
                end,
            )


def _instants(profile: Profile, places: _ThreadIds, words: _TextColumns) -> Iterator[pa.Array]:
    table = profile.instants
    time, thread, function, category, arguments = (
        get_column(table, name) for name in ("time_ns", "thread", "function", "category", "arguments")
    )
    names = [f'{EVENT_SEPARATOR}{{"ph":"i","name":{name},"cat":' for name in words.names]
    members = [text or None for text in words.arguments]
    for rows in text_columns.split_blocks(table.num_rows):
        own = text_columns.concat_columns(_take_places(places, thread[rows]), ',"s":"t"')
        yield text_columns.concat_columns(
            text_columns.take_texts(names, function[rows]),
            text_columns.take_texts(words.categories, category[rows]),
            ',"ts":',
            text_columns.format_us(time[rows]),
            ",",
            pc.coalesce(own, f'"pid":{FIRST_PID},"tid":0,"s":"g"'),
            _arguments(text_columns.take_texts(members, arguments[rows])),
        )


def _counters(profile: Profile) -> Iterator[pa.Array]:
    names, devices = [], profile.devices.to_pylist()
    for row in profile.series.to_pylist():
        known = devices[row["device"]] if row["device"] != NO_ID else None
        device = f" of {known['kind'].upper()} {known['device']}" if known else ""
        rank = f" of rank {row['rank']}" if row["rank"] is not None else ""
        unit = f", {row['unit']}" if row["unit"] else ""
        name = json.dumps(f"{row['name']}{device}{rank}{unit}")
        names.append(
            f'{EVENT_SEPARATOR}{{"ph":"C","name":{name},"pid":{FIRST_PID if row["pid"] is None else row["pid"]},"ts":'
        )
    series, time, value = (get_column(profile.counters, name) for name in ("series", "time_ns", "value"))
    for rows in text_columns.split_blocks(len(value)):
        distinct, of = np.unique(value[rows], return_inverse=True)
        shown = [
            json.dumps(int(one) if one == int(one) else one) if np.isfinite(one) else "null"
            for one in distinct.tolist()
        ]
        yield text_columns.concat_columns(
            text_columns.take_texts(names, series[rows]),
            text_columns.format_us(time[rows]),
            ',"args":{"value":',
            text_columns.take_texts(shown, of),
            "}}",
        )


def _samples(profile: Profile, places: _ThreadIds, chosen: Array) -> Iterator[pa.Array]:
    """Samples as instants, named after the innermost function. chosen: which, as bools."""
    names = get_strings(profile.functions, "display")
    function = get_column(profile.frames, "function")
    frame, parent = (get_column(profile.stacks, name).tolist() for name in ("frame", "parent"))
    titles = [event_title(profile, each) for each in range(profile.events.num_rows)]
    events = [f',"cat":{title},' for title in _quote_all(titles)]
    time, thread, event, stack, weight = (
        get_column(profile.samples, name)[chosen] for name in ("time_ns", "thread", "event", "stack", "weight")
    )
    for rows in text_columns.split_blocks(len(time)):
        nodes, of = np.unique(stack[rows], return_inverse=True)
        leaves, paths = [], []
        for node in nodes.tolist():
            path = []
            while node != ROOT:
                path.append(names[function[frame[node]]])
                node = parent[node]
            leaves.append(json.dumps(path[0] if path else "[no stack]"))
            paths.append(json.dumps(path))
        yield text_columns.concat_columns(
            f'{EVENT_SEPARATOR}{{"ph":"i","s":"t","name":',
            text_columns.take_texts(leaves, of),
            text_columns.take_texts(events, event[rows]),
            _take_places(places, thread[rows]),
            ',"ts":',
            text_columns.format_us(time[rows]),
            ',"args":{"stack":',
            text_columns.take_texts(paths, of),
            ',"weight":',
            text_columns.format_integers(weight[rows]),
            "}}",
        )
