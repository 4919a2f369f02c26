"""Totals that samples do not tell: rare events sampled by frequency, unless they were counted, too."""

import pytest

from perfloom.analysis.compare.flamegraph import flame_diff
from perfloom.analysis.compare.functions import diff_functions
from perfloom.analysis.core.measurements import find_share_only_events
from perfloom.analysis.core.schema import records
from perfloom.analysis.stacks.flamegraph import flame_tree
from perfloom.analysis.tables import TABLES
from perfloom.analysis.timeline.details import summarize_samples
from perfloom.analysis.timeline.minimap import build_minimap
from perfloom.analysis.timeline.model import open_timeline, prepare_timeline
from perfloom.analysis.timeline.tracks import list_tracks, time_extent
from perfloom.charts import flamegraph_svg
from perfloom.charts.bars import build_bars
from perfloom.charts.flamegraph import build_flame_payload
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.event_names import SAMPLED_ONLY, is_occurrence
from perfloom.domain.profile import Profile
from perfloom.domain.rank_state import THROTTLING
from perfloom.domain.selection import Selection
from perfloom.domain.tables import FrameKind
from perfloom.ingest.perf_text.losses import LOST_IN_KERNEL
from perfloom.ingest.stat_counts import add_counts
from perfloom.store.description import event_totals

WEIGHTS = (10, 500, 3)


def made(event: str, sampling: str | None, weights: tuple[int, ...] = WEIGHTS, *, lost: str = "") -> Profile:
    """Two ranks that were sampled alike."""
    builder = ProfileBuilder("perf-script")
    which = builder.intern_event(event, "count", sampling=sampling)
    for rank in (0, 1):
        thread = builder.intern_thread(rank=rank, pid=10 + rank, tid=10 + rank)
        for number, weight in enumerate(weights):
            builder.add_sample(100 * number, thread, which, 0, weight)
    if lost:
        builder.add_loss(lost, "line 1", 5)
    return builder.finish()


def counts(event: str, value: float) -> Profile:
    builder = ProfileBuilder("perf-stat")
    run = builder.add_run()
    which = builder.intern_event(event, "count")
    builder.add_count(run=run, thread=-1, cpu=-1, event=which, value=value, status="ok")
    return builder.finish()


def rows(profile: Profile, table: str, **selection: object) -> list[dict[str, object]]:
    return records(TABLES[table].rows(profile, Selection().replace(**selection)))


@pytest.mark.parametrize(
    ("profile", "guessed"),
    [
        (made("page-faults", "frequency"), True),
        (made("sched:sched_switch", "frequency"), True),
        (made("page-faults:u", None), True),
        (made("page-faults", None, (7, 7, 7)), False),
        (made("page-faults", "period", (7, 7, 7)), False),
        (made("page-faults", "period", (1, 1), lost=LOST_IN_KERNEL), True),
        (made("page-faults", "period", (1, 1), lost=THROTTLING), True),
        (made("cpu-clock", "frequency"), False),
        (made("cycles", "frequency"), False),
        (made("page-faults", "frequency", ()), False),
    ],
)
def test_which_samples_tell_no_total(profile: Profile, guessed: bool) -> None:
    assert bool(find_share_only_events(profile)) is guessed


def test_what_occurs() -> None:
    assert is_occurrence("context-switches") and is_occurrence("faults:u") and is_occurrence("syscalls:sys_enter_read")
    assert (
        not is_occurrence("task-clock:u")
        and not is_occurrence("cycles:u")
        and not is_occurrence("L1-dcache-load-misses")
    )


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
        bars = build_bars(profile, Selection(), by)
        assert (bars.labels, bars.total, bars.note) == ((), None, SAMPLED_ONLY)


def test_counts_give_the_total() -> None:
    for sampling in ("frequency", "period"):
        profile = add_counts(made("page-faults", sampling), counts("page-faults", 321.0))
        assert [(row["value"], row["note"]) for row in rows(profile, "events")] == [(321, None)]
        assert [(row["value"], row["note"]) for row in rows(profile, "summary")] == [(321, None)]
        assert [total.total for total in event_totals(profile)] == [321]
        assert build_bars(profile, Selection(), "process").total == 321
        shares = [row["percent"] for row in rows(profile, "threads") if row["key"]]
        assert shares == ([None, None] if sampling == "frequency" else [50.0, 50.0])


def test_an_event_that_was_counted_alone_is_one_more() -> None:
    profile = add_counts(made("cpu-clock", "frequency"), counts("page-faults", 5.0))
    assert [(row["event"], row["value"]) for row in rows(profile, "events")] == [
        ("cpu-clock", 1026),
        ("page-faults", 5),
    ]


def stacked(sampling: str, *weights: tuple[str, int]) -> Profile:
    """Samples of page faults and of a clock in functions."""
    builder = ProfileBuilder("perf-script")
    thread = builder.intern_thread(pid=1, tid=1)
    faults, clock = (
        builder.intern_event("page-faults", "count", sampling=sampling),
        builder.intern_event("cpu-clock", "ns"),
    )
    for at, (name, weight) in enumerate(weights):
        call = builder.intern_stack([builder.intern_frame(builder.intern_function(name), kind=FrameKind.USER)])
        for event in (faults, clock):
            builder.add_sample(at, thread, event, call, weight)
    return builder.finish()


