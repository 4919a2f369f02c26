"""CUDA graphs: one launch with many kernels is one launch."""

from __future__ import annotations

from typing import Any

import pytest

from perfloom.analysis.advice.findings import find_advice
from perfloom.analysis.core.schema import records
from perfloom.analysis.ml.graphs import has_graphs
from perfloom.analysis.ml.launches import launch_waits_of
from perfloom.analysis.tables import TABLES
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.readers import stored_profile
from tests.support import paths
from tests.support.trace_json import call, kernel, read, slice_
from tests.support.traced import Trace

SCHEMA_4 = paths.DATA / "stored" / "schema-4.perfloom"
STEPS, NODES = 4, 60


def rows(profile: Profile, table: str, **selection: Any) -> list[dict[str, Any]]:
    return records(TABLES[table].rows(profile, Selection(**selection)))


def replays(*, graph: int = 7, ids: bool = True) -> Profile:
    """Four steps of 1000 µs, each of which is one graph of 60 kernels of 15 µs with gaps of 0.5 µs, called 10 µs after
    its beginning for 20 µs; it begins 10 µs after that."""
    events = []
    for step in range(STEPS):
        at = 1000 * step
        args = {"correlation": 50 + step, "device": 0, "stream": 7}
        events.append(slice_(f"ProfilerStep#{step}", at, 990, cat="user_annotation"))
        events.append(call(at + 10, 20, 50 + step, name="cudaGraphLaunch"))
        for node in range(NODES):
            more = {"graph id": graph, "graph node id": 100 + node} if ids else {}
            events.append(
                slice_(f"k{node % 5}", at + 40 + 15.5 * node, 15, cat="kernel", pid=0, tid=7, args=args | more)
            )
    return read(*events).profile


def test_a_graph_is_one_launch() -> None:
    (launch,) = rows(replays(), "launches")
    assert (launch["calls"], launch["launches"], launch["launched"], launch["shorter"]) == (4, 4, 240, 0)
    assert (launch["delay_min_us"], launch["delay_max_us"], launch["queue_max"]) == (30, 30, 0)
    # Only the first kernel of a graph has a delay.
    delays = {
        row["name"]: (row["calls"], row["delay_mean_us"], row["delay_max_us"]) for row in rows(replays(), "kernels")
    }
    assert delays == {"k0": (48, 30, 30)} | {f"k{n}": (48, None, None) for n in range(1, 5)}
    assert int(launch_waits_of(replays()).has_launch.sum()) == STEPS


def test_no_advice_to_capture_an_existing_graph() -> None:
    found = {one.rule.key: one for one in find_advice(replays(), Selection(), {"launch-bound": 0, "graph-delays": 0})}
    bound = found["launch-bound"]
    assert bound.finding.measured == 0 and "0 of 4 launches" in bound.finding.evidence
    assert "CUDA graphs launched 100.0 % of the device time" in bound.finding.evidence
    assert "Capture" not in bound.finding.advice and "remaining single launches" in bound.finding.advice
    assert not {"launch-bound", "graph-delays"} & {one.rule.key for one in find_advice(replays(), Selection())}


def test_a_late_replay_is_reported() -> None:
    events: list[Any] = []
    for step in range(3):
        at = 1000 * step
        events.append(slice_(f"ProfilerStep#{step}", at, 1000, cat="user_annotation"))
        events.append(call(at + 400, 20, 50 + step, name="hipGraphLaunch"))
        events += [kernel(at + 430 + 100 * n, 100, 50 + step, f"k{n}") for n in range(5)]
    (late,) = [one for one in find_advice(read(*events).profile, Selection()) if one.rule.key == "graph-delays"]
    # 500 µs between the ends and beginnings of three graphs; the graph's id was not recorded.
    assert late.finding.measured == pytest.approx(100 * 2 * 500 / 3000)
    assert "1 ms" in late.finding.evidence and "graph None" not in late.finding.evidence


