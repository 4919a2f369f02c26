"""Tables of ranks and runs: what each measured, how even it is, and what is known of those that measured nothing."""

from __future__ import annotations

from typing import Any

import pytest

from perfloom.analysis.core.schema import records
from perfloom.analysis.tables import TABLES
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.selection import Selection
from tests.support.profiles import stacked

S = 10**9


def rows_of(name: str, profile: Profile, selection: Selection | None = None) -> list[dict[str, Any]]:
    return records(TABLES[name].compute(profile, selection or Selection()))


def sampled() -> Profile:
    """Two runs of two ranks; rank 1 works three times as long. In the second, rank 1 vanished."""
    builder = ProfileBuilder("perf-data")
    runs = [
        builder.add_run(f"./solve {n}", event_group=n, start_ns=n * S, duration_ns=S, exit_status=9 * n)
        for n in range(2)
    ]
    for run, name in zip(runs, ("cycles", "misses"), strict=True):
        event = builder.intern_event(name, "count")
        for rank in range(2):
            there = (run, rank) != (1, 1)
            builder.add_rank(
                run=run,
                rank=rank,
                host=f"node{rank}" if there else None,
                pid=50 + rank if there else None,
                start_ns=0 if there else None,
                end_ns=3 * S if there else None,
                exit_status=9 * run if there else None,
                recorded=True,
                losses=rank,
                note=None if there else "Nothing came back.",
            )
            if there:
                thread = builder.intern_thread(pid=60 + rank, tid=60 + rank, run=run, rank=rank, host=f"node{rank}")
                for at in range(4 * (1 + 2 * rank)):
                    builder.add_sample(at, thread, event, stacked(builder, "main;work"), 10)
    return builder.finish(Meta("perf-data", start_epoch_ns=0))


def counted() -> Profile:
    """perf stat of three ranks without a thread, that had a counter for a quarter of the time."""
    builder = ProfileBuilder("perf-stat")
    run, event = builder.add_run("./solve"), builder.intern_event("instructions", "count", scaling=4.0)
    for rank in range(3):
        for half in range(2):
            builder.add_count(
                run=run,
                rank=rank,
                host="node",
                thread=-1,
                cpu=-1,
                event=event,
                start_ns=half * S,
                end_ns=(half + 1) * S,
                value=float(100 * (rank + 1)),
                enabled_ns=400,
                running_ns=100,
                status="ok",
            )
    return builder.finish()


def test_ranks() -> None:
    rows = rows_of("ranks", sampled())
    told = [(r["run"], r["rank"], r["host"], r["event"], r["samples"], r["value"], r["of_mean"]) for r in rows]
    assert told == [
        (0, 0, "node0", "cycles", 4, 40, 0.5),
        (0, 1, "node1", "cycles", 12, 120, 1.5),
        (1, 0, "node0", "misses", 4, 40, 1.0),
        (1, 1, None, None, 0, None, None),
    ]
    assert [(r["percent"], r["exit_status"], r["losses"], r["ran_ms"]) for r in rows] == [
        (25, 0, 0, 3000),
        (75, 0, 1, 3000),
        (100, 9, 0, 3000),
        (None, None, 1, None),
    ]
    assert rows[3]["note"] == "Nothing came back."


def test_ranks_selected() -> None:
    rows = rows_of("ranks", sampled(), Selection(ranks=((1, 5),)))
    assert [(r["run"], r["rank"], r["event"]) for r in rows] == [(0, 1, "cycles"), (1, 1, None)]
    rows = rows_of("ranks", sampled(), Selection(threads=("0/60/60",), event="misses"))
    assert [(r["run"], r["rank"], r["value"], r["of_mean"]) for r in rows] == [(1, 0, 40, 1)]
    with pytest.raises(InvalidRequest, match="its ranks are 0 to 1"):
        rows_of("ranks", sampled(), Selection(ranks=((7, 9),)))


def test_runs() -> None:
    assert rows_of("runs", sampled()) == [
        {
            "run": n,
            "command": f"./solve {n}",
            "events": ("cycles", "misses")[n],
            "hosts": ("node0, node1", "node0")[n],
            "ranks": "0-1",
            "start_ns": n * S,
            "duration_ms": 1000,
            "exit_status": 9 * n,
            "samples": (16, 4)[n],
        }
        for n in range(2)
    ]
    assert [row["runs"] for row in rows_of("events", sampled())] == ["0", "1"]


def test_scaled_counts_of_ranks_are_marked_everywhere() -> None:
    profile = counted()
    assert [(r["rank"], r["value"], r["running_percent"]) for r in rows_of("ranks", profile)] == [
        (0, 200, 25),
        (1, 400, 25),
        (2, 600, 25),
    ]
    for name in ("counts", "threads", "events", "summary"):
        assert {row["running_percent"] for row in rows_of(name, profile)} == {25}, name
    summary = rows_of("summary", profile)[0]
    assert (summary["value"], summary["ranks"], summary["hosts"], summary["runs"]) == (1200, 3, 1, 1)
    assert rows_of("events", profile)[0]["value"] == 1200
    assert {(row["host"], row["rank"]) for row in rows_of("threads", profile)} == {("node", n) for n in range(3)}


def test_ranks_of_counts_can_be_selected() -> None:
    """Though there is no thread that would have them."""
    rows = rows_of("counts", counted(), Selection(ranks=((1, 1),), start_ns=S))
    assert [(row["rank"], row["value"]) for row in rows] == [(1, 200)]
    with pytest.raises(InvalidRequest, match="its ranks are 0 to 2"):
        rows_of("counts", counted(), Selection(ranks=((3, 3),)))


def test_one_repeated_count_keeps_its_deviation() -> None:
    builder = ProfileBuilder("perf-stat")
    cycles, faults = builder.intern_event("cycles", "count"), builder.intern_event("faults", "count")
    for event, rank in ((cycles, 0), (faults, 0), (faults, 1)):
        builder.add_count(
            run=0, rank=rank, thread=-1, cpu=-1, event=event, value=5.0, status="ok", deviation_percent=1.5
        )
    profile = builder.finish()
    # The deviation of a sum is unknown: whether ranks vary together was not measured.
    assert [row["deviation_percent"] for row in rows_of("events", profile)] == [1.5, None]
    assert [row["deviation_percent"] for row in rows_of("counts", profile)] == [1.5] * 3


def test_sums_of_counts_are_exact_beyond_floats() -> None:
    builder = ProfileBuilder("perf-stat")
    event = builder.intern_event("cycles", "count")
    for value in (float(1 << 60), 1.0, 2.0):
        builder.add_count(run=0, thread=-1, cpu=-1, event=event, start_ns=0, end_ns=1, value=value, status="ok")
    assert rows_of("counts", builder.finish())[0]["value"] == (1 << 60) + 3


def test_counts_without_times_are_scaled_like_their_event() -> None:
    """The text that perf stat prints for people tells a percentage alone."""
    builder = ProfileBuilder("perf-stat")
    for name, scaling in (("cycles", 4.0), ("faults", None)):
        builder.add_count(
            run=0, thread=-1, cpu=-1, event=builder.intern_event(name, "count", scaling=scaling), value=5.0, status="ok"
        )
    profile = builder.finish()
    for table in ("events", "counts", "threads", "ranks"):
        assert [row["running_percent"] for row in rows_of(table, profile)] == [25, None], table
