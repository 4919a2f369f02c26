"""What devices did: kernels, copies and sets, joined with the calls and operators that launched them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..domain.tables import NO_ID
from .hashing import Index, numbered
from .nesting import ROUNDING_NS
from .pytorch_names import WORK, work_kind
from .trace_events import MISSING, TraceEvents
from .trace_lines import whole
from .trace_moments import around, lines_at, open_at, possible
from .trace_slices import Rows
from .trace_tables import ArgumentSets, table, with_nulls

Array = np.ndarray[Any, Any]
_CONFIGURATION = {
    "registers": "registers per thread",
    "shared_bytes": "shared memory",
    "blocks_per_sm": "blocks per SM",
    "warps_per_sm": "warps per SM",
    "occupancy_percent": "est. achieved occupancy %",
}
_PROPERTIES = {
    "name": ("name",),
    "memory_bytes": ("totalGlobalMem",),
    "sms": ("numSms",),
    "warp_size": ("warpSize",),
    "threads_per_sm": ("maxThreadsPerMultiprocessor",),
}
LAUNCH_FLOWS = ("ac2g", "async", "async_gpu", "async_cpu_to_gpu")
"""Categories of flows from the call that launched work to the work."""


@dataclass(frozen=True, eq=False)
class Work:
    """The slices that are device work, one entry each in every column. slice: the row. launch, operator: rows or -1.

    device: the index of the device, -1 not known.
    """

    slice: Array
    launch: Array
    operator: Array


def joined(rows: Rows) -> Work:
    """Device work with what launched it."""
    work = np.flatnonzero(_of_kind(rows, *WORK)).astype(np.int32)
    calls = np.flatnonzero(_of_kind(rows, "runtime")).astype(np.int32)
    launch = _by_number(rows, work, calls, rows.number("correlation"))
    if (launch < 0).any():
        launch = _by_flow(rows, work, launch)
    operators = _of_kind(rows, "operator")
    operator = around(rows, launch, operators)
    _by_external_id(rows, work, launch, operators, operator)
    return Work(work, launch, operator)


def _of_kind(rows: Rows, *kinds: str) -> Array:
    found: Array = rows.codes.of_kind(*kinds)[rows.code] if len(rows) else np.zeros(0, bool)
    return found


def _by_number(rows: Rows, work: Array, calls: Array, number: Array) -> Array:
    """For each piece of work the call with the same number: of several the last that began before it did."""
    calls = calls[number[calls] != MISSING]
    index = Index(number[calls], calls)
    wanted = number[work]
    if not index.twice:
        return np.where(wanted == MISSING, NO_ID, index.of(wanted)).astype(np.int32)
    order = np.lexsort((rows.start_ns[calls], number[calls]))
    calls = calls[order]
    every = np.concatenate((calls, work))
    # A clock of a device may lag behind a little; a call comes before the work of the same moment.
    begun = np.concatenate((rows.start_ns[calls], rows.start_ns[work] + ROUNDING_NS))
    is_work = np.repeat(np.array([0, 1]), (len(calls), len(work)))
    order = np.lexsort((is_work, begun, number[every]))
    at = np.maximum.accumulate(np.where(is_work[order] == 0, np.arange(len(order)), 0))
    before = np.empty(len(every), np.int64)
    before[order] = every[order[at]]
    last = before[len(calls) :]
    # Where all calls of the number began later, the first of them.
    first = index.of(wanted)
    launch = np.where(number[last] == wanted, last, first)
    return np.where(wanted == MISSING, NO_ID, launch).astype(np.int32)


def _by_flow(rows: Rows, work: Array, launch: Array) -> Array:
    """Fill in the calls that only arrows tell, from the call to the work."""
    events = rows.events
    flows = possible(events, np.flatnonzero(is_launch(events)))
    sources, targets = (flows[events.phase[flows] == ord(letter)] for letter in "sf")
    missing = np.flatnonzero(launch < 0)
    if not len(sources) or not len(targets):
        return launch
    # An arrow ends where the work begins.
    place, _ = numbered(events.process, events.thread)
    ends: Array = np.concatenate((targets, rows.event[work[missing]]))
    moment, _ = numbered(place[ends], _dense_times(events.time_ns[ends]))
    arrow = Index(moment[: len(targets)].astype(np.int64), targets).of(moment[len(targets) :].astype(np.int64))
    source = Index(events.id[sources].astype(np.int64), sources).of(events.id[np.maximum(arrow, 0)].astype(np.int64))
    known = (arrow >= 0) & (source >= 0)
    row = open_at(rows, lines_at(rows, source[known]), events.time_ns[source[known]])
    launch = launch.copy()
    launch[missing[known]] = row
    return launch


def _dense_times(time_ns: Array) -> Array:
    dense: Array = np.unique(time_ns, return_inverse=True)[1].astype(np.int32)
    return dense


def is_launch(events: TraceEvents) -> Array:
    """Which events are ends of arrows from the call that launched work to the work, as bools."""
    categories = [at for at in np.unique(events.category).tolist() if at >= 0]
    return np.isin(events.category, [at for at in categories if events.texts[at].lower() in LAUNCH_FLOWS])


def _by_external_id(rows: Rows, work: Array, launch: Array, operators: Array, operator: Array) -> None:
    """Correct and complete the operators by the number that PyTorch gives them and the calls in them.

    Some traces have there the correlation again: then it tells nothing. Times that were rounded can put a call beside
    its operator.
    """
    number = rows.number("External id")
    number = np.where(number == MISSING, rows.number("external id"), number)
    correlation = rows.number("correlation")[work]
    wanted = np.where((launch >= 0) & (number[launch] != MISSING), number[launch], number[work])
    both = (wanted != MISSING) & (correlation != MISSING)
    if (wanted[both] == correlation[both]).sum() * 2 > both.sum():
        return
    named = np.flatnonzero(operators & (number != MISSING)).astype(np.int32)
    by_number = np.where(wanted == MISSING, NO_ID, Index(number[named], named).of(wanted))
    if not len(rows):
        return
    at = np.maximum(launch, 0)
    near = (
        (rows.line[by_number] == rows.line[at])
        & (rows.start_ns[by_number] <= rows.start_ns[at] + ROUNDING_NS)
        & (rows.stop_ns[by_number] >= rows.stop_ns[at] - ROUNDING_NS)
    )
    better = (by_number >= 0) & ((launch < 0) | near)
    operator[better] = by_number[better]


@dataclass(frozen=True, eq=False)
class DeviceTables:
    """What follows from device work: the tables; by a stream's line the index of its device, and its number; and by
    kind and index of a device its row."""

    device_work: pa.Table
    configurations: pa.Table
    devices: pa.Table
    of_line: dict[int, int | None]
    stream_of_line: dict[int, int | None]
    places: dict[tuple[str, int], int]


def device_tables(
    rows: Rows, work: Work, arguments: ArgumentSets, properties: Any, rank: int | None, memory_of: list[tuple[str, int]]
) -> DeviceTables:
    """The tables of devices and of what they did. memory_of: the devices (kind, index) of which memory was noted."""
    sets = arguments.rows(rows.events.arguments[rows.event[work.slice]])
    launch_sets = np.where(
        work.launch >= 0, arguments.rows(rows.events.arguments[rows.event[np.maximum(work.launch, 0)]]), NO_ID
    )
    sized = rows.number("bytes")[work.slice]
    keys = ((sets.astype(np.int64) + 1) << 32) | (launch_sets + 1)
    _, shown, of = np.unique(keys, return_index=True, return_inverse=True)
    about = arguments.parsed(sorted({*sets[shown].tolist(), *launch_sets[shown].tolist()} - {NO_ID}))
    configurations: dict[tuple[Any, ...], int] = {}
    columns: dict[str, list[Any]] = {"device": [], "stream": [], "configuration": [], "bytes": []}
    for own, call in zip(sets[shown].tolist(), launch_sets[shown].tolist(), strict=True):
        mine, calls = about.get(own, {}), about.get(call, {})
        columns["device"].append(_whole(mine.get("device")))
        columns["stream"].append(_whole(mine.get("stream")))
        columns["configuration"].append(_configuration(mine, calls, configurations))
        columns["bytes"].append(_whole(mine.get("bytes", mine.get("size", calls.get("size")))))
    device, stream, size = (
        np.array([MISSING if value is None else value for value in columns[name]] or [0], np.int64)[of]
        for name in ("device", "stream", "bytes")
    )
    configuration = np.array(columns["configuration"] or [0], np.int64)[of]
    kinds = np.array([int(work_kind(w.kind, n)) for w, n in zip(rows.codes.what, rows.codes.name, strict=True)] or [0])
    kind = kinds[rows.code[work.slice]]
    configuration = np.where(rows.codes.of_kind("kernel")[rows.code[work.slice]], configuration, NO_ID)
    line = rows.line[work.slice]
    pid, tid = (
        np.array([MISSING if value is None else value for value in values] or [0], np.int64)
        for values in (
            [about.pid for about in rows.lines],
            [_stream_number(about.thread) for about in rows.lines],
        )
    )
    device = np.where(device == MISSING, pid[line], device)
    stream = np.where(stream == MISSING, tid[line], stream)
    device = np.where((device < 0) | (device >= 1 << 31), MISSING, device)
    used = [("gpu", int(index)) for index in np.unique(device).tolist() if index != MISSING]
    devices, places = _devices(properties, [*used, *memory_of], rank)
    listed = np.array([index for k, index in places if k == "gpu"] or [0], np.int64)
    at = np.array([place for (k, _), place in places.items() if k == "gpu"] or [NO_ID], np.int64)
    order = np.argsort(listed)
    found = order[np.minimum(np.searchsorted(listed[order], device), len(listed) - 1)]
    device_row = np.where(listed[found] == device, at[found], NO_ID)
    _, first = np.unique(line, return_index=True)
    return DeviceTables(
        device_work=table(
            "device_work",
            slice=work.slice,
            kind=kind,
            device=device_row,
            stream=with_nulls(stream),
            launch=work.launch,
            operator=work.operator,
            configuration=configuration,
            bytes=with_nulls(np.where(sized == MISSING, size, sized)),
        ),
        configurations=_configurations(configurations),
        devices=devices,
        of_line={int(line[i]): None if device[i] == MISSING else int(device[i]) for i in first.tolist()},
        stream_of_line={int(line[i]): None if stream[i] == MISSING else int(stream[i]) for i in first.tolist()},
        places=places,
    )


def _stream_number(thread: str | None) -> int | None:
    """The number of a stream: "7", and "stream 7" as the first versions wrote it."""
    return whole(thread.removeprefix("stream ").strip()) if thread is not None else None


def _configuration(mine: dict[str, Any], calls: dict[str, Any], known: dict[tuple[Any, ...], int]) -> int:
    """The row of `configurations`; AMD's profiler writes it to the call instead of the kernel."""
    grid, block = (_three(mine.get(name, calls.get(name))) for name in ("grid", "block"))
    rest = tuple(
        (_real if name.endswith(("_sm", "_percent")) else _whole)(mine.get(member, calls.get(member)))
        for name, member in _CONFIGURATION.items()
    )
    key = (*grid, *block, *rest)
    if all(value is None for value in key):
        return NO_ID
    return known.setdefault(key, len(known))


