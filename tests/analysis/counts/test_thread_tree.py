"""The tree of threads: its sums, what is folded, and what its nodes select."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core.sample_selection import select_threads
from perfloom.analysis.counts.participants import MAX_THREADS
from perfloom.analysis.counts.shares import build_shares
from perfloom.analysis.counts.thread_tree import MAX_NODES, build_thread_tree, list_levels, select_nodes
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from tests.support.profiles import profile_of, profiles, stacked
from tests.web.results.test_counts_page import ranked

EVERY: dict[str, object] = {"threads": (), "processes": (), "ranks": (), "hosts": ()}


@pytest.mark.heavy
@settings(max_examples=50)
@given(profiles(max_weight=1 << 40), st.sampled_from((0.0, 5.0, 40.0)))
def test_every_level_has_the_total(profile: Profile, noise: float) -> None:
    nodes = build_thread_tree(profile, Selection(), noise)
    shares = build_shares(profile, Selection(), "thread")
    sums: Counter[int] = Counter()
    for node in nodes:
        sums[node.depth] += node.value
        assert node.folded or node.percent >= noise
    if shares.total:
        assert sums[0] == shares.total
    # Nodes below a folded one are not listed.
    assert all(sums[depth] <= sums[0] for depth in sums)
    if noise == 0:
        assert set(sums.values()) == {shares.total}


@pytest.mark.heavy
@settings(max_examples=50)
@given(profiles(), st.data())
def test_a_selection_of_nodes_selects_their_threads(profile: Profile, data: st.DataObject) -> None:
    nodes = build_thread_tree(profile, Selection(), 0.0)
    chosen = data.draw(st.lists(st.sampled_from(nodes), max_size=3, unique=True))
    changes = select_nodes(profile, [node.key for node in chosen])
    selected = select_threads(profile, Selection().replace(**changes))
    if not chosen or selected is None:
        return
    after = build_thread_tree(profile, Selection().replace(**changes), 0.0)
    assert {node.key for node in chosen} <= {node.key for node in after if node.checked}
    leaves = sum(node.threads for node in after if node.level == "thread" and node.checked)
    assert leaves == int(selected.sum())


def test_small_nodes_are_folded_into_one_row_with_their_sum() -> None:
    profile = profile_of([("main", 1000, 0), *((("main", 1, n)) for n in range(1, 101))])
    assert list_levels(profile) == ("process", "thread")
    process, large, small = build_thread_tree(profile, Selection(), 0.5)
    assert (process.value, process.threads, process.folded) == (1100, 101, 0)
    assert (large.label, large.value, large.depth) == ("thread 0 100", 1000, 1)
    assert (small.folded, small.value, small.threads, small.key) == (100, 100, 100, "")
    # A selected one is listed.
    nodes = build_thread_tree(profile, Selection(threads=("-/100/150",)), 0.5)
    assert [node.label for node in nodes if node.checked] == ["thread 50 150"] and nodes[-1].folded == 99


def test_thousands_of_threads_are_limited() -> None:
    profile = profile_of([("main", 1, n) for n in range(1000)])
    nodes = build_thread_tree(profile, Selection(), 0.0)
    assert len(nodes) == MAX_NODES + 1 and nodes[-1].folded == 1000 - MAX_NODES + 1
    # All are included by the process.
    assert select_nodes(profile, [nodes[0].key]) == EVERY
    many = [node.key for node in nodes[1 : MAX_THREADS + 2]]
    # Their names are their own.
    assert len(select_nodes(profile, many[:MAX_THREADS])["threads"]) == MAX_THREADS  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="51 threads are too many"):
        select_nodes(profile, many)


def test_whole_ranks_and_hosts_are_selected_as_ranks() -> None:
    profile = ranked(5)
    assert list_levels(profile) == ("host", "rank", "process", "thread")
    nodes = build_thread_tree(profile, Selection(), 0.0)
    keys = {node.label: node.key for node in nodes}
    assert select_nodes(profile, [keys["node1"]]) == EVERY | {"ranks": ((2, 3),)}
    assert select_nodes(profile, [keys["rank 1"], keys["node1"]]) == EVERY | {"ranks": ((1, 3),)}
    assert select_nodes(profile, [keys["solver 12"]]) == EVERY | {"ranks": ((2, 2),)}
    covered = {node.label for node in build_thread_tree(profile, Selection(ranks=((2, 3),)), 0.0) if node.covered}
    assert covered == {"rank 2", "rank 3", "solver 12", "solver 13"}
    for wrong in ("", "rank", "function:0/10/10", "rank:9/9/9"):
        with pytest.raises(InvalidRequest, match="tree of the threads page"):
            select_nodes(profile, [wrong])


def test_processes_and_hosts_without_ranks_are_selected_as_such() -> None:
    builder = ProfileBuilder("test")
    event, stack = builder.intern_event("cycles", "count"), stacked(builder, "main")
    for host, pid, tids in (("one", 10, 3), ("one", 20, MAX_THREADS + 5), ("two", 20, 2), ("three", 30, 1)):
        for tid in range(tids):
            thread = builder.intern_thread(pid=pid, tid=pid * 100 + tid + ord(host[0]) * 10_000, host=host)
            builder.set_thread_name(thread, 0, "worker")
            builder.add_sample(0, thread, event, stack, 1)
    profile = builder.finish()
    nodes = build_thread_tree(profile, Selection(), 0.0)
    first, second = (next(n.key for n in nodes if n.level == "process" and n.threads == size) for size in (3, 55))
    assert select_nodes(profile, [first]) == EVERY | {"processes": ("-/10",)}
    two = next(node.key for node in nodes if node.label == "two")
    assert select_nodes(profile, [two]) == EVERY | {"hosts": ("two",)}
    # Two hosts have a process 20: each alone is too large for an address.
    with pytest.raises(InvalidRequest, match="too many"):
        select_nodes(profile, [second])
    # A thread that is chosen by itself stays a thread.
    thread = next(node.key for node in nodes if node.level == "thread" and node.key.startswith("thread:-/10/"))
    assert set(select_nodes(profile, [thread])["threads"]) == {thread.removeprefix("thread:")}  # type: ignore[call-overload]


def test_nothing_recorded() -> None:
    assert build_thread_tree(profile_of([], events=(("cycles", "count"),)), Selection(), 0.1) == ()
