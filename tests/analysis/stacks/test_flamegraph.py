"""The flame graph against the definitions in plain Python, on random profiles."""

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.compare.flamegraph import flame_diff
from perfloom.analysis.core.frame_filter import simplify_filter
from perfloom.analysis.stacks.flamegraph import (
    FlameGroup,
    FlameTree,
    SiblingOrder,
    flame_tree,
    sandwich,
    search,
)
from perfloom.domain.errors import InvalidRequest, NotFound
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.selection import ALL_FRAMES, Selection
from perfloom.readers import collapsed
from tests.analysis import brute
from tests.support.profiles import profile_of, profiles

PATTERNS = st.none() | st.sampled_from(("a", "^b$", "main", "libc", "unknown", "zzz", "."))
GROUPS = (FlameGroup.NONE, FlameGroup.COMM, FlameGroup.THREAD, FlameGroup.PROCESS, FlameGroup.RANK, FlameGroup.HOST)


@st.composite
def selections(draw: st.DrawFn, profile: Profile, *, patterns: bool = True) -> Selection:
    """Selections that this profile can answer."""
    events = profile.events["name"].to_pylist()
    threads = profile.threads.to_pylist()
    keys = [f"{'-' if t['rank'] is None else t['rank']}/{t['pid'] or '-'}/{t['tid']}" for t in threads]
    names = [t["name"] for t in threads if t["name"]]
    ranks = [t["rank"] for t in threads if t["rank"] is not None]
    processes = [f"{'-' if t['rank'] is None else t['rank']}/{t['pid'] or '-'}" for t in threads]
    processes += [t["process"] for t in threads if t["process"]]
    hosts = [t["host"] or "-" for t in threads]
    start = draw(st.none() | st.integers(0, 40))
    return Selection(
        event=draw(st.none() | st.sampled_from(events)),
        threads=tuple(draw(st.lists(st.sampled_from(keys + names), max_size=2))),
        ranks=tuple(draw(st.lists(st.sampled_from(ranks).map(lambda r: (r, r + 1)), max_size=2))) if ranks else (),
        processes=tuple(draw(st.lists(st.sampled_from(processes), max_size=2, unique=True))),
        hosts=tuple(draw(st.lists(st.sampled_from(hosts), max_size=2, unique=True))),
        start_ns=start,
        end_ns=draw(st.none() | st.integers((start or 0) + 1, 70)),
        focus=draw(PATTERNS) if patterns else None,
        more_focus=draw(st.sampled_from(((), ("a",), ("main", "^b$")))) if patterns else (),
        ignore=draw(PATTERNS) if patterns else None,
        hide=draw(PATTERNS) if patterns else None,
        show=draw(PATTERNS) if patterns else None,
        show_from=draw(PATTERNS) if patterns else None,
        invert=draw(st.booleans()),
        recursion=draw(st.booleans()),
    )


def name_of(profile: Profile, tree: FlameTree, row: int) -> Any:
    function = int(tree.function[row])
    if function < 0:
        assert tree.kind[row] == -1
        return tree.labels[-1 - function]
    found = profile.functions.slice(function, 1).to_pylist()[0]
    return found["display"], found["module"], int(tree.kind[row])


def paths_of(profile: Profile, tree: FlameTree) -> list[tuple[Any, ...]]:
    paths: list[tuple[Any, ...]] = [()]
    for row in range(1, len(tree.id)):
        paths.append((*paths[tree.parent[row]], name_of(profile, tree, row)))
    return paths


def as_dict(profile: Profile, tree: FlameTree) -> dict[tuple[Any, ...], tuple[int, int]]:
    paths = paths_of(profile, tree)
    assert len(set(paths)) == len(paths), "two siblings are the same frame"
    weights = zip(tree.self_weight.tolist(), tree.total_weight.tolist(), strict=True)
    return dict(zip(paths, weights, strict=True))


