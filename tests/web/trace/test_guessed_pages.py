"""Pages of an event whose samples tell no total: each says so, none shows a number in its place."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from perfloom.domain.event_names import SAMPLED_ONLY
from tests.analysis.ml.test_guessed import counts, made
from tests.web.conftest import Browser

SUM = "1,026"
"""Of all weights; of one rank 513."""


PAGES = ("", "/counts", "/threads", "/hotspots", "/flamegraph", "/timeline")


@pytest.mark.parametrize("page", PAGES)
def test_a_guessed_total_is_not_shown(browser_client: Browser, stored: Callable[..., str], page: str) -> None:
    id = stored(made("page-faults", "frequency"))
    response = browser_client.client.get(f"/results/{id}{page}")
    assert response.status_code == 200
    assert SAMPLED_ONLY in response.text
    if page != "/flamegraph":
        # As words: the hash in the address of a stylesheet may have these digits.
        assert not re.search(rf"\b({SUM}|513)\b", response.text)
        assert "× the mean" not in response.text


def test_the_data_of_a_timeline_marks_guessed_weights(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(made("page-faults", "frequency"))
    data = browser_client.client.get(f"/api/v1/results/{id}/timeline").get_json()
    assert {track["unit"] for track in data["tracks"]} == {SAMPLED_ONLY}
    assert browser_client.client.get(f"/api/v1/results/{id}/timeline/search?q=.").get_json()["unit"] == SAMPLED_ONLY


def test_the_list_marks_guessed_totals(browser_client: Browser, stored: Callable[..., str]) -> None:
    stored(made("page-faults", "frequency"))
    text = browser_client.client.get("/").text
    assert SAMPLED_ONLY in text and SUM not in text


def test_two_of_them_are_compared_by_share_alone(
    browser_client: Browser, stored: Callable[..., str], tmp_path: Path
) -> None:
    base = stored(made("page-faults", "frequency"), "aaaaaaaaaaaa")
    other = stored(made("page-faults", "frequency", (1, 2000)), "bbbbbbbbbbbb")
    text = browser_client.client.get(f"/compare?base={base}&other={other}&normalise=0").text
    assert SAMPLED_ONLY in text and "Compares shares of each total" in text and "Compares absolute values" not in text
    assert "more than of the base" not in text and "less than of the base" not in text


def test_counts_are_on_the_overview(browser_client: Browser, stored: Callable[..., str]) -> None:
    from perfloom.ingest.stat_counts import add_counts

    id = stored(add_counts(made("page-faults", "frequency"), counts("page-faults", 4321.0)))
    text = browser_client.client.get(f"/results/{id}").text
    assert "4,321" in text and SUM not in text
    assert "shares of samples, counted total" in text
