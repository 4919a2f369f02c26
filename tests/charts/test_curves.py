"""Curves as SVG: exact where they fit, with every extreme where they do not, harmless whatever is written on them."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from perfloom.analysis.memory.curves import Curve
from perfloom.charts.curves import COLUMNS, CurveLine, CurveMark, draw_curves, sample_curve
from tests.web.conftest import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"


def paths(svg: str, css: str) -> list[str]:
    """What is drawn with a class."""
    return [
        path.get("d", "") for path in ElementTree.fromstring(svg).iter(f"{SVG}path") if css in path.get("class", "")
    ]


def heights(path: str) -> list[float]:
    """The heights a path comes to."""
    return [float(y) for y in re.findall(r"V([\d.]+)", path)]


def test_a_few_steps_are_drawn_as_they_are() -> None:
    """From 10 to 20 to 5 of 20: each holds until the next, the first from the left edge, the last to the right one."""
    curve = Curve(np.array([0, 250, 500]), np.array([10.0, 20.0, 5.0]))
    svg = draw_curves("title", [CurveLine("a", curve)], [], 0, 1000, 20)
    assert paths(svg, "curves-line") == ["M0 50.00H250.00V0.00H500.00V75.00H1000"]
    part = draw_curves("title", [CurveLine("a", curve)], [], 100, 300, 20)
    assert paths(part, "curves-line") == ["M0 50.00H750.00V0.00H1000"]


@pytest.mark.heavy
def test_of_a_million_steps_no_extreme_is_lost() -> None:
    """One spike up and one down: both are drawn to the end, with no more points than there are columns for."""
    value = np.full(1_000_000, 500.0)
    value[1::2] = 501.0
    value[123_456], value[654_321] = 1000.0, 0.0
    curve = Curve(np.arange(1_000_000), value)
    (path,) = paths(draw_curves("title", [CurveLine("a", curve)], [], 0, 1_000_000, 1000), "curves-line")
    assert min(heights(path)) == 0.0 and max(heights(path)) == 100.0
    assert len(heights(path)) <= 2 * COLUMNS
    stacked = draw_curves("title", [CurveLine("part-1", curve, stacked=True)] * 2, [], 0, 1_000_000, 2000)
    upper, lower = paths(stacked, "curves-area")
    assert min(heights(upper)) == 0.0 and min(heights(lower)) == 50.0
    assert len(heights(upper)) <= COLUMNS + 3


def test_marks_and_titles_are_text() -> None:
    """Names and words cannot become markup; what lies outside of the window is not marked."""
    curve = Curve(np.array([0, 10]), np.array([1.0, 2.0]))
    for name in HOSTILE:
        svg = draw_curves(
            name,
            [CurveLine("a", curve, filled=True)],
            [CurveMark(5, "peak", name, 2.0), CurveMark(50, "oom", name)],
            0,
            10,
            2,
        )
        drawn = ElementTree.fromstring(svg)
        assert {element.tag.removeprefix(SVG) for element in drawn.iter()} <= {"svg", "title", "path", "g"}
        assert len(paths(svg, "curves-dot")) == 1 and len(drawn.findall(f"{SVG}g")) == 1
        assert all("style" not in element.attrib for element in drawn.iter())


def test_nothing_recorded_draws_nothing() -> None:
    none = Curve(np.zeros(0, np.int64), np.zeros(0))
    assert paths(draw_curves("title", [CurveLine("a", none, filled=True)], [], 0, 10, 0), "curves-line") == []
    assert sample_curve(none, 0, 10, 3) == [0, 0, 0]
    assert sample_curve(Curve(np.array([0, 5]), np.array([1.0, 3.0])), 0, 10, 4) == [1, 1, 3, 3]
