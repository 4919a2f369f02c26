"""The flame graph in a browser: zoom, address, search, answers that come late or not at all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from perfloom.analysis.stacks.hotspots import compute_hotspots
from perfloom.domain.selection import Selection
from tests.web.flamegraph import making
from tests.web.flamegraph.conftest import Graph

if TYPE_CHECKING:
    from playwright.sync_api import Route

API = re.compile(r"/api/v1/results/[a-z0-9]+/flamegraph\?")


def crumbs(graph: Graph) -> list[str]:
    return [text.replace("\u00a0", " ") for text in graph.page.locator(".flame__crumbs li").all_inner_texts()]


def test_a_click_zooms_and_escape_resets(graph: Graph) -> None:
    graph.open("small0000000", "group=none")
    assert graph.names() == ["all", "main", "left", "leaf", "other", "right", "leaf"]
    assert crumbs(graph) == ["all 100.00 %"]
    graph.click("left")
    assert graph.zoomed() == "left" and "zoom" in graph.query()
    assert crumbs(graph) == ["all 100.00 %", "main 100.00 %", "left 60.00 %"]
    assert graph.ask("({view, picture}) => view.box(view.zoomed).width / view.width") == pytest.approx(1)
    graph.page.keyboard.press("Escape")
    graph.settled()
    assert graph.zoomed() == "all" and "zoom" not in graph.query()
    assert crumbs(graph) == ["all 100.00 %"]


@pytest.mark.parametrize(("group", "text"), [("none", "all"), ("thread", "thread"), ("comm", "thread name")])
def test_legend_has_the_color_of_groups(graph: Graph, group: str, text: str) -> None:
    """As the SVG has it; not where the color says something else."""
    graph.open("small0000000", f"group={group}")
    legend = graph.page.locator(".flame__legend li")
    assert legend.first.inner_text() == text
    swatch = legend.first.locator("span").evaluate("swatch => getComputedStyle(swatch).backgroundColor")
    assert swatch == "rgb(188, 205, 222)"
    svg = graph.server.get(f"/results/small0000000/flamegraph.svg?group={group}").decode()
    assert f">{text}</text>" in svg.split('class="legend"')[1]
    graph.open("small0000000", f"group={group}&colour=hot")
    assert legend.all_inner_texts() == ["no self weight – most"]


def test_note_of_the_search_is_not_cut(graph: Graph) -> None:
    graph.page.set_viewport_size({"width": 1400, "height": 700})
    graph.open("small0000000")
    field, note = graph.page.locator("[data-flame-bar] input[name=q]"), graph.page.locator(".flame-search__matched")
    before = field.bounding_box()
    field.fill("[(left")
    graph.page.wait_for_function("note => note.textContent.endsWith('(plain text)')", arg=note.element_handle())
    assert note.evaluate("note => note.scrollWidth <= note.clientWidth && note.scrollHeight <= note.clientHeight")
    after = field.bounding_box()
    assert before and after and (before["width"], before["height"]) == (after["width"], after["height"])


def test_drag_is_not_a_click(graph: Graph) -> None:
    graph.open("small0000000")
    url = graph.page.url
    x, y = graph.place("left")
    mouse = graph.page.mouse
    for way in ([(x - 400, y)], [(x + 20, y), (x, y)]):
        mouse.move(x, y)
        mouse.down()
        for to in way:
            mouse.move(*to, steps=3)
        mouse.up()
        assert graph.page.evaluate("new Promise((done) => requestAnimationFrame(() => done(location.href)))") == url
    mouse.move(x, y)
    mouse.down()
    mouse.move(x + 2, y + 1)
    mouse.up()
    graph.page.wait_for_url(re.compile("zoom="))


def test_callers_stay_in_their_rows_and_lead_back(graph: Graph) -> None:
    graph.open("small0000000", "group=none")
    before = graph.ask("({view, picture}) => view.box(picture.find(picture.ids[2])).top")
    graph.click("left")
    assert graph.ask("({view, picture}) => view.box(view.zoomed).top") == pytest.approx(before)
    graph.click("leaf")
    graph.click("main")
    assert graph.zoomed() == "main"
    graph.page.locator(".flame__crumbs a").first.click()
    graph.settled()
    assert graph.zoomed() == "all"


def test_zooming_loads_narrow_frames(graph: Graph) -> None:
    graph.open("large0000000", "group=none")
    whole = graph.ask("({picture}) => ({pruned: picture.pruned, count: picture.count, ids: [...picture.ids]})")
    assert whole["pruned"] > 1_000
    assert (
        graph.page.locator(".flame__left").inner_text().startswith(f"{whole['pruned']:,} narrower frames are not drawn")
    )
    graph.ask("(panel) => panel.zoomTo(panel.picture.ids[panel.picture.rowNodes[panel.picture.rowStart[6]]])")
    graph.settled()
    finer = graph.ask("({picture}) => ({pruned: picture.pruned, ids: [...picture.ids], span: picture.span})")
    assert finer["pruned"] < whole["pruned"]
    assert len(set(finer["ids"]) - set(whole["ids"])) > 20
    # Half a pixel is the limit at every zoom.
    narrowest = graph.ask("({picture, view}) => Math.min(...picture.total.slice(picture.top)) / picture.span")
    assert narrowest >= 0.5 / 1280 - 1e-9


def test_the_picture_is_scaled_at_once_and_made_finer_when_the_answer_comes(graph: Graph) -> None:
    graph.open("large0000000", "group=none")
    held: list[Route] = []
    graph.page.route(API, lambda route: held.append(route))
    before = graph.ask("({picture}) => picture.count")
    graph.ask("(panel) => panel.zoomTo(panel.picture.ids[panel.picture.rowNodes[panel.picture.rowStart[5]]])")
    graph.until("({view}) => !view.moving && view.zoomed > 0")
    assert graph.ask("({picture}) => picture.count") == before
    assert graph.ask("({view}) => view.box(view.zoomed).width / view.width") == pytest.approx(1)
    graph.until("({root}) => root.classList.contains('flame--busy')")
    while held:
        held.pop().continue_()
    graph.settled()
    assert not graph.ask("({root}) => root.classList.contains('flame--busy')")
    assert graph.ask("({picture, view}) => picture.top === view.zoomed && picture.lead > 0")


def test_an_answer_that_comes_too_late_is_not_shown(graph: Graph) -> None:
    graph.open("large0000000", "group=none")
    held: list[Route] = []
    # The first of two answers is kept back until the second is shown.
    graph.page.route(API, lambda route: held.append(route) if not held else route.continue_())
    first, second = graph.ask(
        """({picture}) => [0, 1].map((n) => picture.ids[picture.rowNodes[picture.rowStart[4] + n]])"""
    )
    graph.ask("(panel, id) => panel.zoomTo(id)", first)
    graph.page.wait_for_timeout(50)
    graph.ask("(panel, id) => panel.zoomTo(id)", second)
    graph.until("({picture}, id) => picture.ids[picture.top] === id", second)
    assert len(held) == 1
    held[0].continue_()
    graph.page.wait_for_timeout(300)
    assert graph.ask("({picture}) => picture.ids[picture.top]") == second
    assert graph.query()["zoom"] == str(int(second))


def test_a_failure_is_shown_on_the_page_and_can_be_retried(graph: Graph) -> None:
    graph.open("large0000000")
    graph.page.route(API, lambda route: route.abort())
    graph.page.get_by_label("Inverted").check()
    alert = graph.page.get_by_role("alert").filter(has_text="No response from the server")
    alert.wait_for()
    graph.page.unroute(API)
    alert.get_by_role("button", name="Try again").click()
    graph.until("({root}) => root.querySelector('[data-flame=error]').hidden")
    assert graph.ask("({picture}) => picture.count") > 100


def test_errors_of_the_server_are_shown_on_the_page(graph: Graph) -> None:
    graph.open("small0000000")
    graph.page.evaluate("() => history.pushState(null, '', '?focus=(')")
    graph.page.evaluate("() => dispatchEvent(new PopStateEvent('popstate'))")
    graph.page.get_by_role("alert").filter(has_text="regular expression").wait_for()
    graph.page.go_back()
    graph.until("({root, idle}) => idle && root.querySelector('[data-flame=error]').hidden")
    assert "leaf" in graph.names()


def test_the_address_is_the_whole_state(graph: Graph) -> None:
    graph.open("large0000000")
    page = graph.page
    page.get_by_label("Group by").select_option("process")
    page.get_by_label("Color by").select_option("module")
    page.get_by_label("Root at bottom").check()
    graph.settled()
    graph.ask("(panel) => panel.zoomTo(panel.picture.ids[panel.picture.rowNodes[panel.picture.rowStart[3]]])")
    graph.settled()
    page.get_by_placeholder("Search").fill("kernel::")
    page.locator(".flame-search__matched").filter(has_text="functions").wait_for()
    seen = "({picture, view, root}) => [[...picture.ids], view.up, picture.ids[view.zoomed]]"
    state, query = graph.ask(seen), graph.query()
    assert query | {"zoom": ""} == {"group": "process", "colour": "module", "grow": "up", "q": "kernel::", "zoom": ""}
    legend = page.locator(".flame__legend li").all_inner_texts()
    assert "libc.so.6" in legend

    page.reload()
    graph.settled()
    assert graph.ask(seen) == state and graph.query() == query
    assert page.locator(".flame__legend li").all_inner_texts() == legend
    assert page.get_by_placeholder("Search").input_value() == "kernel::"
    assert page.get_by_label("Group by").input_value() == "process"
    assert page.get_by_label("Root at bottom").is_checked()


def test_back_and_forward_walk_through_the_zooms(graph: Graph) -> None:
    graph.open("small0000000", "group=none")
    for name in ("main", "left", "leaf"):
        graph.click(name)
    trail = []
    for _ in range(3):
        graph.page.go_back()
        graph.settled()
        trail.append(graph.zoomed())
    assert trail == ["left", "main", "all"]
    graph.page.go_forward()
    graph.settled()
    assert graph.zoomed() == "main"
    assert [text.split()[0] for text in crumbs(graph)] == ["all", "main"]


def test_typing_leaves_no_trail_of_steps(graph: Graph) -> None:
    graph.open("small0000000")
    before = graph.page.evaluate("() => history.length")
    graph.page.get_by_placeholder("Search").press_sequentially("leaf", delay=200)
    graph.page.locator(".flame-search__matched").filter(has_text="1 function").wait_for()
    assert graph.query() == {"q": "leaf"} and graph.page.evaluate("() => history.length") == before


@pytest.mark.parametrize("pattern", ["^leaf$", "l.af", "(?i)LEFT|RIGHT", "other"])
def test_the_search_agrees_with_the_table(graph: Graph, pattern: str) -> None:
    graph.open("small0000000")
    graph.page.get_by_placeholder("Search").fill(pattern)
    said = graph.page.locator(".flame-search__matched")
    said.filter(has_text=" in ").wait_for()
    table = compute_hotspots(making.small(), Selection())
    found = {
        "^leaf$": table[table.name == "leaf"].total_percent.sum(),
        "l.af": table[table.name == "leaf"].total_percent.sum(),
        # No stack has both.
        "(?i)LEFT|RIGHT": table[table.name.isin(["left", "right"])].total_percent.sum(),
        "other": table[table.name == "other"].total_percent.sum(),
    }[pattern]
    assert said.inner_text().replace("\u00a0", " ").startswith(f"{found:.2f} % in ")


def test_matches_are_magenta_and_other_frames_pale(graph: Graph) -> None:
    graph.open("small0000000", "group=none")
    x, y = graph.place("left")
    before = pixel(graph, x, y - 6)
    graph.page.get_by_placeholder("Search").fill("leaf")
    graph.page.locator(".flame-search__matched").filter(has_text="function").wait_for()
    graph.page.wait_for_timeout(50)
    assert pixel(graph, *shifted(graph.place("leaf"))) == "#f050f0"
    pale = pixel(graph, x, y - 6)
    assert pale != before and int(pale[1:], 16) > int(before[1:], 16)
    graph.page.get_by_placeholder("Search").fill("")
    graph.until("() => !new URLSearchParams(location.search).has('q')")
    graph.page.wait_for_timeout(50)
    assert pixel(graph, x, y - 6) == before


def test_next_and_previous_match(graph: Graph) -> None:
    graph.open("small0000000", "group=none")
    field = graph.page.get_by_placeholder("Search")
    field.fill("leaf|other")
    graph.page.locator(".flame-search__matched").filter(has_text="2 functions").wait_for()
    focused = "({picture, view}) => [view.focused, picture.name(view.focused)]"
    visited = []
    for key in ("Enter", "Enter", "Enter", "Enter", "Shift+Enter"):
        field.press(key)
        visited.append(graph.ask(focused)[1] + str(graph.ask(focused)[0]))
    assert visited == ["leaf3", "other4", "leaf6", "leaf3", "leaf6"]


def test_a_wrong_pattern_is_searched_for_literally(graph: Graph) -> None:
    graph.open("small0000000")
    field = graph.page.get_by_placeholder("Search")
    size = field.bounding_box()
    field.fill("a(")
    graph.page.locator(".flame-search__matched").filter(has_text="plain text").wait_for()
    assert field.get_attribute("aria-invalid") is None
    assert field.bounding_box() == size
    field.fill("x" * 3000)
    graph.page.locator(".flame-search--wrong .flame-search__matched").wait_for()
    assert field.get_attribute("aria-invalid") == "true"
    assert field.bounding_box() == size
    field.fill("leaf")
    graph.page.locator(".flame-search__matched").filter(has_text="1 function").wait_for()
    assert field.get_attribute("aria-invalid") is None
    field.fill("nowhere")
    graph.page.locator(".flame-search__matched").filter(has_text="No function matches").wait_for()


def test_keys_lead_to_the_search(graph: Graph) -> None:
    graph.open("small0000000")
    is_there = "() => document.activeElement.name === 'q'"
    for key in ("Control+f", "/"):
        graph.page.locator("h1").click()
        assert not graph.page.evaluate(is_there)
        graph.page.keyboard.press(key)
        assert graph.page.evaluate(is_there)
    assert graph.page.get_by_placeholder("Search").input_value() == ""


def test_switching_the_event_needs_no_new_page(graph: Graph) -> None:
    graph.open("large0000000", "colour=module")
    graph.page.evaluate("() => { window.mark = 1; }")
    graph.page.get_by_role("link", name="page-faults", exact=True).click()
    graph.until("({idle, picture}) => idle && picture.event === 'page-faults'")
    assert graph.page.evaluate("() => window.mark") == 1
    assert graph.query() == {"colour": "module", "event": "page-faults"}
    # The tabs and the bar follow.
    graph.page.locator(".tabs a[href*='event=page-faults']", has_text="Hotspots").wait_for()
    graph.page.locator(".selection [aria-current]", has_text="page-faults").wait_for()
    graph.page.go_back()
    graph.until("({idle, picture}) => idle && picture.event === 'cpu-clock'")
    graph.page.locator(".selection [aria-current]", has_text="cpu-clock").wait_for()


def test_every_order_and_group_draws_the_same_weight(graph: Graph) -> None:
    graph.open("large0000000")
    total = graph.ask("({picture}) => picture.whole")
    for label, values in (("Order", ("time", "name", "weight")), ("Group by", ("none", "process", "thread", "comm"))):
        for value in values:
            graph.page.get_by_label(label).select_option(value)
            graph.settled()
            assert graph.ask("({picture}) => [picture.whole, picture.total[0]]") == [total, total]
            assert graph.ask("({view}) => view.drawn.frames") > 10


def test_inverted_shows_callers(graph: Graph) -> None:
    graph.open("small0000000", "group=none")
    graph.page.get_by_label("Inverted").check()
    graph.until("({idle}) => idle")
    assert graph.names() == ["all", "leaf", "left", "main", "right", "main", "other", "left", "main", "main"]
    graph.page.get_by_role("link", name=re.compile("Remove Direction")).wait_for()


def test_an_unknown_zoom_shows_the_whole_and_corrects_the_address(graph: Graph) -> None:
    graph.open("small0000000", "zoom=999999")
    assert graph.zoomed() == "all" and graph.query() == {}


def test_without_samples_the_page_shows_advice(graph: Graph) -> None:
    graph.open("empty0000000")
    told = graph.page.locator("[data-flame=empty]")
    assert told.is_visible() and "record" in told.inner_text()
    assert not graph.page.locator("canvas").is_visible()
    # Filtered to nothing, and back.
    graph.open("small0000000", "focus=nowhere")
    assert "Remove a filter" in graph.page.locator("[data-flame=empty]").inner_text()
    graph.page.get_by_role("link", name=re.compile("Remove Focus")).click()
    graph.until("({idle, picture}) => idle && !picture.empty")
    assert graph.page.locator("canvas").is_visible()


def test_a_stack_of_3000_frames_scrolls_with_the_page(graph: Graph) -> None:
    graph.open("deep00000000")
    page = graph.page
    rows, height = graph.ask("({picture, root}) => [picture.rows, root.querySelector('.flame__stage').offsetHeight]")
    assert rows == 3002 and height == 3002 * 18
    assert graph.ask("({view}) => view.canvas.height") < 3_000
    page.mouse.move(*graph.place("level_0"))
    page.mouse.wheel(0, 20_000)
    graph.until("() => scrollY > 15000")
    # What is at the pointer is what is drawn there.
    graph.page.wait_for_timeout(100)
    x, y = graph.place("level_1500")
    assert graph.ask("({view, picture}, [x, y]) => picture.name(view.at(x, y))", [x, y]) == "level_1500"
    assert pixel(graph, x + 300, y - 6) != "#ffffff"
    graph.click("level_2000")
    assert graph.zoomed() == "level_2000"
    assert 0 < graph.ask("({view}) => view.box(view.zoomed).top") < 800
    assert graph.page.locator(".flame__crumbs li").count() < 10
    page.keyboard.press("Escape")
    graph.settled()
    assert graph.zoomed() == "all"


def test_a_deep_flame_has_its_root_in_sight(graph: Graph) -> None:
    graph.open("deep00000000", "grow=up")
    assert 0 < graph.ask("({view}) => view.box(0).top") < 800
    graph.page.get_by_label("Root at bottom").uncheck()
    graph.settled()
    assert 0 < graph.ask("({view}) => view.box(0).top") < 800


def test_a_wider_window_gets_more_frames(graph: Graph) -> None:
    graph.page.set_viewport_size({"width": 600, "height": 800})
    graph.open("large0000000")
    before = graph.ask("({picture}) => picture.count")
    graph.page.set_viewport_size({"width": 1900, "height": 800})
    graph.until("({idle, picture}, before) => idle && picture.count > before", before)
    assert graph.ask("({view}) => view.canvas.width") > 1_800


def test_drawing_100000_frames_leaves_time_in_every_frame_of_the_screen(graph: Graph) -> None:
    graph.open("large0000000", "group=none")
    times = graph.ask(
        """async (panel) => {
            const folder = new URL(".", document.querySelector('script[src*="charts/flamegraph.js"]').src);
            const { Picture, extent } = await import(`${folder}flamegraph/model.js`);
            const { Painter } = await import(`${folder}flamegraph/paint.js`);
            const { Palette, ModuleColors, nodeColors } = await import(`${folder}flamegraph/palette.js`);
            const tree = [{total: 1e9, inside: []}];
            for (let n = 0; tree.length < 100_000; n++) {
                for (const part of [0.5, 0.3, 0.15].slice(0, n < 40 ? 1 : 3)) {
                    const child = {total: Math.floor(tree[n].total * (n < 40 ? 1 : part)), inside: []};
                    tree[n].inside.push(child);
                    tree.push(child);
                }
            }
            const nodes = {id: [], depth: [], function: [], self: [], total: []};
            const add = (node, depth) => {
                const id = nodes.id.length;
                const row = {id, depth, function: id % 500, self: 1, total: node.total};
                for (const key in row) nodes[key].push(row[key]);
                for (const child of node.inside) add(child, depth + 1);
            };
            add(tree[0], 0);
            const names = Array.from({length: 500}, (_, i) => `some::function<of_type_${i}>::operator()`);
            const picture = new Picture({
                event: "e", unit: "ns", total: nodes.total[0], pruned: 0, kinds: ["user", "kernel"],
                zoom: [{id: 0, name: "x", total: nodes.total[0], depth: 0, function: 0}], nodes,
                functions: {id: names.map((_, i) => i), name: names, short: [], module: names, kind: names.map((_, i) => i % 2)},
            });
            const canvas = document.createElement("canvas");
            const painter = new Painter(canvas);
            painter.style(12, "sans-serif", 1);
            painter.resize(1900, 60);
            const palette = new Palette(document.documentElement);
            const fills = nodeColors(picture, "kind", palette, new ModuleColors());
            const scene = {picture, up: false, first: 0, zoomDepth: 0, fills, pale: fills, matches: null, palette};
            const times = [];
            let drawn = 0;
            for (let n = 0; n < 40; n++) {
                const to = picture.span * (1 - n / 80);
                const start = performance.now();
                painter.paint({...scene, from: 0, to});
                times.push(performance.now() - start);
                drawn = Math.max(drawn, painter.drawn.frames);
            }
            times.sort((a, b) => a - b);
            return {count: picture.count, drawn, median: times[20], worst: times[39]};
        }"""
    )
    assert times["count"] >= 100_000 and times["drawn"] > 50_000, times
    assert times["median"] < 16, times


def test_the_first_picture_comes_within_a_second(graph: Graph) -> None:
    graph.open("large0000000")
    graph.page.reload()
    graph.settled()
    painted = graph.until("() => performance.getEntriesByName('flamegraph-painted')[0]?.startTime")
    assert painted < 1_000


def test_responses_are_small(graph: Graph) -> None:
    for query in ("group=none", "group=comm", "group=none&invert=1"):
        with graph.page.expect_response(API) as answer:
            graph.open("large0000000", query)
        assert 1_000 < answer.value.request.sizes()["responseBodySize"] < 100_000


def shifted(place: tuple[float, float]) -> tuple[float, float]:
    """Beside the text."""
    return place[0], place[1] - 6


def pixel(graph: Graph, x: float, y: float) -> str:
    """The color drawn at a position of the window."""
    found: str = graph.ask(
        """({view}, [x, y]) => {
            const box = view.canvas.getBoundingClientRect();
            const scale = view.canvas.width / box.width;
            const at = [(x - box.left) * scale, (y - box.top) * scale].map(Math.floor);
            const [r, g, b, a] = view.canvas.getContext("2d").getImageData(...at, 1, 1).data;
            if (a === 0) return "#ffffff";
            return "#" + [r, g, b].map((c) => c.toString(16).padStart(2, "0")).join("");
        }""",
        [x, y],
    )
    return found