def _configurations(known: Mapping[tuple[Any, ...], int]) -> pa.Table:
    names = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"] + list(_CONFIGURATION)
    columns = list(zip(*known, strict=True)) if known else [()] * len(names)
    return table("configurations", **dict(zip(names, columns, strict=True)))


def _devices(
    properties: Any, used: list[tuple[str, int]], rank: int | None
) -> tuple[pa.Table, dict[tuple[str, int], int]]:
    """The table `devices`, and by kind and index the row of each: those that the file lists or something was of."""
    listed = [entry for entry in properties if isinstance(entry, dict)] if isinstance(properties, list) else []
    known: dict[tuple[str, int], dict[str, Any]] = {}
    for entry in listed:
        index = _whole(entry.get("id"))
        if index is not None and 0 <= index < 1 << 31:
            known.setdefault(("gpu", index), entry)
    for key in used:
        known.setdefault(key, {})
    order = sorted(known, key=lambda key: (key[0] != "cpu", key[1]))
    entries = [known[key] for key in order]
    columns: dict[str, list[Any]] = {}
    for name, (member,) in _PROPERTIES.items():
        small = name not in ("name", "memory_bytes")
        columns[name] = [
            _word(entry.get(member)) if name == "name" else _whole(entry.get(member), 1 << (31 if small else 63))
            for entry in entries
        ]
    devices = table(
        "devices",
        rank=[rank] * len(order),
        kind=[kind for kind, _ in order],
        device=[index for _, index in order],
        compute=[_compute(entry) for entry in entries],
        properties=[json.dumps(entry) if entry else None for entry in entries],
        **columns,
    )
    return devices, {key: row for row, key in enumerate(order)}


def _compute(entry: dict[str, Any]) -> str | None:
    major, minor = _whole(entry.get("computeMajor")), _whole(entry.get("computeMinor"))
    return None if major is None or minor is None else f"{major}.{minor}"


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any, limit: int = 1 << 63) -> int | None:
    """A whole number, or a text that is one."""
    number = whole(value) if isinstance(value, str) else value
    if isinstance(number, float) and number.is_integer() and abs(number) < 1 << 53:
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    return number if -limit <= number < limit else None


def _real(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value else None


def _three(value: Any) -> tuple[int | None, int | None, int | None]:
    parts = [_whole(part) for part in value[:3]] if isinstance(value, list) else []
    x, y, z = (*parts, None, None, None)[:3]
    return x, y, z
