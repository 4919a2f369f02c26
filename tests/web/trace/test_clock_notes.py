"""What pages say of the clocks of ranks."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest

from perfloom.analysis.distributed.clock_alignment import ClockAligner
from perfloom.domain.profile import Profile
from perfloom.ingest.merge import merge
from tests.analysis.distributed.test_clocks import jittered, rank_of_job, without_steps
from tests.web.conftest import Browser

PAGES = ("", "/communication", "/critical-path", "/timeline")


def job(ahead_us: float, *, aligned: bool = True, alone: bool = False) -> Profile:
    groups = ((0,), (1,)) if alone else None
    ranks = [rank_of_job(0, groups=groups), rank_of_job(1, ahead_us, groups=groups)]
    return merge(ranks, ClockAligner() if aligned else None)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: job(200_000), "Times are aligned by the ends of shared collectives: rank 1 by −200 ms."),
        (lambda: job(-50_000), "rank 1 by +50.0 ms."),
        (lambda: job(0), "The clocks of all ranks agree"),
        (lambda: job(200_000, aligned=False), "differ by up to 200 ms and are not aligned"),
        (
            lambda: merge([rank_of_job(n, numbered=False) for n in (0, 1)], ClockAligner()),
            "matched by their order in each",
        ),
        (lambda: merge(without_steps(((0, 1), (1, 0))), ClockAligner()), "were matched by their order; if a recording"),
        (
            lambda: merge(without_steps(((0, 0), (9, 0))), ClockAligner()),
            "Not aligned: ranks 0–1. Their counts of the same collectives differ",
        ),
        (lambda: job(200_000, alone=True), "Ranks are not aligned: no collective was found on several of them."),
    ],
)
def test_each_page_reports_the_alignment_of_ranks(
    browser_client: Browser, stored: Callable[..., str], made: Callable[[], Profile], said: str
) -> None:
    id = stored(made())
    for page in PAGES:
        assert said in browser_client.page(f"/results/{id}{page}").replace("\u00a0", " "), page


def test_the_residual_skew_is_reported_and_shorter_times_are_marked(
    browser_client: Browser, stored: Callable[..., str]
) -> None:
    id = stored(job(200_000))
    text = browser_client.page(f"/results/{id}/communication")
    assert "Residual skew: 75 % of collectives end within" in text and "Within skew" in text
    assert "Clocks of ranks" in text and "shifted" in text
    rows = browser_client.client.get(f"/results/{id}/clocks.json").get_json()
    assert [row["state"] for row in rows] == ["reference", "shifted"]


def test_clocks_with_a_jump_do_not_agree(browser_client: Browser, stored: Callable[..., str]) -> None:
    text = browser_client.page(f"/results/{stored(jittered(jump_us=100_000))}/critical-path")
    assert "The clocks of all ranks agree" not in text
    assert "No single shift aligns the clocks of all ranks" in text


def test_the_map_of_waiting_is_marked_as_the_tables_are(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(jittered())
    steps = browser_client.client.get(f"/results/{id}/communication.json").get_json()
    text = browser_client.page(f"/results/{id}/communication")
    heat = text[text.index("Waiting for other ranks") : text.index("Stragglers")]
    unsure = sum(bool(step["uncertain"]) for step in steps)
    assert 0 < unsure < len(steps) and heat.count("strips-unsure") == unsure and "Outlined:" in heat
    ranks = browser_client.client.get(f"/results/{id}/stragglers.json").get_json()
    # Every collective is in a step here, so both tell of the same waiting.
    assert heat.count("within skew") == sum(rank["uncertain"] for rank in ranks) > 0


def test_one_rank_has_no_note(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(rank_of_job(0))
    for page in PAGES:
        text = browser_client.page(f"/results/{id}{page}")
        assert "Residual skew" not in text and "aligned" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drifts", "said"),
    [
        ((0, 500), "The clocks of ranks 0 and 1 drift apart by 500 ppm."),
        ((500, 0), "The clocks of ranks 0 and 1 drift apart by 500 ppm."),
        ((0, 0, 500), "The clock of rank 2 drifts by +500 ppm relative to the others."),
        ((0, -500, 0, 0), "The clock of rank 1 drifts by −500 ppm relative to the others."),
        ((500, 0, 0, 500), "The clocks of ranks 0–3 drift apart by 500 ppm."),
    ],
)
def test_a_drift_is_reported_for_its_clock(
    browser_client: Browser, stored: Callable[..., str], drifts: tuple[float, ...], said: str
) -> None:
    # Ends that are apart by up to 2 µs do not hide it in 400 steps.
    ranks = [rank_of_job(n, ranks=len(drifts), steps=400, drift_ppm=drift) for n, drift in enumerate(drifts)]
    text = browser_client.page(f"/results/{stored(merge(ranks, ClockAligner()))}/communication")
    text = re.sub(r"by (.?)(49\d|50\d)(\.\d)? ppm", r"by \g<1>500 ppm", text)
    assert html.unescape(text).count(said) == 1, re.findall(r"[^.]*drift[^.]*", text)
    # In the table, too.
    assert not re.search(r">-\d", text)
