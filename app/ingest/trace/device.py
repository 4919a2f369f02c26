"""Device work: kernels, memcpy and memset, joined with the calls and operators that launched them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...domain.arrays import MISSING, Array, Int64Array, sort_distinct
from ...domain.tables import NO_ID
from ..jit.hashing import RowIndex, compact_ids, factorize_pairs
from .argument_values import to_float, to_int
from .arguments import ArgumentSets
from .events import TraceEvents
from .nesting import ROUNDING_NS
from .point_events import find_enclosing_slices, find_flow_events, find_open_slices, find_tracks
from .pytorch_names import get_work_kind
from .slices import WORK, SliceTable
from .tables import build_table, to_nullable

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
"""Categories of flows from the launching call to the work."""


@dataclass(frozen=True, eq=False)
class DeviceWork:
    """The slices that are device work, one entry each in every column. slice: the row. launch, operator: rows or -1.

    device: the index of the device, -1 not known.
    """

    slice: Array
    launch: Array
    operator: Array


def link_launches(rows: SliceTable) -> DeviceWork:
    """Device work with its launches."""
    work = np.flatnonzero(_select_kind(rows, *WORK)).astype(np.int32)
    calls = np.flatnonzero(_select_kind(rows, "runtime")).astype(np.int32)
    launch = _find_calls_by_number(rows, work, calls)
    if (launch < 0).any():
        launch = _find_calls_by_flow(rows, work, launch)
    operators = _select_kind(rows, "operator")
    operator = find_enclosing_slices(rows, launch, operators)
    _find_operators_by_id(rows, work, launch, operators, operator)
    return DeviceWork(work, launch, operator)


def _select_kind(rows: SliceTable, *kinds: str) -> Array:
    kind: Array = rows.codes.is_of_kind(*kinds)[rows.code]
    return kind


def _find_calls_by_number(rows: SliceTable, work: Array, calls: Array) -> Array:
    """For each piece of work the call with the same correlation number."""
    number = rows.get_number("correlation")
    calls = calls[number[calls] > 0]
    index = RowIndex(number[calls], calls)
    launch = index.lookup(number[work])
    if not index.twice:
        return launch
    # Reused numbers: prefer those of the process that has the stream, then the last one before the work.
    values, counts = np.unique(number[calls], return_counts=True)
    at = np.minimum(np.searchsorted(values, number[work]), len(values) - 1)
    process = infer_processes(rows, work, np.where(counts[at] == 1, launch, NO_ID))
    of_lines = np.array([about.places[0] for about in rows.tracks], np.int64)
    nothing = np.zeros(len(work) + len(calls), np.int64)
    anywhere = _find_last_before(rows, work, calls, nothing[: len(work)], nothing[: len(calls)], number)
    same = _find_last_before(rows, work, calls, process[rows.track[work]], of_lines[rows.track[calls]], number)
    found = np.where(same >= 0, same, anywhere)
    # If all calls with the number began later, any of them.
    return np.where(found < 0, launch, found).astype(np.int32)


def infer_processes(rows: SliceTable, work: Array, launch: Array) -> Int64Array:
    """By line the process that launched most of the work there, an index into the texts; NO_ID if none is known."""
    known = launch >= 0
    of_lines = np.array([about.places[0] for about in rows.tracks] or [NO_ID], np.int32)
    line, process = rows.track[work[known]], of_lines[rows.track[launch[known]]]
    code, shown = factorize_pairs(np.arange(len(line)), line, process)
    most = np.full(len(rows.tracks), NO_ID, np.int64)
    for at in shown[np.argsort(np.bincount(code, minlength=len(shown)), kind="stable")].tolist():
        most[line[at]] = process[at]
    return most


def _find_last_before(
    rows: SliceTable, work: Array, calls: Array, of_work: Array, of_calls: Array, number: Array
) -> Array:
    """For each piece of work the last call of the same number and process that began before it, else NO_ID."""
    every = np.concatenate((calls, work))
    process = np.concatenate((of_calls, of_work))
    # The device clock may lag slightly; a call at the same time comes before the work.
    begun = np.concatenate((rows.start_ns[calls], rows.start_ns[work] + ROUNDING_NS))
    is_work = np.repeat(np.array([0, 1]), (len(calls), len(work)))
    order = np.lexsort((is_work, begun, process, number[every]))
    at = np.maximum.accumulate(np.where(is_work[order] == 0, np.arange(len(order)), NO_ID))
    before = np.where(at >= 0, order[np.maximum(at, 0)], NO_ID)
    of: Array = np.empty(len(every), np.int64)
    of[order] = before
    last = of[len(calls) :]
    call = every[np.maximum(last, 0)]
    same = (last >= 0) & (number[call] == number[work]) & (process[np.maximum(last, 0)] == of_work)
    return np.where(same, call, NO_ID)


def _find_calls_by_flow(rows: SliceTable, work: Array, launch: Array) -> Array:
    """Add calls that are known only from flow events, from the call to the work."""
    events = rows.events
    flows = find_flow_events(rows)
    flows = flows[is_launch_flow(events, flows)]
    sources, targets = (flows[events.phase[flows] == ord(letter)] for letter in "sf")
    missing = np.flatnonzero(launch < 0)
    if not len(sources) or not len(targets):
        return launch
    # A flow ends where the work begins.
    ends: Array = np.concatenate((targets, rows.event[work[missing]]))
    place, _ = factorize_pairs(ends, events.process, events.thread)
    moment, _ = factorize_pairs(np.arange(len(ends)), place, np.unique(events.time_ns[ends], return_inverse=True)[1])
    arrow = RowIndex(moment[: len(targets)], targets).lookup(moment[len(targets) :])
    source = RowIndex(events.id[sources], sources).lookup(events.id[np.maximum(arrow, 0)])
    known = (arrow >= 0) & (source >= 0)
    row = find_open_slices(rows, find_tracks(rows, source[known]), events.time_ns[source[known]])
    launch = launch.copy()
    launch[missing[known]] = row
    return launch


def is_launch_flow(events: TraceEvents, found: Array) -> Array:
    """Which of some events are ends of flows from the launching call to the work, as bools."""
    number, shown = compact_ids(events.category[found], len(events.texts))
    is_one = np.array([events.texts[place].lower() in LAUNCH_FLOWS for place in shown.tolist()] + [False], bool)
    number = np.append(number, np.int32(-1))
    launches: Array = is_one[number[events.category[found]]]
    return launches


def _find_operators_by_id(rows: SliceTable, work: Array, launch: Array, operators: Array, operator: Array) -> None:
    """Correct and complete the operators by PyTorch's number for them and by the calls within them.

    Some traces repeat the correlation there: then it is not used. Because of rounding, a call may lie outside its
    operator.
    """
    if not len(work):
        return
    number = rows.get_number("External id")
    if "external id" in rows.events.numbers:
        number = np.where(number == MISSING, rows.get_number("external id"), number)
    correlation = rows.get_number("correlation")[work]
    wanted = np.where((launch >= 0) & (number[launch] != MISSING), number[launch], number[work])
    both = (wanted != MISSING) & (correlation != MISSING)
    if (wanted[both] == correlation[both]).sum() * 2 > both.sum():
        return
    other = np.flatnonzero((wanted != MISSING) & ((operator < 0) | (number[operator] != wanted)))
    if not len(other):
        return
    named = np.flatnonzero(operators & (number != MISSING))
    by_number = RowIndex(number[named], named).lookup(wanted[other])
    at = np.maximum(launch[other], 0)
    near = (
        (rows.track[by_number] == rows.track[at])
        & (rows.start_ns[by_number] <= rows.start_ns[at] + ROUNDING_NS)
        & (rows.stop_ns[by_number] >= rows.stop_ns[at] - ROUNDING_NS)
    )
    better = (by_number >= 0) & ((launch[other] < 0) | near)
    operator[other[better]] = by_number[better]


@dataclass(frozen=True, eq=False)
class DeviceTables:
    """What follows from device work: the tables; by a stream's line the index of its device and its number; and by kind
    and index of a device its row."""

    device_work: pa.Table
    configurations: pa.Table
    devices: pa.Table
    stream_by_track: dict[int, tuple[int | None, int | None]]
    places: dict[tuple[str, int], int]


def build_device_tables(
    rows: SliceTable,
    work: DeviceWork,
    arguments: ArgumentSets,
    properties: Any,
    rank: int | None,
    memory_of: list[tuple[str, int]],
) -> DeviceTables:
    """The tables of devices and of their work. memory_of: the devices (kind, index) with recorded memory."""
    sets, line, code = arguments.get_rows(rows.arguments[work.slice]), rows.track[work.slice], rows.code[work.slice]
    launch_sets = np.where(work.launch >= 0, arguments.get_rows(rows.arguments[work.launch]), NO_ID)
    of_device, of_stream, of_size = arguments.get_numbers("device", "stream", "size")
    device = _replace_missing(of_device[sets], [about.pid for about in rows.tracks], line)
    device[(device < 0) | (device >= 1 << 31)] = MISSING
    # The first versions wrote "stream 7".
    streams = [to_int((about.thread or "").removeprefix("stream ")) for about in rows.tracks]
    stream = _replace_missing(of_stream[sets], streams, line)
    size = rows.get_number("bytes")[work.slice]
    for other in (of_size[sets], of_size[launch_sets]):
        size = np.where(size == MISSING, other, size)
    size[rows.codes.is_of_kind("kernel")[code]] = MISSING
    used = [("gpu", index) for index in sort_distinct(device[device != MISSING]).tolist()]
    devices, places = _build_devices(properties, used + memory_of, rank)
    configuration, configurations = _assign_configurations(
        sets, launch_sets, rows.codes.is_of_kind("kernel")[code], arguments
    )
    # Work is in the order of the lines.
    first = np.minimum(np.searchsorted(work.slice, rows.bounds[:-1]), len(line) - 1)
    seen = [at for at in range(len(rows.tracks)) if len(line) and line[first[at]] == at]
    return DeviceTables(
        device_work=build_table(
            "device_work",
            slice=work.slice,
            kind=rows.codes.map(lambda what, name: int(get_work_kind(what.kind, name)), np.int8)[code],
            device=_rows_of(device, places),
            stream=to_nullable(stream),
            launch=work.launch,
            operator=work.operator,
            configuration=configuration,
            bytes=to_nullable(size),
        ),
        configurations=configurations,
        devices=devices,
        stream_by_track={at: (_value_or_none(device[first[at]]), _value_or_none(stream[first[at]])) for at in seen},
        places=places,
    )


def _replace_missing(values: Array, others: list[int | None], line: Array) -> Array:
    """The value of the line replaces each MISSING value."""
    by_line = np.array([MISSING if other is None else other for other in others] or [0], np.int64)
    return np.where(values == MISSING, by_line[line], values)


def _value_or_none(value: int) -> int | None:
    return None if value == MISSING else int(value)


def _rows_of(device: Array, places: Mapping[tuple[str, int], int]) -> Array:
    """The row of `devices` by index of a device, MISSING if unknown."""
    index = np.array(sorted(index for kind, index in places if kind == "gpu") or [0], np.int64)
    row = np.array([places.get(("gpu", one), NO_ID) for one in index.tolist()])
    at = np.minimum(np.searchsorted(index, device), len(index) - 1)
    return np.where(index[at] == device, row[at], NO_ID)


def _assign_configurations(
    sets: Array, launch_sets: Array, kernels: Array, arguments: ArgumentSets
) -> tuple[Array, pa.Table]:
    """(the row of `configurations` for each piece of work; that table). sets: of arguments, its own and its call's."""
    found = np.flatnonzero(kernels)
    of, shown = factorize_pairs(found, launch_sets, sets, len(arguments))
    at = found[shown]
    about = arguments.parse({*sets[at].tolist(), *launch_sets[at].tolist()} - {NO_ID})
    known: dict[tuple[Any, ...], int] = {}
    rows = [
        _make_configuration(about.get(own, {}), about.get(call, {}), known)
        for own, call in zip(sets[at].tolist(), launch_sets[at].tolist(), strict=True)
    ]
    configuration = np.full(len(sets), NO_ID, np.int32)
    configuration[found] = np.array(rows or [0], np.int32)[of]
    return configuration, _build_configurations(known)


