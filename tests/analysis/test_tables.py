"""Every table against the definitions in plain Python, on random profiles; and its form, also when it is empty."""

import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core.schema import records
from perfloom.analysis.stacks.hotspots import BY, COLUMNS, compute_hotspots
from perfloom.analysis.tables import TABLES
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import InvalidRequest, UnreadableInput
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.selection import Selection
from tests.analysis import brute
from tests.analysis.stacks.test_flamegraph import selections
from tests.support.profiles import profile_of, profiles

# What DESIGN promises to scripts.
FIELDS = {
    "summary": ("format", "duration_ms", "threads", "samples", "slices", "events", "losses"),
    "losses": ("reason", "count", "example"),
    "hotspots": ("name", "module", "event", "unit", "self", "total", "self_percent", "total_percent"),
    "counts": ("event", "unit", "process", "thread", "rank", "value"),
    "threads": ("host", "rank", "pid", "tid", "process", "name", "kind", "event", "unit", "samples", "value"),
}


def rows_of(name: str, profile: Profile, selection: Selection | None = None) -> list[dict[str, Any]]:
    table = TABLES[name]
    data = table.compute(profile, selection or Selection())
    assert list(data.columns) == [column.name for column in table.columns]
    rows = records(data)
    assert rows == table.compute.rows(profile, selection or Selection()).records()
    json.dumps(rows, allow_nan=False)
    assert not table.single_row or len(rows) == 1
    return rows


@pytest.mark.parametrize("name", TABLES)
def test_columns_are_promised_and_described(name: str) -> None:
    table = TABLES[name]
    names = [column.name for column in table.columns]
    assert table.name == name
    assert tuple(names[: len(FIELDS.get(name, ()))]) == FIELDS.get(name, ())
    assert len(set(names)) == len(names)
    for column in table.columns:
        assert column.description.endswith("."), column.name
        assert column.dtype == "str" or column.unit or column.name not in ("value", "self", "total")


@pytest.mark.parametrize("name", TABLES)
def test_a_profile_without_anything(name: str) -> None:
    for profile in (ProfileBuilder("test").finish(), profile_of([]), Profile(Meta("test"))):
        rows = rows_of(name, profile)
        assert len(rows) == (1 if name in ("summary",) else len(rows))
        if name in ("losses", "hotspots", "counts"):
            assert rows == []
    before = TABLES[name].compute(profile_of([]), Selection()).dtypes
    after = TABLES[name].compute(profile_of([("a", 1)]), Selection()).dtypes
    assert before.tolist() == after.tolist()


def in_events(profile: Profile, selection: Selection) -> list[str]:
    names: list[str] = profile.events["name"].to_pylist()
    return [selection.event] if selection.event else names


@pytest.mark.heavy
@settings(max_examples=60)
@given(st.data(), profiles(), st.sampled_from(("function", "module")))
def test_hotspots(data: st.DataObject, profile: Profile, by: str) -> None:
    selection = data.draw(selections(profile))
    found: dict[Any, dict[str, Any]] = {}
    for row in records(compute_hotspots(profile, selection, by)):
        key = row["event"], row["name"], row["module"]
        assert key not in found
        found[key] = row
    plain = selection.replace(recursion=False, invert=False)
    count = 0
    for event in in_events(profile, selection):
        own: dict[Any, int] = defaultdict(int)
        total: dict[Any, int] = defaultdict(int)
        whole = 0
        for sample in brute.selected(profile, plain, event=event):
            whole += sample.weight
            stack = [frame[:2] if by == "function" else (frame[1] or "[unknown]", frame[1]) for frame in sample.stack]
            for name in set(stack):
                total[name] += sample.weight
            if stack:
                own[stack[-1]] += sample.weight
        for name, weight in total.items():
            if weight:
                count += 1
                row = found[event, name[0], name[1]]
                assert (row["self"], row["total"]) == (own[name], weight)
                assert row["self_percent"] == pytest.approx(100 * own[name] / whole)
                assert row["total_percent"] == pytest.approx(100 * weight / whole)
    assert len(found) == count


