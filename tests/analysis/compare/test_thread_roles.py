"""Threads of two results, matched by role."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from perfloom.analysis.compare.group_tables import diff_table_groups
from perfloom.analysis.compare.merged_names import merge_names, parse_name_rules
from perfloom.analysis.compare.tables import diff_table
from perfloom.analysis.compare.thread_roles import ALONE, FUNCTIONS, NAME, find_overlap, match_threads
from perfloom.analysis.core.sample_selection import event_names
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from tests.support.profiles import profiles, stacked

Threads = list[tuple[str, dict[str, int]]]


def record(threads: Threads, *, first_tid: int = 100, ranks: list[int | None] | None = None) -> Profile:
    """A recording of threads, each with a name and numbers of samples of 1 ms by stack."""
    builder = ProfileBuilder("test")
    event, time_ns = builder.intern_event("cpu-clock", "ns"), 0
    for at, (name, work) in enumerate(threads):
        number = builder.intern_thread(pid=100, tid=first_tid + at, rank=ranks[at] if ranks else None)
        builder.set_thread_name(number, 0, name)
        for stack, count in work.items():
            for _ in range(count):
                builder.add_sample(time_ns, number, event, stacked(builder, stack), 1_000_000)
                time_ns += 1
    return builder.finish()


def diff(base: Profile, other: Profile, **how: Any) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in diff_table.rows(base, other, Selection(), "threads", **how).records()}


def test_parts_of_one_recording() -> None:
    """Each side has the threads that are selected of it."""
    profile = record(POOL)
    how = {"other_selection": Selection(threads=("worker-2",))}
    (row,) = diff_table.rows(profile, profile, Selection(threads=("worker-1",)), "threads", **how).records()
    assert (row["name"], row["base"], row["other"], row["ratio"]) == ("worker-#", 100e6, 100e6, 1.0)
    assert (row["base_threads"], row["other_threads"]) == ("worker-1", "worker-2")


def test_sides_cannot_have_different_events() -> None:
    builder = ProfileBuilder("test")
    thread = builder.intern_thread(pid=100, tid=100)
    for name in ("cycles", "instructions"):
        builder.add_sample(0, thread, builder.intern_event(name, "count"), stacked(builder, "f"), 1000)
    profile = builder.finish()
    how = {"other_selection": Selection(event="instructions")}
    (row,) = diff_table.rows(profile, profile, Selection(event="instructions"), "threads", **how).records()
    assert row["base"] == row["other"] == 1000
    with pytest.raises(InvalidRequest, match="The base selects cycles, the other instructions"):
        diff_table.rows(profile, profile, Selection(event="cycles"), "threads", **how)


def test_name_rules_apply_to_what_threads_run() -> None:
    base = record([("a-1", {"f": 40}), ("a-2", {"g": 40})])
    other = record([("a-5", {"f.isra.0": 40}), ("a-6", {"g": 40})])
    assert {row["match"] for row in diff(base, other).values()} == {FUNCTIONS, ALONE}
    rules = parse_name_rules(["clones"])
    rows = diff(merge_names(base, rules), merge_names(other, rules))
    assert set(rows) == {"a-# (f)", "a-# (g)"} and {row["match"] for row in rows.values()} == {FUNCTIONS}


POOL: Threads = [
    ("main", {"main;setup": 30}),
    ("worker-1", {"run;compute": 90, "run;wait": 10}),
    ("worker-2", {"run;compute": 85, "run;wait": 15}),
    ("worker-3", {"io;read": 50}),
]


def test_threads_of_a_name_that_run_different_things_have_different_roles() -> None:
    other: Threads = [
        ("worker-7", {"io;read": 80}),
        *((f"worker-{n}", {"run;compute": 60}) for n in (4, 5, 6)),
        POOL[0],
    ]
    rows = diff(record(POOL), record(other, first_tid=500))
    assert set(rows) == {"main", "worker-# (compute)", "worker-# (read)"}
    compute, read = rows["worker-# (compute)"], rows["worker-# (read)"]
    assert (compute["base"], compute["other"], compute["unit"]) == (200e6, 180e6, "ns")
    assert (compute["base_threads"], compute["other_threads"]) == ("worker-1, worker-2", "worker-4, worker-5, worker-6")
    assert compute["match"] == FUNCTIONS and 0.9 < compute["overlap"] < 1
    assert (read["delta"], read["delta_percent"], read["other_threads"]) == (30e6, 60, "worker-7")
    assert rows["main"]["match"] == NAME and rows["main"]["status"] == "same"
    counts = diff(record(POOL), record(other), measure="threads")
    assert (counts["worker-# (compute)"]["base"], counts["worker-# (compute)"]["other"]) == (2, 3)


def test_a_name_with_one_role_matches_whatever_it_runs() -> None:
    rows = diff(record([("loader", {"old": 40})]), record([("loader", {"new": 50}), ("extra", {"x": 5})]))
    assert (rows["loader"]["match"], rows["loader"]["overlap"], rows["loader"]["delta"]) == (NAME, 0, 10e6)
    assert (rows["extra"]["match"], rows["extra"]["status"], rows["extra"]["base"]) == (ALONE, "appeared", None)


def test_few_samples_make_no_role() -> None:
    threads: Threads = [("w1", {"f": 100}), ("w2", {"g": 19}), ("w3", {})]
    assert set(diff(record(threads), record(threads))) == {"w#"}
    assert len(diff(record([threads[0], ("w2", {"g": 20})]), record(threads))) == 2


def test_ranks_are_apart() -> None:
    ranked = record([("w1", {"f": 30}), ("w2", {"f": 10}), ("w1", {"f": 20})], ranks=[0, 0, 1])
    assert {name: row["base"] for name, row in diff(ranked, ranked).items()} == {"rank 0: w#": 40e6, "rank 1: w#": 20e6}
    assert {name: row["match"] for name, row in diff(ranked, ranked, by="rank").items()} == {
        "rank 0": "rank",
        "rank 1": "rank",
    }


@settings(max_examples=40, deadline=None)
@given(profiles())
def test_a_result_matches_itself(profile: Profile) -> None:
    for role in match_threads([profile], [profile], Selection(), Selection(), event_names(profile)[0]):
        assert role.match != ALONE and role.base.names == role.other.names
        assert (role.base.weight == role.other.weight).all() and (role.overlap is None or 0 <= role.overlap <= 1)


def test_numbers_and_order_of_threads_change_nothing() -> None:
    chance = random.Random(4)
    work = [{"f": chance.randint(30, 60), "g": chance.randint(0, 9)} for _ in range(5)]
    work += [{"h": chance.randint(30, 60), "g": chance.randint(0, 9)} for _ in range(5)]
    base = record([(f"w{at}", one) for at, one in enumerate(work)])
    shown = ("name", "base", "other", "delta", "match", "overlap")
    plain = [[row[column] for column in shown] for row in diff(base, base).values()]
    assert len(plain) == 2 and all(row[3] == 0 for row in plain)
    for _ in range(3):
        chance.shuffle(work)
        other = record([(f"w{900 - at}", one) for at, one in enumerate(work)], first_tid=7000)
        assert [[row[column] for column in shown] for row in diff(base, other).values()] == plain


def test_sides_in_the_other_order_change_the_sign() -> None:
    one, two = record(POOL), record([("worker-9", {"run;compute": 20}), ("main", {"main;setup": 31}), ("x", {"y": 9})])
    there, back = diff(one, two), diff(two, one)
    assert {name: row["delta"] for name, row in there.items()} == {name: -row["delta"] for name, row in back.items()}
    assert {name: row["match"] for name, row in there.items()} == {name: row["match"] for name, row in back.items()}


def test_overlap_of_few_samples_is_that_of_their_distribution() -> None:
    chance = np.random.default_rng(3)
    found = [
        find_overlap(*(chance.multinomial(20, np.full(30, 1 / 30)).astype(float) for _ in "ab")) for _ in range(300)
    ]
    assert np.mean([one for one in found if one is not None]) == pytest.approx(0.9, abs=0.15)
    assert find_overlap(np.array([5.0, 0]), np.array([0, 5.0])) == 0
    assert find_overlap(np.zeros(2), np.ones(2)) is None


def test_groups_of_runs_have_verdicts() -> None:
    bases = [record([(f"w{n}", {"f": 100 + n}), ("io", {"r": 40 + n % 2})]) for n in range(4)]
    others = [record([(f"w{n}", {"f": 130 + n}), ("io", {"r": 40 + n % 2})]) for n in range(4)]
    rows = {row["name"]: row for row in diff_table_groups.rows(bases, others, Selection(), "threads").records()}
    assert (rows["w#"]["verdict"], rows["io"]["verdict"]) == ("slower", "no evidence")
    assert 20 < rows["w#"]["low_percent"] < 30 < rows["w#"]["high_percent"] < 40
    assert rows["w#"]["base_threads"] == "w0, w1, w2, w3"