def _make_configuration(mine: dict[str, Any], calls: dict[str, Any], known: dict[tuple[Any, ...], int]) -> int:
    """The row of `configurations`; AMD's profiler writes it to the call instead of the kernel."""
    grid, block = (_parse_dimensions(mine.get(name, calls.get(name))) for name in ("grid", "block"))
    rest = tuple(
        (to_float if name.endswith(("_sm", "_percent")) else to_int)(mine.get(member, calls.get(member)))
        for name, member in _CONFIGURATION.items()
    )
    key = (*grid, *block, *rest)
    if all(value is None for value in key):
        return NO_ID
    return known.setdefault(key, len(known))


def _build_configurations(known: Mapping[tuple[Any, ...], int]) -> pa.Table:
    names = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"] + list(_CONFIGURATION)
    columns = list(zip(*known, strict=True)) if known else [()] * len(names)
    return build_table("configurations", **dict(zip(names, columns, strict=True)))


def _build_devices(
    properties: Any, used: list[tuple[str, int]], rank: int | None
) -> tuple[pa.Table, dict[tuple[str, int], int]]:
    """The table `devices`, and by kind and index the row of each: devices that the file lists or uses."""
    listed = [entry for entry in properties if isinstance(entry, dict)] if isinstance(properties, list) else []
    known: dict[tuple[str, int], dict[str, Any]] = {}
    for entry in listed:
        index = to_int(entry.get("id"))
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
            _get_str(entry.get(member)) if name == "name" else to_int(entry.get(member), 1 << (31 if small else 63))
            for entry in entries
        ]
    devices = build_table(
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
    major, minor = to_int(entry.get("computeMajor")), to_int(entry.get("computeMinor"))
    return None if major is None or minor is None else f"{major}.{minor}"


def _get_str(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _parse_dimensions(value: Any) -> tuple[int | None, int | None, int | None]:
    parts = [to_int(part) for part in value[:3]] if isinstance(value, list) else []
    x, y, z = (*parts, None, None, None)[:3]
    return x, y, z
