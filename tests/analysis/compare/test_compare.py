"""Differences of two profiles against the definitions in plain Python, on random profiles."""

from collections import defaultdict
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.compare.flamegraph import find_thread_roles, flame_diff
from perfloom.analysis.compare.functions import COLUMNS, diff_functions
from perfloom.analysis.core.flame_groups import FlameGroups
from perfloom.analysis.core.functions import functions_of
from perfloom.analysis.core.sample_counts import weight_spread
from perfloom.analysis.stacks.flame_tree import FrameEvidence
from perfloom.analysis.stacks.flamegraph import FlameGroup, SiblingOrder, flame_tree
from perfloom.charts.flamegraph import build_difference_payload
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from tests.analysis import brute
from tests.analysis.stacks.test_flamegraph import GROUPS, PATTERNS, check_shape, paths_of
from tests.support.profiles import profile_of, profiles, stacked
from tests.support.traced import Trace

pytestmark = pytest.mark.heavy

FEW = "perfloom.analysis.compare.functions.MIN_COMPARED_SAMPLES"


@st.composite
def shared_selections(draw: st.DrawFn) -> Selection:
    """Selections that any two profiles can answer."""
    return Selection(
        focus=draw(PATTERNS),
        ignore=draw(PATTERNS),
        hide=draw(PATTERNS),
        show=draw(PATTERNS),
        show_from=draw(PATTERNS),
        invert=draw(st.booleans()),
        recursion=draw(st.booleans()),
        start_ns=draw(st.none() | st.integers(0, 20)),
    )


def without_kinds(
    profile: Profile, selection: Selection, group: FlameGroup, event: str, roles: FlameGroups | None = None
) -> dict[Any, tuple[int, int]]:
    samples = brute.selected(profile, selection, event=event)

    def label(sample: brute.Sample) -> str:
        return roles.labels[roles.thread_groups[sample.thread]] if roles else brute.group_of(profile, sample, group)

    prefix = [() if group is FlameGroup.NONE else (label(s),) for s in samples]
    paths = [(p + tuple(frame[:2] for frame in s.stack), s.weight) for p, s in zip(prefix, samples, strict=True)]
    return brute.weighed(paths)


@settings(max_examples=80)
@given(
    profiles(max_weight=1000),
    profiles(max_weight=1000),
    shared_selections(),
    st.sampled_from(GROUPS),
    st.booleans(),
    st.booleans(),
)
def test_differential_flame_graph(
    base: Profile, other: Profile, selection: Selection, group: FlameGroup, normalise: bool, reverse: bool
) -> None:
    tree = flame_diff(
        base, other, selection, selection, group=group, normalize=normalise, reverse=reverse, order=SiblingOrder.NAME
    )
    check_shape(tree)
    event = other.meta.main_event
    assert event is not None
    shown, beside = (base, other) if reverse else (other, base)
    roles = find_thread_roles(base, other, selection, selection) if group is FlameGroup.COMM else None
    if group is FlameGroup.COMM and roles is None:
        group = FlameGroup.NONE
    of_shown, of_beside = (roles.base, roles.other)[:: 1 if reverse else -1] if roles else (None, None)
    weights = without_kinds(shown, selection, group, event, of_shown)
    before = without_kinds(beside, selection, group, event, of_beside)
    # Labels of groups are texts, and two groups may share one: the first of the other profile's is taken.
    names = [of.labels if of else groups_of_labels(one, group) for one, of in ((shown, of_shown), (beside, of_beside))]
    if any(len(set(n)) != len(n) for n in names):
        return
    paths = [tuple(p if isinstance(p, str) else p[:2] for p in path) for path in paths_of(shown, tree)]
    whole, whole_before = weights[()][1], before[()][1]
    factor = whole / whole_before if normalise and whole and whole_before else 1
    assert len(set(paths)) == len(paths)
    assert tree.base_self is not None and tree.base_total is not None
    found = dict(zip(paths, zip(tree.self_weight.tolist(), tree.total_weight.tolist(), strict=True), strict=True))
    assert found == weights
    for path, own, total in zip(paths, tree.base_self.tolist(), tree.base_total.tolist(), strict=True):
        expected = before.get(path, (0, 0))
        assert own == pytest.approx(expected[0] * factor, abs=0.5001)
        assert total == pytest.approx(expected[1] * factor, abs=0.5001)
    assert tree.base_measured == whole_before
    assert tree.base_weight == round(whole_before * factor)
    assert tree.reversed == reverse


