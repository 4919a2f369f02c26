"""Blocks of memory: selection, allocation site and order.

A block is selected if it is allocated in the window (blocks from before the recording only without a window), on a
selected thread, with a selected call stack. So each belongs to one window.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...domain.arrays import MISSING, Array, Float64Array, IndexArray, Int64Array
from ...domain.memory import select_live
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, ROOT, FrameKind, get_column, get_strings
from ...domain.units import NS_PER_US
from ..core.common_columns import DEVICE_NAME, RANK
from ..core.functions import functions_of
from ..core.memo import memoize
from ..core.sample_selection import filter_calls, select_threads, threads_of
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..core.slice_selection import slices_of
from ..core.trees import nearest_ancestor
from ..ml.operators import innermost_slices
from .curves import (
    DeviceMemory,
    MemoryPeak,
    find_peak,
    in_windows,
    list_device_memories,
    load_curve,
    select_device_memories,
    selected_windows,
)

ALLOCATIONS = (
    Column("start_us", "µs", "Time of the allocation; missing if before the recording.", "Float64"),
    Column("end_us", "µs", "Time when it was freed; missing if never.", "Float64"),
    Column("bytes", "bytes", "Size, as requested by the program.", "int64"),
    DEVICE_NAME,
    Column(
        "operator", "", "The innermost operator that allocated it; for aten::empty, with the operator that called it."
    ),
    RANK,
    Column("duration_us", "µs", "Lifetime, if both ends are known.", "Float64"),
    Column("address", "", "Address, hexadecimal."),
    Column("thread", "", "The thread that allocated it."),
    Column("category", "", "Category recorded in the file: PARAMETER, ACTIVATION …, or a name of the program."),
    Column("source", "", "The innermost Python function on its call stack, with file and line if recorded."),
    Column("live_at_peak", "", "Whether it was live at the peak of its device.", "boolean"),
)
EMPTY = "aten::empty"
"""The operator that allocates memory for others."""


@dataclass(frozen=True, eq=False)
class RowLabels:
    """A text for each row: an index into the distinct `names`, NO_ID for none."""

    code: Array
    names: list[str]

    def ranked(self) -> Array:
        """A number for each row with the sort order of its text, none last."""
        order = sorted(range(len(self.names)), key=lambda n: self.names[n].casefold())
        rank = np.full(len(self.names) + 1, len(self.names), np.int64)
        rank[order] = np.arange(len(order))
        found: Int64Array = rank[self.code]
        return found

    def match(self, word: str) -> Array:
        """Mask of the rows whose text contains a word, ignoring case."""
        hit = np.array([word in name.casefold() for name in self.names] + [False], bool)
        found: Array = hit[self.code]
        return found

    def take(self, rows: Array) -> list[str | None]:
        """The texts of some rows."""
        return [self.names[code] if code >= 0 else None for code in self.code[rows].tolist()]


@dataclass(frozen=True, eq=False)
class MemoryBlocks:
    """The columns of `allocations` as arrays. Times in ns, MISSING for null; slice, end_slice, thread: -1 none."""

    start: Array
    end: Array
    bytes: Array
    device: Array
    thread: Array
    slice: Array
    end_slice: Array
    stack: Array

    def __len__(self) -> int:
        return len(self.bytes)


def blocks_of(profile: Profile) -> MemoryBlocks:
    """The blocks of a profile."""

    def build() -> MemoryBlocks:
        table = profile.allocations
        start, end = (table.column(name).fill_null(MISSING).to_numpy() for name in ("start_ns", "end_ns"))
        names = ("bytes", "device", "thread", "slice", "end_slice", "stack")
        return MemoryBlocks(start, end, *(get_column(table, name) for name in names))

    return memoize(profile, "blocks", build, pin=True)


def has_blocks(profile: Profile, device_memory: DeviceMemory) -> bool:
    """Whether the file contains blocks of a memory, not only totals."""
    return bool((blocks_of(profile).device == device_memory.row).any())


def has_paired_frees(profile: Profile, device_memory: DeviceMemory) -> bool:
    """Whether frees can be matched to allocations: the file contains addresses."""

    def build() -> bool:
        mine = blocks_of(profile).device == device_memory.row
        return bool((mine & profile.allocations.column("address").is_valid().to_numpy()).any())

    return memoize(profile, ("paired", device_memory.row), build)


def select_blocks(profile: Profile, selection: Selection, device_memory: DeviceMemory | None = None) -> IndexArray:
    """The selected rows of `allocations`, ascending. place: only of that memory. Raises InvalidRequest."""
    blocks = blocks_of(profile)
    found = _mask_blocks(profile, selection)
    if device_memory is not None:
        found &= blocks.device == device_memory.row
    if selection.start_ns is None and selection.end_ns is None and selection.step is None:
        # Without addresses, a free without an allocation is not a block of the file.
        return np.flatnonzero(found & ~_mask_lone_frees(profile))
    mask = np.zeros(len(blocks), bool)
    for one in [device_memory] if device_memory is not None else select_device_memories(profile, selection):
        mine = blocks.device == one.row
        mask |= mine & in_windows(blocks.start, selected_windows(profile, selection, one.rank))
    return np.flatnonzero(found & mask & (blocks.start != MISSING))


def _mask_lone_frees(profile: Profile) -> Array:
    """Mask of the rows that are only a free: without addresses its block is unknown."""
    blocks = blocks_of(profile)
    if not profile.allocations.column("address").null_count:
        return np.zeros(len(blocks), bool)
    none = profile.allocations.column("address").is_null().to_numpy()
    found: Array = none & (blocks.start == MISSING) & (blocks.end != MISSING)
    return found


def _mask_blocks(profile: Profile, selection: Selection) -> Array:
    """Which blocks are of selected ranks, threads and call stacks, as bools."""
    blocks = blocks_of(profile)
    found = np.ones(len(blocks), bool)
    if selection.ranks or selection.hosts:
        rows = [device_memory.row for device_memory in select_device_memories(profile, selection)]
        found &= np.isin(blocks.device, rows)
    if selection.divides_ranks:
        threads = select_threads(profile, selection.replace(ranks=(), hosts=()))
        if threads is not None:
            found &= np.append(threads, False)[blocks.thread]
    else:
        select_threads(profile, selection)
    kept = filter_calls(profile, selection)
    if kept is not None:
        found &= kept[get_column(profile.stacks, "call")[blocks.stack]]
    return found


def find_block_peak(profile: Profile, selection: Selection, device_memory: DeviceMemory) -> MemoryPeak | None:
    """Time and size of the peak in the window of a selection."""
    return find_peak(
        load_curve(profile, device_memory, "allocated"), selected_windows(profile, selection, device_memory.rank)
    )


def live_blocks(profile: Profile, selection: Selection, device_memory: DeviceMemory, time_ns: int) -> Array:
    """The rows of the live blocks of a memory at a time. Of the selection, ranks, threads and stacks apply, but not the
    window, because blocks can be older."""
    blocks = blocks_of(profile)
    if not has_paired_frees(profile, device_memory):
        return np.zeros(0, np.int64)
    mask: Array = (blocks.device == device_memory.row) & select_live(blocks.start, blocks.end, time_ns)
    return np.flatnonzero(mask & _mask_blocks(profile, selection))


def unfreed_blocks(profile: Profile, selection: Selection, device_memory: DeviceMemory) -> Array:
    """The rows of the selected blocks of a memory that were not freed by the end of the window."""
    blocks, rows = blocks_of(profile), select_blocks(profile, selection, device_memory)
    if not has_paired_frees(profile, device_memory):
        return rows[:0]
    rows = rows[blocks.start[rows] != MISSING]
    gone = np.zeros(len(rows), bool)
    for start, end in selected_windows(profile, selection, device_memory.rank):
        of = (blocks.start[rows] >= start) & (blocks.start[rows] < end)
        gone |= of & (blocks.end[rows] != MISSING) & (blocks.end[rows] < end)
    left: Array = rows[~gone]
    return left


def block_operators(profile: Profile) -> RowLabels:
    """The operator that allocated each block: the innermost one; for aten::empty, with its caller."""

    def build() -> RowLabels:
        blocks, slices, functions = blocks_of(profile), slices_of(profile), functions_of(profile)
        if not len(slices):
            return RowLabels(np.full(len(blocks), NO_ID), [])
        operator = slices.is_kind("operator")
        empty = np.array([name.startswith(EMPTY) for name in functions.names] + [False], bool)[functions.name]
        inner = _find_enclosing_slices(slices.parent, operator, blocks.slice)
        known = np.maximum(inner, 0)
        function = slices.function[known].astype(np.int64)
        others = operator & ~empty[slices.function]
        outer = np.where(empty[function], _find_enclosing_slices(slices.parent, others, inner), NO_ID)
        maker = np.where(outer >= 0, slices.function[np.maximum(outer, 0)], NO_ID).astype(np.int64)
        key = np.where(inner >= 0, (maker + 1) << 32 | functions.canonical[function], NO_ID)
        distinct, code = np.unique(key, return_inverse=True)
        device_memory: dict[str, int] = {}
        codes = []
        for one in distinct.tolist():
            if one < 0:
                codes.append(NO_ID)
                continue
            name = functions.name_of(one & 0xFFFFFFFF)
            made = (one >> 32) - 1
            text = f"{functions.name_of(made)} ({name})" if made >= 0 else name
            codes.append(device_memory.setdefault(text, len(device_memory)))
        return RowLabels(np.array(codes or [0], np.int64)[code], list(device_memory))

    return memoize(profile, "operators of blocks", build)


def _find_enclosing_slices(parent: Array, wanted: Array, rows: Array) -> Array:
    """For each slice (-1: none) the innermost of itself and its ancestors in `wanted`; -1 if there is none."""
    known = rows >= 0
    return np.where(known, innermost_slices(parent, wanted, np.maximum(rows, 0)), NO_ID)


def block_sources(profile: Profile) -> RowLabels:
    """The innermost function of Python on the call stack of each block."""

    def build() -> RowLabels:
        blocks, stacks = blocks_of(profile), profile.stacks
        frame_of = get_column(stacks, "frame")
        kind = get_column(profile.frames, "kind")
        stays = np.append(kind == int(FrameKind.PYTHON), False)[frame_of]
        stays[ROOT : ROOT + 1] = True
        near = nearest_ancestor(get_column(stacks, "parent"), get_column(stacks, "end"), stays)
        frames = frame_of[near[blocks.stack]]
        distinct, code = np.unique(frames, return_inverse=True)
        known = distinct[distinct >= 0]
        function = get_column(profile.frames, "function")[known]
        files = get_strings(profile.functions.select(["file"]).take(pa.array(function)), "file")
        lines = profile.frames.column("line").take(pa.array(known)).to_pylist()
        device_memory: dict[str, int] = {}
        codes = [NO_ID] * (len(distinct) - len(known))
        for name, file, line in zip(functions_of(profile).names_of(function), files, lines, strict=True):
            text = f"{name} ({file}:{line})" if file and line else f"{name} ({file})" if file else name
            codes.append(device_memory.setdefault(text, len(device_memory)))
        return RowLabels(np.array(codes or [0], np.int64)[code], list(device_memory))

    return memoize(profile, "sources of blocks", build)


def block_categories(profile: Profile) -> RowLabels:
    """The description of each block in the file."""

    def build() -> RowLabels:
        encoded = profile.allocations.column("category").combine_chunks().dictionary_encode()
        return RowLabels(encoded.indices.fill_null(NO_ID).to_numpy(), column_texts(encoded.dictionary))

    return memoize(profile, "categories of blocks", build)


def column_texts(array: pa.Array) -> list[str]:
    """A text column."""
    return [value or "" for value in array.to_pylist()]


@table_function
def compute_allocations(profile: Profile, selection: Selection) -> TableRows:
    """One row for each selected block, in order of allocation."""
    return build_allocation_rows.rows(profile, selection, select_blocks(profile, selection))


@table_function
def build_allocation_rows(profile: Profile, selection: Selection, rows: Array) -> TableRows:
    """The table of these rows of `allocations`, in their order. selection: for the peaks."""
    blocks, known = (
        blocks_of(profile),
        {device_memory.row: device_memory for device_memory in list_device_memories(profile)},
    )
    start, end, device = blocks.start[rows], blocks.end[rows], blocks.device[rows]
    order = sorted(known)
    code = np.searchsorted(np.array(order or [0]), device)
    labels = [known[row].label for row in order]
    ranks = [known[row].rank for row in order]
    threads = threads_of(profile)
    names = [name or key for name, key in zip(threads.name, threads.key, strict=True)]
    at_peak = np.full(len(rows), -1, np.int8)
    for number, row in enumerate(order):
        mine = code == number
        most = find_block_peak(profile, selection, known[row])
        if most is not None and has_paired_frees(profile, known[row]):
            at_peak[mine] = select_live(start[mine], end[mine], most.time_ns)
    address = profile.allocations.column("address").take(pa.array(rows)).to_pylist()
    return build_rows(
        ALLOCATIONS,
        {
            "start_us": _micros(start),
            "end_us": _micros(end),
            "bytes": blocks.bytes[rows],
            "device": [labels[n] for n in code.tolist()],
            "operator": block_operators(profile).take(rows),
            "rank": [ranks[n] for n in code.tolist()],
            "duration_us": _micros(np.where((start == MISSING) | (end == MISSING), MISSING, end - start)),
            "address": [None if value is None else f"0x{value & (1 << 64) - 1:x}" for value in address],
            "thread": [names[t] if t >= 0 else None for t in blocks.thread[rows].tolist()],
            "category": block_categories(profile).take(rows),
            "source": block_sources(profile).take(rows),
            "live_at_peak": [None if n < 0 else bool(n) for n in at_peak.tolist()],
        },
    )


def _micros(ns: Array) -> Float64Array:
    """Microseconds; NaN for MISSING."""
    return np.where(ns == MISSING, np.nan, ns / NS_PER_US)


def search_blocks(profile: Profile, rows: Array, search: str) -> Array:
    """The blocks whose allocation or description contains every word of a search, ignoring case."""
    labels = [of(profile) for of in (block_operators, block_sources, block_categories)]
    for word in dict.fromkeys(search.casefold().split()):
        hit = np.zeros(len(rows), bool)
        for label in labels:
            hit |= label.match(word)[rows]
        rows = rows[hit]
    return rows


def sort_blocks(
    profile: Profile, selection: Selection, rows: Array, by: str, descending: bool, most: int | None = None
) -> Array:
    """Some blocks sorted by a column of `ALLOCATIONS`; missing values last; stable.

    most: only the first `most` are needed.
    """
    blocks = blocks_of(profile)
    start, end = blocks.start[rows], blocks.end[rows]
    missing = np.zeros(len(rows), bool)
    if by in ("operator", "source", "category"):
        label = {"operator": block_operators, "source": block_sources, "category": block_categories}[by](profile)
        key, missing = label.ranked()[rows], label.code[rows] < 0
    elif by in ("start_us", "end_us"):
        key = start if by == "start_us" else end
        missing = key == MISSING
    elif by == "duration_us":
        missing = (start == MISSING) | (end == MISSING)
        key = np.where(missing, 0, end - start)
    elif by == "address":
        address = profile.allocations.column("address")
        key, missing = address.fill_null(0).to_numpy()[rows], address.is_null().to_numpy()[rows]
    elif by == "live_at_peak":
        key = np.zeros(len(rows), np.int64)
        for device_memory in select_device_memories(profile, selection):
            if (block_peak := find_block_peak(profile, selection, device_memory)) is not None:
                key[select_live(start, end, block_peak.time_ns) & (blocks.device[rows] == device_memory.row)] = 1
    else:
        key = blocks.bytes[rows]
    key = np.where(missing, np.iinfo(np.int64).max, -key if descending else key)
    if most is not None and len(rows) > 4 * most:
        first = np.flatnonzero(key <= np.partition(key, most - 1)[most - 1])
        rows, key = rows[first], key[first]
    found: Array = rows[np.argsort(key, kind="stable")][:most]
    return found


TABLES = (Table("allocations", "Allocations", ALLOCATIONS, compute_allocations),)
"""The tables of this module."""
