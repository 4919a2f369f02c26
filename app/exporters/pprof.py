"""pprof: for `go tool pprof` and compatible tools. Format: proto/profile.proto of pprof.

One value for each event, by call stack and thread. Traces are written as self time, so that nothing counts twice and
the values of a thread add up to its busy time.
"""

import zlib
from collections.abc import Iterator, Mapping

import numpy as np

from ..analysis.core.group_by import factorize
from ..analysis.core.measurements import find_share_only_events
from ..analysis.core.sample_selection import samples_of
from ..analysis.core.slice_selection import device_work_of
from ..domain.arrays import Array
from ..domain.event_names import SHARES_ONLY
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.tables import DEVICE_TIME, HOST_TIME, NO_ID, ROOT, get_column, get_strings
from ..ingest.protobuf_wire import encode_bytes, encode_message, encode_number, encode_packed, encode_varint
from .stack_weights import StackWeights, stack_frames, weigh_stacks

OPTIONS: Mapping[str, str] = {}
UNITS = {"ns": "nanoseconds", "bytes": "bytes", "count": "count"}
"""pprof's names of units. Others are unchanged: it displays them."""
SAMPLES = "samples"
BLOCK_BYTES = 1 << 20
GZIP = 31
"""zlib's wbits for gzip, without name and time."""
# Fields of Profile, and of the messages in it.
_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRING = 1, 2, 3, 4, 5, 6
_TIME, _DURATION, _PERIOD_TYPE, _PERIOD, _COMMENT, _DEFAULT = 9, 10, 11, 12, 13, 14


