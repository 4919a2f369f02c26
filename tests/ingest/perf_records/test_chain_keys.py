"""Equal chains have equal numbers."""

from __future__ import annotations

import numpy as np
import pytest

from perfloom.ingest.perf_records.chain_keys import BLOCK_WORDS, ChainKeys, make_weights


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


@pytest.mark.parametrize("compiled", [False, True])
def test_chains_that_differ_in_their_highest_bits_have_different_numbers(compiled: bool) -> None:
    """A chain's number must not depend on fewer bits of the words."""
    depth, count = 30, 400_000
    number = np.random.default_rng(1).permutation(1 << 22)[:count].astype(np.uint64) * np.uint64(251)
    flips = (number[:, None] >> np.arange(depth, dtype=np.uint64) & np.uint64(1)) << np.uint64(63)
    words = (np.arange(0x400000, 0x400000 + 16 * depth, 16, dtype=np.uint64) | flips).ravel()
    start, length = np.arange(count) * depth, np.full(count, depth)
    if compiled:
        pytest.importorskip("numba")
        from perfloom.ingest.perf_records.record_loops import read_fields

        records = np.concatenate((np.full((count, 1), depth, np.uint64), words.reshape(count, depth)), 1).ravel()
        records.flags.writeable = False
        columns = [np.zeros(count, kind) for kind in ("u1", "i4", "i4", "u8", "i4", "u8", "u8", "u4", "i2")]
        rows, size, flags = np.arange(count), np.full(count, depth + 1, np.int16), np.zeros(count, np.uint16)
        fields = (0, -1, -1, -1, 0, 0, 7, 1)
        assert not read_fields(records, rows, rows * (depth + 1), size, flags, fields, make_weights(), *columns)
        keys = columns[6]
    else:
        chain_keys, many = ChainKeys(), BLOCK_WORDS // depth
        keys = np.concatenate(
            [
                chain_keys.hash_chains(words[depth * at : depth * (at + many)], start[: len(part)], part)
                for at in range(0, count, many)
                if len(part := length[at : at + many])
            ]
        )
    assert len(np.unique(keys)) == len(np.unique(number & np.uint64((1 << depth) - 1)))


def test_numbers_differ_between_processes() -> None:
    words = np.arange(8, dtype=np.uint64)
    one, other = (keys.hash_chains(words, np.zeros(1, np.int64), np.array([8])) for keys in (ChainKeys(), ChainKeys()))
    assert one != other
