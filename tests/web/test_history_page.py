"""/history: results of a tag or a name over time."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from perfloom.store import Store
from tests.support.profiles import profile_of
from tests.web.conftest import EVIL, HOSTILE, TOKEN, Browser, profile
from tests.web.formulas.test_topdown_page import counted
from tests.web.html import read

IDS = [f"run0000000{at:02}" for at in range(10)]
PAGE = "/history?tag=nightly"


def text_of(page: str) -> str:
    return " ".join(" ".join(read(page).text).split()).replace("\xa0", " ")


@pytest.fixture
def nightly(stored: Callable[..., str], store: Store) -> None:
    """Six runs, then four that are slower by half, in `work`."""
    for at, id in enumerate(IDS):
        work = (40 if at < 6 else 90) + at % 3
        stored(profile_of([("main;work", work, 0, 1, 0), ("main;rest", 60, 0, 2, 0)]), id, name=f"run {at}")
        store.results.set_tags(id, ["nightly"])


def test_the_page_shows_where_the_level_changed(browser_client: Browser, nightly: None) -> None:
    page = browser_client.page(PAGE)
    text = text_of(page)
    assert "since “run 6” of" in text and "among 10 runs" in text and "more" in text
    (svg,) = re.findall(r'<svg xmlns="http://www.w3.org/2000/svg" class="history-dots".*?</svg>', page, re.DOTALL)
    drawing = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    assert len(list(drawing.iter(f"{space}circle"))) == 10
    assert [line.get("class") for line in drawing.iter(f"{space}line")].count("history-change") == 1
    links = [link.get("href") or "" for link in drawing.iter(f"{space}a")]
    assert len(links) == 9
    at_change = links[5]
    assert at_change.count("base=") == 6 and at_change.count("other=") == 4
    assert "more" in text_of(browser_client.page(at_change))


def test_the_history_of_a_function(browser_client: Browser, nightly: None) -> None:
    assert "since “run 6”" in text_of(browser_client.page(f"{PAGE}&function=work"))
    assert "No change of “rest” (self)" in text_of(browser_client.page(f"{PAGE}&function=rest&of=self"))
    assert "has this function" in text_of(browser_client.page(f"{PAGE}&function=nowhere"))


def test_tags_and_names_lead_to_their_history(
    browser_client: Browser, nightly: None, stored: Callable[..., str], store: Store
) -> None:
    for id in ("same00000001", "same00000002"):
        stored(profile(), id, name="the same & other")
    page = browser_client.page("/history")
    assert "10 results" in text_of(page) and "tag=nightly" in page and "command=python3" in page
    overview = browser_client.page("/results/same00000001")
    assert "2 results of this command" in text_of(overview)
    (link,) = re.findall(r'href="(/history[^"]*)"', overview.partition("</nav>")[2])
    assert "2 runs of" in text_of(browser_client.page(link.replace("&amp;", "&")))
    assert "2 runs of" in text_of(browser_client.page("/history?name=the+same+%26+other"))
    assert "No result has this tag" in text_of(browser_client.page("/history?tag=unknown"))
    browser_client.page(f"{PAGE}&event=unknown", status=400)
    browser_client.page(f"{PAGE}&of=unknown", status=400)


def test_missing_results_are_left_out(browser_client: Browser, nightly: None, store: Store) -> None:
    shutil.rmtree(store.results.path(IDS[7]))
    store.results.recover()
    page = browser_client.page(PAGE)
    assert "1 whose files are missing are left out." in text_of(page) and IDS[7] not in page
    for link in set(re.findall(r'href="(/compare[^"]*)"', page.partition("</nav>")[2])):
        browser_client.page(link.replace("&amp;", "&"))


def test_counts_of_perf_stat_lead_to_the_comparison_of_counts(
    browser_client: Browser, stored: Callable[..., str], store: Store
) -> None:
    for at in range(7):
        stored(counted("zen4.txt"), f"count000000{at}", name="counts")
    page = browser_client.page("/history?name=counts&sort=recorded")
    links = re.findall(r'href="(/compare[^"]*)"', page.partition("</nav>")[2])
    assert links and all(link.startswith("/compare/counts?") for link in links)
    browser_client.page(links[0].replace("&amp;", "&"))


def test_table_as_a_file(browser_client: Browser, nightly: None) -> None:
    rows = list(csv.DictReader(io.StringIO(browser_client.page(PAGE.replace("?", ".csv?")))))
    assert [row["name"] for row in rows] == [f"run {at}" for at in range(10)]
    assert [bool(row["change_percent"]) for row in rows].index(True) == 6
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert len(browser_client.client.get(f"/api/v1{PAGE}", headers=bearer).get_json()) == 10
    assert browser_client.client.get("/api/v1/history", headers=bearer).status_code == 400


def test_hostile_names_are_escaped(browser_client: Browser, stored: Callable[..., str], store: Store) -> None:
    for id in (EVIL, "evil00000002"):
        stored(profile(HOSTILE), id, name=HOSTILE[0] + HOSTILE[1])
        store.results.set_tags(id, HOSTILE[:2])
    for query in (
        "",
        f"?tag={HOSTILE[0]}",
        f"?name={HOSTILE[0]}{HOSTILE[1]}",
        f"?tag={HOSTILE[1]}&function={HOSTILE[0]}",
    ):
        page = browser_client.client.get("/history", query_string=query.removeprefix("?")).text
        assert HOSTILE[0] not in page
