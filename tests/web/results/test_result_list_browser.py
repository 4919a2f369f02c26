"""The list of results in a browser: selection of several, filters, and updates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from perfloom.domain.jobs import JobSpec, JobState
from perfloom.store import Store, open_store
from tests.support.accessible import faults_in_both_schemes
from tests.support.signing import sign_in
from tests.web.conftest import ORDINARY, profile
from tests.web.serving import Served, put, served
from tests.workers.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, filled=True) as here:
        yield here


@pytest.fixture
def store(server: Served) -> Iterator[Store]:
    opened = open_store(server.settings)
    yield opened
    opened.close()


@pytest.fixture
def page(browser: Browser, server: Served) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 500})
    context.set_default_timeout(20_000)
    sign_in(context, server.entry)
    yield context.new_page()
    context.close()


def start(store: Store, name: str) -> str:
    job = store.jobs.create("record", JobSpec(command=("./a.out",)).to_json(), name)
    assert store.jobs.claim(job.id, "worker", "node", 300)
    return job.id


def end(store: Store, id: str, state: JobState = JobState.CANCELLED) -> None:
    assert store.jobs.transition(id, [JobState.STAGING], state)


@pytest.mark.slow
def test_several_are_selected_and_deleted(page: Page, server: Served, store: Store) -> None:
    page.goto(f"{server.url}/?sort=name")
    delete = page.get_by_role("button", name="Delete")
    assert delete.is_disabled()
    page.get_by_label("Select all on this page").check()
    assert delete.inner_text() == "Delete 3" and page.get_by_role("button", name="Compare").is_disabled()
    page.get_by_label("Select another result").uncheck()
    assert page.get_by_label("Select all on this page").evaluate("box => box.indeterminate")
    delete.click()
    page.wait_for_url("**/results/delete?*")
    assert "Delete 2 results?" in page.inner_text("h1")
    assert faults_in_both_schemes(page) == []
    page.click("button >> text=Delete 2 results")
    page.wait_for_url(f"{server.url}/?sort=name")
    assert "Deleted 2 results" in page.inner_text("main")
    assert [result.name for result in store.results.search()[0]] == ["another result"]


@pytest.mark.slow
def test_a_filter_is_applied_when_chosen(page: Page, server: Served) -> None:
    page.goto(f"{server.url}/?sort=name")
    page.get_by_label("Host", exact=True).select_option("node17")
    page.wait_for_url(f"{server.url}/?sort=name&host=node17")
    assert page.locator("[data-rows] > tr").count() == 2
    assert faults_in_both_schemes(page) == []


@pytest.mark.slow
def test_new_results_appear_while_jobs_run(page: Page, server: Served, store: Store) -> None:
    """Without losing the focus, what is selected, or the scroll position."""
    for number in range(15):
        put(store, f"more{number:08}", f"result {number}", profile())
    first, second = start(store, "first job"), start(store, "second job")
    page.goto(server.url)
    box = page.get_by_label("Select an ordinary result", exact=True)
    box.scroll_into_view_if_needed()
    box.check()
    box.focus()
    before = box.bounding_box()
    box.evaluate("box => { window.kept = box; }")
    put(store, "fresh0000000", "a fresh result", profile())
    end(store, first)
    page.wait_for_selector("tr[data-id=fresh0000000]")
    assert page.evaluate("document.activeElement === window.kept && window.kept.isConnected && window.kept.checked")
    after = box.bounding_box()
    assert before and after and page.evaluate("window.scrollY") > 0 and abs(before["y"] - after["y"]) < 2
    assert "1 new result in the list" in page.inner_text("[data-running-done]")
    assert page.locator("tr.is-new").count() == 1 and page.get_by_role("button", name="Delete 1").is_visible()
    assert "19 results" in page.inner_text(".pager")
    store.results.delete("more00000003")
    end(store, second, JobState.FAILED)
    page.wait_for_selector("tr[data-id=more00000003]", state="detached")
    assert "ended without a new result" in page.inner_text("[data-running-done]")
    assert box.is_checked() and page.evaluate("document.activeElement === window.kept")


def test_the_first_result_appears(page: Page, server: Served, store: Store) -> None:
    for result in store.results.search()[0]:
        store.results.delete(result.id)
    job = start(store, "the only job")
    page.goto(server.url)
    assert page.locator("[data-rows]").count() == 0
    put(store, ORDINARY, "the first result", profile())
    end(store, job)
    page.wait_for_selector(f"tr[data-id={ORDINARY}]")
    page.fill("#search", "first")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server.url}/?search=first")


def test_idle_list_shows_new_results(page: Page, server: Served, store: Store) -> None:
    """Every ten seconds while the page is visible; only if the results have changed."""
    asked: list[str] = []
    page.clock.install()
    page.goto(server.url)
    box = page.get_by_label("Select an ordinary result", exact=True)
    box.check()
    box.focus()
    box.evaluate("box => { window.kept = box; }")
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))

    def wait(after_s: int) -> None:
        page.clock.run_for(after_s * 1000)

    def show(is_hidden: bool) -> None:
        page.evaluate(
            """(isHidden) => {
              Object.defineProperty(document, 'hidden', { value: isHidden, configurable: true });
              document.dispatchEvent(new Event('visibilitychange'));
            }""",
            is_hidden,
        )

    with page.expect_response("**/results/version"):
        wait(11)
    assert asked == ["/results/version"], "nothing has changed"
    put(store, "fresh0000000", "a fresh result", profile())
    until(lambda: wait(11) or page.locator("tr[data-id=fresh0000000]").count(), "the new result")
    assert page.evaluate("document.activeElement === window.kept && window.kept.isConnected && window.kept.checked")
    assert page.get_by_role("button", name="Delete 1").is_visible()
    show(True)
    put(store, "later0000000", "a later result", profile())
    asked.clear()
    wait(60)
    assert asked == []
    show(False)
    page.wait_for_selector("tr[data-id=later0000000]")
    assert page.evaluate("document.activeElement === window.kept && window.kept.checked")


@pytest.mark.slow
def test_start_page_shows_the_first_result(page: Page, server: Served, store: Store) -> None:
    for result in store.results.search()[0]:
        store.results.delete(result.id)
    page.clock.install()
    page.goto(server.url)
    page.get_by_role("heading", name="See where the time goes").wait_for()
    put(store, ORDINARY, "the first result", profile())
    until(lambda: page.clock.run_for(11_000) or page.locator("[data-rows]").count(), "the list")
