"""The timeline in a real browser: moving about, selecting, searching, and what the address keeps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from perfloom.domain.profile import Profile
from perfloom.store import open_store
from tests.support.signing import sign_in
from tests.support.traced import Trace
from tests.web.conftest import profile as recording
from tests.web.serving import Served, put, served
from tests.workers.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

TRACE, PERF = "trace0000000", "perf00000000"


def script(code: str) -> str:
    """A function that gives the value of an expression over `shown`, the timeline of the page."""
    module = "document.querySelector('script[src*=\"charts/timeline.js\"]').src"
    return f"async () => {{ const shown = (await import({module})).timeline(); return {code}; }}"


def trace() -> Profile:
    """Ten steps of 1 ms; in each a call that launches a kernel, which runs later."""
    made = Trace()
    host, stream = made.thread(1, "main"), made.thread(7, stream=True)
    for n in range(10):
        at = n * 1_000_000
        made.slice(host, at, at + 990_000, f"ProfilerStep#{n}", "annotation")
        made.slice(host, at + 100_000, at + 500_000, "aten::mm")
        launch = made.slice(host, at + 200_000, at + 220_000, "cudaLaunchKernel", "runtime")
        made.slice(stream, at + 400_000, at + 900_000, "sgemm", "kernel", launch)
        made.step(f"ProfilerStep#{n}", at, at + 990_000)
    made.instants.append((12_000_000, host, "aten::mm"))
    made.values("memory", "bytes", [(n * 500_000, float(n)) for n in range(20)])
    return made.finish()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), filled=False) as here:
        store = open_store(here.settings)
        put(store, TRACE, "a trace", trace())
        put(store, PERF, "a recording", recording(samples=900))
        store.close()
        yield here


class Shown:
    """A timeline on a page, and what a test asks of it."""

    def __init__(self, page: Page, server: Served) -> None:
        self.page, self.server = page, server
        sign_in(page.context, server.entry)

    def open(self, id: str, query: str = "") -> None:
        self.page.goto(f"{self.server.url}/results/{id}/timeline{query}")
        self.settle()

    def settle(self) -> None:
        """Wait until two frames in a row show the same, and nothing is on its way: what was drawn from too little at
        first is drawn again."""
        self.until(
            """(() => {
              const seen = shown.idle && JSON.stringify([shown.view.drawn, shown.view.start, shown.view.end]);
              const same = seen && seen === window.seenBefore;
              window.seenBefore = seen;
              return same;
            })()"""
        )

    def ask(self, code: str) -> Any:
        """The value of an expression over `shown`."""
        return self.page.evaluate(script(code))

    def until(self, code: str) -> None:
        # Not `wait_for_function`, which takes the promise of an async function for true.
        until(lambda: self.ask(code), code)

    @property
    def view(self) -> tuple[float, float]:
        start, end = self.ask("[shown.view.start, shown.view.end]")
        return start, end

    def words(self, word: str) -> list[str]:
        return parse_qs(urlsplit(self.page.url).query).get(word, [])

    def place(self, track: str, depth: int, ns: float) -> tuple[float, float]:
        """Where in the window a row and a time are."""
        code = f"""(() => {{
          const place = shown.view.place({track!r}, {depth});
          const {{ top }} = document.querySelector('.timeline__tracks').getBoundingClientRect();
          return [shown.view.left + shown.view.xOf({ns}), top + place.y + place.height / 2];
        }})()"""
        x, y = self.ask(code)
        return x, y


def test_a_trace_is_looked_through(page: Page, server: Served) -> None:
    shown = Shown(page, server)
    shown.open(TRACE)
    assert shown.view == (0, 12_000_000) and not shown.words("view-ms"), "everything that was recorded"
    shown.until("shown.view.drawn.labels > 20")
    # The wheel scrolls; with Ctrl, it zooms where the pointer is.
    x, y = shown.place("t0", 0, 5_300_000)
    page.mouse.move(x, y)
    page.mouse.wheel(0, 30)
    shown.until("document.scrollingElement.scrollTop > 0 || shown.view.scroll.scrollTop > 0")
    page.mouse.wheel(0, -30)
    shown.until("document.scrollingElement.scrollTop === 0 && shown.view.scroll.scrollTop === 0")
    assert shown.view == (0, 12_000_000)
    page.keyboard.down("Control")
    for _ in range(4):
        page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    shown.until("shown.view.end - shown.view.start < 2e6")
    shown.settle()
    start, end = shown.view
    assert (
        abs((x - shown.ask("shown.view.left")) * (end - start) / shown.ask("shown.view.width") + start - 5_300_000)
        < 20_000
    )
    # Dragging with Shift moves along.
    page.keyboard.down("Shift")
    page.mouse.down()
    page.mouse.move(x - 200, y, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    moved = shown.view
    assert moved[0] > start and moved[1] - moved[0] == pytest.approx(end - start)
    page.wait_for_url(re.compile("view-ms="))
    # A click tells of the slice, the arrow keys lead to those beside and inside of it.
    page.mouse.click(*shown.place("t0", 0, 5_600_000))
    panel = page.locator('[data-timeline="panel"]')
    panel.get_by_text("ProfilerStep#5").first.wait_for()
    shown.until("shown.details !== null")
    page.keyboard.press("ArrowDown")
    panel.get_by_role("heading", name="aten::mm").wait_for()
    assert panel.get_by_text("Launched 1 kernel").is_visible()
    panel.get_by_role("button", name="sgemm").click()
    panel.get_by_role("heading", name="sgemm").wait_for()
    assert panel.get_by_text("Launch delay").is_visible()
    page.keyboard.press("ArrowRight")
    # It comes into sight, and so says the address.
    shown.until("shown.details?.start_ns === 6400000 && !shown.view.moving && shown.view.end > 6900000")
    page.wait_for_function("() => parseFloat(new URL(location).searchParams.get('view-ms').split('-')[1]) > 6.9")
    shown.until("shown.view.flows.length === 1")
    assert shown.words("slice")
    selected = page.url
    # The address alone brings all of it back.
    page.goto(selected)
    shown.settle()
    shown.until("shown.details?.start_ns === 6400000")
    # A page that was just opened may not have the keyboard yet.
    page.locator('[data-timeline="scroll"]').press("Escape")
    panel.wait_for(state="hidden")
    assert not shown.words("slice")
    # Double click zooms to a slice.
    page.mouse.dblclick(*shown.place("t1", 0, 6_600_000))
    shown.until("!shown.view.moving && shown.view.end - shown.view.start < 6e5")
    page.keyboard.press("Escape")
    # Beside slices it shows all.
    page.mouse.dblclick(*shown.place("t1", 0, 6_910_000))
    shown.until("!shown.view.moving && shown.view.end - shown.view.start > 9e6")
    # Where nothing is selected, dragging zooms after Z, moves after P and selects time again after Escape.
    x, y = shown.place("t1", 0, 2_000_000)

    def drag(pixels: float) -> None:
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + pixels, y, steps=3)
        page.mouse.up()

    page.keyboard.press("z")
    drag(300)
    shown.until("!shown.view.moving && Math.abs(shown.view.start - 2e6) < 2e5")
    start, end = shown.view
    assert end - start < 6e6
    page.keyboard.press("p")
    drag(-100)
    shown.until(f"shown.view.start > {start}")
    assert shown.view[1] - shown.view[0] == pytest.approx(end - start)
    assert not shown.words("start-ms"), "nothing was selected"
    page.keyboard.press("Escape")
    seen = shown.view
    drag(300)
    page.wait_for_url(re.compile("start-ms="))
    assert shown.view == seen
    # A zoom is a step, to which the browser goes back.
    page.wait_for_url(re.compile("view-ms="))
    before = shown.words("view-ms")
    page.locator('[data-timeline="scroll"]').press("z")
    page.wait_for_function("before => new URL(location).searchParams.get('view-ms') !== before", arg=before[0])
    page.go_back()
    shown.until(f"!shown.view.moving && Math.abs(shown.view.start - {seen[0]}) < 1e3")
    assert shown.words("view-ms") == before and shown.words("start-ms")
    # Arrows of all visible slices, and those of the selected one, whose row remains above the panel.
    page.set_viewport_size({"width": 1280, "height": 480})
    shown.open(TRACE, "?flows=1&view-ms=0-3&slice=5")
    panel.get_by_role("heading", name="cudaLaunchKernel").wait_for()
    shown.until("shown.view.flows.length === 4")
    scroll = page.locator('[data-timeline="scroll"]').bounding_box()
    assert scroll is not None and shown.place("t0", 2, 0)[1] < scroll["y"] + scroll["height"]


def test_wheel_and_held_keys_are_one_history_step_each(page: Page, server: Served) -> None:
    shown = Shown(page, server)
    shown.open(TRACE)
    x, y = shown.place("t0", 0, 5_300_000)

    def length() -> int:
        return int(page.evaluate("history.length"))

    def rest() -> None:
        """Wait until the next event is another gesture, and the address has the range."""
        page.evaluate("window.since = performance.now()")
        page.wait_for_function("() => performance.now() - window.since > 700")

    def turn(delta: int) -> None:
        """Turn the wheel five times with Ctrl, without a pause."""
        page.evaluate(
            """([x, y, deltaY]) => {
              const options = { deltaY, ctrlKey: true, clientX: x, clientY: y, bubbles: true, cancelable: true };
              const canvas = document.elementFromPoint(x, y);
              for (let n = 0; n < 5; n++) canvas.dispatchEvent(new WheelEvent('wheel', options));
            }""",
            [x, y, delta],
        )
        rest()

    page.mouse.move(x - 100, y)
    page.mouse.down()
    page.mouse.move(x + 100, y, steps=3)
    page.mouse.up()
    page.wait_for_url(re.compile("start-ms="))
    selected, before = page.url, length()
    turn(-300)
    assert length() == before + 1
    zoomed, first = shown.view, page.url
    assert zoomed[1] - zoomed[0] < 2e6
    turn(300)
    assert length() == before + 2, "after a pause it is another gesture"
    page.go_back()
    shown.until(f"Math.abs(shown.view.start - {zoomed[0]}) < 1e3")
    assert page.url == first
    page.go_back()
    shown.until("shown.view.start === 0 && shown.view.end === 12e6")
    assert page.url == selected, "the selection remains"
    page.mouse.move(x, y)
    page.keyboard.down("w")
    shown.until("shown.view.end - shown.view.start < 6e6")
    page.keyboard.up("w")
    rest()
    assert length() == before + 1 and shown.words("view-ms")
    assert set(parse_qs(urlsplit(page.url).query)) == {"start-ms", "end-ms", "view-ms"}
    page.go_back()
    shown.until("shown.view.start === 0 && shown.view.end === 12e6")
    assert page.url == selected


def test_time_is_selected_searched_and_carried_to_other_pages(page: Page, server: Served) -> None:
    shown = Shown(page, server)
    shown.open(TRACE)
    left, width = shown.ask("shown.view.left"), shown.ask("shown.view.width")
    ruler = page.locator('[data-timeline="ruler"]').bounding_box()
    assert ruler is not None
    y = ruler["y"] + ruler["height"] / 2
    page.mouse.move(left + width * 2 / 12, y)
    page.mouse.down()
    page.mouse.move(left + width * 5 / 12, y, steps=4)
    page.mouse.up()
    page.wait_for_url(re.compile("start-ms="))
    page.locator(".selection .chip", has_text="Time").wait_for()
    page.keyboard.press("z")
    shown.until("!shown.view.moving && shown.view.end - shown.view.start === shown.view.range[1] - shown.view.range[0]")
    # All times in one unit, without another page; back to that which suits each.
    for unit, text in (("ns", "ns"), ("Auto", "ms")):
        page.get_by_role("group", name="Time unit").get_by_text(unit, exact=True).click()
        page.locator('[data-timeline="range-text"]', has_text=re.compile(f"[0-9]\\s{text}$")).wait_for()
    page.keyboard.press("f")
    page.keyboard.press("/")
    # Half a word stays, whatever else changes before it is searched for.
    typed = "document.activeElement.value = '^sg', document.activeElement.dispatchEvent(new Event('input'))"
    assert shown.ask(f"({typed}, shown.state.change({{ flows: '1' }}), document.activeElement.value)") == "^sg"
    page.keyboard.type("emm$")
    matched = page.locator('[data-timeline="matched"]')
    matched.get_by_text("3 · 1.50 ms").wait_for()
    page.keyboard.press("Enter")
    page.locator('[data-timeline="number"]', has_text="1 of 3").wait_for()
    page.keyboard.press("Enter")
    page.locator('[data-timeline="number"]', has_text="2 of 3").wait_for()
    # The number is shown before the details arrive.
    shown.until("shown.details?.name === 'sgemm'")
    page.keyboard.press("Escape")
    assert matched.inner_text() == ""
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    assert page.locator('[data-timeline="panel"]').is_hidden() and shown.words("start-ms")
    # Folded, pinned and filtered tracks are in the address.
    page.get_by_role("button", name="Fold main").click()
    assert shown.words("fold") == ["-/1/1"]
    page.get_by_role("button", name="Pin to the top: stream 7").focus()
    page.keyboard.press("Enter")
    assert shown.words("pin") == ["steps/-", "-/1/7"] and shown.ask("shown.tracks.pinned.length") == 2
    page.locator('[data-timeline="filter"]').fill("memory")
    assert shown.ask("shown.tracks.rest.filter((entry) => entry.track).length") == 1
    # The tabs lead to the same part of the result.
    page.get_by_role("link", name="Hotspots").click()
    page.wait_for_url(re.compile("hotspots"))
    assert shown.words("start-ms") and page.locator(".chip", has_text="Time").is_visible()
    found = page.locator("table.table tbody tr", has_text="aten::mm").first.inner_text()
    assert "1.2" in found


def test_samples_of_the_selected_time_follow_it_without_another_page(page: Page, server: Served) -> None:
    shown = Shown(page, server)
    shown.open(PERF)
    head = page.locator('[data-selected="head"]')
    assert "All time" in head.inner_text()
    page.locator('[data-timeline="selected-range"]').scroll_into_view_if_needed()
    shown.until("shown.selectedRange.panel.picture?.whole > 0 && shown.selectedRange.idle")
    whole = shown.ask("shown.selectedRange.panel.picture.whole")
    table = page.locator('[data-selected="functions"]').inner_text()
    page.evaluate("window.isSamePage = true")
    # A drag from a tenth to a fifth of the visible time.
    page.evaluate("scrollTo(0, 0)")
    left, width = shown.ask("shown.view.left"), shown.ask("shown.view.width")
    ruler = page.locator('[data-timeline="ruler"]').bounding_box()
    assert ruler is not None
    y = ruler["y"] + ruler["height"] / 2
    page.mouse.move(left + width / 10, y)
    page.mouse.down()
    page.mouse.move(left + width / 5, y, steps=4)
    page.mouse.up()
    head.get_by_role("heading", name="Selected time").wait_for()
    shown.until(f"shown.selectedRange.idle && shown.selectedRange.panel.picture.whole < {whole / 5}")
    assert page.locator('[data-selected="functions"]').inner_text() != table
    flamegraph = head.get_by_role("link", name="Whole graph").get_attribute("href") or ""
    assert parse_qs(urlsplit(flamegraph).query)["start-ms"] == shown.words("start-ms")
    # A zoom into the graph is one step, the selection another.
    shown.ask("shown.selectedRange.panel.zoomTo(shown.selectedRange.panel.picture.ids[1])")
    assert shown.words("zoom")
    page.go_back()
    shown.until("shown.state.zoom === null")
    page.go_back()
    head.get_by_role("heading", name="All time").wait_for()
    shown.until(f"shown.selectedRange.idle && shown.selectedRange.panel.picture.whole === {whole}")
    page.go_forward()
    head.get_by_role("heading", name="Selected time").wait_for()
    assert page.evaluate("window.isSamePage"), "the page was loaded again"


def test_stacks_of_a_thread_are_rows(page: Page, server: Served) -> None:
    shown = Shown(page, server)
    shown.open(PERF)
    page.get_by_role("button", name="Unfold worker-1").click()
    assert shown.words("stacks") == ["-/100/101"]
    parts = "shown.tracks.placed('t1').parts.map((part) => part.what)"
    assert set(shown.ask(parts)) == {"stacks", "ticks", "counter"}
    shown.settle()
    # A function of the outermost row: its occurrences are marked, and its details are those of the samples.
    page.mouse.click(*shown.place("t1", 0, 300_000_000))
    panel = page.locator('[data-timeline="panel"]')
    panel.get_by_role("heading", name=re.compile("^main: ")).wait_for()
    panel.get_by_role("button", name="Find ").first.click()
    page.locator('[data-timeline="matched"]:not(:empty)').wait_for()
    page.keyboard.press("n")
    page.locator('[data-timeline="number"]', has_text="1 of").or_(
        page.locator('[data-timeline="number"]', has_text=" of ")
    ).first.wait_for()
    # All tracks, then all but one.
    page.get_by_role("button", name="Unfold", exact=True).click()
    assert shown.words("stacks") == ["all"]
    page.get_by_role("button", name="Fold worker-1").click()
    assert shown.words("fold") == ["-/100/101"] and shown.ask(parts)[0] == "lane"
    page.get_by_role("button", name="Fold", exact=True).click()
    assert not shown.words("stacks")


def test_a_recording_has_a_lane_for_each_thread(page: Page, server: Served) -> None:
    shown = Shown(page, server)
    shown.open(PERF)
    # The CPUs in use by the process; threads; CPUs; rates of the events, and a formula.
    assert (
        shown.ask("shown.tracks.rest.filter((entry) => entry.track).map((entry) => entry.parts[0].what)")
        == ["counter"] + ["lane"] * 5 + ["counter"] * 3
    )
    assert shown.ask("shown.tracks.placed('t0').parts.map((part) => part.label ?? '')") == [
        "",
        "page-faults",
        "CPU use",
    ]
    assert page.get_by_label("Flows").is_hidden(), "there are none without slices"
    shown.settle()
    # In one look: between two of them the picture may be cleared to be drawn again.
    many = "shown.idle && shown.view.drawn.boxes > 100 && shown.view.drawn.boxes"
    drawn = until(lambda: shown.ask(many), many)
    page.keyboard.press("w")
    shown.until("shown.view.start > shown.view.extent.start")
    page.keyboard.press("f")
    shown.until("!shown.view.moving && shown.view.start <= shown.view.extent.start")
    shown.settle()
    # What is cut where one answer ends is drawn in two.
    shown.until(f"shown.idle && Math.abs(shown.view.drawn.boxes - {drawn}) <= {drawn / 10}")
    page.mouse.click(*shown.place("t0", 0, 300_000_000))
    panel = page.locator('[data-timeline="panel"]')
    panel.get_by_role("heading", name="Functions").wait_for()
    panel.get_by_role("link", name="Flame graph of this time and thread").click()
    page.wait_for_url(re.compile("flamegraph.*thread="))
    assert shown.words("start-ms")
