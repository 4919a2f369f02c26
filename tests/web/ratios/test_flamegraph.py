"""Flame graphs that a formula colors, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.analysis.ratios.test_frame_values import two_functions
from tests.web.conftest import Browser
from tests.web.html import read

ID = "ordinary0000"
PAGE = f"/results/{ID}/flamegraph"
DATA = f"/api/v1/results/{ID}/flamegraph"
SVG = "{http://www.w3.org/2000/svg}"


def values(answer: Any) -> dict[str, tuple[float | None, int | None]]:
    nodes = answer["nodes"]
    names = [answer["functions"]["name"][function] for function in nodes["function"]]
    return dict(zip(names, zip(nodes["value"], nodes["shade"], strict=True), strict=True))


def test_the_page_offers_formulas(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(two_functions())
    page = browser_client.page(PAGE)
    assert '<option value="IPC">IPC</option>' in page and 'name="of"' in page
    page = browser_client.page(f"{PAGE}?colour=cycles / instructions * 2&of=self")
    assert '<option value="cycles / instructions * 2" selected>' in page and '<option value="self" selected>' in page
    assert "colour=cycles" in page.split('class="flame__static" src="')[1].split('"')[0]


def test_the_answer_has_values_and_the_scale(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(two_functions())
    answer = browser_client.client.get(f"{DATA}?colour=CPI&group=none").json
    assert answer is not None
    found = values(answer)
    assert found["slow"][0] == 4 and found["fast"][0] == 0.5 and found["idle"] == (None, None)
    assert found["main"] == (pytest.approx(530 / 300, rel=1e-5), 0)
    assert (found["slow"][1] or 0) > 0 > (found["fast"][1] or 0)
    scale = answer["values"]
    assert scale["name"] == "CPI" and scale["part"] == "total" and scale["log"] is True
    assert scale["low"] == pytest.approx(530 / 300 / 5) and scale["mean"] == pytest.approx(530 / 300)
    # Self weights: main has none itself.
    answer = browser_client.client.get(f"{DATA}?colour=CPI&group=none&of=self").json
    assert answer is not None and values(answer)["main"] == (None, None) and values(answer)["slow"][0] == 4
    # The selection applies, also to the mean; frames above the zoomed one have values.
    answer = browser_client.client.get(f"{DATA}?colour=CPI&group=none&focus=slow").json
    assert answer is not None and answer["values"]["mean"] == 4
    zoomed = browser_client.client.get(f"{DATA}?colour=CPI&group=none&zoom=2").json
    assert zoomed is not None and zoomed["zoom"][1]["value"] == pytest.approx(530 / 300, rel=1e-5)
    # Time order is not supported with values; without them nothing changes.
    timed = browser_client.client.get(f"{DATA}?colour=CPI&group=none&order=time").json
    assert timed is not None and values(timed)["slow"][0] == 4 and "start" not in timed["nodes"]
    plain = browser_client.client.get(f"{DATA}?group=none&colour=module").json
    assert plain is not None and "values" not in plain and "value" not in plain["nodes"]


def test_callers_and_callees_have_values(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(two_functions())
    answer = browser_client.client.get(f"/api/v1/results/{ID}/sandwich?function=slow&colour=CPI").json
    assert answer is not None
    for part in ("callers", "callees"):
        assert values(answer[part])["slow"][0] == 4


@pytest.mark.parametrize("query", ["", "&download=1"])
def test_the_svg_has_colors_values_and_a_legend(
    stored: Callable[..., str], browser_client: Browser, query: str
) -> None:
    stored(two_functions())
    text = browser_client.page(f"{PAGE}.svg?colour=CPI&group=none{query}")
    root = ElementTree.fromstring(text)
    tips = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert any(tip.startswith("slow\n") and "CPI (total) 4, 2.264 × the mean" in tip for tip in tips)
    assert any(tip.startswith("idle\n") and "CPI (total) –" in tip for tip in tips)
    words = [words.text or "" for words in root.iter(f"{SVG}text")]
    for expected in ("CPI (total, logarithmic scale): ≤ 0.3533", "mean 1.767", "≥ 8.833", "– no value"):
        assert expected in words, expected
    classes = {rect.get("class") for rect in root.iter(f"{SVG}rect") if rect.get("class") != "ground"}
    style = next(root.iter(f"{SVG}style")).text or ""
    assert all(f".{name}{{fill:" in style for name in classes if name), "each color is declared"


@pytest.mark.parametrize(
    ("query", "word"),
    [("colour=red", "colour"), ("colour=cycles /", "ends too early"), ("colour=CPI&of=both", "of must be one of")],
)
def test_bad_parameters_are_explained(
    stored: Callable[..., str], browser_client: Browser, query: str, word: str
) -> None:
    stored(two_functions())
    for path in (PAGE, f"{PAGE}.svg", DATA):
        assert word in browser_client.page(f"{path}?{query}", 400), path


def test_hostile_names_do_no_harm(evil: str, browser_client: Browser) -> None:
    for query in ("colour='<script>' / 1", "colour=IPC"):
        answer = browser_client.client.get(f"/results/{evil}/flamegraph?{query}")
        assert read(answer.text).faults == []
