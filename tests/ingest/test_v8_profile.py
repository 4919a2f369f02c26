"""Sampled JavaScript: files of Node, profiles in Chrome's traces, and samples next to the events of a trace."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.analysis.stacks.hotspots import compute_hotspots
from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.validation import find_error
from perfloom.ingest.v8_profile import BAD_NODE, BAD_SAMPLE, EVENT, IDLE, NO_PROFILE, NO_START, OVERLAPPING_PROFILE
from perfloom.readers import chrome, cpuprofile, detect_format
from tests.support import paths
from tests.support.made import events_of, losses, slices
from tests.support.samples import samples_of

DATA = paths.DATA / "v8"
CALL = {"scriptId": "1", "columnNumber": 0}


def read(found: Any) -> Profile:
    data = found if isinstance(found, bytes) else json.dumps(found).encode()
    profile = detect_format(data).read(io.BytesIO(data), "x")
    assert find_error(profile) is None
    return profile


def node(id: int, name: str, *children: int, line: int = 9, **more: Any) -> dict[str, Any]:
    call = {"functionName": name, "url": "a.js", "lineNumber": line, **CALL}
    return {"id": id, "callFrame": call, "children": list(children)} | more


NODES = [node(1, "(root)", 2, 5, line=-1), node(2, "main", 3, 4), node(3, "f"), node(4, ""), node(5, "(idle)", line=-1)]
FILE = {
    "nodes": NODES,
    "startTime": 1000,
    "endTime": 1100,
    "samples": [2, 3, 3, 5, 4],
    "timeDeltas": [10, 20, 5, 5, 30],
}


def stacks(profile: Profile) -> list[tuple[int, str, int, str]]:
    return [
        (one.time_ns // 1000, one.event, one.weight // 1000, ";".join(frame.name for frame in one.stack))
        for one in samples_of(profile)
    ]


def test_sample_lasts_until_the_next() -> None:
    profile = read(FILE)
    assert profile.meta.format == cpuprofile.FORMAT and profile.meta.duration_ns == 90_000
    assert stacks(profile) == [
        (0, EVENT, 20, "main"),
        (20, EVENT, 5, "main;f"),
        (25, EVENT, 5, "main;f"),
        (30, IDLE, 30, "(idle)"),
        (60, EVENT, 30, "main;(anonymous)"),
    ]
    (frame,) = {one.stack[-1] for one in samples_of(profile) if one.stack[-1].name == "f"}
    assert frame.line == 10 and profile.functions.to_pylist()[0]["file"] == "a.js"
    assert not profile.losses.num_rows


def test_node_cpuprofile() -> None:
    raw = (DATA / "busy.cpuprofile").read_bytes()
    told = json.loads(raw)
    profile = read(raw)
    # The whole time from the first sample to the end.
    assert sum(events_of(profile).values()) == (told["endTime"] - told["startTime"] - told["timeDeltas"][0]) * 1000
    rows = {row["name"]: row for row in compute_hotspots(profile, Selection(event=EVENT)).to_dict("records")}
    assert rows["busy"]["total"] >= rows["fib"]["total"] > 0


def test_node_trace_has_samples_and_slices() -> None:
    profile = read(gzip.decompress((DATA / "trace.json.gz").read_bytes()))
    assert profile.meta.format == chrome.FORMAT
    assert {"host time", EVENT} <= set(events_of(profile))
    assert any(name == "CpuProfiler::StartProfiling" for _, name, *_ in slices(profile))
    assert [row["name"] for row in profile.threads.to_pylist()] == ["JavaScriptMainThread"]
    # Of the two profiles of one thread only one counts.
    assert list(losses(profile)) == [OVERLAPPING_PROFILE]
    assert any(frame.name == "fib" for one in samples_of(profile) for frame in one.stack)


def chunk(id: str, tid: int, data: dict[str, Any], name: str = "ProfileChunk") -> dict[str, Any]:
    category = "disabled-by-default-v8.cpu_profiler"
    return {"ph": "P", "name": name, "cat": category, "id": id, "pid": 7, "tid": tid, "ts": 1, "args": {"data": data}}


def test_profile_chunks_are_combined() -> None:
    events = [
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": {"name": "CrRendererMain"}},
        chunk("0x1", 8, {"startTime": 1000}, "Profile"),
        # From the sampling thread.
        chunk("0x1", 9, {"cpuProfile": {"nodes": [node(1, "(root)"), node(2, "main", parent=1)], "samples": [2]}, "timeDeltas": [10]}),
        chunk("0x1", 9, {"cpuProfile": {"nodes": [node(3, "f", parent=2)], "samples": [3, 2]}, "timeDeltas": [20, 5]}),
        chunk("0x1", 9, {"endTime": 1100}),
    ]  # fmt: skip
    profile = read({"traceEvents": events})
    assert stacks(profile) == [(0, EVENT, 20, "main"), (20, EVENT, 5, "main;f"), (25, EVENT, 65, "main")]
    assert [(row["pid"], row["tid"], row["name"]) for row in profile.threads.to_pylist()] == [(7, 8, "CrRendererMain")]
    assert not profile.losses.num_rows and profile.meta.duration_ns == 90_000


def parts_of(id: str, tid: int, start_us: int) -> list[dict[str, Any]]:
    """A profile of 3 samples and its end, 100 µs after its start, as V8 writes it."""
    nodes = [node(1, "(root)"), node(2, "main", parent=1)]
    first = {"cpuProfile": {"nodes": nodes, "samples": [2]}, "timeDeltas": [10]}
    then = {"cpuProfile": {"nodes": [node(3, "f", parent=2)], "samples": [3, 2]}, "timeDeltas": [20, 5]}
    parts = [
        chunk(id, tid, {"startTime": start_us}, "Profile") | {"ts": start_us},
        chunk(id, 9, first) | {"ts": start_us + 12},
        chunk(id, 9, then) | {"ts": start_us + 36},
        chunk(id, 9, {"endTime": start_us + 100}) | {"ts": start_us + 101},
    ]
    return parts


PARTS = [(0, EVENT, 20, "main"), (20, EVENT, 5, "main;f"), (25, EVENT, 65, "main")]


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (1, 2, 3, 0), (0, 2, 1, 3)])
def test_order_of_parts_does_not_matter(order: tuple[int, ...]) -> None:
    parts = parts_of("0x1", 8, 1_000_000)
    profile = read({"traceEvents": [parts[at] for at in order]})
    assert stacks(profile) == PARTS and not profile.losses.num_rows
    assert profile.threads.to_pylist()[0]["tid"] == 8


def test_profile_without_a_start_is_placed_by_the_time_of_its_parts() -> None:
    work = {"ph": "X", "name": "work", "pid": 7, "tid": 8, "ts": 1_000_000, "dur": 100}
    profile = read({"traceEvents": [work, *parts_of("0x1", 8, 1_000_000)[1:]]})
    # The first part was written 2 µs after its last sample.
    assert [one for one in stacks(profile) if one[1] == EVENT] == [
        (12, EVENT, 20, "main"),
        (32, EVENT, 5, "main;f"),
        (37, EVENT, 63, "main"),
    ]
    assert profile.meta.duration_ns == 100_000
    assert losses(profile)[NO_START] == (1, "no event Profile")
    assert not profile.meta.complete and "V8 profile without its start" in profile.meta.reasons[0]


def test_profiles_with_different_id2_are_separate() -> None:
    parts = [*parts_of("0x1", 8, 1_000_000), *parts_of("0x2", 10, 1_000_050)]
    scoped = [
        {word: value for word, value in part.items() if word != "id"} | {"id2": {"local": part["id"]}} for part in parts
    ]
    profile = read({"traceEvents": scoped})
    assert not profile.losses.num_rows
    assert events_of(profile) == {EVENT: 180_000} and profile.threads.column("tid").to_pylist() == [8, 10]


def test_file_without_a_start_begins_at_0() -> None:
    profile = read({word: value for word, value in FILE.items() if word != "startTime"})
    assert sum(events_of(profile).values()) == 60_000
    assert losses(profile)[NO_START] == (1, "no startTime") and not profile.meta.complete


def test_samples_next_to_the_events() -> None:
    trace = {
        "traceEvents": [{"ph": "X", "name": "work", "pid": 1, "tid": 2, "ts": 5, "dur": 20}],
        "stackFrames": {"1": {"name": "main", "category": "app"}, "2": {"name": "f", "parent": 1}},
        "samples": [
            {"cpu": 0, "tid": 2, "ts": 10.5, "name": "cycles:u", "sf": 2, "weight": 3},
            {"cpu": 0, "tid": 2, "ts": 12, "name": "cycles:u", "sf": "1", "weight": 4},
            {"cpu": 0, "tid": 2, "ts": 13, "name": "cycles:u", "sf": 77, "weight": 1},
            "nothing",
        ],
    }
    profile = read(trace)
    assert events_of(profile)["cycles:u"] == 7
    assert Counter(stack for _, event, _, stack in stacks(profile) if event == "cycles:u") == {"main;f": 1, "main": 1}
    assert losses(profile)[BAD_SAMPLE][0] == 2
    assert profile.threads.num_rows == 1 and "samples" not in profile.meta.facts
    assert events_of(read(trace | {"traceEvents": []}))["cycles:u"] == 7


def test_damaged_entries_are_counted() -> None:
    bent = FILE | {"nodes": [*NODES, {"id": 6}, 7], "samples": [2, 99, "x", 3], "timeDeltas": [10, 20, 5]}
    profile = read(bent)
    assert {reason: count for reason, (count, _) in losses(profile).items()} == {
        BAD_NODE: 2,
        BAD_SAMPLE: 2,
        NO_PROFILE: 1,
    }
    for raw in (json.dumps(FILE).encode()[:-20], json.dumps(FILE | {"samples": [], "timeDeltas": []}).encode()):
        with pytest.raises(UnreadableInput):
            cpuprofile.read(io.BytesIO(raw), "x")


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([node(2, "main", parent=2)], "node 2 refers to node 2"),
        ([node(2, "main", 2)], "node 2 is before its caller"),
        ([node(2, "main", 3), node(3, "f", 2)], "node 2 is before its caller"),
        ([node(2, "main", parent=3), node(3, "f", parent=2)], "node 2 refers to node 3"),
        ([node(2, "main", 4), node(3, "f", 4), node(4, "g")], "node 4 has two parents"),
        ([node(2, "main"), node(2, "f")], "'functionName': 'f'"),
    ],
)
def test_nodes_outside_the_tree_are_lost(nodes: Any, said: str) -> None:
    profile = read({"nodes": nodes, "startTime": 0, "endTime": 100, "samples": [2, 2], "timeDeltas": [10, 20]})
    count, example = losses(profile)[BAD_NODE]
    assert count == 1 and said in example
    assert not profile.meta.complete and any(said in reason for reason in profile.meta.reasons)
    assert events_of(profile) == {EVENT: 90_000}
    parts = {"cpuProfile": {"nodes": nodes, "samples": [2]}, "timeDeltas": [10], "endTime": 100}
    trace = read({"traceEvents": [chunk("0x1", 8, {"startTime": 0}, "Profile"), chunk("0x1", 9, parts)]})
    assert not trace.meta.complete and losses(trace)[BAD_NODE][0] == 1


@pytest.mark.parametrize(
    ("samples", "deltas", "weights_us"),
    [([2, 3, 2], [1], [0]), ([2, 3, 2], [10, 20], [20, 0]), ([2], [10, 20, 5], [20]), ([2, "x", 3], [10, 20, 5], [20, 65])],
)  # fmt: skip
def test_samples_and_times_must_match(samples: Any, deltas: Any, weights_us: Any) -> None:
    profile = read(FILE | {"startTime": 0, "endTime": 100, "samples": samples, "timeDeltas": deltas})
    assert [one[2] for one in stacks(profile)] == weights_us
    reason = NO_PROFILE if len(samples) != len(deltas) else BAD_SAMPLE
    assert [(each, count) for each, (count, _) in losses(profile).items()] == [(reason, 1)]
    assert not profile.meta.complete and reason[1:] in profile.meta.reasons[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "callFrame", "children", "parent", "tid", "ts", "sf", "name", "functionName"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(JSON, max_size=4), st.lists(JSON, max_size=4), st.lists(JSON, max_size=4), JSON)
def test_random_json_is_read_or_refused(nodes: Any, samples: Any, deltas: Any, end: Any) -> None:
    file = {"nodes": [*NODES, *nodes], "samples": samples, "timeDeltas": deltas, "startTime": end, "endTime": end}
    try:
        assert find_error(cpuprofile.read(io.BytesIO(json.dumps(file).encode()), "x")) is None
    except UnreadableInput:
        pass
