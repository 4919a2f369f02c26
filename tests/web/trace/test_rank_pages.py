"""The pages of a result with ranks and runs: who took part, how even it was, and what was scaled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Meta, Profile
from tests.support.profiles import stacked
from tests.web.conftest import HOSTILE, Browser
from tests.web.html import read

S = 10**9
TABS = ("", "/flamegraph", "/hotspots", "/counts", "/threads", "/losses")


def sampled(ranks: int, hosts: tuple[str, ...] = ("node7", "node8"), note: str = "Ended by signal 11.") -> Profile:
    """Rank 1 works twice as long as the others, the last one crashed."""
    builder = ProfileBuilder("perf-data")
    run = builder.add_run("./solve", duration_ns=S, exit_status=139)
    event = builder.intern_event("cpu-clock", "ns")
    for rank in range(ranks):
        crashed, host = rank == ranks - 1, hosts[rank % len(hosts)]
        builder.add_rank(
            run=run,
            rank=rank,
            host=host,
            pid=50 + rank,
            start_ns=0,
            end_ns=S,
            exit_status=None if crashed else 0,
            signal=11 if crashed else None,
            recorded=True,
            losses=0,
            note=note if crashed else None,
        )
        thread = builder.intern_thread(pid=50 + rank, tid=50 + rank, run=run, rank=rank, host=host)
        builder.set_thread_name(thread, 0, "solve")
        for at in range(2 * (1 + (rank == 1))):
            builder.add_sample(at * 1000, thread, event, stacked(builder, "main;work"), 1_000_000)
    return builder.finish(Meta("perf-data", start_epoch_ns=0, complete=False, reasons=("Rank 3: it crashed.",)))


def counted() -> Profile:
    """Two runs of two ranks, each with its own events; those of the first were multiplexed. One was repeated."""
    builder = ProfileBuilder("perf-stat")
    for run, events in enumerate((("instructions", "branches"), ("cycles",))):
        builder.add_run(f"./solve {run}", event_group=run, duration_ns=(run + 1) * S, exit_status=run)
        for name in events:
            event = builder.intern_event(name, "count", scaling=None if run else 4.0)
            for rank in range(2):
                builder.add_rank(run=run, rank=rank, host="node7", start_ns=0, end_ns=S, recorded=True, losses=0)
                builder.add_count(
                    run=run,
                    rank=rank,
                    host="node7",
                    thread=-1,
                    cpu=-1,
                    event=event,
                    value=1000.0 * (rank + 1),
                    status="ok",
                    enabled_ns=100,
                    running_ns=100 if run else 25,
                    deviation_percent=1.25 if run else None,
                )
    return builder.finish()


@pytest.fixture
def four(stored: Callable[..., str]) -> str:
    return stored(sampled(4))


@pytest.fixture
def counts(stored: Callable[..., str]) -> str:
    return stored(counted(), "counts000000")


def test_the_overview_names_ranks_hosts_and_how_they_ended(browser_client: Browser, four: str) -> None:
    page = read(browser_client.page(f"/results/{four}"))
    text = " ".join(" ".join(page.text).split())
    assert page.faults == []
    for words in ("Ranks 4", "Hosts 2", "node7, node8", "0-3", "139", "signal 11", "Ended by signal 11."):
        assert words in text, words


def test_threads_have_hosts_and_ranks_and_a_picture_of_how_even_they_are(browser_client: Browser, four: str) -> None:
    page = read(browser_client.page(f"/results/{four}/threads"))
    text = " ".join(" ".join(page.text).split())
    assert page.faults == []
    assert (
        "cpu-clock by rank" in text and "4 ranks on 2 hosts, 2.50 ms on average" in text and "1.60 × the mean" in text
    )
    assert "rank 1 on node8: 4.00 ms, 1.60 × the mean" in text
    one = browser_client.page(f"/results/{four}/threads?rank=1")
    # The tree still offers the other host.
    assert "by rank" not in one and "node8" in one and "node7" in one
    rows = browser_client.page(f"/results/{four}/threads.csv?rank=1")
    assert "node8" in rows and "node7" not in rows
    lines = browser_client.page(f"/results/{four}/ranks.csv?event=cpu-clock").splitlines()
    assert lines[0].startswith("rank,host,run,event,") and len(lines) == 5


def test_every_page_of_one_rank(browser_client: Browser, four: str, counts: str) -> None:
    for id in (four, counts):
        for tab in TABS:
            page = browser_client.page(f"/results/{id}{tab}?rank=1")
            assert tab == "/losses" or "Rank" in page, tab
            if tab not in ("/losses", "/flamegraph"):
                assert "its ranks are 0 to" in browser_client.page(f"/results/{id}{tab}?rank=99", 400)


def test_a_thousand_ranks_make_no_large_page(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(sampled(1024))
    for tab in (*TABS, "/counts?by=rank", "/counts?by=process", "/flamegraph?group=rank", "/flamegraph?group=host"):
        assert len(browser_client.page(f"/results/{id}{tab}")) < 250_000, tab
    assert len(browser_client.page(f"/api/v1/results/{id}/flamegraph?group=rank&width=1200")) < 250_000


def test_scaled_counts_are_marked_everywhere(browser_client: Browser, counts: str) -> None:
    for path in ("/", f"/results/{counts}", f"/results/{counts}/counts", f"/results/{counts}/threads"):
        assert "scaled ×4" in browser_client.page(path), path
    # Nothing is said of what had a counter all the time.
    assert "scaled" not in browser_client.page(f"/results/{counts}/threads?event=cycles")


def test_events_of_different_runs_are_marked(browser_client: Browser, counts: str) -> None:
    for path in (f"/results/{counts}", f"/results/{counts}/counts"):
        text = " ".join(" ".join(read(browser_client.page(path)).text).split())
        assert "instructions, branches in run 0; cycles in run 1" in text, path
        assert "± 1.2 %" in text or path.endswith(counts), path
    text = " ".join(" ".join(read(browser_client.page(f"/results/{counts}")).text).split())
    assert "Runs and ranks" in text and "2.00 s" in text


def test_many_events_that_were_sampled_together(browser_client: Browser, stored: Callable[..., str]) -> None:
    builder = ProfileBuilder("perf-data")
    names = ("cycles:u", "instructions", "cache-misses", "L1-dcache-loads", "r01c4", "page-faults")
    thread = builder.intern_thread(pid=1, tid=1)
    for number, name in enumerate(names):
        builder.add_sample(number, thread, builder.intern_event(name, "count"), 0, 5)
    id = stored(builder.finish())
    assert "5 hardware events were sampled in one run" in browser_client.page(f"/results/{id}/counts")


def test_hostile_hosts_and_notes(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(sampled(12, HOSTILE, "".join(HOSTILE)))
    for tab in (*TABS, "/counts?by=host", "/threads?sort=host"):
        assert read(browser_client.page(f"/results/{id}{tab}")).faults == [], tab
