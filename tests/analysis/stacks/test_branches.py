"""Branches and loops: every figure equals a naive count over the branch stacks."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest

from perfloom.analysis.core.schema import records
from perfloom.analysis.stacks.branches import (
    compute_branches,
    compute_loops,
    has_branches,
    longest_interval_ns,
    select_branches,
)
from perfloom.analysis.tables import TABLES
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.units import NS_PER_MS
from perfloom.domain.validation import find_error
from perfloom.exporters import EXPORTERS
from perfloom.ingest.merge import merge
from perfloom.readers import perf_script, stored_profile
from tests.support.perf.branch_stacks import INNER_ITERATIONS, Taken, format_text, sample_stacks
from tests.support.profiles import profile_of

STACKS = sample_stacks(400)
ALL = Selection()


def read(stacks: list[list[Taken]], form: str = "brstacksym") -> Profile:
    return perf_script.read(io.BytesIO(format_text(stacks, form=form).encode()))


@pytest.fixture(scope="module")
def profile() -> Profile:
    return read(STACKS)


def count_naively(stacks: list[list[Taken]]) -> Counter[tuple[str, int, str, int]]:
    return Counter((one.source, one.source_offset, one.target, one.target_offset) for stack in stacks for one in stack)


def counts_of(profile: Profile, selection: Selection) -> Counter[tuple[str, int, str, int]]:
    rows = compute_branches.rows(profile, selection).records()
    places = ("source", "source_offset", "target", "target_offset")
    return Counter({tuple(row[name] for name in places): row["count"] for row in rows})  # type: ignore[misc]


def test_branches_have_the_figures_of_the_stacks(profile: Profile) -> None:
    rows = records(compute_branches(profile, ALL))
    assert counts_of(profile, ALL) == count_naively(STACKS)
    assert [row["count"] for row in rows] == sorted((row["count"] for row in rows), reverse=True)
    assert sum(row["percent"] for row in rows) == pytest.approx(100)
    flat = [one for stack in STACKS for one in stack]
    for row in rows:
        same = [one for one in flat if (one.source, one.source_offset) == (row["source"], row["source_offset"])]
        assert row["mean_cycles"] == pytest.approx(sum(one.cycles for one in same) / len(same))
        assert row["mispredicted_percent"] == 100 * same[0].mispredicted
        assert row["percent"] == pytest.approx(100 * len(same) / len(flat))
        assert (row["event"], row["type"], row["source_module"]) == ("cycles:u", same[0].kind, "/opt/my app/work")


def test_loops_are_those_of_the_program(profile: Profile) -> None:
    inner, outer, again = records(compute_loops(profile, ALL))
    assert (inner["function"], inner["start_offset"], inner["end_offset"]) == ("work", 0x20, 0x30)
    assert (outer["start_offset"], outer["end_offset"]) == (0x10, 0x50)
    assert again["function"] == "main"
    assert inner["cycles_per_iteration"] == 4 + 6 + 2
    # Of the outer loop: its own branch, and five iterations of the inner one.
    assert outer["cycles_per_iteration"] == 7 + 5 * (6 + 2) + 4 * 4
    assert inner["iterations"] == pytest.approx(INNER_ITERATIONS, abs=0.3)
    assert outer["mispredicted_percent"] == 100 and inner["mispredicted_percent"] == 0
    assert inner["count"] == count_naively(STACKS)["work", 0x30, "work", 0x20]
    assert inner["percent"] == pytest.approx(100 * inner["count"] / sum(map(len, STACKS)))


def test_a_loop_that_is_never_left_has_no_number_of_iterations() -> None:
    endless = [[one for one in stack if one.source_offset != 0x50][:3] for stack in STACKS[:5]]
    rows = records(compute_loops(read(endless), ALL))
    assert rows and all(row["iterations"] is None and row["exits"] == 0 for row in rows)


def test_windows_and_threads_partition_the_branches(profile: Profile) -> None:
    whole = counts_of(profile, ALL)
    edges = [0, 3, 77, 250, 1000]
    parts = [ALL.replace(start_ns=low * NS_PER_MS, end_ns=high * NS_PER_MS) for low, high in pairwise(edges)]
    assert sum((counts_of(profile, part) for part in parts), Counter()) == whole
    assert counts_of(profile, parts[1]) == count_naively(STACKS[3:77])
    by_thread = [counts_of(profile, ALL.replace(threads=(f"-/100/{tid}",))) for tid in (101, 102)]
    assert by_thread[0] == count_naively(STACKS[::2]) and sum(by_thread, Counter()) == whole
    loops = [records(compute_loops(profile, part)) for part in parts]
    assert sum(row["measured_iterations"] for rows in loops for row in rows) == sum(
        row["measured_iterations"] for row in records(compute_loops(profile, ALL))
    )


def test_ranks_partition_the_branches() -> None:
    halves = STACKS[:100], STACKS[100:150]
    profile = merge([read(half) for half in halves])
    assert find_error(profile) is None
    assert profile.branch_edges.num_rows == read(STACKS[:150]).branch_edges.num_rows
    for rank, half in enumerate(halves):
        assert counts_of(profile, ALL.replace(ranks=((rank, rank),))) == count_naively(half)
    assert counts_of(profile, ALL) == count_naively(STACKS[:150])


def test_processes_and_hosts_select_branches() -> None:
    text = format_text(STACKS[:40]) + format_text(STACKS[40:60]).replace(" 100/10", " 200/20")
    profile = perf_script.read(io.BytesIO(text.encode()))
    assert counts_of(profile, ALL.replace(processes=("-/100",))) == count_naively(STACKS[:40])
    assert counts_of(profile, ALL.replace(processes=("-/200",))) == count_naively(STACKS[40:60])
    assert counts_of(profile, ALL.replace(hosts=("-",))) == count_naively(STACKS[:60])
    for unknown in (ALL.replace(processes=("-/300",)), ALL.replace(hosts=("nowhere",))):
        with pytest.raises(InvalidRequest):
            compute_branches.rows(profile, unknown)


def test_the_selected_event_has_its_own_branches() -> None:
    text = format_text(STACKS[:40]) + format_text(STACKS[40:60]).replace("cycles:u", "instructions:u")
    profile = perf_script.read(io.BytesIO(text.encode()))
    assert counts_of(profile, ALL.replace(event="instructions:u")) == count_naively(STACKS[40:60])
    assert {row["event"] for row in records(compute_branches(profile, ALL))} == {"cycles:u", "instructions:u"}
    for row in records(compute_branches(profile, ALL)):
        assert row["percent"] <= 100


def test_patterns_do_not_apply(profile: Profile) -> None:
    assert counts_of(profile, ALL.replace(focus="help", hide="main")) == counts_of(profile, ALL)
    with pytest.raises(InvalidRequest):
        TABLES["branches"].rows(profile, ALL.replace(focus="("))


def test_addresses_stand_for_unknown_symbols() -> None:
    rows = records(compute_branches(read(STACKS[:3], "brstack"), ALL))
    assert {row["source"] for row in rows} <= {"0x1228", "0x1230", "0x1250", "0x1309"}
    assert all(row["source_offset"] is None and row["source_module"] == "/opt/my app/work" for row in rows)
    assert not len(compute_loops(read(STACKS[:3], "brstack"), ALL))


def test_a_recording_without_branch_stacks_has_none() -> None:
    profile = profile_of([("main;work", 5)])
    assert not has_branches(profile) and longest_interval_ns(profile) == 0
    assert not len(compute_branches(profile, ALL)) and not len(compute_loops(profile, ALL))
    assert list(compute_branches(profile, ALL).columns) == [column.name for column in TABLES["branches"].columns]


def test_stored_and_filtered_profiles_keep_their_branches(profile: Profile) -> None:
    chosen = ALL.replace(start_ns=10 * NS_PER_MS, end_ns=30 * NS_PER_MS, threads=("-/100/102",))
    exported = b"".join(EXPORTERS["profile"].write(profile, chosen, {}))
    again = stored_profile.read(io.BytesIO(exported))
    assert counts_of(again, ALL) == counts_of(profile, chosen) == count_naively(STACKS[11:30:2])
    assert records(compute_loops(again, ALL)) == records(compute_loops(profile, chosen))


@pytest.mark.parametrize(("column", "wrong"), [("edge", 99), ("thread", -1), ("count", -5), ("interval_ns", -1)])
def test_damaged_tables_are_found(profile: Profile, column: str, wrong: int) -> None:
    table = profile.branches
    values = table.column(column).to_pylist()
    values[3] = wrong
    at = table.schema.get_field_index(column)
    broken = table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))
    assert column in (find_error(replace(profile, branches=broken)) or "")


def test_all_rows_are_selected_by_default(profile: Profile) -> None:
    assert select_branches(profile, ALL).all()
