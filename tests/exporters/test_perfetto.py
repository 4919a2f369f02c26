"""Trace events: out, and in again by the reader of such files."""

import io
import json
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.analysis.tables import TABLES, records
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import get_strings
from perfloom.exporters import get_exporter
from perfloom.exporters.overlap_tracks import assign_tracks
from perfloom.readers import chrome, pytorch
from tests.support import real_traces
from tests.support.profiles import profile_of
from tests.support.traced import Trace, traces


def written(profile: Profile, **selection: Any) -> bytes:
    return b"".join(get_exporter("perfetto").write(profile, Selection(**selection), {}))


def told(profile: Profile) -> Counter[tuple[object, ...]]:
    """The slices, whatever their order, by what a file of trace events holds of them. Those that overlap are on a track
    beside their thread's, "main (2)"."""
    names, categories = get_strings(profile.functions, "name"), get_strings(profile.categories, "name")
    threads = get_strings(profile.threads, "name")
    rows = profile.slices.to_pylist()
    zero = min((row["start_ns"] for row in rows), default=0)
    return Counter(
        (
            row["start_ns"] - zero,
            row["duration_ns"],
            names[row["function"]],
            categories[row["category"]],
            re.sub(r" \(\d+\)$", "", threads[row["thread"]]),
        )
        for row in rows
    )


@pytest.mark.heavy
@settings(max_examples=40)
@given(traces())
def test_out_and_in_again(profile: Profile) -> None:
    data = written(profile)
    assert len(json.loads(data)["traceEvents"]) >= profile.slices.num_rows
    if not profile.slices.num_rows:
        return
    assert chrome.sniff(data[:4096])
    again = chrome.read(io.BytesIO(data))
    assert told(again) == told(profile)


def test_everything_a_trace_has() -> None:
    trace = Trace()
    host, stream = trace.thread(11, '</script><b>"main"\\', rank=3), trace.thread(7, rank=3, stream=True)
    launch = trace.slice(
        host, 1_500, 2_001, "launch\n", "runtime", arguments={"grid": [1, 2], "shapes": "[[2]]"}, correlation=2**62 + 1
    )
    trace.slice(stream, 3_000, 4_000, "gemm", "kernel", launch)
    trace.values("allocated", "bytes", [(1_000, 5.0), (2_000, 0.5)], rank=3)
    trace.instants.append((1_700, host, "launch\n"))
    found = json.loads(written(trace.finish()))
    events = found["traceEvents"]
    of = {phase: [event for event in events if event["ph"] == phase] for phase in "XMCisf"}
    assert of["X"][0] == {
        "ph": "X",
        "name": "launch\n",
        "cat": "runtime",
        "pid": 1,
        "tid": 11,
        "ts": 1.5,
        "dur": 0.501,
        "args": {"grid": [1, 2], "shapes": "[[2]]", "Input Dims": [[2]], "correlation": 2**62 + 1},
    }
    assert [(event["name"], event["ts"], event["args"]["value"]) for event in of["C"]] == [
        ("allocated of rank 3, bytes", 1, 5),
        ("allocated of rank 3, bytes", 2, 0.5),
    ]
    assert [(event["ph"], event["id"], event["tid"], event["ts"]) for event in of["s"] + of["f"]] == [
        ("s", 1, 11, 1.5),
        ("f", 1, 7, 3),
    ]
    assert [(event["name"], event["ts"]) for event in of["i"]] == [("launch\n", 1.7)]
    names = {(event["name"], event["tid"]): event["args"] for event in of["M"]}
    assert names["thread_name", 11] == {"name": '</script><b>"main"\\'} and names["process_name", 0]["name"].startswith(
        "rank 3 · "
    )


def test_threads_with_the_same_numbers_stay_apart() -> None:
    trace = Trace()
    for rank in range(2):
        host, stream = trace.thread(7, "main", rank=rank), trace.thread(7, rank=rank, stream=True)
        trace.slice(host, 0, 10, "a")
        trace.slice(stream, 0, 10, "k", "kernel")
    events = [event for event in json.loads(written(trace.finish()))["traceEvents"] if event["ph"] == "X"]
    assert len({(event["pid"], event["tid"]) for event in events}) == 4


