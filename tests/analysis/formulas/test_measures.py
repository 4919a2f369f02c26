"""Formulas instead of events: in every table, a formula is that of the sums of its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.analysis.compare.counts import diff_counts
from perfloom.analysis.compare.functions import UNDEFINED, diff_functions
from perfloom.analysis.core.sample_selection import event_names
from perfloom.analysis.counts.formula_values import compute_formulas
from perfloom.analysis.counts.thread_tree import build_thread_tree
from perfloom.analysis.formulas.additional import set_additional_formulas
from perfloom.analysis.formulas.evaluation import evaluate
from perfloom.analysis.formulas.measures import find_formula
from perfloom.analysis.formulas.resolution import NOT_TOGETHER, OTHER_PLACES, resolve_formulas
from perfloom.analysis.tables import TABLES, table_rows
from perfloom.analysis.timeline.formula_curves import compute_formula_curve, list_curve_formulas
from perfloom.analysis.timeline.model import open_timeline, prepare_timeline
from perfloom.analysis.timeline.series import load_formula_curve
from perfloom.analysis.timeline.tracks import list_tracks, time_extent
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.formulas.formula import Formula, parse_formula
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from tests.analysis.stacks.test_flamegraph import selections
from tests.support.profiles import profile_of, profiles

KEYS = {
    "hotspots": ("name", "module"),
    "tree": ("path",),
    "counts": ("host", "rank", "pid", "tid", "process", "thread", "run"),
    "count-shares": ("participant",),
    "threads": ("host", "rank", "pid", "tid", "process", "name", "run"),
    "ranks": ("host", "rank", "run"),
    "matrix": ("name", "module", "state"),
    "matrix-cells": ("name", "module", "state", "group"),
}
"""What identifies a row of each table and event."""
VALUES = {"hotspots": ("self", "total"), "tree": ("self", "total")}
"""The columns with values; of other tables `value`."""
WHOLE = ("counts", "count-shares", "threads", "ranks", "matrix", "matrix-cells")
"""The tables whose rows are parts of the selection."""


@pytest.fixture(autouse=True)
def built_in_only() -> Iterator[None]:
    yield
    set_additional_formulas(())


def sampled(**weights: int) -> Profile:
    """In `slow` 400 cycles for 100 instructions, in `fast` 100 for 200 and 50 for none on another thread."""
    rows = [
        ("main;slow", weights.get("slow", 400), 0, 1_000, 0),
        ("main;slow", 100, 0, 2_000, 1),
        ("main;fast", 100, 0, 3_000, 0),
        ("main;fast", 200, 0, 4_000, 1),
        ("main;fast", 50, 1, 5_000, 0),
    ]
    return profile_of(rows, events=(("cycles:u", "count"), ("instructions:u", "count")))


def rows_of(profile: Profile, selection: Selection, table: str, event: str) -> list[dict[str, Any]]:
    rows = TABLES[table].rows(profile, selection.replace(event=event)).records()
    path: list[Any] = []
    for row in rows:
        if table == "tree":
            path = [*path[: row["depth"] - 1], (row["name"], row["module"], row["kind"])]
            row["path"] = tuple(path)
    return rows


def sums_of(profile: Profile, selection: Selection, table: str, event: str, column: str) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row in rows_of(profile, selection, table, event):
        found[tuple(row[name] for name in KEYS[table])] += row[column] or 0
    return found


def ratio(first: float, second: float) -> float | None:
    return first / second * 100 + 1 if second else None


@given(profiles(max_weight=1 << 40), st.data(), st.sampled_from(sorted(KEYS)))
def test_a_formula_is_that_of_the_sums_of_its_events(profile: Profile, data: st.DataObject, table: str) -> None:
    names = event_names(profile)
    first, second = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    set_additional_formulas([Formula("ratio", f"'{first}' / '{second}' * 100 + 1", "x")])
    selection = data.draw(selections(profile))
    rows = rows_of(profile, selection, table, "ratio")
    keys = Counter(tuple(row[name] for name in KEYS[table]) for row in rows)
    for column in VALUES.get(table, ("value",)):
        one, two = (sums_of(profile, selection, table, event, column) for event in (first, second))
        for row in rows:
            key = tuple(row[name] for name in KEYS[table])
            assert (row["event"], row["unit"]) == ("ratio", "x")
            expected = ratio(one[key], two[key])
            if keys[key] == 1:
                assert row[column] == (None if expected is None else pytest.approx(expected, rel=1e-9))
        # No row with a value is left out; a tree is that of the first event.
        if table == "count-shares":
            assert {key for key in one | two if two[key]} <= keys.keys()
        elif table != "tree":
            assert {key for key in one | two if one[key] or two[key]} <= keys.keys()
        if table in WHOLE:
            whole = compute_formulas.rows(profile, selection).records()
            total = next(row["total"] for row in whole if row["formula"] == "ratio")
            expected = ratio(sum(one.values()), sum(two.values()))
            assert total == (None if expected is None else pytest.approx(expected, rel=1e-9))


def test_nodes_of_the_thread_tree_are_formulas_of_their_sums() -> None:
    nodes = build_thread_tree(sampled(), Selection(event="CPI"), 0)
    assert [(node.level, node.value) for node in nodes] == [
        ("process", 550 / 300),
        ("thread", 500 / 300),
        ("thread", None),
    ]


def test_a_formula_has_no_shares() -> None:
    for table, columns in {
        "hotspots": ("self_percent", "total_percent"),
        "tree": ("self_percent", "total_percent"),
        "threads": ("percent",),
        "ranks": ("percent", "of_mean"),
        "count-shares": ("percent", "reference_percent", "total_per_s"),
        "matrix": ("percent", "mean", "imbalance_percent"),
        "matrix-cells": ("percent",),
    }.items():
        rows = table_rows(TABLES[table], sampled(), Selection(event="CPI")).records()
        assert rows and all(row[column] is None for row in rows for column in columns), table


def test_tables_without_formulas_name_the_events() -> None:
    with pytest.raises(InvalidRequest, match=r"CPI is a formula.*cycles:u, instructions:u"):
        table_rows(TABLES["heatmap"], sampled(), Selection(event="CPI"))


def test_an_event_comes_before_a_formula_of_its_name() -> None:
    profile = profile_of([("a", 1, 0, 1, 0), ("a", 2, 0, 2, 1)], events=(("cycles", "count"), ("CPI", "count")))
    set_additional_formulas([Formula("CPI", "cycles * 2")])
    assert find_formula(profile, "CPI") is None
    assert TABLES["counts"].rows(profile, Selection(event="CPI")).column("value") == [2]


def test_another_formula_of_a_name_is_not_from_the_cache() -> None:
    profile = sampled()
    for factor in (2, 3):
        set_additional_formulas([Formula("x", f"cycles * {factor}")])
        for table in ("hotspots", "tree", "threads", "matrix"):
            values = [row.get("total", row.get("value")) for row in rows_of(profile, Selection(), table, "x")]
            assert factor * 400 in values or factor * 500 in values, table


def counted(*rows: tuple[str, float, int | None, int]) -> Profile:
    """A profile with counts: (event, value, rank, run)."""
    builder = ProfileBuilder("perf-stat")
    for run in range(max(run for *_, run in rows) + 1):
        builder.add_run(command=f"run {run}")
    for name, value, rank, run in rows:
        event = builder.intern_event(name, "count")
        builder.add_count(run=run, thread=-1, cpu=-1, event=event, value=value, status="ok", rank=rank)
    return builder.finish()


def test_counts_of_other_places_have_a_note() -> None:
    apart = counted(("cycles", 4, 0, 0), ("instructions", 2, 1, 0))
    [note] = {one.note for one in resolve_formulas(apart)}
    assert note == OTHER_PLACES
    together = counted(("cycles", 4, 0, 0), ("instructions", 2, 0, 0), ("cycles", 4, 1, 0), ("instructions", 2, 1, 0))
    assert {one.note for one in resolve_formulas(together)} == {None}


def test_parts_of_different_runs_have_one_row() -> None:
    profile = counted(("cycles", 4, None, 0), ("instructions", 2, None, 1))
    assert {one.note for one in resolve_formulas(profile)} == {NOT_TOGETHER}
    for table in ("counts", "threads", "ranks"):
        [row] = TABLES[table].rows(profile, Selection(event="CPI")).records()
        assert row["value"] == 2, table


def test_curves_are_formulas_of_the_sums_of_each_part() -> None:
    profile = sampled()
    set_additional_formulas(
        [Formula("all", "cycles + 2 * instructions"), Formula("none", "cycles / (cycles - cycles)")]
    )
    timeline = open_timeline(profile, prepare_timeline(profile))
    extent = time_extent(profile, timeline)
    every, none = list_curve_formulas(profile)[:2]
    curve = compute_formula_curve(profile, timeline, Selection(), every, extent)
    assert curve.values.sum() == pytest.approx(550 + 2 * 300, rel=1e-6)
    assert np.isnan(compute_formula_curve(profile, timeline, Selection(), none, extent).values).all()
    shown = load_formula_curve(profile, timeline, Selection(), every, extent.first_ns, extent.last_ns + 1)
    assert len(shown.at) == len(curve.values)
    names = [track.name for track in list_tracks(profile, timeline, Selection())[0]]
    # A curve without a value is left out.
    assert "all" in names and "CPI" in names and "none" not in names


def test_comparison_of_functions() -> None:
    rows = diff_functions.rows(sampled(), sampled(slow=500), Selection(event="CPI"), Selection(event="CPI")).records()
    found = {row["name"]: (row["base_self"], row["other_self"], row["delta_self"], row["ratio_self"]) for row in rows}
    assert found == {"slow": (4, 5, 1, 1.25), "fast": (0.75, 0.75, 0, 1), "main": (None, None, None, None)}
    assert next(row["name"] for row in rows) == "slow"
    assert all(row["base_self_percent"] is None for row in rows)
    assert {row["delta_self_percent"] for row in rows} == {25, 0, None}
    by_stack = diff_functions.rows(
        sampled(), sampled(slow=500), Selection(event="CPI"), Selection(event="CPI"), by="stack"
    ).records()
    assert {row["name"]: row["ratio_self"] for row in by_stack} == {"main;slow": 1.25, "main;fast": 1}


def test_a_formula_without_a_value_on_one_side_is_undefined() -> None:
    many = [("a", 10, 0, n, n % 2) for n in range(100)]
    events = (("cycles", "count"), ("instructions", "count"))
    base, other = (
        profile_of(many, events=events),
        profile_of([row for row in many if not row[4]] + [("b", 1, 0, 200, 1)], events=events),
    )
    rows = diff_functions.rows(base, other, Selection(event="CPI"), Selection(event="CPI")).records()
    # In `a`, the other has no instructions.
    assert {row["name"]: row["status"] for row in rows}["a"] in (UNDEFINED, "few")
    assert next(row["delta_self"] for row in rows if row["name"] == "a") is None


@given(profiles(), st.data())
def test_comparison_is_the_formula_of_the_compared_sums(profile: Profile, data: st.DataObject) -> None:
    names = event_names(profile)
    first, second = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    set_additional_formulas([Formula("ratio", f"'{first}' / '{second}' * 100 + 1")])
    selection = data.draw(selections(profile))

    def compare(event: str) -> dict[Any, dict[str, Any]]:
        one = selection.replace(event=event)
        rows = diff_functions.rows(profile, profile, one, one, normalize=False).records()
        return {(row["name"], row["module"]): row for row in rows}

    parts = compare(first), compare(second)
    for key, row in compare("ratio").items():
        for column in ("base_self", "other_self", "base_total", "other_total"):
            value = ratio(*(part[key][column] if key in part else 0 for part in parts))
            assert row[column] == (None if value is None else pytest.approx(value, rel=1e-9))


def test_comparison_of_counts_has_formulas() -> None:
    base, other = (counted(("cycles", cycles, None, 0), ("instructions", 2, None, 0)) for cycles in (4, 5))
    rows = {row["event"]: row for row in diff_counts.rows(base, other, Selection(), Selection()).records()}
    assert list(rows) == ["cycles", "instructions", "IPC", "CPI"]
    cpi = rows["CPI"]
    assert (cpi["base"], cpi["other"], cpi["delta"], cpi["ratio"], cpi["status"]) == (2, 2.5, 0.5, 1.25, "grew")
    only = Selection(event="CPI")
    assert [row["event"] for row in diff_counts.rows(base, other, only, only).records()] == ["CPI"]


def test_comparison_of_counts_of_several_runs_is_of_their_means() -> None:
    base = counted(
        ("cycles", 4, None, 0), ("cycles", 6, None, 1), ("instructions", 2, None, 0), ("instructions", 3, None, 1)
    )
    other = counted(("cycles", 6, None, 0), ("instructions", 2, None, 0))
    rows = {row["event"]: row for row in diff_counts.rows(base, other, Selection(), Selection()).records()}
    assert (rows["CPI"]["base"], rows["CPI"]["other"]) == (2, 3)


def test_a_formula_that_only_one_side_has_is_refused() -> None:
    other = profile_of([("a", 1, 0, 1, 0)], events=(("cycles", "count"),))
    with pytest.raises(InvalidRequest, match="The other does not have the events of the formula CPI"):
        diff_functions.rows(sampled(), other, Selection(event="CPI"), Selection(event="CPI"))


def test_a_quotient_by_zero_is_missing_inside_a_formula() -> None:
    steps = parse_formula("1 / (a / b)")
    found = evaluate(steps, {"a": np.array([1.0, 1.0]), "b": np.array([0.0, 2.0])})
    assert np.isnan(found[0]) and found[1] == 2


def test_own_formulas_on_formulas_come_before_built_in_ones() -> None:
    """Both where it is shown and where another formula names it."""
    set_additional_formulas(
        (
            Formula("check", "IPC + 0"),
            Formula("IPC", "twice + 0"),
            Formula("twice", "instructions * 2 / cycles"),
        )
    )
    profile = counted(("cycles", 100.0, None, 0), ("instructions", 150.0, None, 0))
    rows = {row["formula"]: row["total"] for row in compute_formulas.rows(profile, Selection()).records()}
    assert (rows["twice"], rows["IPC"], rows["check"]) == (3, 3, 3)