class _Strings:
    """The table of strings; the first is the empty one."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {"": 0}

    def of(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))

    def written(self) -> Iterator[bytes]:
        return (encode_message(_STRING, text.encode()) for text in self._places)


def write(profile: Profile, selection: Selection, options: Mapping[str, bool]) -> Iterator[bytes]:
    """The file, packed. Of the selected event alone, else of all that have samples."""
    packer = zlib.compressobj(6, zlib.DEFLATED, GZIP)
    held = bytearray()
    for part in _parts(profile, selection):
        held += part
        if len(held) >= BLOCK_BYTES:
            yield packer.compress(bytes(held))
            held.clear()
    yield packer.compress(bytes(held)) + packer.flush()


def _parts(profile: Profile, selection: Selection) -> Iterator[bytes]:
    strings, found = _Strings(), weigh_stacks(profile, selection)
    names, units = get_strings(profile.events, "name"), get_strings(profile.events, "unit")
    # The number of parts of a trace has no meaning.
    counted = {HOST_TIME, DEVICE_TIME, SAMPLES}.isdisjoint(names[event] for event in found.events)
    types = [(SAMPLES, "count")] if counted else []
    types += [(names[event], UNITS.get(units[event], units[event])) for event in found.events]
    written = [(strings.of(name), strings.of(unit)) for name, unit in types]
    for name, unit in written:
        yield encode_message(_TYPE, encode_number(1, name), encode_number(2, unit))
    yield from _samples(profile, selection, found, strings, counted)
    yield from _places(profile, strings)
    meta = profile.meta
    yield encode_number(_TIME, (meta.start_epoch_ns or 0) + (selection.start_ns or 0) if meta.start_epoch_ns else 0)
    yield encode_number(_DURATION, _duration_ns(profile, selection))
    main = meta.main_event if meta.main_event in {names[event] for event in found.events} else None
    event = names.index(main) if main is not None else next(iter(found.events), NO_ID)
    if event != NO_ID:
        type_number, unit_number = written[-len(found.events) :][found.events.index(event)]
        yield encode_message(_PERIOD_TYPE, encode_number(1, type_number), encode_number(2, unit_number))
        yield encode_number(_PERIOD, _period(profile, event))
        yield encode_number(_DEFAULT, type_number)
    comments = [f"Exported by Perfloom from {meta.format}."] + ([f"Command: {meta.command}"] if meta.command else [])
    comments += [f"Not complete: {reason}" for reason in meta.reasons]
    comments += [f"{names[event]}: {SHARES_ONLY}" for event in found.events if event in find_share_only_events(profile)]
    comments += [f"Selected: {word}={value}" for word, value in selection.to_query()]
    yield encode_packed(_COMMENT, [strings.of(text) for text in comments])
    yield from strings.written()


def _duration_ns(profile: Profile, selection: Selection) -> int:
    whole = profile.meta.duration_ns or 0
    start = max(0, selection.start_ns or 0)
    return max(0, min(whole, selection.end_ns if selection.end_ns is not None else whole) - start)


def _period(profile: Profile, event: int) -> int:
    """The sampling period of an event: as configured, else the mean weight of its samples."""
    sampling: str | None = profile.events.column("sampling")[event].as_py()
    rate: float | None = profile.events.column("rate")[event].as_py()
    if sampling == "period" and rate:
        return round(rate)
    name: str = profile.events.column("name")[event].as_py()
    if name in (HOST_TIME, DEVICE_TIME):
        return 1
    samples = samples_of(profile)
    weight = samples.weight[samples.event == event]
    return max(1, round(float(weight.mean()))) if len(weight) else 1


def _samples(
    profile: Profile, selection: Selection, stack_weights: StackWeights, strings: _Strings, counted: bool
) -> Iterator[bytes]:
    """A message for each pair of a stack and a thread."""
    stands_for, parent = stack_frames(profile, selection)
    locations = _LocationLists(get_column(profile.stacks, "frame"), parent)
    labels = _labels(profile, strings)
    nodes, threads = stands_for[stack_weights.stack].tolist(), stack_weights.thread.tolist()
    values = np.column_stack((stack_weights.count, stack_weights.weight)) if counted else stack_weights.weight
    for node, thread, row in zip(nodes, threads, values.tolist(), strict=True):
        yield encode_message(
            _SAMPLE, encode_bytes(1, locations.of(node)), encode_message(2, *map(encode_varint, row)), labels[thread]
        )


class _LocationLists:
    """The ids of the locations of stacks, the innermost first, as bytes; each stack ends with that of its parent."""

    def __init__(self, frame: Array, parent: Array) -> None:
        self._frame, self._parent = frame.tolist(), parent.tolist()
        self._known: dict[int, bytes] = {ROOT: b""}

    def of(self, node: int) -> bytes:
        todo = []
        while node not in self._known:
            todo.append(node)
            node = self._parent[node]
        found = self._known[node]
        for each in reversed(todo):
            found = self._known[each] = encode_varint(self._frame[each] + 1) + found
        return found


def _labels(profile: Profile, strings: _Strings) -> list[bytes]:
    """The labels of samples, by thread."""
    devices = _devices(profile)
    found = []
    for place, row in enumerate(profile.threads.to_pylist()):
        words = {"process": row["process"], "thread": row["name"], "host": row["host"], "device": devices.get(place)}
        numbers = {
            "pid": row["pid"],
            "stream" if row["kind"] == "gpu_stream" else "tid": row["tid"],
            "rank": row["rank"],
        }
        labels = [
            encode_message(3, encode_number(1, strings.of(key)), encode_number(2, strings.of(text)))
            for key, text in words.items()
            if text
        ]
        labels += [
            encode_message(3, encode_number(1, strings.of(key)), encode_number(3, value))
            for key, value in numbers.items()
            if value is not None
        ]
        found.append(b"".join(labels))
    return found


def _devices(profile: Profile) -> dict[int, str]:
    """The device that threads are streams of."""
    work = device_work_of(profile)
    known = work.device >= 0
    count = max(1, profile.devices.num_rows)
    keys, _ = factorize(
        work.thread[known].astype(np.int64) * count + work.device[known], profile.threads.num_rows * count
    )
    index, kinds = profile.devices.column("device").to_pylist(), get_strings(profile.devices, "kind")
    return {key // count: f"{kinds[key % count].upper()} {index[key % count]}" for key in keys.tolist()}


def _places(profile: Profile, strings: _Strings) -> Iterator[bytes]:
    """Mappings, functions and locations; each has its row and one as its id."""
    modules: dict[str, int] = {}
    functions = profile.functions.to_pylist()
    for place, row in enumerate(functions):
        shown, raw = strings.of(row["display"]), strings.of(row["name"])
        of_file = strings.of(row["file"] or "")
        yield encode_message(
            _FUNCTION,
            encode_number(1, place + 1),
            encode_number(2, shown),
            encode_number(3, raw),
            encode_number(4, of_file),
            encode_number(5, row["start_line"] or 0),
        )
        if row["module"]:
            modules.setdefault(row["module"], len(modules) + 1)
    frames = zip(*(profile.frames.column(name).to_pylist() for name in ("function", "address", "line")), strict=True)
    for place, (function, address, line) in enumerate(frames):
        mapping = modules.get(functions[function]["module"], 0)
        yield encode_message(
            _LOCATION,
            encode_number(1, place + 1),
            encode_number(2, mapping),
            encode_number(3, address or 0),
            encode_message(4, encode_number(1, function + 1), encode_number(2, line or 0)),
        )
    for name, place in modules.items():
        # Functions are resolved, so tools need not symbolize.
        yield encode_message(
            _MAPPING,
            encode_number(1, place),
            encode_number(5, strings.of(name)),
            encode_number(7, 1),
            encode_number(8, 1),
            encode_number(9, 1),
        )
