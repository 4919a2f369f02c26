"""Operators and kernels of real traces, compared with the output of torch-tb-profiler and of PyTorch itself.

Where that tool is wrong (docs/metrics.md has each case), the test has both numbers.
"""

from __future__ import annotations

import functools
import gzip
import json
from collections import defaultdict
from typing import Any

import pytest

from perfloom.analysis.core.schema import records
from perfloom.analysis.ml.kernels import compute_kernels
from perfloom.analysis.ml.operators import compute_operators
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import get_column, get_strings
from perfloom.readers import pytorch
from tests.support import paths
from tests.support.real_traces import NAMES, expected, here, trace

ALL = Selection()
ROUNDED = 0.51
OF_PYTORCH = paths.DATA / "pytorch"
# Traces whose External id is the correlation's number: the tool joins no runtime call to an operator.
WITHOUT_IDS = ("ddp_rank0", "ddp_rank1")
# host_self: (the tool's, ours).
HOST_SELF = {
    "nccl_a100": {
        # Runtime calls in the annotation nccl:all_reduce are taken off twice: with it, and by their ids.
        "record_param_comms": (1796, 2215.162),
        # A call of cudaStreamGetPriority inside, whose id is the correlation's number, is not taken off.
        "aten::cudnn_batch_norm_backward": (25104, 22710.614),
    },
}
# Its times are floats of a quarter µs: where slices then seem to overlap, the tool drops them. (the tool's, ours)
CALLS = {
    "ns_resolution_v100": {
        "aten::mul": (814, 815),
        "aten::slice": (767, 795),
        "aten::result_type": (2414, 2415),
        "detach": (780, 805),
        "aten::detach": (796, 805),
    },
}
# Its list of names does not know these (share of device_self in percent: the tool's, ours).
TENSOR_CORES: dict[str, dict[str, tuple[float, float]]] = {
    "nccl_a100": {"aten::convolution_backward": (47.01, 68.36), "aten::cudnn_convolution": (47.24, 68.11)},
    "amd_mi250": {"aten::addmm": (0, 71.9), "aten::mm": (0, 100)},
}
UNKNOWN_KERNELS = ("_tensor16x8x8_", "MmaTensorOp", "_MI16x16x1_")


@functools.cache
def ours(name: str) -> dict[str, dict[str, Any]]:
    rows = records(compute_operators(trace(name), ALL))
    return {row["name"]: row for row in rows if row["kind"] == "operator"}


@here
@pytest.mark.parametrize("name", NAMES)
def test_operators_are_those_of_torch_tb_profiler(name: str) -> None:
    theirs = {row["name"]: row for row in expected(name)["operators"]}
    assert theirs.keys() == ours(name).keys()
    quarter = 0.25 if name == "ns_resolution_v100" else 0.0
    missed = _missed(trace(name)) if name in WITHOUT_IDS else {}
    for key, row in theirs.items():
        mine = ours(name)[key]
        if key in CALLS.get(name, {}):
            assert (row["calls"], mine["calls"]) == CALLS[name][key]
            continue
        assert row["calls"] == mine["calls"], key
        exact = ROUNDED + quarter * row["calls"]
        assert abs(row["host_total_duration"] - mine["host_total_us"]) <= exact, key
        if key in HOST_SELF.get(name, {}):
            assert (row["host_self_duration"], mine["host_self_us"]) == pytest.approx(HOST_SELF[name][key], abs=0.001)
        elif not quarter:
            their_self = row["host_self_duration"] - missed.get(key, 0)
            assert abs(their_self - mine["host_self_us"]) <= ROUNDED, key
        for part in ("self", "total"):
            told, here_ = row[f"device_{part}_duration"], mine[f"device_{part}_us"]
            # Rounded to a quarter µs as often as there was device work.
            assert told == 0 if name in WITHOUT_IDS else abs(told - here_) <= ROUNDED + quarter * mine["kernels"], key


@here
@pytest.mark.parametrize("name", NAMES)
def test_tensor_cores_of_operators(name: str) -> None:
    for row in expected(name)["operators"]:
        mine = ours(name)[row["name"]]
        told = (row["tc_self_ratio"], mine["tensor_core_self_percent"])
        if name in TENSOR_CORES and told[1] > told[0] + 0.01:
            assert told == pytest.approx(TENSOR_CORES[name][row["name"]], abs=0.01)
        elif name not in WITHOUT_IDS:
            assert told[0] == pytest.approx(told[1], abs=0.006), row["name"]
        # The tool takes the flag of the first call and knows no convolution_backward; we have it where any call could.
        assert mine["tensor_core_eligible"] or row["tc_eligible"] == "No", row["name"]
        if mine["tensor_core_eligible"] and row["tc_eligible"] == "No":
            assert mine["tensor_core_total_percent"] > 0 or "onvolution" in row["name"], row["name"]


