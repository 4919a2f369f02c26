"""Where records begin: each says only where the next one does.

Words that could begin a record are found in whole blocks of the file. If each of them, by its size, leads to the next,
they are the records; otherwise those to which none leads are left out, or the records of the block are walked through
one by one. In large recordings, a compiled loop walks through all records.
"""

from array import array
from collections.abc import Callable

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


class OddSize(UnsupportedRecords):
    """A record does not end at a word."""


def find_places(words: Array, release: Callable[[], object], *, compiled: bool = False) -> tuple[Int64Array, Array]:
    """(where records begin in `words` (uint64), their first words).

    release: called when the words that were read are not needed for some time. compiled: whether a compiled loop walks
    through the records. Raises UnsupportedRecords.
    """
    step = BLOCK_WORDS * (_RELEASED_BLOCKS if compiled else 1)
    find = _make_walker(min(step, len(words))) if compiled else _find_in_block
    found: list[Int64Array] = [np.zeros(0, np.int64)]
    heads: list[Array] = [np.zeros(0, np.uint64)]
    place = 0
    for low in range(0, len(words), step):
        high = min(low + step, len(words))
        while place < high:
            part, head, place = find(words, place, high)
            found.append(part)
            heads.append(head)
        if high % (BLOCK_WORDS * _RELEASED_BLOCKS) == 0:
            release()
    release()
    if place > len(words):
        raise UnsupportedRecords("its last record is not complete")
    return np.concatenate(found), np.concatenate(heads)


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


def _make_walker(size: int) -> Callable[[Array, int, int], tuple[Int64Array, Array, int]]:
    """A function like `_find_in_block`, for up to `size` words."""
    from .record_loops import walk_records

    place, head = np.empty(size, np.int64), np.empty(size, np.uint64)

    def walk(words: Array, at: int, stop: int) -> tuple[Int64Array, Array, int]:
        count = walk_records(words, at, stop, place, head)
        after = int(place[count - 1]) + int(head[count - 1] >> _SIZE_AT) if count else at
        if after < stop:
            raise _describe_size(int(words[after]) >> 48)
        return place[:count].copy(), head[:count].copy(), after

    return walk


def _describe_size(size: int) -> OddSize:
    return OddSize(f"a record has {size:,} bytes")
