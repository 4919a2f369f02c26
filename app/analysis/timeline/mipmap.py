"""Levels of detail of things in rows: what a picture needs of millions of slices at any zoom.

Things of a row are disjoint and in order of time. Level L sees cells of 2^L ns: a thing at least as long as a cell
stands alone, the shorter ones that begin in one cell of a row are one item. It is named after the function that weighs
most of it, exactly: on the way from level to level everything is kept by cell and function. So no picture of W cells
needs more than 2 W items of a row. Only levels with at most `MAX_SHRINK_RATIO` of the items of the stored one below are
stored.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array, BoolArray

MAX_SHRINK_RATIO = 0.6
BATCH_EVENTS = 1_000_000
"""So many things have their own levels, to bound the memory that making them takes: some 300 bytes for each."""
MAX_FILL = 255
TOP_CELL = 62


@dataclass(frozen=True, eq=False)
class TimelineEvents:
    """Things in rows, ordered by row and start. thing: their numbers. start, end: ns. code: what they are, from -1.
    weight: negative ones count as none. Disjoint in each row as `cut_overlaps` makes them."""

    row: Array
    thing: Array
    start: Array
    end: Array
    code: Array
    weight: Array

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, eq=False)
class MipmapItems:
    """Things and heaps of them, of one row after the other. thing: the number of the first. count: how many there are.

    code: the heaviest. share: of its weight in all, fill: of time that things cover; both 0–255.
    """

    start: Array
    end: Array
    code: Array
    thing: Array
    count: Array
    weight: Array
    share: Array
    fill: Array

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: Any) -> "MipmapItems":
        """Those of these places."""
        return MipmapItems(**{name: getattr(self, name)[which] for name in FIELDS})


FIELDS: dict[str, type] = {
    "start": np.int64,
    "end": np.int64,
    "code": np.int32,
    "thing": np.int32,
    "count": np.int32,
    "weight": np.int64,
    "share": np.uint8,
    "fill": np.uint8,
}


def single_items(thing: Array, start: Array, end: Array, code: Array, weight: Array) -> MipmapItems:
    """Things as items, each by itself."""
    full, one = np.uint8(MAX_FILL), np.int32(1)
    return MipmapItems(
        start=start,
        end=end,
        code=code,
        thing=thing,
        count=np.broadcast_to(one, start.shape),
        weight=np.maximum(weight, 0),
        share=np.broadcast_to(full, start.shape),
        fill=np.broadcast_to(full, start.shape),
    )


@dataclass(frozen=True, eq=False)
class MipmapLevel:
    """Items of cells of 2^`cell` ns. rows: those that have any, ascending; bounds: where their items begin and end.

    start: of the items. read: gives the items of a stretch.
    """

    cell: int
    rows: Array
    bounds: Array
    start: Array
    read: Callable[[slice], MipmapItems]

    def __len__(self) -> int:
        return len(self.start)

    def find(self, row: int, start_ns: int, end_ns: int) -> slice:
        """The items of a row that are, at least in part, in [start_ns, end_ns)."""
        at = int(np.searchsorted(self.rows, row))
        if at == len(self.rows) or self.rows[at] != row:
            return slice(0, 0)
        low, high = int(self.bounds[at]), int(self.bounds[at + 1])
        starts = self.start[low:high]
        first = int(np.searchsorted(starts, start_ns, "left"))
        if first and self.read(slice(low + first - 1, low + first)).end[0] > start_ns:
            first -= 1
        return slice(low + first, low + max(first, int(np.searchsorted(starts, end_ns, "left"))))


@dataclass(frozen=True, eq=False)
class Mipmap:
    """The levels of some rows, the finest first: that one is the things themselves (cell 0)."""

    low: int
    high: int
    levels: tuple[MipmapLevel, ...]

    def level(self, cell: int) -> int:
        """The place of the coarsest stored level that is not coarser than cells of 2^`cell` ns."""
        cells = [level.cell for level in self.levels]
        return max(int(np.searchsorted(cells, cell, "right")) - 1, 0)

    def find(self, row: int, start_ns: int, end_ns: int, cell: int, most: int) -> "LevelRange":
        """The items of a row in a window in cells of 2^`cell` ns; coarser where there were more than `most`."""
        for level in self.levels[self.level(cell) :]:
            found = level.find(row, start_ns, end_ns)
            if found.stop - found.start <= most:
                break
        return LevelRange(level, found)


@dataclass(frozen=True, eq=False)
class LevelRange:
    """Items that follow each other on a level, found but not read."""

    level: MipmapLevel
    rows: slice

    def __len__(self) -> int:
        return int(self.rows.stop - self.rows.start)

    def read(self) -> MipmapItems:
        """The items."""
        return self.level.read(self.rows)


def concat_items(parts: Sequence[MipmapItems]) -> MipmapItems:
    """Items one after the other."""
    return MipmapItems(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in FIELDS})


def cut_overlaps(row: Array, start: Array, end: Array) -> Array:
    """The ends of things, cut where the next of the row begins: what should not overlap, in a file that is wrong."""
    cut = np.maximum(end, start)
    follows = row[1:] == row[:-1]
    np.minimum(cut[:-1], np.where(follows, start[1:], cut[:-1]), out=cut[:-1])
    return cut


def build_mipmaps(events: TimelineEvents) -> Iterator[Mipmap]:
    """The levels of all rows, as many rows at a time as `BATCH_EVENTS` things have."""
    low = 0
    while low < len(events):
        high = min(low + BATCH_EVENTS, len(events))
        if high < len(events):
            # Whole rows only, at least one.
            begin = int(np.searchsorted(events.row, events.row[high], "left"))
            high = begin if begin > low else int(np.searchsorted(events.row, events.row[high], "right"))
        yield _pyramid(events, low, high)
        low = high


def _pyramid(things: TimelineEvents, low: int, high: int) -> Mipmap:
    part = slice(low, high)
    row = things.row[part]
    items = single_items(
        things.thing[part], things.start[part], things.end[part], things.code[part], things.weight[part]
    )
    levels = [_level(0, row, items)]
    climb = _MipmapBuilder(row, items)
    for cell in range(climb.first, TOP_CELL):
        begins = climb.begins(cell)
        count = int(np.count_nonzero(begins))
        if count <= MAX_SHRINK_RATIO * len(climb.items):
            climb.to(cell, np.flatnonzero(begins))
            levels.append(_level(cell, climb.row, climb.items))
        if count == len(levels[0].rows):
            break
    return Mipmap(int(row[0]), int(row[-1]) + 1, tuple(levels))


def _level(cell: int, row: Array, items: MipmapItems) -> MipmapLevel:
    first = np.flatnonzero(np.diff(row, prepend=row[0] - 1))
    return MipmapLevel(cell, row[first].astype(np.int32), np.append(first, len(row)), items.start, items.take)


class _MipmapBuilder:
    """The way up. row, items: of the level reached; busy: the time that things cover in each.

    key, code, weight: of what is in heaps, what each code weighs in each cell, ordered by these; the key is row and
    cell in one number, the row in its upper bits.
    """

    def __init__(self, row: Array, items: MipmapItems) -> None:
        self.row, self.items, self.busy = row, items, items.end - items.start
        self.base, self.row_base = int(items.start.min()), int(row[0])
        bits = (int(items.start.max()) - self.base).bit_length()
        # Cells so fine that row and cell are too large for one number are left out.
        self.first = max(1, bits + int(row[-1] - row[0] + 1).bit_length() - TOP_CELL)
        self.bits = max(1, bits - self.first + 1)
        self.cell = self.first
        lowest = int(items.code.min())
        used = np.zeros(int(items.code.max()) - lowest + 1, bool)
        used[items.code - lowest] = True
        self.names = np.flatnonzero(used) + lowest
        self.number = np.cumsum(used) - 1
        self.lowest = lowest
        self.key = self.code = self.weight = np.zeros(0, np.int64)

    def _small(self, cell: int) -> BoolArray:
        return (self.items.count > 1) | (self.items.end - self.items.start < 1 << cell)

    def _keys(self, cell: int) -> Array:
        cells = (self.items.start - self.base) >> cell
        cells += (self.row.astype(np.int64) - self.row_base) << self.bits
        return cells

    def begins(self, cell: int) -> Array:
        """Which items begin an item of cells of 2^`cell` ns, as bools: in order of row and start, so equal cells follow
        each other. What stands alone is not followed by others that begin in its cell, since it is as long."""
        small, key = self._small(cell), self._keys(cell)
        begins = np.ones(len(small), bool)
        np.not_equal(key[1:], key[:-1], out=begins[1:])
        begins[1:] |= ~small[1:] | ~small[:-1]
        return begins

    def to(self, cell: int, first: Array) -> None:
        """Go up to cells of 2^`cell` ns, where items begin at those in `first`."""
        items, small = self.items, self._small(cell)
        # What is small enough for the level reached is in a heap already, be it alone there.
        self._weigh(cell, np.flatnonzero(small & ~self._small(self.cell) if len(self.key) else small))
        after = np.append(first[1:], len(small))
        count, busy = _sums(items.count, first, after), _sums(self.busy, first, after)
        total = _sums(items.weight, first, after)
        heaped = small[first]
        start, end = items.start[first], items.end[after - 1]
        code, share, fill = items.code[first], items.share[first], np.full(len(first), MAX_FILL, np.uint8)
        if len(self.key):
            # The heaviest of each cell; the cells that have any are those of the heaps, in the same order.
            cells = np.flatnonzero(np.diff(self.key, prepend=-1))
            heaviest = np.maximum.reduceat(self.weight, cells)
            which = np.repeat(np.arange(len(cells)), np.diff(np.append(cells, len(self.key))))
            best = np.flatnonzero(self.weight == heaviest[which])
            best = best[np.diff(which[best], prepend=-1) != 0]
            code = code.copy()
            code[heaped] = self.names[self.code[best]]
            share[heaped] = np.where(heaviest > 0, MAX_FILL * (heaviest / np.maximum(total[heaped], 1)), MAX_FILL)
            span = np.maximum((end - start)[heaped], 1)
            fill[heaped] = np.where(busy[heaped] > 0, np.ceil(MAX_FILL * np.minimum(busy[heaped] / span, 1)), MAX_FILL)
        self.row, self.busy, self.cell = self.row[first], busy, cell
        self.items = MipmapItems(
            start=start,
            end=end,
            code=code,
            thing=items.thing[first],
            count=count.astype(np.int32),
            weight=total,
            share=share,
            fill=fill,
        )

    def _weigh(self, cell: int, new: Array) -> None:
        """Convert the groups to cells of 2^`cell` ns and the items `new`, which were single, into them."""
        mask = (1 << self.bits) - 1
        known = (self.key & ~mask) | ((self.key & mask) >> (cell - self.cell))
        key = np.concatenate((known, self._keys(cell)[new]))
        code = np.concatenate((self.code, self.number[self.items.code[new] - self.lowest]))
        weight = np.concatenate((self.weight, self.items.weight[new]))
        # Two sorted runs, then short ones within each cell: what numpy's stable sort is quick at.
        order = np.argsort(key, kind="stable")
        group = np.cumsum(np.diff(key[order], prepend=-1) != 0)
        full = group * len(self.names) + code[order]
        inner = np.argsort(full, kind="stable")
        order, full = order[inner], full[inner]
        first = np.flatnonzero(np.diff(full, prepend=-1))
        self.key, self.code = key[order[first]], code[order[first]]
        self.weight = _sums(weight[order], first, np.append(first[1:], len(order)))


def _sums(values: Array, first: Array, after: Array) -> Array:
    """The sums of values[first:after], int64."""
    running = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=running[1:])
    found: Array = running[after] - running[first]
    return found


def pack_mipmaps(mipmaps: Iterable[Mipmap], name: str) -> dict[str, Array]:
    """Pyramids as named arrays, to be kept in a file; of the finest level only which things there are, and when."""
    arrays: dict[str, Array] = {}
    heads = []
    for number, pyramid in enumerate(mipmaps):
        for at, level in enumerate(pyramid.levels):
            heads.append((number, pyramid.low, pyramid.high, level.cell))
            prefix = f"{name}.{number}.{at}"
            items = level.read(slice(0, len(level)))
            arrays |= {f"{prefix}.rows": level.rows, f"{prefix}.bounds": level.bounds}
            arrays |= {f"{prefix}.{field}": getattr(items, field) for field in (FIELDS if at else ("start", "thing"))}
    arrays[f"{name}.levels"] = np.array(heads, np.int64).ravel()
    return arrays


Finest = Callable[[Array, Array, Array, Array], MipmapItems]
"""The items of things of one row: of their row, numbers, starts, and the starts of those that follow them."""


def unpack_mipmaps(arrays: Mapping[str, Array], name: str, finest: Finest) -> tuple[Mipmap, ...]:
    """What `pack_mipmaps` packed."""
    levels: dict[int, list[MipmapLevel]] = {}
    ranges: dict[int, tuple[int, int]] = {}
    for number, low, high, cell in arrays[f"{name}.levels"].reshape(-1, 4).tolist():
        mipmap_levels = levels.setdefault(number, [])
        ranges[number] = (low, high)
        prefix = f"{name}.{number}.{len(mipmap_levels)}"
        rows, bounds, start = (arrays[f"{prefix}.{word}"] for word in ("rows", "bounds", "start"))
        read: Callable[[slice], MipmapItems] = (
            MipmapItems(**{field: arrays[f"{prefix}.{field}"] for field in FIELDS}).take
            if mipmap_levels
            else _reader(rows, bounds, start, arrays[f"{prefix}.thing"], finest)
        )
        mipmap_levels.append(MipmapLevel(cell, rows, bounds, start, read))
    return tuple(Mipmap(*ranges[number], tuple(level)) for number, level in levels.items())


def _reader(rows: Array, bounds: Array, start: Array, thing: Array, finest: Finest) -> Callable[[slice], MipmapItems]:
    def read(part: slice) -> MipmapItems:
        begin = start[part]
        at = np.searchsorted(bounds, np.arange(part.start, part.stop), "right")
        follows = start[np.minimum(np.arange(part.start + 1, part.stop + 1), len(start) - 1)]
        last = np.arange(part.start + 1, part.stop + 1) == bounds[at]
        return finest(rows[at - 1], thing[part], begin, np.where(last, np.iinfo(np.int64).max, follows))

    return read
