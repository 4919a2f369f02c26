"""Traces of the PyTorch recorder: its metadata, and several spans of one process."""

from __future__ import annotations

import io
import json
from itertools import permutations
from typing import Any

import pytest

from perfloom.domain.profile import Profile
from perfloom.domain.validation import find_error
from perfloom.ingest.merge import merge
from perfloom.readers import pytorch
from tests.support.trace_json import call, event, kernel, read, slice_

BASE = 1_790_000_000_000_000_000
SAYS = {"step": "optimizer step", "counted": "SGD", "schedule": "1,1,3,2", "steps_over": 3, "rank": 4}


def step(number: int, start: float, duration: float) -> dict[str, Any]:
    return slice_(f"ProfilerStep#{number}", start, duration, cat="user_annotation")


def test_recorder_metadata_is_read() -> None:
    said = read(step(1, 0, 5), step(2, 5, 5), step(3, 10, 2), perfloom=SAYS | {"reason": "It was\nended."}).profile
    assert said.steps.column("name").to_pylist() == ["ProfilerStep#1", "ProfilerStep#2"]
    assert set(said.threads.column("rank").to_pylist()) == set(said.steps.column("rank").to_pylist()) == {4}
    assert (said.meta.complete, said.meta.reasons) == (False, ("It was ended.",))
    # Values that are equal for all ranks become a fact.
    assert json.loads(said.meta.facts["perfloom"]) == {word: SAYS[word] for word in ("step", "counted", "schedule")}
    told = read(step(1, 0, 5), perfloom=SAYS, distributedInfo={"rank": 7}).profile
    assert set(told.threads.column("rank").to_pylist()) == {7} and told.meta.complete


@pytest.mark.parametrize(
    "said",
    [None, [], "x", {"rank": -1, "steps_over": "3", "reason": 7, "step": {}}, {"rank": True, "steps_over": None}],
)
def test_foreign_metadata_is_ignored(said: Any) -> None:
    profile = read(step(1, 0, 5), slice_("ProfilerStep#" + "9" * 5000, 5, 5), perfloom=said).profile
    assert profile.threads.column("rank").to_pylist() == [None] and profile.meta.complete
    assert profile.steps.num_rows == 2


def span(start_us: float, number: int, *more: Any, pid: int = 1, **top: Any) -> Profile:
    """A span of a process that begins at `start_us`, with one step, a kernel and a counter."""
    events = [
        step(number, start_us, 50),
        slice_("aten::mm", start_us + 1, 20),
        call(start_us + 2, 1, 1),
        kernel(start_us + 10, 5, 1),
        event("C", "load", start_us + 3, args={"value": number}),
        *more,
    ]
    events = [one | {"pid": pid} if one["pid"] == 1 else one for one in events]
    devices = [{"id": 0, "name": "H"}]
    text = json.dumps({"baseTimeNanoseconds": BASE, "deviceProperties": devices, **top, "traceEvents": events})
    return pytorch.read(io.BytesIO(text.encode()))


def in_words(profile: Profile) -> list[tuple[Any, ...]]:
    """All slices: (thread, name, time, parent, numbers); of device work also its launch."""
    assert find_error(profile) is None
    names = profile.functions.column("name").to_pylist()
    slices, threads = profile.slices.to_pylist(), profile.threads.to_pylist()
    numbers = profile.slice_numbers.column("slice").to_pylist()
    work = {row["slice"]: row for row in profile.device_work.to_pylist()}
    found = []
    for row, one in enumerate(slices):
        thread = threads[one["thread"]]
        launch = slices[work[row]["launch"]]["start_ns"] if row in work else None
        around = names[slices[one["parent"]]["function"]] if one["parent"] >= 0 else None
        inside = [names[each["function"]] for each in slices[row + 1 : one["end"]]]
        place = (thread["rank"], thread["kind"], thread["tid"])
        found.append((place, names[one["function"]], one["start_ns"], around, inside, numbers.count(row), launch))
    return found


def test_spans_of_a_process_form_one_rank() -> None:
    """In any order; and one with an additional thread does not misplace slices."""
    extra = slice_("aten::add", 2_005, 3, tid=9)
    spans = [span(1_000, 1), span(2_000, 4, extra), span(3_000, 7, perfloom={"reason": "It ended."})]
    merged = merge(spans)
    words = in_words(merged)
    assert [word[2] for word in words if word[1] == "aten::mm"] == [1_000, 1_001_000, 2_001_000]
    assert [word[6] for word in words if word[1] == "gemm"] == [2_000, 1_002_000, 2_002_000]
    assert [word[4] for word in words if word[1].startswith("Prof")] == [["aten::mm", "cudaLaunchKernel"]] * 3
    # There are no ranks.
    assert {word[0] for word in words} == {(None, "thread", 1), (None, "thread", 9), (None, "gpu_stream", 7)}
    assert not any(
        rank for name in ("steps", "devices", "series") for rank in merged.tables()[name]["rank"].to_pylist()
    )
    assert merged.threads.num_rows == 3 and merged.runs.num_rows == 1 and merged.meta.duration_ns == 2_050_000
    assert merged.steps.column("name").to_pylist() == ["ProfilerStep#1", "ProfilerStep#4", "ProfilerStep#7"]
    assert merged.meta.reasons == ("It ended.",)
    assert merged.devices.num_rows == merged.series.num_rows == 1
    assert merged.counters.column("value").to_pylist() == [1, 4, 7]
    for order in permutations(spans):
        other = merge(order)
        assert sorted(map(str, in_words(other))) == sorted(map(str, words))
        assert other.steps.column("start_ns").equals(merged.steps.column("start_ns"))
        assert other.counters.equals(merged.counters) and other.runs.equals(merged.runs)


def test_spans_are_in_order_after_clock_reset() -> None:
    first, second = span(1_000, 1), span(1_045, 2)
    words = in_words(merge([second, first]))
    assert [word[2] for word in words if word[1].startswith("Prof")] == [0, 50_000]
    assert [word[2] for word in words if word[1] == "aten::mm"] == [1_000, 51_000]


def test_spans_and_ranks_together() -> None:
    """Ranks of one host, spans of each, and a file without a time: the times of the others are kept."""
    ranks = [{"host_name": "a", "distributedInfo": {"rank": rank}} for rank in (0, 1)]
    files = [span(at, 1, pid=10 + n, **top) for at in (1_000, 2_000) for n, top in enumerate(ranks)]
    merged = merge(files)
    assert [word[0] for word in in_words(merged) if word[1] == "aten::mm"] == [
        (rank, "thread", 1) for rank in (0, 0, 1, 1)
    ]
    assert merged.steps.column("rank").to_pylist() == [0, 0, 1, 1] and merged.devices.num_rows == 2
    timeless = span(0, 1, pid=12, baseTimeNanoseconds=0)
    words = [word for word in in_words(merge([*files, timeless])) if word[1] == "aten::mm"]
    assert [(word[0][0], word[2]) for word in words] == [(0, 1e3), (0, 1_001e3), (1, 1e3), (1, 1_001e3), (2, 1e3)]


def test_overlapping_recordings_are_two_processes() -> None:
    """Containers may have processes with equal numbers and no host names."""
    merged = merge([span(1_000, 1, slice_("long", 1_000, 5_000)), span(2_000, 1)])
    assert merged.steps.column("rank").to_pylist() == [0, 1] and merged.threads.num_rows == 4
    elsewhere = merge([span(1_000, 1, host_name="a"), span(2_000, 1, host_name="b")])
    assert elsewhere.steps.column("rank").to_pylist() == [0, 1]
