"""Values of formulas, against sums over single samples and the figures of a real recording."""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.analysis.core.flame_groups import FlameGroup
from perfloom.analysis.core.sample_selection import event_names
from perfloom.analysis.core.schema import records
from perfloom.analysis.counts.formula_values import BY, compute_formulas
from perfloom.analysis.formulas.additional import set_additional_formulas
from perfloom.analysis.formulas.builtin import BUILTIN_FORMULAS
from perfloom.analysis.formulas.measures import WITHOUT_PERIODS
from perfloom.analysis.formulas.resolution import MIXED_MODIFIERS, find_events, resolve_formula, resolve_formulas
from perfloom.analysis.tables import TABLES
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.formulas.formula import Formula, FormulaError
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.readers import perf_script, perf_stat
from tests.analysis import brute
from tests.analysis.stacks.test_flamegraph import selections
from tests.readers import test_perfanalyzer
from tests.support import paths
from tests.support.profiles import profiles

example = test_perfanalyzer.example


@pytest.fixture(autouse=True)
def built_in_only() -> Iterator[None]:
    yield
    set_additional_formulas(())


def counted(**values: float) -> Profile:
    """A profile with a count of each of these events; "__" in a name: "-"."""
    builder = ProfileBuilder("perf-stat")
    for name, value in values.items():
        event = builder.intern_event(name.replace("__", "-"), "count")
        builder.add_count(run=0, thread=-1, cpu=-1, event=event, value=value, status="ok")
    return builder.finish()


def totals(profile: Profile, by: str = "selection") -> dict[tuple[str, str | None], float | None]:
    rows = records(compute_formulas.rows(profile, Selection(), by))
    return {(row["formula"], row["name"]): row["total"] for row in rows}


def test_cpi_of_a_result_set_of_perfanalyzer(example: Profile) -> None:
    found = totals(example)
    assert found["CPI", None] == 23_815_680_000 / 23_189_760_000
    assert found["IPC", None] == 23_189_760_000 / 23_815_680_000
    # dTLB-load-misses was recorded without a sample.
    assert found["dTLB load misses", None] == 0


def test_counts_of_perf_stat() -> None:
    profile = perf_stat.read(io.BytesIO((paths.DATA / "perf-stat" / "by-hand-hardware.txt").read_bytes()), "stat.txt")
    counts = {row["event"]: row["value"] for row in records(TABLES["events"].rows(profile, Selection()))}
    found = totals(profile)
    assert found["IPC", None] == counts["instructions"] / counts["cycles"]
    # cache-misses has no count.
    assert found["cache MPKI", None] is None


@given(profiles(max_weight=1 << 40), st.data(), st.sampled_from(BY))
def test_a_formula_is_that_of_the_sums_of_its_events(profile: Profile, data: st.DataObject, by: str) -> None:
    names = event_names(profile)
    first, second = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    set_additional_formulas([Formula("ratio", f"'{first}' / '{second}' * 100 + 1")])
    selection = data.draw(selections(profile)).replace(invert=False, recursion=False, event=None)
    sums: dict[Any, Counter[str]] = defaultdict(Counter)
    for event in {first, second}:
        for sample in brute.selected(profile, selection, event=event):
            for place in places(profile, sample, by):
                sums[place][event] += sample.weight
    found = {
        (row["name"], row["module"]): row["total"]
        for row in records(compute_formulas.rows(profile, selection, by))
        if row["formula"] == "ratio"
    }
    if by == "selection" and not sums:
        sums[None, None] = Counter()
    expected = {
        place: sum_of[first] / sum_of[second] * 100 + 1 if sum_of[second] else None
        for place, sum_of in sums.items()
        if by == "selection" or sum_of[first] or sum_of[second]
    }
    assert found.keys() == expected.keys()
    for place, value in expected.items():
        assert found[place] == (None if value is None else pytest.approx(value, rel=1e-12))


def places(profile: Profile, sample: brute.Sample, by: str) -> set[tuple[str | None, str | None]]:
    """Where a sample counts in the total."""
    if by == "selection":
        return {(None, None)}
    if by == "function":
        return {(frame[0], frame[1]) for frame in sample.stack}
    if by == "module":
        return {(frame[1] or "[unknown]", frame[1]) for frame in sample.stack}
    return {(brute.group_of(profile, sample, FlameGroup(by)), None)}


