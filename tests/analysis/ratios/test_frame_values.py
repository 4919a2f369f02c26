"""The values of frames, against formulas of sums over single samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core.flame_groups import FlameGroup
from perfloom.analysis.core.sample_selection import event_names
from perfloom.analysis.ratios.color_scale import build_scale
from perfloom.analysis.ratios.frame_values import PARTS, add_sandwich_values, add_values, scale_of
from perfloom.analysis.ratios.metrics import default_metric, has_ratios, list_formula_names, list_pairs, resolve_metric
from perfloom.analysis.stacks.flamegraph import SiblingOrder, flame_tree, sandwich
from perfloom.domain.formulas.formula import FormulaError
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from tests.analysis import brute
from tests.analysis.stacks.test_flamegraph import GROUPS, paths_of, selections
from tests.support.profiles import profile_of, profiles

EVENTS = (("cycles", "count"), ("instructions", "count"))


def two_functions() -> Profile:
    """In `slow` 400 cycles for 100 instructions, in `fast` 100 for 200, in `idle` 30 cycles."""
    return profile_of(
        [
            ("main;slow", 400, 0, 1, 0),
            ("main;slow", 100, 0, 2, 1),
            ("main;fast", 100, 1, 3, 0),
            ("main;fast", 200, 1, 4, 1),
            ("main;idle", 30, 1, 5, 0),
        ],
        events=EVENTS,
    )


def weighed(profile: Profile, selection: Selection, event: str, group: FlameGroup) -> Mapping[Any, tuple[int, int]]:
    """(self, total) of an event by path, sample by sample."""
    samples = brute.selected(profile, selection, event=event)
    group = brute.split_by(profile, group)
    prefix = [() if group is FlameGroup.NONE else (brute.group_of(profile, s, group),) for s in samples]
    return brute.weighed([(p + s.stack, s.weight) for p, s in zip(prefix, samples, strict=True)])


def ratio(first: int, second: int) -> float:
    return first / second * 100 + 1 if second else math.nan


@pytest.mark.slow
@settings(max_examples=150)
@given(st.data(), profiles(max_weight=1 << 40), st.sampled_from(GROUPS), st.sampled_from(PARTS))
def test_the_value_of_a_frame_is_the_formula_of_its_sums(
    data: st.DataObject, profile: Profile, group: FlameGroup, part: str
) -> None:
    names = event_names(profile)
    first, second = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    metric = resolve_metric(profile, f"'{first}' / '{second}' * 100 + 1")
    selection = data.draw(selections(profile))
    tree = flame_tree(profile, selection, group=group)
    if len(tree.id) > 1 and data.draw(st.booleans()):
        zoom = int(data.draw(st.sampled_from(tree.id.tolist())))
        tree = flame_tree(profile, selection, group=group, zoom=zoom, min_share=0.2)
    found = add_values(tree, profile, selection, metric, part).values
    assert found is not None and found.part == part
    sums = [weighed(profile, selection, event, group) for event in (first, second)]
    which = PARTS[::-1].index(part)
    expected = [
        ratio(*(of.get(path, (0, 0))[which] for of in sums)) if path or part == "total" else math.nan
        for path in paths_of(profile, tree)
    ]
    rows = slice(None) if part == "total" else slice(1, None)
    np.testing.assert_allclose(found.value[rows], expected[rows], rtol=1e-12)
    whole = ratio(*(of.get((), (0, 0))[1] for of in sums))
    np.testing.assert_allclose(found.mean if len(tree.id) else math.nan, whole, rtol=1e-12)
    places = found.place[np.isfinite(found.value) & math.isfinite(whole)]
    assert (np.abs(places) <= 1).all() and np.isfinite(places).all()


@settings(max_examples=40)
@given(st.data(), profiles(max_weight=1 << 40))
def test_callers_and_callees_of_a_function(data: st.DataObject, profile: Profile) -> None:
    """The value of the first frame of both is that of the function."""
    names = event_names(profile)
    first, second = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    metric = resolve_metric(profile, f"'{first}' / '{second}' * 100 + 1")
    selection = data.draw(selections(profile)).replace(invert=False)
    called = sorted({frame[0] for sample in brute.selected(profile, selection) for frame in sample.stack if frame[0]})
    if not called:
        return
    function = data.draw(st.sampled_from(called))
    trees = sandwich(profile, selection, function)
    sums = [
        sum(
            sample.weight
            for sample in brute.selected(profile, selection, event=event)
            if any(frame[0] == function for frame in sample.stack)
        )
        for event in (first, second)
    ]
    for tree in add_sandwich_values(trees, profile, selection, function, metric, "total"):
        assert tree.values is not None
        np.testing.assert_allclose(tree.values.value[0], ratio(*sums), rtol=1e-12)


def test_colors_are_around_the_formula_of_the_whole() -> None:
    profile = two_functions()
    metric = resolve_metric(profile, "CPI")
    tree = add_values(flame_tree(profile, Selection(), order=SiblingOrder.NAME), profile, Selection(), metric, "total")
    values = tree.values
    assert values is not None and values.is_log and values.unit == "" and values.expression == "cycles / instructions"
    assert values.mean == 530 / 300
    found = dict(zip([path[-1] if path else None for path in paths_of(profile, tree)], values.value, strict=True))
    assert found["slow", "app", 0] == 4 and found["fast", "app", 0] == 0.5 and math.isnan(found["idle", "app", 0])
    # fast is 3.53 times below the mean.
    assert (values.low, values.high) == (values.mean / 5, values.mean * 5)
    assert values.place[0] == 0
    assert np.isnan(values.place[np.isnan(values.value)]).all()


def test_scales_are_symmetric_round_and_ignore_light_functions() -> None:
    value, weight = np.array([2.0, 8.0, 1000.0, 0.0, np.nan]), np.array([50, 50, 0.5, 20, 20])
    scale = build_scale(4.0, value, weight, 100)
    assert (scale.low, scale.high, scale.is_log) == (2.0, 8.0, True)
    np.testing.assert_allclose(scale.place(value), [-1, 1, 1, -1, np.nan])
    np.testing.assert_allclose(scale.place(np.array([4.0, 4 * math.sqrt(2)])), [0, 0.5])
    # A difference can be negative: linear.
    scale = build_scale(1.0, np.array([-2.0, 2.5]), np.array([50, 50]), 100)
    assert (scale.low, scale.high, scale.is_log) == (-4.0, 6.0, False)
    np.testing.assert_allclose(scale.place(np.array([-4.0, 1.0, 3.5, 99])), [-1, 0, 0.5, 1])
    # Equal values have a scale, too.
    assert build_scale(3.0, np.array([3.0]), np.array([1]), 1).high > 3.0
    assert build_scale(0.0, np.array([0.0]), np.array([1]), 1).high > 0.0
    scale = build_scale(math.nan, value, weight, 100)
    assert np.isnan(scale.place(value)).all() and math.isnan(scale.low)


def test_metrics_are_events_formulas_and_expressions() -> None:
    profile = two_functions()
    assert has_ratios(profile) and list_formula_names(profile) == ["IPC", "CPI"] and default_metric(profile) == "IPC"
    assert list_pairs(profile) == ["cycles / instructions", "instructions / cycles"]
    assert (
        resolve_metric(profile, "cycles").is_event and resolve_metric(profile, "cycles").format(12_345.0) == "12.3\xa0k"
    )
    assert resolve_metric(profile, "IPC").format(0.123456) == "0.1235"
    assert resolve_metric(profile, "cycles / instructions * 100").events == (0, 1)
    with pytest.raises(FormulaError, match="was not measured"):
        resolve_metric(profile, "LLC-loads / cycles")
    names = ("a b", "it's", "\"both'", "cycles")
    odd = profile_of([("main", 1, 0, at, at) for at in range(4)], events=[(name, "count") for name in names])
    assert "'a b' / \"it's\"" in list_pairs(odd) and not any("both" in pair for pair in list_pairs(odd))
    assert resolve_metric(odd, "\"both'").is_event
    for pair in list_pairs(odd):
        assert len(resolve_metric(odd, pair).events) == 2
    assert not has_ratios(profile_of([("main", 1)], events=EVENTS)), "instructions has no samples"


def test_samples_that_give_no_sums_have_no_values() -> None:
    from perfloom.domain.builder import ProfileBuilder

    builder = ProfileBuilder("perf-script")
    thread = builder.intern_thread(pid=1, tid=1)
    faults = builder.intern_event("page-faults", "count", sampling="frequency", rate=99.0)
    clock = builder.intern_event("cpu-clock", "ns")
    for at in range(4):
        builder.add_sample(at, thread, (faults, clock)[at % 2], 0, 1 + at)
    profile = builder.finish()
    metric = resolve_metric(profile, "page-faults / cpu-clock")
    assert metric.unknown and "page-faults: sampled, not counted" in metric.note
    tree = add_values(flame_tree(profile, Selection()), profile, Selection(), metric, "total")
    assert tree.values is not None and np.isnan(tree.values.value).all() and np.isnan(tree.values.place).all()
    assert math.isnan(scale_of(profile, Selection(), metric, "total").mean)


@pytest.mark.parametrize("mean", [0.0, 5e-324, -1e-323, 1e308, -1e308, -1.7e308, 1.7e308])
@pytest.mark.parametrize("value", [0.0, 5e-324, 1e308, -1.7e308, 1.0])
def test_scale_of_extreme_values_is_finite(mean: float, value: float) -> None:
    scale = build_scale(mean, np.array([value]), np.array([1]), 1)
    assert np.isfinite([scale.low, scale.high]).all() and scale.low <= scale.high
    # The smallest numbers leave no room for a scale.
    assert scale.low == scale.high or -1 <= scale.place(np.array([value]))[0] <= 1
