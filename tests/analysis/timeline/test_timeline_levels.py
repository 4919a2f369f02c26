"""Levels of detail against their definition, thing by thing."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.timeline import mipmap
from perfloom.analysis.timeline.mipmap import (
    MAX_FILL,
    MipmapItems,
    TimelineEvents,
    build_mipmaps,
    cut_overlaps,
    pack_mipmaps,
    single_items,
    unpack_mipmaps,
)

Row = Sequence[tuple[int, int, int, int]]
"""Things of a row: the gap before, the length, the code, the weight."""
ROWS = st.lists(
    st.lists(
        st.tuples(
            st.integers(0, 40), st.integers(0, 30) | st.integers(0, 3000), st.integers(-1, 3), st.integers(-2, 9)
        ),
        max_size=25,
    ),
    max_size=5,
)


def things_of(rows: Sequence[Row], base: int = 0) -> TimelineEvents:
    found: list[tuple[int, int, int, int, int]] = []
    for row, events in enumerate(rows):
        at = base
        for gap, length, code, weight in events:
            found.append((row, at + gap, at + gap + length, code, weight))
            at += gap + length
    columns = np.array(found, np.int64).reshape(-1, 5).T
    numbers, begin, end, codes, weights = columns
    return TimelineEvents(
        numbers.astype(np.int32),
        np.arange(len(numbers), dtype=np.int32),
        begin,
        end,
        codes.astype(np.int32),
        weights,
    )


def defined(events: TimelineEvents, cell: int, base: int) -> list[tuple[Any, ...]]:
    """(row, start, end, code, place, count, weight, share, fill) of the items of a level."""
    heaps: dict[tuple[int, int], list[int]] = defaultdict(list)
    found = []
    for place in range(len(events)):
        row, start, end = (int(v[place]) for v in (events.row, events.start, events.end))
        if cell and end - start < 1 << cell:
            heaps[row, (start - base) >> cell].append(place)
        else:
            found.append(
                (
                    row,
                    start,
                    end,
                    int(events.code[place]),
                    place,
                    1,
                    max(int(events.weight[place]), 0),
                    MAX_FILL,
                    MAX_FILL,
                )
            )
    for (row, _), places in heaps.items():
        by_code: dict[int, int] = defaultdict(int)
        for place in places:
            by_code[int(events.code[place])] += max(int(events.weight[place]), 0)
        total = sum(by_code.values())
        code = min(by_code, key=lambda c: (-by_code[c], c))
        start, end = int(events.start[places[0]]), int(events.end[places[-1]])
        busy = sum(int(events.end[p] - events.start[p]) for p in places)
        share = int(MAX_FILL * (by_code[code] / total)) if total else MAX_FILL
        fill = int(np.ceil(MAX_FILL * (busy / (end - start)))) if busy else MAX_FILL
        found.append((row, start, end, code, places[0], len(places), total, share, fill))
    return sorted(found, key=lambda item: (item[0], item[4]))


def rows_of(level: mipmap.MipmapLevel) -> list[tuple[Any, ...]]:
    row = np.repeat(level.rows, np.diff(level.bounds)).tolist()
    items = level.read(slice(0, len(level)))
    columns = [getattr(items, name).tolist() for name in mipmap.FIELDS]
    return list(zip(row, *columns, strict=True))


@settings(max_examples=60)
@given(ROWS, st.integers(0, 1 << 50))
def test_every_level_equals_the_definition(rows: list[Row], base: int) -> None:
    events = things_of(rows, base)
    if not len(events):
        assert list(build_mipmaps(events)) == []
        return
    (pyramid,) = build_mipmaps(events)
    lowest = int(events.start.min())
    for level in pyramid.levels:
        assert rows_of(level) == defined(events, level.cell, lowest)
        # Ends stay sorted, and nothing overlaps: what binary searches rely on.
        for low, high in zip(level.bounds, level.bounds[1:], strict=False):
            items = level.read(slice(low, high))
            start, end = items.start, items.end
            assert (end[:-1] <= start[1:]).all()
    sizes = [len(level) for level in pyramid.levels]
    assert all(above <= mipmap.MAX_SHRINK_RATIO * below for below, above in itertools.pairwise(sizes))
    # A level that is not stored would not have been small enough.
    for cell in (2, 5, 9, 12):
        below = pyramid.levels[pyramid.level(cell)]
        assert below.cell <= cell
        if below.cell < cell:
            assert len(defined(events, cell, lowest)) > mipmap.MAX_SHRINK_RATIO * len(below)


@settings(max_examples=60)
@given(ROWS, st.integers(1, 12), st.integers(0, 1000), st.integers(0, 1000))
def test_a_window_has_all_that_is_in_it_and_no_more_than_it_has_pixels_for(
    rows: list[Row], cell: int, start: int, length: int
) -> None:
    events = things_of(rows)
    end = start + length
    for pyramid in build_mipmaps(events):
        level = pyramid.levels[pyramid.level(cell)]
        for row in range(-1, len(rows) + 1):
            found = level.find(row, start, end)
            mine = [item for item in rows_of(level) if item[0] == row]
            inside = [item for item in mine if (item[1] < end and item[2] > start) or start <= item[1] < end]
            items = level.read(found)
            columns = [getattr(items, name).tolist() for name in mipmap.FIELDS]
            assert list(zip(*columns, strict=True)) == [item[1:] for item in inside]
            cells = (length >> level.cell) + 2
            assert level.cell == 0 or len(inside) <= 2 * cells


@settings(max_examples=60)
@given(ROWS, st.integers(1, 30))
def test_many_things_have_levels_in_parts_and_are_the_same_read_back(rows: list[Row], most: int) -> None:
    events = things_of(rows)
    with patch.object(mipmap, "BATCH_EVENTS", most):
        parts = tuple(build_mipmaps(events))
    joined = [item for part in parts for item in rows_of(part.levels[0])]
    assert joined == defined(events, 0, 0)
    assert all(a.high <= b.low for a, b in itertools.pairwise(parts))

    def finest(row: Any, event_row: Any, start: Any, follows: Any) -> MipmapItems:
        assert row.tolist() == events.row[event_row].tolist()
        assert start.tolist() == events.start[event_row].tolist()
        assert (events.end[event_row] <= follows).all()
        return single_items(event_row, start, events.end[event_row], events.code[event_row], events.weight[event_row])

    again = unpack_mipmaps(pack_mipmaps(parts, "x"), "x", finest)
    assert [(p.low, p.high) for p in again] == [(p.low, p.high) for p in parts]
    for one, other in zip(parts, again, strict=True):
        assert [rows_of(level) for level in one.levels] == [rows_of(level) for level in other.levels]


def test_overlaps_in_a_row_are_clipped() -> None:
    row, start, end = np.array([0, 0, 0, 1]), np.array([0, 5, 6, 0]), np.array([9, 3, 9, 4])
    assert cut_overlaps(row, start, end).tolist() == [5, 5, 9, 4]


def test_times_at_the_limit_of_int64() -> None:
    start = np.array([0, (1 << 62) - 2, 0, 7], np.int64)
    events = TimelineEvents(
        np.array([0, 0, 900_000, 900_000]), np.arange(4), start, start + 1, np.zeros(4, np.int32), np.ones(4)
    )
    (pyramid,) = build_mipmaps(events)
    assert [int(level.read(slice(0, 4)).count.sum()) for level in pyramid.levels] == [4] * len(pyramid.levels)
