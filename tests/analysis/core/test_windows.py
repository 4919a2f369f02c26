"""Windows and steps over samples that last, against the definitions counted nanosecond by nanosecond."""

from collections import defaultdict
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.compare.functions import diff_functions
from perfloom.analysis.core import sample_rollup
from perfloom.analysis.core.sample_rollup import sum_call_weights
from perfloom.analysis.core.sample_selection import clip_weights, event_id, select_samples
from perfloom.analysis.stacks.flamegraph import FlameGroup, SiblingOrder, flame_tree
from perfloom.analysis.stacks.hotspots import compute_hotspots
from perfloom.analysis.tables import TABLES, records
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.exporters import archive, collapsed
from tests.analysis import brute
from tests.support.profiles import profiles
from tests.support.traced import Trace, traces


@st.composite
def windows(draw: st.DrawFn, profile: Profile) -> Selection:
    """A part of a trace: of time, of a step, of both, of an event, a thread, a rank."""
    start = draw(st.none() | st.integers(-5, 80))
    steps = profile.steps["name"].to_pylist()
    threads = [name for name in profile.threads["name"].to_pylist() if name]
    ranks = [rank for rank in profile.threads["rank"].to_pylist() if rank is not None]
    return Selection(
        event=draw(st.sampled_from([None, *profile.events["name"].to_pylist()])),
        start_ns=start,
        end_ns=draw(st.none() | st.integers((-5 if start is None else start) + 1, 99)),
        step=draw(st.none() | st.sampled_from(steps)) if steps else None,
        threads=tuple(draw(st.lists(st.sampled_from(threads), max_size=1))) if threads else (),
        ranks=tuple(draw(st.lists(st.sampled_from(ranks).map(lambda r: (r, r)), max_size=1))) if ranks else (),
        focus=draw(st.none() | st.sampled_from(["aten", "mm"])),
    )


@pytest.mark.heavy
@settings(max_examples=40)
@given(st.data(), traces())
def test_every_analysis_counts_the_part_inside(data: st.DataObject, profile: Profile) -> None:
    selection = data.draw(windows(profile))
    event = event_id(profile, selection.event)
    name = profile.events["name"][event].as_py() if event >= 0 else None
    expected = brute.selected(profile, selection, event=name) if name else []
    without = selection.replace(focus=None)
    rows = select_samples(profile, without, event)
    numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
    every = brute.selected(profile, without, event=name) if name else []
    assert list(zip(numbers.tolist(), clip_weights(profile, without, rows).tolist(), strict=True)) == [
        (sample.row, sample.weight) for sample in every
    ]
    total = sum(sample.weight for sample in expected)
    assert int(sum_call_weights(profile, selection, event).sum()) == total
    for order in (SiblingOrder.WEIGHT, SiblingOrder.TIME):
        for group in (FlameGroup.NONE, FlameGroup.THREAD):
            assert flame_tree(profile, selection, group=group, order=order).total == total
    by_thread: dict[int, int] = defaultdict(int)
    for sample in expected:
        by_thread[sample.thread] += sample.weight
    chosen = selection.replace(event=name)
    assert sorted(v for v in by_thread.values() if v) == sorted(
        compute_hotspots(profile, chosen, "thread")["self"].tolist()
    )
    if name:
        assert compute_hotspots(profile, chosen)["self"].sum() == total
        table = records(TABLES["threads"].compute(profile, chosen))
        assert sum(row["value"] for row in table) == total
        assert sum(row["samples"] for row in table) == len(expected)
        assert diff_functions(profile, profile, chosen, chosen)["delta_self"].abs().sum() == 0


@settings(max_examples=40)
@given(st.data(), traces())
def test_exports_hold_the_part_inside(data: st.DataObject, profile: Profile) -> None:
    selection = data.draw(windows(profile))
    event = event_id(profile, selection.event)
    name = profile.events["name"][event].as_py() if event >= 0 else None
    expected = brute.selected(profile, selection, event=name) if name else []
    try:
        lines = b"".join(collapsed.write(profile, selection, {})).decode().splitlines()
    except InvalidRequest:
        lines = []
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == sum(sample.weight for sample in expected)
    narrowed = archive._apply_selection(profile, selection.replace(event=name))
    time_ns = narrowed.samples["time_ns"].to_pylist()
    assert sum(narrowed.samples["weight"].to_pylist()) == sum(sample.weight for sample in expected)
    assert time_ns == sorted(time_ns)


@pytest.mark.slow
@pytest.mark.heavy
@settings(max_examples=60)
@given(st.data(), traces() | profiles())
def test_of_many_samples_blocks_are_added_up_before(data: st.DataObject, profile: Profile) -> None:
    selection = data.draw(windows(profile))

    def told() -> list[object]:
        event = event_id(profile, selection.event)
        chosen = selection.replace(event=profile.events["name"][event].as_py() if event >= 0 else None)
        graphs = [
            flame_tree(profile, chosen, group=group) for group in (FlameGroup.NONE, FlameGroup.THREAD, FlameGroup.COMM)
        ]
        return [
            sum_call_weights(profile, chosen, event).tolist(),
            [[getattr(g, c).tolist() for c in ("id", "self_weight", "total_weight")] for g in graphs],
            records(TABLES["threads"].compute(profile, chosen)),
        ]

    one_by_one = told()
    with patch.multiple(
        sample_rollup,
        MIN_ROLLUP_SAMPLES=1,
        BLOCK_COUNT=data.draw(st.integers(1, 6)),
        MAX_DENSE_KEYS=data.draw(st.sampled_from([1, 999])),
    ):
        assert told() == one_by_one


def test_a_step_has_its_window_and_launched_work_on_each_rank() -> None:
    trace = Trace()
    for rank, late in ((0, 0), (1, 50)):
        host, stream = trace.thread(1, rank=rank), trace.thread(7, rank=rank, stream=True)
        first = trace.slice(host, late, late + 100, "first")
        trace.slice(host, late + 100, late + 200, "second")
        # It runs when the next step has long begun, and is of the step that launched it all the same.
        trace.slice(stream, late + 150, late + 180, "kernel", "kernel", first)
        trace.slice(stream, late + 110, late + 120, "whose?", "kernel")
        trace.step("ProfilerStep#8", late, late + 100, rank)
        trace.step("ProfilerStep#9", late + 100, late + 200, rank)
    profile = trace.finish()

    def weights(**words: Any) -> dict[str, int]:
        found = compute_hotspots(profile, Selection(**words))
        return {name: own for name, own in zip(found["name"], found["self"], strict=True) if own}

    assert weights(event="host time", step="ProfilerStep#8") == {"first": 200}
    assert weights(event="host time", step="9", ranks=((1, 1),)) == {"second": 100}
    assert weights(event="device time", step="8") == {"kernel": 60}
    assert weights(event="device time", step="9") == {"whose?": 20}
    assert weights(event="host time", step="8", start_ns=90) == {"first": 10 + 60}
    with pytest.raises(InvalidRequest, match="no step '7'; its steps are ProfilerStep#8 to ProfilerStep#9"):
        weights(step="7")


def test_a_long_sample_far_before_the_window_is_found() -> None:
    trace = Trace()
    long, busy = trace.thread(1, "long"), trace.thread(2, "busy")
    trace.slice(long, 0, 10_000, "waiting")
    for n in range(3_000):
        trace.slice(busy, 3 * n, 3 * n + 2, "step")
    profile = trace.finish()
    found = compute_hotspots(profile, Selection(start_ns=8_001, end_ns=8_011))
    assert dict(zip(found["name"], found["self"], strict=True)) == {"waiting": 10, "step": 7}
