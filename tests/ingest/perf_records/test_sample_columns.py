"""The columns of samples."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from perfloom.ingest.jit.decorators import HAS_NUMBA
from perfloom.ingest.perf_records.block_threads import begin_blocks, map_blocks
from perfloom.ingest.perf_records.sample_columns import RecordedSamples

CPUS = [{0}, {0, 1}, {0, 1, 2, 3}]


@pytest.fixture(params=CPUS, ids=len)
def cpus(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process may use so many CPUs."""
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: request.param)


@pytest.mark.usefixtures("cpus")
def test_all_columns_are_reordered() -> None:
    columns = [np.arange(3) * 10 + number for number, _ in enumerate(fields(RecordedSamples))]
    samples = RecordedSamples(*(column.copy() for column in columns))
    samples.reorder(np.array([2, 0, 1]))
    for field, column in zip(fields(samples), columns, strict=True):
        assert getattr(samples, field.name).tolist() == column[[2, 0, 1]].tolist()


@pytest.mark.usefixtures("cpus")
def test_results_of_blocks_are_in_order() -> None:
    assert map_blocks(lambda number: number * 2, range(20)) == list(range(0, 40, 2))
    with begin_blocks(lambda number: number * 2, range(20)) as results:
        assert list(results) == list(range(0, 40, 2))
    with pytest.raises(ZeroDivisionError):
        map_blocks(lambda number: 1 // number, [1, 0, 2])
    with pytest.raises(ZeroDivisionError), begin_blocks(lambda number: 1 // number, [1, 0, 2]) as results:
        list(results)


@pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed")
def test_a_short_sample_is_found_behind_a_long_chain() -> None:
    from perfloom.ingest.perf_records.chain_keys import make_weights
    from perfloom.ingest.perf_records.record_loops import TOO_LONG, TOO_SHORT, read_fields

    words = np.array([0, 5, 0, 0, 1, 7], np.uint64)
    words.flags.writeable = False
    place, rows, flags = np.array([0, 3]), np.arange(2), np.zeros(2, np.uint16)
    fields = (0, -1, -1, -1, 0, 1, 7, 2)
    for sizes, failure in (([3, 3], TOO_LONG), ([3, 1], TOO_SHORT)):
        columns = [np.zeros(2, kind) for kind in ("u1", "i4", "i4", "u8", "i4", "u8", "u8", "u4", "i2")]
        size = np.array(sizes, np.int16)
        assert read_fields(words, rows, place, size, flags, fields, make_weights(), *columns) == failure
