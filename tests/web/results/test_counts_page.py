"""The page of event counts: bars by participant, their links, reference and pages, over HTTP."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Meta, Profile
from tests.support.profiles import profile_of, stacked
from tests.web.conftest import Browser
from tests.web.results.test_empty_pages import text_of

PAGE = "/results/ordinary0000/counts"
EVENT = "cpu/event=0x3c,umask=0x1/u"


def ranked(ranks: int = 3, events: tuple[str, ...] = ("cycles",), functions: int = 20) -> Profile:
    """Rank r has r times as much as rank 1, in each of the functions; rank 0 has no samples."""
    builder = ProfileBuilder("test")
    numbers = [builder.intern_event(name, "count") for name in events]
    for rank in range(ranks):
        thread = builder.intern_thread(pid=10 + rank, tid=10 + rank, rank=rank, host=f"node{rank // 2}")
        builder.set_thread_name(thread, 0, "solver")
        for function in range(functions if rank else 0):
            stack = stacked(builder, ["main", f"f{function}(int*)"])
            for number in numbers:
                builder.add_sample(function * 10**8, thread, number, stack, rank * (1000 - function))
    return builder.finish(Meta("test", duration_ns=2 * 10**9))


def bars(page: str) -> dict[str, str]:
    """The values of bars by their labels."""
    rows = re.findall(r'<th scope="row" class="name" title="([^"]*)">.*?<td class="num"><data[^>]*>([^<]*)', page, re.S)
    return {html.unescape(label): value.replace("\xa0", " ") for label, value in rows}


def links(page: str) -> dict[str, str]:
    """The links of bars by their labels."""
    found = re.findall(r'<th scope="row" class="name" title="([^"]*)"><a href="([^"]*)">\1</a>', page)
    return {html.unescape(label): html.unescape(url) for label, url in found}


def test_bars_by_rank_are_links_that_select_them(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(ranked())
    page = browser_client.page(PAGE)
    assert bars(page) == {"rank 2": "39.6 k", "rank 1": "19.8 k"}
    assert "Without cycles: rank 0." in text_of(page)
    assert links(page)["rank 2"] == f"{PAGE}?rank=2"
    alone = browser_client.page(links(page)["rank 2"])
    assert bars(alone) == {"rank 2": "39.6 k"} and "Without cycles" not in text_of(alone)
    # A part also selects its function, and the event of its chart.
    parts = [
        html.unescape(url) for url in re.findall(r'<a href="([^"]*)" aria-label="f0\(int\*\) \(app\), rank 2', page)
    ]
    assert parts == [f"{PAGE}?rank=2&event=cycles&focus=%5Ef0%5C%28int%5C%2A%5C%29%24"]
    assert bars(browser_client.page(parts[0])) == {"rank 2": "2,000"}
    # The selection stays, also its focus: stacks match both.
    page = browser_client.page(f"{PAGE}?by=process&start-ms=1000&focus=main&event=cycles")
    assert links(page)["solver 12"] == f"{PAGE}?process=2%2F12&start-ms=1000&focus=main&by=process&event=cycles"
    part, number = re.findall(r'<a href="([^"]*)" aria-label="f(\d+)\(int\*\) \(app\), solver 12', page)[0]
    assert parse_qs(urlsplit(html.unescape(part)).query)["focus"] == ["main", rf"^f{number}\(int\*\)$"]
    both = browser_client.page(f"{PAGE}?focus=main&focus=%5Ef0")
    assert both.count("Focus: <b>") == 2 and bars(both) == bars(browser_client.page(f"{PAGE}?focus=%5Ef0"))
    assert bars(browser_client.page(f"{PAGE}?focus=nothing&focus=%5Ef0")) == {}


def test_values_in_percent_of_a_reference_and_per_second(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(ranked())
    page = browser_client.page(PAGE)
    references = {
        name: html.unescape(url)
        for url, name in re.findall(r'<a href="([^"]*)" aria-label="Compare with ([^"]*)"', page)
    }
    assert references["rank 1"] == f"{PAGE}?reference=rank+1&values=percent"
    page = browser_client.page(references["rank 1"])
    assert bars(page) == {"rank 2": "200.00 %", "rank 1": "100.00 %"}
    assert "100 % is rank 1" in text_of(page) and "<strong>= 100 %</strong>" in page
    # Also under a selection without it.
    page = browser_client.page(f"{PAGE}?reference=rank+1&values=percent&rank=2&end-ms=100")
    assert bars(page) == {"rank 2": "200.00 %"}
    assert bars(browser_client.page(f"{PAGE}?values=percent")) == {"rank 2": "66.67 %", "rank 1": "33.33 %"}
    assert bars(browser_client.page(f"{PAGE}?values=per-s")) == {"rank 2": "19.8 k/s", "rank 1": "9,905/s"}
    # Rank 0 has no samples, so nothing is a percentage of it.
    page = browser_client.page(f"{PAGE}?reference=rank+0&values=percent")
    assert "rank 0 has no cycles" in text_of(page) and bars(page)["rank 1"] == "19.8 k"
    # Another grouping has other participants.
    assert f'href="{PAGE}?values=percent&amp;by=thread"' in page


def test_pages_of_bars_and_of_functions(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(ranked(61))
    seen: list[str] = []
    path: str | None = PAGE
    while path:
        page = browser_client.page(path)
        seen += bars(page)
        more = re.search(r'aria-label="Pages of bars">.*?href="([^"]+)" rel="next"', page, re.S)
        path = html.unescape(more[1]) if more and "Pages of functions" not in more[0] else None
    assert seen == [f"rank {rank}" for rank in range(60, 0, -1)]
    names: list[str] = []
    path = PAGE
    while path:
        page = browser_client.page(path)
        names += re.findall(r'<li title="(f\d+)\(int\*\) \(app\)">', page)
        more = re.search(r'aria-label="Pages of functions">(?:(?!</nav>).)*href="([^"]+)" rel="next"', page, re.S)
        path = html.unescape(more[1]) if more else None
    assert names == [f"f{n}" for n in range(20)]
    assert "This page is after the last bar." in browser_client.page(f"{PAGE}?bars-page=9")
    assert "No page 9; 20 functions in total" in text_of(browser_client.page(f"{PAGE}?functions-page=9"))


@pytest.mark.parametrize(
    "query",
    ["by=module", "values=most", "bars-page=0", "functions-page=x", "reference=nobody", "by=thread&reference=rank+1"],
)
def test_wrong_parameters_are_explained(stored: Callable[..., str], browser_client: Browser, query: str) -> None:
    stored(ranked())
    text_of(browser_client.page(f"{PAGE}?{query}", 400))


def test_a_window_without_samples_and_results_with_little(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(ranked())
    for by in ("process", "thread", "rank", "host"):
        for values in ("absolute", "percent", "per-s"):
            page = browser_client.page(f"{PAGE}?by={by}&values={values}&start-ms=1999")
            assert "The selection has no cycles." in text_of(page) and not bars(page)
    stored(profile_of([("main", 5)]), "onethread000")
    page = browser_client.page("/results/onethread000/counts?by=thread")
    # There is nothing else to select.
    assert bars(page) == {"thread 0 100": "5"} and not links(page)
    stored(profile_of([], events=()), "noevents0000")
    assert "No events were counted or sampled." in browser_client.page("/results/noevents0000/counts")


def test_events_with_any_names(stored: Callable[..., str], browser_client: Browser) -> None:
    names = (EVENT, "cycles:u", "L1-dcache_loads", "a,b/c_d:e/")
    stored(ranked(events=names))
    page = browser_client.page(PAGE)
    assert page.count('class="table stacks"') == 4
    for url in set(re.findall(r'<a href="([^"]*)" aria-label="f3\(int\*\) \(app\), rank 2', page)):
        found = browser_client.page(html.unescape(url))
        assert found.count('class="table stacks"') == 1 and bars(found) == {"rank 2": "1,994"}


def test_names_are_escaped(evil: str, browser_client: Browser) -> None:
    for by in ("process", "thread"):
        page = browser_client.page(f"/results/{evil}/counts?by={by}&values=percent")
        assert "<script>alert" not in page and "<img src=x" not in page


def test_thousands_of_threads_have_a_short_page(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(profile_of([(f"main;f{n % 30}", n + 1, n) for n in range(5_000)]))
    page = browser_client.page(f"{PAGE}?by=thread")
    assert len(bars(page)) == 24 and "1 – 24 of 5,000 threads" in text_of(page) and len(page) < 400_000
    rows = list(csv.DictReader(io.StringIO(browser_client.page("/results/ordinary0000/count-shares.csv?by=thread"))))
    assert len(rows) == 5_000 and rows[0]["tid"] == "5099" and rows[0]["value"] == "5000"


def test_the_table_of_the_bars(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(ranked(functions=2))
    address = "/results/ordinary0000/count-shares"
    rows = list(csv.DictReader(io.StringIO(browser_client.page(f"{address}.csv?reference=rank+2&values=percent"))))
    assert [(row["participant"], row["function"], row["value"], row["reference_percent"]) for row in rows] == [
        ("rank 2", "f0(int*)", "2000", "100.0"),
        ("rank 2", "f1(int*)", "1998", "100.0"),
        ("rank 1", "f0(int*)", "1000", "50.0"),
        ("rank 1", "f1(int*)", "999", "50.0"),
    ]
    api = browser_client.client.get("/api/v1/results/ordinary0000/count-shares?by=host").json
    assert [(row["participant"], row["total"], row["total_per_s"]) for row in api][::2] == [
        ("node1", 3998, 1999.0),
        ("node0", 1999, 999.5),
    ]
    assert f'href="{address}.csv"' in browser_client.page(PAGE)