def test_functions_have_shares_of_a_guess_and_no_values() -> None:
    profile = stacked("frequency", ("main", 30), ("other", 10))
    for by in ("function", "module", "thread"):
        found = records(TABLES["hotspots"].rows(profile, Selection(), by))
        for row in found:
            known = row["event"] == "cpu-clock"
            assert (row["self"] is not None, row["total"] is not None) == (known, known)
    shares = {(row["event"], row["name"]): row["self_percent"] for row in rows(profile, "hotspots")}
    assert shares["page-faults", "main"] == shares["cpu-clock", "main"] == 75.0


@pytest.mark.parametrize("by", ["function", "stack"])
@pytest.mark.parametrize("normalise", [True, False])
def test_guesses_are_compared_by_share_alone(by: str, normalise: bool) -> None:
    base = stacked("frequency", ("main", 30), ("other", 10))
    other = stacked("frequency", ("main", 500), ("other", 500))
    found = records(diff_functions(base, other, Selection(), Selection(), by, normalise))
    faults = {row["name"]: row for row in found if row["event"] == "page-faults"}
    values = [f"{side}_{name}" for side in ("base", "other", "delta") for name in ("self", "total")]
    assert {row[name] for row in faults.values() for name in values} == {None}
    assert [faults["main"][f"{side}_self_percent"] for side in ("base", "other", "delta")] == [75.0, 50.0, -25.0]
    assert all(row[name] is not None for row in found if row["event"] == "cpu-clock" for name in values)


def test_a_guess_on_one_side_leaves_the_other() -> None:
    base, other = stacked("frequency", ("main", 30)), stacked("period", ("main", 30))
    row = records(diff_functions(base, other, Selection(event="page-faults"), Selection(event="page-faults")))[0]
    assert (row["base_self"], row["other_self"], row["delta_self"]) == (None, 30, None)


def test_a_thread_without_a_sample_of_a_guess_has_no_value() -> None:
    builder = ProfileBuilder("perf-script")
    faults = builder.intern_event("page-faults", "count", sampling="frequency")
    builder.intern_thread(pid=2, tid=2)
    builder.add_sample(0, builder.intern_thread(pid=1, tid=1), faults, 0, 10)
    found = rows(builder.finish(), "threads")
    assert [(row["samples"], row["value"], row["percent"], row["note"]) for row in found] == [
        (1, None, None, SAMPLED_ONLY),
        (0, None, None, SAMPLED_ONLY),
    ]


def test_ranks_have_shares_of_samples_and_of_counts_apart() -> None:
    profile = add_counts(made("page-faults", "period", (7, 7)), counts("page-faults", 28.0))
    assert {row["percent"] for row in rows(profile, "ranks") if row["rank"] is not None} == {50.0}
    assert [row["percent"] for row in rows(profile, "ranks") if row["rank"] is None] == [100.0]


def test_the_strip_shows_samples_of_a_guess() -> None:
    profile = made("page-faults", "frequency")
    timeline = open_timeline(profile, prepare_timeline(profile))
    strip = build_minimap(profile, timeline, Selection(), time_extent(profile, timeline)).host
    assert strip.unit == "samples of page-faults per second"
    assert float(strip.values.sum()) * strip.bin_ns / 1e9 == pytest.approx(6)


def test_tracks_of_a_guess_have_no_total() -> None:
    profile = made("page-faults", "frequency")
    timeline = open_timeline(profile, prepare_timeline(profile))
    assert {track.unit for track in list_tracks(profile, timeline, Selection())[0]} == {SAMPLED_ONLY}
    inside = summarize_samples(profile, timeline, 0, 0, 0, 1000)
    assert inside["samples"] == 3 and inside["unit"] == SAMPLED_ONLY


def test_a_flame_graph_of_a_guess_has_shares_alone() -> None:
    base = stacked("frequency", ("main", 30), ("other", 10))
    faults, clock = Selection(event="page-faults"), Selection(event="cpu-clock")
    assert build_flame_payload(base, clock)["unit"] == "ns"
    assert build_flame_payload(base, faults)["unit"] == SAMPLED_ONLY
    picture = flamegraph_svg.write_svg(flame_tree(base, faults), base, title="Faults")
    assert f"page-faults: {SAMPLED_ONLY}" in picture and f"total 75.00\N{NO-BREAK SPACE}% ({SAMPLED_ONLY})" in picture


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("guesses", ["frequency period", "period frequency", "frequency frequency"])
def test_a_difference_of_guesses_is_of_shares(guesses: str, reverse: bool) -> None:
    one, two = guesses.split()
    base, other = stacked(one, ("main", 30), ("other", 10)), stacked(two, ("main", 500), ("other", 500))
    faults, clock = Selection(event="page-faults"), Selection(event="cpu-clock")
    tree = flame_diff(base, other, faults, faults, normalize=False, reverse=reverse)
    assert (tree.unit, tree.base_weight) == (SAMPLED_ONLY, tree.total)
    tree = flame_diff(base, other, clock, clock, normalize=False, reverse=reverse)
    assert (tree.unit, tree.base_weight) == ("ns", 1000 if reverse else 40)
