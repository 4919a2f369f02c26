"""Ranks of one run, recognized by the names of their files."""

from __future__ import annotations

import pytest

from perfloom.ingest.rank_names import find_ranks, rank_family, recognize_ranks
from tests.support.cpu import limit_cpu_s
from tests.web.conftest import HOSTILE

WORKER = "{}_{}.170000000{}000000000.pt.trace.json"


@pytest.mark.parametrize(
    ("names", "order", "count"),
    [
        (["rank0.data", "rank1.data"], (0, 1), 2),
        (["trace.rank-10.json", "trace.rank-9.json"], (1, 0), 2),
        (["perf.RANK_3.data.gz", "perf.RANK_1.data.gz"], (1, 0), 2),
        (["a/rank0/perf.data", "a/rank1/perf.data"], (0, 1), 2),
        (["run3_rank0_pid812.json", "run3_rank1_pid813.json"], (0, 1), 2),
        (["spans_0.pt.trace.json.gz", "spans_1.pt.trace.json.gz"], (0, 1), 2),
        (["perf.data.1", "perf.data.0", "perf.data.2"], (1, 0, 2), 3),
        (["0/perf.data", "1/perf.data"], (0, 1), 2),
        (["perf.node12.data", "perf.node7.data"], (1, 0), 2),
        (["n.node2.rank1", "n.node2.rank0", "n.node1.rank1", "n.node1.rank0"], (3, 2, 1, 0), 4),
        (["node1_worker_0.json", "node1_worker_1.json"], (0, 1), 2),
        ([WORKER.format("gpu7", 812, 12), WORKER.format("gpu7", 99, 11)], (1, 0), 2),
        ([WORKER.format("a", 1, 12), WORKER.format("b", 1, 11), WORKER.format("b", 1, 42)], (0, 1, 2), 2),
    ],
)
def test_ranks(names: list[str], order: tuple[int, ...], count: int) -> None:
    found = recognize_ranks(names)
    assert found is not None and (found.order, found.count) == (order, count), found
    assert found.reason.endswith(".") and found.name


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["rank0.data"],
        ["perf.data", "perf.data"],
        ["before.data", "after.data"],
        ["base_rank0.data", "new_rank1.data"],
        ["base_rank0.data", "base_rank0.json"],
        ["run0.data", "run1.data"],
        ["run_0.data", "run_1.data"],
        ["run1_rank0.data", "run2_rank1.data"],
        ["perf_1.data", "perf_2.data"],
        ["perf_0.data", "perf_2.data"],
        ["perf-2024-01-01.data", "perf-2024-01-02.data"],
        [WORKER.format("gpu7", 812, 12), WORKER.format("gpu7", 812, 42)],
        ["a_1.1700000000000000000.pt.trace.json", "a_2.1700000999000000000.pt.trace.json"],
    ],
)
def test_no_ranks(names: list[str]) -> None:
    assert recognize_ranks(names) is None


def test_files_beside_the_ranks() -> None:
    found = find_ranks(["notes.txt", "t.rank1.json", "t.rank0.json", "perf_2.data"])
    assert found is not None and (found.order, found.others, found.count) == ((2, 1), (0, 3), 2)
    assert found.name == "t.rank*.json" and "rank 0, rank 1" in found.reason


@pytest.mark.parametrize(
    "names",
    [
        # Two runs; one file of a run; numbers alone.
        ["a.rank0", "a.rank1", "b.rank0", "b.rank1"],
        ["a.rank0", "b.json", "c.json"],
        ["x_0.data", "x_1.data", "other.json"],
        ["rank0.data", "rank1.data", "rank1.data"],
    ],
)
def test_no_ranks_among_the_files(names: list[str]) -> None:
    assert find_ranks(names) is None


def test_a_word_is_more_certain_than_a_number() -> None:
    named, counted = recognize_ranks(["rank0", "rank1"]), recognize_ranks(["x_0", "x_1"])
    assert named and counted and named.certain and not counted.certain
    assert "rank 0, rank 1" in named.reason and named.name == "rank*"


def test_families() -> None:
    assert rank_family("a.rank0.json") == rank_family("a.rank12.json") != rank_family("b.rank0.json")
    assert rank_family("run1.rank0.json") != rank_family("run2.rank0.json")
    assert rank_family("perf_0.data") == "" == rank_family("perf.data")
    assert rank_family(WORKER.format("gpu7", 8, 12)) == rank_family(WORKER.format("gpu7", 9, 11))


def test_any_name_is_quick() -> None:
    names = [*HOSTILE, "9" * 100_000, "a1" * 50_000, "_" * 100_000, "a" * 990, "a_1." * 240, "rank" * 240]
    with limit_cpu_s(5):
        for name in names:
            recognize_ranks([name, name + "1"])
            recognize_ranks([name + "0", name + "1"])
            rank_family(name)


@pytest.mark.parametrize("part", ["A" * 980, "_1" * 480, "_1.1" * 240], ids=lambda part: part[:4])
def test_long_names_take_little_time(part: str) -> None:
    names = [f"rank{number}_{part}" for number in range(50)] + ["x"]
    with limit_cpu_s(1):
        ranks = find_ranks(names)
    assert ranks is not None and ranks.others == (50,)


def test_many_long_names_are_not_examined() -> None:
    names = [f"rank{number}{'_1' * 400}" for number in range(1_000)]
    assert recognize_ranks(names[:600]) is not None
    assert recognize_ranks(names) is None and find_ranks(["other", *names]) is None