def check_shape(tree: FlameTree, *, whole: bool = True) -> None:
    """What holds for every flame graph."""
    count = len(tree.id)
    assert tree.id[0] == 0 and tree.parent[0] == -1 and tree.end[0] == count and tree.depth[0] == 0
    assert len(np.unique(tree.id)) == count
    children = np.zeros(count, np.int64)
    for row in range(1, count):
        parent = tree.parent[row]
        assert parent < row < tree.end[row] <= tree.end[parent]
        assert tree.depth[row] == tree.depth[parent] + 1
        if parent >= tree.zoom:
            assert tree.start[parent] <= tree.start[row]
            assert tree.start[row] + tree.total_weight[row] <= tree.start[parent] + tree.total_weight[parent]
        children[parent] += tree.total_weight[row]
    assert (tree.total_weight[1:] > 0).all() or not whole
    inside = slice(tree.zoom, tree.end[tree.zoom])
    missing = (tree.total_weight - children - tree.self_weight)[inside]
    assert (missing == 0).all() if whole else (missing >= 0).all()


def expected(profile: Profile, selection: Selection, group: FlameGroup) -> dict[Any, tuple[int, int]]:
    event = selection.event or profile.meta.main_event
    samples = brute.selected(profile, selection, event=event)
    group = brute.split_by(profile, group)
    prefix = [() if group is FlameGroup.NONE else (brute.group_of(profile, s, group),) for s in samples]
    return brute.weighed([(p + s.stack, s.weight) for p, s in zip(prefix, samples, strict=True)])


@pytest.mark.heavy
@settings(max_examples=150)
@given(st.data(), profiles(), st.sampled_from(GROUPS), st.sampled_from((SiblingOrder.WEIGHT, SiblingOrder.NAME)))
def test_equals_the_definition(data: st.DataObject, profile: Profile, group: FlameGroup, order: SiblingOrder) -> None:
    selection = data.draw(selections(profile))
    tree = flame_tree(profile, selection, group=group, order=order)
    check_shape(tree)
    assert as_dict(profile, tree) == expected(profile, selection, group)
    assert tree.total == tree.total_weight[0]
    assert tree.event == (selection.event or profile.meta.main_event)


@settings(max_examples=50)
@given(st.data(), profiles(), st.sampled_from(GROUPS), st.sampled_from((SiblingOrder.WEIGHT, SiblingOrder.NAME)))
def test_siblings_are_in_order(data: st.DataObject, profile: Profile, group: FlameGroup, order: SiblingOrder) -> None:
    tree = flame_tree(profile, data.draw(selections(profile)), group=group, order=order)
    last: dict[int, int] = {}
    for row in range(1, len(tree.id)):
        before = last.get(int(tree.parent[row]))
        if before is not None:
            if order is SiblingOrder.WEIGHT:
                assert tree.total_weight[before] >= tree.total_weight[row]
            else:
                one, two = (name_of(profile, tree, r) for r in (before, row))
                assert (one if isinstance(one, str) else one[0]) <= (two if isinstance(two, str) else two[0])
            assert tree.start[row] == tree.start[before] + tree.total_weight[before]
        else:
            assert tree.start[row] == tree.start[tree.parent[row]]
        last[int(tree.parent[row])] = row


@pytest.mark.heavy
@settings(max_examples=80)
@given(st.data(), profiles(), st.sampled_from(GROUPS), st.floats(0, 0.5))
def test_narrow_frames_are_left_out(data: st.DataObject, profile: Profile, group: FlameGroup, least: float) -> None:
    selection = data.draw(selections(profile))
    whole = as_dict(profile, flame_tree(profile, selection, group=group))
    tree = flame_tree(profile, selection, group=group, min_share=least)
    check_shape(tree, whole=False)
    wide = {p: w for p, w in whole.items() if w[1] >= least * tree.total or not p}
    assert as_dict(profile, tree) == wide
    assert (tree.pruned > 0) == (len(wide) < len(whole))


