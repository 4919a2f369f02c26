"""The pages of a trace: overview, steps, communication."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from perfloom.analysis.tables import TABLES
from perfloom.domain.meta import PYTORCH_PROFILE
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.domain.tables import DeviceWorkKind
from tests.analysis.distributed.test_communication import pair
from tests.analysis.ml.test_steps import small
from tests.analysis.stepped import Trace
from tests.support.traced import Trace as Traced
from tests.web.conftest import EVALUATED, EVIL, HOSTILE, Browser
from tests.web.html import read

PAGES = ("", "/steps", "/communication")


def hostile() -> Profile:
    """Every name hostile that a file can choose."""
    made = Trace()
    for rank in (0, 1):
        host, stream = made.thread(rank), made.stream(rank=rank)
        for number, name in enumerate(HOSTILE):
            at = 100 * number
            step = made.slice(host, f"ProfilerStep#{name}", at, 100, "annotation")
            made.made.step(step.name, step.start, step.end, rank)
            known = {"Collective name": name, "Process Group Name": name, "dtype": name, "Group size": name}
            made.slice(host, "record_param_comms", at + 1, 90, arguments=known)
            call = made.slice(host, name, at + 2, 50, "runtime")
            made.work(stream, name, at + 10, 50, call, DeviceWorkKind.COMMUNICATION)
    profile = made.finish()
    names = profile.devices.to_pylist()
    devices = profile.devices.from_pylist([row | {"name": HOSTILE[0]} for row in names], profile.devices.schema)
    facts = {"perfloom": json.dumps({"step": HOSTILE[1], "counted": HOSTILE[0], "schedule": [HOSTILE[2]]})}
    return replace(profile, devices=devices, meta=replace(profile.meta, facts=facts))


@pytest.mark.parametrize("page", PAGES)
def test_no_name_becomes_markup(browser_client: Browser, stored: Callable[..., str], page: str) -> None:
    stored(hostile(), EVIL)
    for query in ("", "?rank=1", "?end-ms=0.25"):
        text = browser_client.page(f"/results/{EVIL}{page}{query}")
        assert read(text).faults == []
        assert "\u202e" not in text and EVALUATED not in text


def test_the_overview_of_a_trace(browser_client: Browser, stored: Callable[..., str], ordinary: str) -> None:
    profile = small()
    facts = {"perfloom": '{"step": "optimizer step", "counted": "SGD", "schedule": "1,1,2"}'}
    id = stored(replace(profile, meta=replace(profile.meta, facts=facts)), "trace0000000")
    text = browser_client.page(f"/results/{id}")
    page = read(text)
    assert page.faults == []
    words = re.sub(r"\s+", " ", " ".join(page.text))
    for said in (
        "A100",
        "Memory 40.0 GiB",
        "Multiprocessors 108",
        "GPU utilization 44.50 %",
        "Occupancy 22.63 %",
        "Tensor cores 57.89 %",
        "Mean step 100 µs",
        "Computation 44.50 % 44.5 µs",
        "DataLoader 7.50 % 7.50 µs",
        "Waited for the host 1 23.0 µs 11.50 23.0 µs",
        "A step is one optimizer step (SGD), recorded by the schedule 1,1,2.",
        "Steps recorded",
        "Memory not recorded; enable it with --torch-memory",
    ):
        assert said.replace(" ", "") in words.replace("\u00a0", "").replace(" ", ""), said
    assert f"/results/{id}/steps" in page.links and f"/results/{id}?step=4" in page.links
    narrowed = browser_client.page(f"/results/{id}?step=4")
    assert "95.0\u00a0µs" in narrowed and "Step: <b>4</b>" in narrowed
    assert "Where the time of a step went" in text
    assert "Where the time of a step went" not in browser_client.page(f"/results/{ordinary}")
    # A bucket of time leads to that time alone.
    window = next(link for link in page.links if "start-ms=0.1&" in link)
    assert "100.00" in browser_client.page(window) or "0 %" in browser_client.page(window)
    browser_client.page(f"/results/{id}?step=9", 400)


def test_threads_with_equal_names_are_distinguished(browser_client: Browser, stored: Callable[..., str]) -> None:
    made = Traced()
    for tid, name in ((5, "python"), (6, "python"), (7, "pt_autograd_0")):
        made.slice(made.thread(tid, name), 0, 10, "aten::mm")
    page = browser_client.page(f"/results/{stored(made.finish())}")
    shown = [name for name in ("python 5", "python 6", "pt_autograd_0") if f">{name}<" in page]
    assert shown == ["python 5", "python 6", "pt_autograd_0"]


def test_steps_that_were_not_counted_are_named(browser_client: Browser, stored: Callable[..., str]) -> None:
    made = Trace()
    host, stream = made.thread(), made.stream()
    for number in range(3):
        made.step(host, number, 100 * number, 100)
        call = made.slice(host, "cudaLaunchKernel", 100 * number, 5, "runtime")
        if number < 2:
            made.work(stream, "kernel", 100 * number + 10, 10, call)
    id = stored(made.finish())
    for page in ("", "/steps"):
        text = browser_client.page(f"/results/{id}{page}")
        assert "Not counted: step 2. The profiler stopped before" in text
    assert "Not counted" not in browser_client.page(f"/results/{id}/steps?step=2")


def test_the_page_of_steps(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(small())
    text = browser_client.page(f"/results/{id}/steps")
    page = read(text)
    assert page.faults == [] and "2 steps" in text
    # Nothing was communicated by kernels, and there is one rank.
    assert "Communicating" not in text and ">Rank" not in text and "Memset" in text
    assert page.links.count(f"/results/{id}?step=3") == 3  # In the table, and in the chart for two widths.
    first = re.findall(r'<a href="/results/\w+\?step=(\d)">', browser_client.page(f"/results/{id}/steps?sort=total_us"))
    assert first == ["4", "3"]
    assert "Nothing here contains “seven”" in browser_client.page(f"/results/{id}/steps?search=seven")
    assert "No step matches" in browser_client.page(f"/results/{id}/steps?start-ms=5")
    browser_client.page(f"/results/{id}/steps?sort=nothing", 400)
    rows = list(csv.DictReader(io.StringIO(browser_client.page(f"/results/{id}/steps.csv?step=4"))))
    assert [row["total_us"] for row in rows] == ["95.0"]
    assert list(rows[0]) == [column.name for column in TABLES["steps"].columns]


def test_the_page_of_communication(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(pair())
    text = browser_client.page(f"/results/{id}/communication")
    page = read(text)
    assert page.faults == []
    words = re.sub(r"\s+", " ", " ".join(page.text))
    for said in (
        "55.56 % of communication overlapped",
        "Only computation 17.50",
        "2 of 2 collectives were found on several ranks",
        "Stragglers",
    ):
        assert said.replace(" ", "") in words.replace("\u00a0", "").replace(" ", ""), said
    assert f"/results/{id}/communication?rank=1" in page.links and f"/results/{id}/communication?step=1" in page.links
    only = browser_client.page(f"/results/{id}/communication?rank=1&step=0")
    assert "Stragglers" not in only and read(only).faults == []
    for name in ("communication", "collectives", "stragglers"):
        rows = list(csv.DictReader(io.StringIO(browser_client.page(f"/results/{id}/{name}.csv"))))
        assert len(rows) == len(TABLES[name].rows(pair(), Selection()))
    assert "Nothing here contains “gather”" in browser_client.page(f"/results/{id}/communication?search=gather")
    assert "No step matches" in browser_client.page(f"/results/{id}/communication?start-ms=5")


def test_one_rank_has_collectives_without_waiting(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(pair())
    text = browser_client.page(f"/results/{id}/communication?rank=0")
    assert "Waiting for other ranks" in text
    made = Trace()
    host, stream = made.thread(), made.stream()
    made.step(host, 0, 0, 100)
    call = made.slice(host, "cudaLaunchKernel", 0, 5, "runtime")
    made.work(stream, "ncclDevKernel_AllGather_RING_LL(x)", 10, 20, call, DeviceWorkKind.COMMUNICATION)
    id = stored(made.finish(), "alone0000000")
    text = browser_client.page(f"/results/{id}/communication")
    assert "Import the files of all ranks" in text and "all_gather" in text and "Waiting for other ranks" not in text
    assert f"/results/{id}/communication" in read(browser_client.page(f"/results/{id}")).links
    id = stored(small(), "quiet0000000")
    assert "nccl:all_reduce" in browser_client.page(f"/results/{id}/operators")


def test_options_of_pytorch_are_only_shown_for_pytorch(stored: Callable[..., str], browser_client: Browser) -> None:
    made = Traced()
    made.slice(made.thread(1, "main"), 0, 1_000, "work")
    profile = made.finish()
    for capabilities, told in (((PYTORCH_PROFILE,), True), ((), False)):
        meta = replace(profile.meta, capabilities=capabilities)
        id = stored(replace(profile, meta=meta), "pytorch00000" if told else "chrometr0000")
        page = browser_client.page(f"/results/{id}")
        assert ("ProfilerActivity" in page) == ("step() in each" in page) == told
        assert ("it counts as one step" in page) == told
