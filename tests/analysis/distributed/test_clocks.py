"""Clocks of ranks: results that compare ranks do not depend on the offset of a rank's clock."""

from __future__ import annotations

import gzip
import io
import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perfloom.analysis.advice.findings import find_advice
from perfloom.analysis.core.schema import records
from perfloom.analysis.distributed.clock_alignment import ClockAligner, ClockEstimate, CollectiveEnds, estimate_clocks
from perfloom.analysis.distributed.collectives import collectives_of
from perfloom.analysis.distributed.skew import ClockState, skew_of
from perfloom.analysis.tables import TABLES
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import DeviceWorkKind
from perfloom.ingest.merge import merge
from perfloom.readers import pytorch, stored_profile
from tests.analysis.stepped import Trace
from tests.support import paths
from tests.support.real_traces import FOLDER, here

SCHEMA_4 = paths.DATA / "stored" / "schema-4.perfloom"
US, MS = 1_000, 1_000_000
KNOWN = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "Float"}


def rows(profile: Profile, table: str, by: str | None = None) -> list[dict[str, Any]]:
    return records(TABLES[table].rows(profile, Selection(), by))


def rank_of_job(
    rank: int,
    ahead_us: float = 0,
    *,
    ranks: int = 2,
    steps: int = 8,
    groups: tuple[tuple[int, ...], ...] | None = None,
    numbered: bool = True,
    drift_ppm: float = 0,
    more: int = 0,
) -> Profile:
    """The trace of a rank: in each step of 1000 µs a kernel that takes longer the higher the rank, then an all-reduce in
    each of its groups, which ends everywhere within a few µs. more: so many that others do not have, in the first."""
    noise, events = random.Random(rank), []
    for step in range(steps):
        at = 1000.0 * step
        place = {"pid": 100 + rank, "tid": 1}
        begin = {"name": f"ProfilerStep#{step}", "cat": "user_annotation", "ts": at, "dur": 990}
        events.append({"ph": "X", **place, **begin})
        events.append(
            {
                "ph": "X",
                "name": "cudaLaunchKernel",
                "cat": "cuda_runtime",
                "ts": at + 10,
                "dur": 5,
                **place,
                "args": {"correlation": 100 * step + 1},
            }
        )
        events.append(
            {
                "ph": "X",
                "name": "gemm",
                "cat": "kernel",
                "ts": at + 20,
                "dur": 100 + 50 * rank,
                "pid": rank,
                "tid": 7,
                "args": {"correlation": 100 * step + 1, "device": rank, "stream": 7},
            }
        )
        mine = [group for group in groups or (tuple(range(ranks)),) if rank in group]
        for number, group in enumerate(mine * (1 + (more if step == 0 else 0))):
            correlation, start = 100 * step + 2 + number, at + 400 + 60 * number
            told = KNOWN | {"Group size": len(group), "Process Group Name": str(group)}
            told |= {"Process Group Ranks": json.dumps(group)} | ({"Seq": step} if numbered else {})
            events.append(
                {
                    "ph": "X",
                    "name": "record_param_comms",
                    "cat": "cpu_op",
                    "ts": start,
                    "dur": 20,
                    **place,
                    "args": told,
                }
            )
            events.append(
                {
                    "ph": "X",
                    "name": "cudaLaunchKernelExC",
                    "cat": "cuda_runtime",
                    "ts": start + 2,
                    "dur": 5,
                    **place,
                    "args": {"correlation": correlation},
                }
            )
            end = start + 55 + noise.uniform(-1, 1)
            events.append(
                {
                    "ph": "X",
                    "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                    "cat": "kernel",
                    "pid": rank,
                    "tid": 20,
                    "ts": start + 10,
                    "dur": end - start - 10,
                    "args": {"correlation": correlation, "device": rank, "stream": 20},
                }
            )
    for event in events:
        event["ts"] = event["ts"] * (1 + drift_ppm / 1e6)
    document = {
        "schemaVersion": 1,
        "baseTimeNanoseconds": 1_790_000_000_000_000_000 + round(ahead_us * US),
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks},
        "traceEvents": events,
    }
    return pytorch.read(io.BytesIO(json.dumps(document).encode()))


