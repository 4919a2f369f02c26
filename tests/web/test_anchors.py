"""Links to a part of a page: its heading is below the top bar, at any width."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from perfloom.store import open_store
from tests.analysis.distributed.test_communication import pair
from tests.support.signing import sign_in
from tests.web.conftest import ORDINARY
from tests.web.serving import Served, put, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

COMPARE = f"/compare?base={ORDINARY}&other=another00000"
PAGES = (COMPARE, "/results/trace0000000/communication", f"/results/{ORDINARY}", "/tracer", "/import")
POSITIONS = """() => {
  const bottom = document.querySelector('.top').getBoundingClientRect().bottom;
  const anchors = document.querySelectorAll('main :is(section, h1, h2, h3, h4, details)[id]');
  return [...anchors].map((one) => {
    location.hash = '';
    location.hash = one.id;
    return [one.id, one.getBoundingClientRect().top >= bottom];
  });
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), filled=True) as here:
        store = open_store(here.settings)
        put(store, "trace0000000", "two ranks", pair())
        store.close()
        yield here


@pytest.mark.slow
def test_no_anchor_is_under_the_top_bar(browser: Browser, server: Served) -> None:
    for width in (400, 1400):
        context = browser.new_context(viewport={"width": width, "height": 400})
        sign_in(context, server.entry)
        page = context.new_page()
        seen = 0
        for path in PAGES:
            page.goto(server.url + path)
            found = page.evaluate(POSITIONS)
            seen += len(found)
            assert [id for id, is_below in found if not is_below] == [], (path, width)
        assert seen >= 2
        context.close()
