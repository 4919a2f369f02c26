"""Modules of traces by hand: calls of nn.Module, Lightning's annotations, the hierarchy of scripted operators."""

from __future__ import annotations

from typing import Any

from perfloom.analysis.core.schema import records
from perfloom.analysis.ml.modules import has_modules
from perfloom.analysis.tables import TABLES
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from tests.support.traced import Trace

ALL = Selection()
NUMBER = "Python module id"
ENGINE = "autograd::engine::evaluate_function: AddmmBackward0"


def table(profile: Profile, selection: Selection = ALL, by: str | None = None) -> list[dict[str, Any]]:
    return records(TABLES["modules"].rows(profile, selection, by))


def ns(value: float | None) -> int | None:
    return None if value is None else round(value * 1000)


def called() -> Profile:
    """Two calls of a network of two layers, the first of which launches; a backward pass on another thread."""
    trace = Trace()
    host, engine, stream = trace.thread(1), trace.thread(2), trace.thread(7, stream=True)
    forward = []
    for at in (0, 1000):
        trace.slice(host, at, at + 500, "nn.Module: Net_0", "python").numbers[NUMBER] = 0
        trace.slice(host, at + 10, at + 490, "net.py(3): forward", "python")
        for place in (0, 1):
            start = at + 20 + 200 * place
            trace.slice(host, start, start + 150, f"nn.Module: Linear_{place}", "module").numbers[NUMBER] = place
            forward.append(trace.slice(host, start + 10, start + 110, "aten::addmm"))
            launch = trace.slice(host, start + 20, start + 30, "cudaLaunchKernel", "runtime")
            trace.slice(stream, start + 40, start + 60 + 20 * place, "gemm", "kernel", launch)
    outer = trace.slice(engine, 600, 700, ENGINE)
    inner = trace.slice(engine, 610, 690, "AddmmBackward0")
    launch = trace.slice(engine, 620, 630, "cudaLaunchKernel", "runtime")
    trace.slice(stream, 640, 680, "gemm_t", "kernel", launch)
    trace.flows.append((forward[0], inner))
    assert outer.duration == 100
    return trace.finish()


def test_calls_of_modules() -> None:
    profile = called()
    assert has_modules(profile)
    rows = table(profile)
    words = ("path", "type", "parent", "depth", "calls")
    assert [tuple(row[word] for word in words) for row in rows] == [
        ("Net_0", "Net", None, 0, 2),
        ("Net_0/Linear_0", "Linear", "Net_0", 1, 2),
        ("Net_0/Linear_1", "Linear", "Net_0", 1, 2),
    ]
    times = (
        "host_total_us",
        "host_self_us",
        "device_total_us",
        "device_self_us",
        "backward_host_us",
        "backward_device_us",
    )
    assert [tuple(ns(row[time]) for time in times) for row in rows] == [
        (1000, 400, 120, 0, 100, 40),
        (300, 300, 40, 40, 100, 40),
        (300, 300, 80, 80, 0, 0),
    ]
    assert [row["operators"] for row in rows] == [4, 2, 2]
    assert [row["host_percent"] for row in rows] == [100, 30, 30]


def test_a_selection_of_modules() -> None:
    rows = table(called(), Selection(start_ns=200, end_ns=1100))
    told = {row["path"]: (row["calls"], ns(row["host_total_us"]), ns(row["host_self_us"])) for row in rows}
    # The network's first call began before; of its second one, only the first layer begins in the window.
    assert told == {"Net_0": (1, 500, 200), "Net_0/Linear_0": (1, 150, 150), "Net_0/Linear_1": (1, 150, 150)}


def test_classes() -> None:
    linear, net = sorted(table(called(), by="type"), key=lambda row: row["module"])
    assert (linear["module"], linear["modules"], linear["calls"], ns(linear["host_total_us"])) == ("Linear", 2, 4, 600)
    assert (net["module"], net["modules"], ns(net["host_self_us"]), net["parent"]) == ("Net", 1, 400, None)
    trace = Trace()
    host = trace.thread(1)
    trace.slice(host, 0, 100, "nn.Module: Block_0", "module")
    trace.slice(host, 10, 60, "nn.Module: Block_1", "module")
    (block,) = table(trace.finish(), by="type")
    # One is in the other: its time is in the total already.
    assert (block["modules"], block["calls"], ns(block["host_total_us"]), ns(block["host_self_us"])) == (2, 2, 100, 100)
    assert (ns(block["host_min_us"]), ns(block["host_max_us"])) == (50, 100)


def test_lightning() -> None:
    trace = Trace()
    host = trace.thread(1)
    trace.slice(host, 0, 100, "[pl][profile][Strategy]SingleDevice.training_step", "annotation")
    trace.slice(host, 10, 90, "[pl][module]models.Net: net", "annotation")
    trace.slice(host, 20, 50, "[pl][module]torch.nn.modules.linear.Linear: net.fc", "annotation")
    # Python's own calls would be the same modules again.
    trace.slice(host, 21, 49, "nn.Module: Linear_0", "module")
    rows = table(trace.finish())
    assert [(row["module"], row["type"], row["parent"], ns(row["host_self_us"])) for row in rows] == [
        ("net", "Net", None, 50),
        ("net.fc", "Linear", "net", 30),
    ]


def test_the_hierarchy_of_operators() -> None:
    trace = Trace()
    host = trace.thread(1)

    def operator(start: int, end: int, name: str, hierarchy: str) -> None:
        trace.slice(host, start, end, name, arguments={"Module Hierarchy": hierarchy})

    operator(0, 100, "forward", "TOP(Net)::forward.")
    operator(10, 50, "<forward op>", "TOP()::<forward op>.")
    operator(12, 22, "aten::linear", "TOP()::<forward op>.blocks(Sequential)::forward.0(Block)::forward.")
    operator(14, 20, "aten::addmm", "TOP()::<forward op>.blocks(Sequential)::forward.0(Block)::forward.")
    operator(30, 40, "aten::relu", "TOP()::<forward op>.blocks(Sequential)::forward.")
    operator(60, 65, "aten::add", "TOP(Net)::forward.SELF(Net)::helper.")
    rows = table(trace.finish())
    words = ("path", "type", "calls", "operators")
    assert [tuple(row[word] for word in words) for row in rows] == [
        ("Net", "Net", None, 6),
        ("Net/blocks", "Sequential", None, 3),
        ("Net/blocks/0", "Block", None, 2),
    ]
    assert [ns(row["host_total_us"]) for row in rows] == [100, 20, 10]
    assert [ns(row["host_self_us"]) for row in rows] == [80, 10, 10]


def test_odd_hierarchies() -> None:
    for text in ("", "TOP", "(((", "a.b.c", "x()::", 3, None):
        trace = Trace()
        trace.slice(trace.thread(1), 0, 1, "aten::add", arguments={"Module Hierarchy": text})
        assert table(trace.finish()) == []