def moved(profile_bytes: bytes, by_us: float) -> Profile:
    """A trace with another clock."""
    document = json.loads(profile_bytes)
    for event in document["traceEvents"]:
        if "ts" in event:
            event["ts"] += by_us
    return pytorch.read(io.BytesIO(json.dumps(document).encode()))


def between_ranks(profile: Profile) -> dict[str, list[Any]]:
    """Every figure that compares times of different ranks, in µs, and the times of ranks beside each other."""
    start = profile.slices.column("start_ns").to_numpy()
    rank = np.array(profile.threads.column("rank").to_pylist())[profile.slices.column("thread").to_numpy()]
    path = {row["kind"]: row["total_us"] for row in rows(profile, "critical-path", "kind")}
    return {
        "duration": [rows(profile, "summary")[0]["duration_ms"] * 1e3],
        "begins": [float(start[rank == one].min()) / US for one in np.unique(rank).tolist()],
        "path": [sum(path.values())],
        "waiting": [row["waiting_us"] for row in sorted(rows(profile, "stragglers"), key=lambda row: row["rank"])],
        "held": [row["held_up_us"] for row in sorted(rows(profile, "stragglers"), key=lambda row: row["rank"])],
        "communication": [row["waiting_us"] for row in rows(profile, "communication")],
        "steps": [row["start_ms"] * 1e3 for row in rows(profile, "steps")],
    }


def residual_us(profile: Profile) -> float:
    skew = skew_of(profile)
    assert skew is not None and skew.residual_ns is not None
    return skew.residual_ns / US


def assert_the_same(one: Profile, other: Profile) -> None:
    """Within the residual skew."""
    limit = max(residual_us(one), residual_us(other))
    expected, got = between_ranks(one), between_ranks(other)
    for name, values in expected.items():
        assert got[name] == pytest.approx(values, abs=2 * limit + 1e-3), name


SHIFTS = (200_000.0, -200_000.0, -1.5e15, 3.25)


@pytest.mark.heavy
@pytest.mark.parametrize("by_us", SHIFTS)
def test_a_clock_that_is_off_changes_nothing(by_us: float) -> None:
    right = merge([rank_of_job(0), rank_of_job(1)], ClockAligner())
    assert right.clocks.column("shift_ns").to_pylist() == [0, 0]
    wrong = merge([rank_of_job(0), rank_of_job(1, by_us)], ClockAligner())
    assert_the_same(right, wrong)
    shift = {row["rank"]: row["shift_ns"] for row in wrong.clocks.to_pylist()}
    assert shift[0] == 0 and shift[1] == pytest.approx(-by_us * US, abs=2 * residual_us(right) * US)
    if abs(by_us) > 10:
        assert wrong.meta.start_epoch_ns == pytest.approx(right.meta.start_epoch_ns, abs=10 * US)
        assert [row["state"] for row in rows(wrong, "clocks")] == ["reference", "shifted"]
    assert (np.diff(wrong.samples.column("time_ns").to_numpy()) >= 0).all()


def test_without_alignment_the_path_is_longer_and_this_is_reported() -> None:
    wrong = merge([rank_of_job(0), rank_of_job(1, 200_000)])
    right = merge([rank_of_job(0), rank_of_job(1)])
    assert sum(row["total_us"] for row in rows(wrong, "critical-path")) > 200_000
    assert sum(row["total_us"] for row in rows(right, "critical-path")) < 10_000
    assert [row["state"] for row in rows(wrong, "clocks")] == ["reference", "off"]
    assert rows(wrong, "clocks")[1]["skew_us"] == pytest.approx(200_000, abs=3)


@pytest.mark.slow
@pytest.mark.heavy
@here
@pytest.mark.parametrize("by_us", SHIFTS[:3])
def test_recorded_ranks_with_another_clock(by_us: float) -> None:
    first, second = (gzip.decompress((FOLDER / f"ddp_rank{n}.pt.trace.json.gz").read_bytes()) for n in (0, 1))
    right = merge([moved(first, 0), moved(second, 0)], ClockAligner())
    wrong = merge([moved(first, 0), moved(second, by_us)], ClockAligner())
    assert_the_same(right, wrong)
    assert residual_us(right) < 1_000 < abs(by_us)


