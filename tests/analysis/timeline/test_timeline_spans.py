"""Over which time samples are drawn: never more than their threads used."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.core.sample_spans import SampleSpan, spans_of
from perfloom.analysis.timeline.minimap import build_minimap
from perfloom.analysis.timeline.mipmap import MipmapItems
from perfloom.analysis.timeline.model import Timeline, open_timeline, prepare_timeline
from perfloom.analysis.timeline.tracks import list_tracks, time_extent
from perfloom.analysis.timeline.usage import CPUS_UNIT, bin_weights
from perfloom.charts.timeline import format_clipped
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.readers import perf_script
from tests.support import paths
from tests.support.parts import require
from tests.support.traced import Trace

ALL = Selection()
DATA = paths.DATA / "perf"
ORACLE = paths.ORACLES / "perf-script/perf-cycles-instructions-01.txt"
MS = 1_000_000


def timeline_of(profile: Profile) -> Timeline:
    return open_timeline(profile, prepare_timeline(profile))


def drawn(profile: Profile, event: int = 0) -> dict[int, MipmapItems]:
    """What is drawn of each thread that has samples of an event, each sample by itself."""
    timeline = timeline_of(profile)
    found = {}
    for thread in range(profile.threads.num_rows):
        stretch = timeline.find_samples(event, thread, -(1 << 62), 1 << 62, 0, 1 << 40)
        if stretch is not None and len(stretch):
            found[thread] = stretch.read()
    return found


def length(items: MipmapItems) -> int:
    return int((items.end - items.start).sum())


def clock(samples: list[tuple[int, int, int]], event: str = "cpu-clock", unit: str = "ns", **how: Any) -> Profile:
    """Samples (time, thread, weight), on CPU 0."""
    builder = ProfileBuilder("test")
    of = builder.intern_event(event, unit, **how)
    stack = builder.intern_stack([builder.intern_frame(builder.intern_function("f"))])
    for time_ns, thread, weight in samples:
        builder.add_sample(time_ns, builder.intern_thread(pid=1, tid=thread), of, stack, weight, 0)
    return builder.finish()


@pytest.mark.heavy
@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 3), st.integers(0, 120)), min_size=1, max_size=40))
def test_drawn_and_clipped_time_add_up_to_the_sampled_time(samples: list[tuple[int, int, int]]) -> None:
    profile = clock(samples)
    timeline, table = timeline_of(profile), profile.samples.to_pylist()
    shown = {track.thread: track for track in list_tracks(profile, timeline, ALL)[0]}
    for thread, items in drawn(profile).items():
        mine = [row for row in table if row["thread"] == thread]
        total = sum(row["weight"] for row in mine)
        (track,) = (track for track in shown.values() if track.id == f"t{thread}")
        assert length(items) + track.clipped == total == track.weight
        assert (items.start[1:] >= items.end[:-1]).all(), "disjoint"
        assert sorted(items.end.tolist()) == sorted(row["time_ns"] for row in mine), "each ends when it was taken"
        weight = profile.samples["weight"].to_numpy()[items.event_row]
        assert (items.end - items.start <= weight).all(), "none is longer than its weight"


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 3), st.integers(0, 1200)), min_size=1, max_size=40))
def test_the_strip_has_all_time_that_was_sampled(samples: list[tuple[int, int, int]]) -> None:
    profile = clock(samples)
    timeline = timeline_of(profile)
    found = build_minimap(profile, timeline, ALL, time_extent(profile, timeline))
    total = sum(weight for _, _, weight in samples)
    assert found.host.unit == CPUS_UNIT and found.device is None
    assert found.host.values.sum() * found.host.bin_ns == pytest.approx(total)
    if any(thread == 2 for _, thread, _ in samples):
        narrowed = build_minimap(profile, timeline, Selection(threads=("-/1/2",)), time_extent(profile, timeline)).host
        assert narrowed.values.sum() * narrowed.bin_ns == pytest.approx(sum(w for _, t, w in samples if t == 2))


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 900), st.integers(0, 99)), max_size=20))
def test_a_weight_is_spread_evenly_over_its_item(parts: list[tuple[int, int, int]]) -> None:
    size = 12
    low = np.array([low for low, _, _ in parts], np.int64)
    high = low + np.array([length for _, length, _ in parts], np.int64)
    weight = np.array([weight for *_, weight in parts], float)
    items = MipmapItems(low, high, *[low] * 6)
    expected = np.zeros(512)
    for start, end, value in zip(low.tolist(), high.tolist(), weight.tolist(), strict=True):
        moments = range(start, end) if end > start else [start]
        for moment in moments:
            expected[moment // size] += value / len(moments)
    assert bin_weights(items, weight, 0, size, 512) == pytest.approx(expected)


def test_samples_that_overlap_are_clipped_and_that_is_said() -> None:
    profile = clock(
        [(10 * MS * n, 1, 10 * MS) for n in range(100)] + [(1001 * MS, 2, 10 * MS), (1005 * MS, 2, 10 * MS)]
    )
    tracks = list_tracks(profile, timeline_of(profile), ALL)[0]
    exact, cut = (track for track in tracks if track.kind == "thread")
    assert (exact.clipped, format_clipped(exact)) == (0, "")
    assert cut.clipped == 6 * MS and format_clipped(cut).startswith("30.00")
    assert exact.drawn == "before"


def test_the_idle_task_uses_no_cpu() -> None:
    builder = ProfileBuilder("test")
    event = builder.intern_event("cpu-clock", "ns")
    for number, name in ((0, "swapper"), (7, "busy")):
        thread = builder.intern_thread(pid=number, tid=number)
        builder.set_thread_name(thread, 0, name)
        for n in range(100):
            builder.add_sample(n * MS, thread, event, 0, MS)
    profile = builder.finish()
    timeline = timeline_of(profile)
    found = build_minimap(profile, timeline, ALL, time_extent(profile, timeline)).host
    assert found.values.max() == pytest.approx(1.0, abs=0.01)


def test_time_span_of_events() -> None:
    builder = ProfileBuilder("test")
    for name, unit in (
        *((name, "ns") for name in ("cpu-clock", "task-clock:u", "cpu-clock/freq=997/", "wall time", "CPU time")),
        *((name, "count") for name in ("cycles", "instructions:u", "cpu_core/cycles/", "cycles:ppp", "cpu-clock")),
        *(
            (name, "count")
            for name in ("cpu/cpu-cycles/u", "cpu_clk_unhalted.thread", "cpu/event=cpu-cycles,period=9/")
        ),
        *((name, "count") for name in ("page-faults", "context-switches", "cache-misses", "sched:sched_switch")),
        *((name, "ns") for name in ("sched:sched_stat_runtime", "delay", "samples")),
        *((name, "ns") for name in ("host time", "running time", "lock wait time")),
    ):
        # Each has its own name: one name with two units would be one event.
        builder.intern_event(name if unit == "ns" or name != "cpu-clock" else "cpu-clock:k", unit)
    assert spans_of(builder.finish()) == (
        *[SampleSpan.BEFORE] * 5,
        *[SampleSpan.SINCE] * 8,
        *[SampleSpan.TICK] * 7,
        *[SampleSpan.AFTER] * 3,
    )


def test_events_without_a_length_are_ticks() -> None:
    for event in ("page-faults", "context-switches"):
        (items,) = drawn(clock([(n * 100, 1, 50) for n in range(9)], event, "count")).values()
        assert length(items) == 0 and items.start.tolist() == [n * 100 for n in range(9)]
    timeline = timeline_of(profile := clock([(n * MS, 1, 50) for n in range(100)], "page-faults", "count"))
    found = build_minimap(profile, timeline, ALL, time_extent(profile, timeline))
    assert found.host.unit == "page-faults per second"
    assert found.host.values.sum() * found.host.bin_ns / 1e9 == pytest.approx(5000)


def test_a_text_without_times_has_ticks_alone() -> None:
    text = "".join(f"prog 7 cpu-clock: 1000000 \n\t    {n:x} f (/bin/prog)\n\n" for n in range(1, 9))
    profile = perf_script.read(io.BytesIO(text.replace("cpu-clock: 1000000", "1000000 cpu-clock:").encode()))
    assert profile.samples.num_rows == 8 and spans_of(profile) == (SampleSpan.TICK,)


def test_slices_are_drawn_as_long_as_they_last() -> None:
    trace = Trace()
    host, stream = trace.thread(1), trace.thread(7, stream=True)
    trace.slice(host, 0, 512, "outer")
    launch = trace.slice(host, 100, 200, "launch", "runtime")
    trace.slice(stream, 0, 256, "kernel", "kernel", launch)
    profile = trace.finish()
    timeline = timeline_of(profile)
    found = build_minimap(profile, timeline, ALL, time_extent(profile, timeline))
    assert found.device is not None
    assert (found.host.unit, found.device.unit) == ("threads busy", "streams busy")
    assert found.host.values[:512] == pytest.approx(1) and found.device.values.sum() == pytest.approx(256)


# --- real recordings


def test_threads_that_share_a_cpu_are_not_all_busy(tmp_path: Path) -> None:
    """Eight threads on one CPU: what is drawn of all is what that CPU had to give."""
    perf, compiler = require("perf"), require("gcc")
    program, data = tmp_path / "share", tmp_path / "perf.data"
    subprocess.run([compiler, "-O1", "-g", "-pthread", DATA / "share.c", "-o", program], check=True)
    record = [perf, "record", "-F", "499", "-e", "cpu-clock:u", "-g", "-N", "--no-bpf-event", "-o", data, "--"]
    subprocess.run([*record, program], check=True, capture_output=True)
    fields = "comm,pid,tid,time,event,period,ip,sym,dso"
    script = [perf, "script", "--header", "--ns", "--no-inline", "-i", data, "-F", fields]
    done = subprocess.run(script, check=True, capture_output=True)
    profile = perf_script.read(io.BytesIO(done.stdout))
    timeline = timeline_of(profile)
    whole = time_extent(profile, timeline)
    shown = [track for track in list_tracks(profile, timeline, ALL)[0] if track.samples > 5]
    assert len(shown) == 8
    lengths = {thread: length(items) for thread, items in drawn(profile).items()}
    for track in shown:
        assert lengths[int(track.id[1:])] + track.clipped == track.weight
    assert sum(lengths.values()) <= 1.1 * (whole.end_ns - whole.start_ns)
    assert sum(lengths.values()) >= 0.8 * sum(track.weight for track in shown), "nor is most of it clipped"
    strip = build_minimap(profile, timeline, ALL, whole)
    assert strip.host.unit == CPUS_UNIT
    # A sample covers the time before it, in which its thread may have waited for the CPU. Therefore short parts may
    # show more than one CPU, long ones not.
    assert strip.host.values.mean() <= 1.1


def shared_cpu(header: str, period: int, threads: int = 8) -> bytes:
    """The text of a recording of threads that share one CPU of 3 GHz in time slices of 4 ms, sampled every `period`
    cycles of each."""
    lines, used, turn, count = [header], [0] * threads, 4 * MS, 0
    for n in range(threads * 90):
        thread, begin = n % threads, n * turn
        before, used[thread] = used[thread], used[thread] + 3 * turn
        for taken in range(before // period + 1, used[thread] // period + 1):
            at = begin + (taken * period - before) // 3
            text = f"{at // 10**9}.{at % 10**9:09d}"
            lines.append(
                f"share  100/{101 + thread} [000] {text}: {period:10d} cycles: \n\t  4011d6 work (/opt/share)\n"
            )
            count += 1
    assert count > 100
    return "\n".join(lines).encode()


HEADER = """# ========
# event : name = cycles, , id = {{ 1 }}, size = 128, {{ sample_period, sample_freq }} = {rate}, sample_type = IP|TID|TIME|CPU|PERIOD, {mode}disabled = 1
# ========
#"""


