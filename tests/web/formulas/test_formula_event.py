"""Pages with a formula instead of an event."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from perfloom.analysis.formulas import resolution
from perfloom.domain.formulas.formula import Formula
from perfloom.web.pages import RESULT_PAGES
from tests.web.conftest import Browser
from tests.web.results.test_empty_pages import text_of
from tests.web.results.test_formulas_page import rows_of, sampled

RESULT = "/results/ordinary0000"
EVENT = "event=CPI"


@pytest.mark.parametrize("page", [page.key for page in RESULT_PAGES])
def test_every_page_shows_a_formula_or_says_what_it_shows(
    stored: Callable[..., str], browser_client: Browser, page: str
) -> None:
    stored(sampled())
    takes = next(one.takes_formulas for one in RESULT_PAGES if one.key == page)
    shows = next(one.shows_event and one.uses_selection for one in RESULT_PAGES if one.key == page)
    text = text_of(browser_client.page(f"{RESULT}/{page}?{EVENT}"))
    assert ("It shows cycles:u, the first event of it." in text) == (not takes and shows)
    # Tabs keep the formula.
    assert f'href="{RESULT}/matrix?{EVENT}"' in browser_client.page(f"{RESULT}/{page}?{EVENT}")


def test_formulas_are_a_group_of_the_event_chooser(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(sampled())
    page = browser_client.page(f"{RESULT}/threads?{EVENT}")
    assert '<option value="CPI" selected>CPI</option>' in page and '<option value="IPC">IPC</option>' in page
    assert "cycles / instructions" in text_of(page)
    assert '<option value="CPI"' not in browser_client.page(f"{RESULT}/heatmap")


def test_hotspots(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(sampled())
    rows = rows_of(browser_client.page(f"{RESULT}/hotspots?{EVENT}"))
    # In the order of the cycles; no sample was taken in main itself.
    assert [(row[0], *row[-3:-1]) for row in rows] == [
        ("slow", "4.000", "4.000"),
        ("fast", "0.500", "0.500"),
        ("main", "–", "1.667"),
    ]
    assert browser_client.page(f"{RESULT}/hotspots?{EVENT}&sort=total").index("fast") > 0


def test_counts(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(sampled())
    page = browser_client.page(f"{RESULT}/counts?{EVENT}&by=thread")
    text = text_of(page)
    assert "1.67" in text and "in total" not in text
    assert "bars-plain" in page and "bars-1" not in page
    assert "no sum and no rate" in text_of(browser_client.page(f"{RESULT}/counts?{EVENT}&values=percent"))
    assert "no sum and no rate" in text_of(browser_client.page(f"{RESULT}/counts?{EVENT}&values=per-s"))
    compared = browser_client.page(f"{RESULT}/counts?{EVENT}&by=thread&values=percent&reference=thread 0 100")
    assert "100.00 %" in text_of(compared)


def test_tree_has_columns_of_formulas(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(sampled())
    for words in ("", f"?{EVENT}", f"?{EVENT}&invert=1", f"?{EVENT}&function=slow", "?event=IPC"):
        text = text_of(browser_client.page(f"{RESULT}/tree{words}"))
        assert "IPC" in text and "CPI" in text


def test_matrix(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(sampled())
    rows = rows_of(browser_client.page(f"{RESULT}/matrix?{EVENT}&by=thread"))
    assert [row[0] for row in rows] == ["All computing", "All waiting", "slow", "fast"]
    assert [row[1] for row in rows] == ["1.667", "–", "4.000", "0.500"]


def test_timeline_has_curves_of_formulas(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(sampled())
    api = f"/api/v1/results/ordinary0000/timeline?{EVENT}"
    tracks = json.loads(browser_client.client.get(api).get_data())["tracks"]
    curves = {track["name"]: track["id"] for track in tracks if track["key"].startswith("formula/")}
    assert curves == {"IPC": "f0", "CPI": "f1"}
    strip = json.loads(browser_client.client.get(api).get_data())["busy"]["host"]
    assert strip["unit"] == "CPI" and max(strip["values"]) == strip["most"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "table", ["counts", "count-shares", "threads", "ranks", "hotspots", "tree", "matrix", "matrix-cells"]
)
@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_files_of_tables(stored: Callable[..., str], browser_client: Browser, table: str, form: str) -> None:
    stored(sampled())
    answer = browser_client.client.get(f"{RESULT}/tables/{table}.{form}?{EVENT}")
    assert answer.status_code == 200
    if form == "csv":
        assert "CPI" in answer.get_data(as_text=True)


def test_a_formula_whose_divisor_is_zero(
    stored: Callable[..., str], browser_client: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Formula("nothing", "cycles / (instructions - instructions)", "GHz")
    monkeypatch.setattr(resolution, "BUILTIN_FORMULAS", (nothing,))
    stored(sampled())
    for page in ("counts", "threads", "hotspots", "tree", "matrix"):
        assert "–" in text_of(browser_client.page(f"{RESULT}/{page}?event=nothing"))


PAIR = "base=ordinary0000&other=another00000"


def test_comparison(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(sampled())
    stored(sampled(), "another00000", name="the other")
    page = browser_client.page(f"/compare?{PAIR}&{EVENT}")
    assert '<option value="CPI" selected>CPI</option>' in page and "shows its first event" in text_of(page)
    assert [(row[0], *row[-5:-1]) for row in rows_of(page)] == [
        ("slow", "4.000", "4.000", "0.000", "1"),
        ("fast", "0.500", "0.500", "0.000", "1"),
        ("main", "–", "–", "–", "–"),
    ]
    for path in (
        f"/compare/flamegraph.svg?{PAIR}&{EVENT}",
        f"/api/v1/compare/flamegraph?{PAIR}&{EVENT}",
        f"/compare?{PAIR}&{EVENT}&by=stack&of=total&sort=-ratio",
        f"/compare.csv?{PAIR}&{EVENT}",
    ):
        assert browser_client.client.get(path).status_code == 200, path


def test_what_draws_weights_takes_the_first_event(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(sampled())
    for path in (
        "/api/v1/results/ordinary0000/flamegraph",
        "/api/v1/results/ordinary0000/timeline/search",
        f"{RESULT}/flamegraph.svg",
        f"{RESULT}/timeline.svg",
        f"{RESULT}/timeline/selected",
    ):
        by_formula, by_event = (browser_client.client.get(f"{path}?event={event}&q=a") for event in ("CPI", "cycles:u"))
        assert by_formula.status_code == 200, path
        # Pictures have links.
        if path.startswith("/api"):
            assert by_formula.get_data() == by_event.get_data(), path
    refused = browser_client.client.get(f"/api/v1/results/ordinary0000/heatmap?{EVENT}")
    assert refused.status_code == 400 and "CPI is a formula" in refused.json["error"]
