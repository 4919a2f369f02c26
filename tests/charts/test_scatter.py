"""Scatter plots as SVG, and the colors of ratios."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.analysis.ratios.scatter import Box
from perfloom.charts import palette
from perfloom.charts.dot_labels import MAX_LABELS, PLOT_PX, draw_label, place_labels
from perfloom.charts.scatter import (
    ScatterAxis,
    dot_radius,
    draw_dots,
    draw_levels,
    draw_x_labels,
    draw_y_labels,
    fit_axis,
    weight_levels,
)

SVG = "{http://www.w3.org/2000/svg}"
# Machado, Oliveira, Fernandes 2009, A Physiologically-based Model for Simulation of Color Vision Deficiency, severity 1.
VISIONS = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def lab(color: str, vision: np.ndarray) -> np.ndarray:
    """A color in CIELAB (D65), as seen with a color vision deficiency."""
    channels = np.array([int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    linear = np.clip(vision @ linear, 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    f = np.cbrt(xyz / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_both_sides_of_the_mean_differ_with_every_color_vision(theme: palette.Theme, vision: str) -> None:
    low, quarter, mean, more, high = (
        lab(palette.mix_colors(theme.diff, at), VISIONS[vision]) for at in (0, 0.25, 0.5, 0.75, 1)
    )
    for one, other, least in (
        (low, mean, 25),
        (mean, high, 25),
        (low, high, 40),
        (quarter, mean, 10),
        (mean, more, 10),
        (quarter, more, 15),
    ):
        assert np.linalg.norm(one - other) >= least
    none = lab(theme.too_few_samples, VISIONS[vision])
    assert min(np.linalg.norm(none - other) for other in (low, mean, high)) >= 8


def test_axes_contain_their_values_and_have_round_ticks() -> None:
    axis = fit_axis(np.array([3.0, 700.0]), True)
    assert axis.low < 3 and axis.high > 700 and 0 < axis.place(3.0) < axis.place(700.0) < 1
    assert axis.ticks() in ([3, 10, 30, 100, 300], [5, 10, 20, 50, 100, 200, 500])
    assert axis.place(math.sqrt(axis.low * axis.high)) == pytest.approx(0.5) and axis.place(0) == -math.inf
    axis = fit_axis(np.array([-1.0, 2.0]), False)
    assert axis.low < -1 and axis.high > 2 and axis.ticks() == [-1, 0, 1, 2]
    for values, is_log in (
        ([], True),
        ([], False),
        ([5.0], True),
        ([5.0], False),
        ([0.0], False),
        ([1e-299, 1e299], True),
        ([-9e299, 9e299], False),
        ([1e18, 1e18 + 1000], False),
        ([1.0, 1.2], True),
    ):
        axis = fit_axis(np.array(values), is_log)
        assert axis.low < axis.high and len(axis.ticks()) <= 8, values
        assert all(0 <= axis.place(tick) <= 1 for tick in axis.ticks()), values
        assert all(0 <= axis.place(value) <= 1 for value in values), values


def test_many_dots_are_smaller_and_transparent() -> None:
    assert dot_radius(1) == dot_radius(50) == 5
    assert 5 > dot_radius(200) > dot_radius(1000) >= 2.5 == dot_radius(10**6)
    axes = (ScatterAxis(0, 1, False), ScatterAxis(0, 1, False))
    for count, is_many in ((50, False), (51, True)):
        text = draw_dots("", axes, np.full(count, 0.5), np.full(count, 0.5), np.ones(count, int), [""] * count)
        assert ("scatter-dots--many" in text) is is_many


def test_labels_of_the_first_dots_do_not_collide() -> None:
    """The second dot is covered by the label of the first; the label of the fourth is left of its dot."""
    x, y = np.array([0.1, 0.12, 0.1, 0.99, 0.5]), np.array([0.5, 0.5, 0.9, 0.5, 0.5])
    found = place_labels(x, y, ["first", "second", "third", "fourth", "fifth"], 5)
    assert [(label.text, label.is_left) for label in found] == [
        ("first", True),
        ("second", False),
        ("third", False),
        ("fourth", True),
        ("fifth", False),
    ]
    assert len(place_labels(np.full(9, 0.5), np.full(9, 0.5), ["name"] * 9, 5)) == 2, "one on each side"
    assert len(place_labels(np.full(40, 0.5), np.linspace(0, 1, 40), ["n"] * 40, 5)) == MAX_LABELS
    (long,) = place_labels(np.array([0.5]), np.array([0.5]), ["<" * 500], 5)
    text = draw_label(long, "50%", "50%", 5)
    assert len(long.text) < 60 and "&lt;" in text and ElementTree.fromstring(text).get("aria-hidden") == "true"


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=40))
def test_a_label_covers_none_of_the_first_dots(places: list[tuple[float, float]]) -> None:
    x, y = (np.array([place[axis] for place in places]) for axis in (0, 1))
    width, height = PLOT_PX
    for label in place_labels(x, y, ["name"] * len(places), 3):
        sign = -1 if label.is_left else 1
        # In the middle of its height, from its begin next to the dot over the width of its first letter.
        begin = x[label.at] * width + sign * 6
        near = (np.abs(y - y[label.at]) * height < 3) & (np.abs(x * width - (begin + sign * 3)) < 3)
        assert not near[:MAX_LABELS].any(), label


def test_levels_are_by_the_square_root_of_the_weight() -> None:
    assert weight_levels(np.array([100.0, 25.0, 1.0, 0.0])).tolist() == [10, 5, 1, 1]
    assert weight_levels(np.zeros(2)).tolist() == [1, 1] and not len(weight_levels(np.zeros(0)))


def test_dots_tips_means_and_the_box() -> None:
    axes = (ScatterAxis(1, 100, True), ScatterAxis(0, 4, False))
    text = draw_dots(
        "Functions <b>",
        axes,
        np.array([10.0, 1.0]),
        np.array([1.0, 4.0]),
        np.array([10, 3]),
        ["<script>\x00", "second"],
        means=(math.nan, 2.0),
        box=Box((10, None), (None, 9)),
    )
    root = ElementTree.fromstring(text)
    assert "<script>" not in text and "style=" not in text
    dots = [(dot.get("cx"), dot.get("cy"), dot.get("class")) for dot in root.iter(f"{SVG}circle")]
    assert dots == [("0.00%", "0.00%", "dot-3"), ("50.00%", "75.00%", "dot-10")], "the first in front"
    assert [line.get("y1") for line in root.iter(f"{SVG}line") if line.get("class") == "scatter-mean"] == ["50.00%"]
    (box,) = root.iter(f"{SVG}rect")
    assert [box.get(word) for word in ("x", "y", "width", "height")] == ["50.00%", "0.00%", "50.00%", "100.00%"]
    labels = draw_x_labels(axes[0], [str(tick) for tick in axes[0].ticks()]), draw_y_labels(axes[1], ["a"] * 5)
    for label in (*labels, draw_levels()):
        ElementTree.fromstring(label)
