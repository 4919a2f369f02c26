"""Events measured in separate runs have the same totals as in one run with all of them, within noise."""

import sys
from typing import Any

import pytest

from perfloom.domain.jobs import CallGraph, EventSplitting, JobSpec, JobState, RecorderName
from perfloom.domain.targets import Target
from perfloom.readers.perf_script.profile import LOST_IN_KERNEL
from perfloom.workers.base.context import JobContext
from tests.support.marks import slow_except
from tests.workers.remote.driving import at, run

WORK = (sys.executable, "-S", "-c", "x = bytearray(80_000_000)\nsum(i * i for i in range(2_000_000))")
"""Touches 80 MB, which is a known number of page faults, and computes for a while."""
PERIOD = 50
EVENTS = ("task-clock:u", "page-faults:u", "minor-faults:u")


def measured(context: JobContext, spec: JobSpec) -> tuple[dict[str, float], dict[str, set[int]], int, int]:
    """By event: its total, and the runs that it comes from; how many runs there were, and how many samples perf lost."""
    job = run(context, spec)
    assert job.state is JobState.STORED and job.reason is None, job.reason
    profile = context.store.results.open(job.id)
    events = profile.events.column("name").to_pylist()
    threads: list[dict[str, Any]] = profile.threads.to_pylist()
    totals: dict[str, float] = dict.fromkeys(events, 0.0)
    runs: dict[str, set[int]] = {name: set() for name in events}
    for row in profile.samples.to_pylist():
        totals[events[row["event"]]] += row["weight"]
        runs[events[row["event"]]].add(threads[row["thread"]]["run"])
    for row in profile.counts.to_pylist():
        totals[events[row["event"]]] += row["value"]
        runs[events[row["event"]]].add(row["run"])
    lost = sum(row["count"] for row in profile.losses.to_pylist() if row["reason"] == LOST_IN_KERNEL)
    return totals, runs, profile.runs.num_rows, lost


@pytest.mark.parametrize(
    "splitting", slow_except([EventSplitting.AT_ONCE], [EventSplitting.SEQUENTIAL, EventSplitting.AT_ONCE])
)
@pytest.mark.parametrize("recorder", [RecorderName.PERF_RECORD, RecorderName.PERF_STAT])
def test_runs_add_up(context: JobContext, here: Target, recorder: RecorderName, splitting: EventSplitting) -> None:
    # A sample every so many page faults: by frequency the number of rare events is perf's guess.
    sampled: dict[str, Any] = {}
    if recorder is RecorderName.PERF_RECORD:
        sampled = {"period": PERIOD, "call_graph": CallGraph.NONE}
    events = EVENTS[1:] if sampled else EVENTS
    one = at(here, *WORK, recorder=recorder, events=events, **sampled, leave_files=False)
    apart = at(here, *WORK, recorder=recorder, events=events, splitting=splitting, events_per_run=1, **sampled)
    together, _, number, lost = measured(context, one)
    assert number == 1
    split, runs, number, lost_apart = measured(context, apart)
    assert number == len(events) and sorted(runs.values()) == [{run} for run in range(number)]
    assert together.keys() == split.keys()
    for name, value in together.items():
        # The counts are of the same program; only its time depends on other load.
        allowed = value * (3.0 if name.startswith("task-clock") else 0.1)
        # On a busy machine perf may lose samples, and then says so.
        allowed += (lost + lost_apart) * PERIOD if sampled else 0
        assert value > 0 and split[name] == pytest.approx(value, abs=allowed), name
    assert together["page-faults:u"] > 15_000
