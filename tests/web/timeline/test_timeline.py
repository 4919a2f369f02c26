"""The page of a timeline and its data over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest

from perfloom.analysis.timeline import model
from perfloom.domain.profile import Profile
from perfloom.readers import READERS
from perfloom.store import Store
from perfloom.store.files import timelines
from tests.support.formats import DATA
from tests.support.traced import Trace
from tests.web.conftest import EXPRESSION, HOSTILE, Browser
from tests.web.conftest import profile as recording
from tests.web.html import read

API = "/api/v1/results/ordinary0000/timeline"


def trace(names: tuple[str, ...] = ("forward", "aten::mm", "sgemm", "memory", "ProfilerStep#1")) -> Profile:
    """Two ranks: a thread that launches, a stream whose work overlaps, steps, a counter, instants; under these names."""
    outer, inner, kernel, series, step = names[:5]
    made = Trace()
    for rank in range(2):
        host, stream = (
            made.thread(1, names[-1] if len(names) > 5 else "main", rank=rank),
            made.thread(7, rank=rank, stream=True),
        )
        made.slice(host, 0, 1_000_000, outer, "annotation")
        call = made.slice(
            host, 100_000, 200_000, inner, arguments={"Input Dims": [[2, 3]], names[0]: names[1]}, correlation=7
        )
        launch = made.slice(host, 120_000, 130_000, "cudaLaunchKernel", "runtime")
        made.slice(stream, 300_000, 500_000, kernel, "kernel", launch)
        made.slice(stream, 400_000, 600_000, kernel, "kernel", launch)
        made.flows.append((call, launch))
        made.step(step, 0, 1_000_000, rank)
        made.values(series, "bytes", [(0, 5.0), (500_000, 1e9)], rank)
        made.instants += [(250_000, host, outer), (1_200_000, host, outer)]
    return made.finish()


def test_a_trace_and_what_is_asked_of_it(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(trace())

    def ask(path: str = "", status: int = 200) -> Any:
        return json.loads(browser_client.page(API + path, status))

    told = ask()
    assert (told["start_ns"], told["end_ns"], told["first_ns"], told["last_ns"]) == (0, 1_200_000, 0, 1_200_000)
    kinds = [(track["kind"], track["group"]) for track in told["tracks"]]
    assert [kind for kind, _ in kinds] == [
        "steps",
        "steps",
        *("stream", "counter", "thread") * 2,
        "counter",
        "counter",
    ]
    assert {track["rows"] for track in told["tracks"] if track["kind"] == "stream"} == {2}, (
        "overlap is shown side by side"
    )
    assert len(told["busy"]["host"]["values"]) == len(told["busy"]["device"]["values"])
    host, stream = (next(t["id"] for t in told["tracks"] if t["kind"] == kind) for kind in ("thread", "stream"))
    bands = f"{host}.0-15,{host}.l,{host}.i,{stream}.0-15,s0,c0"
    busy = ask("/view?from=0&to=1000000&width=1000&bands=u0,u1")["bands"]
    assert busy["u0"] == busy["u1"] and busy["u0"]["low"] and busy["u0"]["high"] == busy["u0"]["low"]
    assert (busy["u0"]["high"][0], max(busy["u0"]["high"]), busy["u0"]["high"][-1]) == (0, 100, 0)
    ask("/view?from=0&to=1000000&width=1000&bands=u2", 400)
    view = ask(f"/view?from=0&to=1000000&width=1000&bands={bands}")
    assert set(view["bands"]) == set(bands.split(","))
    assert view["names"]["name"][view["bands"]["s0"]["name"][0]] == "ProfilerStep#1"
    call = ask(f"/at?band={host}.0-15&row=1&from=90000&to=210000")
    assert call["name"] == "aten::mm" and call["arguments"] == {
        "Input Dims": [[2, 3]],
        "forward": "aten::mm",
        "correlation": 7,
    }
    assert call["launched"]["count"] == 2 and call["steps"] == ["ProfilerStep#1"]
    assert [flow["name"] for flow in call["flows"]] == ["cudaLaunchKernel"]
    assert ask(f"/slices/{call['slice']}") == call
    kernel = ask(f"/slices/{call['launched']['first'][0]['slice']}")
    assert kernel["work"]["launch"]["name"] == "cudaLaunchKernel" and kernel["work"]["delay_ns"] == 180_000
    assert ask(f"/at?band={host}.l&from=0&to=1000000")["functions"][0]["name"] == "forward"
    assert ask(f"/at?band={host}.i&from=0&to=1000000")["instants"][0]["time_ns"] == 250_000
    assert ask("/at?band=s0&from=0&to=10")["name"] == "ProfilerStep#1"
    assert ask("/flows?from=0&to=1000000")["count"] == 6
    assert ask("/search?q=sgemm") == {
        "functions": [kernel["function"]],
        "hits": 4,
        "total": 800_000,
        "unit": "ns",
        "percent": None,
        "is_literal": False,
    }
    hit = ask("/search/next?q=sgemm&from=0")
    assert (hit["number"], hit["of"], hit["start_ns"]) == (0, 4, 300_000)
    assert ask(f"/search/next?q=sgemm&row={hit['row']}&back=1")["number"] == 3
    literal = ask("/search?q=sgemm(")
    assert literal["is_literal"] and literal["hits"] == 0 and not ask("/search?q=sgemm")["is_literal"]
    of_one = [track["name"] for track in ask("?rank=1")["tracks"]]
    assert of_one == ["Steps, rank 1", "stream 7", "device busy", "main 1", "memory"]
    assert [track["kind"] for track in ask("?search=stream+rank&rank=1")["tracks"]] == ["stream"]
    for wrong, status in (
        ("/view?from=0&to=1000&bands=t9999.l", 400),
        ("/view?from=9&to=1&bands=", 400),
        ("/view?from=0x&to=1&bands=", 400),
        (f"/at?band={host}.0-15&row=99&from=0&to=9", 400),
        (f"/at?band={host}.0-15&row=1&from=0&to=9", 404),
        ("/at?from=0&to=9", 400),
        ("/slices/99999", 404),
        ("/search/next?q=nothing-like-it", 404),
    ):
        assert ask(wrong, status)["error"]


def test_page_without_scripts_has_a_picture_and_a_table(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(trace())
    page = browser_client.page("/results/ordinary0000/timeline")
    assert read(page).faults == [] and "stream 7" in page and "rank 1" in page
    picture = browser_client.page("/results/ordinary0000/timeline.svg")
    assert "aten::mm" in picture and "<script" not in picture
    ElementTree.fromstring(picture.encode())
    narrowed = browser_client.page("/results/ordinary0000/timeline.svg?start-ms=0.5&end-ms=0.9&rank=1")
    assert "aten::mm" not in narrowed and "forward" in narrowed


@pytest.mark.parametrize(
    ("format", "file"), [("perf-stat", "perf-stat/run.json"), ("callgrind", "callgrind/calls.out")]
)
def test_timeline_without_times_shows_the_reason_only(
    stored: Callable[..., str], browser_client: Browser, format: str, file: str
) -> None:
    with open(DATA / file, "rb") as data:
        stored(READERS[format].read(data, file))
    page = browser_client.page("/results/ordinary0000/timeline")
    assert read(page).faults == [] and "There is nothing to draw" in page
    for part in ('data-timeline="root"', "data-view=", "chart-hint", "charts/timeline.js", "<iframe", "Zoom in"):
        assert part not in page


def test_timeline_of_an_empty_selection_hides_its_controls(stored: Callable[..., str], browser_client: Browser) -> None:
    made = Trace()
    for rank in range(2):
        made.slice(made.thread(1, f"main {rank}", rank=rank), 0, 1_000_000, "forward", "annotation")
    stored(made.finish())
    empty = browser_client.page("/results/ordinary0000/timeline?rank=0&thread=main+1")
    assert "Nothing matches this selection" in empty and "timeline--empty" in empty and "<iframe" not in empty
    assert "timeline--empty" not in browser_client.page("/results/ordinary0000/timeline")


def test_hostile_names_stay_text(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(trace(HOSTILE))
    for address in ("/results/ordinary0000/timeline", "/results/ordinary0000/timeline.svg"):
        text = browser_client.page(address)
        assert "<script>window" not in text and "<img src=x" not in text and EXPRESSION not in text.replace("&#", "")
    ElementTree.fromstring(browser_client.page("/results/ordinary0000/timeline.svg").encode())
    json.loads(browser_client.page(API))


def test_a_large_timeline_is_prepared_in_the_background_and_kept(
    stored: Callable[..., str], store: Store, browser_client: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "SMALL_ROWS", 0)
    looked_at = threading.Event()
    prepare = model.prepare_timeline
    monkeypatch.setattr(timelines, "prepare_timeline", lambda profile: looked_at.wait(60) and prepare(profile))
    stored(trace())
    response = browser_client.client.get(API)
    assert response.status_code == 202 and "being prepared" in response.text
    assert "being prepared" in browser_client.page("/results/ordinary0000/timeline")
    looked_at.set()
    for thread in list(store.timelines._running.values()):
        thread.join()
    assert browser_client.client.get(API).status_code == 200
    (kept,) = store.results.cache("ordinary0000").iterdir()
    # Another process finds it; without it, or with a damaged one, it is made again.
    again = timelines.Timelines(store.results.cache)
    profile = store.results.open("ordinary0000")
    assert again.get("ordinary0000", profile) is not None
    kept.write_bytes(kept.read_bytes()[:100])
    once_more = timelines.Timelines(store.results.cache)
    assert once_more.get("ordinary0000", profile) is None
    for thread in list(once_more._running.values()):
        thread.join()
    assert once_more.get("ordinary0000", profile) is not None


def test_what_an_earlier_version_kept_is_not_shown_and_goes(
    stored: Callable[..., str], store: Store, browser_client: Browser
) -> None:
    """timeline-1 drew samples for twice their usual distance."""
    stored(trace())
    cache = store.results.cache("ordinary0000")
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "timeline-1").write_bytes(b"of an earlier version")
    (cache / "other").write_bytes(b"")
    assert browser_client.client.get(API).status_code == 200
    assert sorted(path.name for path in cache.iterdir()) == ["other", model.CACHE_NAME]
    assert model.CACHE_NAME != "timeline-1"


def test_error_during_preparation_is_reported(
    stored: Callable[..., str], store: Store, browser_client: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "SMALL_ROWS", 0)
    monkeypatch.setattr(timelines, "prepare_timeline", lambda profile: 1 // 0)
    stored(trace())
    assert browser_client.client.get(API).status_code == 202
    for thread in list(store.timelines._running.values()):
        thread.join()
    response = browser_client.client.get(API)
    assert response.status_code == 503 and "see the server's log" in response.text


def test_details_of_cpus_other_events_and_call_stacks(stored: Callable[..., str], browser_client: Browser) -> None:
    stored(recording(samples=900))

    def ask(path: str) -> Any:
        return json.loads(browser_client.page(API + path))

    told = ask("")
    whole = f"from={told['first_ns']}&to={told['last_ns'] + 1}"
    thread = next(track for track in told["tracks"] if track["kind"] == "thread")
    assert thread["stacks"] > 1 and thread["has_cpu_use"]
    assert [ticks["name"] for ticks in thread["ticks"]] == ["page-faults"]
    on_cpu = ask(f"/at?band=x1&{whole}")
    # Samples of the clock on every second CPU, by all threads.
    assert (on_cpu["thread"], on_cpu["event"], on_cpu["samples"]) == ("", "cpu-clock", 450)
    assert sorted(on_cpu["thread_name"].split(", ")) == ["worker-0 100", "worker-1 101", "worker-2 102"]
    ticks = ask(f"/at?band={thread['id']}.e{thread['ticks'][0]['event']}&{whole}")
    assert (ticks["event"], ticks["samples"]) == ("page-faults", thread["ticks"][0]["samples"])
    stacks = ask(f"/at?band={thread['id']}.k0-15&row=0&{whole}")
    assert (stacks["name"], stacks["samples"]) == ("main", thread["samples"])
    rows = browser_client.page("/results/ordinary0000/timeline.svg?stacks=all")
    assert rows.count(">main<") > browser_client.page("/results/ordinary0000/timeline.svg").count(">main<")
    assert "stacks=all" in browser_client.page("/results/ordinary0000/timeline")
