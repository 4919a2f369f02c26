"""The steps of the runs of a series."""

from perfloom.domain.jobs import JobDetails, JobState, SeriesRun, order_runs
from perfloom.store import NewRun
from perfloom.workers import steps
from perfloom.workers.base.context import JobContext
from tests.support.jobspecs import spec_of


def test_a_run_of_a_series_waits_for_those_before_it(context: JobContext) -> None:
    spec, first = spec_of("no-such-program"), "series000000"
    order = enumerate(order_runs(1, 0, ()))
    runs = [NewRun(f"series00000{n}", SeriesRun(first, n, *one), "a", spec, JobDetails()) for n, one in order]
    context.store.series.create(runs)
    # A notification that comes too early.
    steps.advance(context, runs[1].id)
    assert context.store.jobs.get(runs[1].id).state is JobState.QUEUED
    steps.advance(context, first)
    assert context.store.jobs.get(first).state is JobState.FAILED
    # The other side may work.
    assert context.store.series.start_turns() == ()
    steps.advance(context, runs[1].id)
    assert context.store.jobs.get(runs[1].id).state is JobState.CANCELLED