def test_most_ranks_are_not_moved_for_the_sake_of_one() -> None:
    clocks = [50_000.0, 0, 0, 0]
    profile = merge([rank_of_job(n, ahead, ranks=4) for n, ahead in enumerate(clocks)], ClockAligner())
    shift = {row["rank"]: row["shift_ns"] for row in profile.clocks.to_pylist()}
    assert shift[0] == pytest.approx(-50 * MS, abs=10 * US) and [shift[n] for n in (1, 2, 3)] == [0, 0, 0]
    first, *others = [row["state"] for row in rows(profile, "clocks")]
    assert first == "shifted" and set(others) <= {"reference", "agrees"}


def test_ranks_are_aligned_through_others_and_separate_groups_are_reported() -> None:
    clocks = (0, 30_000, -40_000, 9_000_000)
    chain = ((0, 1), (1, 2), (2, 3))
    joined = merge([rank_of_job(n, at, ranks=4, groups=chain) for n, at in enumerate(clocks)], ClockAligner())
    plain = merge([rank_of_job(n, ranks=4, groups=chain) for n in range(4)], ClockAligner())
    assert_the_same(plain, joined)
    apart = ((0, 1), (2, 3))
    profile = merge([rank_of_job(n, at, ranks=4, groups=apart) for n, at in enumerate(clocks)], ClockAligner())
    assert len({row["group"] for row in rows(profile, "clocks")}) == 2
    skew = skew_of(profile)
    assert skew is not None and skew.groups == 2


def test_sequence_numbers_tell_which_is_which_where_counts_differ() -> None:
    with_numbers = merge([rank_of_job(0, more=1), rank_of_job(1)], ClockAligner())
    matched = collectives_of(with_numbers).match
    # Of the first step there are two of one number on rank 0, and one on rank 1.
    assert len(set(matched[matched >= 0].tolist())) == 7
    assert with_numbers.clocks.column("collectives").to_pylist() == [7, 7]
    late = rank_of_job(1, steps=6)
    assert len(set(collectives_of(merge([rank_of_job(0), late])).match.tolist()) - {-1}) == 6


def without_steps(
    lacks: tuple[tuple[int, int], tuple[int, int]], by_us: float = 0, *, regular: bool = False, numbered: bool = False
) -> list[Profile]:
    """Two ranks that run the same 31 all-reduces, without steps. lacks: how many of the first and of the last ones each
    recording lacks. by_us: how far the clock of the second is ahead. regular: there is one every 400 µs."""
    gaps, profiles = random.Random(3), []
    times = np.cumsum([400 if regular else gaps.uniform(250, 550) for _ in range(31)]).tolist()
    for rank, (first, last) in enumerate(lacks):
        events, noise = [], random.Random(rank)
        for number in range(first, 31 - last):
            at, place = times[number], {"pid": 100 + rank, "tid": 1}
            told = KNOWN | ({"Seq": number} if numbered else {})
            told |= {"Process Group Name": "0", "Group size": 2}
            of = {"correlation": number + 1}
            call = {"name": "cudaLaunchKernelExC", "cat": "cuda_runtime", "ts": at + 2, "dur": 5, "args": of}
            around = {"name": "record_param_comms", "cat": "cpu_op", "ts": at, "dur": 20, "args": told}
            events += [{"ph": "X", **place, **around}, {"ph": "X", **place, **call}]
            kernel = {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "cat": "kernel", "pid": rank, "tid": 20}
            kernel |= {"ts": at + 30, "dur": 60 + noise.uniform(0, 4), "args": of | {"device": rank, "stream": 20}}
            events.append({"ph": "X", **kernel})
        document = {
            "schemaVersion": 1,
            "baseTimeNanoseconds": 1_790_000_000_000_000_000 + round(by_us * US * rank),
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
            "traceEvents": events,
        }
        profiles.append(pytorch.read(io.BytesIO(json.dumps(document).encode())))
    return profiles


@pytest.mark.parametrize("by_us", [0, 200_000, -405])
@pytest.mark.parametrize(
    ("lacks", "shared"),
    [(((0, 1), (1, 0)), 29), (((0, 0), (0, 0)), 31), (((0, 0), (2, 0)), 29), (((0, 0), (1, 2)), 28)],
)
def test_missing_first_collectives_are_detected_by_intervals(
    lacks: tuple[tuple[int, int], tuple[int, int]], shared: int, by_us: float
) -> None:
    profile = merge(without_steps(lacks, by_us), ClockAligner())
    first, second = rows(profile, "clocks")
    assert second["shift_us"] - first["shift_us"] == pytest.approx(-by_us, abs=4)
    assert residual_us(profile) < 5
    assert [row["collectives"] for row in (first, second)] == [shared, shared]
    assert [row["matched_by"] for row in (first, second)] == ["order", "order"]


