"""Slices of traces: nesting, self time, call stacks, samples, lanes, and invalid times."""

from __future__ import annotations

import io
import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.tables import FrameKind, get_column
from perfloom.ingest.trace import nesting
from perfloom.ingest.trace import slices as trace_slices
from perfloom.readers import pytorch
from tests.support.trace_json import Read, call, covered, event, kernel, read, slice_


def test_nested_slices_have_self_time() -> None:
    got = read(
        slice_("inner", 120, 30.5),
        slice_("outer", 100, 100, args={"External id": 5, "Input Dims": [[2, 3]]}),
        slice_("last", 150.5, 49.5),
        slice_("next", 200, 10),
    )
    assert got.of("name", "start", "duration", "self", "depth", "parent", "stack") == [
        ("outer", 0, 100_000, 20_000, 0, None, "outer"),
        ("inner", 20_000, 30_500, 30_500, 1, "outer", "outer;inner"),
        ("last", 50_500, 49_500, 49_500, 1, "outer", "outer;last"),
        ("next", 100_000, 10_000, 10_000, 0, None, "next"),
    ]
    assert got.profile.slices.column("end").to_pylist() == [3, 2, 3, 4]
    assert got.samples() == [
        (0, 20_000, "outer"),
        (20_000, 30_500, "outer;inner"),
        (50_500, 49_500, "outer;last"),
        (100_000, 10_000, "next"),
    ]
    assert (got.one("outer").numbers, got.one("outer").arguments) == ({"External id": 5}, {"Input Dims": [[2, 3]]})
    assert got.profile.argument_sets.column("shapes").to_pylist() == ["[[2, 3]]"]
    assert (got.profile.meta.duration_ns, got.profile.meta.main_event) == (110_000, "host time")
    assert got.losses == {}


def test_kind_orders_slices_with_the_same_interval() -> None:
    got = read(
        call(10, 5, 1),
        slice_("op", 10, 5),
        slice_("mark", 10, 5, cat="user_annotation"),
        slice_("file.py(3): run", 10, 5, cat="python_function"),
        slice_("twin", 20, 0),
        call(20, 0, 2, name="cudaMalloc"),
    )
    assert [one.stack for one in got.slices] == [
        "mark",
        "mark;file.py(3): run",
        "mark;file.py(3): run;op",
        "mark;file.py(3): run;op;cudaLaunchKernel",
        "twin",
        "twin;cudaMalloc",
    ]
    assert got.samples() == [(0, 5000, "mark;file.py(3): run;op;cudaLaunchKernel")]


def test_slices_that_overlap_their_parent() -> None:
    inside = read(slice_("forward", 0, 100, cat="user_annotation"), slice_("exit", 80, 24, cat="python_function"))
    assert [(one.stack, one.self) for one in inside.slices] == [("forward", 80_000), ("forward;exit", 24_000)]
    # Because of rounding to µs, it ends after its parent.
    rounded = read(slice_("a", 0, 10), slice_("b", 7, 4))
    assert rounded.one("b").parent == "a"
    beside = read(slice_("enter", 0, 50), slice_("step", 20, 100), slice_("in", 60, 10))
    assert [(one.stack, one.self) for one in beside.slices] == [
        *[("enter", 20_000), ("step", 90_000), ("step;in", 10_000)],
    ]
    assert beside.samples() == [
        *[(0, 20_000, "enter"), (20_000, 40_000, "step"), (60_000, 10_000, "step;in"), (70_000, 50_000, "step")]
    ]


SPANS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 40), st.sampled_from(["a", "b", "c"]), st.integers(1, 2)), max_size=25
)


@settings(max_examples=60, deadline=None)
@given(SPANS, st.booleans())
def test_samples_cover_slices_exactly_once(spans: list[tuple[int, int, str, int]], coarse: bool) -> None:
    scale = 1 if coarse else 0.25
    got = read(
        *(slice_(name, start * scale, length * scale, tid=tid) for start, length, name, tid in spans),
        event("i", "x", 0),
    )
    profile = got.profile
    assert profile.slices.num_rows == len(spans)
    own, duration = get_column(profile.slices, "self_ns"), get_column(profile.slices, "duration_ns")
    assert (own <= duration).all()
    for thread in range(profile.threads.num_rows):
        mine = get_column(profile.samples, "thread") == thread
        time_ns, weight = get_column(profile.samples, "time_ns")[mine], get_column(profile.samples, "weight")[mine]
        assert (time_ns[1:] >= time_ns[:-1] + weight[:-1]).all()
        total = own[get_column(profile.slices, "thread") == thread].sum()
        assert weight.sum() == total == covered(profile, thread)
    depth, parent = get_column(profile.slices, "depth"), get_column(profile.slices, "parent")
    assert (depth == np.where(parent >= 0, depth[parent] + 1, 0)).all()


