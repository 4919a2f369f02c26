"""Where records begin: each says only where the next one does.

Words that could begin a record are found in whole blocks of the file. If each of them, by its size, leads to the next,
they are the records; otherwise those to which none leads are left out, or the records of the block are walked through
one by one. In large recordings, a compiled loop walks through all records.
"""

from array import array
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...domain.arrays import Array, Int64Array
from .unsupported import UnsupportedRecords

BLOCK_WORDS = 1 << 15
"""Its words and what is calculated from them fit into the cache of a CPU."""
_RELEASED_BLOCKS = 1 << 6
_ROUNDS = 4
"""How often words to which none leads are left out."""
_KIND_OR_SIZE = np.uint64(7 << 48 | 0xFFFFFF80)
"""Bits that are 0 in the first word of a record: it ends at a word, and its type is below 128."""
_SIZE_AT = np.uint64(51)
_SHORTEST = np.uint64(1 << 51)
_FIRST_ROWS = 1 << 16
_ROOM = 1.05
"""Rows for records that are not found yet, compared to what those that are found make expect."""
_MOST_GROWTH = 4
"""There are at most so many times as many rows as before: the first records may be much shorter than the rest."""


class RecordPlaces(NamedTuple):
    """Columns of a RecordIndex."""

    place: Int64Array
    kind: Array
    flags: Array
    size: Array


class OddSize(UnsupportedRecords):
    """A record does not end at a word."""


def find_places(words: Array, release: Callable[[], object], *, compiled: bool = False) -> RecordPlaces:
    """Where records begin in `words` (uint64), and what their first words say.

    release: called when the words that were read are not needed for some time. compiled: whether a compiled loop walks
    through the records. Raises UnsupportedRecords.
    """
    if compiled:
        return _walk_compiled(words, release)
    found: list[Int64Array] = [np.zeros(0, np.int64)]
    heads: list[Array] = [np.zeros(0, np.uint64)]
    place = 0
    for low in range(0, len(words), BLOCK_WORDS):
        high = min(low + BLOCK_WORDS, len(words))
        while place < high:
            part, head, place = _find_in_block(words, place, high)
            found.append(part)
            heads.append(head)
        if high % (BLOCK_WORDS * _RELEASED_BLOCKS) == 0:
            release()
    release()
    _check_end(place, words)
    head = np.concatenate(heads)
    kind, flags = head.astype(np.uint32), (head >> np.uint64(32)).astype(np.uint16)
    return RecordPlaces(np.concatenate(found), kind, flags, (head >> _SIZE_AT).astype(np.int16))


def _find_in_block(words: Array, start: int, stop: int) -> tuple[Int64Array, Array, int]:
    """(the places from `start` up to `stop`, or up to a record that needs `_walk`; the words there; the place after
    them)."""
    block = words[start:stop]
    likely = (block & _KIND_OR_SIZE) == 0
    likely &= block >= _SHORTEST
    place = np.flatnonzero(likely)
    for _ in range(_ROUNDS):
        if not len(place) or place[0]:
            break
        head = block[place]
        after = (head >> _SIZE_AT).view(np.int64)
        after += place
        if (after[:-1] == place[1:]).all():
            place += start
            return place, head, int(after[-1]) + start
        at = np.minimum(np.searchsorted(place, after), len(place) - 1)
        reached = np.zeros(len(place), bool)
        reached[at[place[at] == after]] = True
        reached[0] = True
        place = place[reached]
    place, end = _walk(words, start, stop)
    return place, words[place], end


def _walk(words: Array, at: int, stop: int) -> tuple[Int64Array, int]:
    """(the places from `at` up to `stop`, the one after them). Raises UnsupportedRecords."""
    halves = words.data.cast("B").cast("H")
    places = array("q")
    while at < stop:
        places.append(at)
        size = halves[4 * at + 3]
        if size & 7 or not size:
            raise _describe_size(size)
        at += size >> 3
    return np.frombuffer(places, np.int64), at


def _walk_compiled(words: Array, release: Callable[[], object]) -> RecordPlaces:
    """`find_places` by a compiled loop."""
    from .record_loops import walk_records

    columns = _allocate_rows(min(_FIRST_ROWS, len(words)))
    count = at = 0
    for low in range(0, len(words), BLOCK_WORDS * _RELEASED_BLOCKS):
        stop = min(low + BLOCK_WORDS * _RELEASED_BLOCKS, len(words))
        while at < stop:
            if count == len(columns.place):
                expected = int(count / at * len(words) * _ROOM)
                columns = _add_rows(columns, min(expected, _MOST_GROWTH * count) + _FIRST_ROWS)
            count += walk_records(words, at, stop, *(column[count:] for column in columns))
            after = int(columns.place[count - 1]) + int(columns.size[count - 1]) if count else 0
            if after < stop and count < len(columns.place):
                raise _describe_size(int(words[after]) >> 48)
            at = after
        release()
    _check_end(at, words)
    return RecordPlaces(*(column[:count] for column in columns))


def _allocate_rows(count: int) -> RecordPlaces:
    return RecordPlaces(
        place=np.empty(count, np.int64),
        kind=np.empty(count, np.uint32),
        flags=np.empty(count, np.uint16),
        size=np.empty(count, np.int16),
    )


def _add_rows(columns: RecordPlaces, count: int) -> RecordPlaces:
    larger = _allocate_rows(count)
    for before, column in zip(columns, larger, strict=True):
        column[: len(before)] = before
    return larger


def _check_end(place: int, words: Array) -> None:
    if place > len(words):
        raise UnsupportedRecords("its last record is not complete")


def _describe_size(size: int) -> OddSize:
    return OddSize(f"a record has {size:,} bytes")
