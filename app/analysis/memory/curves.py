"""Memory over time: devices with known memory, curves of allocated and reserved memory, and peaks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.errors import InvalidRequest
from ...domain.memory import ACTIVE, ALLOCATED, RESERVED, get_device_name
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import get_column, get_strings
from ...domain.units import NS_PER_US
from ..core.common_columns import DEVICE_NAME, RANK
from ..core.memo import memoize
from ..core.sample_selection import match_places, select_threads
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..core.windows import MAX_TIME_NS, resolve_step, step_windows

MIN_TIME_NS = -MAX_TIME_NS
CURVE_NAMES = (ALLOCATED, RESERVED, ACTIVE)
CURVES = (
    Column("time_us", "µs", "Time of the change; in a window, the first row has its start.", "float64"),
    RANK,
    DEVICE_NAME,
    Column("series", "", "What the value is: allocated, reserved, active, or a category of the file (PARAMETER …)."),
    Column("bytes", "bytes", "Value from this time on.", "int64"),
)


@dataclass(frozen=True)
class DeviceMemory:
    """A known memory. row: of `devices`, -1 if the file names none. capacity: in bytes, None if unknown. display_name:
    its name in the file, if that is more than its kind and number."""

    row: int
    rank: int | None
    kind: str
    index: int
    name: str
    capacity: int | None
    display_name: str = ""

    @property
    def kind_label(self) -> str:
        """The suffix of names of its events: see `domain.memory.peak_event`."""
        return self.display_name or self.kind

    @property
    def label(self) -> str:
        """Its name within its rank."""
        return (
            self.display_name or f"GPU {self.index}"
            if self.kind == "gpu"
            else "CPU"
            if self.kind == "cpu"
            else "memory"
        )

    @property
    def key(self) -> str:
        """Its key in URLs: its rank, then "gpu0", "cpu" or "memory"."""
        word = f"gpu{self.index}" if self.kind == "gpu" else self.kind or "memory"
        return word if self.rank is None else f"{self.rank}/{word}"


@dataclass(frozen=True, eq=False)
class Curve:
    """Values that hold from their time (ns) until the next. Of several at one time the last one holds."""

    time_ns: Array
    value: Array


@dataclass(frozen=True)
class MemoryPeak:
    """The greatest value of a curve in some windows, and when it was first reached (ns)."""

    value: int
    time_ns: int


def list_device_memories(profile: Profile) -> list[DeviceMemory]:
    """The memories of a profile: GPUs first, by rank and number."""

    def build() -> list[DeviceMemory]:
        held = np.unique(get_column(profile.allocations, "device")).tolist()
        names, units = get_strings(profile.series, "name"), get_strings(profile.series, "unit")
        series_devices = get_column(profile.series, "device").tolist()
        held += [
            row
            for row, name, unit in zip(series_devices, names, units, strict=True)
            if unit == "bytes" and name in CURVE_NAMES
        ]
        devices = profile.devices.to_pylist()
        device_memories = []
        for row in sorted(set(held)):
            one: dict[str, Any] = devices[row] if row >= 0 else {}
            name, capacity = one.get("name") or "", one.get("memory_bytes")
            kind, index, label = one.get("kind", ""), one.get("device", 0), get_device_name(one.get("properties"))
            device_memories.append(DeviceMemory(row, one.get("rank"), kind, index, name, capacity, label))
        order = {"gpu": 0, "": 1, "cpu": 2}
        return sorted(
            device_memories,
            key=lambda one: (-1 if one.rank is None else one.rank, order.get(one.kind, 3), one.index, one.row),
        )

    return memoize(profile, "memory places", build, pin=True)


def select_device_memories(profile: Profile, selection: Selection) -> list[DeviceMemory]:
    """The memories of the selected ranks. Raises InvalidRequest for a rank, thread or step that does not exist."""
    select_threads(profile, selection)
    device_memories = list_device_memories(profile)
    ranks = match_places(
        profile, selection, np.array([-1 if one.rank is None else one.rank for one in device_memories], np.int64)
    )
    return [one for one, inside in zip(device_memories, ranks.tolist(), strict=True) if inside]


def find_device_memory(profile: Profile, selection: Selection, key: str) -> DeviceMemory | None:
    """The memory with this key; without a key, the first one with totals. Raises InvalidRequest."""
    device_memories = select_device_memories(profile, selection)
    if not key:
        return next(
            (device_memory for device_memory in device_memories if series_of(profile, device_memory, ALLOCATED)),
            device_memories[0] if device_memories else None,
        )
    for device_memory in device_memories:
        if device_memory.key == key:
            return device_memory
    raise InvalidRequest(
        f"The selection has no data on the memory of {key[:40]!r}; choose one of "
        f"{', '.join(device_memory.key for device_memory in device_memories[:20]) or 'none'}.",
        "device",
    )


def selected_windows(profile: Profile, selection: Selection, rank: int | None) -> list[tuple[int, int]]:
    """The selected time ranges [from, to) of a rank, in ns; without a window all of the time."""
    low = MIN_TIME_NS if selection.start_ns is None else selection.start_ns
    high = MAX_TIME_NS if selection.end_ns is None else selection.end_ns
    if selection.step is None:
        return [(low, high)]
    steps = step_windows(profile, resolve_step(profile, selection.step))
    mine = [(max(low, start), min(high, end)) for of, start, end in steps if of is None or rank is None or of == rank]
    return [(start, end) for start, end in mine if start < end]


def in_windows(time_ns: Array, stretches: Sequence[tuple[int, int]]) -> Array:
    """Which of these times are in one of the ranges, as bools."""
    found = np.zeros(len(time_ns), bool)
    for start, end in stretches:
        found |= (time_ns >= start) & (time_ns < end)
    return found


def series_of(profile: Profile, device_memory: DeviceMemory, name: str) -> list[int]:
    """The rows of `series` of that name: one, or several where several processes use the device."""
    table = profile.series
    return [
        row
        for row, (of, device, unit) in enumerate(
            zip(
                get_strings(table, "name"),
                table.column("device").to_pylist(),
                get_strings(table, "unit"),
                strict=True,
            )
        )
        if of == name and device == device_memory.row and unit == "bytes"
    ]


def load_curve(profile: Profile, device_memory: DeviceMemory, name: str) -> Curve | None:
    """A series of a memory, summed over processes; None if there is none."""
    rows = series_of(profile, device_memory, name)
    if not rows:
        return None
    parts = [_values(profile, row) for row in rows]
    if len(parts) == 1:
        return parts[0]

    def build() -> Curve:
        times = _merge_times([part.time_ns for part in parts])
        return Curve(times, np.sum([values_at(part, times) for part in parts], axis=0))

    return memoize(profile, ("memory curve", device_memory.row, name), build)


def _merge_times(times: Sequence[Array]) -> Array:
    """The sorted times of several curves; a stable sort is fast for sorted runs."""
    return np.sort(np.concatenate(times), kind="stable")


def _values(profile: Profile, row: int) -> Curve:
    bounds = memoize(
        profile,
        "counter bounds",
        lambda: np.searchsorted(get_column(profile.counters, "series"), np.arange(profile.series.num_rows + 1)),
        pin=True,
    )
    low, high = int(bounds[row]), int(bounds[row + 1])
    return Curve(get_column(profile.counters, "time_ns")[low:high], get_column(profile.counters, "value")[low:high])


def values_at(of: Curve, time_ns: Array) -> Array:
    """The values of a curve at some times; before its first value, the first value."""
    device_memory = np.searchsorted(of.time_ns, time_ns, "right") - 1
    values: Array = of.value[np.maximum(device_memory, 0)]
    return values


def categories_of(profile: Profile, device_memory: DeviceMemory) -> list[str]:
    """The series of a memory that are parts of the allocated memory, with the names and order of the file."""
    table = profile.series
    known = zip(get_strings(table, "name"), table.column("device").to_pylist(), get_strings(table, "unit"), strict=True)
    # The categories of memory timelines are in capitals.
    return list(
        dict.fromkeys(n for n, of, unit in known if of == device_memory.row and unit == "bytes" and n.isupper())
    )


def find_peak(of: Curve | None, stretches: Sequence[tuple[int, int]]) -> MemoryPeak | None:
    """The maximum in some time ranges, including the value at their start."""
    best: MemoryPeak | None = None
    if of is None or not len(of.time_ns):
        return None
    for start, end in stretches:
        low = max(0, int(np.searchsorted(of.time_ns, start, "right")) - 1)
        high = int(np.searchsorted(of.time_ns, end, "left"))
        if high <= low:
            continue
        where = low + int(np.argmax(of.value[low:high]))
        value = int(of.value[where])
        if best is None or value > best.value:
            best = MemoryPeak(value, max(int(of.time_ns[where]), start))
    return best


def unused_curve(profile: Profile, device_memory: DeviceMemory) -> Curve | None:
    """Reserved minus allocated memory; None if either is unknown."""

    def build() -> Curve | None:
        allocated, reserved = (
            load_curve(profile, device_memory, ALLOCATED),
            load_curve(profile, device_memory, RESERVED),
        )
        if allocated is None or reserved is None or not len(allocated.time_ns) or not len(reserved.time_ns):
            return None
        times = _merge_times([allocated.time_ns, reserved.time_ns])
        return Curve(times, np.maximum(values_at(reserved, times) - values_at(allocated, times), 0))

    return memoize(profile, ("unused memory", device_memory.row), build)


def last_value(profile: Profile, device_memory: DeviceMemory, name: str, unit: str = "bytes") -> int | None:
    """The value of a series with one value at the end (see `domain.memory`); None if there is none."""
    table = profile.series
    for row, (of, device, of_unit) in enumerate(
        zip(get_strings(table, "name"), table.column("device").to_pylist(), get_strings(table, "unit"), strict=True)
    ):
        if (of, device, of_unit) == (name, device_memory.row, unit):
            value = _values(profile, row).value
            return int(value[-1]) if len(value) else None
    return None


@table_function
def compute_memory_curves(profile: Profile, selection: Selection) -> TableRows:
    """Every change of allocated, reserved and active memory, by memory; in a window first the value at its start."""
    values: dict[str, list[Any]] = {c.name: [] for c in CURVES}
    for device_memory in select_device_memories(profile, selection):
        for name in (*CURVE_NAMES, *categories_of(profile, device_memory)):
            curve = load_curve(profile, device_memory, name)
            for start, end in selected_windows(profile, selection, device_memory.rank) if curve else ():
                assert curve is not None
                low = max(0, int(np.searchsorted(curve.time_ns, start, "right")) - 1)
                high = int(np.searchsorted(curve.time_ns, end, "left"))
                times = np.maximum(curve.time_ns[low:high], start)
                values["time_us"] += (times / NS_PER_US).tolist()
                values["bytes"] += curve.value[low:high].astype(np.int64).tolist()
                for word, same in (("rank", device_memory.rank), ("device", device_memory.label), ("series", name)):
                    values[word] += [same] * len(times)
    return build_rows(CURVES, values)


@dataclass(frozen=True, eq=False)
class DownsampledCurve:
    """A curve reduced to columns of equal width: minimum and maximum in each, and the value at its end. column: the
    columns with changes; between them the last value holds. first: the value at the start."""

    column: Array
    low: Array
    high: Array
    last: Array
    first: float


def downsample_curve(of: Curve, start_ns: int, end_ns: int, columns: int) -> DownsampledCurve:
    """The part [start, end) of a curve in `columns` columns, with all extremes."""
    low = int(np.searchsorted(of.time_ns, start_ns, "left"))
    high = int(np.searchsorted(of.time_ns, end_ns, "left"))
    # The value at the start: the last one up to it.
    held = int(np.searchsorted(of.time_ns, start_ns, "right")) - 1
    first = float(of.value[max(held, 0)]) if len(of.value) else 0.0
    time_ns, value = of.time_ns[low:high], of.value[low:high]
    width = max(1, end_ns - start_ns)
    edges = start_ns + (np.arange(columns + 1, dtype=np.float64) * width / columns).astype(np.int64)
    begins = np.searchsorted(time_ns, edges[:-1], "left")
    ends = np.append(begins[1:], len(time_ns))
    rows = np.flatnonzero(ends > begins)
    if not len(rows):
        none = np.zeros(0)
        return DownsampledCurve(rows, none, none, none, first)
    starts = begins[rows]
    last = value[ends[rows] - 1]
    before = np.concatenate([[first], last[:-1]])
    least, most = np.minimum.reduceat(value, starts), np.maximum.reduceat(value, starts)
    return DownsampledCurve(rows, np.minimum(least, before), np.maximum(most, before), last, first)


TABLES = (Table("memory-curves", "Memory over time", CURVES, compute_memory_curves),)
"""The tables of this module."""
