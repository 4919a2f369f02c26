"""The page of Nsight Compute: launches, one of them, hints, metrics, instructions; and beside a trace."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pytest

from perfloom.domain.profile import Profile
from perfloom.readers import nsight_compute
from tests.support import nsight_made, paths
from tests.support.traced import Trace
from tests.web.conftest import HOSTILE, Browser
from tests.web.html import read

DATA = paths.DATA / "nsight"
VIEWS = ("", "?view=hints", "?view=metrics", "?view=source", "?launch=1", "?launch=1&view=source")
WORDS = ("view", "launch", "section", "sort", "page", "search")


def report() -> Profile:
    """All three pages of the report in tests/data/nsight."""
    data = b"".join((DATA / f"{name}.csv").read_bytes() for name in ("raw", "details", "source"))
    return nsight_compute.read(io.BytesIO(data), "x.csv")


def trace() -> Profile:
    """A trace with the report's kernels as CUPTI names them, one at another size, and one that the report has not."""
    made = Trace()
    host, stream = made.thread(1), made.thread(7, stream=True)
    add = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    )
    add += "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
    for at, (name, blocks, threads) in enumerate(
        ((add, 2048, 128), (add, 2048, 128), ("ampere_sgemm_128x64_nn", 8, 256), ("softmax", 1, 1))
    ):
        start = at * 100_000
        launch = made.slice(host, start, start + 5_000, "cudaLaunchKernel", "runtime")
        configuration = {"grid_x": blocks, "grid_y": 1, "grid_z": 1, "block_x": threads, "block_y": 1, "block_z": 1}
        work = {"configuration": configuration}
        made.slice(stream, start + 10_000, start + 70_000 + at, name, "kernel", launch, work=work)
    return made.finish()


def hostile() -> Profile:
    """Every name, section, rule and line is one that should do harm."""
    head = ["ID", "Process ID", "Process Name", "Kernel Name", "Stream", "Device", "Section Name", "Metric Name"]
    head += ["Metric Unit", "Metric Value", "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup"]
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(head)
    for number, name in enumerate(HOSTILE):
        identity = [number, 1, name, name, "7", name]
        writer.writerow([*identity, name, "Duration", "us", "5", *[""] * 4])
        writer.writerow([*identity, name, name, name, name, *[""] * 4])
        writer.writerow([*identity, name, "", "", "", name, name, name, "7"])
    for name in HOSTILE:
        writer.writerow(["Kernel Name", name])
        writer.writerow(["#", "Address", "Source", "# Samples", name])
        writer.writerow(["1", "0x10", name, "5", name])
    return nsight_compute.read(io.BytesIO(out.getvalue().encode()), "x.csv")


@pytest.fixture
def id(stored: Callable[..., str]) -> str:
    return stored(report(), "nsight000000")


def test_launches(browser_client: Browser, id: str) -> None:
    text = browser_client.page(f"/results/{id}/nsight")
    assert 'aria-current="page">Nsight Compute' in text and read(text).faults == []
    for told in (
        "ampere_sgemm_128x64_nn",
        "16×8×1",
        "registers",
        "Bound by memory",
        "3 rows",
        "one after another",
    ):
        assert told in text, told
    # What would need a clock is not offered; what adds up is.
    tabs = text.partition("Pages of this result")[2].partition("</nav>")[0]
    assert all(f">{word}<" in tabs for word in ("Overview", "Kernels", "Hotspots", "Flame graph"))
    assert not any(f">{word}<" in tabs for word in ("Timeline", "Advice", "Critical path", "Steps"))
    assert "1 row<" in browser_client.page(f"/results/{id}/nsight?search=sgemm")
    assert "Nothing here contains" in browser_client.page(f"/results/{id}/nsight?search=nowhere")
    rows = list(csv.DictReader(io.StringIO(browser_client.page(f"/results/{id}/nsight.csv?sort=launch"))))
    assert [row["launch"] for row in rows] == ["0", "1", "2"]
    assert [row["bound"] for row in rows] == ["memory", "compute", "memory"]
    assert (rows[1]["limit"], rows[1]["estimated_speedup_percent"]) == ("registers", "58.73")


