"""The heat map in a real browser: time is selected with the mouse and the keyboard, and Back returns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from perfloom.store import open_store
from tests.support.signing import sign_in
from tests.web.results.test_heat_map_page import alternating
from tests.web.serving import Served, put, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

ID = "alternating0"
TIME = re.compile("start-ms=")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), filled=False) as here:
        store = open_store(here.settings)
        put(store, ID, "work and pauses", alternating())
        store.close()
        yield here


class Map:
    """The page of a heat map of 10 columns and 10 rows."""

    def __init__(self, page: Page, server: Served, query: str = "") -> None:
        self.page = page
        sign_in(page.context, server.entry)
        page.goto(f"{server.url}/results/{ID}/heatmap?rows=10{query}")
        self.wait()

    def wait(self) -> None:
        self.page.locator('[data-heatmap="plot"][role="application"]').wait_for()

    def at(self, column: int, row: int) -> tuple[float, float]:
        """The middle of a cell, rows counted from the bottom."""
        box = self.page.locator('[data-heatmap="plot"]').bounding_box()
        assert box is not None
        return box["x"] + box["width"] * (column + 0.5) / 10, box["y"] + box["height"] * (9.5 - row) / 10

    def time(self) -> list[str]:
        words = parse_qs(urlsplit(self.page.url).query)
        return [words[word][0] for word in ("start-ms", "end-ms") if word in words]

    def readout(self) -> str:
        return self.page.locator('[data-heatmap="readout"]').inner_text().replace("\xa0", " ")


def test_dragging_selects_time_for_every_page_and_back_returns(page: Page, server: Served) -> None:
    shown = Map(page, server)
    page.mouse.move(*shown.at(1, 0))
    assert shown.readout() == "1,000 ms to 1,100 ms: 100 ms"
    page.mouse.move(*shown.at(2, 3))
    assert shown.readout() == "2,300 ms to 2,400 ms: no samples"
    # From the later cell to the earlier one.
    page.mouse.down()
    page.mouse.move(*shown.at(1, 5), steps=4)
    page.mouse.up()
    page.wait_for_url(TIME)
    shown.wait()
    assert shown.time() == ["1500", "2400"] and page.locator(".heat-veil").count() == 1
    page.get_by_role("link", name="Flame graph of the range").click()
    page.wait_for_url(re.compile("/flamegraph.*start-ms=1500&end-ms=2400"))
    page.go_back()
    page.go_back()
    shown.wait()
    assert shown.time() == [] and page.locator(".heat-veil").count() == 0
    page.mouse.move(*shown.at(0, 0))
    assert shown.readout() == "0 ms to 100 ms: 100 ms", "nothing is being selected any more"


def test_two_clicks_select_time_and_escape_clears_it(page: Page, server: Served) -> None:
    shown = Map(page, server)
    page.mouse.click(*shown.at(3, 2))
    page.mouse.move(*shown.at(4, 0))
    assert shown.readout() == "3,200 ms to 4,100 ms, click or press Enter to select it"
    page.keyboard.press("Escape")
    assert shown.time() == [], "the first click is discarded"
    page.mouse.click(*shown.at(4, 0))
    page.mouse.click(*shown.at(4, 0))
    page.wait_for_url(TIME)
    shown.wait()
    assert shown.time() == ["4000", "4100"]
    # Escape closes an open menu, and only then clears the time.
    page.locator(".selection summary", has_text="Filter").click()
    page.keyboard.press("Escape")
    page.locator("details.menu[open]").wait_for(state="detached")
    assert shown.time() == ["4000", "4100"]
    page.keyboard.press("Escape")
    page.wait_for_url(lambda url: "start-ms" not in url)


def test_the_keyboard_selects_time(page: Page, server: Served) -> None:
    shown = Map(page, server)
    page.locator('[data-heatmap="plot"]').focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "Enter", "ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url(TIME)
    shown.wait()
    assert shown.time() == ["2100", "3100"]
    # The cursor stays where it was.
    page.locator('[data-heatmap="plot"]:focus').wait_for()
    page.keyboard.press("ArrowUp")
    assert shown.readout() == "3,100 ms to 3,200 ms: no samples"
    page.keyboard.press("Home")
    assert shown.readout().startswith("0 ms to 100 ms")


def test_without_scripts_a_cell_of_the_table_selects_time(page: Page, server: Served) -> None:
    browser = page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False)
    sign_in(context, server.entry)
    plain = context.new_page()
    plain.goto(f"{server.url}/results/{ID}/heatmap?rows=10&sort=column_ms")
    plain.get_by_role("link", name="Select", exact=True).first.click()
    # The address changes before the new page is there.
    plain.get_by_role("link", name="Timeline of the range").wait_for()
    assert "start-ms=0&end-ms=100" in plain.url and plain.locator(".heat-edge").count() == 1
    assert plain.locator('[data-heatmap="readout"]').is_hidden()
    context.close()
