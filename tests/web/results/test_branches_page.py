"""The page of branches and loops, and its tables over HTTP."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pytest

from perfloom.domain.profile import Profile
from perfloom.readers import perf_script
from tests.support.perf.branch_stacks import Taken, format_text, sample_stacks
from tests.support.profiles import profile_of
from tests.web.conftest import Browser
from tests.web.results.test_empty_pages import text_of

PAGE = "/results/ordinary0000/branches"
STACKS = sample_stacks(200)


def read(stacks: list[list[Taken]], form: str = "brstacksym") -> Profile:
    return perf_script.read(io.BytesIO(format_text(stacks, form=form).encode()))


def test_the_page_shows_hot_branches(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(read(STACKS))
    page = browser_client.page(PAGE)
    text = text_of(page).replace("\xa0", " ")
    for words in ("work+0x30", "work+0x20", "help+0x9", "Mispredicted", "Cycles", "branches", "Loops"):
        assert words in text, words
    assert "branchs" not in text
    assert "flamegraph?" in page and "function=help" in page
    assert ">Branches</a>" in browser_client.page("/results/ordinary0000")


def test_loops_have_iterations_and_cycles(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(read(STACKS))
    text = text_of(browser_client.page(f"{PAGE}?view=loops")).replace("\xa0", " ")
    for words in ("work+0x20 – 0x30", "12.00", "63.00", "Cycles per iteration", "not seen to end"):
        assert words in text, words


def test_files_have_all_rows_and_the_names_of_report(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(read(STACKS))
    rows = list(csv.DictReader(io.StringIO(browser_client.page(f"{PAGE}.csv"))))
    assert sum(int(row["count"]) for row in rows) == sum(map(len, STACKS))
    assert {row["source"] for row in rows} == {"work", "help", "main"}
    loops = list(csv.DictReader(io.StringIO(browser_client.page("/results/ordinary0000/loops.csv"))))
    assert [row["cycles_per_iteration"] for row in loops[:2]] == ["12.0", "63.0"]
    found = list(csv.DictReader(io.StringIO(browser_client.page(f"{PAGE}.csv?search=help"))))
    assert {row["count"] for row in found} < {row["count"] for row in rows}
    api = browser_client.client.get("/api/v1/results/ordinary0000/branches?start-ms=0&end-ms=100").json
    assert sum(row["count"] for row in api) == sum(map(len, STACKS[:100]))
    assert "Loops" in text_of(browser_client.page("/results/ordinary0000/export"))


def test_a_recording_without_branch_stacks_says_how_to_record_them(
    stored: Callable[..., str], browser_client: Browser
) -> None:
    stored(profile_of([("main;work", 5)]))
    for query in ("", "?view=loops", "?focus=main"):
        text = text_of(browser_client.page(f"{PAGE}{query}"))
        assert "Branch stacks were not recorded" in text and "perf record -b" in text, query
    assert 'href="/jobs/new?branch_stacks=1"' in browser_client.page(PAGE)
    assert "Branches" not in text_of(browser_client.page("/results/ordinary0000/hotspots")), "not offered"
    assert browser_client.page(f"{PAGE}.csv").count("\n") == 1


def test_the_link_fills_in_the_form(browser_client: Browser) -> None:
    import re

    assert re.search(r'name="branch_stacks"[^>]* checked', browser_client.page("/jobs/new?branch_stacks=1"))
    assert not re.search(r'name="branch_stacks"[^>]* checked', browser_client.page("/jobs/new"))


def test_the_page_says_what_does_not_apply(
    stored: Callable[..., str], browser_client: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfloom.readers.perf_script.branches.MAX_ROWS", 200)
    stored(read(STACKS))
    assert "Not applied here" not in text_of(browser_client.page(PAGE))
    assert "Not applied here: focus, hide" in text_of(browser_client.page(f"{PAGE}?focus=main&hide=x"))
    text = text_of(browser_client.page(f"{PAGE}?start-ms=10&end-ms=20"))
    assert "added up for intervals of" in text


def test_addresses_without_symbols_have_no_links(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(read(STACKS, "brstack"))
    page = browser_client.page(PAGE)
    text = text_of(page)
    assert "0x1230" in text and "addresses only" in text and "function=0x" not in page
    assert "Loops need symbols" in text_of(browser_client.page(f"{PAGE}?view=loops"))


def test_a_selection_without_branches_says_so(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(read(STACKS))
    text = text_of(browser_client.page(f"{PAGE}?start-ms=900000&view=loops"))
    assert "No branches match this selection" in text


def test_hostile_names_are_escaped(stored: Callable[..., str], browser_client: Browser) -> None:
    evil = "<script>alert(1)</script>"
    stacks = [[Taken(evil, 0x30, evil, 0x20, "COND", 4)] * 3]
    text = format_text(stacks, module="/x<b>")
    stored(perf_script.read(io.BytesIO(text.encode())))
    for query in ("", "?view=loops", "?columns=source,target,source_module,count"):
        page = browser_client.page(f"{PAGE}{query}")
        assert evil not in page and "&lt;script&gt;" in page
        assert "/x<b>" not in page


@pytest.mark.parametrize("query", ["?view=x", "?sort=nonsense", "?page=99", "?columns=zzz", "?event=none", "?thread=9"])
def test_bad_parameters_are_no_server_errors(stored: Callable[..., str], browser_client: Browser, query: str) -> None:
    stored(read(STACKS[:5]))
    assert browser_client.client.get(PAGE + query).status_code < 500
