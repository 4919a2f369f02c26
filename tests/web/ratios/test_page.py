"""The page of ratios and its table over HTTP."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.meta import Meta
from tests.analysis.ratios.test_frame_values import two_functions
from tests.analysis.ratios.test_function_sums import ranks
from tests.support.profiles import profile_of
from tests.web.conftest import Browser
from tests.web.html import read
from tests.web.results.test_empty_pages import counted, text_of
from tests.web.results.test_formulas_page import rows_of

ID = "ordinary0000"
PAGE = f"/results/{ID}/ratios"


def tips(page: str) -> list[list[str]]:
    """The lines of each dot, the first in front."""
    svg = re.findall(r'<svg [^>]*class="scatter-dots[^"]*".*?</svg>', page, re.DOTALL)[0]
    found = re.findall(r"<circle[^>]*><title>(.*?)</title>", svg, re.DOTALL)
    return [html.unescape(tip).split("\n") for tip in reversed(found)]


def test_the_page_has_a_flame_graph_a_scatter_and_a_table(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(two_functions())
    page = browser_client.page(PAGE)
    assert 'data-color="IPC"' in page and f'data-source="/api/v1/results/{ID}/flamegraph"' in page
    assert "flamegraph.svg?width=1200&amp;colour=IPC" in page
    assert tips(page) == [
        ["main", "cycles 530", "IPC 0.566"],
        ["slow", "cycles 400", "IPC 0.25"],
        ["fast", "cycles 100", "IPC 2"],
        ["idle", "cycles 30", "IPC 0"],
    ]
    assert [row[0] for row in rows_of(page)] == ["main", "slow", "fast", "idle"]
    assert "Not on the axes" not in page and "Selected" not in text_of(page)
    assert ">Ratios</a>" in browser_client.page(f"/results/{ID}")
    page = browser_client.page(f"{PAGE}?of=self&colour=cycles / instructions&x=instructions&y=IPC")
    assert [tip[0] for tip in tips(page)] == ["slow", "fast"]
    assert 'value="self" selected' in page and 'data-color="cycles / instructions"' in page


def test_what_is_not_on_the_axes_is_listed(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(two_functions())
    page = browser_client.page(f"{PAGE}?colour=CPI")
    assert "Not on the axes: 1 without a value (–)" in text_of(page) and len(tips(page)) == 3
    assert [row[0] for row in rows_of(page)] == ["main", "slow", "fast", "idle"], "the table has all"
    page = browser_client.page(f"{PAGE}?y-scale=log")
    assert "Not on the axes: 1 with 0 or less on a logarithmic axis" in text_of(page)
    assert "IPC (total), logarithmic" in text_of(page)
    page = browser_client.page(f"{PAGE}?y-scale=log&dots=apart")
    assert [row[0] for row in rows_of(page)] == ["idle"] and "Show all" in page


def test_a_box_becomes_a_focus(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(two_functions())
    page = browser_client.page(f"{PAGE}?x-from=100&x-to=400&y-from=0.2&by=function")
    assert "Selected 2 functions" in text_of(page) and 'class="scatter-box"' in page
    assert [row[0] for row in rows_of(page)] == ["slow", "fast"]
    links = [html.unescape(link) for link in re.findall(r'href="([^"]*focus=[^"]*)"', page)]
    focus = "%5E%28%3F%3Aslow%7Cfast%29%24"
    assert f"{PAGE}?focus={focus}&by=function" in links and f"/results/{ID}/flamegraph?focus={focus}" in links
    after = browser_client.page(f"{PAGE}?focus={focus}&by=function")
    assert [tip[0] for tip in tips(after)] == ["main", "slow", "fast"] and 'class="scatter-box"' not in after
    # Without anything inside, there is nothing to focus on.
    page = browser_client.page(f"{PAGE}?x-from=1000")
    assert "Selected 0 functions" in text_of(page) and "Focus on" not in text_of(page)
    assert "Remove a filter above" not in text_of(page) or rows_of(page) != []


def test_dots_of_functions_and_threads_and_their_difference(
    stored: Callable[..., str], browser_client: Browser
) -> None:
    stored(ranks())
    page = browser_client.page(f"{PAGE}?by=thread&colour=CPI")
    assert ["work · thread 1 101", "cycles 300", "CPI 3"] in tips(page)
    assert ["work", "thread 0 100"] in [row[:2] for row in rows_of(page)]
    page = browser_client.page(f"{PAGE}?by=thread&colour=CPI&reference=thread 0 100")
    assert ["work · thread 1 101", "cycles 3", "CPI 2", "cycles 300"] in tips(page)
    assert "cycles (total) ÷ thread 0 100" in text_of(page) and "CPI (total) − thread 0 100" in text_of(page)
    assert "1 without a value (–)" in text_of(page), "rest is not at the reference"
    assert "reference must be one of" in browser_client.page(f"{PAGE}?by=thread&reference=x", 400)


@pytest.mark.parametrize(
    "query",
    ["colour=", "x=cycles /", "y=LLC-loads", "by=module", "x-scale=sqrt", "of=x", "x-from=a", "y-to=nan", "dots=x"],
)
def test_bad_parameters_are_explained(stored: Callable[..., str], browser_client: Browser, query: str) -> None:
    stored(two_functions())
    word, _, value = query.partition("=")
    page = browser_client.page(f"{PAGE}?{query}", 400 if value else 200)
    assert word in page


def test_the_table_as_a_file_and_over_http(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(two_functions())
    lines = browser_client.page(f"{PAGE}.csv?colour=CPI&x-from=100&x-to=400").splitlines()
    assert lines[0].startswith("name,module,place,x,y,color,weight,event,x_metric") and len(lines) == 3
    assert lines[1].startswith("slow,app,,400.0,4.0,4.0,400.0,cycles,cycles,CPI,CPI,total")
    rows = browser_client.client.get(f"/api/v1/results/{ID}/ratios?by=thread").json
    assert rows is not None and rows[0].keys() >= {"formula", "name", "place", "self", "total", "mean"}


def test_at_most_some_dots_are_drawn(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(
        profile_of(
            [(f"f{number}", 1 + number, 0, 2 * number + event, event) for number in range(2_100) for event in (0, 1)],
            events=(("cycles", "count"), ("instructions", "count")),
        )
    )
    page = browser_client.page(PAGE)
    found = tips(page)
    assert len(found) == 2_000 and found[0][0] == "f2099" and "100 others are only in the table" in text_of(page)
    assert "1 – 100 of 2,100" in text_of(page)


def test_without_two_events_it_says_what_to_record(stored: Callable[..., str], browser_client: Browser) -> None:
    for number, (made, reason) in enumerate(
        (
            (profile_of([("main", 1)]), "Ratios need samples of at least two events. Record several"),
            (counted(), "The events were counted, not sampled"),
            (ProfileBuilder("test").finish(Meta("test")), "This recording has no samples"),
        )
    ):
        id = stored(made, f"single{number:06}")
        assert reason in text_of(browser_client.page(f"/results/{id}/ratios")), reason
        assert ">Ratios</a>" not in browser_client.page(f"/results/{id}"), "not offered"
        assert browser_client.page(f"/results/{id}/ratios.csv").count("\n") == 1


def test_an_empty_selection(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(two_functions())
    for query in ("focus=nothing-has-this", "start-ms=90000", "focus=nothing-has-this&by=thread&y-scale=log"):
        page = browser_client.page(f"{PAGE}?{query}")
        assert "Remove a filter above" in text_of(page) and tips(page) == []


def test_hostile_names_do_no_harm(evil: str, browser_client: Browser) -> None:
    for query in ("", "?by=thread", "?x-from=0&y-scale=log", "?colour='<script>alert(1)</script>' / 1"):
        answer = browser_client.client.get(f"/results/{evil}/ratios{query}")
        assert read(answer.text).faults == [] and "\u202e" not in answer.text