def groups_of_labels(profile: Profile, group: FlameGroup) -> tuple[str, ...]:
    return flame_tree(profile, Selection(), group=group).labels


@settings(max_examples=60)
@given(profiles(max_weight=1000), profiles(max_weight=1000), shared_selections(), st.booleans())
def test_functions_that_differ(base: Profile, other: Profile, selection: Selection, normalise: bool) -> None:
    selection = selection.replace(invert=False, recursion=False)
    with patch(FEW, 4):
        data = diff_functions(base, other, selection, selection, normalize=normalise)
    assert list(data.columns) == [column.name for column in COLUMNS]
    common = [e for e in other.events["name"].to_pylist() if e in base.events["name"].to_pylist()]
    for event in common:
        sides = []
        for profile in (base, other):
            own: dict[Any, int] = defaultdict(int)
            total: dict[Any, int] = defaultdict(int)
            taken: dict[Any, int] = defaultdict(int)
            whole = 0
            for sample in brute.selected(profile, selection, event=event):
                whole += sample.weight
                for name in {frame[:2] for frame in sample.stack}:
                    total[name] += sample.weight
                    taken[name] += 1
                if sample.stack:
                    own[sample.stack[-1][:2]] += sample.weight
            sides.append((own, total, whole, taken))
        (base_own, base_total, base_whole, base_taken), (own, total, whole, taken) = sides
        factor = whole / base_whole if normalise and whole and base_whole else 1
        part = data[data["event"] == event]
        assert len(part) == len({n for n, w in [*base_total.items(), *total.items()] if w})
        for row in part.to_dict("records"):
            key = row["name"], row["module"]
            assert (row["base_self"], row["base_total"]) == (base_own[key], base_total[key])
            assert (row["other_self"], row["other_total"]) == (own[key], total[key])
            for name, before, after in (("self", base_own, own), ("total", base_total, total)):
                assert row[f"delta_{name}"] == pytest.approx(after[key] - before[key] * factor, abs=0.5001)
                assert row[f"base_{name}_percent"] == pytest.approx(100 * before[key] / base_whole if base_whole else 0)
                assert row[f"other_{name}_percent"] == pytest.approx(100 * after[key] / whole if whole else 0)
            expected = status(base_total[key], total[key], row["delta_total"], row["delta_self"])
            # Without times, a row is not known to be one sample.
            known = base.meta.duration_ns is not None and other.meta.duration_ns is not None
            few = known and expected != "same" and max(base_taken[key], taken[key]) < 4
            assert row["status"] == ("few" if few else expected)
            if known:
                assert (row["base_samples"], row["other_samples"]) == (base_taken[key], taken[key])
        assert part["delta_self"].abs().is_monotonic_decreasing


def status(before: int, after: int, delta: int, delta_self: int) -> str:
    if not before or not after:
        return "appeared" if after else "vanished" if before else "same"
    change = delta or delta_self
    return "grew" if change > 0 else "shrank" if change < 0 else "same"


@settings(max_examples=60)
@given(profiles(max_weight=1000), profiles(max_weight=1000), shared_selections())
def test_stacks_that_differ(base: Profile, other: Profile, selection: Selection) -> None:
    selection = selection.replace(invert=False)
    data = diff_functions(base, other, selection, selection, by="stack", normalize=False)
    events = [e for e in other.events["name"].to_pylist() if e in base.events["name"].to_pylist()]
    found: dict[Any, list[tuple[int, ...]]] = defaultdict(list)
    for row in data.to_dict("records"):
        numbers = tuple(row[f"{side}_{name}"] for side in ("base", "other") for name in ("self", "total"))
        found[row["event"], row["name"], row["module"]].append(numbers)
    expected: dict[Any, list[tuple[int, ...]]] = defaultdict(list)
    for event in events:
        before, after = (without_kinds(p, selection, FlameGroup.NONE, event) for p in (base, other))
        for path in {*before, *after} - {()}:
            numbers = (*before.get(path, (0, 0)), *after.get(path, (0, 0)))
            if numbers[0] or numbers[2]:
                expected[event, ";".join(frame[0] for frame in path), path[-1][1]].append(numbers)
    assert {k: sorted(v) for k, v in found.items()} == {k: sorted(v) for k, v in expected.items()}