def test_graphs_are_listed() -> None:
    (row,) = rows(replays(), "graphs")
    assert (row["graph_id"], row["name"], row["launches"], row["works_mean"], row["nodes"], row["streams"]) == (
        7,
        "cudaGraphLaunch",
        4,
        60,
        60,
        1,
    )
    assert (row["total_us"], row["mean_us"], row["gap_mean_us"], row["host_mean_us"]) == (3600, 900, 29.5, 20)
    assert (row["delay_mean_us"], row["delay_max_us"], row["waited_us"], row["percent"]) == (30, 30, 3 * 70.5, 100)
    (one,) = rows(replays(), "graphs", step="2")
    assert (one["launches"], one["total_us"]) == (1, 900)
    (plain,) = rows(replays(ids=False), "graphs")
    assert (plain["graph_id"], plain["nodes"], plain["launches"], plain["works_mean"]) == (None, None, 4, 60)
    assert rows(replays(graph=0), "graphs")[0]["graph_id"] is None


def test_nodes_side_by_side_count_once_and_a_queue_counts_launches() -> None:
    trace = Trace()
    host, one, two = trace.thread(1), trace.thread(7, stream=True), trace.thread(8, stream=True)
    first = trace.slice(host, 0, 10, "cudaGraphLaunch_ptsz", "runtime")
    second = trace.slice(host, 20, 30, "cudaGraphLaunch_ptsz", "runtime")
    alone = trace.slice(host, 40, 45, "cudaLaunchKernel", "runtime")
    for launch, at in ((first, 100), (second, 200)):
        trace.slice(one, at, at + 20, "a", "kernel", launch)
        trace.slice(two, at + 10, at + 30, "b", "kernel", launch)
        trace.slice(one, at + 40, at + 50, "c", "kernel", launch)
    trace.slice(one, 300, 303, "d", "kernel", alone)
    profile = trace.finish()
    (graph,) = rows(profile, "graphs")
    assert (graph["total_us"], graph["gap_mean_us"], graph["streams"], graph["works_mean"]) == (0.08, 0.01, 2, 3)
    by_name = {row["name"]: row for row in rows(profile, "launches")}
    # One launch waited for the second one, two for the third: not six kernels.
    assert by_name["cudaGraphLaunch_ptsz"]["queue_max"] == 1 and by_name["cudaLaunchKernel"]["queue_max"] == 2
    assert by_name["cudaLaunchKernel"]["shorter"] == 1 and by_name["cudaGraphLaunch_ptsz"]["shorter"] == 0


def test_work_of_a_graph_whose_call_was_not_recorded_is_one_launch() -> None:
    made = [
        kernel(10 * at, 5, number, f"k{at}", args={"graph id": 3, "graph node id": at + 1})
        for number, ats in ((9, (0, 1, 2)), (8, (3, 4, 5)))
        for at in ats
    ]
    (row,) = rows(read(*made).profile, "graphs")
    assert (row["graph_id"], row["name"], row["launches"], row["works_mean"]) == (3, None, 2, 3)
    assert (row["delay_mean_us"], row["nodes"]) == (None, 6)


def test_without_graphs_there_are_none() -> None:
    trace = Trace()
    host, stream = trace.thread(1), trace.thread(7, stream=True)
    trace.slice(stream, 10, 20, "a", "kernel", trace.slice(host, 0, 5, "cudaLaunchKernel", "runtime"))
    profile = trace.finish()
    assert rows(profile, "graphs") == [] and not has_graphs(profile)


def test_an_optimizer_in_a_graph_launches_once() -> None:
    events = [slice_("ProfilerStep#1", 0, 1000, cat="user_annotation")]
    events.append(slice_("Optimizer.step#Adam.step", 0, 100, cat="user_annotation"))
    events.append(call(10, 20, 5, name="cudaGraphLaunch"))
    events += [kernel(40 + n, 1, 5, "k") for n in range(300)]
    found = {one.rule.key: one for one in find_advice(read(*events).profile, Selection(), {"optimizer-kernels": 0})}
    assert found["optimizer-kernels"].finding.measured == 1


def test_results_stored_before_graph_ids_had_a_place_are_read_the_same() -> None:
    with SCHEMA_4.open("rb") as file:
        old = stored_profile.read(file)
    assert '"graph id": 7' in old.argument_sets.column("text")[-1].as_py()
    graphs = rows(old, "graphs")
    assert [(row["graph_id"], row["launches"], row["nodes"], row["rank"]) for row in graphs] == [
        (7, 2, 3, 0),
        (7, 2, 3, 1),
    ]
