"""Equal chains have equal numbers."""

from __future__ import annotations

import numpy as np

from perfloom.ingest.perf_records.chain_keys import ChainKeys


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
