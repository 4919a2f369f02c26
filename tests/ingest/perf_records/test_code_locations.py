"""The locations of call chains by the compiled loop and by numpy, and which code is at an address."""

from __future__ import annotations

import numpy as np
import pytest

from perfloom.ingest.perf_records import address_maps, code_locations
from perfloom.ingest.perf_records.address_maps import AddressSpace, Mapping, find_mappings
from perfloom.ingest.perf_records.code_locations import MARKS, MAX_DEPTH, ChainColumns
from perfloom.ingest.perf_records.code_objects import CodeObject, ObjectKind

KERNEL, USER, HYPERVISOR, INVALID = 2**64 - 128, 2**64 - 512, 2**64 - 32, 2**64 - 77


def make_columns(
    chains: list[list[int]], mode: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, ChainColumns]:
    words = np.array([word for chain in chains for word in chain] or [0], np.uint64)
    length = np.array([len(chain) for chain in chains], np.int16)
    code = (np.cumsum(length) - length).astype(np.uint32)
    # Some samples are without a chain: the place is that of their address.
    length[generator.random(len(length)) < 0.1] = -1
    space = generator.integers(0, 3, len(chains)).astype(np.int32)
    words.flags.writeable = False
    return words, ChainColumns(np.zeros(len(chains), np.uint64), mode, space, code, length)


@pytest.mark.parametrize("seed", range(20))
def test_compiled_locations_are_those_of_numpy(seed: int) -> None:
    generator = np.random.default_rng(seed)
    marks = [KERNEL, USER, HYPERVISOR, *([INVALID, 2**64 - 4095] if seed % 2 else [])]

    def make_word() -> int:
        if generator.random() < (0.02 if seed % 4 < 2 else 0.3):
            return int(generator.choice(np.array(marks, np.uint64)))
        return int(generator.integers(0, 50)) if generator.random() < 0.9 else 2**64 - 4096

    longest = 2 * MAX_DEPTH if seed % 3 else 5
    chains = [[make_word() for _ in range(1 + generator.integers(0, longest))] for _ in range(200)]
    mode = generator.integers(0, 4, len(chains)).astype(np.uint8)
    words, columns = make_columns(chains, mode, generator)
    rows = np.sort(generator.choice(len(chains), 150, replace=False))
    counts, expected = code_locations._flatten(words, columns, rows)
    found_counts, found = code_locations._flatten_compiled(words, columns, rows)
    assert found_counts.tolist() == counts.tolist()
    for name in ("address", "space", "relative"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
    assert MARKS.tolist()[0] == 2**64 - 4095


@pytest.mark.parametrize("at_once", [1, 20, 1 << 17])
@pytest.mark.parametrize("seed", range(10))
def test_mapping_at_an_address(monkeypatch: pytest.MonkeyPatch, seed: int, at_once: int) -> None:
    """In one of several address spaces, against a search one by one."""
    monkeypatch.setattr(address_maps, "_AT_ONCE", at_once)
    generator = np.random.default_rng(seed)
    spaces = [AddressSpace() for _ in range(int(generator.integers(1, 6)))]
    for number in range(int(generator.integers(0, 60))):
        start = int(generator.integers(0, 2**16)) + (2**64 - 2**17 if number % 5 == 0 else 0)
        mapping = Mapping(CodeObject(ObjectKind.FILE, f"/{number}"), f"/{number}", 0)
        spaces[number % len(spaces)].add(start, start + int(generator.integers(0, 2**14)), mapping)
    addresses = generator.integers(0, 2**17, 500).astype(np.uint64)
    addresses[::3] += np.uint64(2**64 - 2**17)
    number = generator.integers(0, len(spaces), len(addresses))
    at, mappings = find_mappings(spaces, number, addresses)
    for row in range(len(addresses)):
        expected = spaces[number[row]].find(int(addresses[row]))
        assert (mappings[at[row]] if at[row] >= 0 else None) == expected
