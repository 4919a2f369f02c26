"""Counts of perf stat side by side, and what must not be compared with them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perfloom.analysis.compare.counts import diff_counts
from perfloom.analysis.compare.functions import diff_functions
from perfloom.analysis.core.schema import records
from perfloom.analysis.counts.count_metrics import compute_count_metrics
from perfloom.analysis.counts.totals import compute_counts
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.readers import perf_stat
from tests.support import paths

DATA = paths.DATA / "perf-stat"
ALL = Selection()


def of_file(name: str) -> Profile:
    with (DATA / name).open("rb") as stream:
        return perf_stat.read(stream)


def compared(base: Profile, other: Profile) -> dict[str, dict[str, Any]]:
    return {row["event"]: row for row in records(diff_counts(base, other, ALL, ALL))}


def sampled(event: str = "cycles") -> Profile:
    builder = ProfileBuilder("perf-script")
    cycles, thread = (
        builder.intern_event(event, "count", sampling="frequency", rate=99.0),
        builder.intern_thread(pid=1, tid=1),
    )
    for at in range(3):
        builder.add_sample(at, thread, cycles, 0, 1_000)
    return builder.finish()


def counted(*totals: float, event: str = "cycles") -> Profile:
    """A result in which each run counted one total."""
    builder = ProfileBuilder("perf-stat")
    for total in totals:
        builder.add_count(
            run=builder.add_run(),
            thread=-1,
            cpu=-1,
            event=builder.intern_event(event, "count"),
            value=total,
            status="ok",
        )
    return builder.finish()


@pytest.mark.parametrize("form", ["json", "csv", "txt"])
def test_difference_ratio_and_spread_of_repeats(form: str) -> None:
    rows = compared(of_file(f"by-hand-repeat-base.{form}"), of_file(f"by-hand-repeat-other.{form}"))
    cycles, instructions = rows["cycles"], rows["instructions"]
    assert (cycles["base"], cycles["other"], cycles["delta"]) == (10**9, 1_200_000_000, 200_000_000)
    assert (cycles["delta_percent"], cycles["ratio"], cycles["status"]) == (20.0, 1.2, "grew")
    assert (cycles["base_deviation_percent"], cycles["other_deviation_percent"]) == (1.5, 2.0)
    assert cycles["within_spread"] is False
    # 4 million less than twice √(2 million² + 4.008 million²).
    assert instructions["delta"] == 4_000_000 and instructions["within_spread"] is True
    missing = rows["LLC-loads"]
    assert missing["status"] == "not compared" and missing["base"] is missing["delta"] is None
    assert missing["note"] == "not supported in the base; not supported in the other"


def test_runs_are_compared_by_their_means() -> None:
    row = compared(counted(90, 110), counted(120, 120, 150))["cycles"]
    assert (row["base"], row["other"], row["delta"]) == (100, 130, 30)
    assert row["base_deviation_percent"] == pytest.approx(100 * math.sqrt(200) / math.sqrt(2) / 100)
    alone = compared(counted(90), counted(120))["cycles"]
    assert alone["base_deviation_percent"] is None and alone["within_spread"] is None and alone["delta"] == 30


@pytest.mark.parametrize("swapped", [False, True])
def test_counted_and_sampled_are_never_subtracted(swapped: bool) -> None:
    pair = (counted(5_000), sampled())
    row = compared(*(pair[::-1] if swapped else pair))["cycles"]
    assert row["status"] == "not compared" and row["delta"] is row["ratio"] is row["delta_percent"] is None
    assert {row["base"], row["other"]} == {5_000, 3_000}
    assert {row["base_source"], row["other_source"]} == {"counted", "sampled"}
    assert "sampled total is an estimate" in row["note"]
    for selection in (ALL, Selection(event="cycles")):
        with pytest.raises(InvalidRequest, match="not comparable"):
            diff_functions(*(pair[::-1] if swapped else pair), selection, selection)


def test_additional_counts_are_not_treated_as_sampled() -> None:
    row = compared(counted(5), sampled("cpu-clock"))["cycles"]
    assert (row["status"], row["note"]) == ("not compared", "not recorded in the other")
    assert compared(sampled(), sampled()) == {}


def test_intervals_add_up_and_report_missing_ones() -> None:
    profile = of_file("by-hand-interval.json")
    rows = {row["event"]: row for row in records(compute_counts(profile, ALL))}
    assert rows["cycles"]["value"] == 600_000_000 and rows["cycles"]["missing"] == 0
    assert (rows["cache-misses"]["value"], rows["cache-misses"]["missing"]) == (6_000, 1)
    note = compared(profile, profile)["cache-misses"]["note"]
    assert note == "1 intervals or CPUs of the base were not counted; 1 intervals or CPUs of the other were not counted"


def test_metrics_follow_the_selection() -> None:
    profile = of_file("by-hand-interval.json")
    everything = records(compute_count_metrics(profile, ALL))
    assert len(everything) == 11 and everything[1]["metric"] == "insn per cycle" and everything[1]["value"] == 2.0
    late = records(compute_count_metrics(profile, Selection(start_ns=100_000_000, end_ns=200_000_000)))
    assert [(row["metric"], row["value"]) for row in late] == [
        ("GHz", 2.0),
        ("insn per cycle", 0.5),
        ("stalled cycles per insn", 1.5),
    ]
    of_event = records(compute_count_metrics(profile, Selection(event="instructions")))
    assert {row["event"] for row in of_event} == {"instructions"} and len(of_event) == 6
    threads = of_file("by-hand-per-thread.csv")
    one = records(compute_count_metrics(threads, Selection(threads=(threads_key(threads),))))
    assert [row["thread"] for row in one] == ["a.out"] * 3


def threads_key(profile: Profile) -> str:
    from perfloom.analysis.core.sample_selection import threads_of

    return threads_of(profile).key[0]


def test_a_guessed_total_next_to_a_count_is_unknown() -> None:
    """Samples of a rare event that were taken by frequency tell no total; that is not zero."""
    row = compared(sampled("page-faults"), counted(2119, event="page-faults"))["page-faults"]
    assert (row["base"], row["other"], row["delta"], row["status"]) == (None, 2119, None, "not compared")


def test_several_recordings_of_a_side_are_averaged() -> None:
    bases, others = [counted(total) for total in (100, 104, 96)], [counted(total) for total in (110, 114, 106)]
    row = next(
        row
        for row in diff_counts.rows(
            bases[0], others[0], ALL, ALL, more_bases=bases[1:], more_others=others[1:]
        ).records()
    )
    assert (row["base"], row["other"], row["delta"], row["status"]) == (100, 110, 10, "grew")
    # The standard deviation of the values is 4, that of their mean 4/√3.
    assert row["base_deviation_percent"] == pytest.approx(100 * 4 / math.sqrt(3) / 100)
    assert row["within_spread"] is False
    near = diff_counts.rows(bases[0], counted(102), ALL, ALL, more_bases=bases[1:], more_others=[counted(99)]).records()
    assert near[0]["within_spread"] is True
    # What one recording of a side did not count is not averaged.
    (lacking, _) = diff_counts.rows(bases[0], others[0], ALL, ALL, more_others=[counted(7, event="faults")]).records()
    assert (lacking["event"], lacking["other"], lacking["delta"]) == ("cycles", None, None)
    assert lacking["status"] == "not compared" and "counted in 1 of 2 recordings in the other" in lacking["note"]


def test_formulas_of_several_recordings_have_a_spread() -> None:
    def measured(instructions: int) -> Profile:
        builder = ProfileBuilder("perf-stat")
        run = builder.add_run()
        for event, total in (("cycles", 100), ("instructions", instructions)):
            number = builder.intern_event(event, "count")
            builder.add_count(run=run, thread=-1, cpu=-1, event=number, value=total, status="ok")
        return builder.finish()

    def ratio(*others: int) -> dict[str, Any]:
        bases, rest = ([measured(total) for total in totals] for totals in ((200, 240, 160), others))
        rows = diff_counts.rows(bases[0], rest[0], ALL, ALL, more_bases=bases[1:], more_others=rest[1:]).records()
        return next(row for row in rows if row["event"] not in ("cycles", "instructions"))

    row = ratio(201, 239, 163)
    assert row["base"] == pytest.approx(2) and row["within_spread"] is True
    assert row["base_deviation_percent"] == pytest.approx(100 * 0.4 / math.sqrt(3) / 2)
    assert ratio(600, 640, 560)["within_spread"] is False
