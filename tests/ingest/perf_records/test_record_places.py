"""Records are found wherever they are, also if their contents look like records."""

from __future__ import annotations

import re

import numpy as np
import pytest

from perfloom.domain.arrays import Array
from perfloom.ingest.jit.decorators import HAS_NUMBA
from perfloom.ingest.perf_records.record_places import BLOCK_WORDS, OddSize, find_places
from perfloom.ingest.perf_records.unsupported import UnsupportedRecords

SAMPLE, OTHER = 9, 10
WORDS = 10 * BLOCK_WORDS


def make_words(sizes: Array, kind: int, content: int) -> tuple[Array, Array]:
    """(words of records with these sizes and content, where they begin)."""
    places = np.cumsum(np.concatenate(([0], sizes)))
    words = np.full(int(places[-1]), content, np.uint64)
    words[places[:-1]] = sizes.astype(np.uint64) << np.uint64(51) | np.uint64(kind)
    return words, places[:-1]


def find(words: Array) -> list[int]:
    """The places, which a compiled loop finds, too."""
    words.flags.writeable = False
    records = find_places(words, lambda: None)
    heads = words[records.place]
    assert (records.kind == heads & np.uint64(2**32 - 1)).all()
    assert (records.flags == heads >> np.uint64(32) & np.uint64(2**16 - 1)).all()
    assert (records.size == (heads >> np.uint64(51)).astype(np.int64)).all()
    if HAS_NUMBA:
        for found, wanted in zip(find_places(words, lambda: None, compiled=True), records, strict=True):
            assert found.dtype == wanted.dtype and np.array_equal(found, wanted)
    return list(records.place.tolist())


@pytest.mark.parametrize("kind", [SAMPLE, OTHER])
@pytest.mark.parametrize("content", [0, SAMPLE | 24 << 48, OTHER | 16 << 48, 2**64 - 1, SAMPLE | 0xFFF8 << 48])
@pytest.mark.parametrize(("low", "high"), [(2, 12), (60, 70), (8000, 8191)])
def test_content_that_looks_like_records(kind: int, content: int, low: int, high: int) -> None:
    sizes = np.random.default_rng(low).integers(low, high, 2 * WORDS // (low + high))
    words, places = make_words(sizes, kind, content)
    assert find(words) == places.tolist()


def test_a_few_long_records_between_short_ones() -> None:
    sizes = np.full(50_000, 7)
    sizes[::501] = 8191
    words, places = make_words(sizes, SAMPLE, SAMPLE | 64 << 48)
    assert find(words) == places.tolist()


@pytest.mark.parametrize("size", [0, 12, 0xFFF8])
def test_an_impossible_size_is_named(size: int) -> None:
    words, places = make_words(np.full(WORDS // 10, 10), SAMPLE, 0)
    words[places[-1] if size == 0xFFF8 else places[20_000]] = SAMPLE | size << 48
    with pytest.raises(UnsupportedRecords, match="not complete" if size == 0xFFF8 else f"a record has {size}") as error:
        find(words)
    assert isinstance(error.value, OddSize) == (size != 0xFFF8)
    if HAS_NUMBA:
        with pytest.raises(type(error.value), match=re.escape(str(error.value))):
            find_places(words, lambda: None, compiled=True)


def test_no_records() -> None:
    assert find(np.zeros(0, np.uint64)) == []


def test_what_was_read_is_released_in_parts() -> None:
    words, _ = make_words(np.full(130 * BLOCK_WORDS // 64, 64), SAMPLE, 0)
    for compiled in (False, HAS_NUMBA):
        calls: list[None] = []
        find_places(words, lambda: calls.append(None), compiled=compiled)  # noqa: B023
        assert len(calls) == 3
