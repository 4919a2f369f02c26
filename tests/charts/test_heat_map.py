"""The drawing of a heat map: every cell once, in the color of its value, and harmless."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.analysis.timeline.heat_map import HeatMapGrid
from perfloom.charts.heat_map import (
    COLOR_COUNT,
    color_levels,
    draw_column_axis,
    draw_heat_map,
    draw_range,
    draw_row_axis,
    format_ticks,
    format_width,
    list_time_ticks,
    range_path,
)
from perfloom.domain.units import NS_PER_S, set_time_unit
from tests.charts.test_bars import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"
GRID = HeatMapGrid(0, NS_PER_S, 4, 10)
RUN = re.compile(r"M(\d+) (\d+)h1v(\d+)h-1z")


def plain(texts: tuple[str, ...] | list[str]) -> list[str]:
    return [text.replace("\xa0", " ") for text in texts]


@given(st.dictionaries(st.integers(0, 39), st.integers(-5, 1 << 60)))
def test_every_cell_is_drawn_once_in_its_color(values: dict[int, int]) -> None:
    cell = np.array(sorted(values), np.int64)
    value = np.array([values[at] for at in sorted(values)], np.int64)
    root = ElementTree.fromstring(draw_heat_map("title", GRID, cell, value))
    drawn = {}
    for path in root.iter(f"{SVG}path"):
        assert RUN.sub("", path.get("d", "")) == ""
        for column, top, height in RUN.findall(path.get("d", "")):
            for y in range(int(top), int(top) + int(height)):
                number = int(column) * 10 + 9 - y
                assert number not in drawn
                drawn[number] = path.get("class")
    levels = color_levels(value).tolist()
    assert drawn == {at: f"heat-{level}" for at, level in zip(cell.tolist(), levels, strict=True)}
    assert all(1 <= level <= COLOR_COUNT for level in levels)


def test_colors_are_linear() -> None:
    assert color_levels(np.array([1, 10, 11, 50, 99, 100])).tolist() == [1, 1, 2, 5, 10, 10]
    assert color_levels(np.array([0, 0])).tolist() == [1, 1] and color_levels(np.array([], np.int64)).tolist() == []


@pytest.mark.parametrize(
    ("start", "end", "path"),
    [
        (0, 4 * NS_PER_S, "M0 10V0H3V0H4V10H1V10Z"),
        (200_000_000, 400_000_000, "M0 8V6H1V8Z"),
        (NS_PER_S, 2 * NS_PER_S, "M1 10V0H2V10Z"),
        (1_500_000_000, 3_250_000_000, "M1 5V0H3V7.5H4V10H2V5Z"),
        (-(1 << 63), 100_000_000, "M0 10V9H1V10Z"),
        (3_900_000_000, (1 << 63) - 1, "M3 1V0H4V1Z"),
        (4 * NS_PER_S, 5 * NS_PER_S, ""),
        (-5, 0, ""),
    ],
)
def test_a_range_is_outlined_over_columns(start: int, end: int, path: str) -> None:
    assert range_path(GRID, start, end) == path
    assert draw_range(GRID, start, end).count("heat-edge") == bool(path)


def test_ticks_are_round_and_in_one_unit() -> None:
    assert (
        plain(format_ticks(list_time_ticks(41 * NS_PER_S, 9)))
        == [
            "0",
            *(f"{n} s" for n in range(5, 41, 5)),
        ][:9]
    )
    assert plain(format_ticks(list_time_ticks(NS_PER_S, 6))) == [
        "0",
        *(f"{n:,} ms" for n in range(200, 1001, 200)),
    ]
    assert plain(format_ticks(list_time_ticks(600 * NS_PER_S, 9))) == [
        "0",
        "2 min",
        "4 min",
        "6 min",
        "8 min",
        "10 min",
    ]
    assert plain(format_ticks(list_time_ticks(10 * 3600 * NS_PER_S, 9)))[:2] == ["0", "2 h"]
    assert plain(format_ticks([0])) == ["0"]
    assert plain([format_width(width) for width in (1000, 20_000_000, NS_PER_S, 90 * NS_PER_S, 86_400 * NS_PER_S)]) == [
        "1 µs",
        "20 ms",
        "1 s",
        "1.5 min",
        "1 d",
    ]
    set_time_unit("ms")
    try:
        assert plain(format_ticks([0, 5 * NS_PER_S])) == ["0", "5,000 ms"]
    finally:
        set_time_unit("")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_drawing_contains_no_markup_of_names(name: str) -> None:
    drawings = (
        draw_heat_map(name, GRID, np.array([3]), np.array([7])),
        *(draw(GRID) for draw in (draw_column_axis, draw_row_axis)),
        draw_range(GRID, 0, 5),
    )
    for svg in drawings:
        for element in ElementTree.fromstring(svg).iter():
            assert element.tag in {f"{SVG}{tag}" for tag in ("svg", "path", "text", "line", "title")}
            assert all(name not in ("style", "href") and not name.startswith("on") for name, _ in element.items())
