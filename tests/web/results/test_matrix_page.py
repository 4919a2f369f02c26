"""The page of the matrix and its tables over HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from perfloom.analysis.core.sample_selection import event_id
from perfloom.analysis.matrix.balance import find_balances, format_balance
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.meta import Meta
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from tests.support.mpi.recordings import recording_of
from tests.support.profiles import profile_of, stacked
from tests.web.conftest import Browser
from tests.web.html import read
from tests.web.results.test_empty_pages import counted, text_of

RESULT = "/results/ordinary0000"
PAGE = f"{RESULT}/matrix"


def many(ranks: int = 50, functions: int = 3) -> Profile:
    """Rank n has n + 1 samples in each function, and a wait."""
    builder = ProfileBuilder("test")
    event = builder.intern_event("cpu-clock:u", "ns")
    for rank in range(ranks):
        thread = builder.intern_thread(pid=rank, tid=rank, rank=rank, host=f"node{rank // 8}")
        for number in range(functions):
            for at in range(rank + 1):
                builder.add_sample(at, thread, event, stacked(builder, f"main;work_{number}"), 1_000_000)
        builder.add_sample(0, thread, event, stacked(builder, "main;MPI_Recv;spin"), 1_000_000)
    return builder.finish(Meta("test"))


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def headings(page: str) -> list[str]:
    head = page[page.index("<thead>") : page.index("</thead>")]
    return [re.sub("<[^>]*>", "", cell).strip() for cell in re.findall(r"<th [^>]*>(.*?)</th>", head, re.S)]


def row_of(page: str, name: str) -> list[str]:
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in re.findall(r"<tr>(.*?)</tr>", page, re.S)]
    cells = [[re.sub("<[^>]*>", "", cell).strip() for cell in row] for row in rows]
    return next(row for row in cells if row and row[0].startswith(name))


def test_the_slow_rank_is_named_with_links_that_select_it(stored: Callable[..., str], browser_client: Browser) -> None:
    profile = recording_of("slow.mpich")
    stored(profile)
    page, event = browser_client.page(PAGE), event_id(profile, None)
    [balance] = find_balances(profile, Selection(), event, "rank")
    assert plain(format_balance(profile, event, balance)) in plain(text_of(page))
    assert "Rank 2 computes" in text_of(page) and "mostly in relax" in text_of(page)
    assert headings(page)[-4:] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    links = read(page).links
    assert f"{PAGE}?rank=2" in links, "the heading"
    assert f"{RESULT}/flamegraph?rank=2&focus=%5Erelax%24" in links, "the cell"
    assert f"{RESULT}/flamegraph?focus=%5Erelax%24" in links, "the function"
    assert balance.since is not None
    assert any(link.startswith(f"{PAGE}?start-ms=") for link in links), "since then"
    assert "rank 2 since" in " ".join(row_of(page, "relax"))
    # The other pages agree.
    threads = text_of(browser_client.page(f"{RESULT}/threads"))
    assert "by rank, without waiting" in threads and "most on rank 2" in threads
    assert plain(format_balance(profile, event, balance)) in plain(text_of(browser_client.page(f"{RESULT}/advice")))


def test_even_ranks_have_no_outlier(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(recording_of("even.openmpi"))
    text = text_of(browser_client.page(PAGE))
    assert "No rank computes more than the others" in text and "computing" in text and "waiting" in text
    advice = browser_client.client.get("/api/v1/results/ordinary0000/advice").json
    assert advice is not None and "imbalance" not in {row["rule"] for row in advice}


def test_pages_of_ranks_and_functions(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(many())
    page = browser_client.page(PAGE)
    assert headings(page)[-1] == "rank 19" and "Ranks 1–20 of 50" in text_of(page)
    assert f"{PAGE}?group-page=2" in read(page).links
    last = browser_client.page(f"{PAGE}?group-page=3")
    assert headings(last)[-1] == "rank 49" and PAGE + "?group-page=2" in read(last).links
    assert "No page 9" in text_of(browser_client.page(f"{PAGE}?group-page=9"))
    assert headings(browser_client.page(f"{PAGE}?order=most"))[7] == "rank 49"
    page = browser_client.page(f"{PAGE}?order=most&group-page=3&by=host")
    assert "No page 3; 7 hosts in total" in text_of(page)
    # Each row has its numbers: All, min, mean, max, imbalance, outlier, ranks.
    assert row_of(browser_client.page(PAGE), "work_0")[:10] == [
        *("work_0", "1.275", "0.001", "0.025", "0.050", "96.08", "", "0.001", "0.002", "0.003")
    ]
    assert row_of(browser_client.page(f"{PAGE}?cells=percent"), "work_0")[7:9] == ["25.00", "28.57"]
    assert row_of(browser_client.page(f"{PAGE}?state=waiting"), "MPI_Recv")[1] == "50.000"
    assert "work_0" not in text_of(browser_client.page(f"{PAGE}?state=waiting"))
    assert "MPI_Recv" not in text_of(browser_client.page(f"{PAGE}?state=computing"))
    assert "work_1" not in text_of(browser_client.page(f"{PAGE}?search=work_2"))
    assert row_of(browser_client.page(f"{PAGE}?sort=name"), "MPI_Recv")
    for query in ("by=x", "state=x", "cells=x", "shade=x", "order=x", "group-page=0", "sort=rank", "page=x"):
        assert query.partition("=")[0] in browser_client.page(f"{PAGE}?{query}", 400), query


def test_shades_are_relative_to_the_table_or_the_row(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(profile_of([("a", 10, 0, 0), ("a", 5, 1, 0), ("b", 1, 0, 0), ("poll", 2, 0, 0)]))

    def shades(query: str) -> list[tuple[str, str]]:
        return re.findall(r"num shade-(\w+) shade-(\d+)", browser_client.page(f"{PAGE}?by=thread&sort=name{query}"))

    assert shades("") == [("computing", "10"), ("computing", "5"), ("computing", "1"), ("waiting", "10")]
    assert shades("&shade=row") == [("computing", "10"), ("computing", "5"), ("computing", "10"), ("waiting", "10")]


def test_the_files_have_all_rows_and_the_api_the_same(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(many())
    assert browser_client.page(f"{RESULT}/matrix.csv?group-page=2&page=9").count("\n") == 5
    assert browser_client.page(f"{RESULT}/matrix-cells.csv?by=rank").count("\n") == 1 + 50 * 4
    assert browser_client.page(f"{RESULT}/matrix-cells.csv?by=host").count("\n") == 1 + 7 * 4
    rows = browser_client.client.get("/api/v1/results/ordinary0000/matrix?rank=0-1").json
    assert rows is not None and rows[0] == {
        "name": "work_0",
        "module": "app",
        "state": "computing",
        "event": "cpu-clock:u",
        "unit": "ns",
        "value": 3_000_000,
        "percent": pytest.approx(3 / 11 * 100),
        "groups": 2,
        "min": 1_000_000,
        "mean": 1_500_000,
        "max": 2_000_000,
        "imbalance_percent": pytest.approx(100 / 3),
        "most": "rank 1",
        "outlier": False,
        "since_ms": None,
        "since_error_ms": None,
        "samples": 3,
    }


def test_what_is_missing_and_what_to_record(stored: Callable[..., str], browser_client: Browser) -> None:
    for number, (made, query, reason) in enumerate(
        (
            (profile_of([("main;work", 1)]), "", "one thread with samples: there is nothing to compare. Ranks: record"),
            (many(3), "?rank=1", "The selection has one rank"),
            (many(3), "?start-ms=900000", "No samples match this selection. Remove a filter above."),
            (many(3), "?focus=nothing", "No samples match this selection. Remove a filter above."),
            (many(3), "?search=nothing", "Nothing here contains “nothing”"),
            (profile_of([("work", 1, n, n) for n in range(2)]), "", "Call stacks were not recorded"),
            (counted(), "", "The events were counted, not sampled"),
            (ProfileBuilder("test").finish(Meta("test")), "", "This recording has no samples. Record with perf record"),
        )
    ):
        id = stored(made, f"missing{number:05}")
        assert reason in text_of(browser_client.page(f"/results/{id}/matrix{query}")), reason
    assert "Matrix" not in text_of(browser_client.page("/results/missing00006/counts")), "not offered"


def test_ranks_without_samples_are_named(stored: Callable[..., str], browser_client: Browser) -> None:
    builder = ProfileBuilder("test")
    event = builder.intern_event("cpu-clock", "ns")
    for rank in range(3):
        thread = builder.intern_thread(pid=rank, tid=rank, rank=rank)
        if rank:
            builder.add_sample(rank, thread, event, stacked(builder, "main;work"), 1)
    stored(builder.finish())
    page = browser_client.page(PAGE)
    assert "Without samples, and not compared: rank 0." in text_of(page) and "rank 0" in headings(page)


def test_events_with_shares_only_have_percent(stored: Callable[..., str], browser_client: Browser) -> None:
    builder = ProfileBuilder("perf-script")
    event = builder.intern_event("l3:miss/x_y/", "count", sampling="frequency", rate=99.0)
    for tid in range(3):
        thread = builder.intern_thread(pid=1, tid=tid)
        for at in range(4):
            builder.add_sample(at, thread, event, stacked(builder, "main;work"), 1 + at)
    stored(builder.finish(Meta("perf-script")))
    page = browser_client.page(f"{PAGE}?by=thread&event=l3%3Amiss%2Fx_y%2F")
    assert row_of(page, "work")[1:3] == ["100.00", "0.00"] and row_of(page, "work")[-1] == "100.00"
    assert 'aria-label="Cells"' not in page


def test_hostile_names_do_no_harm(evil: str, browser_client: Browser) -> None:
    for query in ("", "?by=process&shade=row&cells=percent", "?state=waiting", "?order=most"):
        text = browser_client.page(f"/results/{evil}/matrix{query}")
        assert read(text).faults == [] and "\u202e" not in text