@pytest.mark.parametrize("period", [3 * MS, 30 * MS], ids=["within turns", "over turns"])
@pytest.mark.parametrize("known", ["frequency", "period", "nothing"])
def test_hardware_events_are_drawn_no_longer_than_their_threads_ran(period: int, known: str) -> None:
    header = {
        "frequency": HEADER.format(rate=3 * 10**9 // period, mode="freq = 1, "),
        "period": HEADER.format(rate=period, mode=""),
        "nothing": "",
    }[known]
    profile = perf_script.read(io.BytesIO(shared_cpu(header, period)))
    assert spans_of(profile) == (SampleSpan.SINCE,) and profile.threads.num_rows == 8
    turns, each = 8 * 90 * 4 * MS, 90 * 4 * MS
    lengths = [length(items) for items in drawn(profile).values()]
    assert sum(lengths) <= 1.02 * turns
    assert max(lengths) <= 1.02 * each
    # Of each thread the time before its first sample is not known.
    assert min(lengths) >= 0.8 * (each - period // 3)
    for items in drawn(profile).values():
        assert items.start[0] == items.end[0], "the first has no sample before it"
        assert (items.end - items.start <= period // 3 * 1.02).all()
    found = build_minimap(profile, timeline := timeline_of(profile), ALL, time_extent(profile, timeline)).host
    assert found.unit == "cycles per second" and found.values.mean() == pytest.approx(3e9, rel=0.1)


@pytest.mark.skipif(not ORACLE.exists(), reason="the recordings of other tools are not here")
def test_a_recording_of_cycles_and_instructions() -> None:
    """perf record -e cycles -e instructions -c 100000000 -a on eight CPUs, one second, without periods in the text."""
    profile = perf_script.read(io.BytesIO(ORACLE.read_bytes()))
    assert spans_of(profile) == (SampleSpan.SINCE, SampleSpan.SINCE)
    timeline = timeline_of(profile)
    whole = time_extent(profile, timeline)
    table = profile.samples.to_pandas()
    for event in range(2):
        found = drawn(profile, event)
        assert found
        for thread, items in found.items():
            # A busy thread is seen as busy, and no thread before it was first sampled.
            mine = table[(table.event == event) & (table.thread == thread)].time_ns
            assert items.start[0] == mine.min() and items.end[-1] == mine.max()
            if len(mine) > 30 and len(set(table[(table.event == event) & (table.thread == thread)].cpu)) == 1:
                assert 0.5 * (mine.max() - mine.min()) < length(items) <= mine.max() - mine.min()
        assert sum(map(length, found.values())) <= 8 * (whole.end_ns - whole.start_ns)
