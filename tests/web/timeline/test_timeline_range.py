"""What the timeline page shows below the tracks: the flame graph and the top functions of the selected time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perfloom.readers import READERS
from perfloom.web.views.timeline import selected_range
from tests.support.formats import DATA
from tests.support.profiles import profile_of
from tests.web.conftest import HOSTILE, Browser, profile
from tests.web.html import read
from tests.web.results.test_empty_pages import text_of
from tests.web.timeline.test_timeline import trace

PAGE = "/results/ordinary0000/timeline"
MS = 1_000_000


def phases() -> list[tuple[str, int, int, int]]:
    """Ten samples of 1 ms in `first`, then ten in `second`."""
    return [(f"main;{'first' if at < 10 else 'second'}", MS, 0, at * MS) for at in range(20)]


def test_the_section_shows_the_selected_time_and_leads_to_the_other_pages(
    stored: Callable[..., str], browser_client: Browser
) -> None:
    stored(profile_of(phases(), events=(("cpu-clock", "ns"),)))
    whole = browser_client.page(PAGE)
    text = text_of(whole).replace("\xa0", " ")
    assert "All time" in text and "first" in text and "second" in text and read(whole).faults == []
    page = browser_client.page(f"{PAGE}?start-ms=10&end-ms=20")
    functions = page.partition('data-selected="functions"')[2].partition("</table>")[0]
    assert "second" in functions and ">first<" not in functions and "100" in functions
    assert "Selected time" in page and "10.0 ms to 20.0 ms (10.0 ms)" in text_of(page).replace("\xa0", " ")
    for path in ("flamegraph", "hotspots"):
        assert f'href="/results/ordinary0000/{path}?start-ms=10&amp;end-ms=20"' in page, path
    # Without scripts a picture of the same time.
    assert '<iframe class="flame__static" src="/results/ordinary0000/flamegraph.svg?start-ms=10&amp;end-ms=20' in page


def test_a_time_without_samples_says_so(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(profile_of(phases(), events=(("cpu-clock", "ns"),)))
    page = browser_client.page(f"{PAGE}?start-ms=1000&end-ms=2000")
    assert "There are no samples of cpu-clock in the selected time." in page and read(page).faults == []
    assert "flamegraph.svg" not in page and 'aria-label="Top functions"' not in page


def test_few_functions_and_many(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(profile(samples=1))
    assert "functions with the most self weight" not in browser_client.page(PAGE)
    stored(profile(functions=40, samples=900), id="many00000000")
    assert "functions with the most self weight" in browser_client.page("/results/many00000000/timeline")


def test_a_large_result_has_the_section_on_request(
    stored: Callable[..., str], browser_client: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(profile_of(phases(), events=(("cpu-clock", "ns"),)))
    monkeypatch.setattr(selected_range, "LARGE_SAMPLES", 10)
    query = "?start-ms=10&end-ms=20"
    page = browser_client.page(PAGE + query)
    assert "data-is-pending" in page and "second" not in page.partition("<main")[2].partition("Threads as a table")[0]
    assert f'href="{PAGE}?start-ms=10&amp;end-ms=20&amp;samples=show"' in page and "flamegraph.svg" not in page
    shown = browser_client.page(f"{PAGE}{query}&samples=show")
    assert "second" in shown.partition('data-selected="functions"')[2] and "flamegraph.svg" in shown
    # What the script requests.
    part = browser_client.page(f"{PAGE}/selected{query}")
    assert "second" in part and "data-is-pending" not in part and "<html" not in part
    assert part.count("data-selected=") == 2


def test_a_trace_shows_its_slices_and_counters_alone_have_no_section(
    stored: Callable[..., str], browser_client: Browser
) -> None:
    stored(trace())
    assert "aten::mm" in browser_client.page(PAGE).partition('data-selected="functions"')[2]
    with open(DATA / "perf-stat/interval.json", "rb") as data:
        stored(READERS["perf-stat"].read(data, "interval.json"), id="stat00000000")
    page = browser_client.page("/results/stat00000000/timeline")
    assert "selected-range" not in page.partition("<main")[2] and 'data-timeline="root"' in page


def test_names_in_the_section_stay_text(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(profile(HOSTILE))
    page = browser_client.page(PAGE)
    assert "<script>window" not in page and "<img src=x" not in page
