"""What can be done with a frame: by the context menu, by the keyboard alone, by touch; and the sandwich."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Route

from perfloom.analysis.stacks.hotspots import compute_hotspots
from perfloom.domain.selection import Selection
from tests.web.flamegraph import making
from tests.web.flamegraph.conftest import Graph

FOCUSED = "({picture, view}) => view.focused < 0 ? null : picture.name(view.focused)"


def test_focus_keeps_the_stacks_with_the_function(graph: Graph) -> None:
    graph.open("small0000000", "group=none")
    graph.choose("left", "Focus")
    graph.until("({idle, picture}) => idle && picture.count < 7")
    assert graph.names() == ["all", "main", "left", "leaf", "other"]
    assert graph.query() == {"group": "none", "focus": "^left$"}
    # The selection's bar, which the server draws, follows; its way out works without a new page.
    graph.page.evaluate("() => { window.mark = 1; }")
    graph.page.get_by_role("link", name="Remove Focus ^left$").click()
    graph.until("({idle, picture}) => idle && picture.count === 7")
    assert graph.query() == {"group": "none"} and graph.page.evaluate("() => window.mark") == 1


def test_ignore_and_hide_add_up(graph: Graph) -> None:
    graph.open("small0000000", "group=none")
    graph.choose("other", "Ignore")
    graph.until("({idle, picture}) => idle && picture.whole === 85000000")
    assert graph.names() == ["all", "main", "left", "leaf", "right", "leaf"]
    graph.choose("right", "Ignore")
    graph.until("({idle, picture}) => idle && picture.whole === 55000000")
    assert graph.query()["ignore"] == "^other$|^right$"
    graph.choose("left", "Hide")
    graph.until("({idle, picture}) => idle && picture.count === 3")
    assert graph.names() == ["all", "main", "leaf"] and graph.query()["hide"] == "^left$"
    graph.page.go_back()
    graph.until("({idle, picture}) => idle && picture.count === 4")
    graph.page.go_back()
    graph.until("({idle, picture}) => idle && picture.whole === 85000000")


def test_collapse_recursion_can_be_switched_on_and_off(graph: Graph) -> None:
    graph.open("small0000000", "group=none")
    item = graph.page.get_by_role("menuitemcheckbox", name="Collapse recursion")
    for on in (True, False):
        graph.page.mouse.click(*graph.place("left"), button="right")
        assert item.get_attribute("aria-checked") == str(not on).lower()
        item.click()
        graph.settled()
        assert graph.query().get("recursion") == ("1" if on else None)
        assert graph.page.get_by_label("Collapse recursion").is_checked() is on


def test_find_and_copy(graph: Graph) -> None:
    graph.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    graph.open("small0000000", "group=none")
    graph.choose("leaf", "Search for")
    graph.page.locator(".flame-search__matched").filter(has_text="75.00").wait_for()
    assert graph.query()["q"] == "^leaf$"
    graph.choose("other", "Copy name")
    graph.until("async () => (await navigator.clipboard.readText()) === 'other'")
    assert graph.page.evaluate("() => document.activeElement.tagName") == "CANVAS"


def test_a_name_too_long_for_the_picture_is_copied_whole(graph: Graph) -> None:
    graph.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    graph.open("hostile00000", "group=none")
    shown = next(name for name in graph.names() if name.startswith("AAAA"))
    assert len(shown) < 10_000
    graph.choose(shown, "Copy name")
    graph.until("async () => (await navigator.clipboard.readText()).length === 10000")


def test_show_in_hotspots_leads_to_the_function(graph: Graph) -> None:
    graph.open("small0000000", "group=none&ignore=other")
    graph.choose("leaf", "Show in hotspots")
    graph.page.wait_for_url(re.compile("/hotspots"))
    assert graph.query() == {"ignore": "other", "search": "leaf"}
    assert graph.page.get_by_role("rowheader", name="leaf").count() == 1


def test_zoom_and_whole_are_offered_where_they_change_something(graph: Graph) -> None:
    graph.open("small0000000", "group=none")
    graph.choose("left", "Zoom to this frame")
    graph.settled()
    assert graph.zoomed() == "left"
    graph.page.mouse.click(*graph.place("left"), button="right")
    assert graph.page.get_by_role("menuitem", name="Zoom to").get_attribute("aria-disabled") == "true"
    graph.page.get_by_role("menuitem", name="Show the whole").click()
    graph.settled()
    assert graph.zoomed() == "all"
    # The root is no function.
    graph.page.mouse.click(*graph.place("all"), button="right")
    for name in ("Focus", "Ignore", "Hide", "Callers", "Show in hotspots"):
        assert graph.page.get_by_role("menuitem", name=name).get_attribute("aria-disabled") == "true"
    graph.page.keyboard.press("Escape")
    assert graph.page.locator(".flame-menu").is_hidden()


def test_the_sandwich_shows_callers_above_and_callees_below(graph: Graph) -> None:
    graph.open("small0000000", "group=none&invert=1")
    graph.choose("left", "Callers and callees")
    graph.page.wait_for_url(re.compile("function=left"))
    graph.until("({idle}) => idle")
    assert graph.names() == ["all", "left", "main"]
    assert graph.ask("({view}) => view.box(1).top > view.box(2).top")
    script = """async () => {
        const { panels } = await import(document.querySelector('script[src*="charts/flamegraph.js"]').src);
        const { picture, view } = panels()[1];
        const names = Array.from({length: picture.count}, (_, i) => picture.name(i));
        return [names, picture.total[0], view.box(1).top < view.box(2).top];
    }"""
    graph.page.wait_for_timeout(100)
    assert graph.page.evaluate(script) == [["all", "left", "leaf", "other"], 60_000_000, True]
    table = compute_hotspots(making.small(), Selection())
    total = table[table.name == "left"].total_percent.iloc[0]
    assert f"{total:.2f}" in graph.page.locator(".flame-sandwich").inner_text()
    # Each has its own zoom.
    graph.click("main")
    assert graph.zoomed() == "main" and set(graph.query()) == {"function", "zoom-callers"}
    assert graph.page.evaluate(script)[0] == ["all", "left", "leaf", "other"]
    graph.page.keyboard.press("Escape")
    graph.settled()
    assert set(graph.query()) == {"function"}
    graph.page.get_by_role("link", name="Back to the flame graph").click()
    graph.until("({idle}) => idle")
    assert graph.query() == {}


@pytest.mark.parametrize("name", ["123", "A" * 2_000, "<script>window.pwned=1</script>"])
def test_the_sandwich_of_any_name(graph: Graph, name: str) -> None:
    graph.open("hostile00000", "group=none")
    shown = next(found for found in graph.names() if found.startswith(name[:900]))
    graph.choose(shown, "Callers and callees")
    graph.page.wait_for_url(re.compile("function="))
    graph.until("({idle}) => idle")
    assert graph.names()[0] == "all" and graph.names()[2:] == ["main"]


def test_the_keyboard_alone_is_enough(graph: Graph) -> None:
    graph.open("small0000000", "group=none")
    page, press = graph.page, graph.page.keyboard.press
    for _ in range(60):
        press("Tab")
        if page.evaluate("() => document.activeElement.tagName") == "CANVAS":
            break
    live = page.locator("[data-flame=live]")
    assert graph.ask(FOCUSED) == "all"
    walked = []
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowLeft", "ArrowUp", "Home"):
        press(key)
        walked.append(graph.ask(FOCUSED))
    assert walked == ["main", "left", "right", "leaf", "other", "leaf", "left", "all"]
    press("ArrowDown")
    press("ArrowDown")
    live.filter(has_text="left. /usr/bin/program · user code. total 60.00").wait_for()
    assert "level 3. 2 frames inside" in live.inner_text()
    press("Enter")
    graph.settled()
    assert graph.zoomed() == "left"
    press("ArrowRight")  # right is out of sight
    assert graph.ask(FOCUSED) == "left"
    press("Backspace")
    graph.settled()
    assert graph.zoomed() == "main"
    press("Shift+F10")
    menu = page.get_by_role("menu")
    assert menu.get_attribute("aria-label") == "Actions for left"
    assert page.evaluate("() => document.activeElement.textContent") == "Zoom to this frame"
    press("ArrowUp")
    assert page.evaluate("() => document.activeElement.textContent") == "Copy name"
    press("h")  # to the entry that begins with it
    assert page.evaluate("() => document.activeElement.textContent").startswith("Hide")
    press("Enter")
    graph.until("({idle, picture}) => idle && picture.count === 6")
    assert graph.query() == {"group": "none", "hide": "^left$"}
    assert page.evaluate("() => document.activeElement.tagName") == "CANVAS"
    press("Escape")
    graph.settled()
    assert graph.zoomed() == "all"


def test_up_is_where_the_flames_are(graph: Graph) -> None:
    graph.open("small0000000", "group=none&grow=up")
    graph.page.locator("canvas").focus()
    walked = []
    for key in ("ArrowUp", "ArrowUp", "ArrowUp", "ArrowRight", "ArrowDown", "ArrowUp"):
        graph.page.keyboard.press(key)
        walked.append(graph.ask(FOCUSED))
    # Up again the way one came down.
    assert walked == ["main", "left", "leaf", "other", "left", "other"]


def test_the_arrow_keys_keep_the_frame_in_sight(graph: Graph) -> None:
    graph.open("deep00000000", "group=none")
    graph.page.locator("canvas").focus()
    for _ in range(120):
        graph.page.keyboard.press("ArrowDown")
    box = graph.ask("({view}) => view.box(view.focused)")
    bar = graph.page.evaluate("() => document.querySelector('[data-flame-bar]').getBoundingClientRect().bottom")
    assert bar <= box["top"] <= 800 - box["height"]
    assert graph.ask("({picture, view}) => picture.depth[view.focused]") >= 119


def test_ctrl_c_copies_the_name_of_the_frame(graph: Graph) -> None:
    graph.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    graph.open("small0000000", "group=none")
    graph.page.locator("canvas").focus()
    graph.page.keyboard.press("ArrowDown")
    graph.page.keyboard.press("Control+c")
    name = graph.ask(FOCUSED)
    graph.until("async (_, name) => (await navigator.clipboard.readText()) === name", name)


def test_the_first_touch_shows_the_tooltip_and_the_second_zooms(other_graph: Callable[..., Graph]) -> None:
    graph = other_graph(has_touch=True, viewport={"width": 390, "height": 800})
    graph.open("small0000000", "group=none")
    graph.page.touchscreen.tap(*graph.place("left"))
    graph.page.locator(".flame-tip").filter(has_text="left").wait_for()
    assert graph.zoomed() == "all"
    graph.page.touchscreen.tap(*graph.place("left"))
    graph.settled()
    assert graph.zoomed() == "left"


def test_the_tooltip_agrees_with_the_table(graph: Graph) -> None:
    graph.open("small0000000", "group=none")
    graph.page.mouse.move(*graph.place("left"))
    tip = graph.page.locator(".flame-tip")
    tip.filter(has_text="left").wait_for()
    text = tip.inner_text().replace("\u00a0", " ")
    assert "/usr/bin/program · user code" in text
    assert re.search(r"Total\s+60\.00 %\s+60\.0 ms", text) and re.search(r"Self\s+0 %\s+0 s", text)
    graph.click("left")
    graph.page.mouse.move(*graph.place("leaf"))
    tip.filter(has_text="Of the zoomed frame").wait_for()
    assert re.search(r"Of the zoomed frame\s+75\.00 %", tip.inner_text().replace("\u00a0", " "))
    graph.page.mouse.move(5, 5)
    tip.wait_for(state="hidden")


def test_the_tooltip_stays_in_the_window(graph: Graph) -> None:
    graph.open("hostile00000", "group=none")
    _, top = graph.place("all")
    for x in (40, 640, 1250):
        graph.page.mouse.move(x, top + 36)
        graph.page.locator(".flame-tip").wait_for()
        box = graph.page.locator(".flame-tip").bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 1280
        assert box["y"] >= 0 and box["y"] + box["height"] <= 800


def test_the_tooltip_has_the_place_in_source_code(graph: Graph) -> None:
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(json={"id": 1, "name": "left", "module": "", "file": "/src/<b>main.c", "line": 7})

    graph.open("small0000000", "group=none")
    graph.page.route("**/api/v1/results/small0000000/functions/*", answer)
    for _ in range(2):
        graph.page.mouse.move(*graph.place("left"))
        graph.page.locator(".flame-tip").filter(has_text="<b>main.c:7").wait_for()
        graph.page.mouse.move(5, 5)
    assert len(asked) == 1
