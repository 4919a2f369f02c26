"""The page of Nsight Compute: launches, one of them, hints, metrics, instructions; and beside a trace."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from perfloom.domain.profile import Profile
from perfloom.readers import nsight_compute
from tests.web.conftest import HOSTILE, Browser
from tests.web.html import read

DATA = Path(__file__).parent.parent / "data" / "nsight"
VIEWS = ("", "?view=hints", "?view=metrics", "?view=source", "?launch=1", "?launch=1&view=source")
WORDS = ("view", "launch", "section", "sort", "page", "search")


def report() -> Profile:
    """All three pages of the report in tests/data/nsight."""
    data = b"".join((DATA / f"{name}.csv").read_bytes() for name in ("raw", "details", "source"))
    return nsight_compute.read(io.BytesIO(data), "x.csv")


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
        "one after the other",
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
    assert "there is no 3" in browser_client.page(f"/results/{id}/nsight?launch=3", 404)
    assert "whole number" in browser_client.page(f"/results/{id}/nsight?launch=x", 400)


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
    assert "device time" in text and "GPU utilisation" not in text and "CSV of Nsight Compute" in text
    assert "2 rows" in browser_client.page(f"/results/{id}/kernels")
    assert "12,288" in browser_client.page(f"/results/{id}/kernels?by=configuration") or "12 KiB"


def test_no_name_becomes_markup(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(hostile(), "evil00000000", name=HOSTILE[0])
    for view in (*VIEWS, *(f"?launch={row}" for row in range(len(HOSTILE)))):
        text = browser_client.page(f"/results/{id}/nsight{view}")
        assert read(text).faults == [] and "\u202e" not in text, view
    for word in WORDS:
        answer = browser_client.client.get(f"/results/{id}/nsight", query_string={word: HOSTILE[1]})
        assert answer.status_code in (200, 400) and read(answer.text).faults == [], word


def test_a_result_without_any(browser_client: Browser, stored: Callable[..., str]) -> None:
    empty = Profile(meta=report().meta)
    id = stored(empty, "empty0000000")
    for view in ("", "?view=hints", "?view=metrics", "?view=source"):
        assert read(browser_client.page(f"/results/{id}/nsight{view}")).faults == []
