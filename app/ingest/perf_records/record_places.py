"""Where records begin: each says only where the next one does.

The walk from record to record begins at many places, and takes a step in all of them at once. Where records begin in
the middle of a file is guessed; a guess counts only if the walk from the place before it arrives there.
"""

from array import array
from collections.abc import Callable

import numpy as np

from ...domain.arrays import Array, BoolArray, Int64Array
from .unsupported import UnsupportedRecords

LANE_WORDS = 1 << 13
"""How far apart walks begin."""
_LANES = 1 << 10
"""How many walks are done together. The file needs so much memory at a time."""
_MIN_LANES = 16
"""Fewer walks are done one after the other."""
_STEPS = 64
"""After so many steps, walks that have ended are left out."""
_WINDOW = 256
"""In how many words the beginning of a record is looked for."""
_SAMPLE, _KNOWN_KINDS = np.uint64(9), np.uint64(128)
_KIND, _SIZE_AT = np.uint64(0xFFFFFFFF), np.uint64(48)


class OddSize(UnsupportedRecords):
    """A record does not end at a word."""


def find_places(words: Array, release: Callable[[], object]) -> tuple[Int64Array, Array]:
    """(where records begin in `words` (uint64), their first words). release: called when the words that were read are
    not needed for some time. Raises UnsupportedRecords."""
    found: list[Int64Array] = [np.zeros(0, np.int64)]
    heads: list[Array] = [np.zeros(0, np.uint64)]
    place, group = 0, LANE_WORDS * _LANES
    for low in range(0, len(words), group):
        high = min(low + group, len(words))
        near = np.arange(low + LANE_WORDS, high, LANE_WORDS)
        guesses = _guess_starts(words, near) if len(near) >= _MIN_LANES else near[:0]
        starts = np.concatenate(([place], guesses[guesses > place]))
        stops = np.append(starts[1:], high)
        done = len(found)
        for start, stop, (part, after) in zip(
            starts.tolist(), stops.tolist(), _walk_together(words, starts, stops), strict=True
        ):
            if place == start and after >= 0:
                found.append(part)
                place = after
            elif place < stop:
                # The guess was wrong, so the walk before it continues; or a record has an impossible size.
                part, place = _walk(words, place, stop)
                found.append(part)
        heads += [words[part] for part in found[done:]]
        release()
    if place > len(words):
        raise UnsupportedRecords("its last record is not complete")
    return np.concatenate(found), np.concatenate(heads)


def _guess_starts(words: Array, near: Int64Array) -> Int64Array:
    """At or after each of these places the first at which a sample seems to begin, without those that have none."""
    found = np.full(len(near), -1)
    todo = np.arange(len(near))
    last = len(words) - 1
    for step in range(_WINDOW):
        place = near[todo] + step
        head = words[np.minimum(place, last)]
        size, bad = _measure(head)
        following = words[np.minimum(place + size, last)]
        kind = following & _KIND
        likely = ~bad & (head & _KIND == _SAMPLE) & (size > 1)
        likely &= (kind > 0) & (kind < _KNOWN_KINDS) & ~_measure(following)[1]
        found[todo[likely]] = place[likely]
        todo = todo[~likely]
    return np.unique(found[found >= 0])


def _measure(head: Array) -> tuple[Int64Array, BoolArray]:
    """(size of records in words, whether it is impossible)."""
    size = (head >> _SIZE_AT).astype(np.int64)
    return size >> 3, (size == 0) | (size & 7 != 0)


def _walk_together(words: Array, starts: Int64Array, stops: Int64Array) -> list[tuple[Int64Array, int]]:
    """For each walk the places from a start up to a stop, and the one after them; -1 after an impossible size."""
    after = np.zeros(len(starts), np.int64)
    places, owners = [], []
    lane, at, stop = np.arange(len(starts)), starts, stops
    last = len(words) - 1
    while len(lane) >= _MIN_LANES:
        block = np.empty((_STEPS, len(lane)), np.int64)
        for step in range(_STEPS):
            block[step] = at
            size, bad = _measure(words[np.minimum(at, last)])
            going = at < stop
            at = at + np.where(going, size, 0)
            if (bad & going).any():
                after[lane[bad & going]] = -1
                stop = np.where(bad & going, -1, stop)
        inside = (block < stop).T
        places.append(block.T[inside])
        owners.append(np.repeat(lane, inside.sum(1)))
        ended = at >= stop
        reached = lane[ended & (stop >= 0)]
        after[reached] = at[ended & (stop >= 0)]
        lane, at, stop = lane[~ended], at[~ended], stop[~ended]
    for one, place, end in zip(lane.tolist(), at.tolist(), stop.tolist(), strict=True):
        try:
            part, after[one] = _walk(words, place, end)
        except OddSize:
            after[one] = -1
            continue
        places.append(part)
        owners.append(np.full(len(part), one))
    owner = np.concatenate(owners or [lane[:0]])
    ordered = np.concatenate(places or [lane[:0]])[np.argsort(owner.astype(np.int16), kind="stable")]
    bounds = np.cumsum(np.bincount(owner, minlength=len(starts)))
    return list(zip(np.split(ordered, bounds[:-1]), after.tolist(), strict=True))


def _walk(words: Array, at: int, stop: int) -> tuple[Int64Array, int]:
    """(the places from `at` up to `stop`, the one after them). Raises UnsupportedRecords."""
    halves = words.data.cast("B").cast("H")
    places = array("q")
    while at < stop:
        places.append(at)
        size = halves[4 * at + 3]
        if size & 7 or not size:
            raise OddSize(f"a record has {size:,} bytes")
        at += size >> 3
    return np.frombuffer(places, np.int64), at