@here
def test_all_device_work_is_attributed_to_operators() -> None:
    for name in WITHOUT_IDS:
        profile = trace(name)
        duration, work = get_column(profile.slices, "duration_ns"), profile.device_work
        joined = get_column(work, "operator") >= 0
        whole = duration[get_column(work, "slice")[joined]].sum() / 1000
        assert sum(row["device_self_us"] for row in ours(name).values()) == pytest.approx(whole)


@here
@pytest.mark.parametrize("name", NAMES)
def test_kernels_are_those_of_torch_tb_profiler(name: str) -> None:
    mine = {row["name"]: row for row in records(compute_kernels(trace(name), ALL))}
    theirs = expected(name)["kernels"]
    assert mine.keys() == {row["Name"] for row in theirs}
    for row in theirs:
        found = mine[row["Name"]]
        assert row["Calls"] == found["calls"]
        for word in ("Total", "Mean", "Max", "Min"):
            assert abs(row[f"{word} Duration (us)"] - found[f"{word.lower()}_us"]) <= ROUNDED, row["Name"]
        for word, ours_ in (
            ("Mean Blocks Per SM", "blocks_per_sm"),
            ("Mean Est. Achieved Occupancy (%)", "occupancy_percent"),
        ):
            assert (word in row) == (found[ours_] is not None)
            assert word not in row or row[word] == pytest.approx(found[ours_], abs=0.00501)
        if (row["Tensor Cores Used"] == "Yes") != found["tensor_core"]:
            assert found["tensor_core"] and any(word in row["Name"] for word in UNKNOWN_KERNELS), row["Name"]


@pytest.mark.parametrize("name", ["training", "memory", "workers", "whole", "spans_0"])
def test_operators_are_those_of_pytorch(name: str) -> None:
    with gzip.open(OF_PYTORCH / f"{name}.pt.trace.json.gz") as file:
        profile = pytorch.read(file, name)  # type: ignore[arg-type]
    told = json.loads((OF_PYTORCH / f"{name}.expected.json").read_text(encoding="utf-8"))
    rows = {row["name"]: row for row in records(compute_operators(profile, ALL))}
    seen = 0
    for row in told["by_name"]:
        mine = rows.get(row["name"].replace("ProfilerStep*", "ProfilerStep"))
        if mine is None:
            # Calls of Python are rows there.
            assert told["options"].get("with_stack"), row["name"]
            continue
        seen += 1
        assert mine["calls"] == row["calls"]
        assert mine["host_total_us"] == pytest.approx(row["cpu_time_total_us"], abs=0.002)
        if mine["kind"] == "operator" or not told["options"].get("with_stack"):
            # With stacks an annotation's self time is there without the calls of Python in it.
            assert mine["host_self_us"] == pytest.approx(row["self_cpu_time_total_us"], abs=0.002), row["name"]
    assert seen == len(rows)
    if told["by_shape"] and not told["options"].get("with_stack"):
        theirs: dict[tuple[str, str], int] = defaultdict(int)
        for row in told["by_shape"]:
            theirs[row["name"].replace("ProfilerStep*", "ProfilerStep"), row["input_shapes"].replace(" ", "")] += row[
                "calls"
            ]
        shaped = {
            (row["name"], _plain(row["input_shapes"])): row["calls"]
            for row in records(compute_operators(profile, ALL, "shapes"))
        }
        # Of lists of tensors PyTorch's own table has no shapes.
        listed = {name for name, shapes in shaped if "[[[" in shapes}
        assert {key: calls for key, calls in shaped.items() if key[0] not in listed} == {
            key: calls for key, calls in theirs.items() if key[0] not in listed
        }


def _plain(shapes: str | None) -> str:
    return (shapes or "").replace(" ", "")


def _missed(profile: Profile) -> dict[str, float]:
    """µs by operator of what the tool takes for its own time: runtime calls inside, as their ids lead nowhere, and
    annotations, of which it knows but a few; without the operators inside of those."""
    slices = profile.slices
    kinds = [get_strings(profile.categories, "kind")[n] for n in get_column(slices, "category").tolist()]
    names = get_strings(profile.functions, "name")
    function, parent = get_column(slices, "function").tolist(), get_column(slices, "parent").tolist()
    known = {"nccl:broadcast", "nccl:reduce", "nccl:all_reduce", "nccl:all_gather", "nccl:reduce_scatter"}
    missed: dict[str, float] = defaultdict(float)
    for row, duration in enumerate(get_column(slices, "duration_ns").tolist()):
        above = parent[row]
        not_seen = kinds[row] == "runtime" or (kinds[row] == "annotation" and names[function[row]] not in known)
        if above >= 0 and kinds[above] == "operator" and not_seen:
            missed[names[function[above]]] += duration / 1000
        while above >= 0 and kinds[above] == "annotation" and names[function[above]] not in known:
            above = parent[above]
        if above != parent[row] and above >= 0 and kinds[above] == "operator" and not not_seen:
            missed[names[function[above]]] -= duration / 1000
    return missed
