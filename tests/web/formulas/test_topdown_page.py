"""The page of the top-down tree, and the job form that its links fill in."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable

import pytest

from perfloom.domain.profile import Profile
from perfloom.readers import perf_stat
from tests.support.formats import DATA
from tests.support.profiles import profile_of
from tests.web.conftest import HOSTILE, ORDINARY, Browser
from tests.web.html import read
from tests.web.results.test_formulas_page import plain, rows_of, sampled

PAGE = f"/results/{ORDINARY}/topdown"


def counted(name: str) -> Profile:
    with (DATA / "perf-stat-topdown" / name).open("rb") as stream:
        return perf_stat.read(stream)


def test_the_tree_with_thresholds_and_hints(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(counted("zen4.txt"))
    page = browser_client.page(PAGE)
    rows = rows_of(page)
    assert len(rows) == 12 and rows[0][:2] == ["retiring above", "58.29\u00a0%"] and rows[2][0] == "microcode above"
    assert "AMD Zen 4" in page and "Levels 1 and 2 agree" in page and "/jobs/new?" not in page
    assert 'href="/results/ordinary0000/topdown" aria-current="page"' in page
    table = json.loads(browser_client.page(f"{PAGE}.json"))
    assert table == json.loads(browser_client.page(f"/api/v1/results/{ORDINARY}/topdown"))
    assert [row["category"] for row in table] == [row[0].removesuffix(" above") for row in rows]


def test_one_level_deeper(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(counted("skylake.txt"))
    page = browser_client.page(PAGE)
    links = [html.unescape(link) for link in re.findall(r'href="(/jobs/new\?[^"]*)"', page)]
    # One for each of the four categories, and one below the tree.
    assert len(links) == 5 and len(set(links)) == 1
    form = browser_client.page(links[0])
    (events,) = re.findall(r'<textarea id="f-events"[^>]*>\n(.*?)</textarea>', form, re.DOTALL)
    assert "{idq_uops_not_delivered.cycles_0_uops_deliv.core,uops_retired.macro_fused,instructions}" in html.unescape(
        events
    )
    assert re.search(r'name="recorder" value="perf-stat"[^>]* checked', form)


def test_counts_of_two_kinds_of_cpu(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(counted("ice-lake.txt"))
    page = browser_client.page(PAGE)
    assert len(rows_of(page)) == 4
    assert len(set(re.findall(r'href="(/jobs/new\?[^"]*)"', page))) == 2
    assert "Ice Lake, Tiger Lake, Rocket Lake" in page and "never run on hardware" in page


def test_without_the_events_it_says_what_to_record(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(sampled())
    assert f'href="{PAGE}"' in browser_client.page(f"/results/{ORDINARY}/formulas")
    page = browser_client.page(PAGE)
    assert "were not recorded" in page and "perf stat -e" in plain(page)
    assert len(re.findall(r'href="/jobs/new\?[^"]*"', page)) == 10
    for cpu in ("Sapphire Rapids", "Ice Lake", "Skylake", "Zen 4", "Zen 5"):
        assert cpu in page
    assert browser_client.page(f"{PAGE}.csv").count("\n") == 1


def test_a_selection_without_samples(stored: Callable[..., str], browser_client: Browser) -> None:
    words = ("retiring", "bad-spec", "fe-bound", "be-bound")
    samples = [("main;a", 10 * number, 0, number, number - 1) for number in range(1, 5)]
    stored(profile_of(samples, events=tuple((f"topdown-{word}", "count") for word in words)))
    assert [row[1] for row in rows_of(browser_client.page(PAGE))] == [f"{n}0.00\u00a0%" for n in (1, 2, 3, 4)]
    page = browser_client.page(f"{PAGE}?focus=nothing")
    assert [row[1] for row in rows_of(page)] == ["–"] * 4 and "Remove" in page


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_parameters_of_the_job_form(browser_client: Browser, word: str) -> None:
    for query in ({"events": word, "recorder": "perf-stat"}, {"recorder": word}):
        response = browser_client.client.get("/jobs/new", query_string=query)
        assert response.status_code == (200 if "events" in query else 400)
        assert read(response.text).faults == []
