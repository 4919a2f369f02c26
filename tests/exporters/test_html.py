"""The HTML report: its content, that nothing of a result becomes markup, and that a browser opens it from disk."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

from playwright.sync_api import Page

from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.exporters import get_exporter
from tests.support.profiles import profile_of
from tests.support.traced import Trace

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&"


class _Read(HTMLParser):
    """The tags, the ids and the cells of tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.cells: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), "no attribute is a script"
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href"):
                self.addresses.append(value or "")
        if tag == "td":
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells and self.tags[-1] == "td":
            self.cells[-1] += data


def written(profile: Profile, **selection: object) -> str:
    return b"".join(get_exporter("html").write(profile, Selection(**selection), {})).decode()  # type: ignore[arg-type]


def a_trace() -> Profile:
    trace = Trace()
    host, stream = trace.thread(11, "main"), trace.thread(7, stream=True)
    launch = trace.slice(host, 0, 10_000, HOSTILE)
    trace.slice(stream, 3_000, 9_000, "gemm", "kernel", launch)
    return trace.finish()


def test_report_has_graphs_and_filled_tables() -> None:
    found = _Read(written(a_trace()))
    assert set(found.ids) >= {"graph-0", "graph-1", "operators", "kernels", "hotspots", "threads"}
    assert "losses" not in found.ids, "a table without rows is left out"
    assert {"script", "iframe", "table"} <= set(found.tags) and found.tags.count("script") == 1
    assert "img" not in found.tags and HOSTILE in found.cells
    assert all(address.startswith(("#", "data:image/svg+xml;base64,")) for address in found.addresses)
    pictures = [base64.b64decode(one.partition(",")[2]).decode() for one in found.addresses if one.startswith("data:")]
    assert "gemm" in pictures[1] and "<img" not in pictures[0]


def test_only_what_is_selected() -> None:
    profile = profile_of([("main;kept", 5), ("main;gone", 7)])
    text = written(profile, ignore="gone")
    assert "Selected: ignore" in text and "kept" in _Read(text).cells and "gone" not in _Read(text).cells


def test_long_tables_say_that_they_are_cut() -> None:
    text = written(profile_of([(f"f{number}", 1) for number in range(250)]))
    assert re.search(r"The first 200 of 250 rows; <code>perfloom report ID hotspots --format csv</code>", text)


def test_a_browser_opens_it_from_disk(tmp_path: Path, page: Page) -> None:
    path = tmp_path / "report.html"
    path.write_text(written(a_trace()), encoding="utf-8")
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if request.url.startswith("http") else None)
    page.goto(path.as_uri())
    page.frame_locator("iframe").nth(1).locator("g.f", has_text="gemm").first.wait_for()
    heading = page.locator("#hotspots + div th", has_text="self").first
    place = heading.evaluate("heading => heading.cellIndex + 1")
    weights = page.locator(f"#hotspots + div tbody td:nth-child({place})")
    for _ in range(2):
        heading.click()
        order = [int(cell.get_attribute("data-value") or 0) for cell in weights.all()]
        assert (
            order == sorted(order, reverse=heading.get_attribute("aria-sort") == "descending") and len(set(order)) > 2
        )
    assert said == []