@patch(FEW, 0)
def test_statuses_and_shares() -> None:
    base = profile_of([("main;old", 10), ("main;same", 20), ("main;more", 10)])
    other = profile_of([("main;new", 20), ("main;same", 40), ("main;more", 60), ("main", 0)])
    data = diff_functions(base, other, Selection(), Selection()).set_index("name")
    # Σ other / Σ base is 3, so "same" lost a third of its share.
    assert data["status"].to_dict() == {
        "old": "vanished",
        "new": "appeared",
        "same": "shrank",
        "more": "grew",
        "main": "same",
    }
    assert data["delta_self"].to_dict() == {"old": -30, "new": 20, "same": -20, "more": 30, "main": 0}
    assert data["delta_self"].sum() == 0
    assert data.loc["more", "delta_self_percent"] == pytest.approx(50 - 25)
    raw = diff_functions(base, other, Selection(), Selection(), normalize=False).set_index("name")
    assert raw.loc["same", "status"] == "grew"
    assert raw.loc["more", "delta_self_percent"] == pytest.approx(100 * 50 / 40)


@patch(FEW, 0)
def test_the_status_is_that_of_the_measure_asked_for() -> None:
    base = profile_of([("main;work;leaf", 50), ("main;work", 10), ("main;rest", 40)])
    other = profile_of([("main;work;leaf", 20), ("main;work", 30), ("main;rest", 30), ("main;new;rest", 20)])
    found = {
        of: diff_functions(base, other, Selection(), Selection(), status_of=of).set_index("name")["status"].to_dict()
        for of in (None, "self", "total")
    }
    # work lost in all and gained itself; new is there, but takes nothing itself.
    assert (found["total"]["work"], found["self"]["work"]) == ("shrank", "grew")
    assert (found["total"]["new"], found["self"]["new"]) == ("appeared", "same")
    assert (found["total"]["main"], found["self"]["main"]) == ("same", "same")
    assert found[None] == found["total"] and found["self"]["rest"] == "grew"
    for by in ("function", "stack"):
        for measure in ("self", "total"):
            data = diff_functions(base, other, Selection(), Selection(), by, status_of=measure)
            ways = dict(zip(("shrank", "same", "grew"), (-1, 0, 1), strict=True))
            for row in data.to_dict("records"):
                sign = (row[f"delta_{measure}"] > 0) - (row[f"delta_{measure}"] < 0)
                assert sign == ways.get(row["status"], 1 if row["status"] == "appeared" else -1), row


def test_a_profile_against_itself_is_all_the_same() -> None:
    profile = profile_of([("a;b;a", 3), ("a;c", 4), ("", 5)])
    for by in ("function", "stack"):
        data = diff_functions(profile, profile, Selection(), Selection(), by)
        assert set(data["status"]) == {"same"}
        assert (data["delta_self"] == 0).all() and (data["delta_total"] == 0).all()
    tree = flame_diff(profile, profile, Selection(), Selection())
    assert tree.base_total is not None
    assert tree.base_total.tolist() == tree.total_weight.tolist()


def test_nothing_in_common_is_said() -> None:
    base, other = profile_of([("a", 1)]), profile_of([("a", 1)], events=(("faults", "count"),))
    for call in (diff_functions, flame_diff):
        with pytest.raises(InvalidRequest, match=r"no event in common.*cycles.*faults"):
            call(base, other, Selection(), Selection())
    data = diff_functions(base, other, Selection(event="cycles"), Selection(event="faults"))
    assert data["event"].tolist() == ["faults"]
    with pytest.raises(InvalidRequest, match="by must be one of"):
        diff_functions(base, base, Selection(), Selection(), by="thread")