def test_where_nothing_tells_which_is_the_first_clocks_are_left_alone() -> None:
    alike = merge(without_steps(((0, 0), (1, 0)), 50_000, regular=True), ClockAligner())
    assert [(row["state"], row["matched_by"]) for row in rows(alike, "clocks")] == [("not aligned", "nothing")] * 2
    many = merge(without_steps(((0, 0), (9, 0))), ClockAligner())
    assert [row["state"] for row in rows(many, "clocks")] == ["not aligned"] * 2
    numbered = merge(without_steps(((0, 0), (9, 0)), 50_000, numbered=True), ClockAligner())
    assert rows(numbered, "clocks")[1]["shift_us"] == pytest.approx(-50_000, abs=4)
    assert [row["matched_by"] for row in rows(numbered, "clocks")] == ["sequence number"] * 2


def test_groups_of_one_name_but_other_ranks_are_not_the_same() -> None:
    def renamed(profile: Profile) -> Profile:
        table = profile.argument_sets
        text = [one.replace('"(0, 1)"', '"1"').replace('"(2, 3)"', '"1"') for one in table.column("text").to_pylist()]
        return replace(profile, argument_sets=table.set_column(0, "text", pa.array(text)))

    profiles = [renamed(rank_of_job(n, ranks=4, groups=((0, 1), (2, 3)))) for n in range(4)]
    found = collectives_of(merge(profiles))
    ranks = {tuple(found.rank[found.match == one].tolist()) for one in set(found.match.tolist()) - {-1}}
    assert ranks == {(0, 1), (2, 3)}


def test_no_collectives_no_alignment() -> None:
    profile = merge([rank_of_job(0, groups=((0,), (1,))), rank_of_job(1, 200_000, groups=((0,), (1,)))], ClockAligner())
    assert profile.clocks.column("shift_ns").to_pylist() == [None, None]
    assert [row["state"] for row in rows(profile, "clocks")] == ["not aligned", "not aligned"]
    assert [row["residual_us"] for row in rows(profile, "clocks")] == [None, None]
    assert {row["uncertain"] for row in rows(profile, "critical-path")} == {None}


def test_one_rank_has_no_clock_to_compare() -> None:
    assert skew_of(rank_of_job(0)) is None and rows(rank_of_job(0), "clocks") == []
    assert merge([rank_of_job(0)], ClockAligner()).clocks.num_rows == 0


def test_a_drift_is_reported() -> None:
    steady = merge([rank_of_job(n, steps=60) for n in (0, 1)], ClockAligner())
    assert [row["drift_ppm"] for row in rows(steady, "clocks")] == [None, None]
    drifting = merge([rank_of_job(0, steps=60), rank_of_job(1, steps=60, drift_ppm=2_000)], ClockAligner())
    first, second = rows(drifting, "clocks")
    assert second["drift_ppm"] == pytest.approx(2_000, rel=0.1) or first["drift_ppm"] == pytest.approx(-2_000, rel=0.1)
    assert residual_us(drifting) > 10 * residual_us(steady)


def test_the_drifting_clock_is_identified() -> None:
    drifts = (0, 0, 500, 0)
    ranks = [rank_of_job(n, ranks=4, steps=60, drift_ppm=drift) for n, drift in enumerate(drifts)]
    found = [row["drift_ppm"] for row in rows(merge(ranks, ClockAligner()), "clocks")]
    assert found[2] == pytest.approx(500, rel=0.1) and found[0] is found[1] is found[3] is None


def test_times_shorter_than_the_skew_are_marked_and_give_no_advice() -> None:
    # Both wait for less than the ends of the same collective are apart.
    profile = merge([rank_of_job(0), rank_of_job(1)], ClockAligner())
    assert [row["uncertain"] for row in rows(profile, "stragglers")] == [True, True]
    limit = residual_us(profile)
    by_step = rows(profile, "communication")
    assert [row["uncertain"] for row in by_step] == [row["waiting_us"] < limit for row in by_step]
    assert {row["uncertain"] for row in by_step} >= {True}
    assert [row["uncertain"] for row in rows(profile, "collectives")] == [True]
    assert not [one for one in find_advice(profile, Selection(), {"stragglers": 0}) if one.rule.key == "stragglers"]


