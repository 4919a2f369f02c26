"""Traces in Chrome's JSON that PyTorch's profiler did not write."""

import io
import json
from typing import Any

from perfloom.domain.tables import texts
from perfloom.domain.validity import fault
from perfloom.readers import chrome, pytorch, recognise
from tests.readers.trace_json import kernel, slice_


def test_whatever_wrote_it() -> None:
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
        assert recognise(data).name == chrome.FORMAT
        found = chrome.read(io.BytesIO(data))
        assert fault(found) is None and not found.losses.num_rows
        names = texts(found.functions, "name")
        rows = found.slices.to_pylist()
        assert sorted((names[row["function"]], row["start_ns"], row["duration_ns"]) for row in rows) == [
            ("Layout", 10_000, 5_000),
            ("ParseHTML", 0, 30_000),
            ("request", 2_000, 10_000),
            ("request", 3_000, 20_000),
        ]
        assert sorted(texts(found.series, "name")) == ["heap: free", "heap: used"]
        assert (found.instants.num_rows, found.flows.num_rows, found.device_work.num_rows) == (1, 1, 0)
        assert found.samples.column("weight").to_pylist() == [10_000, 5_000, 15_000], (
            "what is asynchronous is nobody's time"
        )


def test_pytorch_keeps_its_own() -> None:
    data = json.dumps({"schemaVersion": 1, "traceEvents": [slice_("aten::mm", 1, 2), kernel(2, 3)]}).encode()
    assert recognise(data).name == pytorch.FORMAT