def test_hotspots_are_sorted_and_distinguished() -> None:
    profile = profile_of(
        [
            ([("main", "app"), ("f", "one")], 10, 0, 0, 0),
            ([("main", "app"), ("f", "two")], 30, 0, 1, 0),
            ([("main", "app"), ("main", "app"), ("f", "two")], 5, 0, 2, 0),
            ([("main", "app")], 7, 0, 3, 1),
            ("", 5, 0, 4, 0),
        ],
        events=(("cycles", "count"), ("cpu-clock", "ns")),
    )
    rows = rows_of("hotspots", profile)
    assert [(r["event"], r["name"], r["module"], r["self"], r["total"]) for r in rows] == [
        ("cycles", "f", "two", 35, 35),
        ("cycles", "f", "one", 10, 10),
        ("cycles", "main", "app", 0, 45),
        ("cpu-clock", "main", "app", 7, 7),
    ]
    # A sample without a stack is in the whole.
    assert rows[2]["total_percent"] == pytest.approx(90)
    assert [r["unit"] for r in rows] == ["count", "count", "count", "ns"]
    assert rows_of("hotspots", profile, Selection(event="cpu-clock"))[0]["self_percent"] == 100
    with pytest.raises(InvalidRequest, match="function, module, thread"):
        compute_hotspots(profile, Selection(), by="file")


@pytest.mark.heavy
@settings(max_examples=80)
@given(st.data(), profiles())
def test_hotspots_by_thread(data: st.DataObject, profile: Profile) -> None:
    selection = data.draw(selections(profile))
    frame = compute_hotspots(profile, selection, by="thread")
    assert list(frame.columns) == [column.name for column in COLUMNS]
    threads = profile.threads.to_pylist()
    found = sorted((r["event"], r["name"], r["self"], r["total"]) for r in records(frame))
    expected = []
    for event in in_events(profile, selection):
        sums: dict[int, int] = defaultdict(int)
        for sample in brute.selected(profile, selection, event=event):
            sums[sample.thread] += sample.weight
        for n, weight in sums.items():
            thread = threads[n]
            key = f"{'-' if thread['rank'] is None else thread['rank']}/{thread['pid'] or '-'}/{thread['tid']}"
            if weight:
                expected.append((event, thread["name"] or key, weight, weight))
    assert found == sorted(expected)


@pytest.mark.heavy
@settings(max_examples=60)
@given(st.data(), profiles())
def test_counts_threads_events_and_summary(data: st.DataObject, profile: Profile) -> None:
    selection = data.draw(selections(profile))
    threads = profile.threads.to_pylist()
    cells: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for event in in_events(profile, selection):
        for sample in brute.selected(profile, selection, event=event):
            cells[event, sample.thread][0] += 1
            cells[event, sample.thread][1] += sample.weight
    expected = sorted(
        (event, threads[n]["process"] or "", threads[n]["tid"], threads[n]["rank"] or -1, weight)
        for (event, n), (_, weight) in cells.items()
    )
    counts = rows_of("counts", profile, selection)
    assert expected == sorted((r["event"], r["process"] or "", r["tid"], r["rank"] or -1, r["value"]) for r in counts)
    assert {r["source"] for r in counts} <= {"sampled"}
    busy = [r for r in rows_of("threads", profile, selection) if r["samples"]]
    assert sorted((r["event"], r["tid"], r["samples"], r["value"]) for r in busy) == sorted(
        (event, threads[n]["tid"], *cell) for (event, n), cell in cells.items()
    )
    for event in {event for event, _ in cells}:
        whole = sum(weight for (e, _), (_, weight) in cells.items() if e == event)
        assert sum(r["percent"] for r in busy if r["event"] == event) == pytest.approx(100 if whole else 0)
    idle = [r["tid"] for r in rows_of("threads", profile, selection) if not r["samples"]]
    summary = rows_of("summary", profile, selection)[0]
    assert summary["threads"] == len({n for _, n in cells}) + len(idle)
    assert summary["samples"] == sum(number for number, _ in cells.values())
    events = {r["event"]: r for r in rows_of("events", profile, selection)}
    assert list(events) == in_events(profile, selection)
    for event, row in events.items():
        mine = [cell for (e, _), cell in cells.items() if e == event]
        assert row["samples"] == sum(number for number, _ in mine)
        assert (row["value"] or 0) == sum(weight for _, weight in mine)


def test_summary_of_a_window() -> None:
    profile = profile_of([("a", 2, 0, 0), ("a", 3, 1, 4_000_000), ("b", 5, 1, 10_000_000)])
    whole = rows_of("summary", profile)[0]
    assert (whole["duration_ms"], whole["threads"], whole["value"], whole["unit"]) == (10, 2, 10, "count")
    part = rows_of("summary", profile, Selection(start_ns=1_000_000, end_ns=9_000_000))[0]
    assert (part["duration_ms"], part["samples"], part["value"]) == (8, 1, 3)
    assert (part["complete"], part["reasons"], part["processes"]) == (True, None, 1)
    builder = ProfileBuilder("test")
    builder.intern_thread(pid=1, tid=1), builder.intern_thread(kind="track")
    assert rows_of("summary", builder.finish())[0]["processes"] == 1


