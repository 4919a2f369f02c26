"""The pages of operators, kernels and modules: their tables, what one of them is by itself, and that names stay text."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from urllib.parse import quote

import pytest

from perfloom.domain.profile import Profile
from tests.analysis.ml.test_modules import called
from tests.analysis.ml.test_operators import COPY, GEMM, small
from tests.analysis.ml.test_tensor_cores import on_device
from tests.support.traced import Trace
from tests.web.conftest import HOSTILE, Browser
from tests.web.html import read

VIEWS = (
    *("/operators", "/operators?by=shapes", "/operators?by=stack&each=1", "/operators?kind=annotation"),
    *("/kernels", "/kernels?by=configuration", "/kernels?view=copies", "/kernels?view=launches"),
    "/kernels?view=graphs",
    *("/kernels?view=sequences", "/kernels?view=sequences&by=operator", "/modules", "/modules?by=type"),
)
ONES = ("operators", "kernels")


def hostile() -> Profile:
    """Two ranks; every name is one that should do harm."""
    trace = Trace()
    for rank in (0, 1):
        host = trace.thread(1, HOSTILE[0], rank=rank)
        stream = trace.thread(7, HOSTILE[1], rank=rank, stream=True)
        for at, name in enumerate(HOSTILE):
            start = 100 * at
            trace.slice(host, start, start + 90, f"nn.Module: {name}", "module")
            trace.slice(host, start + 10, start + 80, name, arguments={"shapes": name, "call_stack": name})
            launch = trace.slice(host, start + 20, start + 30, name, "runtime")
            trace.slice(
                stream, start + 30, start + 60, name, "kernel", launch, work={"configuration": {"registers": 1}}
            )
            trace.slice(stream, start + 60, start + 70, name + " HtoD", "memcpy", launch)
        trace.step(HOSTILE[2], 0, 500, rank)
    return trace.finish()


@pytest.fixture
def trace(stored: Callable[..., str]) -> str:
    return stored(small())


def test_no_name_becomes_markup(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(hostile(), "evil00000000", name=HOSTILE[0])
    for view in VIEWS:
        text = browser_client.page(f"/results/{id}{view}")
        assert read(text).faults == [] and "\u202e" not in text, view
    for name in HOSTILE:
        for page in ONES:
            found = browser_client.client.get(f"/results/{id}/{page}", query_string={"name": name})
            assert found.status_code == 200 and read(found.text).faults == [], (page, name)
    for word in ("by", "view", "kind", "each", "length", "at", "levels", "search", "sort", "page", "step"):
        for page in (*ONES, "modules"):
            answer = browser_client.client.get(f"/results/{id}/{page}", query_string={word: HOSTILE[1]})
            assert answer.status_code in (200, 400) and read(answer.text).faults == [], (page, word)


def test_operators(browser_client: Browser, trace: str) -> None:
    text = browser_client.page(f"/results/{trace}/operators")
    assert "aten::addmm" in text and "my region" in text and "Device self" in text and "7 rows" in text
    assert 'aria-current="page">Operators' in text
    assert "my region" not in browser_client.page(f"/results/{trace}/operators?kind=operator")
    assert "1 row<" in browser_client.page(f"/results/{trace}/operators?search=LINEAR")
    assert "Nothing here contains" in browser_client.page(f"/results/{trace}/operators?search=nowhere")
    assert "[[8,16],[16,4]]" in browser_client.page(f"/results/{trace}/operators?by=shapes")
    assert "1 row<" in browser_client.page(f"/results/{trace}/operators?step=2&search=linear")
    assert "No operator starts in this selection" in browser_client.page(f"/results/{trace}/operators?start-ms=99")
    assert "has no step" in browser_client.page(f"/results/{trace}/operators?step=9", 400)
    assert "by must be one of name, shapes, stack" in browser_client.page(f"/results/{trace}/operators?by=x", 400)
    rows = list(
        csv.DictReader(io.StringIO(browser_client.page(f"/results/{trace}/operators.csv?sort=name&kind=operator")))
    )
    assert [row["name"] for row in rows] == ["aten::add", "aten::addmm", "aten::copy_", "aten::linear", "aten::to"]
    assert float(rows[1]["host_self_us"]) == 0.32


def test_one_operator(browser_client: Browser, trace: str) -> None:
    text = browser_client.page(f"/results/{trace}/operators?name=aten::addmm")
    for told in (
        "Kernels",
        GEMM,
        "Callers",
        "aten::linear",
        "ProfilerStep#2",
        "Host time of a call",
        "Without kernels launched by",
    ):
        assert told in text, told
    assert "No input shapes were recorded" in text
    assert f"/results/{trace}/kernels?name={quote(GEMM)}" in text
    assert "No operator or annotation" in browser_client.page(f"/results/{trace}/operators?name=nothing", 404)
    assert "No operator" in browser_client.page(f"/results/{trace}/operators?name=my+region&step=2", 404)


def test_kernels(browser_client: Browser, trace: str) -> None:
    text = browser_client.page(f"/results/{trace}/kernels")
    assert "copy_kernel" in text and "Occupancy" in text and "Kernel time on tensor cores" in text
    assert "8×1×1" in browser_client.page(f"/results/{trace}/kernels?by=configuration")
    assert COPY.replace(">", "&gt;") in browser_client.page(f"/results/{trace}/kernels?view=copies")
    assert "cudaMemcpyAsync" in browser_client.page(f"/results/{trace}/kernels?view=launches")
    assert "Nothing occurs twice" in browser_client.page(f"/results/{trace}/kernels?view=sequences")
    assert "from 2 to 8" in browser_client.page(f"/results/{trace}/kernels?view=sequences&length=1", 400)
    assert "Nothing matches" in browser_client.page(f"/results/{trace}/kernels?kind=communication&start-ms=9")
    one = browser_client.page(f"/results/{trace}/kernels?name={quote(GEMM)}")
    for told in ("Configurations", "Streams", "stream 7", "Launch delay", "Operators that launched it", "aten::addmm"):
        assert told in one, told
    assert "Memcpy or memset" in browser_client.page(f"/results/{trace}/kernels?name={quote(COPY)}")
    rows = list(csv.DictReader(io.StringIO(browser_client.page(f"/results/{trace}/kernels.csv?view=launches"))))
    assert [row["name"] for row in rows] == ["cudaLaunchKernel", "cudaMemcpyAsync"]


def test_modules(browser_client: Browser, trace: str, stored: Callable[..., str]) -> None:
    assert "has no modules" in browser_client.page(f"/results/{trace}/modules")
    assert "/modules" not in browser_client.page(f"/results/{trace}/operators")
    id = stored(called(), "modules00000")
    text = browser_client.page(f"/results/{id}/modules")
    assert all(name in text for name in ("Net_0", "Linear_1", "Backward, host")) and "/modules?at=Net_0" in text
    assert "Linear_0" not in browser_client.page(f"/results/{id}/modules?levels=1")
    assert "2 inside" in browser_client.page(f"/results/{id}/modules?levels=1")
    below = browser_client.page(f"/results/{id}/modules?at=Net_0/Linear_1")
    assert "All modules" in below and "Linear_0" not in below
    assert "No module" in browser_client.page(f"/results/{id}/modules?at=Net_1", 400)
    assert "Linear" in browser_client.page(f"/results/{id}/modules?by=type&search=lin")
    rows = list(csv.DictReader(io.StringIO(browser_client.page(f"/results/{id}/modules.csv"))))
    assert [row["path"] for row in rows] == ["Net_0", "Net_0/Linear_0", "Net_0/Linear_1"]


def test_ranks_together_and_each(browser_client: Browser, stored: Callable[..., str]) -> None:
    trace = Trace()
    for rank in (0, 1):
        host, stream = trace.thread(1, rank=rank), trace.thread(7, rank=rank, stream=True)
        trace.slice(host, 0, 10 + rank, "aten::mm")
        trace.slice(stream, 20, 50, "gemm", "kernel", trace.slice(host, 2, 3, "cudaLaunchKernel", "runtime"))
    id = stored(trace.finish(), "tworanks0000")
    for page in ONES:
        assert "1 row<" in browser_client.page(f"/results/{id}/{page}")
        assert "2 rows" in browser_client.page(f"/results/{id}/{page}?each=1")
        assert "1 row<" in browser_client.page(f"/results/{id}/{page}?each=1&rank=1")


def test_the_same_over_http(browser_client: Browser, trace: str) -> None:
    rows = browser_client.client.get(f"/api/v1/results/{trace}/kernels?by=configuration").get_json()
    assert rows[0]["operator"] == "aten::addmm" and rows[0]["registers"] == 40
    answer = browser_client.client.get(f"/api/v1/results/{trace}/operators?by=nothing")
    assert answer.status_code == 400 and answer.get_json()["field"] == "by"


def test_nothing_is_said_of_tensor_cores_of_a_device_without(
    browser_client: Browser, stored: Callable[..., str]
) -> None:
    pages = ("kernels", "kernels?by=configuration", "kernels?name=gemm", "operators", "operators?name=aten::mm", "")
    old = stored(on_device("gemm", name="Tesla P100", compute="6.0"), "pascal000000")
    new = stored(on_device("gemm", name="A100", compute="8.0"), "ampere000000")
    unknown = stored(on_device("gemm"), "unknown00000")
    for page in pages:
        assert "ensor cores" not in browser_client.page(f"/results/{old}/{page}"), page
        assert "ensor cores" in browser_client.page(f"/results/{new}/{page}"), page
        assert "ensor cores" in browser_client.page(f"/results/{unknown}/{page}"), page
    assert "unknown whether the device has tensor cores" in browser_client.page(f"/results/{unknown}/kernels")
