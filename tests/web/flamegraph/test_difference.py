"""The differential flame graph on the page that compares: widths, colors, descriptions, and reversed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from perfloom.analysis.compare.flamegraph import flame_diff
from perfloom.analysis.stacks.flamegraph import FlameGroup
from perfloom.charts import flamegraph_svg, palette
from perfloom.domain.selection import Selection
from tests.web.flamegraph import making
from tests.web.flamegraph.conftest import Graph, Server
from tests.web.flamegraph.test_page import pixel

PAIR = "base=before000000&other=after0000000"


@pytest.fixture
def compare(graph: Graph) -> Callable[[str], Graph]:
    """Open the page that compares small with changed."""

    def open_page(query: str = "", pair: str = PAIR) -> Graph:
        graph.goto(f"/compare?{pair}&group=none" + (f"&{query}" if query else ""))
        graph.settled()
        graph.page.wait_for_timeout(50)
        return graph

    return open_page


def colour(graph: Graph, name: str) -> str:
    """What the first frame of that name is filled with."""
    x, y = graph.place(name)
    graph.page.wait_for_timeout(50)
    return pixel(graph, x, y - 6)


@pytest.mark.slow
def test_frames_of_few_samples_are_gray(compare: Callable[..., Graph]) -> None:
    """Four samples in each: what they differ by says nothing."""
    graph = compare("normalise=0", "base=small0000000&other=changed00000")
    assert colour(graph, "fresh") == colour(graph, "right") == palette.LIGHT.too_few_samples


def is_red(found: str) -> bool:
    return int(found[1:3], 16) > int(found[5:7], 16) + 10


def is_blue(found: str) -> bool:
    return int(found[5:7], 16) > int(found[1:3], 16) + 10


def test_more_is_red_less_is_blue_and_the_same_is_pale(compare: Callable[..., Graph]) -> None:
    graph = compare("normalise=0")
    assert graph.names() == ["all", "main", "right", "leaf", "left", "leaf", "fresh"]
    assert colour(graph, "fresh") == palette.LIGHT.diff[2]
    assert is_red(colour(graph, "right")) and is_blue(colour(graph, "left"))
    white = graph.ask("({view, picture}) => { const b = view.box(5); return [b.left + b.width / 2, b.top + 3]; }")
    assert pixel(graph, *white) == palette.LIGHT.diff[1]
    # Widths are the newer one's.
    assert graph.ask("({view}) => view.box(2).width / view.width") == pytest.approx(60 / 120, abs=0.01)


def test_rules_for_names_are_part_of_the_requests(compare: Callable[..., Graph]) -> None:
    graph = compare("names=modules")
    requests = graph.page.evaluate("performance.getEntriesByType('resource').map((entry) => entry.name)")
    data = [request for request in requests if "/api/v1/compare/flamegraph?" in request]
    assert data and all("names=modules" in request for request in data)


def test_normalized_graph_compares_shares(compare: Callable[..., Graph]) -> None:
    graph = compare()
    # 45 of 100 before, 45 of 120 now.
    blue = graph.ask("({view, picture}) => { const b = view.box(5); return [b.left + b.width / 2, b.top + 3]; }")
    assert is_blue(pixel(graph, *blue))
    assert colour(graph, "main") == palette.LIGHT.diff[1]


def test_reversed_shows_vanished_frames_on_the_page(compare: Callable[..., Graph]) -> None:
    graph = compare()
    assert "other" not in graph.names()
    graph.page.get_by_label("Show vanished").check()
    graph.page.wait_for_url(re.compile("reverse=1"))
    graph.page.get_by_text("Widths are those of the base.").wait_for()
    graph.settled()
    assert graph.names() == ["all", "main", "left", "leaf", "other", "right", "leaf"]
    assert colour(graph, "other") == palette.LIGHT.diff[0]
    assert is_red(colour(graph, "right"))
    assert graph.ask("({view}) => view.box(2).width / view.width") == pytest.approx(0.6, abs=0.01)
    graph.page.go_back()
    graph.until("({idle, picture}) => idle && picture.count === 7 && picture.name(2) === 'right'")


GREW = "Total 30.00 % (30.0 ms) 50.00 % (60.0 ms)"
GONE = "15.00 % (15.0 ms) 0 % (0 s) −15.00 points"
NOTHING = "Self 0 % (0 s) 0 % (0 s)"


@pytest.mark.parametrize(
    ("query", "name", "rows"),
    [
        ("", "right", [f"{GREW} +20.00 points", f"{NOTHING} ±0.00 points"]),
        ("normalise=0", "right", [f"{GREW} +30.0 ms", f"{NOTHING} ±0 s"]),
        ("reverse=1", "other", [f"Total {GONE}", f"Self {GONE}"]),
        ("reverse=1&normalise=0", "right", [f"{GREW} +30.0 ms", f"{NOTHING} ±0 s"]),
    ],
)
def test_the_tooltip_has_both_and_the_change(
    compare: Callable[..., Graph], query: str, name: str, rows: list[str]
) -> None:
    graph = compare(query)
    graph.page.mouse.move(*graph.place(name))
    tip = graph.page.locator(".flame-tip")
    tip.filter(has_text=name).wait_for()
    lines = [" ".join(row.split()) for row in tip.locator("tr").all_inner_texts()]
    assert lines == ["Base Other Change", *rows]


def test_zoom_and_search_work_here_too(compare: Callable[..., Graph]) -> None:
    graph = compare("normalise=0")
    graph.click("right")
    assert graph.zoomed() == "right" and "zoom" in graph.query()
    graph.page.mouse.move(*graph.place("main"))
    graph.page.locator(".flame-tip").filter(has_text="120 ms").wait_for()
    graph.page.keyboard.press("Escape")
    graph.settled()
    field = graph.page.get_by_placeholder("Search (regex)")
    field.fill("^right$")
    graph.page.locator(".flame-search__matched").filter(has_text="50.00").wait_for()
    assert graph.query()["q"] == "^right$"


def test_focus_also_filters_the_table(compare: Callable[..., Graph]) -> None:
    graph = compare()
    assert graph.page.get_by_role("rowheader", name="fresh").count() == 1
    graph.choose("right", "Focus")
    graph.page.wait_for_url(re.compile("focus="))
    graph.page.get_by_role("rowheader", name="fresh").wait_for(state="detached")
    graph.settled()
    assert graph.names() == ["all", "main", "right", "leaf"]
    graph.page.go_back()
    graph.page.get_by_role("rowheader", name="fresh").wait_for()
    graph.until("({idle, picture}) => idle && picture.count === 7")


def test_grouped_and_zoomed_on_large_ones(compare: Callable[..., Graph]) -> None:
    graph = compare(pair="base=large0000000&other=larger000000")
    graph.page.get_by_label("Group by").select_option("thread")
    graph.settled()
    graph.ask("(panel) => panel.zoomTo(panel.picture.ids[panel.picture.rowNodes[panel.picture.rowStart[3]]])")
    graph.until("({idle, picture, view}) => idle && picture.top === view.zoomed && picture.lead === 3")
    faults = graph.ask(
        """({picture}) => Array.from({length: picture.count}, (_, i) => i)
            .filter((i) => !(picture.base.totals[i] >= 0)).length"""
    )
    assert faults == 0


def test_without_scripts(other_graph: Callable[..., Graph]) -> None:
    graph = other_graph(java_script_enabled=False)
    graph.goto(f"/compare?{PAIR}&group=none")
    picture = graph.page.frame_locator("iframe.flame__static")
    picture.locator("#frames").wait_for()
    assert picture.locator(".f text").all_text_contents() == ["all", "main", "right", "leaf", "left", "leaf", "fresh"]
    graph.page.get_by_label("Show vanished").check()
    graph.page.locator("[data-flame-controls]").get_by_role("button", name="Show").click()
    graph.page.wait_for_url(re.compile("reverse=1"))
    picture.locator(".f text", has_text="other").wait_for()
    picture.locator("a", has_text="left").first.click()
    graph.page.wait_for_url(re.compile(r"zoom=\d"))


def test_hostile_names_in_both_results(compare: Callable[..., Graph]) -> None:
    graph = compare(pair="base=hostile00000&other=hostile00000")
    for node in range(graph.ask("({picture}) => picture.count")):
        graph.ask("({view}, node) => view.focus(node)", node)
    assert graph.page.evaluate("() => window.pwned") is None


@pytest.mark.parametrize("reverse", [False, True])
def test_svg_has_the_same_text_and_colors(reverse: bool) -> None:
    base, other = making.small(making.OFTEN), making.changed(making.OFTEN)
    tree = flame_diff(base, other, Selection(), Selection(), group=FlameGroup.NONE, normalize=False, reverse=reverse)
    document = flamegraph_svg.write_svg(
        tree, base if reverse else other, title="", style=flamegraph_svg.FlameSvgStyle(theme="light")
    )
    root = ElementTree.fromstring(document.encode())
    space = "{http://www.w3.org/2000/svg}"
    style = root.findtext(f"{space}style") or ""
    frames = {}
    for group in root.iter(f"{space}g"):
        title, rect = group.findtext(f"{space}title"), group.find(f"{space}rect")
        if title and rect is not None and "data-d" in group.attrib:
            fill = re.search(rf"\.{rect.get('class')}{{fill:(#\w+)}}", style)
            assert fill is not None
            frames.setdefault(title.split("\n")[0], (title.replace("\u00a0", " "), fill[1]))
    assert "total: base 30.00 %, other 50.00 %" in frames["right"][0] and is_red(frames["right"][1])
    assert is_blue(frames["left"][1])
    gone = frames["other"] if reverse else frames["fresh"]
    assert gone[1] == palette.LIGHT.diff[0 if reverse else 2]


def test_a_program_gets_the_same(server: Server) -> None:
    answer = json.loads(server.get(f"/api/v1/compare/flamegraph?{PAIR}&group=none&normalise=0"))
    names = [answer["functions"]["name"][index] for index in answer["nodes"]["function"]]
    table = dict(zip(names, zip(answer["nodes"]["total"], answer["nodes"]["base_total"], strict=True), strict=True))
    assert table["right"] == (60_000_000, 30_000_000) and table["fresh"] == (5_000_000, 0)
    texts = answer["base"].pop("evidence")
    assert dict(zip(names, answer["nodes"]["evidence"], strict=True))["right"] == 0 and texts[0] == ""
    assert answer["base"] == {"total": 100_000_000, "measured": 100_000_000, "reversed": False}