def perf_stat() -> Profile:
    """What `perf stat -I 1000 --per-thread` of two runs could give."""
    builder = ProfileBuilder("perf-stat")
    runs = [builder.add_run("true"), builder.add_run("true")]
    instructions = builder.intern_event("instructions", "count")
    clock = builder.intern_event("task-clock", "ns")
    worker = builder.intern_thread(pid=7, tid=8)
    builder.set_thread_name(worker, 0, "worker")
    second = 1_000_000_000
    for run in runs:
        for n in range(3):
            builder.add_count(
                run=run,
                event=instructions,
                thread=worker,
                cpu=-1,
                start_ns=n * second,
                end_ns=(n + 1) * second,
                value=float(100 + n),
                enabled_ns=100,
                running_ns=50,
                status="ok",
            )
    builder.add_count(run=0, event=clock, thread=-1, cpu=-1, value=12.5, status="ok")
    builder.add_count(run=0, event=clock, thread=-1, cpu=1, value=None, status="not supported")
    return builder.finish()


def test_counts_of_perf_stat() -> None:
    profile = perf_stat()
    counts = rows_of("counts", profile)
    assert [(r["event"], r["thread"], r["run"], r["cpu"], r["value"], r["status"]) for r in counts] == [
        ("instructions", "worker", 0, None, 303, "ok"),
        ("instructions", "worker", 1, None, 303, "ok"),
        ("task-clock", None, 0, None, 12.5, "ok"),
        ("task-clock", None, 0, 1, None, "not supported"),
    ]
    assert {r["source"] for r in counts} == {"counted"}
    assert [r["running_percent"] for r in counts] == [50, 50, None, None]
    threads = rows_of("threads", profile)
    assert [(r["name"], r["kind"], r["event"], r["value"], r["percent"]) for r in threads] == [
        ("worker", "thread", "instructions", 303, 50),
        ("worker", "thread", "instructions", 303, 50),
        ("(all threads)", "thread", "task-clock", 12.5, 100),
        ("CPU 1", "cpu", "task-clock", None, None),
    ]
    assert rows_of("summary", profile)[0]["value"] == 606
    assert [r["value"] for r in rows_of("events", profile)] == [606, 12.5]
    assert rows_of("hotspots", profile) == []


def test_windows_and_threads_of_counts() -> None:
    profile = perf_stat()
    # An interval belongs to the window in which it starts, a whole run to none.
    window = rows_of("counts", profile, Selection(start_ns=500_000_000, end_ns=2_000_000_000))
    assert [(r["event"], r["value"]) for r in window] == [("instructions", 101), ("instructions", 101)]
    worker = rows_of("counts", profile, Selection(threads=("-/7/8",)))
    assert {r["event"] for r in worker} == {"instructions"}
    with pytest.raises(InvalidRequest, match="no ranks"):
        rows_of("counts", profile, Selection(ranks=((0, 1),)))


def test_losses_are_sorted_by_frequency() -> None:
    builder = ProfileBuilder("test")
    builder.add_loss("no stack", "line 3")
    builder.add_loss("no period", "line 5", 7)
    builder.add_loss("no stack", "line 9")
    profile = builder.finish()
    assert rows_of("losses", profile) == [
        {"reason": "no period", "count": 7, "example": "line 5"},
        {"reason": "no stack", "count": 2, "example": "line 3"},
    ]
    assert rows_of("summary", profile)[0]["losses"] == 9


def test_weights_with_overflowing_sums_are_rejected() -> None:
    profile = profile_of([("a", 1 << 61), ("a", 1 << 61), ("a", 1)])
    # No reader makes such a profile.
    heavy = pa.array([1 << 62, 1 << 62, 1], pa.int64())
    place = profile.samples.schema.get_field_index("weight")
    profile = replace(profile, samples=profile.samples.set_column(place, "weight", heavy))
    with pytest.raises(UnreadableInput, match="more than 2"):
        rows_of("hotspots", profile)


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.uses_selection])
def test_invalid_selections_are_reported(name: str) -> None:
    profile = profile_of([("a", 1)])
    for selection, message in (
        (Selection(event="nope"), "no event 'nope'; choose one of: cycles"),
        (Selection(threads=("nope",)), "no thread 'nope'"),
        (Selection(step="3"), "no steps"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            TABLES[name].rows(profile, selection)
    with pytest.raises(InvalidRequest, match="no event 'x', nor any other"):
        TABLES[name].rows(profile_of([], events=()), Selection(event="x"))
    with pytest.raises(InvalidRequest, match="RE2"):
        TABLES[name].rows(profile, Selection(focus="["))


def test_groupings_match_the_page() -> None:
    assert BY == ("function", "module", "thread")
