"""Rows of call stacks, ticks of other events, CPU use and lanes of CPUs, of real recordings and of made ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfloom.analysis.core.flame_groups import FlameGroup, groups_of
from perfloom.analysis.core.sample_selection import event_names
from perfloom.analysis.timeline.mipmap import MipmapItems, single_items
from perfloom.analysis.timeline.model import Timeline, code_names
from perfloom.analysis.timeline.stack_rows import build_stack_rows
from perfloom.analysis.timeline.tracks import list_tracks, time_extent
from perfloom.analysis.timeline.usage import compute_cpu_use, find_cpu_event
from perfloom.charts.timeline import build_viewport, parse_bands
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import get_column
from tests.analysis.timeline.test_timeline import timeline_of
from tests.support import formats
from tests.support.profiles import profile_of

MS = 1_000_000


def read(name: str) -> Profile:
    from perfloom.readers import READERS

    with open(formats.DATA / "perf" / name, "rb") as file:
        return READERS["perf-script"].read(file, name)


@pytest.fixture(scope="module")
def events() -> Profile:
    """Page faults and a clock, on two threads and two CPUs."""
    return read("events.script.txt")


def view(profile: Profile, timeline: Timeline, texts: list[str], **words: Any) -> dict[str, Any]:
    whole = time_extent(profile, timeline)
    bands = parse_bands(texts, profile, timeline)
    return build_viewport(profile, timeline, Selection(**words), bands, whole.first_ns, whole.last_ns, 16_000).data


def boxes(profile: Profile, samples: list[tuple[str, int, int]]) -> list[list[tuple[str, int, int, int]]]:
    """The rows of items (start, end) of the stacks of `profile`, as (function, start, end, samples)."""
    start, end = (np.array([one[place] for one in samples]) for place in (1, 2))
    rows = np.arange(len(samples), dtype=np.int32)
    items = single_items(rows, start, end, np.zeros(len(samples), np.int32), end - start)
    names = profile.functions.column("name").to_pylist()

    def plain(row: MipmapItems) -> list[tuple[str, int, int, int]]:
        functions = [names[f] for f in code_names(row.code)[0].tolist()]
        return list(zip(functions, row.start.tolist(), row.end.tolist(), row.count.tolist(), strict=True))

    return [plain(row) for row in build_stack_rows(profile, items, range(4), 0)]


def test_boxes_of_one_call_are_joined_and_others_are_not() -> None:
    samples = [
        ("main;a;b", 0, 10),
        ("main;a;b", 10, 20),
        ("main;a;c", 22, 30),
        ("main;d", 30, 40),
        ("main;a;b", 40, 50),
        # The thread did not run before.
        ("main;a;b", 90, 100),
    ]
    profile = profile_of([(stack, end - start, 0, end) for stack, start, end in samples])
    assert boxes(profile, samples) == [
        [("main", 0, 50, 5), ("main", 90, 100, 1)],
        [("a", 0, 30, 3), ("d", 30, 40, 1), ("a", 40, 50, 1), ("a", 90, 100, 1)],
        [("b", 0, 20, 2), ("c", 22, 30, 1), ("b", 40, 50, 1), ("b", 90, 100, 1)],
        [],
    ]


def test_recursion_has_a_row_for_each_call() -> None:
    samples = [("f;f;f", 0, 10), ("f;f", 10, 20)]
    profile = profile_of([(stack, 10, 0, end) for stack, _, end in samples])
    assert [len(row) for row in boxes(profile, samples)] == [1, 1, 1, 0]


def test_every_sample_is_in_its_rows(events: Profile) -> None:
    """The number of samples of each depth, counted naively from the tables."""
    timeline = timeline_of(events)
    clock = event_names(events).index("cpu-clock")
    depth = get_column(events.calls, "depth")[get_column(events.stacks, "call")]
    for thread in range(events.threads.num_rows):
        mine = (get_column(events.samples, "thread") == thread) & (get_column(events.samples, "event") == clock)
        depths = depth[get_column(events.samples, "stack")[mine]]
        assert timeline.stack_depths[clock, thread] == depths.max()
        band = f"t{thread}.k0-{int(depths.max()) - 1}"
        drawn = view(events, timeline, [band], event="cpu-clock")["bands"][band]
        ends = np.cumsum(drawn["rows"])
        counts = [sum(drawn["count"][e - n : e]) for e, n in zip(ends, drawn["rows"], strict=True)]
        assert counts == [int((depths > row).sum()) for row in range(len(counts))]


def test_other_events_are_ticks_of_their_thread(events: Profile) -> None:
    timeline, faults = timeline_of(events), event_names(events).index("page-faults")
    event, thread = get_column(events.samples, "event"), get_column(events.samples, "thread")
    found = {}
    for track in list_tracks(events, timeline, Selection(event="cpu-clock"))[0]:
        for ticks in track.ticks:
            assert (ticks.event, ticks.name) == (faults, "page-faults")
            band = f"{track.id}.e{faults}"
            drawn = view(events, timeline, [band], event="cpu-clock")["bands"][band]
            found[int(track.id[1:])] = (ticks.samples, sum(drawn["count"]))
    expected = {t: int(((event == faults) & (thread == t)).sum()) for t in np.unique(thread).tolist()}
    assert found == {t: (n, n) for t, n in expected.items() if n} and found
    # Clocks have a length, so they are no ticks.
    assert not [t for track in list_tracks(events, timeline, Selection(event="page-faults"))[0] for t in track.ticks]


def test_lanes_of_cpus_have_the_samples_of_each(events: Profile) -> None:
    timeline = timeline_of(events)
    clock = event_names(events).index("cpu-clock")
    cpu, of = get_column(events.samples, "cpu"), get_column(events.samples, "event") == clock
    lanes = [track for track in list_tracks(events, timeline, Selection())[0] if track.kind == "cpu"]
    assert {track.name: track.samples for track in lanes} == {
        f"CPU {n}": int((of & (cpu == n)).sum()) for n in np.unique(cpu[of]).tolist()
    }
    bands = view(events, timeline, [track.id for track in lanes])["bands"]
    assert [sum(bands[track.id]["count"]) for track in lanes] == [track.samples for track in lanes]
    # What another thread than the selected one ran is pale.
    key = next(t.thread for t in list_tracks(events, timeline, Selection())[0] if t.kind == "thread")
    pale = view(events, timeline, [track.id for track in lanes], threads=(key,))["bands"]
    assert {out for track in lanes for out in pale[track.id]["out"]} == {0, 1}


@pytest.mark.parametrize("cpu", [3, 2**31 - 1])
def test_cpus_of_two_hosts_are_two(cpu: int) -> None:
    builder = ProfileBuilder("test")
    event = builder.intern_event("cpu-clock", "ns")
    stack = builder.intern_stack([builder.intern_frame(builder.intern_function("main", ""))])
    for host in ("a", "b"):
        thread = builder.intern_thread(host=host, pid=1, tid=1)
        for at in range(1, 4):
            builder.add_sample(at * MS, thread, event, stack, MS, cpu=cpu)
    profile = builder.finish()
    lanes = [t for t in list_tracks(profile, timeline_of(profile), Selection())[0] if t.kind == "cpu"]
    name = f"CPU {cpu}"
    assert [(t.group, t.name, t.samples) for t in lanes] == [("CPUs · a", name, 3), ("CPUs · b", name, 3)]


def test_samples_that_do_not_know_their_cpu_have_no_lanes() -> None:
    profile = profile_of([("main", MS, 0, n * MS) for n in range(5)], events=(("cpu-clock", "ns"),))
    timeline = timeline_of(profile)
    assert len(timeline.cpu_rows) == 0
    assert [t for t in list_tracks(profile, timeline, Selection())[0] if t.kind == "cpu"] == []


def test_cpu_use_of_threads_adds_up_to_that_of_process_and_host(events: Profile) -> None:
    timeline = timeline_of(events)
    whole = time_extent(events, timeline)
    range_ns = whole.first_ns, whole.last_ns

    def area(group: FlameGroup, number: int) -> float:
        use = compute_cpu_use(events, timeline, Selection(), group, number, range_ns)
        return float(use.values.sum() * use.bin_ns)

    threads = [area(FlameGroup.THREAD, n) for n in range(events.threads.num_rows)]
    for group in (FlameGroup.PROCESS, FlameGroup.HOST):
        assert len(groups_of(events, group).labels) == 1
        assert area(group, 0) == pytest.approx(sum(threads))
    clock = get_column(events.samples, "event") == event_names(events).index("cpu-clock")
    # A weight before the first sample of a thread is not drawn.
    assert sum(threads) == pytest.approx(int(get_column(events.samples, "weight")[clock].sum()), rel=0.05)
    (process,) = [t for t in list_tracks(events, timeline, Selection())[0] if t.id == "g0"]
    assert process.name == "CPUs in use" and process.high is not None and process.high > 1


def test_cpu_use_is_of_switches_else_of_a_clock_else_of_cycles() -> None:
    def chosen(*events: tuple[str, str]) -> str | None:
        samples = [("main", MS, 0, n * MS, n % len(events)) for n in range(8)]
        profile = profile_of(samples, events=events)
        event = find_cpu_event(profile)
        return None if event is None else event_names(profile)[event]

    clock, cycles, running = ("cpu-clock", "ns"), ("cycles", "count"), ("running time", "ns")
    assert chosen(cycles, clock, running) == "running time" and chosen(cycles, clock) == "cpu-clock"
    assert chosen(cycles) == "cycles" and chosen(("page-faults", "count")) is None


def test_one_thread_in_cycles_uses_one_cpu() -> None:
    profile = profile_of([("main", 3_000_000, 0, n * MS) for n in range(1000)])
    timeline = timeline_of(profile)
    whole = time_extent(profile, timeline)
    use = compute_cpu_use(profile, timeline, Selection(), FlameGroup.THREAD, 0, (whole.first_ns, whole.last_ns))
    assert use.values == pytest.approx(1.0, abs=0.05)


def test_bands_that_do_not_exist_are_rejected(events: Profile) -> None:
    timeline = timeline_of(events)
    for text in ("x9", "g9", "h1", "w99", "t0.e9", "t0.k99-120", "x0.l", "t0.e"):
        with pytest.raises(InvalidRequest):
            parse_bands([text], events, timeline)
