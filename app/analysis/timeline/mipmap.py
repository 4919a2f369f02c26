"""Levels of detail (mipmaps) of events in rows, to draw millions of slices at any zoom.

Events of a row are disjoint and sorted by time. Level L has cells of 2^L ns: an event at least as long as a cell is an
item by itself; the shorter events that begin in the same cell of a row are merged into one item. Its code is that of
the function with the largest share of its weight. This is exact, because weights are kept by cell and function from
level to level. So a picture of W cells needs at most 2 W items of a row. A level is stored only if it has at most
`MAX_SHRINK_RATIO` of the items of the stored level below.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array, BoolArray

MAX_SHRINK_RATIO = 0.6
BATCH_EVENTS = 1_000_000
"""Levels are built for this number of events at a time, to limit memory: about 300 bytes for each."""
MAX_FILL = 255
TOP_CELL = 62


@dataclass(frozen=True, eq=False)
class TimelineEvents:
    """Events in rows, sorted by row and start. event_row: row of the table with the event. start, end: ns. code: from
    -1. weight: negative ones count as 0. Disjoint in each row: see `cut_overlaps`."""

    row: Array
    event_row: Array
    start: Array
    end: Array
    code: Array
    weight: Array

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, eq=False)
class MipmapItems:
    """Events and merged events, by row. event_row: that of the first event. count: number of events.

    code: that with the most weight. share: its share of the weight; fill: the share of time covered by events; both 0
    to 255.
    """

    start: Array
    end: Array
    code: Array
    event_row: Array
    count: Array
    weight: Array
    share: Array
    fill: Array

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: Any) -> "MipmapItems":
        """The items at these indices."""
        return MipmapItems(**{name: getattr(self, name)[which] for name in FIELDS})


FIELDS: dict[str, type] = {
    "start": np.int64,
    "end": np.int64,
    "code": np.int32,
    "event_row": np.int32,
    "count": np.int32,
    "weight": np.int64,
    "share": np.uint8,
    "fill": np.uint8,
}


def single_items(event_row: Array, start: Array, end: Array, code: Array, weight: Array) -> MipmapItems:
    """One item for each event."""
    full, one = np.uint8(MAX_FILL), np.int32(1)
    return MipmapItems(
        start=start,
        end=end,
        code=code,
        event_row=event_row,
        count=np.broadcast_to(one, start.shape),
        weight=np.maximum(weight, 0),
        share=np.broadcast_to(full, start.shape),
        fill=np.broadcast_to(full, start.shape),
    )


@dataclass(frozen=True, eq=False)
class MipmapLevel:
    """Items of cells of 2^`cell` ns. rows: the rows with items, ascending; bounds: where their items begin and end.

    start: of the items. read: returns the items of a range.
    """

    cell: int
    rows: Array
    bounds: Array
    start: Array
    read: Callable[[slice], MipmapItems]

    def __len__(self) -> int:
        return len(self.start)

    def find(self, row: int, start_ns: int, end_ns: int) -> slice:
        """The items of a row that overlap [start_ns, end_ns)."""
        at = int(np.searchsorted(self.rows, row))
        if at == len(self.rows) or self.rows[at] != row:
            return slice(0, 0)
        low, high = int(self.bounds[at]), int(self.bounds[at + 1])
        starts = self.start[low:high]
        first = int(np.searchsorted(starts, start_ns, "left"))
        if first and self.read(slice(low + first - 1, low + first)).end[0] > start_ns:
            first -= 1
        return slice(low + first, low + max(first, int(np.searchsorted(starts, end_ns, "left"))))

    def read_rows(self, places: Array) -> MipmapItems:
        """The items of the rows at these indices of `rows`, ascending."""
        first = np.flatnonzero(np.diff(places, prepend=-2) != 1)
        last = np.append(first[1:], len(places)) - 1
        bounds = zip(self.bounds[places[first]].tolist(), self.bounds[places[last] + 1].tolist(), strict=True)
        return concat_items([self.read(slice(low, high)) for low, high in bounds])


@dataclass(frozen=True, eq=False)
class Mipmap:
    """The levels of some rows, the finest first: cell 0, the events themselves."""

    low: int
    high: int
    levels: tuple[MipmapLevel, ...]

    def level(self, cell: int) -> int:
        """The index of the coarsest stored level with cells of at most 2^`cell` ns."""
        cells = [level.cell for level in self.levels]
        return max(int(np.searchsorted(cells, cell, "right")) - 1, 0)

    def find(self, row: int, start_ns: int, end_ns: int, cell: int, most: int) -> "LevelRange":
        """The items of a row in a window in cells of 2^`cell` ns; coarser if there are more than `most`."""
        for level in self.levels[self.level(cell) :]:
            found = level.find(row, start_ns, end_ns)
            if found.stop - found.start <= most:
                break
        return LevelRange(level, found)


@dataclass(frozen=True, eq=False)
class LevelRange:
    """A range of items of a level, not yet read."""

    level: MipmapLevel
    rows: slice

    def __len__(self) -> int:
        return int(self.rows.stop - self.rows.start)

    def read(self) -> MipmapItems:
        """The items."""
        return self.level.read(self.rows)


def concat_items(parts: Sequence[MipmapItems]) -> MipmapItems:
    """The items of all parts, concatenated."""
    return MipmapItems(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in FIELDS})


def cut_overlaps(row: Array, start: Array, end: Array) -> Array:
    """The ends of events, clipped at the start of the next event in the row: overlaps occur only in invalid files."""
    cut = np.maximum(end, start)
    follows = row[1:] == row[:-1]
    np.minimum(cut[:-1], np.where(follows, start[1:], cut[:-1]), out=cut[:-1])
    return cut


def build_mipmaps(events: TimelineEvents) -> Iterator[Mipmap]:
    """The levels of all rows, in batches of rows with about `BATCH_EVENTS` events."""
    low = 0
    while low < len(events):
        high = min(low + BATCH_EVENTS, len(events))
        if high < len(events):
            # Only complete rows, at least one.
            begin = int(np.searchsorted(events.row, events.row[high], "left"))
            high = begin if begin > low else int(np.searchsorted(events.row, events.row[high], "right"))
        yield _build_mipmap(events, low, high)
        low = high


def _build_mipmap(events: TimelineEvents, low: int, high: int) -> Mipmap:
    part = slice(low, high)
    row = events.row[part]
    items = single_items(
        events.event_row[part], events.start[part], events.end[part], events.code[part], events.weight[part]
    )
    levels = [_build_level(0, row, items)]
    builder = _MipmapBuilder(row, items)
    for cell in range(builder.first, TOP_CELL):
        begins = builder.begins(cell)
        count = int(np.count_nonzero(begins))
        if count <= MAX_SHRINK_RATIO * len(builder.items):
            builder.to(cell, np.flatnonzero(begins))
            levels.append(_build_level(cell, builder.row, builder.items))
        if count == len(levels[0].rows):
            break
    return Mipmap(int(row[0]), int(row[-1]) + 1, tuple(levels))


def _build_level(cell: int, row: Array, items: MipmapItems) -> MipmapLevel:
    first = np.flatnonzero(np.diff(row, prepend=row[0] - 1))
    return MipmapLevel(cell, row[first].astype(np.int32), np.append(first, len(row)), items.start, items.take)


class _MipmapBuilder:
    """Builds level after level. row, items: of the current level; busy: the time covered by the events of each item.

    key, code, weight: for merged events, the weight of each code in each cell, sorted by key and code; the key is row
    and cell in one number, with the row in the upper bits.
    """

    def __init__(self, row: Array, items: MipmapItems) -> None:
        self.row, self.items, self.busy = row, items, items.end - items.start
        self.base, self.row_base = int(items.start.min()), int(row[0])
        bits = (int(items.start.max()) - self.base).bit_length()
        # Omit cells so fine that row and cell do not fit in one number.
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
        """Which items begin an item of cells of 2^`cell` ns, as bools. Items are sorted by row and start, so equal
        cells are adjacent. No other item begins in the cell of a single event, because the event is as long as the
        cell."""
        small, key = self._small(cell), self._keys(cell)
        begins = np.ones(len(small), bool)
        np.not_equal(key[1:], key[:-1], out=begins[1:])
        begins[1:] |= ~small[1:] | ~small[:-1]
        return begins

    def to(self, cell: int, first: Array) -> None:
        """Merge into cells of 2^`cell` ns, where items begin at the indices `first`."""
        items, small = self.items, self._small(cell)
        # Items small enough for the current level are merged already, maybe as the only event.
        self._weigh(cell, np.flatnonzero(small & ~self._small(self.cell) if len(self.key) else small))
        after = np.append(first[1:], len(small))
        count, busy = _sums(items.count, first, after), _sums(self.busy, first, after)
        total = _sums(items.weight, first, after)
        merged = small[first]
        start, end = items.start[first], items.end[after - 1]
        code, share, fill = items.code[first], items.share[first], np.full(len(first), MAX_FILL, np.uint8)
        if len(self.key):
            # The code with the most weight in each cell. The cells are those of the merged items, in the same order.
            cells = np.flatnonzero(np.diff(self.key, prepend=-1))
            heaviest = np.maximum.reduceat(self.weight, cells)
            which = np.repeat(np.arange(len(cells)), np.diff(np.append(cells, len(self.key))))
            best = np.flatnonzero(self.weight == heaviest[which])
            best = best[np.diff(which[best], prepend=-1) != 0]
            code = code.copy()
            code[merged] = self.names[self.code[best]]
            share[merged] = np.where(heaviest > 0, MAX_FILL * (heaviest / np.maximum(total[merged], 1)), MAX_FILL)
            span = np.maximum((end - start)[merged], 1)
            fill[merged] = np.where(busy[merged] > 0, np.ceil(MAX_FILL * np.minimum(busy[merged] / span, 1)), MAX_FILL)
        self.row, self.busy, self.cell = self.row[first], busy, cell
        self.items = MipmapItems(
            start=start,
            end=end,
            code=code,
            event_row=items.event_row[first],
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
        # Two sorted runs, then short runs within each cell: fast for numpy's stable sort.
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
    """Mipmaps as named arrays to be stored; of the finest level only the rows and starts of events."""
    arrays: dict[str, Array] = {}
    heads = []
    for number, pyramid in enumerate(mipmaps):
        for at, level in enumerate(pyramid.levels):
            heads.append((number, pyramid.low, pyramid.high, level.cell))
            prefix = f"{name}.{number}.{at}"
            items = level.read(slice(0, len(level)))
            arrays |= {f"{prefix}.rows": level.rows, f"{prefix}.bounds": level.bounds}
            arrays |= {
                f"{prefix}.{field}": getattr(items, field) for field in (FIELDS if at else ("start", "event_row"))
            }
    arrays[f"{name}.levels"] = np.array(heads, np.int64).ravel()
    return arrays


Finest = Callable[[Array, Array, Array, Array], MipmapItems]
"""Makes the items of events from their rows, event rows, starts, and the starts of the next events."""


def unpack_mipmaps(arrays: Mapping[str, Array], name: str, finest: Finest) -> tuple[Mipmap, ...]:
    """The mipmaps from the arrays of `pack_mipmaps`."""
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
            else _reader(rows, bounds, start, arrays[f"{prefix}.event_row"], finest)
        )
        mipmap_levels.append(MipmapLevel(cell, rows, bounds, start, read))
    return tuple(Mipmap(*ranges[number], tuple(level)) for number, level in levels.items())


def _reader(
    rows: Array, bounds: Array, start: Array, event_row: Array, finest: Finest
) -> Callable[[slice], MipmapItems]:
    def read(part: slice) -> MipmapItems:
        begin = start[part]
        at = np.searchsorted(bounds, np.arange(part.start, part.stop), "right")
        follows = start[np.minimum(np.arange(part.start + 1, part.stop + 1), len(start) - 1)]
        last = np.arange(part.start + 1, part.stop + 1) == bounds[at]
        return finest(rows[at - 1], event_row[part], begin, np.where(last, np.iinfo(np.int64).max, follows))

    return read