@pytest.mark.heavy
@settings(max_examples=60, deadline=None)
@given(SPANS)
def test_slices_of_a_lane_do_not_overlap(spans: list[tuple[int, int, str, int]]) -> None:
    kinds = {"a": "kernel", "b": "gpu_user_annotation", "c": "cuda_sync"}
    got = read(
        *(kernel(start, length, name=name, cat=kinds[name], stream=stream) for start, length, name, stream in spans),
        event("i", "x", 0),
    )
    lanes: dict[tuple[str, int], list[tuple[int, int, str]]] = {}
    for one in got.slices:
        lanes.setdefault((one.thread, one.depth), []).append((one.start, one.start + one.duration, one.name))
    for found in lanes.values():
        assert len({name for _, _, name in found}) == 1
        assert all(later[0] >= earlier[1] for earlier, later in pairwise(found))
    for one in got.slices:
        if one.parent is not None:
            around = got.slices[got.profile.slices.column("parent")[one.row].as_py()]
            assert around.name == "b" and around.start <= one.start
            assert one.start + one.duration <= around.start + around.duration and 0 <= around.self <= around.duration


def test_begin_and_end_events_are_paired() -> None:
    got = read(
        event("E", "", 1),
        event("B", "outer", 5, cat="cpu_op"),
        event("B", "inner", 6, cat="cpu_op", args={"a": 1}),
        event("E", "", 8, args={"b": 2}),
        event("B", "never", 10, cat="cpu_op"),
        slice_("leaf", 11, 2),
        slice_("around", 4, 20, tid=2),
        event("B", "bounded", 9, tid=2),
        event("E", "", 1e30),
        event("B", "with", 30, cat="cpu_op"),
        event("E", "with", 31, args={"late": True, "correlation": 4}),
    )
    assert [(one.name, one.start, one.duration, one.depth) for one in got.slices if one.thread == "thread 1"] == [
        ("outer", 1_000, 26_000, 0),
        ("inner", 2_000, 2_000, 1),
        ("never", 6_000, 21_000, 1),
        ("leaf", 7_000, 2_000, 2),
        ("with", 26_000, 1_000, 2),
    ]
    assert (got.one("with").arguments, got.one("with").numbers) == ({"late": True}, {"correlation": 4})
    assert got.one("bounded").duration == 15_000
    assert got.losses[trace_slices.UNMATCHED_END] == 1
    assert got.losses[trace_slices.NEVER_ENDED] == 3
    assert got.losses[trace_slices.TWO_ARGUMENTS] == 1


def test_asynchronous_slices_have_lanes() -> None:
    got = read(
        event("b", "load", 0, cat="io", id=1),
        event("b", "load", 2, cat="io", id=2),
        event("e", "load", 5, cat="io", id=1),
        event("n", "half", 6, cat="io", id=2),
        event("e", "load", 9, cat="io", id=2),
        event("e", "load", 9, cat="io", id=3),
        slice_("op", 0, 10),
    )
    assert [(one.start, one.duration, one.depth, one.thread) for one in got.slices if one.name == "load"] == [
        *[(0, 5_000, 0, "io"), (2_000, 7_000, 1, "io")]
    ]
    assert [row["kind"] for row in got.threads] == ["thread", "track"]
    assert got.samples() == [(0, 10_000, "op")]
    assert got.losses == {trace_slices.UNMATCHED_END: 1}
    assert [got.names[row["function"]] for row in got.profile.instants.to_pylist()] == ["half"]


def test_invalid_times_are_losses() -> None:
    got = read(
        slice_("good", 1_700_000_000_000_000, 5),
        slice_("text", "1700000000000001.5", "2"),
        slice_("backwards", 1_700_000_000_000_003, -3),
        {key: value for key, value in slice_("endless", 1_700_000_000_000_004, 0).items() if key != "dur"},
        slice_("no clock", 0, 5),
        slice_("eternal", 1_700_000_000_000_000, 1e14),
        {"ph": "X", "name": "no time", "pid": 1, "tid": 1, "dur": 3},
        {"ph": "Q", "name": "odd", "pid": 1, "tid": 1, "ts": 3},
        {"name": "what", "pid": 1, "tid": 1, "ts": 3},
        slice_("good", 1_700_000_000_000_010, 5),
        slice_("good", 1_700_000_000_000_020, 5),
    )
    assert got.of("name", "start", "duration")[:4] == [
        *[("good", 0, 5000), ("text", 1500, 2000), ("backwards", 3000, 0), ("endless", 4000, 0)]
    ]
    assert got.losses[trace_slices.IMPOSSIBLE_TIME] == 2
    assert got.losses[trace_slices.NEGATIVE] == got.losses[trace_slices.NO_DURATION] == 1
    assert got.losses[trace_slices.NO_TIME] == 1
    assert (
        sum(count for reason, count in got.losses.items() if "event of phase" in reason or "without a phase" in reason)
        == 2
    )
    assert got.profile.meta.start_epoch_ns == 1_700_000_000_000_000_000


