"""The page Memory: its tables and their words, its chart, what it says where less was recorded; and in a browser."""

from __future__ import annotations

import csv
import gzip
import io
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perfloom.domain.profile import Profile
from perfloom.readers import memory_snapshot, memory_timeline, pytorch
from perfloom.store import open_store
from tests.support import paths
from tests.support.accessible import faults_in_both_schemes
from tests.support.signing import sign_in
from tests.web.conftest import EVIL, HOSTILE, ORDINARY, Browser
from tests.web.html import read
from tests.web.serving import put, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Chromium

DATA = paths.DATA
MIB = 1 << 20


def snapshot() -> Profile:
    """A training on a GPU that runs out of memory."""
    with open(DATA / "pytorch-memory" / "training.pickle", "rb") as file:
        return memory_snapshot.read(file, "snapshot")


def trace() -> Profile:
    """A training on the host, with operators."""
    with gzip.open(DATA / "pytorch" / "memory.pt.trace.json.gz") as file:
        return pytorch.read(file, "trace")  # type: ignore[arg-type]


def hostile() -> Profile:
    """A snapshot with every name hostile."""
    frames = [[{"filename": name, "name": name, "line": 1}] for name in HOSTILE]
    events: list[dict[str, Any]] = [
        {"action": "alloc", "addr": 512 * n, "size": 100, "frames": frames[n], "user_metadata": name, "time_us": n}
        for n, name in enumerate(HOSTILE)
    ]
    data = pickle.dumps({"device_traces": [events], "segments": []})
    return memory_snapshot.read(io.BytesIO(data), "snapshot")


def test_a_snapshot_shows_peak_events_and_live_blocks(browser_client: Browser, stored: Callable[..., str]) -> None:
    text = browser_client.page(f"/results/{stored(snapshot())}/memory")
    page = read(text)
    assert page.faults == []
    shown = " ".join(" ".join(page.text).split())
    assert "Peak allocated 52.4 MiB at 2.65" in shown and "Peak reserved 92.0 MiB" in shown
    assert "Largest free block 9.00 MiB" in shown and "Inactive split 17.6 MiB 2 blocks" in shown
    assert "Out of memory at 2.66 ms: 100 MiB requested; the device had 88.0 MiB free." in shown
    assert "released its cache to get 100 MiB" in shown
    assert "evaluate (/home/user/train.py:60)" in shown
    # Without slices there is nothing to tell by operator.
    assert "By operator" not in shown
    for curve in ("allocated", "reserved", "active"):
        assert f"curves-{curve}" in text
    assert "event=GPU+bytes+live+at+peak" in text


@pytest.mark.parametrize("table", ["operators", "live", "unfreed", "allocations", "live&by=block&at-ms=1"])
def test_every_table_is_sorted_searched_and_saved(
    browser_client: Browser, stored: Callable[..., str], table: str
) -> None:
    """As CSV it has the rows of the page, with the names that the command line has."""
    address = f"/results/{stored(trace())}/memory?table={table}"
    page = read(browser_client.page(address))
    assert page.faults == []
    found = list(csv.DictReader(io.StringIO(browser_client.page(address.replace("/memory?", "/memory.csv?")))))
    assert found
    name = next(name for name in ("name", "operator") if name in found[0])
    word = next(row[name] for row in found if row[name].startswith("aten::"))
    narrowed = list(
        csv.DictReader(io.StringIO(browser_client.page(address.replace("/memory?", f"/memory.csv?search={word}&"))))
    )
    assert narrowed and all(row[name].startswith(word) or word in row[name] for row in narrowed)
    sizes = [float(row["bytes"]) for row in found if "bytes" in row]
    assert sizes == sorted(sizes, reverse=True)
    column = "growth_bytes" if table == "operators" else "bytes"
    up = list(csv.DictReader(io.StringIO(browser_client.page(address.replace("?", f".csv?sort={column}&", 1)))))
    assert [float(row[column]) for row in up] == sorted(float(row[column]) for row in found)
    assert "Nothing here contains" in browser_client.page(f"{address}&search=nothing-like-it")


def test_words_that_are_none_are_refused(browser_client: Browser, stored: Callable[..., str]) -> None:
    address = f"/results/{stored(trace())}/memory"
    for words, told in (
        ("device=gpu3", "choose one of cpu"),
        ("table=everything", "table must be one of operators"),
        ("table=live&by=colour", "by must be one of"),
        ("at-ms=soon", "at-ms must be a time"),
        ("sort=password", "cannot be sorted"),
        ("rank=5", "This result has none of these ranks"),
        ("step=99", "no step"),
    ):
        assert told in browser_client.page(f"{address}?{words}", 400), words
    assert "No page 9" in browser_client.page(f"{address}?page=9")


