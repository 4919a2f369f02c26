"""Selections that are saved under a name, on every page of their result."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest

from perfloom.domain.errors import InvalidRequest, NotFound
from perfloom.domain.selection import Selection
from perfloom.store import Store
from perfloom.store.selections import MAX_SELECTIONS
from tests.web.conftest import HOSTILE, Browser
from tests.web.results.test_tree_page import branches

ID = "ordinary0000"
PAGE = f"/results/{ID}/hotspots"


def saved_of(page: str) -> dict[str, str]:
    found = re.findall(r'<li><a class="wrap" href="([^"]*)"[^>]*>([^<]*)</a>', page)
    return {html.unescape(name): html.unescape(url) for url, name in found}


def test_a_selection_is_saved_and_offered_on_every_page(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(branches())
    assert ">Saved" not in browser_client.page(PAGE), "nothing to save, nothing saved"
    page = browser_client.page(f"{PAGE}?focus=^work$&start-ms=0&by=thread")
    assert "Save this selection as" in page
    done = browser_client.post(
        f"/results/{ID}/selections", selection_name=" the  work ", key="hotspots", query="focus=%5Ework%24&start-ms=0"
    )
    assert done.status_code == 303 and done.location == f"{PAGE}?start-ms=0&focus=%5Ework%24"
    assert "Saved the selection “the work”." in browser_client.page(done.location)
    for key in ("", "/flamegraph", "/tree", "/hotspots", "/counts"):
        urls = saved_of(browser_client.page(f"/results/{ID}{key}"))
        assert urls == {"the work": f"/results/{ID}{key}?start-ms=0&focus=%5Ework%24"}, key
    assert 'aria-current="true">the work</a>' in browser_client.page(f"{PAGE}?start-ms=0&focus=^work$")
    # Another one of the same name replaces it; of another result there are none.
    browser_client.post(f"/results/{ID}/selections", selection_name="the work", key="tree", query="focus=idle")
    assert saved_of(browser_client.page(PAGE)) == {"the work": f"{PAGE}?focus=idle"}
    stored(branches(), "another00000")
    assert saved_of(browser_client.page("/results/another00000/hotspots")) == {}
    gone = browser_client.post(f"/results/{ID}/selections/delete", selection_name="the work", key="tree", query="")
    assert gone.location == f"/results/{ID}/tree" and saved_of(browser_client.page(PAGE)) == {}


def test_the_page_is_as_before(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(branches())
    page = browser_client.page(f"/results/{ID}/counts?focus=^work$&by=thread&unit=ms&values=percent")
    fields = {
        word: html.unescape(re.findall(rf'name="{word}" value="([^"]*)"', page)[-1])
        for word in ("key", "query", "rest")
    }
    before = f"/results/{ID}/counts?focus=%5Ework%24&by=thread&unit=ms&values=percent"
    for action in ("", "/delete"):
        done = browser_client.post(f"/results/{ID}/selections{action}", selection_name="work", **fields)
        assert done.location == before
    # The selection is that of `query`.
    fields["rest"] += "&focus=idle"
    assert browser_client.post(f"/results/{ID}/selections", selection_name="work", **fields).location == before


def test_what_cannot_be_saved(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(branches())
    for name, query, words in (
        ("", "focus=a", "The name is empty"),
        ("all", "", "Nothing is selected"),
        ("long", "&".join(f"thread=0/{n}/{n}" for n in range(1000)), "is longer than 6,000 characters"),
    ):
        done = browser_client.post(f"/results/{ID}/selections", selection_name=name, key="hotspots", query=query)
        assert done.status_code == 303 and words in browser_client.page(PAGE)
    huge = browser_client.post(f"/results/{ID}/selections", selection_name="a", key="", query="focus=" + "a" * 30_000)
    assert huge.status_code == 400
    assert browser_client.post(f"/results/{ID}/selections", selection_name="a", query="start-ms=x").status_code == 400
    assert (
        browser_client.post("/results/missing00000/selections", selection_name="a", query="focus=a").status_code == 404
    )
    assert browser_client.post(f"/results/{ID}/selections/delete", selection_name="zzz").status_code == 404
    assert saved_of(browser_client.page(PAGE)) == {}


def test_hostile_names(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(branches())
    for name in HOSTILE:
        browser_client.post(f"/results/{ID}/selections", selection_name=name, key="//evil.example", query="focus=a")
    page = browser_client.page(PAGE)
    # One is too long for a name.
    assert len(saved_of(page)) == len(HOSTILE) - 1 and not any(name in page for name in HOSTILE if "<" in name)


def test_limits(stored: Callable[..., str], store: Store) -> None:
    stored(branches())
    for number in range(MAX_SELECTIONS):
        store.selections.save(ID, f"selection {number}", Selection(focus=str(number)))
    with pytest.raises(InvalidRequest, match="Delete one first"):
        store.selections.save(ID, "one more", Selection(focus="a"))
    store.selections.save(ID, "selection 3", Selection(focus="a"))
    store.results.delete(ID)
    with pytest.raises(NotFound):
        store.results.get(ID)
    assert store.selections.list(ID) == ()