def test_counts_of_single_cpus_have_their_own_rows() -> None:
    builder = ProfileBuilder("perf-stat")
    for name, values in {"cycles": (4, 6), "instructions": (2, 2)}.items():
        event = builder.intern_event(name, "count")
        for cpu, value in enumerate(values):
            builder.add_count(run=0, thread=-1, cpu=cpu, event=event, value=value, status="ok")
    found = totals(builder.finish(), "thread")
    assert (found["CPI", "CPU 0"], found["CPI", "CPU 1"]) == (2, 3)


def test_names_mean_events_as_recorded_or_without_modifiers() -> None:
    events = find_events(counted(cpu__cycles=1, **{"instructions:u": 2, "a:u": 3, "a:k": 4}))
    assert [events[name] for name in ("cpu-cycles", "cycles", "instructions:u", "instructions", "a:u", "a:k", "a")] == [
        *(0, 0, 1, 1, 2, 3, -1)
    ]


def test_events_of_other_code_have_a_note() -> None:
    (row, _) = records(compute_formulas.rows(counted(**{"cycles:u": 1, "instructions": 2}), Selection()))
    assert row["formula"] == "IPC" and row["total"] == 2 and row["note"] == MIXED_MODIFIERS
    (row, _) = records(compute_formulas.rows(counted(**{"cycles:u": 1, "instructions:u": 2}), Selection()))
    assert row["note"] is None


def test_modifiers_that_restrict_nothing_need_no_note() -> None:
    for cycles, instructions in (
        ("cycles:uk", "instructions:ku"),
        ("cycles:uk", "instructions"),
        ("cycles:D", "instructions"),
    ):
        assert [
            row["note"] for row in records(compute_formulas.rows(counted(**{cycles: 1, instructions: 2}), Selection()))
        ] == [None, None]


def test_terms_of_an_event_are_no_modifiers() -> None:
    profile = counted(**{"page-faults/no-inherit/u": 1, "instructions:u": 2})
    set_additional_formulas([Formula("x", "page-faults / instructions")])
    assert next(row["note"] for row in records(compute_formulas.rows(profile, Selection()))) is None


def test_samples_without_periods_have_no_ratio() -> None:
    text = "".join(
        f"a 1/1 {n}.0: {event}: \n\t 1 f (/a)\n\n" for n in range(4) for event in ("cycles:u", "instructions:u")
    )
    profile = perf_script.read(io.BytesIO(text.encode()))
    for by in ("selection", "function"):
        rows = records(compute_formulas.rows(profile, Selection(), by))
        assert rows and all(row["total"] is None and row["note"] == WITHOUT_PERIODS for row in rows)


def test_intervals_without_a_count_are_noted() -> None:
    content = (paths.DATA / "perf-stat" / "by-hand-interval.txt").read_bytes()
    rows = records(compute_formulas.rows(perf_stat.read(io.BytesIO(content), "stat.txt"), Selection()))
    (note,) = (row["note"] for row in rows if row["formula"] == "cache MPKI")
    assert note == "cache-misses was not counted in 1 intervals or on so many CPUs"


def test_division_by_zero_is_missing() -> None:
    assert totals(counted(cycles=0, instructions=5)) == {("IPC", None): None, ("CPI", None): 0}


def test_formulas_of_the_installation_come_first() -> None:
    profile = counted(cycles=4, instructions=2)
    set_additional_formulas(
        [Formula("IPC", "instructions / cycles * 10"), Formula("twice", "CPI * 2"), Formula("x", "y")]
    )
    assert totals(profile) == {("IPC", None): 5, ("twice", None): 4, ("CPI", None): 2}


def test_a_name_means_the_formula_whose_events_were_measured() -> None:
    profile = counted(**{"cycles": 8, "cpu-clock": 4})
    set_additional_formulas([Formula("twice", "'clock rate' * 2")])
    assert totals(profile)["twice", None] == 4


def test_a_formula_of_an_event_that_was_not_measured_names_it() -> None:
    profile = counted(cycles=4, instructions=2)
    assert resolve_formula(profile, Formula("x", "cycles / 2")).events == {"cycles": 0}
    with pytest.raises(
        FormulaError, match=r"'cache-misses' was not measured. Measured: cycles, instructions\."
    ) as error:
        resolve_formula(profile, Formula("x", "2 * cache-misses"))
    assert error.value.position == 5


def test_built_in_formulas_are_valid_and_described() -> None:
    for formula in BUILTIN_FORMULAS:
        assert formula.names and formula.description.endswith(".")
    assert not resolve_formulas(counted(other=1))
