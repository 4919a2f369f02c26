"""/compare/runs: groups of runs, the sentence and the verdicts on functions."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from perfloom.domain.jobs import JobDetails, JobSpec, SeriesRun, Side
from perfloom.store import NewRun, Store
from perfloom.store.files import columns
from tests.support.perf.counted_runs import CPI, record_cycles
from tests.web.conftest import EVIL, HOSTILE, TOKEN, Browser, profile
from tests.web.html import read

BASE, OTHER = [f"base0000000{n}" for n in range(4)], [f"other000000{n}" for n in range(4)]
GROUPS = "&".join([*(f"base={id}" for id in BASE), *(f"other={id}" for id in OTHER)])
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def text_of(page: str) -> str:
    return " ".join(" ".join(read(page).text).split())


@pytest.fixture
def groups(stored: Callable[..., str]) -> None:
    """Four runs of each side; a function of the other side has another name."""
    for seed, (base, other) in enumerate(zip(BASE, OTHER, strict=True)):
        stored(profile(functions=6, samples=902, seed=seed), base, name=f"base {seed}")
        called = ["main", "parse", "renamed", "do_syscall_64"]
        stored(profile(called=called, functions=6, samples=902, seed=10 + seed), other, name=f"other {seed}")


def test_verdicts_and_their_sentence(browser_client: Browser, groups: None) -> None:
    page = browser_client.page(f"/compare/runs?{GROUPS}")
    text = text_of(page)
    assert "4 runs against 4 runs; the smallest to be seen is" in text
    assert text.count("“renamed” is new") == text.count("“multiply” is gone") == 1
    assert "Base 4 results" in text and page.count(">Remove</a>") == 8
    shown = browser_client.page(f"/compare/runs?{GROUPS}&verdict=slower")
    assert "renamed" in shown and "is new" in shown
    rows = re.findall(r'<th scope="row" class="name mono" title="([^"]*)"', shown)
    assert rows and "main" not in rows
    assert "Nothing to compare" not in browser_client.page(f"/compare/runs?{GROUPS}&scale=absolute&of=total&paired=1")


@pytest.mark.parametrize("scale", ["absolute", "shares"])
def test_every_heading_sorts(browser_client: Browser, groups: None, scale: str) -> None:
    page = browser_client.page(f"/compare/runs?{GROUPS}&scale={scale}")
    links = set(re.findall(r'href="([^"]*[?&;]sort=[^"]*)"', page))
    assert len(links) > 8
    for link in links:
        assert "renamed" in browser_client.page(link.replace("&amp;", "&"))


def test_table_as_a_file(browser_client: Browser, groups: None) -> None:
    text = browser_client.page(f"/compare/runs.csv?{GROUPS}")
    rows = {row["name"]: row for row in csv.DictReader(io.StringIO(text))}
    assert rows["renamed"]["self_verdict"] == "slower" and float(rows["renamed"]["q_self"]) < 0.05
    answer = browser_client.client.get(f"/api/v1/compare/runs?{GROUPS}&verdict=faster", headers=BEARER).get_json()
    assert [row["name"] for row in answer] == ["multiply"]


def test_runs_are_added_and_removed(browser_client: Browser, groups: None) -> None:
    page = browser_client.page(f"/compare/runs?base={BASE[0]}&other={OTHER[0]}&add=other&choose=other")
    assert "How much runs vary is unknown" in text_of(page) and ">Remove</a>" not in page
    added = re.findall(r'href="([^"]*)#choose" aria-label="Add other (\d)"', page)
    assert [name for _, name in added] == ["3", "2", "1"]
    page = browser_client.page(added[0][0].replace("&amp;", "&"))
    assert "1 run against 2 runs" in text_of(page) and page.count(">Remove</a>") == 2
    (removed, *_) = re.findall(r'href="([^"]*)" aria-label="Remove other 0', page)
    assert "1 run against 1 run" in text_of(browser_client.page(removed.replace("&amp;", "&")))
    assert "No other result contains" in browser_client.page(
        f"/compare/runs?base={BASE[0]}&other={OTHER[0]}&add=base&choose=nothing"
    )


def test_tab_of_two_results(browser_client: Browser, groups: None) -> None:
    page = browser_client.page(f"/compare?base={BASE[0]}&other={OTHER[0]}")
    assert "/compare/runs?base=" in page and ">Verdicts</a>" in page


def test_parts_of_one_result_are_compared(browser_client: Browser, groups: None) -> None:
    """Each side has its own selection; what is selected of both stays."""
    one = f"base={BASE[0]}&other={BASE[0]}"
    assert "No function changed" in text_of(browser_client.page(f"/compare/runs?{one}"))
    page = browser_client.page(f"/compare/runs?{one}&base.thread=worker-0&other.focus=parse&other.end-ms=500")
    text = text_of(page)
    (swapped,) = re.findall(r'href="([^"]*)">Swap</a>', page)
    assert "other.thread=worker-0" in swapped and "base.focus=parse" in swapped
    assert "Thread: worker-0" in text and "Focus: parse" in text and "“parse”" in text
    (removed,) = re.findall(r'href="([^"]*)" aria-label="Remove Thread worker-0 from the base"', page)
    assert "base.thread" not in removed and "other.focus=parse" in removed
    rows = browser_client.client.get(f"/api/v1/compare/runs?{one}&other.focus=parse&scale=shares", headers=BEARER)
    by_name = {row["name"]: row for row in rows.get_json()}
    assert by_name["parse"]["other_total_percent"] == 100 and by_name["parse"]["base_total_percent"] < 100
    threads = browser_client.page(f"/results/{BASE[0]}/threads")
    (compared,) = re.findall(r'href="(/compare/runs[^"]*)"', threads)
    assert "base.thread=" in compared and "other.thread=" in compared
    assert "1 run against 1 run" in text_of(browser_client.page(compared.replace("&amp;", "&")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("base=unknown00000&other=unknown00000", 404),
        (f"base={BASE[0]}", 400),
        (f"{GROUPS}&scale=x", 400),
        (f"{GROUPS}&of=x", 400),
        (f"{GROUPS}&verdict=x", 400),
        (f"{GROUPS}&paired=x", 400),
        (f"{GROUPS}&event=x", 400),
        (f"{GROUPS}&base.start-ms=x", 400),
        (f"{GROUPS}&other.thread=nobody", 400),
        (f"{GROUPS}&start-ms=1e9", 400),
        ("&".join(f"base={n}" for n in range(300)) + f"&other={OTHER[0]}", 400),
    ],
)
def test_bad_queries_are_refused(browser_client: Browser, groups: None, query: str, status: int) -> None:
    assert browser_client.client.get(f"/compare/runs?{query}").status_code == status


def test_deleted_results_are_left_out(browser_client: Browser, groups: None, store: Store) -> None:
    store.results.delete(BASE[1])
    text = text_of(browser_client.page(f"/compare/runs?{GROUPS}"))
    assert "3 runs against 4 runs" in text and "1 of 4 results of the base was deleted." in text
    text = text_of(browser_client.page(f"/compare/runs?{GROUPS}&paired=1"))
    assert "Runs whose pair is missing are left out." in text and "Other 3 results" in text
    assert browser_client.client.get(f"/api/v1/compare/runs?{GROUPS}", headers=BEARER).status_code == 404
    store.results.delete(OTHER[0])
    text = text_of(browser_client.page(f"/compare/runs?{GROUPS}&paired=1"))
    assert "1 of 4 results of the base was deleted. 1 of 4 results of the other was deleted." in text
    assert "Base 2 results" in text and "Other 2 results" in text
    query = f"base={BASE[1]}&base={BASE[0]}&other={OTHER[2]}&other={OTHER[0]}&paired=1"
    assert "Compare them without pairs." in text_of(browser_client.page(f"/compare/runs?{query}", 400))
    browser_client.page(f"/compare/runs?base={BASE[1]}&other={OTHER[1]}", 404)


def test_hostile_names_are_text(browser_client: Browser, stored: Callable[..., str]) -> None:
    stored(profile(HOSTILE), EVIL, name=HOSTILE[0])
    page = browser_client.page(f"/compare/runs?base={EVIL}&other={EVIL}&add=base")
    assert "<script>window" not in page and "<svg/onload" not in page


def test_earlier_results_of_the_command_tell_how_much_runs_vary(
    browser_client: Browser, store: Store, stored: Callable[..., str]
) -> None:
    def store_run(id: str, at: int, **meta: Any) -> str:
        made = profile(functions=6, samples=900 + 8 * (at % 3) + at, seed=at)
        if host := meta.pop("host", ""):
            place = made.runs.column_names.index("host")
            made = replace(made, runs=made.runs.set_column(place, made.runs.field(place), [[host]]))
        return stored(replace(made, meta=replace(made.meta, **meta)), id, name=id)

    one, two = (store_run(f"run00000000{at}", at) for at in range(2))
    # None of these is an earlier run of the same.
    store_run("command00000", 2, command="another")
    store_run("host00000000", 3, host="another", facts={"hostname": "another"})
    store_run("incomplete00", 4, complete=False, reasons=("It was cancelled.",))
    warm_up = NewRun("warmup000000", SeriesRun("warmup000000", 0, Side.BASE, 0), "a", JobSpec(), JobDetails())
    store.series.create([warm_up])
    staged = store.results.stage(warm_up.id)
    columns.write(profile(functions=6, samples=900, seed=5), staged)
    store.results.publish(warm_up.id, staged, name="a", job_id=warm_up.id)
    # Copies are no runs.
    for copied, id in enumerate((one, one, one, one, two), 5):
        path = store.results.stage(f"copy0000000{copied}")
        columns.write(store.results.open(id), path)
        store.results.publish(f"copy0000000{copied}", path, name="copy")
    for at in range(2, 8):
        query = f"base={one}&other={store_run(f'run00000000{at}', at)}"
        text = text_of(browser_client.page(f"/compare/runs?{query}"))
        known = re.search(r"Run-to-run noise from (\d) earlier runs: (\S+) %\.", text)
        assert bool(known) is (at >= 6) and ("How much runs vary is unknown" in text) is not bool(known), at
    assert known and 0.3 < float(known[2]) < 3 and known[1] == "6"
    rows = browser_client.client.get(f"/api/v1/compare/runs?{query}", headers=BEARER).get_json()
    assert {row["earlier_runs"] for row in rows} == {6} and 0.3 < rows[0]["earlier_variation_percent"] < 3
    assert {row["self_verdict"] for row in rows} <= {"no evidence", "not tested"}
    stored(profile(called=["main", "parse", "renamed", "do_syscall_64"], functions=6, samples=902), "renamed00000")
    text = text_of(browser_client.page(f"/compare/runs?base={two}&other=renamed00000&verdict=slower"))
    assert "“renamed” is new" in text and "slower 1" in text
    # Parts of results differ for other reasons than runs do.
    assert "unknown" in text_of(browser_client.page(f"/compare/runs?{query}&other.thread=worker-0"))


def test_formulas_are_compared(browser_client: Browser, stored: Callable[..., str]) -> None:
    for number in range(3):
        stored(record_cycles(number, 2_000), BASE[number])
        stored(record_cycles(10 + number, 2_000, cpi=CPI | {"lookup": 4.0}), OTHER[number])
    groups = "&".join([*(f"base={id}" for id in BASE[:3]), *(f"other={id}" for id in OTHER[:3])])
    page = browser_client.page(f"/compare/runs?{groups}&event=CPI&scale=shares")
    text = text_of(page)
    assert "more “CPI” (" in text and "lookup" in text and "cycles / instructions" in text
    assert "scale=absolute" not in page and ">IPC<" in page
    answer = browser_client.client.get(f"/api/v1/compare/runs?{groups}&event=CPI", headers=BEARER)
    rows = {row["name"]: row for row in answer.get_json()}
    assert rows["lookup"]["self_verdict"] == "more" and rows["lookup"]["base_self_percent"] is None
    assert ">CPI<" in browser_client.page(f"/compare/runs?{groups}")
