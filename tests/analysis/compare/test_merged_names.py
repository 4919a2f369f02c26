"""Comparisons of two builds under rules for names."""

from __future__ import annotations

import pytest

from perfloom.analysis.compare.functions import diff_functions
from perfloom.analysis.compare.merged_names import (
    describe_merged_names,
    list_merged_names,
    merge_names,
    parse_name_rules,
)
from perfloom.analysis.compare.verdicts import MOVED, compare_runs
from perfloom.analysis.core.sample_selection import samples_of
from perfloom.analysis.stacks.hotspots import compute_hotspots
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection


def build(*stacks: tuple[str, int], module: str = "/opt/v1/solver") -> Profile:
    builder = ProfileBuilder("collapsed")
    thread, event = builder.intern_thread(pid=1, tid=1), builder.intern_event("cycles", "count")
    for time, (stack, weight) in enumerate(stacks):
        frames = [
            builder.intern_frame(builder.intern_function(name, module), address=None) for name in stack.split(";")
        ]
        builder.add_sample(time, thread, event, builder.intern_stack(frames), weight)
    return builder.finish()


BASE = build(("main;work.isra.0;step", 40), ("main;work.isra.0.cold", 10), ("main;rest", 50))
OTHER = build(("main;work.constprop.1;step", 60), ("main;rest", 50), module="/opt/v2/solver")
RULES = parse_name_rules(["builds"])


def test_functions_of_two_builds_are_the_same() -> None:
    apart = diff_functions.rows(BASE, OTHER, Selection(), Selection()).records()
    assert {row["status"] for row in apart} <= {"appeared", "vanished", "few"}
    one, two = merge_names(BASE, RULES), merge_names(OTHER, RULES)
    rows = {
        row["name"]: row for row in diff_functions.rows(one, two, Selection(), Selection(), normalize=False).records()
    }
    assert set(rows) == {"main", "work", "step", "rest"}
    assert (rows["work"]["base_self"], rows["work"]["base_total"], rows["work"]["other_total"]) == (10, 50, 60)
    assert rows["rest"]["module"] == "solver" and rows["rest"]["delta_self"] == 0
    stacks = diff_functions.rows(one, two, Selection(), Selection(), by="stack").records()
    assert {row["name"] for row in stacks} == {"main;work;step", "main;work", "main;rest"}


def test_sums_stay_and_rows_keep_their_numbers() -> None:
    merged = merge_names(BASE, RULES)
    assert merged.functions.num_rows == BASE.functions.num_rows
    assert samples_of(merged).weight.sum() == samples_of(BASE).weight.sum()
    assert sum(row["self"] for row in compute_hotspots.rows(merged, Selection()).records()) == 100
    assert merge_names(BASE, RULES) is merged and merge_names(BASE, ()) is BASE
    assert BASE.functions.column("module").to_pylist()[0] == "/opt/v1/solver"


def test_verdicts_apply_to_merged_names() -> None:
    sides = [[merge_names(one, RULES)] for one in (BASE, OTHER)]
    rows = compare_runs(*sides, Selection(), Selection(), as_shares=False).rows.records()
    assert {row["name"] for row in rows} == {"main", "work", "step", "rest"}


def test_modules_of_another_directory_are_named() -> None:
    same = build(("main;work", 40), ("main;rest", 50))
    moved = build(("main;work", 60), ("main;rest", 50), module="/opt/v2/solver")
    found = compare_runs([same], [moved], Selection(), Selection(), as_shares=False)
    assert found.sentence().endswith(MOVED.text)
    sides = [[merge_names(one, RULES)] for one in (same, moved)]
    assert MOVED not in compare_runs(*sides, Selection(), Selection(), as_shares=False).notes
    assert MOVED not in compare_runs([same], [same], Selection(), Selection(), as_shares=False).notes


def test_what_was_merged_is_listed() -> None:
    merged = list_merged_names((BASE, OTHER), RULES)
    (work,) = [one for one in merged if one.name == "work"]
    assert len(work.originals) == 3 and "work.isra.0.cold in /opt/v1/solver" in work.originals
    assert describe_merged_names(merged, RULES).endswith(f"{sum(len(one.originals) for one in merged)} names are 4.")
    clones = parse_name_rules(["clones"])
    (only,) = list_merged_names((BASE,), clones)
    assert only.originals == ("work.isra.0", "work.isra.0.cold")
    assert "still different" in describe_merged_names([], clones) and describe_merged_names([], ()) == ""


def test_rules_have_an_order_and_must_be_known() -> None:
    assert parse_name_rules(["templates", "clones", "clones"]) == ("clones", "templates")
    with pytest.raises(InvalidRequest, match="choose of builds, clones"):
        parse_name_rules(["everything"])
