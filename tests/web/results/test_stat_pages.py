"""Pages of results of perf stat: counts, metrics, intervals on the timeline, and two of them side by side."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest

from perfloom.readers import perf_stat
from tests.support import paths
from tests.web.conftest import TOKEN, Browser, profile

DATA = paths.DATA / "perf-stat"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
BASE, OTHER, RECORDED, INTERVALS = "base00000000", "other0000000", "recorded0000", "intervals000"
HARDWARE = "hardware0000"
PAIR = f"base={BASE}&other={OTHER}"


def of_file(name: str):  # type: ignore[no-untyped-def]
    with (DATA / name).open("rb") as stream:
        return perf_stat.read(stream)


@pytest.fixture
def results(stored: Callable[..., str]) -> None:
    stored(of_file("by-hand-repeat-base.json"), BASE, name="base of five")
    stored(of_file("by-hand-repeat-other.csv"), OTHER, name="other of five")
    stored(of_file("by-hand-interval.csv"), INTERVALS, name="in intervals")
    stored(profile(), RECORDED, name="a recording")


def text(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def test_counts_show_metrics_and_what_was_not_counted(browser_client: Browser, results: None) -> None:
    page = text(browser_client.page(f"/results/{BASE}/counts"))
    assert "insn per cycle instructions all 2" in page and "GHz cycles all 3" in page
    assert "LLC-loads counted all all not supported" in page
    intervals = text(browser_client.page(f"/results/{INTERVALS}/counts"))
    assert "insn per cycle instructions all 0.5 … 2" in intervals
    assert "600 M" in intervals and "1 not counted" in intervals
    assert "event without a value: not supported" in browser_client.page(f"/results/{BASE}/losses")
    csv = browser_client.page(f"/results/{INTERVALS}/count-metrics.csv")
    assert csv.count("insn per cycle") == 3


def test_units_and_events_that_were_not_counted_stand_on_the_overview(
    browser_client: Browser, results: None, stored: Callable[..., str]
) -> None:
    lines = ("7.25,Joules,power/energy-pkg/,1000,100.00,,", "<not supported>,,LLC-loads,0,100.00,,")
    stored(perf_stat.read(io.BytesIO("\n".join(lines).encode())), "joules000000", name="energy")
    page = text(browser_client.page("/results/joules000000"))
    assert "7.25\N{NO-BREAK SPACE}Joules".replace("\N{NO-BREAK SPACE}", " ") in page
    assert "LLC-loads counted not supported" in page
    assert "7.25" in text(browser_client.page("/results/joules000000/counts"))


def test_a_result_of_metrics_alone_has_no_empty_table(
    browser_client: Browser, results: None, stored: Callable[..., str]
) -> None:
    metrics = b'{"metric-value" : "1.25", "metric-unit" : "insn per cycle"}\n'
    stored(perf_stat.read(io.BytesIO(metrics)), "metrics00000", name="metrics alone")
    page = text(browser_client.page("/results/metrics00000/counts"))
    assert "insn per cycle" in page and "Nothing matches" not in page


def test_intervals_stand_on_the_timeline(browser_client: Browser, results: None) -> None:
    assert "Timeline" in browser_client.page(f"/results/{INTERVALS}/timeline")
    tracks = browser_client.client.get(f"/api/v1/results/{INTERVALS}/timeline", headers=BEARER).json["tracks"]
    ranges = {track["name"]: (track["low"], track["high"]) for track in tracks if track["kind"] == "counter"}
    assert ranges["cycles per second"] == (1e9, 3e9) and ranges["insn per cycle"] == (0.5, 2.0)
    picture = browser_client.page(f"/results/{INTERVALS}/timeline.svg")
    assert "insn per cycle" in picture
    assert f"/results/{BASE}/timeline" not in browser_client.page(f"/results/{BASE}")


def test_two_results_are_compared_by_counts(browser_client: Browser, results: None) -> None:
    response = browser_client.client.get(f"/compare?{PAIR}")
    assert response.status_code == 303 and response.headers["Location"] == f"/compare/counts?{PAIR}"
    page = text(browser_client.page(f"/compare/counts?{PAIR}"))
    assert "cycles grew 1.00 G ± 1.5 % 1.20 G ± 2 % +200 M +20.00 1.2" in page
    assert "instructions not significant" in page and "LLC-loads: not supported in the base" in page
    rows = browser_client.client.get(f"/api/v1/compare/counts?{PAIR}", headers=BEARER).json
    assert rows[0]["ratio"] == 1.2 and rows[0]["base_source"] == "counted"
    assert "delta_percent" in browser_client.page(f"/compare/counts.csv?{PAIR}")


def test_counted_beside_sampled_says_so(browser_client: Browser, results: None) -> None:
    pair = f"base={BASE}&other={RECORDED}"
    assert browser_client.client.get(f"/compare?{pair}").status_code == 303
    page = text(browser_client.page(f"/compare/counts?{pair}"))
    assert "The base was counted (perf stat), the other was sampled (perf record)" in page
    pair = f"base={RECORDED}&other={INTERVALS}"
    assert "The other was counted" in text(browser_client.page(f"/compare/counts?{pair}"))
    answer = browser_client.client.get(f"/api/v1/compare?{pair}", headers=BEARER)
    assert answer.status_code == 400
    assert browser_client.client.get("/compare/counts?base=x", follow_redirects=True).status_code == 400
    recorded = f"base={RECORDED}&other={RECORDED}"
    assert browser_client.client.get(f"/compare/counts?{recorded}").status_code == 404


def test_an_event_without_a_count_has_no_total(browser_client: Browser, stored: Callable[..., str]) -> None:
    stored(of_file("by-hand-hardware.csv"), HARDWARE, name="hardware")
    page = text(browser_client.page(f"/results/{HARDWARE}/counts"))
    assert "LLC-loads not supported" in page and "cache-misses not counted" in page
    assert "0 total" not in page
