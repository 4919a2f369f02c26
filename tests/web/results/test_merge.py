"""Results of single ranks become one result: the offer on the overview, the page, and the job."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Meta, Profile
from perfloom.store import Store
from tests.web.conftest import Browser, profile
from tests.web.html import read

IDS = tuple(f"rank{number:08}" for number in range(3))


def of_rank(rank: int | None, command: str = "train.py") -> Profile:
    builder = ProfileBuilder("pytorch")
    builder.intern_thread(pid=10, tid=10, rank=rank)
    return builder.finish(Meta("pytorch", command=command))


@pytest.fixture
def ranks(stored: Callable[..., str], tmp_path: Path) -> tuple[str, ...]:
    """Three results of one run, stored in another order than that of the ranks."""
    for number in (1, 2, 0):
        file = tmp_path / f"trace.rank{number}.json"
        file.write_text(f"rank {number}")
        stored(of_rank(None), IDS[number], name=f"imported {number}", originals=[file])
    return IDS


def test_the_overview_offers_it(browser_client: Browser, ranks: tuple[str, ...], stored: Callable[..., str]) -> None:
    page = browser_client.page(f"/results/{ranks[1]}")
    assert "2 other results look like ranks of the same run" in page and "rank 0, rank 1, rank 2" in page
    link = "/results/merge?" + "&amp;".join(f"result={id}" for id in ranks)
    assert f'<a href="{link}">Merge 3 results</a>' in page


def test_it_is_not_offered_for_other_runs(
    browser_client: Browser, stored: Callable[..., str], ranks: tuple[str, ...], tmp_path: Path
) -> None:
    for number, (name, command) in enumerate((("trace.rank7.json", "other.py"), ("run7.rank0.json", "train.py"))):
        (tmp_path / name).write_text("x")
        id = stored(of_rank(None, command), f"other{number:07}", name="x", originals=[tmp_path / name])
        assert "results/merge" not in browser_client.page(f"/results/{id}")
    assert "Merge 3 results" in browser_client.page(f"/results/{ranks[0]}")
    assert "results/merge" not in browser_client.page(f"/results/{stored(profile())}")


def test_the_page_orders_by_rank(browser_client: Browser, ranks: tuple[str, ...]) -> None:
    page = browser_client.page(f"/results/merge?result={ranks[2]}&result={ranks[0]}&result={ranks[1]}")
    assert read(page).faults == []
    assert re.findall(r'name="result" value="(\w+)"', page) == list(ranks)
    assert "differ only in the rank" in page and 'value="trace.rank*.json"' in page and "note" not in page


def test_recorded_ranks_come_before_names(browser_client: Browser, stored: Callable[..., str], tmp_path: Path) -> None:
    for number, rank in enumerate((5, 4)):
        file = tmp_path / f"trace.rank{number}.json"
        file.write_text("x")
        stored(of_rank(rank, f"train{number}.py"), IDS[number], name="x", originals=[file])
    page = browser_client.page(f"/results/merge?result={IDS[0]}&result={IDS[1]}")
    assert re.findall(r'name="result" value="(\w+)"', page) == [IDS[1], IDS[0]]
    assert "The files contain their ranks." in page and "different commands" in page


def test_one_rank_twice_is_warned_about(browser_client: Browser, stored: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    for id, made in ((IDS[0], of_rank(3)), (IDS[1], replace(of_rank(3), meta=Meta("perf-stat", command="train.py")))):
        stored(made, id, name="x", originals=[tmp_path / "x"])
    page = browser_client.page(f"/results/merge?result={IDS[0]}&result={IDS[1]}")
    assert "contains rank 3" in page and "different formats" in page and "numbered in this order" in page


def test_it_is_a_job_that_reads_the_files_again(
    browser_client: Browser, store: Store, ranks: tuple[str, ...], tmp_path: Path
) -> None:
    response = browser_client.post("/results/merge", result=list(ranks), name="all ranks")  # type: ignore[arg-type]
    assert response.status_code == 303
    [job] = store.jobs.list(active=True)
    assert response.headers["Location"] == f"/jobs/{job.id}" and (job.kind, job.name) == ("import", "all ranks")
    artefacts = store.jobs.directory(job.id) / "artefacts"
    names = ["trace.rank0.json", "trace.rank1.json", "trace.rank2.json"]
    assert job.spec == {"files": names}
    assert [(artefacts / name).read_text() for name in names] == ["rank 0", "rank 1", "rank 2"]
    assert all(store.results.find(id) for id in ranks)


def test_files_of_one_name_are_kept_apart(
    browser_client: Browser, store: Store, stored: Callable[..., str], tmp_path: Path
) -> None:
    for id in IDS[:2]:
        (tmp_path / "perf.data").write_text(id)
        stored(of_rank(None), id, name="x", originals=[tmp_path / "perf.data"])
    browser_client.post("/results/merge", result=list(IDS[:2]))  # type: ignore[arg-type]
    [job] = store.jobs.list(active=True)
    artefacts = store.jobs.directory(job.id) / "artefacts"
    assert [(artefacts / name).read_text() for name in job.spec["files"]] == list(IDS[:2])


def test_what_cannot_be_merged(browser_client: Browser, store: Store, ordinary: str, ranks: tuple[str, ...]) -> None:
    page = browser_client.page(f"/results/merge?result={ordinary}&result={ranks[0]}")
    assert "“an ordinary result” are no longer stored" in page and "button--primary" not in page
    assert browser_client.post("/results/merge", result=[ordinary, ranks[0]]).status_code == 409  # type: ignore[arg-type]
    assert browser_client.post("/results/merge", result=ordinary).status_code == 409
    assert browser_client.client.get(f"/results/merge?result={ordinary}").headers["Location"] == "/"
    assert browser_client.client.get("/results/merge?result=gone00000000&result=x").status_code == 404
    assert browser_client.client.post("/results/merge", data={"result": list(ranks)}).status_code == 403
    assert store.jobs.list(active=True) == ()


def test_hostile_names(browser_client: Browser, evil: str, ranks: tuple[str, ...]) -> None:
    assert read(browser_client.page(f"/results/merge?result={evil}&result={ranks[0]}")).faults == []