def test_one_launch(browser_client: Browser, id: str) -> None:
    text = browser_client.page(f"/results/{id}/nsight?launch=1")
    for told in (
        "Launch 1",
        "Speed of light",
        "62.38",
        "58.73",
        "SharedMemoryConflicts",
        "GPU Speed Of Light Throughput",
    ):
        assert told in text, told
    assert text.index("TheoreticalOccupancy") < text.index("LaunchConfiguration") < text.index("SOLBottleneck")
    assert "launch=0" in text and "launch=2" in text and f"/results/{id}/kernels?name=ampere" in text
    section = browser_client.page(f"/results/{id}/nsight?launch=1&section=Occupancy")
    assert "sm__maximum_warps_per_active_cycle_pct" in section and "sm__throughput" not in section
    assert "1 metric<" in browser_client.page(f"/results/{id}/nsight?launch=1&search=bank_conflicts")
    source = browser_client.page(f"/results/{id}/nsight?launch=1&view=source")
    assert "4 instructions" in source and source.index("FFMA") < source.index("LDG.E") and "math" in source
    assert "no launch 3" in browser_client.page(f"/results/{id}/nsight?launch=3", 404)
    assert "whole number" in browser_client.page(f"/results/{id}/nsight?launch=x", 400)


def test_a_report_read_without_ncu(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(nsight_compute.read_report(io.BytesIO(nsight_made.report()), "x.ncu-rep"), "binary000000")
    text = browser_client.page(f"/results/{id}/nsight?launch=0")
    for told in ("add(int)", "36.5", "forward / linear", "SmallGrid", "https://example.org/a", "MOV: 200"):
        assert told in text, told
    assert read(text).faults == []
    source = browser_client.page(f"/results/{id}/nsight?launch=0&view=source")
    assert "3 instructions" in source and "add+0x10" in source
    assert "instructions are identified by their offset" in browser_client.page(f"/results/{id}")
    assert "copy(int)" in browser_client.page(f"/results/{id}/kernels")


def test_hints_metrics_and_instructions_of_all(browser_client: Browser, id: str) -> None:
    text = browser_client.page(f"/results/{id}/nsight?view=hints")
    assert "7 hints" in text and text.index("SmallGrid") < text.index("TheoreticalOccupancy")
    assert "1 hint<" in browser_client.page(f"/results/{id}/nsight?view=hints&search=bank+conflict")
    assert "No hint contains" in browser_client.page(f"/results/{id}/nsight?view=hints&search=nowhere")
    assert "3 metrics" in browser_client.page(f"/results/{id}/nsight?view=metrics&search=dram__bytes_read")
    assert "16 instructions" in browser_client.page(f"/results/{id}/nsight?view=source")
    rows = list(csv.DictReader(io.StringIO(browser_client.page(f"/results/{id}/nsight.csv?view=source"))))
    assert rows[0]["source"] == "FADD R8, R4, R12" and rows[0]["stall"] == "long_sb"


def test_overview_and_kernels(browser_client: Browser, id: str) -> None:
    text = browser_client.page(f"/results/{id}")
    assert "device time" in text and "GPU utilization" not in text and "Nsight Compute CSV" in text
    assert "2 rows" in browser_client.page(f"/results/{id}/kernels")
    assert "16×8×1" in browser_client.page(f"/results/{id}/kernels?by=configuration")


def test_kernels_of_a_trace_and_a_report(browser_client: Browser, id: str, stored: Callable[..., str]) -> None:
    other = stored(trace(), "trace0000000", name="train")
    for pair in (f"base={other}&other={id}", f"base={id}&other={other}"):
        text = browser_client.page(f"/compare/nsight?{pair}")
        assert read(text).faults == [] and 'aria-current="page">Nsight Compute' in text
        assert f"/results/{id}/nsight?launch=1" in text and f"/results/{other}/kernels?name=ampere" in text
        assert "Nsight Compute</a>" in browser_client.page(f"/compare?{pair}")
        rows = list(csv.DictReader(io.StringIO(browser_client.page(f"/compare/nsight.csv?{pair}"))))
        told = [(row["calls"], row["matched"], row["row"], row["grid"]) for row in rows]
        # The gemm of the report has another grid; the small elementwise kernel is in the report alone.
        assert told == [
            ("2", "name, grid and block", "0", "2048×1×1"),
            ("1", "name", "1", "8×1×1"),
            ("", "", "2", "512×1×1"),
        ]
        assert float(rows[0]["saving_us"]) == pytest.approx(120.001 * 0.1159)
        assert float(rows[0]["duration_us"]) == 72.928 and rows[2]["total_us"] == ""
    assert "1 kernel<" in browser_client.page(f"/compare/nsight?base={other}&other={id}&search=sgemm")
    assert "Nothing here contains" in browser_client.page(f"/compare/nsight?base={other}&other={id}&search=nowhere")
    assert "select one of each" in browser_client.page(f"/compare/nsight?base={id}&other={id}", 400)


def test_the_other_result_is_selected(browser_client: Browser, id: str, stored: Callable[..., str]) -> None:
    other = stored(trace(), "trace0000000", name="train")
    kernel = browser_client.page(f"/results/{other}/kernels?name=ampere_sgemm_128x64_nn")
    assert f"/compare/nsight?base={other}&amp;search=ampere_sgemm_128x64_nn" in kernel
    text = browser_client.page(f"/compare/nsight?base={other}&search=ampere")
    assert f"/compare/nsight?base={other}&amp;search=ampere&amp;other={id}" in text
    assert "There is no trace yet" in browser_client.page(f"/compare/nsight?other={id}")
    assert f"/results/{id}/nsight?search=ampere" in browser_client.page(
        f"/results/{id}/kernels?name=ampere_sgemm_128x64_nn"
    )
    browser_client.page("/compare/nsight", 404)


def test_no_name_becomes_markup(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(hostile(), "evil00000000", name=HOSTILE[0])
    for view in (*VIEWS, *(f"?launch={row}" for row in range(len(HOSTILE)))):
        text = browser_client.page(f"/results/{id}/nsight{view}")
        assert read(text).faults == [] and "\u202e" not in text, view
    other = stored(trace(), "trace0000000", name=HOSTILE[1])
    for address in (f"/compare/nsight?base={other}&other={id}", f"/compare/nsight?base={other}"):
        assert read(browser_client.page(address)).faults == []
    for word in WORDS:
        answer = browser_client.client.get(f"/results/{id}/nsight", query_string={word: HOSTILE[1]})
        assert answer.status_code in (200, 400) and read(answer.text).faults == [], word


def test_a_report_without_durations(browser_client: Browser, stored: Callable[..., str]) -> None:
    text = (
        '"ID","Process ID","Kernel Name","sm__throughput.avg.pct_of_peak_sustained_elapsed"\n"4","1","f(int)","12.5"\n'
    )
    id = stored(nsight_compute.read(io.BytesIO(text.encode()), "x.csv"), "untimed00000")
    for page in ("", "/nsight", "/nsight?launch=0", "/threads"):
        found = browser_client.page(f"/results/{id}{page}")
        assert read(found).faults == []
    assert "12.50" in browser_client.page(f"/results/{id}/nsight")
    assert "/kernels" not in browser_client.page(f"/results/{id}/nsight?launch=0")


def test_a_result_without_any(browser_client: Browser, stored: Callable[..., str]) -> None:
    empty = Profile(meta=report().meta)
    id = stored(empty, "empty0000000")
    for view in ("", "?view=hints", "?view=metrics", "?view=source"):
        assert read(browser_client.page(f"/results/{id}/nsight{view}")).faults == []
