"""The list of results: filters by format, target, host and tag, empty lists, and deletion of several results."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from flask import Flask

from perfloom.domain.errors import Unavailable
from perfloom.domain.jobs import JobSpec
from perfloom.domain.profile import Profile
from perfloom.store import Store
from perfloom.store.files import columns
from tests.web.conftest import EVIL, HOSTILE, ORDINARY, Browser, profile
from tests.web.html import read

STAT, REMOTE = "stat00000000", "remote000000"


def of_format(made: Profile, name: str) -> Profile:
    return replace(made, meta=replace(made.meta, format=name))


@pytest.fixture
def several(stored: Callable[..., str], store: Store) -> None:
    """Three results: of two formats; one was recorded at a target."""
    stored(of_format(profile(), "perf-script"), name="sampled")
    stored(of_format(profile(), "perf-stat"), STAT, name="counted")
    spec = JobSpec(command=("./a.out",), target="cluster")
    job = store.jobs.create("record", spec.to_json(), "remote", id=REMOTE)
    staged = store.results.stage(job.id)
    columns.write(of_format(profile(), "perf-stat"), staged)
    store.results.publish(job.id, staged, name="remote", job_id=job.id)
    store.results.set_tags(STAT, ["base"])


def listed(page: str) -> set[str]:
    return set(re.findall(r'data-id="(\w{12})"', page))


def options(page: str, name: str) -> list[str]:
    found = re.search(rf'<select [^>]*name="{name}".*?</select>', page, re.DOTALL)
    return re.findall(r'<option value="([^"]*)"', found[0]) if found else []


@pytest.mark.usefixtures("several")
class TestFilters:
    @pytest.mark.parametrize(
        ("query", "ids"),
        [
            ("", {ORDINARY, STAT, REMOTE}),
            ("format=perf-stat", {STAT, REMOTE}),
            ("format=perf-stat&target=cluster", {REMOTE}),
            ("target=cluster", {REMOTE}),
            ("host=node17", {ORDINARY, STAT, REMOTE}),
            ("host=node1", set()),
            ("format=perf-stat&tag=base", {STAT}),
            ("format=perf-stat&search=remote&sort=-name", {REMOTE}),
        ],
    )
    def test_combinations(self, browser_client: Browser, query: str, ids: set[str]) -> None:
        assert listed(browser_client.page(f"/?{query}")) == ids

    def test_only_filters_with_a_choice_are_shown(self, browser_client: Browser, store: Store) -> None:
        page = browser_client.page("/")
        assert options(page, "format") == ["", "perf-script", "perf-stat"]
        assert options(page, "host") == [] == options(page, "target"), "every result has the same one"
        assert "output of perf stat" in page or ">perf stat" in page
        assert options(browser_client.page("/?host=elsewhere"), "host") == ["", "elsewhere", "node17"]

    def test_they_stay_with_sorting_search_and_tags(self, browser_client: Browser) -> None:
        page = browser_client.page("/?format=perf-stat&search=count&sort=name")
        assert '<option value="perf-stat" selected>' in page
        assert 'name="sort" value="name"' in page and 'value="count"' in page
        assert 'href="/?format=perf-stat&amp;search=count&amp;sort=name&amp;tag=base"' in page
        assert 'href="/?format=perf-stat&amp;search=count&amp;sort=-bytes"' in page
        assert '<a class="nowrap" href="/?sort=name">Reset filters</a>' in page

    def test_an_empty_list_says_why(self, browser_client: Browser) -> None:
        page = " ".join(browser_client.page("/?format=perf-script&target=cluster&search=remote").split())
        assert "“remote” in its name" in page and "the target “cluster”" in page
        assert re.search(r'href="/\?target=cluster&amp;search=remote">Remove the format</a>: 1 result', page)
        assert "Remove the target" not in page, "there would still be none"
        assert '<a class="button" href="/">Reset filters</a>' in page

    def test_a_page_past_the_end(self, browser_client: Browser) -> None:
        page = browser_client.page("/?format=perf-stat&page=9")
        assert "No page 9; 2 results in total" in page
        assert '<a class="button" href="/?format=perf-stat">First page</a>' in page
        assert "Reset filters" in page

    def test_the_api_has_the_same(self, browser_client: Browser) -> None:
        answer = browser_client.client.get("/api/v1/results?format=perf-stat&target=cluster").get_json()
        assert answer["total"] == 1 and answer["results"][0]["id"] == REMOTE


@pytest.mark.parametrize("name", ["format", "host", "target", "tag", "search"])
def test_hostile_filters_come_back_as_text(browser_client: Browser, evil: str, name: str) -> None:
    for value in HOSTILE:
        response = browser_client.client.get("/", query_string={name: value, "back": value})
        assert response.status_code in (200, 400)
        assert read(response.text).faults == [], value


class TestBulkDelete:
    def test_it_asks_first(self, browser_client: Browser, store: Store, ordinary: str, evil: str) -> None:
        page = browser_client.page(f"/results/delete?result={ordinary}&result={evil}&result={evil}&back=sort%3Dname")
        assert read(page).faults == []
        assert "Delete 2 results?" in page and "an ordinary result" in page and "KiB" in page
        assert re.findall(r'name="result" value="(\w+)"', page).count(evil) == 1
        assert 'href="/?sort=name">Cancel' in page
        assert store.results.find(ordinary) and store.results.find(evil)

    def test_then_deletes(self, browser_client: Browser, store: Store, ordinary: str, evil: str) -> None:
        response = browser_client.post("/results/delete", result=[ordinary, evil], back="sort=name&search=x y")  # type: ignore[arg-type]
        assert (response.status_code, response.headers["Location"]) == (303, "/?sort=name&search=x+y")
        assert store.results.find(ordinary) is None is store.results.find(evil)
        assert "Deleted 2 results (" in browser_client.page("/")

    def test_not_without_the_token_of_the_form(self, browser_client: Browser, store: Store, ordinary: str) -> None:
        assert browser_client.client.post("/results/delete", data={"result": ordinary}).status_code == 403
        assert store.results.find(ordinary)

    def test_nothing_selected(self, browser_client: Browser, ordinary: str) -> None:
        response = browser_client.client.get("/results/delete?back=search%3Dordinary")
        assert response.headers["Location"] == "/?search=ordinary"
        assert "No result selected" in browser_client.page("/")

    def test_what_is_gone_is_said(self, browser_client: Browser, ordinary: str) -> None:
        page = browser_client.page(f"/results/delete?result={ordinary}&result=gone00000000&result=../../etc")
        assert "Delete 1 result?" in page and "2 of the selected results were already deleted" in page
        page = browser_client.page("/results/delete?result=gone00000000")
        assert "Nothing to delete" in page and "button--danger" not in page

    def test_one_failure_stops_no_other(
        self,
        app: Flask,
        browser_client: Browser,
        store: Store,
        ordinary: str,
        evil: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        delete = type(store.results).delete

        def some(results: object, id: str) -> None:
            if id == EVIL:
                raise Unavailable("The disk is read-only.")
            delete(store.results, id)

        monkeypatch.setattr(type(store.results), "delete", some)
        response = browser_client.post("/results/delete", result=[evil, ordinary], back="")  # type: ignore[arg-type]
        assert response.status_code == 503 and read(response.text).faults == []
        assert "1 result could not be deleted" in response.text and "The disk is read-only." in response.text
        assert "Deleted 1 result (" in response.text
        assert re.findall(r'name="result" value="(\w+)"', response.text) == [EVIL]
        assert store.results.find(ordinary) is None and store.results.find(evil)

    def test_the_way_back_stays_on_this_server(self, browser_client: Browser, ordinary: str) -> None:
        response = browser_client.post("/results/delete", result=ordinary, back="//evil.example/")
        assert response.headers["Location"].startswith("/?") or response.headers["Location"] == "/"
