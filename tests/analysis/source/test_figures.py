"""Self and total of lines and instructions, compared with counting every sample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.analysis.source.code_index import locate_functions
from perfloom.analysis.source.figures import compute_function_code
from perfloom.analysis.stacks.hotspots import compute_hotspots
from perfloom.domain.errors import NotFound
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from tests.support.machine_code.made import FUNCTIONS, INSTRUCTIONS, Sample, make_code, make_profile

PLACES = st.tuples(st.integers(0, FUNCTIONS - 1), st.integers(0, INSTRUCTIONS - 1))
SAMPLES = st.lists(
    st.tuples(st.lists(PLACES, min_size=1, max_size=6), st.integers(0, 1), st.integers(1, 1000)),
    min_size=1,
    max_size=30,
)


def line_of(place: tuple[int, int], *, at_calls: bool = False) -> int:
    function, instruction = place
    inlined = at_calls and instruction == 3
    return 10 * function + (1 if instruction < 2 or inlined else 2)


@given(SAMPLES, st.booleans())
def test_figures_are_those_of_counting_every_sample(samples: list[Sample], at_calls: bool) -> None:
    profile = make_profile(samples)
    code = make_code(profile)
    for function in {place[0] for stack, _, _ in samples for place in stack}:
        found = compute_function_code(profile, code, Selection(), f"f{function}", 0, at_calls=at_calls)
        for number, event in enumerate(("cycles", "instructions")):
            own, total = np.zeros(INSTRUCTIONS), np.zeros(INSTRUCTIONS)
            line_own: dict[int, int] = {}
            line_total: dict[int, int] = {}
            for stack, of_event, weight in samples:
                if of_event != number:
                    continue
                if stack[-1][0] == function:
                    own[stack[-1][1]] += weight
                    line = line_of(stack[-1], at_calls=at_calls)
                    line_own[line] = line_own.get(line, 0) + weight
                for instruction in {i for f, i in stack if f == function}:
                    total[instruction] += weight
                for line in {line_of(place, at_calls=at_calls) for place in stack if place[0] == function}:
                    line_total[line] = line_total.get(line, 0) + weight
            figures, lines = found.instructions[number], found.lines[number]
            assert figures.name == lines.name == event
            assert figures.own.tolist() == own.tolist()
            assert figures.total.tolist() == total.tolist()
            numbers = found.line.tolist()
            assert dict(zip(numbers, lines.own.tolist(), strict=True)) == {n: line_own.get(n, 0) for n in numbers}
            assert dict(zip(numbers, lines.total.tolist(), strict=True)) == {n: line_total.get(n, 0) for n in numbers}


@given(SAMPLES)
def test_lines_sum_to_their_function_and_instructions_to_their_lines(samples: list[Sample]) -> None:
    profile = make_profile(samples)
    code = make_code(profile)
    hotspots = compute_hotspots(profile, Selection(event="cycles"))
    for name, own, total in zip(hotspots["name"], hotspots["self"], hotspots["total"], strict=True):
        found = compute_function_code(profile, code, Selection(), name, 0)
        assert found.lines[0].own.sum() == own
        assert found.lines[0].total.max() <= total
        sums = np.bincount(found.line_of, found.instructions[0].own, len(found.line))
        assert sums.tolist() == found.lines[0].own.tolist()


def test_formulas_are_of_sums_and_missing_where_the_divisor_is_zero() -> None:
    profile = make_profile([([(0, 0)], 0, 30), ([(0, 0)], 1, 10), ([(0, 0)], 0, 20), ([(0, 1)], 0, 7)])
    found = compute_function_code(profile, make_code(profile), Selection(), "f0", 0)
    (cpi,) = [one for one in found.instructions if one.name == "CPI"]
    assert cpi.own.tolist()[0] == 5.0
    assert np.isnan(cpi.own[1])
    (line,) = [one for one in found.lines if one.name == "CPI"]
    assert line.own[found.line.tolist().index(1)] == 5.7


def test_the_selection_applies() -> None:
    samples: list[Sample] = [([(0, 0), (1, 2)], 0, 5), ([(2, 0), (1, 2)], 0, 3)]
    profile = make_profile(samples)
    code = make_code(profile)
    for selection, own in ((Selection(), 8), (Selection().replace(focus="f2"), 3), (Selection(start_ns=1), 3)):
        found = compute_function_code(profile, code, selection, "f1", 0)
        assert found.instructions[0].own.tolist() == [0, 0, own, 0]
    with pytest.raises(NotFound):
        compute_function_code(profile, code, Selection(), "f9", 0)


def test_a_recursive_call_counts_once() -> None:
    profile = make_profile([([(0, 1), (0, 1), (0, 1), (0, 1)], 0, 5)])
    found = compute_function_code(profile, make_code(profile), Selection(), "f0", 0)
    assert found.instructions[0].own.tolist() == [0, 5, 0, 0]
    assert found.instructions[0].total.tolist() == [0, 5, 0, 0]


def test_functions_begin_at_their_first_line() -> None:
    profile: Profile = make_profile([([(0, 0), (1, 2)], 0, 5)])
    assert sorted(locate_functions(profile, make_code(profile)).values()) == [("/src/made.c", 1), ("/src/made.c", 11)]
