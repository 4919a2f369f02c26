"""The page of the heat map and its table over HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.meta import Meta
from perfloom.domain.profile import Profile
from perfloom.domain.timed_events import IN_ORDER
from perfloom.domain.units import NS_PER_S
from tests.support.profiles import profile_of
from tests.web.conftest import Browser
from tests.web.html import read
from tests.web.results.test_empty_pages import counted, sampled, text_of

PAGE = "/results/ordinary0000/heatmap"


def alternating(seconds: int = 10, start: int = 0) -> Profile:
    """100 ms of work in each second, on each of two threads at another offset."""
    return profile_of(
        [
            (
                f"main;{'work' if thread else 'wait'}",
                1_000_000,
                thread,
                start + at * NS_PER_S + (thread * 500 + ms) * 10**6,
            )
            for at in range(seconds)
            for thread in (0, 1)
            for ms in range(100)
        ],
        events=(("cpu-clock", "ns"),),
    )


def cells_of(page: str) -> list[int]:
    steps = re.findall(r'data-cells="([\d,]*)"', page)[0]
    found = [0]
    for step in steps.split(","):
        found.append(found[-1] + int(step))
    return found[1:]


def test_the_page_shows_the_map_its_scale_and_its_cells(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(alternating())
    page = browser_client.page(PAGE)
    assert cells_of(page) == [50 * at + row for at in range(10) for row in (*range(5), *range(25, 30))]
    assert f'data-values="{",".join(["20000000"] * 100)}"' in page and 'data-unit="ns"' in page
    text = text_of(page).replace("\xa0", " ")
    for words in (
        "cpu-clock in each 20 ms",
        "10 ms",
        "20 ms",
        "Offset within 1 s",
        "1 s per column",
        "100 of 500 cells",
    ):
        assert words in text, words
    assert "1 – 100" not in text and "100 cells" in text and "Selected" not in text
    assert ">Heat map</a>" in browser_client.page("/results/ordinary0000")


def test_parameters_choose_rows_columns_and_color(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(alternating(20))
    assert len(cells_of(browser_client.page(f"{PAGE}?rows=10"))) == 40
    assert len(cells_of(browser_client.page(f"{PAGE}?rows=100"))) == 400
    page = browser_client.page(f"{PAGE}?column-ms=10000&rows=10&color=samples")
    assert cells_of(page) == list(range(20)) and f'data-values="{",".join(["200"] * 20)}"' in page
    text = text_of(page).replace("\xa0", " ")
    assert "Samples in each 1 s" in text and "Offset within 10 s" in text
    assert 'aria-current="true">Samples</a>' in page and f'href="{PAGE}?column-ms=10000&amp;rows=10">Weight</a>' in page
    for query in ("rows=7", "rows=x", "column-ms=3", "column-ms=0.001", "color=red"):
        assert query.partition("=")[0] in browser_client.page(f"{PAGE}?{query}", 400), query


def test_selection_applies_but_time_is_a_frame(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(alternating())
    for query in ("thread=thread+1", "focus=work", "ignore=wait"):
        assert cells_of(browser_client.page(f"{PAGE}?{query}")) == [
            50 * at + row for at in range(10) for row in range(25, 30)
        ], query
    page = browser_client.page(f"{PAGE}?start-ms=2000&end-ms=4500&rows=10")
    assert cells_of(page) == cells_of(browser_client.page(f"{PAGE}?rows=10")) and 'class="heat-edge"' in page
    text = text_of(page).replace("\xa0", " ")
    assert "Selected 2.00 s to 4.50 s (2.50 s)" in text and "Busiest cells of the selected time" in text
    assert "5 cells" in text, "those of the selected time"
    links = read(page).links
    for key in ("flamegraph", "timeline"):
        assert f"/results/ordinary0000/{key}?start-ms=2000&end-ms=4500" in links
    assert f"{PAGE}?rows=10" in links, "without the time"
    assert f"{PAGE}?start-ms=2000&end-ms=2100&rows=10" in links, "one cell"


def test_a_window_without_samples_leaves_the_map(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(alternating())
    page = browser_client.page(f"{PAGE}?start-ms=90000")
    text = text_of(page)
    assert len(cells_of(page)) == 100 and 'class="heat-edge"' not in page
    assert "No samples match this selection. Remove a filter above." in text and "from 90" in text
    text = text_of(browser_client.page(f"{PAGE}?focus=nothing-has-this-name"))
    assert "No samples match this selection" in text and "in each" not in text


@pytest.mark.parametrize("times", [(0,), (5, 5, 5), (1 << 61, (1 << 61) + 3600 * NS_PER_S)])
def test_few_and_late_samples_are_drawn(
    stored: Callable[..., str], browser_client: Browser, times: tuple[int, ...]
) -> None:
    made = profile_of([("main", 1, 0, at) for at in times])
    stored(replace(made, meta=replace(made.meta, duration_ns=1)))
    page = browser_client.page(PAGE)
    assert cells_of(page)[0] == 0 and "cycles in each" in text_of(page)
    hours = len(set(times)) > 1
    assert f'data-column="{10 * NS_PER_S if hours else NS_PER_S}"' in page
    assert browser_client.page(f"{PAGE}.csv").count("\n") == len(set(times)) + 1


def test_without_times_the_page_says_what_to_record(stored: Callable[..., str], browser_client: Browser) -> None:
    timed = sampled("main;work")
    unordered = replace(timed, meta=replace(timed.meta, duration_ns=None, clock=IN_ORDER))
    for number, (made, reason) in enumerate(
        (
            (sampled("main;work", kind="collapsed"), "only sums of call stacks. Record with perf record"),
            (unordered, "the samples have no times. Print them with their times (perf script -F +time)"),
            (counted(), "The events were counted, not sampled"),
            (ProfileBuilder("test").finish(Meta("test")), "This recording has no samples. Record with perf record"),
        )
    ):
        id = stored(made, f"untimed{number:05}")
        text = text_of(browser_client.page(f"/results/{id}/heatmap"))
        assert reason in text and "Remove a filter" not in text, reason
        assert "Heat map" not in text_of(browser_client.page(f"/results/{id}/hotspots")), "not offered"
        assert browser_client.page(f"/results/{id}/heatmap.csv").count("\n") == 1


def test_an_event_without_totals_shows_samples(stored: Callable[..., str], browser_client: Browser) -> None:
    builder = ProfileBuilder("perf-script")
    thread = builder.intern_thread(pid=1, tid=1)
    event = builder.intern_event("page-faults", "count", sampling="frequency", rate=99.0)
    for at in range(4):
        builder.add_sample(at * NS_PER_S, thread, event, 0, 1 + at)
    stored(builder.finish(Meta("perf-script")))
    page = browser_client.page(PAGE)
    assert 'data-values="1,1,1,1"' in page and "Samples in each" in text_of(page)
    assert 'aria-label="Color"' not in page
    rows = browser_client.client.get("/api/v1/results/ordinary0000/heatmap").json
    assert rows is not None and [row["value"] for row in rows] == [None] * 4


def test_rows_over_http_are_those_of_the_page(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(alternating())
    rows = browser_client.client.get("/api/v1/results/ordinary0000/heatmap?start-ms=1000&end-ms=2000").json
    assert rows is not None and len(rows) == 10
    assert rows[0] == {
        "event": "cpu-clock",
        "unit": "ns",
        "column_ms": 1000,
        "offset_ms": 0,
        "cell_ms": 20,
        "value": 20_000_000,
        "percent": 10,
        "samples": 20,
    }
    text = browser_client.page(f"{PAGE}.csv?start-ms=1000&end-ms=2000&rows=10&sort=offset_ms")
    assert [line.split(",")[2:4] for line in text.splitlines()[1:]] == [["1000.0", "0.0"], ["1000.0", "500.0"]]


def test_hostile_names_do_no_harm(evil: str, browser_client: Browser) -> None:
    for query in ("", "?color=samples&rows=100", "?start-ms=1&end-ms=100"):
        text = browser_client.page(f"/results/{evil}/heatmap{query}")
        assert read(text).faults == [] and "\u202e" not in text
