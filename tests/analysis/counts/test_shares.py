"""Counts by process, thread, rank and host, and their parts by function, against sums over single samples."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core.flame_groups import FlameGroup
from perfloom.analysis.core.schema import records
from perfloom.analysis.counts.participants import MAX_THREADS, list_labels, select_participants
from perfloom.analysis.counts.shares import (
    BY,
    build_shares,
    compute_count_shares,
    selected_seconds,
    sum_reference,
)
from perfloom.analysis.tables import TABLES
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.selection import Selection
from tests.analysis import brute
from tests.analysis.stacks.test_flamegraph import selections
from tests.support.profiles import profile_of, profiles, stacked


@pytest.mark.heavy
@settings(max_examples=60)
@given(profiles(max_weight=1 << 50), st.data())
def test_totals_are_the_same_by_thread_process_rank_and_host(profile: Profile, data: st.DataObject) -> None:
    selection = data.draw(selections(profile))
    event = profile.meta.main_event if selection.event is None else selection.event
    total = sum(sample.weight for sample in brute.selected(profile, selection, event=event))
    for by in BY:
        shares = build_shares(profile, selection, by)
        assert sum(shares.totals) == shares.total == total
        assert list(shares.totals) == sorted(shares.totals, reverse=True) and 0 not in shares.totals
        assert set(shares.participants) <= list_labels(profile, by)


@pytest.mark.heavy
@settings(max_examples=60)
@given(profiles(max_weight=1 << 50), st.data(), st.sampled_from(BY))
def test_parts_are_the_samples_of_a_participant_and_function(profile: Profile, data: st.DataObject, by: str) -> None:
    selection = data.draw(selections(profile)).replace(recursion=False, invert=False)
    event = profile.meta.main_event if selection.event is None else selection.event
    cells: Counter[tuple[str, Any]] = Counter()
    for sample in brute.selected(profile, selection, event=event):
        name, module = sample.stack[-1][:2] if sample.stack else (None, None)
        # A function without a name looks like no function.
        cells[brute.group_of(profile, sample, FlameGroup(by)), (name or "", module or "")] += sample.weight
    rows = records(compute_count_shares.rows(profile, selection.replace(event=event), by))
    found: Counter[tuple[str, Any]] = Counter()
    for row in rows:
        found[row["participant"], (row["function"] or "", row["module"] or "")] += row["value"]
    assert found == cells
    for row in rows:
        assert row["percent"] == pytest.approx(100 * row["value"] / row["total"])
    totals = {row["participant"]: row["total"] for row in rows}
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row["participant"]] += row["value"]
    assert sums == totals


def test_windows_that_divide_the_time_add_up() -> None:
    profile = profile_of([(f"main;f{n % 5}", n + 1, n % 3, n) for n in range(60)])
    edges = (0, 7, 20, 21, 60)
    for by in BY:
        whole = build_shares(profile, Selection(), by)
        found: Counter[str] = Counter()
        for start, end in pairwise(edges):
            part = build_shares(profile, Selection(start_ns=start, end_ns=end), by)
            found.update(dict(zip(part.participants, part.totals, strict=True)))
        assert found == dict(zip(whole.participants, whole.totals, strict=True))


def ranked(ranks: int = 3, events: tuple[str, ...] = ("cycles",)) -> Profile:
    """Rank r has 10 × (r + 1) of each event; the last rank has no samples."""
    builder = ProfileBuilder("test")
    numbers = [builder.intern_event(name, "count") for name in events]
    for rank in range(ranks):
        thread = builder.intern_thread(pid=1, tid=1, rank=rank, host=f"node{rank // 2}")
        if rank < ranks - 1:
            for number in numbers:
                builder.add_sample(rank * 10**9, thread, number, stacked(builder, "main;work"), 10 * (rank + 1))
    builder.add_rank(run=0, rank=ranks - 1, host="node1")
    return builder.finish(Meta("test", duration_ns=4 * 10**9))


def test_percent_of_a_reference_and_per_second() -> None:
    profile = ranked()
    rows = records(compute_count_shares.rows(profile, Selection(), "rank", "rank 1"))
    assert [(row["participant"], row["rank"], row["host"], row["reference_percent"]) for row in rows] == [
        ("rank 1", 1, "node0", 100.0),
        ("rank 0", 0, "node0", 50.0),
    ]
    assert [row["total_per_s"] for row in rows] == [5.0, 2.5]
    # Without a reference, of all of them.
    rows = records(TABLES["count-shares"].rows(profile, Selection(), "rank"))
    assert [row["reference_percent"] for row in rows] == [pytest.approx(200 / 3), pytest.approx(100 / 3)]
    # The reference need not be selected; it is of the selected time.
    only = Selection(ranks=((0, 0),))
    assert sum_reference(profile, only, build_shares(profile, only, "rank"), "rank 1") == 20
    early = Selection(end_ns=10**9)
    shares = build_shares(profile, early, "rank")
    assert sum_reference(profile, early, shares, "rank 1") is None and shares.participants == ("rank 0",)
    assert selected_seconds(profile, Selection(start_ns=10**9, end_ns=9 * 10**9)) == 3.0
    assert selected_seconds(profile, Selection(start_ns=9 * 10**9)) is None


def test_nothing_selected_and_unknown_groupings() -> None:
    profile = ranked()
    empty = Selection(start_ns=3 * 10**9)
    for by in BY:
        shares = build_shares(profile, empty, by)
        assert (shares.participants, shares.total) == ((), 0)
        assert not len(compute_count_shares.rows(profile, empty, by))
    assert not len(compute_count_shares.rows(profile_of([], events=()), Selection()))
    with pytest.raises(InvalidRequest, match="process, thread"):
        build_shares(profile, Selection(), "module")


def test_names_of_events_are_not_changed() -> None:
    names = ("cpu/event=0x3c,umask=0x1/u", "cycles:u", "L1-dcache_loads", "a,b_c/d:e/")
    rows = records(compute_count_shares.rows(ranked(events=names), Selection(), "rank"))
    assert list(dict.fromkeys(row["event"] for row in rows)) == list(names)
    only = records(compute_count_shares.rows(ranked(events=names), Selection(event=names[3]), "rank"))
    assert {row["event"] for row in only} == {names[3]} and len(only) == 2


def counted() -> Profile:
    """Counts of two ranks on two hosts, and of the threads of rank 1."""
    builder = ProfileBuilder("perf-stat")
    event = builder.intern_event("instructions", "count")
    for rank in (0, 1):
        builder.add_count(
            run=0, event=event, thread=-1, cpu=-1, value=100.5 + rank, status="ok", rank=rank, host=f"n{rank}"
        )
    return builder.finish(Meta("perf-stat", duration_ns=2 * 10**9))


def test_counts_of_ranks_are_their_totals() -> None:
    profile = counted()
    rows = records(compute_count_shares.rows(profile, Selection(), "rank"))
    assert [(row["participant"], row["value"], row["function"], row["source"]) for row in rows] == [
        ("rank 1", 101.5, None, "counted"),
        ("rank 0", 100.5, None, "counted"),
    ]
    assert [row["total_per_s"] for row in rows] == [50.75, 50.25]
    assert {"(all) · rank 0", "(all) · rank 1"} == list_labels(profile, "process")
    assert select_participants(profile, "rank", ["rank 1"]) == {"rank 1": {"ranks": ((1, 1),)}}
    assert select_participants(profile, "host", ["n1"]) == {"n1": {"hosts": ("n1",)}}
    assert select_participants(profile, "process", ["(all) · rank 0"]) == {}


@pytest.mark.heavy
@settings(max_examples=60)
@given(profiles(), st.sampled_from(BY))
def test_a_participant_is_selected_by_its_own_samples(profile: Profile, by: str) -> None:
    whole = build_shares(profile, Selection(), by)
    changes = select_participants(profile, by, whole.participants)
    for label, total in zip(whole.participants, whole.totals, strict=True):
        if label in changes:
            found = build_shares(profile, Selection().replace(**changes[label]), by)
            assert (found.participants, found.totals) == ((label,), (total,))
        else:
            # It is all that there is.
            assert by != "rank" or label == "no rank"


def test_processes_are_selected_by_key_whatever_their_threads() -> None:
    def processes(names: tuple[str, str]) -> Profile:
        builder = ProfileBuilder("test")
        event, stack = builder.intern_event("cycles", "count"), stacked(builder, "main")
        for pid, name in enumerate(names):
            for tid in range(MAX_THREADS + 1 if pid else 1):
                thread = builder.intern_thread(pid=pid, tid=1000 * pid + tid)
                builder.set_thread_name(thread, 0, name)
                builder.add_sample(0, thread, event, stack, 1)
        return builder.finish()

    different = processes(("one", "two"))
    labels = build_shares(different, Selection(), "process").participants
    found = select_participants(different, "process", labels)
    assert sorted(found.values(), key=str) == [{"processes": ("-/0",)}, {"processes": ("-/1",)}]
    alike = processes(("same", "same"))
    labels = build_shares(alike, Selection(), "process").participants
    assert len(select_participants(alike, "process", labels)) == 2
