"""Addresses of links with a part of the query changed."""

from __future__ import annotations

from flask import Flask

from perfloom.domain.selection import Selection
from perfloom.web.pages import result_url
from perfloom.web.views.results.tables import current_url_with


def test_links_change_only_their_words(app: Flask) -> None:
    # Requests within one context of the application share what it keeps.
    with app.app_context():
        with app.test_request_context("/page?thread=a%26b&thread=c&sort=-self&empty="):
            assert current_url_with(("sort", "name")) == "/page?thread=a%26b&thread=c&sort=name"
            assert current_url_with(("sort", "total")) == "/page?thread=a%26b&thread=c&sort=total"
            assert current_url_with(("thread", None)) == "/page?sort=-self"
            assert current_url_with(("thread", ""), ("sort", None)) == "/page"
        with app.test_request_context("/page?thread=d"):
            assert current_url_with(("sort", "name")) == "/page?thread=d&sort=name"


def test_addresses_of_results_have_the_selection_first(app: Flask) -> None:
    with app.test_request_context("/"):
        selection = Selection(event="cycles", threads=("a&b",))
        assert (
            result_url("id", "tree", selection, [("rows", "9")]) == "/results/id/tree?event=cycles&thread=a%26b&rows=9"
        )
        assert result_url("id", "tree", selection.replace(event=None)) == "/results/id/tree?thread=a%26b"
        assert result_url("id", extra=[("rows", "9")]) == "/results/id?rows=9"
        assert result_url("id") == "/results/id"