@pytest.mark.parametrize("by", ["function", "stack"])
@patch(FEW, 0)
def test_empty_sides(by: str) -> None:
    some, none = profile_of([("a;b", 7)]), profile_of([])
    data = diff_functions(none, some, Selection(), Selection(), by)
    assert set(data["status"]) == {"appeared"}
    assert set(diff_functions(some, none, Selection(), Selection(), by)["status"]) == {"vanished"}
    assert len(diff_functions(none, none, Selection(), Selection(), by)) == 0
    no_events = profile_of([], events=())
    assert len(diff_functions(no_events, some, Selection(), Selection(), by)) == 0
    for base, other in ((none, some), (some, none), (none, none), (no_events, some), (no_events, no_events)):
        for group in FlameGroup:
            wire = build_difference_payload(base, other, Selection(), Selection(), group=group)
            assert len(wire["nodes"]["base_total"]) == len(wire["nodes"]["id"])


def test_reversed_shows_vanished_frames() -> None:
    base, other = profile_of([("main;old", 10), ("main;kept", 10)]), profile_of([("main;kept", 40)])
    wire = build_difference_payload(base, other, Selection(), Selection(), reverse=True, group=FlameGroup.NONE)
    names = [wire["functions"]["name"][f] for f in wire["nodes"]["function"]]
    weights = dict(zip(names, zip(wire["nodes"]["total"], wire["nodes"]["base_total"], strict=True), strict=True))
    assert weights == {"all": (20, 20), "main": (20, 20), "old": (10, 0), "kept": (10, 20)}
    assert wire["base"].items() >= {"total": 20, "measured": 40, "reversed": True}.items()
    evidence = [wire["base"]["evidence"][one] for one in wire["nodes"]["evidence"]]
    # A single sample of "kept" is half of the base.
    assert dict(zip(names, evidence, strict=True))["kept"].startswith("Within the noise")


def sampled(**counts: int) -> Profile:
    """So many samples in each of these functions, all called by main."""
    return profile_of([(f"main;{name}", 1000) for name, count in counts.items() for _ in range(count)])


def test_of_few_samples_nothing_is_said() -> None:
    base = sampled(gone=29, kept=29, enough=30, more=10, same=500)
    other = sampled(new=29, kept=3, enough=10, more=31, same=500, appeared=30)
    for by in ("function", "stack"):
        for of in (None, "self", "total"):
            data = diff_functions(base, other, Selection(), Selection(), by, normalize=False, status_of=of)
            data.index = data["name"].str.removeprefix("main;")
            found = data["status"].drop("main", errors="ignore").to_dict()
            assert found == {
                "gone": "few",
                "new": "few",
                "kept": "few",
                "enough": "shrank",
                "more": "grew",
                "same": "same",
                "appeared": "appeared",
            }
            assert (data.loc["gone", "base_samples"], data.loc["gone", "other_samples"]) == (29, 0)
    tree = flame_diff(base, other, Selection(), Selection(), group=FlameGroup.NONE, normalize=False)
    names = [functions_of(other).name_of(f) if f >= 0 else "" for f in tree.function.tolist()]
    assert tree.evidence is not None
    found = dict(zip(names, map(FrameEvidence, tree.evidence.tolist()), strict=True))
    assert {name for name, one in found.items() if one is FrameEvidence.FEW_SAMPLES} == {"new", "kept"}
    # "same" is equal: no difference that could be noise. All and main have 598 and 603 samples.
    assert {name for name, one in found.items() if one is FrameEvidence.NOISE} == {"", "main"}


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_differences_within_the_noise_of_sampling_are_no_evidence(normalize: bool, reverse: bool) -> None:
    base = sampled(rest=20_000, little=1000, much=1000, gone=200)
    # The standard error of 1,000 samples against as many is 4.5 %: 2.6 of them are 11.5 %.
    other = sampled(rest=20_000, little=1100, much=1150, new=200)
    tree = flame_diff(
        base, other, Selection(), Selection(), group=FlameGroup.NONE, normalize=normalize, reverse=reverse
    )
    shown = base if reverse else other
    names = [functions_of(shown).name_of(f) if f >= 0 else "" for f in tree.function.tolist()]
    assert tree.evidence is not None
    found = {name: FrameEvidence(one) for name, one in zip(names, tree.evidence.tolist(), strict=True)}
    assert found["little"] is FrameEvidence.NOISE and found["much"] is FrameEvidence.FOUND
    assert found["gone" if reverse else "new"] is FrameEvidence.FOUND


