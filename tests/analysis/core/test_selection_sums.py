"""Sums of any selection: equal to those of single samples, and to the sums of the parts that it can be divided into."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core.sample_rollup import sum_call_weights
from perfloom.analysis.core.sample_selection import event_id, threads_of
from perfloom.analysis.core.thread_sums import sum_threads
from perfloom.analysis.counts.participants import select_process
from perfloom.analysis.stacks.flamegraph import FlameGroup, flame_tree
from perfloom.analysis.tables import TABLES
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import UNKNOWN_HOST, Selection
from tests.analysis import brute
from tests.analysis.stacks.test_flamegraph import check_shape, selections
from tests.support.profiles import profile_of, profiles

pytestmark = pytest.mark.heavy


def total(profile: Profile, selection: Selection) -> int:
    return int(sum_threads(profile, selection, event_id(profile, selection.event)).weight.sum())


def expected_total(profile: Profile, selection: Selection) -> int:
    event = selection.event or profile.meta.main_event
    return sum(sample.weight for sample in brute.selected(profile, selection, event=event))


@settings(max_examples=120)
@given(st.data(), profiles())
def test_self_sums_to_the_total_and_children_to_their_parent(data: st.DataObject, profile: Profile) -> None:
    selection = data.draw(selections(profile))
    whole = total(profile, selection)
    assert whole == expected_total(profile, selection)
    event = event_id(profile, selection.event)
    assert int(sum_call_weights(profile, selection, event).sum()) == whole
    tree = flame_tree(profile, selection, group=FlameGroup.NONE)
    check_shape(tree)
    assert tree.total == whole and int(tree.self_weight.sum()) == whole
    named = selection.replace(event=selection.event or profile.meta.main_event)
    rows = TABLES["hotspots"].rows(profile, named).records()
    with_stack = sum(s.weight for s in brute.selected(profile, named, event=named.event) if s.stack)
    assert sum(row["self"] for row in rows) == with_stack
    assert all(row["self"] <= row["total"] <= whole for row in rows)


@pytest.mark.slow
@settings(max_examples=120)
@given(st.data(), profiles())
def test_hosts_divide_into_ranks_into_processes_into_threads(data: st.DataObject, profile: Profile) -> None:
    selection = data.draw(selections(profile)).without_places()
    threads, whole = threads_of(profile), total(profile, selection)
    by_host = {host: selection.replace(hosts=(host or UNKNOWN_HOST,)) for host in set(threads.host)}
    assert sum(total(profile, part) for part in by_host.values()) == whole
    for host, part in by_host.items():
        inside = [n for n, name in enumerate(threads.host) if name == host]
        keys = {threads.process_key[n] for n in inside}
        parts = [part.replace(processes=(key,)) for key in sorted(keys)]
        assert sum(total(profile, one) for one in parts) == total(profile, part)
        ranks = {int(threads.rank[n]) for n in inside}
        if -1 not in ranks:
            by_rank = [part.replace(ranks=((rank, rank),)) for rank in sorted(ranks)]
            assert sum(total(profile, one) for one in by_rank) == total(profile, part)
        for one in parts:
            own = {threads.key[n] for n in inside if threads.process_key[n] == one.processes[0]}
            assert sum(total(profile, one.replace(threads=(key,))) for key in sorted(own)) == total(profile, one)
            assert total(profile, one) == expected_total(profile, one)


@settings(max_examples=60)
@given(profiles())
def test_a_process_is_selected_exactly_or_not_at_all(profile: Profile) -> None:
    threads = profile.threads.to_pylist()
    processes: dict[object, list[int]] = {}
    for number, thread in enumerate(threads):
        processes.setdefault(brute.process_of(thread), []).append(number)
    for chosen in processes.values():
        changes = select_process(profile, chosen)
        if changes is not None:
            found = sum_threads(profile, Selection().replace(**changes), event_id(profile, None)).count
            every = sum_threads(profile, Selection(), event_id(profile, None)).count
            expected = [count if n in chosen else 0 for n, count in enumerate(every.tolist())]
            assert found.tolist() == expected


def test_show_and_show_from_of_a_stack() -> None:
    profile = profile_of([("main;a;b;c", 3), ("main;b;a;b", 5), ("x;y", 7), ("", 11)])

    def stacks(**words: str) -> dict[str, int]:
        rows = TABLES["hotspots"].rows(profile, Selection(**words)).records()  # type: ignore[arg-type]
        return {row["name"]: row["self"] for row in rows if row["self"]}

    # The weight of frames that are not shown goes to their callers; stacks without any match lose theirs.
    assert stacks(show="^[ab]$") == {"b": 8}
    assert stacks(show="^main$") == {"main": 8}
    assert stacks(show_from="^[by]$") == {"c": 3, "b": 5, "y": 7}
    assert stacks(show_from="^b$", hide="^c$") == {"b": 8}
    for words in ({"show_from": "^b$", "hide": "b"}, {"show": "none"}, {"show_from": "none"}):
        assert stacks(**words) == {}, words


def test_what_does_not_exist_is_an_error_that_says_what_does() -> None:
    profile = profile_of([("main", 1)])
    for words, message in (
        ({"processes": ("77",)}, "no process '77'"),
        ({"hosts": ("n1",)}, "no host 'n1'; it names no hosts"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            total(profile, Selection().replace(**words))
    assert total(profile, Selection(hosts=(UNKNOWN_HOST,), processes=("-/100",))) == 1
