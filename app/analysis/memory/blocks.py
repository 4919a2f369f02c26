"""Blocks of memory: which a selection picks, what made each, and in what order a page shows them.

A block is picked when it is allocated in the window (what was there before, only where there is no window), on one of
the threads, and its call stack is kept. So each belongs to one window.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ...domain.arrays import Array, IndexArray, Int64Array
from ...domain.memory import MISSING, live_at
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, ROOT, FrameKind, column, texts
from ..core.functions import functions_of
from ..core.picking import calls_kept, threads_of, threads_selected
from ..core.remember import remembered
from ..core.schema import Column, frame
from ..core.slices import slices_of
from ..core.trees import nearest_above
from ..ml.operators import nearest
from .curves import NS_PER_US, Place, Top, curve, inside, places, places_selected, top, windows

ALLOCATIONS = (
    Column("start_us", "µs", "When it was allocated; missing for what was there before the recording.", "Float64"),
    Column("end_us", "µs", "When it was freed; missing for what never was.", "Float64"),
    Column("bytes", "bytes", "How large it is, as the program asked for it.", "int64"),
    Column("device", "", "GPU and its number, or CPU; memory where the file does not tell."),
    Column(
        "operator", "", "The innermost operator that made it; what aten::empty made is named with the operator around."
    ),
    Column("rank", "", "The rank; missing where there are none.", "Int64"),
    Column("duration_us", "µs", "How long it lived, where both ends are known.", "Float64"),
    Column("address", "", "Where it lies, in hexadecimal digits."),
    Column("thread", "", "The thread that allocated it."),
    Column("category", "", "What the file says of it: PARAMETER, ACTIVATION …, or the program's own word."),
    Column("source", "", "The innermost function of Python on its call stack, with file and line where recorded."),
    Column("live_at_peak", "", "Whether it lived when most was allocated on its device.", "boolean"),
)
EMPTY = "aten::empty"
"""The operator that others get their memory from."""


@dataclass(frozen=True, eq=False)
class Labels:
    """A text for each of many rows: a place in `names`, which are distinct, NO_ID for none."""

    code: Array
    names: list[str]

    def ranked(self) -> Array:
        """A number for each row that sorts as its text does, none last."""
        order = sorted(range(len(self.names)), key=lambda n: self.names[n].casefold())
        rank = np.full(len(self.names) + 1, len(self.names), np.int64)
        rank[order] = np.arange(len(order))
        found: Int64Array = rank[self.code]
        return found

    def matching(self, word: str) -> Array:
        """Which rows have a word in their text, whatever its case, as bools."""
        hit = np.array([word in name.casefold() for name in self.names] + [False], bool)
        found: Array = hit[self.code]
        return found

    def of(self, rows: Array) -> list[str | None]:
        """The texts of some rows."""
        return [self.names[code] if code >= 0 else None for code in self.code[rows].tolist()]


@dataclass(frozen=True, eq=False)
class Blocks:
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


def blocks_of(profile: Profile) -> Blocks:
    """The blocks of a profile."""

    def build() -> Blocks:
        table = profile.allocations
        start, end = (table.column(name).fill_null(MISSING).to_numpy() for name in ("start_ns", "end_ns"))
        names = ("bytes", "device", "thread", "slice", "end_slice", "stack")
        return Blocks(start, end, *(column(table, name) for name in names))

    return remembered(profile, "blocks", build, pin=True)


def known_on(profile: Profile, place: Place) -> bool:
    """Whether the file tells of blocks of a memory, and not only how much there was."""
    return bool((blocks_of(profile).device == place.row).any())


def paired_on(profile: Profile, place: Place) -> bool:
    """Whether the file tells which free belongs to which allocation: it has addresses."""

    def build() -> bool:
        mine = blocks_of(profile).device == place.row
        return bool((mine & profile.allocations.column("address").is_valid().to_numpy()).any())

    return remembered(profile, ("paired", place.row), build)


def picked(profile: Profile, selection: Selection, place: Place | None = None) -> IndexArray:
    """The rows of `allocations` that are picked, ascending. place: of that memory only. Raises InvalidRequest."""
    blocks = blocks_of(profile)
    found = _kept(profile, selection)
    if place is not None:
        found &= blocks.device == place.row
    if selection.start_ns is None and selection.end_ns is None and selection.step is None:
        # What was freed and never allocated is no block of the file's where it has no addresses.
        return np.flatnonzero(found & ~_only_freed(profile))
    mask = np.zeros(len(blocks), bool)
    for one in [place] if place is not None else places_selected(profile, selection):
        mine = blocks.device == one.row
        mask |= mine & inside(blocks.start, windows(profile, selection, one.rank))
    return np.flatnonzero(found & mask & (blocks.start != MISSING))


def _only_freed(profile: Profile) -> Array:
    """Which rows tell of a free alone, as bools: without addresses nothing tells what was freed."""
    blocks = blocks_of(profile)
    if not profile.allocations.column("address").null_count:
        return np.zeros(len(blocks), bool)
    none = profile.allocations.column("address").is_null().to_numpy()
    found: Array = none & (blocks.start == MISSING) & (blocks.end != MISSING)
    return found


def _kept(profile: Profile, selection: Selection) -> Array:
    """Which blocks are of the ranks, threads and call stacks that are selected, as bools."""
    blocks = blocks_of(profile)
    found = np.ones(len(blocks), bool)
    if selection.ranks:
        mine = [one.row for one in places_selected(profile, selection)]
        found &= np.isin(blocks.device, mine)
    if selection.threads:
        chosen = threads_selected(profile, selection.only(ranks=()))
        if chosen is not None:
            found &= np.append(chosen, False)[blocks.thread]
    else:
        threads_selected(profile, selection)
    kept = calls_kept(profile, selection)
    if kept is not None:
        found &= kept[column(profile.stacks, "call")[blocks.stack]]
    return found


def peak(profile: Profile, selection: Selection, place: Place) -> Top | None:
    """When most was allocated in the window of a selection, and how much."""
    return top(curve(profile, place, "allocated"), windows(profile, selection, place.rank))


def live(profile: Profile, selection: Selection, place: Place, time_ns: int) -> Array:
    """The rows of the blocks of a memory that live at a time; of a selection ranks, threads and stacks count, and not
    the window, which they may come from before."""
    blocks = blocks_of(profile)
    if not paired_on(profile, place):
        return np.zeros(0, np.int64)
    mask: Array = (blocks.device == place.row) & live_at(blocks.start, blocks.end, time_ns)
    return np.flatnonzero(mask & _kept(profile, selection))


def never_freed(profile: Profile, selection: Selection, place: Place) -> Array:
    """The rows of the picked blocks of a memory that were not freed by the end of the window they were allocated in."""
    blocks, rows = blocks_of(profile), picked(profile, selection, place)
    if not paired_on(profile, place):
        return rows[:0]
    rows = rows[blocks.start[rows] != MISSING]
    gone = np.zeros(len(rows), bool)
    for start, end in windows(profile, selection, place.rank):
        of = (blocks.start[rows] >= start) & (blocks.start[rows] < end)
        gone |= of & (blocks.end[rows] != MISSING) & (blocks.end[rows] < end)
    left: Array = rows[~gone]
    return left


def operators_of(profile: Profile) -> Labels:
    """What made each block: its innermost operator, with the one around it for aten::empty, which others call."""

    def build() -> Labels:
        blocks, slices, functions = blocks_of(profile), slices_of(profile), functions_of(profile)
        if not len(slices):
            return Labels(np.full(len(blocks), NO_ID), [])
        operator = slices.of_kind("operator")
        empty = np.array([name.startswith(EMPTY) for name in functions.names] + [False], bool)[functions.name]
        inner = _around(slices.parent, operator, blocks.slice)
        known = np.maximum(inner, 0)
        function = slices.function[known].astype(np.int64)
        others = operator & ~empty[slices.function]
        outer = np.where(empty[function], _around(slices.parent, others, inner), NO_ID)
        maker = np.where(outer >= 0, slices.function[np.maximum(outer, 0)], NO_ID).astype(np.int64)
        key = np.where(inner >= 0, (maker + 1) << 32 | functions.canonical[function], NO_ID)
        distinct, code = np.unique(key, return_inverse=True)
        place: dict[str, int] = {}
        codes = []
        for one in distinct.tolist():
            if one < 0:
                codes.append(NO_ID)
                continue
            name = functions.name_of(one & 0xFFFFFFFF)
            made = (one >> 32) - 1
            text = f"{functions.name_of(made)} ({name})" if made >= 0 else name
            codes.append(place.setdefault(text, len(place)))
        return Labels(np.array(codes or [0], np.int64)[code], list(place))

    return remembered(profile, "operators of blocks", build)


def _around(parent: Array, wanted: Array, rows: Array) -> Array:
    """For each of some slices (-1: none) the innermost around it, itself included, that is wanted; -1 where none is."""
    known = rows >= 0
    return np.where(known, nearest(parent, wanted, np.maximum(rows, 0)), NO_ID)


def sources_of(profile: Profile) -> Labels:
    """The innermost function of Python on the call stack of each block."""

    def build() -> Labels:
        blocks, stacks = blocks_of(profile), profile.stacks
        frame_of = column(stacks, "frame")
        kind = column(profile.frames, "kind")
        stays = np.append(kind == int(FrameKind.PYTHON), False)[frame_of]
        stays[ROOT : ROOT + 1] = True
        near = nearest_above(column(stacks, "parent"), column(stacks, "end"), stays)
        frames = frame_of[near[blocks.stack]]
        distinct, code = np.unique(frames, return_inverse=True)
        known = distinct[distinct >= 0]
        function = column(profile.frames, "function")[known]
        files = texts(profile.functions.select(["file"]).take(pa.array(function)), "file")
        lines = profile.frames.column("line").take(pa.array(known)).to_pylist()
        place: dict[str, int] = {}
        codes = [NO_ID] * (len(distinct) - len(known))
        for name, file, line in zip(functions_of(profile).names_of(function), files, lines, strict=True):
            text = f"{name} ({file}:{line})" if file and line else f"{name} ({file})" if file else name
            codes.append(place.setdefault(text, len(place)))
        return Labels(np.array(codes or [0], np.int64)[code], list(place))

    return remembered(profile, "sources of blocks", build)


def categories(profile: Profile) -> Labels:
    """What the file says of each block."""

    def build() -> Labels:
        encoded = profile.allocations.column("category").combine_chunks().dictionary_encode()
        return Labels(encoded.indices.fill_null(NO_ID).to_numpy(), texts_of(encoded.dictionary))

    return remembered(profile, "categories of blocks", build)


def texts_of(array: pa.Array) -> list[str]:
    """A column of texts as such."""
    return [value or "" for value in array.to_pylist()]


def allocations(profile: Profile, selection: Selection) -> pd.DataFrame:
    """One row for each block that is picked, in the order in which they were allocated."""
    return allocation_rows(profile, selection, picked(profile, selection))


def allocation_rows(profile: Profile, selection: Selection, rows: Array) -> pd.DataFrame:
    """The table of these rows of `allocations`, in their order. selection: whose peaks are meant."""
    blocks, known = blocks_of(profile), {place.row: place for place in places(profile)}
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
        most = peak(profile, selection, known[row])
        if most is not None and paired_on(profile, known[row]):
            at_peak[mine] = live_at(start[mine], end[mine], most.time_ns)
    address = profile.allocations.column("address").take(pa.array(rows)).to_pylist()
    return frame(
        ALLOCATIONS,
        {
            "start_us": _micros(start),
            "end_us": _micros(end),
            "bytes": blocks.bytes[rows],
            "device": [labels[n] for n in code.tolist()],
            "operator": operators_of(profile).of(rows),
            "rank": [ranks[n] for n in code.tolist()],
            "duration_us": _micros(np.where((start == MISSING) | (end == MISSING), MISSING, end - start)),
            "address": [None if value is None else f"0x{value & (1 << 64) - 1:x}" for value in address],
            "thread": [names[t] if t >= 0 else None for t in blocks.thread[rows].tolist()],
            "category": categories(profile).of(rows),
            "source": sources_of(profile).of(rows),
            "live_at_peak": [None if n < 0 else bool(n) for n in at_peak.tolist()],
        },
    )


def _micros(ns: Array) -> "pd.Series[Any]":
    found = pd.Series(ns / NS_PER_US, dtype="Float64")
    return found.mask(ns == MISSING)


def searched(profile: Profile, rows: Array, search: str) -> Array:
    """Those of some blocks that have every word of a search in what made them or is said of them, whatever its case."""
    labels = [of(profile) for of in (operators_of, sources_of, categories)]
    for word in dict.fromkeys(search.casefold().split()):
        hit = np.zeros(len(rows), bool)
        for label in labels:
            hit |= label.matching(word)[rows]
        rows = rows[hit]
    return rows


def in_order(
    profile: Profile, selection: Selection, rows: Array, by: str, descending: bool, most: int | None = None
) -> Array:
    """Some blocks sorted by a column of `ALLOCATIONS`; what has no value comes last, what is alike keeps its order.

    most: no more than the first so many are needed.
    """
    blocks = blocks_of(profile)
    start, end = blocks.start[rows], blocks.end[rows]
    missing = np.zeros(len(rows), bool)
    if by in ("operator", "source", "category"):
        label = {"operator": operators_of, "source": sources_of, "category": categories}[by](profile)
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
        for place in places_selected(profile, selection):
            if (reached := peak(profile, selection, place)) is not None:
                key[live_at(start, end, reached.time_ns) & (blocks.device[rows] == place.row)] = 1
    else:
        key = blocks.bytes[rows]
    key = np.where(missing, np.iinfo(np.int64).max, -key if descending else key)
    if most is not None and len(rows) > 4 * most:
        first = np.flatnonzero(key <= np.partition(key, most - 1)[most - 1])
        rows, key = rows[first], key[first]
    found: Array = rows[np.argsort(key, kind="stable")][:most]
    return found
