"""Names of functions on pages: short in cells, complete in titles and files."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.web.conftest import Browser
from tests.web.flamegraph import making

PUSH = "std::vector<int, std::allocator<int> >::push_back(int const&)"
SAME = ("a::b::f(int)", "a::b::f(long)")


@pytest.mark.parametrize("page", ["", "/hotspots"])
def test_cell_short_and_title_full(browser_client: Browser, stored: Callable[..., str], page: str) -> None:
    result = stored(making.profile([(["main", PUSH], 1_000_000), (["main", SAME[0]], 2), (["main", SAME[1]], 2)]))
    text = browser_client.page(f"/results/{result}{page}")
    (title,) = re.findall(r'title="(std::vector[^"\n]*)[^>]*>(?:<[^>]*>)*vector', text)
    assert title.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == PUSH
    for name in SAME:
        assert text.count(f">{name}<") == 1, "names that would look the same are complete"


def test_file_has_full_names(browser_client: Browser, stored: Callable[..., str]) -> None:
    result = stored(making.profile([(["main", PUSH], 1_000_000)]))
    assert PUSH in browser_client.page(f"/results/{result}/hotspots.csv")