def crossing(events: list[dict[str, Any]]) -> int:
    """How many slices of a thread overlap another without lying in it, or around it. Perfetto drops these."""
    count, opened = 0, dict[tuple[int, int], list[float]]()
    for event in sorted((one for one in events if one["ph"] == "X"), key=lambda one: (one["ts"], -one["dur"])):
        begin, end = round(event["ts"] * 1000), round(event["ts"] * 1000) + round(event["dur"] * 1000)
        ends = opened.setdefault((event["pid"], event["tid"]), [])
        while ends and ends[-1] <= begin:
            ends.pop()
        count += bool(ends) and end > ends[-1]
        ends.append(end)
    return count


def test_overlapping_slices_get_separate_tracks() -> None:
    source = [
        {"ph": "X", "name": name, "pid": 1, "tid": 2, "ts": ts, "dur": dur}
        for name, ts, dur in (("a", 0, 10), ("b", 5, 10), ("c", 6, 2), ("d", 7, 30), ("e", 20, 1))
    ]
    source.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "main"}})
    assert crossing(source)
    found = json.loads(written(chrome.read(io.BytesIO(json.dumps(source).encode()))))["traceEvents"]
    assert not crossing(found)
    assert sorted((one["name"], one["ts"], one["dur"]) for one in found if one["ph"] == "X") == sorted(
        (one["name"], one["ts"], one["dur"]) for one in source if one["ph"] == "X"
    )
    names = [one["args"]["name"] for one in found if one["name"] == "thread_name"]
    assert names == ["main", "main (2)", "main (3)"]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=80))
def test_no_slice_overlaps_another_on_its_track(spans: list[tuple[int, int]]) -> None:
    start = np.array([begin for begin, _ in spans], np.int64)
    end = start + np.array([length for _, length in spans], np.int64)
    nothing = np.zeros(len(spans), np.int64)
    track = assign_tracks(nothing, nothing - 1, start, end)
    found = [
        {"ph": "X", "pid": 0, "tid": on, "ts": begin / 1000, "dur": length / 1000}
        for on, (begin, length) in zip(track.tolist(), spans, strict=True)
    ]
    assert not crossing(found)


def test_samples_are_a_profile_of_each_thread() -> None:
    """Of the main event, in whole µs; of other events each is an instant."""
    profile = profile_of(
        [("main;work", 7, 0, 1_000), ("main", 7, 0, 9_000), ("", 7, 1, 2_500), ("main", 3, 1, 3_000, 1)],
        events=(("cycles", "count"), ("faults", "count")),
    )
    data = written(profile)
    instants = [event for event in json.loads(data)["traceEvents"] if event["ph"] == "i"]
    assert [(one["name"], one["cat"], one["ts"], one["args"]) for one in instants] == [
        ("main", "faults", 2, {"stack": ["main"], "weight": 3})
    ]
    again = chrome.read(io.BytesIO(data))
    assert not again.losses.num_rows
    threads = get_strings(again.threads, "name")
    rows = [(threads[row["thread"]], row["time_ns"], row["weight"], row["stack"]) for row in again.samples.to_pylist()]
    assert [row[:3] for row in rows] == [("thread 0", 0, 8_000), ("thread 1", 1_000, 0), ("thread 0", 8_000, 0)]
    assert {"main", "work"} == set(get_strings(again.functions, "name"))


@settings(max_examples=15)
@given(traces(), st.data())
def test_a_window(profile: Profile, data: st.DataObject) -> None:
    last = profile.meta.duration_ns or 0
    start = data.draw(st.integers(0, max(last, 1)))
    events = json.loads(written(profile, start_ns=start, end_ns=last + 1))["traceEvents"]
    begun = profile.slices.column("start_ns").to_pylist()
    assert sum(event["ph"] == "X" for event in events) == sum(at >= start for at in begun)


@real_traces.here
def test_a_real_trace_says_the_same_when_it_is_read_again() -> None:
    profile = real_traces.trace("resnet50_v100")
    data = written(profile)
    assert pytorch.sniff(data[: 256 << 10])
    again = pytorch.read(io.BytesIO(data))
    for name in ("operators", "kernels", "launches", "steps", "devices"):
        table = TABLES[name]
        assert records(table.compute(again, Selection())) == records(table.compute(profile, Selection())), name
    assert again.meta.start_epoch_ns == profile.meta.start_epoch_ns
