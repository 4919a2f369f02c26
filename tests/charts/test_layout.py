"""The adapter to pygal: bars as long as they should be, where they should be, and nothing else of pygal's."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.charts.layout import Area, Rectangle, bar_layout
from tests.conftest import ROOT

AREA = Area(10, 20, 300, 120)


def near(value: float) -> object:
    return pytest.approx(value, abs=0.01)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda bars: st.lists(st.lists(st.integers(0, 1000), min_size=bars, max_size=bars), min_size=1, max_size=4)
    ),
    st.booleans(),
)
def test_bars_are_stacked_from_the_axis(series: list[list[int]], horizontal: bool) -> None:
    bars = len(series[0])
    most = max(1, *(sum(values) for values in zip(*series, strict=True)))
    drawn = bar_layout(series, AREA, most, horizontal=horizontal, gap=0.2)
    assert [len(rectangles) for rectangles in drawn] == [bars] * len(series)
    for bar in range(bars):
        below = 0.0
        for values, rectangles in zip(series, drawn, strict=True):
            share, box = values[bar] / most, rectangles[bar]
            if horizontal:
                room = AREA.height / bars
                assert (box.width, box.height) == (near(share * AREA.width), near(0.8 * room))
                assert box.y == near(AREA.y + room * (bar + 0.1))
                assert box.x == near(AREA.x + below * AREA.width)
            else:
                room = AREA.width / bars
                assert (box.width, box.height) == (near(0.8 * room), near(share * AREA.height))
                assert box.x == near(AREA.x + room * (bar + 0.1))
                assert box.y == near(AREA.y + AREA.height * (1 - below - share))
            below += share


@pytest.mark.parametrize("horizontal", [True, False])
def test_without_values_no_bar_has_a_length(horizontal: bool) -> None:
    for most, values in ((0.0, [0.0, 0.0]), (5.0, [0.0, 0.0]), (5.0, [-1.0, -7.0])):
        (drawn,) = bar_layout([values], AREA, most, horizontal=horizontal)
        assert [box.width if horizontal else box.height for box in drawn] == [0, 0]
    assert bar_layout([], AREA, 1.0) == [] and bar_layout([[]], AREA, 1.0) == [[]]


def test_rectangles_are_written_short() -> None:
    assert Rectangle(1, 2.005, 1 / 3, 100).attributes == {"x": "1.00", "y": "2.00", "width": "0.33", "height": "100.00"}


def test_nothing_else_imports_pygal() -> None:
    users = [
        path.relative_to(ROOT / "app").as_posix()
        for path in (ROOT / "app").rglob("*.py")
        if re.search(r"^\s*(import|from) pygal\b", path.read_text(), re.MULTILINE)
    ]
    assert users == ["charts/layout.py"]
