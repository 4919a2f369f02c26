"""Blocks of memory paired by address, and their samples."""

import numpy as np

from perfloom.domain.arrays import MISSING
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.memory import (
    AllocationColumns,
    MemoryDevice,
    add_samples,
    find_peak,
    pair_allocations,
    select_live,
)
from perfloom.domain.profile import Meta
from perfloom.domain.tables import get_column


def test_blocks_are_paired_by_address_and_device() -> None:
    """Address 7 of device 0: 100 bytes freed and 50 never freed; of device 1: only freed, so it existed before."""
    pairs = pair_allocations(
        np.array([10, 11, 20, 30, 40, 50]),
        np.array([100, 8, -100, 50, -16, 0]),
        np.array([0, 0, 0, 0, 1, 1]),
        np.array([7, 9, 7, 7, 7, 7]),
    )
    assert pairs.start_ns.tolist() == [MISSING, 10, 11, 30]
    assert pairs.end_ns.tolist() == [40, 20, MISSING, MISSING]
    assert pairs.bytes.tolist() == [16, 100, 8, 50]
    assert pairs.alloc_event.tolist() == [-1, 0, 1, 3]
    assert pairs.free_event.tolist() == [4, 2, -1, -1]
    assert (pairs.lost_frees, pairs.lost_allocations) == (0, 0)
    assert select_live(pairs.start_ns, pairs.end_ns, 20).tolist() == [True, False, True, False]


def test_missing_events_of_an_address_are_counted() -> None:
    """Allocated twice: the first ended when the second began. Freed twice: the second began when the first ended."""
    pairs = pair_allocations(np.array([1, 2, 3, 4]), np.array([5, 6, -6, -7]), np.zeros(4, int), np.full(4, 9))
    assert list(zip(pairs.start_ns.tolist(), pairs.end_ns.tolist(), pairs.bytes.tolist(), strict=True)) == [
        (1, 2, 5),
        (2, 3, 6),
        (3, 4, 7),
    ]
    assert (pairs.lost_frees, pairs.lost_allocations) == (1, 1)


def test_events_without_addresses_are_separate_rows() -> None:
    pairs = pair_allocations(np.array([1, 2]), np.array([5, -5]), np.zeros(2, int), None)
    assert pairs.start_ns.tolist() == [MISSING, 1]
    assert pairs.end_ns.tolist() == [2, MISSING]


def test_peak_is_the_first_maximum() -> None:
    assert find_peak(np.array([1, 2, 3]), np.array([4.0, 9.0, 9.0])) == 2
    assert find_peak(np.zeros(0), np.zeros(0)) is None


def test_blocks_are_samples_of_allocations_and_peak() -> None:
    """Peak at 25: the block that existed before (16) and the one of 8 live; that of 100 is freed already."""
    builder = ProfileBuilder("test")
    stack = builder.intern_stack([builder.intern_frame(builder.intern_function("train"))])
    track = builder.intern_thread(tid=1, kind="track")
    blocks = AllocationColumns(
        start_ns=np.array([MISSING, 10, 11]),
        end_ns=np.array([40, 20, MISSING]),
        bytes=np.array([16, 100, 8]),
        device=np.array([0, 0, 0]),
        thread=np.array([-1, -1, -1]),
        stack=np.array([0, stack, stack]),
    )
    names = add_samples(builder, blocks, {0: MemoryDevice("gpu", 25, track)}, began_ns=5)
    assert names == ("GPU bytes live at peak", "GPU bytes allocated")
    profile = builder.finish(Meta("test"))
    samples = profile.samples
    assert profile.events.column("unit").to_pylist() == ["bytes", "bytes"]
    found = zip(*(get_column(samples, name).tolist() for name in ("event", "time_ns", "stack", "weight")), strict=True)
    assert sorted(found) == [(0, 0, 0, 16), (0, 6, 1, 8), (1, 5, 1, 100), (1, 6, 1, 8)]
