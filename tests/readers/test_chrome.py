"""Traces in Chrome's JSON that PyTorch's profiler did not write."""

import io
import json
from typing import Any

from perfloom.domain.tables import get_strings
from perfloom.domain.validation import find_error
from perfloom.ingest.trace.losses import NEVER_ENDED, UNMATCHED_END
from perfloom.readers import chrome, detect_format, pytorch
from tests.support.trace_json import kernel, slice_


def test_traces_of_any_writer() -> None:
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "renderer"}},
        {"ph": "X", "name": "ParseHTML", "cat": "blink", "pid": 9, "tid": 4, "ts": 10, "dur": 30, "cname": "good"},
        {"ph": "B", "name": "Layout", "cat": "blink", "pid": 9, "tid": 4, "ts": 20},
        {"ph": "E", "pid": 9, "tid": 4, "ts": 25},
        {"ph": "b", "name": "request", "cat": "net", "id": "0x1", "pid": 9, "tid": 4, "ts": 12},
        {"ph": "b", "name": "request", "cat": "net", "id": "0x2", "pid": 9, "tid": 4, "ts": 13},
        {"ph": "e", "name": "request", "cat": "net", "id": "0x1", "pid": 9, "tid": 4, "ts": 22},
        {"ph": "e", "name": "request", "cat": "net", "id": "0x2", "pid": 9, "tid": 4, "ts": 33},
        {"ph": "i", "name": "paint", "pid": 9, "tid": 4, "ts": 21, "s": "t"},
        {"ph": "C", "name": "heap", "pid": 9, "ts": 11, "args": {"used": 5, "free": 7}},
        {"ph": "s", "name": "task", "cat": "flow", "id": 3, "pid": 9, "tid": 4, "ts": 10},
        {"ph": "f", "name": "task", "cat": "flow", "id": 3, "pid": 9, "tid": 4, "ts": 20, "bp": "e"},
    ]
    for data in (json.dumps(events).encode(), json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}).encode()):
        assert detect_format(data).name == chrome.FORMAT
        found = chrome.read(io.BytesIO(data))
        assert find_error(found) is None and not found.losses.num_rows
        names = get_strings(found.functions, "name")
        rows = found.slices.to_pylist()
        assert sorted((names[row["function"]], row["start_ns"], row["duration_ns"]) for row in rows) == [
            ("Layout", 10_000, 5_000),
            ("ParseHTML", 0, 30_000),
            ("request", 2_000, 10_000),
            ("request", 3_000, 20_000),
        ]
        assert sorted(get_strings(found.series, "name")) == ["heap: free", "heap: used"]
        assert (found.instants.num_rows, found.flows.num_rows, found.device_work.num_rows) == (1, 1, 0)
        assert found.samples.column("weight").to_pylist() == [10_000, 5_000, 15_000], (
            "what is asynchronous is nobody's time"
        )


def test_pytorch_traces_have_their_own_reader() -> None:
    data = json.dumps({"schemaVersion": 1, "traceEvents": [slice_("aten::mm", 1, 2), kernel(2, 3)]}).encode()
    assert detect_format(data).name == pytorch.FORMAT


