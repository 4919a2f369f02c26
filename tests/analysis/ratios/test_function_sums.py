"""Sums by function and place, dots and the table, against single samples."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core.flame_groups import FlameGroup, groups_of
from perfloom.analysis.core.patterns import compile_pattern
from perfloom.analysis.core.sample_selection import event_names
from perfloom.analysis.core.schema import records
from perfloom.analysis.ratios.function_sums import BY, sum_functions, sum_places
from perfloom.analysis.ratios.metrics import resolve_metric
from perfloom.analysis.ratios.rows import compute_ratios
from perfloom.analysis.ratios.scatter import Box, ScatterSpec, build_scatter, focus_pattern
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from tests.analysis import brute
from tests.analysis.ratios.test_frame_values import two_functions
from tests.analysis.stacks.test_flamegraph import selections
from tests.support.profiles import profile_of, profiles

Sums = dict[Any, tuple[float, ...]]


def expected(profile: Profile, selection: Selection, events: list[str], by: str) -> Sums:
    """(self of each event, total of each event) by function and place."""
    groups = None if by == BY[0] else groups_of(profile, FlameGroup(by))
    found: Counter[Any] = Counter()
    keys = set()
    for number, event in enumerate(events):
        for sample in brute.selected(profile, selection, event=event):
            place = groups.labels[int(groups.thread_groups[sample.thread])] if groups else None
            for frame in {frame[:2] for frame in sample.stack}:
                keys.add((*frame, place))
                found[(*frame, place), "total", number] += sample.weight
            if sample.stack:
                found[(*sample.stack[-1][:2], place), "self", number] += sample.weight
    sums = {key: tuple(found[key, part, n] for part in ("self", "total") for n in range(len(events))) for key in keys}
    return {key: values for key, values in sums.items() if any(values)}


@settings(max_examples=80)
@given(st.data(), profiles(max_weight=1 << 40), st.sampled_from(BY))
def test_sums_are_those_of_samples(data: st.DataObject, profile: Profile, by: str) -> None:
    names = event_names(profile)
    events = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    selection = data.draw(selections(profile)).replace(event=None, invert=False, recursion=False)
    rows = [names.index(event) for event in events]
    sums = sum_functions(profile, selection, rows) if by == BY[0] else sum_places(profile, selection, rows, by)
    columns = [of[row].tolist() for of in (sums.own, sums.total) for row in rows]
    found = dict(zip(zip(*sums.names(profile), strict=True), zip(*columns, strict=True), strict=True))
    assert found == expected(profile, selection, events, by) and sums.left_out == 0
    firsts = sums.total[rows[0]]
    assert (np.diff(firsts) <= 0).all()
    if by != BY[0] and found:
        fewer = sum_places(profile, selection, rows, by, "self", 1)
        assert len(np.unique(fewer.function)) == 1
        assert fewer.left_out == len({key[:2] for key in found}) - 1
        columns = [of[row].tolist() for of in (fewer.own, fewer.total) for row in rows]
        some = dict(zip(zip(*fewer.names(profile), strict=True), zip(*columns, strict=True), strict=True))
        assert some.items() <= found.items()


def ranks() -> Profile:
    """Function `work` with 100 instructions on each of two threads: 100 cycles on one, 300 on the other; `rest` only
    on the second."""
    return profile_of(
        [
            ("main;work", 100, 0, 1, 0),
            ("main;work", 100, 0, 2, 1),
            ("main;work", 300, 1, 3, 0),
            ("main;work", 100, 1, 4, 1),
            ("main;rest", 50, 1, 5, 0),
            ("main;rest", 10, 1, 6, 1),
        ],
        events=(("cycles", "count"), ("instructions", "count")),
    )


def dots(profile: Profile, spec: ScatterSpec) -> dict[Any, tuple[float, float]]:
    found = build_scatter(profile, Selection(), spec, spec.y)
    names, _, places = found.sums.names(profile)
    return dict(zip(zip(names, places, strict=True), zip(found.x.tolist(), found.y.tolist(), strict=True), strict=True))


def test_dots_have_two_metrics_and_say_what_is_not_drawn() -> None:
    profile = two_functions()
    x, y = resolve_metric(profile, "instructions"), resolve_metric(profile, "CPI")
    found = build_scatter(profile, Selection(), ScatterSpec(x, y), resolve_metric(profile, "IPC"))
    names, _, places = found.sums.names(profile)
    assert names == ["main", "slow", "fast", "idle"] and places == [None] * 4
    assert found.x.tolist() == [300, 100, 200, 0] and found.y[:3].tolist() == [530 / 300, 4, 0.5]
    assert found.value[1] == 0.25 and found.weight.tolist() == [530, 400, 100, 30]
    # idle has no instructions: neither on a logarithmic axis nor as a divisor.
    assert found.on_axes.tolist() == [True, True, True, False] == found.drawn.tolist()
    box = Box((100, 200), (None, None))
    assert bool(box) and found.inside(box).tolist() == [False, True, True, False]
    assert found.inside(Box((None, None), (3, 4))).tolist() == [False, True, False, False]
    assert not Box((None, None), (None, None))
    part = build_scatter(profile, Selection(), ScatterSpec(x, x, part="self", scales=("linear", "linear")), y)
    assert dict(zip(part.sums.names(profile)[0], part.x, strict=True))["main"] == 0 and part.on_axes.all()


def test_differences_from_a_reference() -> None:
    profile = ranks()
    x, y = resolve_metric(profile, "cycles"), resolve_metric(profile, "CPI")
    one, two = "thread 0 100", "thread 1 101"
    both = dots(profile, ScatterSpec(x, y, "thread"))
    assert both["work", one] == (100, 1) and both["work", two] == (300, 3) and both["rest", two] == (50, 5)
    relative = dots(profile, ScatterSpec(x, y, "thread", reference=one))
    # On the logarithmic axis a quotient, on the linear one a difference; rest is not at the reference.
    assert relative["work", two] == (3, 2) and ("work", one) not in relative
    assert all(map(math.isnan, relative["rest", two]))
    for spec in (ScatterSpec(x, y, "thread", reference="no"), ScatterSpec(x, y, reference=one)):
        with pytest.raises(InvalidRequest, match="reference"):
            build_scatter(profile, Selection(), spec, y)


def test_the_pattern_matches_the_functions_alone() -> None:
    names = [
        "f(int)",
        "a.b",
        "operator|",
        "{[^$\\x*+?]}",
        "two\nlines",
        *(f"function_{number}" for number in range(300)),
    ]
    profile = profile_of([(name, 1) for name in names])
    rows = sum_functions(profile, Selection(), [0]).function
    pattern, count = focus_pattern(profile, rows[:5])
    expression = compile_pattern(pattern, "focus")
    assert count == 5 and [name for name in (*names, "axb", "g(int)") if expression.search(name)] == names[:5]
    pattern, count = focus_pattern(profile, rows)
    assert len(pattern) <= 2_000 and 100 < count < 300
    Selection.from_query({"focus": [pattern]})
    assert focus_pattern(profile, rows[:0]) == ("", 0)


def test_the_table_has_all_formulas_by_function_and_place() -> None:
    profile = ranks()
    rows = records(compute_ratios.rows(profile, Selection(), "function"))
    assert [(row["formula"], row["name"], row["total"]) for row in rows if row["formula"] == "CPI"] == [
        ("CPI", "main", 450 / 210),
        ("CPI", "work", 2),
        ("CPI", "rest", 5),
    ]
    assert rows[0]["self"] is None and rows[0]["mean"] == 210 / 450 and rows[0]["event"] == "instructions"
    by_thread = records(compute_ratios.rows(profile, Selection(), "thread"))
    assert {(row["place"], row["total"]) for row in by_thread if (row["formula"], row["name"]) == ("CPI", "work")} == {
        ("thread 0 100", 1),
        ("thread 1 101", 3),
    }
    with pytest.raises(InvalidRequest, match="by must be one of"):
        compute_ratios.rows(profile, Selection(), "module")
    assert not len(compute_ratios.rows(profile_of([("main", 1)]), Selection()))
    pairs = profile_of([("main", 3, 0, 1, 0), ("main", 4, 0, 2, 1)], events=(("one", "count"), ("two", "count")))
    assert [row["formula"] for row in records(compute_ratios.rows(pairs, Selection()))] == ["one / two", "two / one"]