def test_empty_trace_message_has_advice() -> None:
    with pytest.raises(UnreadableInput, match="traceEvents is empty"):
        read()
    only = read({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}})
    assert (only.slices, only.profile.meta.duration_ns, only.profile.meta.main_event) == ([], 0, None)


def test_threads_are_identified_by_pid_tid_and_content() -> None:
    far = 2**40
    got = read(
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "first"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "thread 1 (python)"}},
        {"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": 1, "args": {"sort_index": 1}},
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        *({"ph": "M", "name": "thread_name", "pid": 9, "tid": i, "args": {"name": f"t{i}"}} for i in range(50)),
        slice_("a", 0, 1, tid=-7),
        slice_("b", 0, 1, tid=far),
        slice_("c", 0, 1, tid="worker"),
        slice_("d", 0, 1),
        slice_("e", 0, 1, tid="1"),
        slice_("f", 0, 1, pid=-1, tid=0, cat="overhead"),
        kernel(0, 1, pid=1, stream=1),
        event("i", "alone", 0, tid=12),
        event("i", "nowhere", 0, pid="Traces"),
        distributedInfo={"rank": 3, "world_size": 8},
    )
    told = [(row["pid"], row["tid"], row["name"], row["kind"], row["process"], row["rank"]) for row in got.threads]
    assert told == [
        (1, 1, "python", "thread", "python", 3),
        (1, -7, "thread -7", "thread", "python", 3),
        (1, far, f"thread {far}", "thread", "python", 3),
        (1, None, "worker", "thread", "python", 3),
        (1, 12, "thread 12", "thread", "python", 3),
        (1, 1, "stream 1", "gpu_stream", "python", 3),
        (-1, 0, "thread 0", "track", "thread 0", 3),
    ]
    assert [one.name for one in got.slices if one.thread == "python"] == ["d", "e"]
    assert got.profile.instants.column("thread").to_pylist() == [4, -1]


def test_slice_names_are_classified() -> None:
    built_in = "<built-in method linear of type object at 0x7f1>"
    got = read(
        slice_("ProfilerStep#2", 0, 10),
        slice_("ProfilerStep#3", 20, 10, cat="user_annotation"),
        slice_("a/b.py(12): forward", 1, 5, cat="python_function"),
        slice_("nn.Module: Linear_0", 2, 3, cat="python_function"),
        slice_(built_in, 3, 1, cat="python_function"),
        slice_("hipLaunchKernel", 7, 1, cat="hip_runtime"),
    )
    assert [(one.name, one.kind) for one in got.slices] == [
        ("ProfilerStep#2", "annotation"),
        ("a/b.py(12): forward", "python"),
        ("nn.Module: Linear_0", "module"),
        (built_in, "python"),
        ("hipLaunchKernel", "runtime"),
        ("ProfilerStep#3", "annotation"),
    ]
    inner = "<built-in method linear of type object>"
    assert got.one(built_in).stack == f"ProfilerStep;a/b.py(12): forward;nn.Module: Linear_0;{inner}"
    functions = {row["name"]: row for row in got.profile.functions.to_pylist()}
    forward = functions["a/b.py(12): forward"]
    assert (forward["display"], forward["file"], forward["start_line"]) == ("forward", "a/b.py", 12)
    assert functions[inner]["display"] == "linear"
    kinds = {FrameKind(row["kind"]).name for row in got.profile.frames.to_pylist()}
    assert kinds == {"ANNOTATION", "PYTHON", "RUNTIME"}
    steps = [(row["name"], row["start_ns"], row["end_ns"], row["thread"]) for row in got.profile.steps.to_pylist()]
    assert steps == [("ProfilerStep#2", 0, 10_000, 0), ("ProfilerStep#3", 20_000, 30_000, 0)]


def test_injected_recorder_functions_are_equal_in_all_jobs() -> None:
    first, second = (
        read(slice_(f"/data/jobs/{job}/sitecustomize.py(7): outer", 0, 5, cat="python_function")) for job in "ab"
    )
    assert first.slices[0].stack == second.slices[0].stack == "sitecustomize.py(7): outer"
    displays = [row["display"] for row in first.profile.functions.to_pylist() if row["module"] == "sitecustomize.py"]
    assert displays == ["outer", "outer"]


@pytest.mark.heavy
def test_deeply_nested_slices_have_the_enclosing_stack() -> None:
    depth = nesting.MAX_DEPTH + 20
    got = Read(
        pytorch.read(io.BytesIO(json.dumps([slice_(f"f{i % 3}", i, 2 * (depth - i)) for i in range(depth)]).encode()))
    )
    assert max(one.depth for one in got.slices) == depth - 1
    assert len(got.stacks[-1]) == nesting.MAX_DEPTH
    assert got.losses == {trace_slices.TOO_DEEP: 20}
