"""Bars, columns and strips of traces: as long as they should be, few however much there is, and harmless."""

from __future__ import annotations

import functools
import itertools
import re
from xml.etree import ElementTree

import pytest

from perfloom.charts.heatmap_strips import WIDTH, HeatmapCell, draw_area, draw_heatmap_strip
from perfloom.charts.stacked_bars import (
    MAX_COLUMNS,
    PAGE_SIZES,
    StackedValues,
    StackPart,
    draw_columns,
    draw_horizontal_bar,
)
from tests.charts.test_bars import HOSTILE

draw_page_columns = functools.partial(draw_columns, sizes=PAGE_SIZES[:1])
SVG = "{http://www.w3.org/2000/svg}"
PARTS = (StackPart("kernel", "Kernels"), StackPart("other", "Other"))


def drawn(svg: str) -> ElementTree.Element:
    """The drawing, after a look at every element and attribute."""
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        assert element.tag in {f"{SVG}{name}" for name in ("svg", "g", "a", "rect", "path", "text", "title")}
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


def test_columns_are_stacked_on_a_scale_with_units_and_labeled() -> None:
    bars = [StackedValues("step 7", (1e6, 3e6), "/x?step=7", "7"), StackedValues("step 8", (1e6, 0), "", "8")]
    root = drawn(draw_page_columns("steps", PARTS, bars, "ns", "Step"))
    height = PAGE_SIZES[0].height
    assert sizes(root, "height") == [height / 4, height * 3 / 4, height / 4]
    bottom = max(sizes(root, "y")) + height / 4
    assert sizes(root, "y") == [bottom - height / 4, bottom - height, bottom - height / 4]
    texts = [(text.text or "").replace("\u00a0", " ") for text in root.iter(f"{SVG}text")]
    assert texts == ["0", "1 ms", "2 ms", "3 ms", "4 ms", "7", "8", "Step"]
    assert len(ElementTree.fromstring(f"<all>{draw_columns('x', PARTS, bars, 'ns', 'Step')}</all>")) == len(PAGE_SIZES)


def test_columns_are_links_with_a_name_that_the_tab_key_reaches() -> None:
    bars = [StackedValues("step 7", (1e6, 3e6), "/x?step=7", "7"), StackedValues("step 8", (1e6, 0), "", "8")]
    (link,) = drawn(draw_page_columns("steps", PARTS, bars, "ns", "Step")).iter(f"{SVG}a")
    assert (link.get("href"), link.get("tabindex")) == ("/x?step=7", None)
    assert (link.get("aria-label") or "").replace("\u00a0", " ") == "step 7: 4.00 ms"


def test_labels_that_do_not_fit_are_left_out_evenly() -> None:
    bars = [StackedValues(f"step {n}", (1, 0), "", f"{10**9 + n}") for n in range(100)]
    texts = [text.text for text in drawn(draw_page_columns("steps", PARTS, bars, "ns", "Step")).iter(f"{SVG}text")]
    labels = [int(text or 0) - 10**9 for text in texts if text and len(text) == 10]
    assert 5 < len(labels) < 20 and {b - a for a, b in itertools.pairwise(labels)} == {labels[1]}


def test_many_adjacent_steps_share_a_column() -> None:
    svg = draw_page_columns(
        "steps", PARTS, [StackedValues(f"step {n}", (n % 2, 0), "/") for n in range(100_000)], "ns", "Step"
    )
    root = drawn(svg)
    assert 0 < len(root.findall(f"{SVG}g")) <= MAX_COLUMNS and len(svg) < 100_000
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
    drawn(draw_page_columns(name, [StackPart("kernel", name)], [StackedValues(name, (1,), "/")], "ns", name))
    drawn(draw_area(name, [HeatmapCell(0, 1, 1, name)], 0, 1))
    drawn(draw_heatmap_strip(name, [HeatmapCell(0, 1, 1, name, url="/")], 0, 1))
