"""Outliers and change points: found where there is one, and only there, in recordings and in made data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.analysis.advice.findings import find_advice
from perfloom.analysis.core.sample_selection import event_id
from perfloom.analysis.matrix.balance import Balance, find_balances, format_balance
from perfloom.analysis.matrix.outliers import Change, find_change, find_excess
from perfloom.analysis.tables import TABLES
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.meta import Meta
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.timed_events import IN_ORDER
from perfloom.domain.units import NS_PER_MS, NS_PER_S
from tests.analysis import brute
from tests.support.mpi.recordings import NAMES, recording_of
from tests.support.profiles import profile_of, stacked


def balance_of(profile: Profile, selection: Selection | None = None, by: str = "rank") -> Balance:
    found = find_balances(profile, selection or Selection(), event_id(profile, None), by)
    return next((one for one in found if one.outlier), found[0])


def text_of(profile: Profile, balance: Balance) -> str:
    return format_balance(profile, event_id(profile, None), balance).replace("\u00a0", " ")


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("slow")])
def test_the_slow_rank_its_function_since_when_and_who_waits(name: str) -> None:
    profile = recording_of(name)
    balance = balance_of(profile)
    groups = balance.groups
    assert balance.outlier and groups.labels[balance.most] == "rank 2" and balance.function == "relax"
    assert [groups.labels[group] for group in balance.waiting] == ["rank 0", "rank 1", "rank 3"]
    # The program begins to compute after MPI_Init, and the slow rank computes more 3 s later.
    hotspots = TABLES["matrix-cells"].rows(profile, Selection(start_ns=0, end_ns=NS_PER_S // 4), "rank").records()
    assert not [row for row in hotspots if row["name"] == "relax" and row["samples"] > 50]
    assert balance.since is not None
    first = min(sample.time_ns for sample in samples_in(profile, "relax"))
    assert abs(balance.since.at_ns - (first + 3 * NS_PER_S)) <= balance.since.error_ns + 100 * NS_PER_MS
    assert text_of(profile, balance).startswith("Rank 2 computes ")
    assert "Ranks 0–1, 3 wait for it: " in text_of(profile, balance)
    # In the first half there is none.
    before = balance_of(profile, Selection(end_ns=first + 2800 * NS_PER_MS))
    assert not before.outlier and text_of(profile, before).startswith("No rank computes more than the others")
    [row] = [row for row in TABLES["matrix"].rows(profile, Selection()).records() if row["outlier"]]
    assert (row["name"], row["most"], row["since_ms"]) == ("relax", "rank 2", balance.since.at_ns / NS_PER_MS)
    advice = {one.rule.key: one for one in find_advice(profile, Selection())}
    assert advice["imbalance"].finding.rank == 2
    assert advice["imbalance"].evidence == format_balance(profile, event_id(profile, None), balance)


def samples_in(profile: Profile, function: str) -> list[brute.Sample]:
    return [sample for sample in brute.all_samples(profile) if function in {frame[0] for frame in sample.stack}]


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("even")])
def test_even_ranks_have_no_outlier(name: str) -> None:
    profile = recording_of(name)
    for by in ("rank", "process", "thread"):
        assert not balance_of(profile, by=by).outlier
    assert not any(row["outlier"] for row in TABLES["matrix"].rows(profile, Selection()).records())
    assert "imbalance" not in {one.rule.key for one in find_advice(profile, Selection())}


def ranks(
    seconds: dict[int, int], waits: dict[int, int] | None = None, *, weight: int = NS_PER_MS, tids: int = 0
) -> Profile:
    """Ranks that compute for so many samples, and wait for so many; spread over the same time."""
    builder = ProfileBuilder("test")
    event = builder.intern_event("cpu-clock", "ns")
    for rank, count in seconds.items():
        thread = builder.intern_thread(pid=rank, tid=rank, rank=rank)
        for stack, number in (("main;work", count), ("main;MPI_Recv", (waits or {}).get(rank, 0))):
            for at in range(number):
                builder.add_sample(at * NS_PER_S // number, thread, event, stacked(builder, stack), weight)
    return builder.finish()


def test_two_ranks_are_compared_and_shares_of_few_samples_are_not() -> None:
    profile = ranks({0: 100, 1: 200}, {0: 100})
    balance = balance_of(profile)
    assert text_of(profile, balance) == (
        "Rank 1 computes 200 ms, 100 % more than the other rank (100 ms), mostly in work (100 % of the difference). "
        "Rank 0 waits for it: 50 % of its time, mostly in MPI_Recv."
    )
    assert not balance_of(ranks({0: 10, 1: 20}, {0: 10})).outlier, "ten samples"
    assert not balance_of(ranks({0: 10_000, 1: 10_300}, {0: 300})).outlier, "3 %"


def test_a_difference_within_those_of_the_others_is_none() -> None:
    assert not balance_of(ranks({0: 400, 1: 800, 2: 1000, 3: 600, 4: 500})).outlier
    assert balance_of(ranks({0: 400, 1: 405, 2: 1000, 3: 395, 4: 400}, {0: 600, 1: 600, 3: 600, 4: 600})).outlier


def test_without_waiting_the_text_says_what_is_missing() -> None:
    profile = ranks({0: 100, 1: 100, 2: 300})
    assert text_of(profile, balance_of(profile)).endswith(
        "The others use 67 % less CPU time. A recording of the time off the CPU shows how long they wait."
    )


def test_text_of_removed_samples_does_not_compare_times() -> None:
    profile = ranks({0: 100, 1: 100, 2: 300}, {0: 200, 1: 200})
    assert text_of(profile, balance_of(profile, Selection(focus="work"))).endswith("(100 % of the difference).")


def test_without_times_there_is_no_since() -> None:
    profile = recording_of("slow.mpich")
    unordered = Profile(
        **{**vars(profile), "meta": Meta(**{**vars(profile.meta), "clock": IN_ORDER, "duration_ns": None})}
    )
    balance = balance_of(unordered)
    assert balance.outlier and balance.since is None


def test_threads_are_compared_by_their_names() -> None:
    samples = [("main;work", 1, thread, at) for thread, count in enumerate((100, 100, 300, 500)) for at in range(count)]
    profile = profile_of(samples, events=(("cpu-clock", "ns"),))
    balance = balance_of(profile, by="thread")
    assert balance.members == 4 and balance.groups.labels[balance.most] == "thread 3 103"
    other = profile_of(samples[:200], events=(("cpu-clock", "ns"),))
    assert find_balances(other, Selection(), 0, "thread") == (), "two threads"
    assert find_balances(other, Selection(), 0, "rank") == (), "no ranks"


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=8), st.integers(0, 3))
def test_the_excess_is_that_of_the_definition(values: list[int], roles: int) -> None:
    value = np.array(values)
    group = np.flatnonzero(value)
    found = find_excess(
        np.zeros(len(group), np.int64),
        group,
        value[group],
        value[group],
        1,
        np.zeros(len(values), np.int64),
        value * 2,
    )
    others = np.delete(value, int(value.argmax()))
    assert found.total[0] == value.sum() and found.mean[0] == pytest.approx(value.mean())
    assert found.least[0] == value.min() and found.top[0] == value.max()
    assert found.excess[0] == pytest.approx(value.max() - others.mean())
    # n samples, half of those of the group: binomial.
    sampling = value.max() / 2 + others.sum() / 2 / len(others) ** 2
    between = others.var(ddof=1) * (1 + 1 / len(others)) if len(others) > 1 else 0.0
    assert found.error[0] == pytest.approx(np.sqrt(max(sampling, between)))


@pytest.mark.parametrize("at", [10, 50, 90])
def test_a_step_is_found_where_it_is(at: int) -> None:
    chance = np.random.default_rng(at)
    for _ in range(20):
        own, others = chance.poisson(np.where(np.arange(100) < at, 5, 12)), chance.poisson(5, (3, 100))
        change = find_change(own - others.mean(axis=0), own + others.sum(axis=0) / 9)
        assert change is not None and abs(change.at - at) <= change.error_bins + 1


def test_noise_has_no_step() -> None:
    chance = np.random.default_rng(1)
    found = 0
    for _ in range(500):
        own, others = chance.poisson(5, 100), chance.poisson(5, (3, 100))
        found += find_change(own - others.mean(axis=0), own + others.sum(axis=0) / 9) is not None
    assert found <= 2
    assert find_change(np.zeros(100), np.zeros(100)) is None and find_change(np.ones(3), np.ones(3)) is None
    steady = np.full(100, 7.0)
    assert find_change(steady, steady) is None, "from the start"
    assert find_change(np.where(np.arange(100) < 40, 0.0, 9.0), np.full(100, 9.0)) == Change(40, 0)


def test_even_made_ranks_have_no_outlier_in_many_tries() -> None:
    chance = np.random.default_rng(2)
    for groups in (4, 16, 1024):
        group, zeros, whole = np.arange(groups), np.zeros(groups, np.int64), np.full(groups, 400)
        found = 0
        for _ in range(1000):
            value = chance.binomial(whole, 0.5)
            found += int(find_excess(zeros, group, value, value, 1, zeros, whole).significant[0])
        assert found <= 1, groups