def test_a_window_narrows_chart_and_tables(browser_client: Browser, stored: Callable[..., str]) -> None:
    """What was allocated in it; and outside of all that was recorded there is no chart."""
    address = f"/results/{stored(trace())}/memory"
    shown = " ".join(" ".join(read(browser_client.page(f"{address}?start-ms=0.5&end-ms=1.5")).text).split())
    assert "500 µs" in shown and "1.50 ms" in shown and "All of it" in shown
    assert "53" in shown
    later = read(browser_client.page(f"{address}?start-ms=100000&table=allocations"))
    assert later.faults == [] and "Nothing matches this selection" in " ".join(later.text)


def test_less_was_recorded(browser_client: Browser, stored: Callable[..., str]) -> None:
    """A timeline has categories alone; it says so, and where a snapshot would tell more."""
    with gzip.open(DATA / "pytorch" / "timeline.memory.raw.json.gz") as file:
        id = stored(memory_timeline.read(file, "timeline"))  # type: ignore[arg-type]
    # It has no event, and time can be selected all the same.
    narrowed = browser_client.page(f"/results/{id}/memory?start-ms=0&end-ms=1")
    assert "chip--active" in narrowed and 'name="start-ms" value="0"' in narrowed and "n-focus" not in narrowed
    overview = " ".join(" ".join(read(browser_client.page(f"/results/{id}")).text).split())
    assert "The recording has no events. Its data is in" in overview and "Record again" not in overview
    text = browser_client.page(f"/results/{id}/memory")
    assert "curves-part-7" in text and "AUTOGRAD_DETAIL" in text and "no addresses" not in text
    assert "no addresses" in browser_client.page(f"/results/{id}/memory?table=unfreed")
    assert "ACTIVATION" in browser_client.page(f"/results/{id}/memory?table=allocations")


def test_no_name_becomes_markup(browser_client: Browser, stored: Callable[..., str]) -> None:
    id = stored(hostile(), EVIL, name=HOSTILE[0])
    for words in ("", "?by=category", "?table=allocations", "?table=unfreed&search=" + "%3Cimg"):
        page = read(browser_client.page(f"/results/{id}/memory{words}"))
        assert page.faults == []
    for name in HOSTILE:
        for word in ("device", "table", "by", "at-ms", "search", "sort"):
            response = browser_client.client.get(f"/results/{id}/memory", query_string={word: name})
            assert response.status_code in (200, 400) and read(response.text).faults == []


@pytest.mark.slow
def test_in_a_browser(tmp_path: Path, browser: Chromium) -> None:
    """Accessible in both schemes; values under the pointer; drag to select, click to list allocations."""
    with served(tmp_path, filled=False) as here:
        store = open_store(here.settings)
        put(store, ORDINARY, "a training", snapshot())
        store.close()
        context = browser.new_context(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
        faults: list[str] = []
        context.on("weberror", lambda error: faults.append(str(error.error)))
        context.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        sign_in(context, here.entry)
        page = context.new_page()
        page.goto(f"{here.url}/results/{ORDINARY}/memory")
        assert faults_in_both_schemes(page) == []
        plot = page.locator(".memory__plot")
        box = plot.bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * 0.5, middle)
        page.wait_for_function("document.querySelector('.memory__readout').textContent.includes('allocated 22')")
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.75, middle, steps=3)
        assert page.locator(".memory__window").is_visible()
        with page.expect_navigation():
            page.mouse.up()
        assert "start-ms=1.3" in page.url and "end-ms=2.0" in page.url
        with page.expect_navigation():
            plot.click(position={"x": 5, "y": 50})
        assert "at-ms=1.3" in page.url and "table=live" in page.url and "start-ms=1.3" in page.url
        assert page.get_by_role("link", name="Live at 1.3").count() == 1
        page.set_viewport_size({"width": 400, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert faults == []
        context.close()


def test_the_legend_has_the_curves_that_are_drawn(browser_client: Browser, stored: Callable[..., str]) -> None:
    address = f"/results/{stored(trace())}/memory"
    for words in ("", "?start-ms=0.5&end-ms=1.5"):
        text = browser_client.page(address + words)
        figure, keys = text.split("memory__plot")[1].split('<ul class="memory__keys">')
        drawn = set(re.findall(r'class="curves-(?:line|area) curves-([\w-]+)"', figure))
        named = re.findall(r'class="curves-(?:line|area) curves-([\w-]+)"', keys.split("</ul>")[0])
        assert drawn and sorted(drawn) == sorted(named), words
