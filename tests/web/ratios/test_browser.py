"""The page of ratios in a real browser: a box is selected with the mouse and with fields, and becomes a focus."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from perfloom.store import open_store
from tests.analysis.ratios.test_frame_values import two_functions
from tests.support.signing import sign_in
from tests.web.serving import Served, put, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

ID = "functions000"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), filled=False) as here:
        store = open_store(here.settings)
        put(store, ID, "slow and fast", two_functions())
        store.close()
        yield here


def open_page(page: Page, server: Served, query: str = "?colour=CPI") -> None:
    sign_in(page.context, server.entry)
    page.goto(f"{server.url}/results/{ID}/ratios{query}")
    page.locator('[data-scatter="plot"] .scatter-drag').wait_for(state="attached")


def middle(page: Page, name: str) -> tuple[float, float]:
    """Where the dot of a function is, in the window."""
    dot = page.locator("circle", has=page.locator("title", has_text=re.compile(f"^{name}\n")))
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def words(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_a_box_around_dots_becomes_a_focus_on_every_page(page: Page, server: Served) -> None:
    open_page(page, server)
    x, y = middle(page, "slow")
    page.mouse.move(x - 30, y + 30)
    page.mouse.down()
    page.mouse.move(x + 30, y - 30, steps=4)
    assert page.locator(".scatter-drag").is_visible()
    page.mouse.up()
    page.wait_for_url(re.compile("x-from="))
    focus = page.locator('[data-scatter="focus"]')
    focus.wait_for()
    assert page.locator('[data-scatter="selected"] b').inner_text() == "1 function"
    assert float(words(page)["x-from"][0]) < 400 < float(words(page)["x-to"][0])
    # The keyboard continues there.
    page.locator('[data-scatter="focus"]:focus').wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("focus="))
    assert words(page)["focus"] == ["^(?:slow)$"] and "x-from" not in words(page)
    page.get_by_role("link", name="Flame graph", exact=True).click()
    page.wait_for_url(re.compile("/flamegraph.*focus="))


def test_the_text_of_the_nearest_dot_is_next_to_the_pointer(page: Page, server: Served) -> None:
    open_page(page, server)
    x, y = middle(page, "slow")
    page.mouse.move(x + 9, y + 9)
    tip = page.locator(".flame-tip", has_text="slow")
    tip.wait_for()
    assert "400" in tip.inner_text() and page.locator("circle.is-near").count() == 1
    page.mouse.move(x + 60, y - 60)
    tip.wait_for(state="hidden")
    assert page.locator("circle.is-near").count() == 0
    assert page.locator(".scatter-name", has_text="slow").is_visible()
    page.set_viewport_size({"width": 390, "height": 800})
    page.locator(".scatter-name", has_text="slow").wait_for(state="hidden")


def test_a_click_selects_nothing_and_escape_clears_the_box(page: Page, server: Served) -> None:
    open_page(page, server, "?colour=CPI&x-from=300")
    page.mouse.click(*middle(page, "fast"))
    assert words(page)["x-from"] == ["300"]
    page.locator('[data-scatter="focus"]').focus()
    page.keyboard.press("Escape")
    page.wait_for_url(lambda url: "x-from" not in url)


def test_the_fields_select_a_box_without_scripts(page: Page, server: Served) -> None:
    browser = page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False)
    sign_in(context, server.entry)
    plain = context.new_page()
    plain.goto(f"{server.url}/results/{ID}/ratios?colour=CPI")
    plain.locator('[name="y-from"]').fill("3")
    plain.locator('[name="y-from"]').press("Enter")
    plain.locator('[data-scatter="focus"]').click()
    plain.wait_for_url(re.compile("focus="))
    assert words(plain)["focus"] == ["^(?:slow)$"] and words(plain)["colour"] == ["CPI"]
    context.close()


def test_the_flame_graph_has_the_colors_of_a_formula(page: Page, server: Served) -> None:
    open_page(page, server)
    legend = page.locator('[data-flame="legend"]')
    legend.get_by_text("CPI (total): ≤ 0.3533 – mean 1.767 – ≥ 8.833, logarithmic scale").wait_for()
    assert legend.get_by_text("– no value").count() == 1
    canvas = page.locator("canvas")
    canvas.focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.locator('[data-flame="live"]', has_text="cpi (total) 4, 2.264 × the mean").wait_for(state="attached")
    # Another formula is another request, and the page below follows.
    page.get_by_label("Color by").select_option("IPC")
    page.wait_for_url(lambda url: "colour" not in url)
    page.locator(".scatter-title--y", has_text="IPC").wait_for()


def test_the_page_flame_graph_changes_its_color_without_loading_again(page: Page, server: Served) -> None:
    sign_in(page.context, server.entry)
    page.goto(f"{server.url}/results/{ID}/flamegraph")
    legend = page.locator('[data-flame="legend"]')
    legend.get_by_text("user code").wait_for()
    page.get_by_label("Color by").select_option("IPC")
    legend.get_by_text("IPC (total): ≤ 0.1132 – mean 0.566").wait_for()
    page.get_by_label("Formula of").select_option("self")
    legend.get_by_text("IPC (self)").wait_for()
    assert words(page) == {"colour": ["IPC"], "of": ["self"]}
    page.get_by_label("Color by").select_option("kind")
    legend.get_by_text("user code").wait_for()
