"""The matrix: equal to a naive computation, complete, and the same sums whatever it is divided by."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core.functions import base_name, functions_of
from perfloom.analysis.core.sample_rollup import roll_up_filtered_samples
from perfloom.analysis.core.sample_selection import threads_of
from perfloom.analysis.core.waiting_calls import waiting_calls_of
from perfloom.analysis.core.waiting_functions import (
    resuming_pattern,
    set_additional_patterns,
    spinning_module_pattern,
    waiting_module_pattern,
    waiting_pattern,
)
from perfloom.analysis.matrix.cells import MatrixCells, build_cells
from perfloom.analysis.matrix.groups import BY, default_by, matrix_groups
from perfloom.analysis.matrix.matrix import NO_STACK
from perfloom.analysis.tables import TABLES
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import ALL_FRAMES, Selection
from perfloom.domain.tables import NO_ID, FrameKind
from tests.analysis import brute
from tests.analysis.stacks.test_flamegraph import selections
from tests.support.profiles import profile_of, stacked

Key = tuple[str, str, bool, str]
"""Name and module of a function, whether it waits, and the group."""
PLACES = (
    ("main", "app", FrameKind.USER),
    ("work", "app", FrameKind.USER),
    ("PMPI_Barrier", "/usr/lib/libmpi.so.40", FrameKind.USER),
    ("[libuct.so.0]", "/usr/lib/libuct.so.0", FrameKind.USER),
    ("[libgomp.so.1]", "/usr/lib/libgomp.so.1", FrameKind.USER),
    ("gomp_barrier_handle_tasks", "/usr/lib/libgomp.so.1", FrameKind.USER),
    ("gomp_team_barrier_wait_end", "/usr/lib/libgomp.so.1", FrameKind.USER),
    ("do_syscall_64", "[kernel.kallsyms]", FrameKind.KERNEL),
    ("__x64_sys_futex", "[kernel.kallsyms]", FrameKind.KERNEL),
    ("", "app", FrameKind.USER),
)


@st.composite
def programs(draw: st.DrawFn) -> Profile:
    """Small profiles with functions that wait, on several ranks, hosts, processes and threads."""
    builder = ProfileBuilder("test")
    events = [builder.intern_event("cpu-clock", "ns"), builder.intern_event("l3:miss/x_y/", "count")]
    threads = []
    for n in range(draw(st.integers(1, 5))):
        rank, host = draw(st.none() | st.integers(0, 2)), draw(st.sampled_from((None, "one", "two")))
        threads.append(builder.intern_thread(pid=draw(st.sampled_from((None, 1, 2))), tid=n, rank=rank, host=host))
        builder.set_thread_name(threads[-1], 0, draw(st.sampled_from(("worker-1", "worker-2", "main"))))
    stacks = draw(st.lists(st.lists(st.sampled_from(PLACES), max_size=6), min_size=1, max_size=8))
    for _ in range(draw(st.integers(0, 30))):
        builder.add_sample(
            draw(st.integers(0, 60)),
            draw(st.sampled_from(threads)),
            draw(st.sampled_from(events)),
            stacked(builder, draw(st.sampled_from(stacks))),
            draw(st.integers(0, 1 << 50)),
        )
    return builder.finish()


def is_match(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None


def naive_state(stack: Iterable[tuple[str, str, int]]) -> tuple[int | None, bool]:
    """(the place in a stack of the function that gets its samples, whether they wait); None: of no function."""
    frames = list(stack)
    waiting: int | None = None
    for place, (name, module, _) in enumerate(frames):
        if is_match(resuming_pattern(), name):
            waiting = None
        elif waiting is None and (
            is_match(waiting_pattern(), name) or is_match(waiting_module_pattern(), base_name(module))
        ):
            waiting = place
    if waiting is not None:
        return waiting, True
    if not frames:
        return None, False
    name, module, _ = frames[-1]
    if name.startswith("[") and is_match(spinning_module_pattern(), base_name(module)):
        return len(frames) - 1, True
    user = [place for place, frame in enumerate(frames) if frame[2] != FrameKind.KERNEL]
    return user[-1] if user else len(frames) - 1, False


def naive_cells(profile: Profile, selection: Selection, event: str, by: str) -> dict[Key, tuple[int, int]]:
    """(weight, samples) by function and group, sample by sample."""
    threads = profile.threads.to_pylist()
    weight, count = Counter[Key](), Counter[Key]()
    plain, files = selection.replace(hide=None, show=None, show_from=None), brute.files(profile)
    for sample in brute.selected(profile, plain, reshape=False, event=event):
        stack, full = sample.stack, sample.stack
        place, waits = naive_state(full)
        if selection.frame_filter != ALL_FRAMES:
            kept = brute.shown_frames(full, selection, files)
            if not kept:
                continue
            if waits:
                above = [n for n in kept if place is not None and n <= place]
                place = above[-1] if above else naive_user(stack, kept)
            else:
                place = naive_user(stack, kept)
        name, module = (NO_STACK, "") if place is None else (stack[place][0], stack[place][1] or "")
        thread = threads[sample.thread]
        group = {
            "rank": "no rank" if thread["rank"] is None else f"rank {thread['rank']}",
            "host": thread["host"] or "unknown host",
        }.get(by) or str(sample.thread)
        weight[name, module, waits, group] += sample.weight
        count[name, module, waits, group] += 1
    return {key: (weight[key], count[key]) for key in count}


def naive_user(stack: Any, kept: list[int]) -> int:
    user = [n for n in kept if stack[n][2] != FrameKind.KERNEL]
    return user[-1] if user else kept[-1]


def cells_of(profile: Profile, cells: MatrixCells, by: str) -> dict[Key, tuple[int, int]]:
    functions, found = functions_of(profile), {}
    of_group = cells.groups.of_thread.tolist()
    for row, group, weight, count in zip(cells.row, cells.group, cells.weight, cells.count, strict=True):
        function = int(cells.rows.function[row])
        name = (functions.name_of(function), functions.module_of(function)) if function >= 0 else (NO_STACK, "")
        label = cells.groups.labels[group] if by in ("rank", "host") else str(of_group.index(group))
        found[(*name, bool(cells.rows.waits[row]), label)] = (int(weight), int(count))
    return found


@given(st.data())
@settings(deadline=None, max_examples=40)
def test_cells_equal_the_naive_computation(data: st.DataObject) -> None:
    profile = data.draw(programs())
    patterns = st.sampled_from((None, "main", "MPI", "^work$"))
    shown = {word: data.draw(patterns) for word in ("hide", "show", "show_from")}
    selection = data.draw(selections(profile)).replace(**shown)
    by = data.draw(st.sampled_from(("rank", "host", "thread")))
    for event, name in enumerate(profile.events["name"].to_pylist()):
        groups = matrix_groups(profile, selection, by)
        cells = build_cells(profile, selection, event, groups)
        assert cells_of(profile, cells, by) == naive_cells(profile, selection, name, by)
        whole = roll_up_filtered_samples(profile, selection, event)
        assert cells.totals.whole.sum() == whole.weight.sum() and cells.count.sum() == whole.count.sum()
        assert cells.totals.computing.tolist() == [
            cells.weight[(cells.group == g) & ~cells.rows.waits[cells.row]].sum() for g in range(len(groups))
        ]
    empty = build_cells(profile, selection, NO_ID, matrix_groups(profile, selection, by))
    assert not len(empty) and not empty.totals.whole.any()


@given(st.data())
@settings(deadline=None, max_examples=40)
def test_parts_of_time_ranks_and_threads_add_up(data: st.DataObject) -> None:
    profile = data.draw(programs())
    at = sorted(data.draw(st.lists(st.integers(1, 59), min_size=1, max_size=3, unique=True)))
    windows = [(None, at[0]), *pairwise(at), (at[-1], None)]
    keys = [f"{key}" for key in dict.fromkeys(threads_of(profile).key)]
    for selected in (
        [Selection(start_ns=start, end_ns=end) for start, end in windows],
        [Selection(threads=(key,)) for key in keys],
    ):
        for by in BY:
            parts = Counter[tuple[Any, ...]]()
            for selection in selected:
                parts.update(table_cells(profile, selection, by))
            assert +parts == +table_cells(profile, Selection(), by)
    # Groups of one kind have the sums of those of another.
    totals = [sums_by_function(table_cells(profile, Selection(), by)) for by in BY]
    assert all(total == totals[0] for total in totals)


def table_cells(profile: Profile, selection: Selection, by: str) -> Counter[tuple[Any, ...]]:
    rows = TABLES["matrix-cells"].rows(profile, selection, by).records()
    # Threads with the same key are selected together: they may have several labels.
    return Counter(
        {
            (*key, measure): sum(row[measure] or 0 for row in rows if cell_key(row) == key)
            for key in {cell_key(row) for row in rows}
            for measure in ("value", "samples")
        }
    )


def cell_key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["event"], row["name"], row["module"], row["state"], row["group"]


def sums_by_function(cells: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    found = Counter[tuple[Any, ...]]()
    for key, value in cells.items():
        found[(*key[:4], key[-1])] += value
    return +found


@given(programs(), st.sampled_from(BY))
@settings(deadline=None, max_examples=40)
def test_the_statistics_are_those_of_the_cells(profile: Profile, by: str) -> None:
    cells = TABLES["matrix-cells"].rows(profile, Selection(), by).records()
    for row in TABLES["matrix"].rows(profile, Selection(), by).records():
        same = [c for c in cells if all(c[k] == row[k] for k in ("event", "name", "module", "state"))]
        assert row["samples"] == sum(cell["samples"] for cell in same)
        if row["value"] is None:
            assert {cell["value"] for cell in same} == {row["min"], row["mean"], row["max"]} == {None}
            continue
        assert row["value"] == sum(cell["value"] for cell in same)
        assert row["min"] <= row["mean"] <= row["max"] or row["groups"] == 0
        if row["most"] is not None:
            assert row["max"] == next(cell["value"] for cell in same if cell["group"] == row["most"])
        if row["imbalance_percent"] is not None:
            assert row["imbalance_percent"] == pytest.approx(100 * (row["max"] / row["mean"] - 1))


def test_what_waits() -> None:
    spin = ("opal_progress", "/usr/lib/libopen-pal.so.40")
    task = ("gomp_barrier_handle_tasks", "/usr/lib/libgomp.so.1")
    barrier = ("gomp_team_barrier_wait_end", "/usr/lib/libgomp.so.1")
    kernel = ("asm_sysvec_apic_timer_interrupt", "[kernel.kallsyms]", FrameKind.KERNEL)
    profile = profile_of(
        [
            (["main", "exchange", ("PMPI_Barrier", "/usr/lib/libmpi.so.40"), spin], 1),
            (["main", "work", kernel], 2),
            (["main", ("[libuct.so.0.0.0]", "/usr/lib/libuct.so.0.0.0")], 4),
            (["main", barrier, task, "work"], 8),
            (["main", barrier, ("do_spin", "/usr/lib/libgomp.so.1")], 16),
            (["main", ("[libgomp.so.1]", "/usr/lib/libgomp.so.1")], 32),
            (["main", ("[libgomp.so.1]", "/usr/lib/libgomp.so.1"), "work"], 64),
            ([], 128),
        ],
        events=(("cpu-clock", "ns"),),
    )
    found = {(row["name"], row["state"]): row["value"] for row in TABLES["matrix"].rows(profile, Selection()).records()}
    assert found == {
        ("PMPI_Barrier", "waiting"): 1,
        ("work", "computing"): 2 + 8 + 64,
        ("[libuct.so.0.0.0]", "waiting"): 4,
        ("gomp_team_barrier_wait_end", "waiting"): 16,
        ("[libgomp.so.1]", "waiting"): 32,
        (NO_STACK, "computing"): 128,
    }
    # Waiting remains waiting when its functions are hidden.
    hidden = TABLES["matrix"].rows(profile, Selection(hide="MPI|opal")).records()
    assert {(row["name"], row["state"]): row["value"] for row in hidden}["exchange", "waiting"] == 1


def test_the_list_is_extended_by_functions_and_libraries() -> None:
    profile = profile_of([("main;my_spin_lock", 1), (["main", ("poll_all", "/opt/libfast.so.1")], 2)])
    assert not waiting_calls_of(profile).waits.any()
    try:
        set_additional_patterns((r"my_spin_\w+", r"libfast\.so.*"))
        rows = TABLES["matrix"].rows(profile, Selection()).records()
        assert [(row["name"], row["state"]) for row in rows] == [("poll_all", "waiting"), ("my_spin_lock", "waiting")]
    finally:
        set_additional_patterns(())
    rows = TABLES["matrix"].rows(profile, Selection()).records()
    assert [row["state"] for row in rows] == ["computing", "computing"]


def test_ranks_without_samples_are_shown_but_not_compared() -> None:
    builder = ProfileBuilder("test")
    event = builder.intern_event("cpu-clock", "ns")
    for rank in range(4):
        thread = builder.intern_thread(pid=rank, tid=rank, rank=rank)
        for at in range(100 if rank < 3 else 0):
            builder.add_sample(at, thread, event, stacked(builder, "main;work"), 10)
    profile = builder.finish()
    groups = matrix_groups(profile, Selection(), "rank")
    assert groups.labels == ("rank 0", "rank 1", "rank 2", "rank 3")
    assert groups.sampled.tolist() == [True, True, True, False] and groups.role.tolist() == [0, 0, 0, -1]
    [row] = TABLES["matrix"].rows(profile, Selection()).records()
    assert (row["groups"], row["min"], row["mean"], row["imbalance_percent"]) == (3, 1000, 1000, 0)
    assert default_by(profile) == "rank" and matrix_groups(profile, Selection(ranks=((1, 2),)), "rank").labels == (
        "rank 1",
        "rank 2",
    )
    # A rank that has samples only at other times is 0.
    assert TABLES["matrix"].rows(profile, Selection(start_ns=1000)).records() == []


def test_groups_of_one_thread_and_unknown_groupings() -> None:
    profile = profile_of([("main", 1)] * 3)
    assert default_by(profile) == "thread"
    [row] = TABLES["matrix"].rows(profile, Selection()).records()
    assert (row["groups"], row["imbalance_percent"], row["outlier"]) == (1, None, False)
    with pytest.raises(InvalidRequest, match="by"):
        TABLES["matrix"].rows(profile, Selection(), "module")
