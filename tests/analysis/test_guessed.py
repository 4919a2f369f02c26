"""Totals that samples do not tell: rare events sampled by frequency, unless they were counted, too."""

import pytest

from perfloom.analysis.measured import guessed_events
from perfloom.analysis.schema import records
from perfloom.analysis.tables import TABLES
from perfloom.charts.bars import count_bars, draw
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.event_names import SAMPLED_ONLY, occurs
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.readers.counted import with_counts
from perfloom.readers.perf_script.chains import LOST_IN_KERNEL
from perfloom.store.describing import event_totals

WEIGHTS = (10, 500, 3)


def made(event: str, sampling: str | None, weights: tuple[int, ...] = WEIGHTS, *, lost: bool = False) -> Profile:
    """Two ranks that were sampled alike."""
    builder = ProfileBuilder("perf-script")
    which = builder.event(event, "count", sampling=sampling)
    for rank in (0, 1):
        thread = builder.thread(rank=rank, pid=10 + rank, tid=10 + rank)
        for number, weight in enumerate(weights):
            builder.sample(100 * number, thread, which, 0, weight)
    if lost:
        builder.lost(LOST_IN_KERNEL, "line 1", 5)
    return builder.finish()


def counts(event: str, value: float) -> Profile:
    builder = ProfileBuilder("perf-stat")
    run = builder.run()
    which = builder.event(event, "count")
    builder.count(run=run, thread=-1, cpu=-1, event=which, value=value, status="ok")
    return builder.finish()


def rows(profile: Profile, table: str, **selection: object) -> list[dict[str, object]]:
    return records(TABLES[table].rows(profile, Selection().only(**selection)))


@pytest.mark.parametrize(
    ("profile", "guessed"),
    [
        (made("page-faults", "frequency"), True),
        (made("sched:sched_switch", "frequency"), True),
        (made("page-faults:u", None), True),
        (made("page-faults", None, (7, 7, 7)), False),
        (made("page-faults", "period", (7, 7, 7)), False),
        (made("page-faults", "period", (1, 1), lost=True), True),
        (made("cpu-clock", "frequency"), False),
        (made("cycles", "frequency"), False),
        (made("page-faults", "frequency", ()), False),
    ],
)
def test_which_samples_tell_no_total(profile: Profile, guessed: bool) -> None:
    assert bool(guessed_events(profile)) is guessed


def test_what_occurs() -> None:
    assert occurs("context-switches") and occurs("faults:u") and occurs("syscalls:sys_enter_read")
    assert not occurs("task-clock:u") and not occurs("cycles:u") and not occurs("L1-dcache-load-misses")


def test_no_table_shows_a_guess() -> None:
    profile = made("page-faults", "frequency")
    for table in ("summary", "events", "threads", "ranks"):
        for row in rows(profile, table):
            assert (row["value"], row["note"]) == (None, SAMPLED_ONLY), table
            assert row["samples"]
    assert {(row["value"], row["status"]) for row in rows(profile, "counts")} == {(None, SAMPLED_ONLY)}
    assert all(row["of_mean"] is None and row["percent"] is None for row in rows(profile, "ranks"))
    assert [total.total for total in event_totals(profile)] == [None]
    for by in ("process", "rank"):
        bars = count_bars(profile, Selection(), by)
        assert (bars.labels, bars.total, bars.note) == ((), None, SAMPLED_ONLY)
        assert SAMPLED_ONLY in draw(bars)


def test_what_was_counted_is_the_total() -> None:
    for sampling in ("frequency", "period"):
        profile = with_counts(made("page-faults", sampling), counts("page-faults", 321.0))
        assert [(row["value"], row["note"]) for row in rows(profile, "events")] == [(321, None)]
        assert [(row["value"], row["note"]) for row in rows(profile, "summary")] == [(321, None)]
        assert [total.total for total in event_totals(profile)] == [321]
        assert count_bars(profile, Selection(), "process").total == 321
        shares = [row["percent"] for row in rows(profile, "threads") if row["key"]]
        assert shares == ([None, None] if sampling == "frequency" else [50.0, 50.0])


def test_an_event_that_was_counted_alone_is_one_more() -> None:
    profile = with_counts(made("cpu-clock", "frequency"), counts("page-faults", 5.0))
    assert [(row["event"], row["value"]) for row in rows(profile, "events")] == [
        ("cpu-clock", 1026),
        ("page-faults", 5),
    ]
