"""The timeline: slices by thread and depth, samples by event and thread, each with its levels of detail.

Preparation takes seconds for millions of events, so it is done once (`prepare_timeline`) and stored in a file;
`open_timeline` makes a `Timeline` from the stored arrays. The code of a box is the function and its kind in one number.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, Int32Array
from ...domain.profile import Profile
from ...domain.tables import NO_ID, DeviceWorkKind, FrameKind, get_column, get_strings
from ..core.functions import KIND_NAMES, functions_of
from ..core.sample_selection import samples_of
from ..core.sample_spans import SampleSpan, place_samples, spans_of
from .mipmap import (
    LevelRange,
    Mipmap,
    MipmapItems,
    TimelineEvents,
    build_mipmaps,
    cut_overlaps,
    pack_mipmaps,
    single_items,
    unpack_mipmaps,
)

CACHE_NAME = "timeline-4"
"""The name of the file. The number changes with its contents."""
KINDS = (*KIND_NAMES, "communication", "memory")
"""The kinds of slices and frames: those of frames, and device work other than computation."""
MAX_COUNTED = 1 << 20
NO_CODE = -1
"""The code of a sample without a stack."""
_KIND_OF_CATEGORY = {
    "operator": FrameKind.OPERATOR,
    "python": FrameKind.PYTHON,
    "module": FrameKind.PYTHON,
    "annotation": FrameKind.ANNOTATION,
    "runtime": FrameKind.RUNTIME,
    "kernel": FrameKind.GPU_KERNEL,
    "memcpy": KINDS.index("memory"),
    "memset": KINDS.index("memory"),
    "memory": KINDS.index("memory"),
    "device_annotation": FrameKind.ANNOTATION,
}
_KIND_OF_WORK = {
    DeviceWorkKind.COMPUTATION: FrameKind.GPU_KERNEL,
    DeviceWorkKind.COMMUNICATION: KINDS.index("communication"),
    DeviceWorkKind.MEMCPY: KINDS.index("memory"),
    DeviceWorkKind.MEMSET: KINDS.index("memory"),
    DeviceWorkKind.OTHER: FrameKind.UNKNOWN,
}


@dataclass(frozen=True, eq=False)
class Timeline:
    """Slices, samples, instants and steps with their levels; cpus: samples by event and CPU.

    depths: number of rows of slices of each thread; first: the number of its first row. threads: number of threads.
    ranks: of the rows of steps, NO_ID for none. spans: the time span of samples by event. clipped_ns: by event and
    thread, the weight of a clock that is not drawn because it overlaps an earlier sample. stack_depths: by event and
    thread, the number of rows of its stacks. cpu_rows: (index of the host in `hosts_of`, number) of each CPU.
    """

    slices: tuple[Mipmap, ...]
    samples: tuple[Mipmap, ...]
    cpus: tuple[Mipmap, ...]
    instants: tuple[Mipmap, ...]
    steps: tuple[Mipmap, ...]
    depths: Array
    first: Array
    threads: int
    ranks: tuple[int, ...]
    spans: tuple[SampleSpan, ...]
    clipped_ns: Array
    stack_depths: Array
    cpu_rows: Array

    def find_slices(
        self, thread: int, depth: int, start_ns: int, end_ns: int, cell: int, most: int
    ) -> LevelRange | None:
        """The slices of a thread at a depth; see `Pyramid.find`."""
        return _find(self.slices, int(self.first[thread]) + depth, start_ns, end_ns, cell, most)

    def find_samples(
        self, event: int, thread: int, start_ns: int, end_ns: int, cell: int, most: int
    ) -> LevelRange | None:
        """The samples of an event on a thread; see `Pyramid.find`."""
        return _find(self.samples, event * self.threads + thread, start_ns, end_ns, cell, most)

    def find_cpu_samples(
        self, event: int, place: int, start_ns: int, end_ns: int, cell: int, most: int
    ) -> LevelRange | None:
        """The samples of an event on the CPU at a place of `cpu_rows`; see `Pyramid.find`."""
        return _find(self.cpus, event * len(self.cpu_rows) + place, start_ns, end_ns, cell, most)

    def count_cpu_samples(self, event: int) -> Array:
        """The number of samples of an event on each CPU of `cpu_rows`."""
        counts = np.zeros(len(self.cpu_rows), np.int64)
        for pyramid in self.cpus:
            level = pyramid.levels[0]
            of, place = np.divmod(level.rows, max(len(counts), 1))
            counts[place[of == event]] = np.diff(level.bounds)[of == event]
        return counts

    def find_instants(self, thread: int, start_ns: int, end_ns: int, cell: int, most: int) -> LevelRange | None:
        """The instants on a thread, NO_ID for those on none; see `Pyramid.find`."""
        return _find(self.instants, thread - NO_ID, start_ns, end_ns, cell, most)

    def find_steps(self, place: int, start_ns: int, end_ns: int, cell: int, most: int) -> LevelRange | None:
        """The steps of the rank at a place of `ranks`; see `Pyramid.find`."""
        return _find(self.steps, place, start_ns, end_ns, cell, most)


def prepare_timeline(profile: Profile) -> dict[str, Array]:
    """Everything that is computed once, as arrays to be stored; about a second for two million slices or samples."""
    samples, cpu_rows = _samples(profile), _list_cpus(profile)
    return {
        "depths": _depths(profile),
        "clipped": _clipped_weights(profile, samples),
        "stack_depths": _stack_depths(profile, samples),
        "cpu_rows": cpu_rows.ravel(),
        **pack_mipmaps(build_mipmaps(samples), "samples"),
        **pack_mipmaps(build_mipmaps(_cpu_samples(profile, cpu_rows)), "cpus"),
        **pack_mipmaps(build_mipmaps(_slices(profile)), "slices"),
        **pack_mipmaps(build_mipmaps(_instants(profile)), "instants"),
        **pack_mipmaps(build_mipmaps(_steps(profile)), "steps"),
    }


def open_timeline(profile: Profile, arrays: Mapping[str, Array]) -> Timeline:
    """The timeline from prepared arrays. It refers to columns of the profile, not to the profile."""
    depths, cpu_rows = arrays["depths"], arrays["cpu_rows"].reshape(-1, 2)
    threads, shape = profile.threads.num_rows, (profile.events.num_rows, profile.threads.num_rows)
    return Timeline(
        slices=unpack_mipmaps(arrays, "slices", _SliceSource(profile).finest),
        samples=unpack_mipmaps(arrays, "samples", _SampleSource(profile, threads).finest),
        cpus=unpack_mipmaps(arrays, "cpus", _SampleSource(profile, len(cpu_rows)).finest),
        instants=unpack_mipmaps(arrays, "instants", _InstantSource(profile).finest),
        steps=unpack_mipmaps(arrays, "steps", _StepSource(profile).finest),
        depths=depths,
        first=np.cumsum(depths) - depths,
        threads=threads,
        ranks=tuple(np.unique(_step_ranks(profile)).tolist()),
        spans=spans_of(profile),
        clipped_ns=arrays["clipped"].reshape(shape),
        stack_depths=arrays["stack_depths"].reshape(shape),
        cpu_rows=cpu_rows,
    )


def code_names(codes: Array) -> tuple[Array, Array]:
    """(functions, kinds) of codes, which must not be `NO_CODE`."""
    function, kind = np.divmod(codes, len(KINDS))
    return function, kind


def _find(mipmaps: tuple[Mipmap, ...], row: int, start_ns: int, end_ns: int, cell: int, most: int) -> LevelRange | None:
    for pyramid in mipmaps:
        if pyramid.low <= row < pyramid.high:
            return pyramid.find(row, start_ns, end_ns, cell, most)
    return None


class _SliceSource:
    """The columns of slices, none of them copied."""

    def __init__(self, profile: Profile) -> None:
        table = profile.slices
        self.duration, self.function = get_column(table, "duration_ns"), get_column(table, "function")
        self.category, self.canonical = get_column(table, "category"), functions_of(profile).canonical
        kinds = [
            int(_KIND_OF_CATEGORY.get(kind, FrameKind.UNKNOWN)) for kind in get_strings(profile.categories, "kind")
        ]
        self.kind_of_category = np.array(kinds, np.int32)
        # The kind of frames in this format, for generic categories.
        self.kind_of_function = np.full(profile.functions.num_rows, FrameKind.UNKNOWN, np.int32)
        self.kind_of_function[get_column(profile.frames, "function")] = get_column(profile.frames, "kind")
        self.work, self.work_kind = get_column(profile.device_work, "slice"), get_column(profile.device_work, "kind")
        self.kind_of_work = np.array([int(_KIND_OF_WORK[kind]) for kind in DeviceWorkKind], np.int32)

    def codes(self, slices: Array) -> Array:
        """The codes of these slices."""
        kind = self.kind_of_category[self.category[slices]]
        kind = np.where(kind == FrameKind.UNKNOWN, self.kind_of_function[self.function[slices]], kind)
        if len(self.work):
            at = np.minimum(np.searchsorted(self.work, slices), len(self.work) - 1)
            kind = np.where(self.work[at] == slices, self.kind_of_work[self.work_kind[at]], kind)
        codes: Array = self.canonical[self.function[slices]] * np.int32(len(KINDS)) + kind
        return codes

    def finest(self, row: Array, event_row: Array, start: Array, follows: Array) -> MipmapItems:
        """Slices as items."""
        length = self.duration[event_row]
        return single_items(event_row, start, np.minimum(start + length, follows), self.codes(event_row), length)


def _depths(profile: Profile) -> Array:
    thread, depth = get_column(profile.slices, "thread"), get_column(profile.slices, "depth")
    depths = np.zeros(profile.threads.num_rows, np.int32)
    if len(thread):
        first = np.flatnonzero(np.diff(thread, prepend=-1))
        depths[thread[first]] = np.maximum.reduceat(depth, first) + 1
    return depths


def _slices(profile: Profile) -> TimelineEvents:
    table = profile.slices
    depths = _depths(profile)
    first = np.cumsum(depths) - depths
    row = (first[get_column(table, "thread")] + get_column(table, "depth")).astype(np.int32)
    order = _by_row(row)
    start, length = get_column(table, "start_ns")[order], get_column(table, "duration_ns")[order]
    row = row[order]
    return TimelineEvents(
        row=row,
        event_row=order,
        start=start,
        end=cut_overlaps(row, start, start + length),
        code=_SliceSource(profile).codes(order),
        weight=length,
    )


class _SampleSource:
    """The columns of samples. rows: of each event, one for a thread or a CPU."""

    def __init__(self, profile: Profile, rows: int) -> None:
        samples = samples_of(profile)
        self.time, self.weight, self.stack = samples.time_ns, samples.weight, samples.stack
        function, kind = get_column(profile.calls, "function"), get_column(profile.calls, "kind")
        canonical = functions_of(profile).canonical
        code = np.full(len(function), NO_CODE, np.int32)
        code[1:] = canonical[function[1:]] * np.int32(len(KINDS)) + kind[1:]
        self.code_of_stack = code[samples.call]
        self.lasts = np.array([span is SampleSpan.AFTER for span in spans_of(profile)], bool)
        self.rows = max(rows, 1)

    def finest(self, row: Array, event_row: Array, start: Array, follows: Array) -> MipmapItems:
        """Samples as items, as `spans.drawn` has them."""
        weight, end = self.weight[event_row], self.time[event_row]
        lasting = self.lasts[row // self.rows]
        end = np.where(lasting, np.minimum(end + np.maximum(weight, 0), follows), end) if lasting.any() else end
        return single_items(event_row, start, end, self.codes(event_row), weight)

    def codes(self, samples: Array) -> Array:
        """The codes of these samples."""
        codes: Int32Array = self.code_of_stack[self.stack[samples]]
        return codes


def _samples(profile: Profile) -> TimelineEvents:
    """Samples by event and thread."""
    samples, threads = samples_of(profile), profile.threads.num_rows
    row = samples.event.astype(np.int64) * max(threads, 1) + samples.thread
    return _place(profile, row, _by_row(row), threads)


def _place(profile: Profile, row: Array, order: Array, rows: int) -> TimelineEvents:
    """Samples as events. row: of each sample of `order`, which is sorted by it. rows: of each event."""
    samples = samples_of(profile)
    row = row[order]
    new = np.diff(row, prepend=-1) != 0
    start, end = place_samples(profile, samples, spans_of(profile), row, order, new)
    codes = _SampleSource(profile, rows).codes(order)
    return TimelineEvents(row.astype(np.int32), order, start, end, codes, samples.weight[order])


def hosts_of(profile: Profile) -> list[str | None]:
    """The distinct hosts of threads, in the order of their first thread."""
    return list(dict.fromkeys(profile.threads.column("host").to_pylist()))


def _list_cpus(profile: Profile) -> Array:
    """(index of the host, number of the CPU) of each CPU with samples, int64; none if samples do not know their CPU."""
    cpu, host = get_column(profile.samples, "cpu"), _host_of_samples(profile)
    cpus = max(int(cpu.max(initial=NO_ID)) + 1, 1)
    keys = (host * cpus + cpu)[cpu >= 0]
    # Counting is faster than sorting; a file can have any number.
    used = np.flatnonzero(np.bincount(keys)) if int(keys.max(initial=0)) < MAX_COUNTED else np.unique(keys)
    return np.stack(np.divmod(used, cpus), axis=1)


def _host_of_samples(profile: Profile) -> Array:
    """The index in `hosts_of` of the host of each sample."""
    names = {host: number for number, host in enumerate(hosts_of(profile))}
    of_thread = np.array([names[host] for host in profile.threads.column("host").to_pylist()], np.int64)
    found: Array = of_thread[samples_of(profile).thread]
    return found


def _cpu_samples(profile: Profile, cpu_rows: Array) -> TimelineEvents:
    """Samples by event and CPU; those that do not know their CPU are omitted."""
    samples, cpu = samples_of(profile), get_column(profile.samples, "cpu").astype(np.int64)
    cpus = int(cpu_rows[:, 1].max(initial=0)) + 1
    known = np.flatnonzero(cpu >= 0)
    keys = cpu_rows[:, 0] * cpus + cpu_rows[:, 1]
    row = np.full(len(cpu), NO_ID, np.int64)
    row[known] = np.searchsorted(keys, (_host_of_samples(profile) * cpus + cpu)[known])
    row[known] += samples.event[known].astype(np.int64) * len(cpu_rows)
    order = known[_by_row(row[known])].astype(np.int32)
    return _place(profile, row, order, len(cpu_rows))


def _stack_depths(profile: Profile, samples: TimelineEvents) -> Array:
    """The number of frames of the longest stack, by event × threads + thread. Frames of one function are merged, as in
    a flame graph."""
    depths = np.zeros(profile.events.num_rows * profile.threads.num_rows, np.int32)
    if len(samples):
        columns, first = samples_of(profile), np.flatnonzero(np.diff(samples.row, prepend=-1))
        depth_of_stack = get_column(profile.calls, "depth")[columns.call]
        depths[samples.row[first]] = np.maximum.reduceat(depth_of_stack[columns.stack[samples.event_row]], first)
    return depths


def _clipped_weights(profile: Profile, samples: TimelineEvents) -> Array:
    """The weights of clocks that are not drawn (ns), by event × threads + thread."""
    clocks = np.array([span is SampleSpan.BEFORE for span in spans_of(profile)], bool)
    clipped_weights = np.zeros(profile.events.num_rows * profile.threads.num_rows, np.int64)
    if clocks.any():
        first = np.flatnonzero(np.diff(samples.row, prepend=-1))
        first = first[clocks[samples.row[first] // profile.threads.num_rows]]
        hidden = np.maximum(samples.weight, 0) - (samples.end - samples.start)
        after = np.searchsorted(samples.row, samples.row[first], "right")
        running = np.concatenate((np.zeros(1, np.int64), np.cumsum(hidden)))
        clipped_weights[samples.row[first]] = running[after] - running[first]
    return clipped_weights


class _InstantSource:
    """The columns of instants: weight 1, duration 0."""

    def __init__(self, profile: Profile) -> None:
        self.function, self.canonical = get_column(profile.instants, "function"), functions_of(profile).canonical

    def finest(self, row: Array, event_row: Array, start: Array, follows: Array) -> MipmapItems:
        """Instants as items."""
        code = self.canonical[self.function[event_row]] * np.int32(len(KINDS)) + np.int32(FrameKind.UNKNOWN)
        return single_items(event_row, start, start, code, np.ones(len(event_row), np.int64))


def _instants(profile: Profile) -> TimelineEvents:
    row = get_column(profile.instants, "thread") - NO_ID
    order = _by_row(row)
    start = get_column(profile.instants, "time_ns")[order]
    items = _InstantSource(profile).finest(row, order, start, start)
    return TimelineEvents(row[order].astype(np.int32), order, start, start, items.code, items.weight)


class _StepSource:
    """The columns of steps. The code of a step is its row."""

    def __init__(self, profile: Profile) -> None:
        self.end = get_column(profile.steps, "end_ns")

    def finest(self, row: Array, event_row: Array, start: Array, follows: Array) -> MipmapItems:
        """Steps as items."""
        end = np.minimum(np.maximum(self.end[event_row], start), follows)
        return single_items(event_row, start, end, event_row, end - start)


def _step_ranks(profile: Profile) -> Array:
    ranks: Array = profile.steps.column("rank").fill_null(NO_ID).to_numpy()
    return ranks


def _steps(profile: Profile) -> TimelineEvents:
    start, end = get_column(profile.steps, "start_ns"), get_column(profile.steps, "end_ns")
    row = np.unique(_step_ranks(profile), return_inverse=True)[1]
    order = np.lexsort((start, row)).astype(np.int32)
    row, start = row[order], start[order]
    ends = cut_overlaps(row, start, end[order])
    return TimelineEvents(row.astype(np.int32), order, start, ends, order, ends - start)


def _by_row(row: Array) -> Array:
    """A stable order by row."""
    # numpy sorts 16-bit integers by radix.
    narrow = row.astype(np.uint16) if int(row.max(initial=0)) < 1 << 16 else row
    return np.argsort(narrow, kind="stable").astype(np.int32)
