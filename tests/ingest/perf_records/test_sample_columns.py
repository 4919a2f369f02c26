"""The columns of samples."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from perfloom.ingest.perf_records.block_threads import map_blocks
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
    with pytest.raises(ZeroDivisionError):
        map_blocks(lambda number: 1 // number, [1, 0, 2])
