"""The tree of the threads page: a form that works without scripts."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from urllib.parse import parse_qsl

from tests.support.profiles import profile_of
from tests.web.conftest import Browser
from tests.web.results.test_counts_page import ranked
from tests.web.results.test_empty_pages import text_of

PAGE = "/results/ordinary0000/threads"


def boxes(page: str) -> dict[str, tuple[str, str]]:
    """(value, attributes) of check boxes by their labels."""
    found = re.findall(r'<input type="checkbox" name="node" value="([^"]*)"([^>]*)>([^<]*)</label>', page)
    return {html.unescape(label): (html.unescape(value), rest.strip()) for value, rest, label in found}


def test_checked_threads_become_the_selection(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(ranked(4))
    page = browser_client.page(f"{PAGE}?start-ms=100")
    found = boxes(page)
    assert list(found)[:4] == ["node1", "rank 3", "solver 13", "rank 2"] and {rest for _, rest in found.values()} == {
        ""
    }
    assert 'name="start-ms" value="100"' in page
    query = {"node": found["node1"][0], "start-ms": "100"}
    response = browser_client.client.get(f"{PAGE}/select", query_string=query)
    assert (response.status_code, response.headers["Location"]) == (303, f"{PAGE}?rank=2-3&start-ms=100")
    after = boxes(browser_client.page(response.headers["Location"]))
    assert after["node1"][1] == "checked" and after["rank 3"][1] == "checked disabled" and after["node0"][1] == ""
    one = {"node": found["solver 11"][0]}
    response = browser_client.client.get(f"{PAGE}/select", query_string=one)
    assert response.headers["Location"] == f"{PAGE}?rank=1"
    # Nothing checked is everything.
    response = browser_client.client.get(f"{PAGE}/select?rank=1")
    assert response.headers["Location"] == PAGE
    assert browser_client.client.get(f"{PAGE}/select?node=x").status_code == 400
    every = boxes(browser_client.page(f"{PAGE}?checked=all&rank=1"))
    assert every["node0"][1] == "checked" and every["rank 1"][1] == "checked disabled"
    none = boxes(browser_client.page(f"{PAGE}?checked=none&rank=1"))
    assert {rest for _, rest in none.values()} == {""}


def test_small_threads_are_folded_and_compared(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(profile_of([("main", 100_000, 0), *(("main", 1, n) for n in range(1, 5_000))]))
    page = browser_client.page(PAGE)
    assert "4,999 threads below 0.1 %" in text_of(page) and set(boxes(page)) == {"thread 0 100"}
    everything = browser_client.page(f"{PAGE}?noise=0")
    assert everything.count('type="checkbox" name="node"') == 200 and "4,801 threads" in text_of(everything)
    reference = re.findall(r'<a href="([^"]*)" aria-label="Compare with thread 0 100"', page)
    assert "100.00\xa0%" in browser_client.page(html.unescape(reference[0]))
    browser_client.page(f"{PAGE}?noise=3", 400)
    browser_client.page(f"{PAGE}?checked=some", 400)


def pairs(page: str) -> dict[str, list[tuple[str, str]]]:
    """(label, address) of the groups of each pair, by title."""
    found = re.findall(r'class="thread-pair"><span class="muted">([^<]*)</span>(.*?)</div>', page, re.DOTALL)
    links = r'<a href="([^"]*)"(?: aria-current="true")?>([^<]*)</a>'
    return {
        html.unescape(title): [(html.unescape(label), html.unescape(url)) for url, label in re.findall(links, inside)]
        for title, inside in found
    }


def test_groups_of_ranks_are_selected_and_saved(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(ranked(4))
    found = pairs(browser_client.page(f"{PAGE}?start-ms=100"))
    assert found == {
        "Rank 0 against the rest": [
            ("rank 0", f"{PAGE}?rank=0&start-ms=100"),
            ("ranks 1–3", f"{PAGE}?rank=1-3&start-ms=100"),
        ],
        # Rank 0 has no samples.
        "Slowest rank against fastest": [
            ("rank 3", f"{PAGE}?rank=3&start-ms=100"),
            ("rank 1", f"{PAGE}?rank=1&start-ms=100"),
        ],
    }
    # They are the same whatever is selected; which one is, is marked.
    page = browser_client.page(f"{PAGE}?rank=3&start-ms=100")
    assert pairs(page) == found and re.search(r'aria-current="true">rank 3</a>', page)
    answer = browser_client.post(f"{PAGE}/groups?rank=3&start-ms=100&noise=1", pair="extremes")
    assert answer.headers["Location"] == f"{PAGE}?rank=3&start-ms=100&noise=1"
    after = browser_client.page(answer.headers["Location"])
    assert "Saved the selections “slowest: rank 3” and “fastest: rank 1”." in text_of(after)
    saved = re.findall(r'<a class="wrap" href="([^"]*)"[^>]*>([^<]*)</a>', after)
    assert [(html.unescape(url), name) for url, name in saved] == [
        (f"{PAGE}?rank=1&start-ms=100&noise=1", "fastest: rank 1"),
        (f"{PAGE}?rank=3&start-ms=100&noise=1", "slowest: rank 3"),
    ]
    assert browser_client.post(f"{PAGE}/groups", pair="none").status_code == 400


def test_groups_without_ranks_are_processes_or_threads(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(profile_of([("main", 5, 0), ("main", 7, 1), ("main", 1, 2), ("main", 0, 3)]))
    assert pairs(browser_client.page(PAGE)) == {
        "Slowest thread against fastest": [
            ("thread 1 101", f"{PAGE}?thread=-%2F100%2F101"),
            ("thread 2 102", f"{PAGE}?thread=-%2F100%2F102"),
        ]
    }
    stored(profile_of([("main", 5, 0), ("main", 5, 1)]), "even00000000")
    assert pairs(browser_client.page("/results/even00000000/threads")) == {}


def test_a_selection_of_only_the_direction_can_be_saved(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(profile_of([("main;work", 5, 0), ("main", 7, 1)]))
    for query in ("invert=1", "recursion=1"):
        page = browser_client.page(f"/results/ordinary0000/tree?{query}")
        assert f'name="query" value="{query}"' in page and "Save this selection as" in page
        answer = browser_client.post("/results/ordinary0000/selections", key="tree", query=query, selection_name=query)
        assert answer.headers["Location"] == f"/results/ordinary0000/tree?{query}"
        assert f"Saved the selection “{query}”." in text_of(browser_client.page(answer.headers["Location"]))


def test_the_form_keeps_every_part_of_the_selection(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(ranked(4))
    query = "process=0/10&process=2/12&host=node0&host=node1&focus=f&focus=main&show=f&show-from=main&hide=x"
    page = browser_client.page(f"{PAGE}?{query}&rank=0-2")
    form = page[page.index("selection__form") : page.index('<button class="button button--primary">Filter</button>')]
    fields = re.findall(r'<input[^>]* name="([^"]*)"[^>]* value="([^"]+)"', form)
    assert sorted(fields) == sorted([*parse_qsl(query), ("rank", "0-2")])
    assert '<details class="disclosure" open>' in form
    chips = re.findall(r"<span title=\"[^\"]*\">([^:]*): <b>([^<]*)</b>", page)
    assert chips == [
        ("Process", "0/10"),
        ("Process", "2/12"),
        ("Host", "node0"),
        ("Host", "node1"),
        ("Rank", "0–2"),
        ("Focus", "f"),
        ("Focus", "main"),
        ("Hide", "x"),
        ("Show", "f"),
        ("Show from", "main"),
    ]


def test_a_filter_that_leaves_nothing_is_named(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(ranked(4))
    reason = "in this selection. Remove a filter above."
    assert reason in text_of(browser_client.page(f"{PAGE}?focus=nosuchxyz"))
    assert reason not in text_of(browser_client.page(PAGE))
