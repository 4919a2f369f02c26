"""The call tree in a real browser: the keys of Firefox Profiler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from perfloom.store import open_store
from tests.support.accessible import faults_in_both_schemes
from tests.support.profiles import profile_of
from tests.support.signing import sign_in
from tests.web.results.test_tree_page import branches
from tests.web.serving import Served, put, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

ID, STRANGE = "branches0000", "strange00000"
LONG, TURNED = "L" * 10_000, "\u202eturned\u202c"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), filled=False) as here:
        store = open_store(here.settings)
        put(store, ID, "two events", branches())
        put(
            store,
            STRANGE,
            "strange names",
            profile_of([(f"main;{LONG};inner", 9, 0, 1, 0), (f"main;{TURNED}", 2, 0, 2, 0)]),
        )
        store.close()
        yield here


def open_tree(page: Page, server: Served, id: str = ID) -> None:
    sign_in(page.context, server.entry)
    page.goto(f"{server.url}/results/{id}/tree")
    page.locator('[data-tree] tr[tabindex="0"]').wait_for()


def selected(page: Page) -> str | None:
    return page.locator('[data-tree] tr[aria-selected="true"]').get_attribute("data-name")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_keys_move_open_and_close(page: Page, server: Served) -> None:
    open_tree(page, server)
    assert faults_in_both_schemes(page) == []
    page.locator('tr[data-name="main"] .bar-cell').click()
    press(page, "ArrowDown", "ArrowDown")
    assert selected(page) == "inner"
    press(page, "End")
    assert selected(page) == "idle"
    press(page, "ArrowRight")
    page.locator('tr[data-name="poll"]').wait_for()
    assert "toggle=" in page.url
    press(page, "ArrowRight")
    assert selected(page) == "poll"
    press(page, "ArrowLeft")
    assert selected(page) == "idle"
    press(page, "ArrowLeft")
    page.locator('tr[data-name="poll"]').wait_for(state="detached")
    press(page, "Home", "*")
    page.locator('tr[data-name="poll"]').wait_for()
    # The address has it all.
    page.reload()
    page.locator('tr[data-name="poll"]').wait_for()


def test_keys_change_the_selection(page: Page, server: Served) -> None:
    open_tree(page, server)
    page.locator('tr[data-name="work"] .bar-cell').click()
    press(page, "m")
    page.wait_for_url(re.compile(r"hide=%5Ework%24"))
    page.locator('tr[data-name="inner"] .bar-cell').click()
    press(page, "d")
    page.wait_for_url(re.compile(r"ignore=%5Einner%24"))
    page.locator('tr[data-name="setup"]').wait_for()
    assert page.locator('tr[data-name="inner"]').count() == 0
    page.locator('[data-tree] tr[tabindex="0"]').wait_for()
    press(page, "i")
    page.wait_for_url(re.compile("invert=1"))
    page.locator('[data-tree] tr[tabindex="0"]').wait_for()
    page.locator('tr[data-name="setup"][aria-level="1"] .bar-cell').click()
    press(page, "Enter")
    page.wait_for_url(re.compile("function=setup"))
    assert page.get_by_role("heading", name="Callers", exact=True).is_visible()


def test_keys_on_strange_names(page: Page, server: Served) -> None:
    open_tree(page, server, STRANGE)
    page.locator('tr[data-name^="LLL"] .bar-cell').click()
    # The pattern would be refused.
    press(page, "f", "End")
    assert selected(page) == "\ufffdturned\ufffd"
    press(page, "f")
    page.wait_for_url(re.compile("focus="))
    assert page.locator("[data-tree] tbody tr").count() == 2
    page.locator('[data-tree] tr[tabindex="0"]').wait_for()
    page.locator('tr[data-name$="turned\ufffd"] .bar-cell').click()
    press(page, "m")
    page.wait_for_url(re.compile("hide="))
    assert page.locator("[data-tree] tbody tr").count() == 1
