"""The column chooser of tables: what the form offers, what the URL changes, and what keeps it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from perfloom.store import open_store
from perfloom.web.views.results.column_choice import unambiguous_labels
from tests.analysis.distributed.test_communication import pair
from tests.analysis.ml.test_modules import called
from tests.analysis.ml.test_operators import small
from tests.support.signing import sign_in
from tests.web.conftest import HOSTILE
from tests.web.conftest import Browser as Client
from tests.web.html import read
from tests.web.serving import Served, put, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TRACE_TABLES = (
    *("operators", "operators?by=shapes", "operators?by=stack", "kernels", "kernels?by=configuration"),
    *("kernels?view=copies", "kernels?view=launches", "kernels?view=sequences", "steps", "critical-path"),
    *("hotspots", "threads", "counts"),
)
HEADING = re.compile(r"<th scope=\"col\"(?![^>]*bar-cell)[^>]*>(?:<a [^>]*>)?(?:<span[^>]*>)?([^<\n]+)")
OPTION = re.compile(r'name="columns" value="(\w+)"( checked)?( disabled)?>([^<]+)</label>')


def headings(page: str) -> list[str]:
    """The headings of the table of a sheet."""
    table = page.split("table-wrap--sheet", 1)[1].split("</thead>")[0]
    return [label.strip() for label in HEADING.findall(table)]


def options(page: str) -> dict[str, tuple[str, bool, bool]]:
    """(label, whether it is shown, whether it is fixed) by name."""
    return {name: (label, bool(on), bool(fixed)) for name, on, fixed, label in OPTION.findall(page)}


@pytest.fixture
def trace(stored: Callable[..., str]) -> str:
    return stored(small())


def test_the_url_says_which_columns_are_shown(browser_client: Client, trace: str) -> None:
    every = options(browser_client.page(f"/results/{trace}/operators"))
    assert {"calls", "device_self_us", "host_max_us"} <= {name for name, (_, on, _) in every.items() if on}
    # Joined by the script, and as the form sends it without one.
    for words in ("columns=calls.host_min_us", "columns=name&columns=calls&columns=host_min_us"):
        page = browser_client.page(f"/results/{trace}/operators?{words}")
        assert headings(page) == ["Operator", "Calls", "Min"], words
        assert [name for name, (_, on, _) in options(page).items() if on] == ["name", "calls", "host_min_us"], words
        assert f'Columns <span class="muted">3 of {len(every)}</span>' in page
        assert 'colspan="3"' not in page
    assert headings(browser_client.page(f"/results/{trace}/operators?columns=name")) == ["Operator"]
    # Of another grouping, or nothing at all.
    assert headings(browser_client.page(f"/results/{trace}/operators?columns=grid.calls")) == ["Operator", "Calls"]


def test_columns_that_distinguish_rows_are_always_shown(browser_client: Client, trace: str) -> None:
    page = browser_client.page(f"/results/{trace}/operators?by=shapes&columns=calls")
    assert headings(page) == ["Operator", "Input shapes", "Calls"]
    assert [name for name, (_, _, fixed) in options(page).items() if fixed] == ["name", "input_shapes"]
    page = browser_client.page(f"/results/{trace}/kernels?by=configuration&columns=calls")
    assert headings(page) == ["Kernel", "Operator", "Grid", "Block", "Calls"]


def test_a_hidden_column_sorts(browser_client: Client, trace: str) -> None:
    every = browser_client.page(f"/results/{trace}/operators?sort=-host_max_us")
    page = browser_client.page(f"/results/{trace}/operators?sort=-host_max_us&columns=calls")
    name = re.compile(r'<th scope="row"[^>]*title="([^"]*)"')
    assert name.findall(page) == name.findall(every) != []
    assert "Sorted by “Max”, which is hidden." in page and "which is hidden" not in every


def test_links_and_forms_keep_the_columns_but_files_have_all(browser_client: Client, trace: str) -> None:
    page = browser_client.page(f"/results/{trace}/operators?columns=calls.host_min_us&kind=operator&sort=name")
    sorting = re.search(r'<th scope="col"[^>]*><a href="([^"]*)">Calls', page)
    assert sorting and "columns=calls.host_min_us" in sorting[1] and "kind=operator" in sorting[1]
    search = page.split('role="search"')[1].split("</form>")[0]
    assert 'name="columns" value="calls.host_min_us"' in search
    chooser = page.split("column-choice")[1].split("</form>")[0]
    assert 'name="kind" value="operator"' in chooser and 'name="sort" value="name"' in chooser
    assert f'href="/results/{trace}/operators?kind=operator&amp;sort=name">Default columns' in page
    files = re.findall(rf'href="(/results/{trace}/operators\.csv[^"]*)"', page)
    assert files and all("columns" not in file and "kind=operator" in file for file in files)
    assert "Default columns" not in browser_client.page(f"/results/{trace}/operators")


def test_every_table_has_a_chooser_with_distinct_labels(
    browser_client: Client, trace: str, stored: Callable[..., str]
) -> None:
    pages = [f"{trace}/{page}" for page in TRACE_TABLES]
    pages.append(stored(called(), "modules00000") + "/modules?by=type")
    pages.append(stored(pair(), "ranks0000000") + "/communication")
    for path in pages:
        page = browser_client.page(f"/results/{path}")
        found = options(page)
        labels = [label for label, _, _ in found.values()]
        assert len(labels) > 1 and len(set(labels)) == len(labels) and "%" not in labels, (path, labels)
        assert len(headings(page)) == sum(on for _, on, _ in found.values()), path
        assert read(page).faults == [], path


def test_hostile_words_stay_text(browser_client: Client, trace: str) -> None:
    for name in HOSTILE:
        answer = browser_client.client.get(f"/results/{trace}/operators", query_string={"columns": name})
        assert answer.status_code == 200 and read(answer.text).faults == [], name


def test_labels_are_read_without_their_neighbors() -> None:
    assert unambiguous_labels(["Total", "%", "Mean", "Max", "Bandwidth", "Max", "%"]) == [
        *("Total", "Total %", "Mean", "Max", "Bandwidth", "Bandwidth max", "Bandwidth %")
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), filled=False) as here:
        store = open_store(here.settings)
        put(store, "trace0000000", "a trace", small())
        store.close()
        yield here


@pytest.fixture
def page(browser: Browser, server: Served) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 800})
    sign_in(context, server.entry)
    yield context.new_page()
    context.close()


@pytest.mark.slow
def test_columns_are_chosen_with_one_short_word(page: Page, server: Served) -> None:
    page.goto(f"{server.url}/results/trace0000000/operators?kind=operator")
    page.get_by_text("Columns", exact=False).first.click()
    for box in page.locator(".column-choice input[type=checkbox]:not([disabled])").all():
        box.uncheck()
    page.get_by_label("Calls", exact=True).check()
    page.get_by_label("Min", exact=True).check()
    page.locator(".column-choice button").click()
    page.wait_for_url("**/operators?kind=operator&columns=name.calls.host_min_us")
    assert page.locator(".table-wrap--sheet thead th:not(.bar-cell)").count() == 3


@pytest.mark.slow
def test_operators_and_kernels_fit_1400_pixels(page: Page, server: Served) -> None:
    for tab in ("operators", "kernels", "kernels?view=launches"):
        page.goto(f"{server.url}/results/trace0000000/{tab}")
        wrap = page.locator(".table-wrap--sheet")
        assert wrap.evaluate("wrap => wrap.querySelector('table').scrollWidth <= wrap.clientWidth"), tab


def test_the_first_column_and_the_headings_stay(page: Page, server: Served) -> None:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": 700, "height": 500})
        page.goto(f"{server.url}/results/trace0000000/operators")
        wrap = page.locator(".table-wrap--sheet:not([data-fits])")
        first, second = (wrap.locator(f"tbody tr:first-child > :nth-child({n})") for n in (1, 3))
        before = first.bounding_box(), second.bounding_box()
        wrap.evaluate("wrap => { wrap.scrollLeft = 150; }")
        page.locator(".table-wrap--sheet[data-scrolled]").wait_for()
        after = first.bounding_box(), second.bounding_box()
        assert before[0] and after[0] and before[1] and after[1]
        assert before[0]["x"] == after[0]["x"] and before[1]["x"] - after[1]["x"] == 150
        background, shadow = first.evaluate(
            "cell => [getComputedStyle(cell).backgroundColor, getComputedStyle(cell).boxShadow]"
        )
        assert background.startswith("rgb(") and shadow != "none", scheme
    page.set_viewport_size({"width": 1400, "height": 300})
    page.goto(f"{server.url}/results/trace0000000/operators")
    page.locator(".table-wrap--sheet[data-fits]").wait_for()
    page.locator(".table-wrap--sheet tbody tr").last.scroll_into_view_if_needed()
    top, bar = page.locator(".table-wrap--sheet thead th").first.bounding_box(), page.locator(".top").bounding_box()
    assert top and bar and abs(top["y"] - bar["height"]) <= 1