@pytest.mark.heavy
@settings(max_examples=80)
@given(st.data(), profiles(max_weight=50), st.sampled_from(GROUPS), st.sampled_from(list(SiblingOrder)))
def test_zoom_shows_the_frame_its_path_and_descendants(
    data: st.DataObject, profile: Profile, group: FlameGroup, order: SiblingOrder
) -> None:
    selection = data.draw(selections(profile))
    whole = flame_tree(profile, selection, group=group, order=order)
    row = data.draw(st.integers(0, len(whole.id) - 1))
    tree = flame_tree(profile, selection, group=group, order=order, zoom=int(whole.id[row]))
    check_shape(tree)
    assert tree.id[tree.zoom] == whole.id[row]
    assert tree.total == whole.total
    assert tree.depth[tree.zoom] == tree.zoom
    path = [row]
    while path[-1]:
        path.append(int(whole.parent[path[-1]]))
    assert tree.total_weight[: tree.zoom + 1].tolist() == whole.total_weight[path[::-1]].tolist()
    inside, end = slice(tree.zoom, None), int(whole.end[row])
    for column in ("id", "depth", "function", "kind", "self_weight", "total_weight"):
        assert getattr(tree, column)[inside].tolist() == getattr(whole, column)[row:end].tolist(), column
    assert tree.start[inside].tolist() == (whole.start[row:end] - whole.start[row]).tolist()


@pytest.mark.heavy
@settings(max_examples=50)
@given(st.data(), profiles(), st.sampled_from(GROUPS), st.sampled_from((SiblingOrder.WEIGHT, SiblingOrder.NAME)))
def test_ids_hold_whatever_is_selected(
    data: st.DataObject, profile: Profile, group: FlameGroup, order: SiblingOrder
) -> None:
    one = data.draw(selections(profile))
    shape = {"hide": one.hide, "show": one.show, "show_from": one.show_from}
    two = data.draw(selections(profile)).replace(**shape, invert=one.invert, recursion=one.recursion)
    paths = []
    for selection in (one, two):
        tree = flame_tree(profile, selection, group=group, order=order)
        paths.append(dict(zip(tree.id.tolist(), paths_of(profile, tree), strict=True)))
    for frame in paths[0].keys() & paths[1].keys():
        assert paths[0][frame] == paths[1][frame]


def boxes_of(profile: Profile, selection: Selection, group: FlameGroup) -> list[tuple[Any, ...]]:
    """(path, start, self, total) of every box by time, in preorder: the definition."""
    event = selection.event or profile.meta.main_event
    samples = brute.selected(profile, selection, event=event)
    group = brute.split_by(profile, group)
    groups = [brute.group_of(profile, s, group) if group is not FlameGroup.NONE else "" for s in samples]
    found: list[tuple[Any, ...]] = []

    def lay(members: list[tuple[int, tuple[Any, ...], int]], path: tuple[Any, ...], start: int) -> None:
        """members: (thread, what is left of the path, weight), in order."""
        own = sum(w for _, rest, w in members if not rest)
        total = sum(w for _, _, w in members)
        if path and not total:
            return
        found.append((path, start, own, total))
        at, i = start, 0
        while i < len(members):
            j = i
            while (
                j + 1 < len(members)
                and members[i][1]
                and members[j + 1][1][:1] == members[i][1][:1]
                and (members[j + 1][0] == members[i][0] or (group is not FlameGroup.NONE and not path))
            ):
                j += 1
            if members[i][1]:
                lay([(t, r[1:], w) for t, r, w in members[i : j + 1]], (*path, members[i][1][0]), at)
            at += sum(w for _, _, w in members[i : j + 1])
            i = j + 1

    # Groups are ordered by their numbers, which are the indexes of the graph's labels.
    labels = flame_tree(profile, selection, group=group).labels
    order = sorted(
        range(len(samples)), key=lambda i: (labels.index(groups[i]) if groups[i] else 0, samples[i].thread, i)
    )
    prefix = (lambda i: (groups[i],)) if group is not FlameGroup.NONE else (lambda i: ())
    lay([(samples[i].thread, prefix(i) + samples[i].stack, samples[i].weight) for i in order], (), 0)
    return found


@pytest.mark.slow
@pytest.mark.heavy
@settings(max_examples=150)
@given(st.data(), profiles(max_weight=50), st.sampled_from((FlameGroup.NONE, FlameGroup.COMM, FlameGroup.THREAD)))
def test_by_time_equals_the_definition(data: st.DataObject, profile: Profile, group: FlameGroup) -> None:
    selection = data.draw(selections(profile))
    tree = flame_tree(profile, selection, group=group, order=SiblingOrder.TIME)
    check_shape(tree)
    columns = (paths_of(profile, tree), tree.start.tolist(), tree.self_weight.tolist(), tree.total_weight.tolist())
    assert list(zip(*columns, strict=True)) == boxes_of(profile, selection, group)