def test_unequal_weights_have_more_noise() -> None:
    assert weight_spread(sampled(f=100, g=50), 0) == 1
    unequal = profile_of([("f", 1900), ("g", 100)] * 50)
    assert weight_spread(unequal, 0) == pytest.approx(1.81)


def test_values_without_samples_are_never_marked_as_few() -> None:
    trace = Trace()
    thread = trace.thread(1)
    trace.slice(thread, 0, 100, "once")
    empty = Trace()
    empty.slice(empty.thread(1), 0, 5, "other")
    data = diff_functions(empty.finish(), trace.finish(), Selection(), Selection()).set_index("name")
    assert data["status"].to_dict() == {"once": "appeared", "other": "vanished"}
    assert data["base_samples"].isna().all()


def test_threads_are_grouped_by_role() -> None:
    """Numbers in names do not matter, nor does which thread does what; a name for each thread would divide it all."""
    base, other = (profile_of([("main;f", 99, number), ("main;g", 99, number)]) for number in (1, 2))
    tree = flame_diff(base, other, Selection(), Selection())
    assert tree.group is FlameGroup.COMM and tree.labels == ("all", "thread #", "not sampled")
    assert tree.base_total is not None and tree.base_total.tolist() == tree.total_weight.tolist()
    swapped = flame_diff(base, other, Selection(), Selection(), reverse=True)
    assert swapped.base_total is not None and swapped.base_total.tolist() == swapped.total_weight.tolist()
    # In a window, threads have the role that they have in the whole recording.
    window = Selection(start_ns=1)
    assert flame_diff(base, other, window, window).labels == tree.labels
    assert flame_diff(base, other, Selection(), Selection(), group=FlameGroup.THREAD).group is FlameGroup.THREAD


def test_threads_with_other_roles_do_not_group() -> None:
    def named(*threads: tuple[str, int]) -> Profile:
        builder = ProfileBuilder("test")
        event = builder.intern_event("cycles", "count")
        for number, (name, samples) in enumerate(threads):
            thread = builder.intern_thread(pid=1, tid=1 + number)
            builder.set_thread_name(thread, 0, name)
            for at in range(samples):
                builder.add_sample(at, thread, event, stacked(builder, f"{name};f"), 1)
        return builder.finish()

    base = named(("main", 60), ("log", 40))
    for other, group in (
        (named(("server", 100)), FlameGroup.NONE),
        (named(("main", 40), ("server", 60)), FlameGroup.NONE),
        (named(("main", 60), ("server", 40)), FlameGroup.COMM),
    ):
        assert flame_diff(base, other, Selection(), Selection()).group is group


def test_by_time_is_by_weight() -> None:
    profile = profile_of([("a;b", 3), ("a;c", 4)])
    assert flame_diff(profile, profile, Selection(), Selection(), order=SiblingOrder.TIME).order is SiblingOrder.WEIGHT


def test_new_frames_of_unequal_weights_are_evidence() -> None:
    heavy = [
        (f"main;{name}", 40_000 if number % 20 == 0 else 1000) for name in ("old", "kept") for number in range(1000)
    ]
    light = [(stack.replace("old", "new"), weight) for stack, weight in heavy]
    base, other = profile_of(heavy), profile_of(light)
    assert weight_spread(base, 0) > 8
    for one, two in ((base, other), (other, base)):
        tree = flame_diff(one, two, Selection(), Selection(), group=FlameGroup.NONE)
        names = [functions_of(two).name_of(f) if f >= 0 else "" for f in tree.function.tolist()]
        assert tree.evidence is not None
        assert set(zip(names, tree.evidence.tolist(), strict=True)) >= {("kept", 0), ("", 0), ("main", 0)}
        assert [one for name, one in zip(names, tree.evidence.tolist(), strict=True) if name in ("old", "new")] == [0]


@pytest.mark.parametrize(("one", "two"), [(49_999, 50_001), (50_001, 49_999), (3, 7)])
def test_what_is_all_of_both_is_no_difference(one: int, two: int) -> None:
    for reverse in (False, True):
        sides = (profile_of([("main", one), ("main", one)]), profile_of([("main", two), ("main", two)]))
        tree = flame_diff(*sides, Selection(), Selection(), group=FlameGroup.NONE, reverse=reverse)
        assert tree.evidence is not None and FrameEvidence.NOISE not in tree.evidence.tolist()
