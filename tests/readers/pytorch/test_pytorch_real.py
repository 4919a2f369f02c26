"""Real traces have no losses, and their figures equal those from plain JSON."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfloom.domain.tables import get_column
from perfloom.readers import detect_format
from tests.support import paths
from tests.support.trace_json import Read, covered

ORACLES = paths.ORACLES / "pytorch"
RECORDED = paths.DATA / "pytorch"
END = ".pt.trace.json.gz"
FILES = sorted(path for folder in (ORACLES, RECORDED) if folder.is_dir() for path in folder.glob(f"*{END}"))


def raw_and_read(path: Path) -> tuple[list[dict[str, Any]], Read]:
    with gzip.open(path) as file:
        head = file.read(1 << 16)
        reader = detect_format(head)
        file.seek(0)
        profile = reader.read(file, path.name)  # type: ignore[arg-type]
        file.seek(0)
        raw = json.load(file)["traceEvents"]
    assert reader.name == "pytorch"
    return raw, Read(profile)


@pytest.mark.heavy
@pytest.mark.parametrize("path", FILES, ids=[path.name.removesuffix(END) for path in FILES])
def test_real_traces_have_no_losses(path: Path) -> None:
    raw, got = raw_and_read(path)
    profile = got.profile
    complete = [event for event in raw if event["ph"] == "X"]
    assert got.losses == {}
    found = Counter((one.name, one.category, one.duration) for one in got.slices)
    assert found == Counter((event["name"], event["cat"], round(event["dur"] * 1000)) for event in complete)
    memory = [event for event in raw if event["name"] == "[memory]"]
    blocks = profile.allocations.to_pylist()
    assert sum(event["args"]["Bytes"] > 0 for event in memory) == sum(row["start_ns"] is not None for row in blocks)
    assert sum(event["args"]["Bytes"] < 0 for event in memory) == sum(row["end_ns"] is not None for row in blocks)
    instants = sum(event["ph"] == "i" for event in raw) - len(memory)
    assert profile.instants.num_rows == instants
    assert profile.flows.num_rows == sum(event["ph"] == "f" and event["cat"] == "fwdbwd" for event in raw)
    kernels = [
        event
        for event in complete
        if event["cat"].lower() in ("kernel", "memcpy", "memset", "gpu_memcpy", "gpu_memset")
    ]
    work = got.work()
    assert len(work) == len(kernels)
    assert all(row["launch"] is not None for row in work)
    assert (
        sum(row["bytes"] or 0 for row in work) == sum(event["args"].get("bytes", 0) for event in kernels)
        or "amd" in path.name
    )
    for thread, row in enumerate(got.threads):
        if row["kind"] == "thread":
            mine = get_column(profile.slices, "thread") == thread
            assert get_column(profile.slices, "self_ns")[mine].sum() == covered(profile, thread)
    numbers = sum(len(one.numbers) + len(one.arguments) for one in got.slices)
    assert numbers == sum(len(event.get("args", {})) for event in complete)


@pytest.mark.parametrize("name", ["memory", "workers", "whole"])
def test_host_times_equal_those_of_pytorch(name: str) -> None:
    """Without Python functions, with which PyTorch's own self time is negative if a call returns late."""
    _, got = raw_and_read(RECORDED / f"{name}{END}")
    profile = got.profile
    function, names = get_column(profile.slices, "function"), got.names
    own, total = (
        np.bincount(function, get_column(profile.slices, what), len(names)) / 1000
        for what in ("self_ns", "duration_ns")
    )
    told = json.loads((RECORDED / f"{name}.expected.json").read_text(encoding="utf-8"))["by_name"]
    compared = [row for row in told if row["name"] in names]
    assert len(compared) > 10
    for row in compared:
        at = names.index(row["name"])
        assert own[at] == pytest.approx(row["self_cpu_time_total_us"], abs=1e-6)
        assert total[at] == pytest.approx(row["cpu_time_total_us"], abs=1e-6)