@pytest.mark.heavy
@settings(max_examples=50)
@given(st.data(), profiles(max_weight=50), st.floats(0, 0.5))
def test_by_time_narrow_boxes_are_left_out(data: st.DataObject, profile: Profile, least: float) -> None:
    selection = data.draw(selections(profile))
    tree = flame_tree(profile, selection, order=SiblingOrder.TIME, min_share=least)
    check_shape(tree, whole=False)
    columns = (paths_of(profile, tree), tree.start.tolist(), tree.self_weight.tolist(), tree.total_weight.tolist())
    wide = [box for box in boxes_of(profile, selection, FlameGroup.COMM) if box[3] >= least * tree.total or not box[0]]
    assert list(zip(*columns, strict=True)) == wide


@pytest.mark.heavy
@settings(max_examples=80)
@given(st.data(), profiles())
def test_sandwich(data: st.DataObject, profile: Profile) -> None:
    selection = data.draw(selections(profile)).replace(invert=False)
    samples = brute.selected(profile, selection, event=selection.event or profile.meta.main_event)
    functions = profile.functions.to_pylist()
    function = data.draw(st.integers(0, len(functions) - 1))
    by_name = data.draw(st.booleans())
    wanted = functions[function]["display"]
    callers, callees = sandwich(profile, selection, wanted if by_name else function)
    up, down = [], []
    for sample in samples:
        for at, frame in enumerate(sample.stack):
            if frame[0] == wanted and (by_name or frame[1] == functions[function]["module"]):
                up.append((sample.stack[at::-1], sample.weight))
                down.append((sample.stack[at:], sample.weight))
                break
    for tree, paths in ((callers, up), (callees, down)):
        check_shape(tree)
        assert as_dict(profile, tree) == brute.weighed(paths)
    assert callers.total == callees.total


def test_sandwich_of_an_unknown_function() -> None:
    profile = profile_of([("a;b", 1)])
    for wrong in ("c", 7, -1):
        with pytest.raises(NotFound, match="no function"):
            sandwich(profile, Selection(), wrong)


@pytest.mark.heavy
@settings(max_examples=80)
@given(st.data(), profiles(), st.sampled_from(("a", "^b$", "unknown", "zzz", ".", "")))
def test_search(data: st.DataObject, profile: Profile, pattern: str) -> None:
    import re

    selection = data.draw(selections(profile)).replace(invert=False, recursion=False)
    samples = brute.selected(profile, selection, event=selection.event or profile.meta.main_event)
    found = search(profile, selection, pattern)
    matched = sum(s.weight for s in samples if any(re.search(pattern, f[0]) for f in s.stack))
    total = sum(s.weight for s in samples)
    assert found.matched_weight == matched
    assert found.percent == pytest.approx(100 * matched / total if total else 0)
    names = {(f["display"], f["module"]) for f in profile.functions.to_pylist()}
    # Patterns that remove nothing keep also functions that are in no stack.
    if simplify_filter(profile, selection.frame_filter) != ALL_FRAMES:
        files, stacks = brute.files(profile), brute.all_stacks(profile)
        names = {stack[n][:2] for stack in stacks for n in brute.shown_frames(stack, selection, files)}
    shown = {n for n in names if re.search(pattern, n[0])}
    rows = profile.functions.take(list(found.functions)).to_pylist() if found.functions else []
    assert [(f["display"], f["module"]) for f in rows].sort() == list(shown).sort()
    assert len(rows) == len(shown)


def test_invalid_patterns_are_searched_as_text() -> None:
    profile = profile_of([("main;f(int", 3), ("main;f", 1)])
    found = search(profile, Selection(), "f(")
    assert (found.matched_weight, len(found.functions), found.is_literal) == (3, 1, True)
    assert not search(profile, Selection(), "f").is_literal


@pytest.mark.parametrize("order", list(SiblingOrder))
@pytest.mark.parametrize("group", list(FlameGroup))
@pytest.mark.parametrize("invert", [False, True])
def test_nothing_to_show(order: SiblingOrder, group: FlameGroup, invert: bool) -> None:
    empty = profile_of([])
    hidden = profile_of([("a;b", 5), ("", 2)])
    bare = Profile(Meta("test"))
    for profile, selection in (
        (empty, Selection()),
        (bare, Selection()),
        (bare, Selection(focus="a", hide="b", recursion=True)),
        (hidden, Selection(hide=".")),
        (hidden, Selection(focus="zzz")),
    ):
        tree = flame_tree(profile, selection.replace(invert=invert), group=group, order=order, zoom=3, min_share=0.01)
        check_shape(tree)
        assert (tree.total, len(tree.id)) == (0, 1)