def jittered(waits_us: tuple[float, float] = (0, 0), count: int = 20, jump_us: float = 0) -> Profile:
    """Two ranks, whose all-reduces end up to 400 µs apart. waits_us: by how much the first begins earlier in the first
    three, and the second in the others. jump_us: by how much the clock of the second rank jumps at half-time."""
    made, noise = Trace(), random.Random(5)
    for rank in (0, 1):
        host, stream = made.thread(rank), made.stream(20, rank)
        for number in range(count):
            at = 2_000.0 * number + (jump_us if rank and 2 * number >= count else 0)
            made.step(host, number, at, 1_900, rank)
            made.slice(host, "record_param_comms", at + 10, 20, arguments=KNOWN | {"Seq": number})
            call = made.slice(host, "cudaLaunchKernel", at + 12, 2, "runtime")
            early = waits_us[rank] if rank == (number >= 3) else 0
            begin, end = at + 1_000 - early, at + 1_200 + noise.uniform(0, 400)
            made.work(stream, "ncclDevKernel_AllReduce", begin, end - begin, call, DeviceWorkKind.COMMUNICATION)
    return made.finish()


def test_each_figure_is_marked_by_its_own_mean() -> None:
    profile = jittered(waits_us=(900, 200))
    limit = residual_us(profile)
    first, second = sorted(rows(profile, "stragglers"), key=lambda row: row["rank"])
    for row, other in ((first, second), (second, first)):
        # Of two ranks one waits as long as the other holds it up, but by how many waits differs.
        assert row["waiting_us"] == pytest.approx(other["held_up_us"])
        assert row["uncertain"] == (row["waiting_us"] / row["collectives"] < limit)
        assert row["held_up_uncertain"] == (row["held_up_us"] / row["last"] < limit)
    assert first["uncertain"] and not second["held_up_uncertain"]
    (kind,) = rows(profile, "collectives")
    (advice,) = [one for one in find_advice(profile, Selection(), {"stragglers": 0}) if one.rule.key == "stragglers"]
    assert kind["uncertain"] and "less than the residual skew of" in advice.evidence
    assert advice.evidence.count("not certain") == 1 and "in total, each time on average less" in advice.evidence
    assert advice.finding.rank == 1


def test_delays_of_several_ranks_are_compared_per_wait() -> None:
    profile = merge([rank_of_job(n, ranks=8) for n in range(8)], ClockAligner())
    limit = residual_us(profile)
    held = [row for row in rows(profile, "stragglers") if row["last"]]
    assert any(row["held_up_us"] / row["last"] > limit for row in held)
    assert {row["held_up_uncertain"] for row in held} == {True}


def test_results_stored_without_alignment_are_marked() -> None:
    with SCHEMA_4.open("rb") as file:
        old = stored_profile.read(file)
    assert old.clocks.num_rows == 0
    assert [(row["state"], row["shift_us"], row["skew_us"]) for row in rows(old, "clocks")] == [
        ("reference", None, 0),
        ("off", None, 200_000),
    ]


def test_few_that_were_compared_wrongly_change_little() -> None:
    noise = random.Random(1)
    clock, end, match = [], [], []
    for number in range(40):
        for one in range(3):
            wrong = 50 * MS if number % 5 == 0 and one == 1 else 0
            clock.append(one)
            end.append(number * MS + 7 * MS * one + wrong + noise.randrange(-2 * US, 2 * US))
            match.append(number)
    ends = CollectiveEnds(*(np.array(values) for values in (clock, end, match)), np.ones(len(clock), bool))
    found = estimate_clocks(ends, 4)
    assert found[3] is None
    ahead = [one.ahead_ns for one in found if isinstance(one, ClockEstimate)]
    assert ahead == pytest.approx([0, 7 * MS, 14 * MS], abs=2 * US) and found[0] is not None and found[0].reference
    # One of five was compared wrongly.
    assert all(one.residual_ns < 10 * US and one.farthest_ns > 49 * MS for one in found if one is not None)


def test_states_are_explained() -> None:
    assert {state.value for state in ClockState} <= set(
        TABLES["clocks"].columns[2].description.split(":")[0].split(", ")
    )
