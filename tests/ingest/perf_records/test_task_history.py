"""The name of each thread at the time of a sample."""

from __future__ import annotations

import numpy as np
import pytest

from perfloom.ingest.perf_records import task_history
from perfloom.ingest.perf_records.jit_maps import JitMaps
from perfloom.ingest.perf_records.task_history import TaskHistory
from perfloom.ingest.perf_records.task_records import NameRecord


@pytest.mark.parametrize("most_in_table", [1 << 22, 100])
@pytest.mark.parametrize("tids", [(5, 7, 900), (-1, 5, 3000), (4_194_304, 2**31 - 1)])
@pytest.mark.parametrize("part", [1 << 18, 64])
@pytest.mark.parametrize("distance", [10, 4 * 10**6])
def test_names_at_positions(
    monkeypatch: pytest.MonkeyPatch, most_in_table: int, tids: tuple[int, ...], part: int, distance: int
) -> None:
    """distance: of samples. Far apart, products of tasks and positions need more than 32 bits."""
    monkeypatch.setattr(task_history, "_MOST_IN_TABLE", most_in_table)
    monkeypatch.setattr(task_history, "_PART", part)
    generator = np.random.default_rng(len(tids))
    count = 400
    position = np.arange(count) * distance
    asked = generator.choice([*tids, -1, 0, 6, 2**31 - 2], count).astype(np.int32)
    jit = JitMaps(lambda code: None, np.zeros(0, np.uint64), np.zeros(0, np.int64), is_monotonic=True)
    history = TaskHistory({}, {}, jit)
    records = [
        (int(at), NameRecord(int(generator.choice(tids)), f"name {at}".encode()))
        for at in sorted(generator.integers(0, distance * count, 30))
    ]
    history.feed(records)
    found = history.look_up_names(asked, position)
    names: dict[int, bytes] = {0: b"swapper"}
    for row in range(count):
        while records and records[0][0] <= position[row]:
            _, record = records.pop(0)
            names[record.tid] = record.name
        name = names.get(int(asked[row]))
        assert (history.names[found[row]] if found[row] >= 0 else None) == name
