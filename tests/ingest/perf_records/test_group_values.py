"""The counts of a group of events in samples: how much each grew since the last sample."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfloom.domain.arrays import Array
from perfloom.ingest.perf_records.event_attributes import FLAGS, AttributeFields, SampleType
from perfloom.ingest.perf_records.group_values import (
    GROUP,
    ID,
    LOST,
    TIME_ENABLED,
    check_format,
    measure_values,
    split_groups,
)
from perfloom.ingest.perf_records.unsupported import UnsupportedRecords

EVENTS = {100: 0, 101: 0, 200: 1}
"""By identifier: the first event has two counters."""


def find_events(ids: Array) -> Array:
    return np.array([EVENTS.get(id, -1) for id in ids.tolist()])


@pytest.mark.parametrize("more", [0, LOST, TIME_ENABLED])
def test_samples_of_a_group(more: int) -> None:
    groups = [
        [(5, 100), (7, 200)],
        [(3, 101), (7, 200)],
        [(5, 100), (9, 200), (1, 999)],
        [],
        [(6, 100), (8, 200)],
    ]
    words: list[int] = [0]
    places = []
    for group in groups:
        places.append(len(words))
        words += [len(group), *([77] if more == TIME_ENABLED else [])]
        for value, id in group:
            words += [value, id, *([0] if more == LOST else [])]
    row, event, period = split_groups(np.array(words, np.uint64), np.array(places), GROUP | ID | more, find_events)
    # A count that goes back grows by 2**64 less the difference, as in perf; an unknown one is kept, to be counted.
    assert list(zip(row.tolist(), event.tolist(), period.tolist(), strict=True)) == [
        *[(0, 0, 5), (0, 1, 7), (1, 0, 3), (2, 1, 2), (2, -1, 1)],
        *[(4, 0, 1), (4, 1, 2**64 - 1)],
    ]


def test_more_counts_than_fit_are_refused() -> None:
    for number in (10, 2**64 - 1):
        with pytest.raises(UnsupportedRecords, match="more counts"):
            measure_values(np.array([1, number], np.uint64), GROUP | ID, np.array([10, 10], np.int16))


def test_counts_of_each_thread_are_left_to_perf() -> None:
    fields = {"sample_type": int(SampleType.READ), "read_format": GROUP | ID, "flags": 0}
    event: Any = SimpleNamespace(attributes=AttributeFields(fields))
    assert check_format([event]) == GROUP | ID
    fields["flags"] = 1 << FLAGS.index("inherit")
    with pytest.raises(UnsupportedRecords, match="each thread"):
        check_format([event])
