"""Communication of ranks: numbers worked out by hand, on traces small enough to."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from perfloom.analysis.core.schema import records
from perfloom.analysis.distributed.collective_calls import canonical_name
from perfloom.analysis.distributed.collectives import bus_factor
from perfloom.analysis.tables import TABLES
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import DeviceWorkKind
from tests.analysis.stepped import Trace

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
KNOWN = {
    "Collective name": "allreduce",
    "In msg nelems": 1000,
    "Out msg nelems": 1000,
    "dtype": "Float",
    "Group size": 2,
    "Process Group Name": "0",
    "Process Group Ranks": "[0, 1]",
}


def rows(profile: Profile, table: str, **selection: Any) -> list[dict[str, Any]]:
    return records(TABLES[table].rows(profile, Selection(**selection)))


def pair(known: dict[str, Any] | None = KNOWN, more: int = 0) -> Profile:
    """Two ranks and two steps of 100 µs. A kernel computes (20–50); the all-reduce ends at 60 on both, but begins at 30
    on the first and at 40 on the second, in the second step at 45 and 35. more: the first rank has more of them."""
    made = Trace()
    for rank, begins in ((0, (30, 45)), (1, (40, 35))):
        host, one, two = made.thread(rank), made.stream(7, rank), made.stream(40, rank)
        for number, begin in enumerate(begins):
            at = 100 * number
            made.step(host, number, at, 100, rank)
            call = made.slice(host, "cudaLaunchKernel", at + 10, 2, "runtime")
            made.work(one, "gemm", at + 20, 30, call)
            made.slice(host, "record_param_comms", at + 14, 10, arguments=known)
            made.slice(host, "nccl:all_reduce", at + 15, 8, "annotation", id=rank * 100 + number)
            call = made.slice(host, "cudaLaunchKernelExC", at + 16, 2, "runtime")
            made.work(two, NCCL, at + begin, 60 - begin, call, DeviceWorkKind.COMMUNICATION)
            for _ in range(more if rank == 0 else 0):
                made.work(two, NCCL, at + 70, 5, call, DeviceWorkKind.COMMUNICATION)
    return made.finish()


def test_time_is_split_into_computation_and_communication() -> None:
    first, second, *others = rows(pair(), "communication")
    parts = ("computing_us", "both_us", "communicating_us", "neither_us", "total_us", "overlap_percent")
    assert [first[part] for part in parts] == [10, 20, 10, 60, 100, pytest.approx(200 / 3)]
    assert [second[part] for part in parts] == [25, 5, 10, 60, 100, pytest.approx(100 / 3)]
    assert [(row["rank"], row["step"]) for row in (first, second, *others)] == [(0, "0"), (0, "1"), (1, "0"), (1, "1")]
    # For torch-tb-profiler kernels compute, and calls communicate.
    theirs = ("computation_us", "overlap_us", "communication_us", "other_us")
    assert [first[part] for part in theirs] == [37, 3, 5, 55]


def test_the_last_to_arrive_does_not_wait() -> None:
    found = {(row["rank"], row["step"]): row for row in rows(pair(), "communication")}
    waited = {key: (row["waiting_us"], row["transferring_us"]) for key, row in found.items()}
    assert waited == {(0, "0"): (10, 20), (1, "0"): (0, 20), (0, "1"): (0, 15), (1, "1"): (10, 15)}
    # Its waiting is that of the calls, which are alike here.
    assert {(row["wait_us"], row["transfer_us"]) for row in found.values()} == {(0, 8)}
    (only,) = rows(pair(), "stragglers", step="0", ranks=((1, 1),))
    assert (only["rank"], only["last"], only["collectives"]) == (1, 1, 1)
    both = rows(pair(), "stragglers")
    assert [(row["rank"], row["last"], row["held_up_us"], row["waiting_us"]) for row in both] == [
        (0, 1, 10, 10),
        (1, 1, 10, 10),
    ]


def test_collectives_are_described_by_arguments_around_their_launch() -> None:
    (row,) = rows(pair(), "collectives")
    assert (row["name"], row["group"], row["size"], row["dtype"]) == ("all_reduce", "0", 2, "Float")
    assert (row["bytes"], row["collectives"], row["ranks"], row["matched"], row["total_bytes"]) == (4000, 2, 2, 2, 8000)
    assert row["calls"] == 4 and row["calls"] * row["mean_us"] == row["total_us"]
    assert (row["total_us"], row["mean_us"], row["max_us"]) == (90, 22.5, 30)
    assert (row["waiting_us"], row["transferring_us"]) == (20, 70)
    # 8000 bytes in 35 µs; of two ranks each link carries as much.
    assert row["algorithm_gb_per_s"] == row["bus_gb_per_s"] == pytest.approx(8000 / 35_000)
    (plain,) = rows(pair(known=None), "collectives")
    assert (plain["name"], plain["size"], plain["bytes"], plain["matched"]) == ("all_reduce", None, None, 2)
    assert plain["algorithm_gb_per_s"] is None


def test_ranks_with_different_numbers_of_them_are_not_compared() -> None:
    profile = pair(more=1)
    assert {row["waiting_us"] for row in rows(profile, "communication")} == {None}
    (row,) = rows(profile, "collectives")
    assert (row["calls"], row["matched"], row["waiting_us"]) == (6, 0, None)
    assert rows(profile, "stragglers") == []
    # Without another rank the whole time is all there is for a bandwidth.
    assert row["algorithm_gb_per_s"] == pytest.approx(6 * 4000 / 100_000)


def test_kernels_with_the_number_of_a_call_are_communication_for_torch_tb_profiler() -> None:
    made = Trace()
    host, stream = made.thread(), made.stream()
    made.step(host, 0, 0, 100)
    made.slice(host, "nccl:all_reduce", 10, 10, "annotation", id=5)
    call = made.slice(host, "cudaLaunchKernel", 12, 2, "runtime")
    made.work(stream, NCCL, 20, 30, call, DeviceWorkKind.COMMUNICATION, id=5)
    made.work(stream, "gemm", 60, 20, call, id=6)
    profile = made.finish()
    (row,) = rows(profile, "communication")
    assert (row["computation_us"], row["communication_us"], row["communicating_us"]) == (20, 40, 30)
    (step,) = rows(profile, "steps")
    assert (step["kernel_us"], step["communication_us"], step["communication_kernel_us"]) == (20, 40, 0)
    assert step["idle_us"] == 50


def test_the_file_tells_the_group_where_there_is_one_alone() -> None:
    groups = [{"pg_name": "world", "pg_size": 4}]
    for number, expected in ((1, ("world", 4)), (2, (None, None))):
        profile = pair(known=None)
        facts = {"distributedInfo": json.dumps({"pg_config": groups * number}) + "; {}"}
        (row,) = rows(replace(profile, meta=replace(profile.meta, facts=facts)), "collectives")
        assert (row["group"], row["size"]) == expected


def test_without_devices_calls_are_collectives() -> None:
    made = Trace()
    for rank, length in ((0, 40), (1, 10)):
        host = made.thread(rank)
        made.step(host, 0, 0, 100, rank)
        shapes = {"shapes": "[[10, 10], []]", "types": '["float", ""]'}
        made.slice(host, "gloo:all_reduce", 50 - length, length, "annotation", arguments=shapes)
        made.slice(host, "aten::mm", 60, 20)
    profile = made.finish()
    first, second = rows(profile, "communication")
    parts = ("computing_us", "both_us", "communicating_us", "neither_us", "waiting_us", "transferring_us")
    assert [first[part] for part in parts] == [20, 0, 40, 40, 30, 10]
    assert [second[part] for part in parts] == [20, 0, 10, 70, 0, 10]
    (row,) = rows(profile, "collectives")
    assert (row["name"], row["bytes"], row["dtype"]) == ("all_reduce", 400, "float")


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (NCCL, "all_reduce"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "send_recv"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter"),
        ("nccl:_all_gather_base", "all_gather"),
        ("gloo:all_to_all", "all_to_all"),
        ("alltoallv", "all_to_all"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("broadcast", "broadcast"),
        ("", ""),
        ("nccl:", "nccl:"),
    ],
)
def test_names_of_collectives(written: str, name: str) -> None:
    assert canonical_name(written) == name


def test_factors_of_the_bus_are_those_of_nccl_tests() -> None:
    assert [bus_factor(name, 4) for name in ("all_reduce", "all_gather", "reduce_scatter", "broadcast")] == [
        1.5,
        0.75,
        0.75,
        1.0,
    ]
    assert bus_factor("all_reduce", 0) is None


def test_arguments_that_are_none_are_no_harm() -> None:
    for known in ({"In msg nelems": "many", "dtype": 7}, {"In msg nelems": -5, "dtype": "Float", "Group size": 1e300}):
        (row,) = rows(pair(known), "collectives")
        assert row["bytes"] is None and row["name"] == "all_reduce"
