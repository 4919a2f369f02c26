"""Bars, columns and strips of traces: as long as they should be, few however much there is, and harmless."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from perfloom.charts.heatmap_strips import WIDTH, HeatmapCell, draw_area, draw_heatmap_strip
from perfloom.charts.stacked_bars import (
    HEIGHT,
    MAX_COLUMNS,
    StackedValues,
    StackPart,
    draw_columns,
    draw_horizontal_bar,
)
from tests.charts.test_bars import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"
PARTS = (StackPart("kernel", "Kernels"), StackPart("other", "Other"))


def drawn(svg: str) -> ElementTree.Element:
    """The drawing, after a look at every element and attribute."""
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        assert element.tag in {f"{SVG}{name}" for name in ("svg", "g", "a", "rect", "path", "title")}
        for name, value in element.items():
            if name == "href":
                assert value.startswith("/")
            elif name != "aria-label":
                assert re.fullmatch(r"[\w .\-]*", value), (name, value)
    return root


def sizes(root: ElementTree.Element, name: str) -> list[float]:
    return [float(rect.get(name, "nan")) for rect in root.iter(f"{SVG}rect")]


def test_a_bar_is_as_long_as_its_sum_is_of_the_whole() -> None:
    root = drawn(draw_horizontal_bar(PARTS, StackedValues("rank 0", (30e6, 0)), "ns", 40e6))
    assert sizes(root, "width") == [75]
    assert root.findtext(f"{SVG}rect/{SVG}title") == "rank 0\nKernels: 30.0\u00a0ms, 100.00\u00a0%\nof 30.0\u00a0ms"
    assert sizes(drawn(draw_horizontal_bar(PARTS, StackedValues("x", (0, 0)), "ns", 0)), "width") == []


def test_columns_lie_on_each_other_and_the_highest_fills_the_drawing() -> None:
    root = drawn(
        draw_columns("steps", PARTS, [StackedValues("a", (1, 3), "/x?step=1"), StackedValues("b", (1, 0))], "ns")
    )
    assert sizes(root, "height") == [HEIGHT / 4, HEIGHT * 3 / 4, HEIGHT / 4]
    assert sizes(root, "y") == [HEIGHT * 3 / 4, 0, HEIGHT * 3 / 4]
    assert [link.get("href") for link in root.iter(f"{SVG}a")] == ["/x?step=1"]


def test_many_adjacent_steps_share_a_column() -> None:
    svg = draw_columns("steps", PARTS, [StackedValues(f"step {n}", (n % 2, 0), "/") for n in range(100_000)], "ns")
    root = drawn(svg)
    assert len(root.findall(f"{SVG}g")) <= MAX_COLUMNS and len(svg) < 100_000
    assert root.findtext(f"{SVG}g/{SVG}rect/{SVG}title", "").startswith("step 0 to step 624, on average")


def test_shares_over_time() -> None:
    cells = [
        HeatmapCell(0, 10, 0.5, "first", 0.25, "/x"),
        HeatmapCell(10, 20, None, "second"),
        HeatmapCell(20, 40, 1.5, "third", 0.5),
    ]
    root = drawn(draw_area("busy", cells, 0, 40))
    filled, line = (path.get("d") for path in root.iter(f"{SVG}path"))
    assert filled == "M0.00 100V50.00H250.00V100ZM500.00 100V0.00H1000.00V100Z"
    assert line == "M0.00 75.00H250.00M500.00 50.00H1000.00"
    assert sizes(root, "width") == [250, 250, 500]
    root = drawn(draw_heatmap_strip("busy", cells, 0, 40))
    assert sizes(root, "width") == [250, 500] and sizes(root, "fill-opacity") == [pytest.approx(0.54), 1]
    assert sum(sizes(drawn(draw_heatmap_strip("busy", cells, 5, 5)), "width")) == 0 and WIDTH == 1000


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_becomes_markup(name: str) -> None:
    drawn(draw_horizontal_bar([StackPart("kernel", name)], StackedValues(name, (1,)), "ns", 1))
    drawn(draw_columns(name, [StackPart("kernel", name)], [StackedValues(name, (1,), "/")], "ns"))
    drawn(draw_area(name, [HeatmapCell(0, 1, 1, name)], 0, 1))
    drawn(draw_heatmap_strip(name, [HeatmapCell(0, 1, 1, name, url="/")], 0, 1))