def durations(events: list[dict[str, Any]]) -> tuple[list[tuple[str, int, int]], dict[str, int]]:
    """(name, start, length) of slices in us, and the losses of events with (ph, name, ts)."""
    found = chrome.read(io.BytesIO(json.dumps(events).encode()))
    assert find_error(found) is None
    names = get_strings(found.functions, "name")
    rows = [
        (names[row["function"]], row["start_ns"] // 1000, row["duration_ns"] // 1000)
        for row in found.slices.to_pylist()
    ]
    return sorted(rows, key=lambda row: (row[1], -row[2])), {
        row["reason"]: row["count"] for row in found.losses.to_pylist()
    }


def marks(*of: tuple[str, str, int]) -> list[dict[str, Any]]:
    return [{"ph": ph, "name": name, "pid": 1, "tid": 1, "ts": ts} for ph, name, ts in of]


def test_end_with_a_name_closes_that_slice() -> None:
    """As in trace_processor: inner slices end with it, and an end without a begin is ignored."""
    nested = marks(("B", "a", 0), ("B", "b", 10), ("B", "c", 20), ("E", "b", 30), ("E", "a", 50))
    assert durations(nested) == ([("a", 0, 50), ("b", 10, 20), ("c", 20, 10)], {NEVER_ENDED: 1})
    other = marks(("B", "a", 0), ("E", "x", 10), ("B", "b", 20), ("E", "b", 30), ("E", "a", 50))
    assert durations(other) == ([("a", 0, 50), ("b", 20, 10)], {UNMATCHED_END: 1})
    # An end after the end of its parent is ignored.
    late = marks(("B", "a", 0), ("B", "b", 10), ("E", "a", 20), ("E", "b", 30), ("B", "b", 40), ("E", "b", 45))
    assert durations(late) == ([("a", 0, 20), ("b", 10, 10), ("b", 40, 5)], {NEVER_ENDED: 1, UNMATCHED_END: 1})


def test_end_closes_the_slice_of_its_category() -> None:
    """As in trace_processor, if both have one."""
    events = marks(("B", "a", 0), ("B", "a", 10), ("E", "a", 20), ("E", "a", 30), ("B", "b", 40), ("E", "b", 50))
    categories = ("net", "disk", "net", "disk", "net", "disk")
    of_two = [event | {"cat": category} for event, category in zip(events, categories, strict=True)]
    assert durations(of_two) == ([("a", 0, 20), ("a", 10, 10), ("b", 40, 0)], {NEVER_ENDED: 2, UNMATCHED_END: 2})
    for without in ("B", "E"):
        some = [event if event["ph"] == without else marked for event, marked in zip(events, of_two, strict=True)]
        assert durations(some) == ([("a", 0, 30), ("a", 10, 10), ("b", 40, 10)], {})


def test_asynchronous_slices_are_matched_by_id2() -> None:
    """A local id applies to its process, a global one to all."""
    events = [
        {"ph": ph, "cat": "c", "name": f"{scope} {pid}" if scope == "local" else scope, "pid": pid, "tid": 1, "ts": ts, "id2": {scope: "0x1"}}
        for ph, scope, pid, ts in [
            ("b", "local", 1, 0), ("b", "local", 2, 10), ("b", "global", 1, 15),
            ("e", "local", 1, 20), ("e", "global", 2, 30), ("e", "local", 2, 40),
        ]
    ]  # fmt: skip
    expected = [("local 1", 0, 20), ("local 2", 10, 30), ("global", 15, 15)]
    assert durations(events) == (expected, {})
    # Blanks, escapes and more members, which the compiled loops partly leave to the decoder, yield the same ids. Ids
    # that look like an object are texts.
    for written in (
        b'{ "global" : "0x1" }',
        b'{"global": "0x\\u0031"}',
        b'{"glob\\u0061l": "0x1"}',
        b'{"global": "0x1", "x": []}',
    ):
        other = json.dumps(events).encode().replace(b'{"global": "0x1"}', written, 1)
        found = chrome.read(io.BytesIO(other))
        assert sorted(found.slices.column("duration_ns").to_pylist()) == [15_000, 20_000, 30_000], written
        assert not found.losses.num_rows
    for event in events:
        event["id"] = json.dumps(event.pop("id2")) + event["name"]
    assert durations(events) == (expected, {})


def test_end_without_a_name_closes_the_last_slice() -> None:
    events = marks(("B", "a", 0), ("B", "b", 10), ("E", "", 20), ("E", "a", 30))
    assert durations(events) == ([("a", 0, 30), ("b", 10, 10)], {})
    for event in events:
        if event["ph"] == "E":
            del event["name"]
    assert durations(events) == ([("a", 0, 30), ("b", 10, 10)], {})
    # With a repeated name, the innermost.
    again = marks(("B", "f", 0), ("B", "f", 10), ("E", "f", 20), ("E", "f", 30))
    assert durations(again) == ([("f", 0, 30), ("f", 10, 10)], {})