def test_groups_by_thread_name_need_names() -> None:
    stacks = collapsed.read(io.BytesIO(b"a;b 3\na;c 4\n"))
    named = profile_of([("a;b", 5)], events=(("samples", "count"),))
    tree = flame_tree(stacks, Selection())
    assert (tree.group, tree.labels) == (FlameGroup.NONE, ("all",))
    assert sorted(as_dict(stacks, tree).values()) == [(0, 7), (0, 7), (3, 3), (4, 4)]
    for base, other in ((stacks, named), (named, stacks)):
        difference = flame_diff(base, other, Selection(), Selection())
        assert (difference.group, len(difference.id)) == (FlameGroup.NONE, 3 if other is named else 4)
        assert difference.base_self is not None
    assert flame_tree(named, Selection()).group is FlameGroup.COMM


def test_no_events_at_all() -> None:
    tree = flame_tree(profile_of([], events=()), Selection())
    assert (tree.event, tree.unit, tree.total) == ("", "count", 0)


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("recursion", [False, True])
def test_stacks_of_3000_frames(invert: bool, recursion: bool) -> None:
    deep = ";".join(f"f{n % 1000}" for n in range(3000))
    profile = profile_of([(deep, 3), (deep + ";leaf", 4), (deep, 2, 1)])
    for order in SiblingOrder:
        tree = flame_tree(profile, Selection(invert=invert, recursion=recursion), order=order, group=FlameGroup.NONE)
        assert tree.total == 9
        assert tree.depth.max() == (1001 if recursion else 3001)
        last = flame_tree(
            profile,
            Selection(invert=invert, recursion=recursion),
            order=order,
            group=FlameGroup.NONE,
            zoom=int(tree.id[tree.depth.argmax()]),
        )
        assert last.zoom == tree.depth.max()


def test_unknown_values_are_reported() -> None:
    profile = profile_of([("a", 1)], events=(("cycles", "count"), ("faults", "count")))
    for selection, message in (
        (Selection(event="x"), "cycles, faults"),
        (Selection(threads=("x",)), "no thread 'x'"),
        (Selection(ranks=((0, 3),)), "no ranks"),
        (Selection(step="1"), "no steps"),
        (Selection(focus="("), r"missing \)"),
        (Selection(hide="*"), "repetition"),
        (Selection(ignore="(?=a)"), "Lookahead"),
        (Selection(focus="\udc80"), "not Unicode"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            flame_tree(profile, selection)


def test_weights_are_exact_beyond_53_bits() -> None:
    big = (1 << 60) + 1
    profile = profile_of([("a;b", big), ("a;b", 1, 1), ("a;c", big), ("a", 3)])
    tree = flame_tree(profile, Selection())
    assert tree.total == 2 * big + 4
    assert sorted(tree.self_weight.tolist())[-2:] == [big, big]


def test_an_id_that_is_not_there_is_the_root() -> None:
    profile = profile_of([("a;b", 5), ("a;c", 2, 1)])
    for order in SiblingOrder:
        for group in (FlameGroup.NONE, FlameGroup.THREAD):
            for wrong in (-5, 10**15):
                tree = flame_tree(profile, Selection(), zoom=wrong, order=order, group=group)
                assert tree.zoom == 0 and tree.total == 7


def test_a_zoom_without_weight_falls_back_to_its_caller() -> None:
    profile = profile_of([("a;b;c", 5, 0, 0), ("a;d", 2, 0, 10)])
    whole = flame_tree(profile, Selection(), group=FlameGroup.NONE)
    frame = int(whole.id[paths_of(profile, whole).index(tuple((n, "app", 0) for n in "abc"))])
    tree = flame_tree(profile, Selection(start_ns=5), group=FlameGroup.NONE, zoom=frame)
    assert name_of(profile, tree, tree.zoom) == ("a", "app", 0)
