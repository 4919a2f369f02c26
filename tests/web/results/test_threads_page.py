"""The tree of the threads page: a form that works without scripts."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

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
