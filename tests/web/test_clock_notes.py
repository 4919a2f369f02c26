"""What pages say of the clocks of ranks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perfloom.analysis.clocks import Alignment
from perfloom.domain.profile import Profile
from perfloom.readers.merge import merge
from tests.analysis.test_clocks import rank_of_job
from tests.web.conftest import Browser

PAGES = ("", "/communication", "/critical-path", "/timeline")


def job(ahead_us: float, *, aligned: bool = True, alone: bool = False) -> Profile:
    groups = ((0,), (1,)) if alone else None
    ranks = [rank_of_job(0, groups=groups), rank_of_job(1, ahead_us, groups=groups)]
    return merge(ranks, Alignment() if aligned else None)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: job(200_000), "Times are aligned by the ends of the collectives that ranks share: rank 1 by −200 ms."),
        (lambda: job(-50_000), "rank 1 by +50.0 ms."),
        (lambda: job(0), "The clocks of all ranks agree"),
        (lambda: job(200_000, aligned=False), "differ by up to 200 ms and are not aligned"),
        (lambda: job(200_000, alone=True), "Ranks are not aligned: no collective was found on several of them."),
    ],
)
def test_each_page_says_how_times_of_ranks_fit(
    browser_client: Browser, stored: Callable[..., str], made: Callable[[], Profile], said: str
) -> None:
    id = stored(made())
    for page in PAGES:
        assert said in browser_client.page(f"/results/{id}{page}").replace("\u00a0", " "), page


def test_the_residual_skew_is_told_and_what_is_shorter_is_marked(
    browser_client: Browser, stored: Callable[..., str]
) -> None:
    id = stored(job(200_000))
    text = browser_client.page(f"/results/{id}/communication")
    assert "Residual skew: three of four collectives end within" in text and "Within skew" in text
    assert "Clocks of ranks" in text and "shifted" in text
    rows = browser_client.client.get(f"/results/{id}/clocks.json").get_json()
    assert [row["state"] for row in rows] == ["reference", "shifted"]


def test_one_rank_has_no_note(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(rank_of_job(0))
    for page in PAGES:
        text = browser_client.page(f"/results/{id}{page}")
        assert "Residual skew" not in text and "aligned" not in text
