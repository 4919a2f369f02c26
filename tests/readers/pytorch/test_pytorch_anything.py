"""Random events yield a valid profile, and each event is in it or among the losses."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfloom.domain.tables import get_column
from perfloom.domain.validation import find_error
from perfloom.ingest.trace.phases import ALL
from perfloom.readers import pytorch
from tests.support import paths

DATA = paths.DATA / "pytorch"
ARGUMENTS: list[Any] = [
    {"correlation": 1, "External id": 1},
    {"correlation": 1, "device": 0, "stream": 7, "grid": [1, 2], "block": "x", "External id": 2},
    {"correlation": -1, "device": -3, "stream": "s", "bytes": 2**70, "blocks per SM": "many"},
    {"Bytes": 64, "Addr": 1, "Device Type": 0, "Device Id": -1},
    {"Bytes": -64, "Addr": 1, "Device Type": 1, "Device Id": 0, "Total Allocated": 5},
    {"Bytes": 0},
    {"name": "thread", "sort_index": "x"},
    {"sort_index": 2, "name": 3},
    {"Sequence number": 1, "Input Dims": [[2, "a", None]], "Call stack": "a;b"},
    {"value": 1.5, "other": -2, "text": "x"},
    "none",
    [],
]
EVENTS = st.fixed_dictionaries(
    {
        "ph": st.sampled_from("XXXXXXBEbeniCMstfSFTpQ"),
        "name": st.sampled_from(["a", "b", "ProfilerStep#1", "[memory]", "thread_name", "x.py(3): f", "nccl"]),
        "cat": st.sampled_from(
            ["cpu_op", "kernel", "gpu_memcpy", "cuda_runtime", "gpu_user_annotation", "ac2g", "fwdbwd", "Trace"]
        ),
        "pid": st.sampled_from([0, 1, -1, "Spans", "x"]),
        "tid": st.sampled_from([0, 1, 7, "stream 7", None, 2**40]),
        "ts": st.one_of(st.integers(0, 12), st.sampled_from([1.5, "3", 2e16, None, -5, 1e25, "x"])),
    },
    optional={
        "dur": st.one_of(st.integers(0, 8), st.sampled_from([-2, None, 1e17, "2.5"])),
        "id": st.sampled_from([1, 2, "0x1"]),
        "args": st.sampled_from(ARGUMENTS),
    },
)


@pytest.mark.heavy
@settings(max_examples=80, deadline=None)
@given(
    st.lists(EVENTS, min_size=1, max_size=14),
    st.sampled_from([{}, {"deviceProperties": [{"id": 0}], "distributedInfo": {"rank": 2}}]),
)
def test_random_events_become_a_valid_profile(events: list[dict[str, Any]], top: dict[str, Any]) -> None:
    text = json.dumps({**top, "schemaVersion": 1, "traceEvents": events})
    profile = pytorch.read(io.BytesIO(text.encode()))
    assert find_error(profile) is None
    lost = {row["reason"]: row["count"] for row in profile.losses.to_pylist()}
    slices = profile.slices.num_rows
    assert slices <= sum(event["ph"] in "XBbS" for event in events) <= slices + sum(lost.values())
    assert (get_column(profile.slices, "self_ns") <= get_column(profile.slices, "duration_ns")).all()
    odd = sum(event["ph"].encode() not in ALL for event in events)
    assert sum(count for reason, count in lost.items() if reason.startswith("event of phase")) == odd


SCRIPT = """
import gzip, sys
sys.modules["numba"] = None
from perfloom.readers import pytorch
with gzip.open(sys.argv[1]) as file:
    profile = pytorch.read(file)
print({name: table.to_pydict() for name, table in profile.tables().items()})
"""


@pytest.mark.heavy
def test_compiled_and_plain_agree() -> None:
    path = DATA / "memory.pt.trace.json.gz"
    run = [sys.executable, "-W", "error", "-c", SCRIPT, str(path)]
    plain = subprocess.run(run, capture_output=True, text=True, check=True)
    with gzip.open(path) as file:
        profile = pytorch.read(file)  # type: ignore[arg-type]
    assert plain.stdout.strip() == str({name: table.to_pydict() for name, table in profile.tables().items()})
