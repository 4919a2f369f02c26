"""Equal chains have equal numbers, and keys are numbered in the order in which they appear."""

from __future__ import annotations

import numpy as np
import pytest

from perfloom.domain.arrays import Array
from perfloom.ingest.perf_records.chain_keys import ChainKeys, number_keys


def number_slowly(keys: Array) -> tuple[list[int], list[int]]:
    known: dict[int, tuple[int, int]] = {}
    codes = [known.setdefault(key, (len(known), row))[0] for row, key in enumerate(keys.tolist())]
    return codes, [row for _, row in known.values()]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000])
@pytest.mark.parametrize("shift", [0, 20, 54, 62])
def test_keys_are_numbered_in_order(count: int, shift: int) -> None:
    """Also those of which the upper or the lower bits are alike."""
    keys = np.random.default_rng(count).integers(0, 300, count).astype(np.uint64) << np.uint64(shift)
    codes, first = number_keys(keys)
    assert (codes.tolist(), first.tolist()) == number_slowly(keys)


def test_numbers_of_chains() -> None:
    words = np.random.default_rng(1).integers(0, 3, 2000).astype(np.uint64)
    start = np.arange(0, 1900)
    length = np.arange(1900) % 7
    keys = ChainKeys().hash_chains(words, start, length)
    chains = [tuple(words[at : at + many].tolist()) for at, many in zip(start.tolist(), length.tolist(), strict=True)]
    of_chain: dict[tuple[int, ...], int] = {}
    for chain, key in zip(chains, keys.tolist(), strict=True):
        assert of_chain.setdefault(chain, key) == key
    assert len(set(of_chain.values())) == len(of_chain) > 500


def test_numbers_differ_between_processes() -> None:
    words = np.arange(8, dtype=np.uint64)
    one, other = (keys.hash_chains(words, np.zeros(1, np.int64), np.array([8])) for keys in (ChainKeys(), ChainKeys()))
    assert one != other
