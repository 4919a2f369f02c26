"""The pages of a result, served by gunicorn and opened in Chromium."""

import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfloom.config import Settings
from perfloom.store import open_store
from perfloom.web.pages import RESULT_PAGES

from .. import flamegraph_page
from ..flamegraph_page import ARGUMENTS, TOKEN
from ..pytorch_reading import wait_for_settling
from ..reading import run
from .programs import PERFLOOM
from .suites import own_environment

TIMING = """() => {
    const page = performance.getEntriesByType("navigation")[0];
    const paint = performance.getEntriesByName("first-contentful-paint")[0];
    const loaded = performance.getEntriesByType("resource");
    const bytes = loaded.reduce((sum, one) => sum + one.transferSize, page.transferSize);
    return [page.responseEnd - page.requestStart, bytes, paint ? paint.startTime : null];
}"""
SETTLED_MS = 300


@dataclass(frozen=True)
class PageFigures:
    """Of one page. server_ms: from the request until the whole answer, the first time and the median of others.
    transfer_bytes: with scripts and styles, in a cache-less browser. paint_ms: until the first contentful paint."""

    name: str
    first_ms: float
    server_ms: float
    transfer_bytes: int
    paint_ms: float | None


@dataclass(frozen=True)
class BrowserFigures:
    """pages: of each page. samples: of the result. frames: by gesture (median ms, ms of 95 %) between two frames of the
    screen while 100,000 frames of a flame graph are drawn."""

    samples: int
    pages: tuple[PageFigures, ...]
    frames: dict[str, tuple[float, float]]


def measure_pages(recording: Path, folder: Path, rounds: int) -> BrowserFigures | str:
    """Import a recording and open its pages. Returns why that is not possible."""
    chromium = flamegraph_page.find_chromium()
    if chromium is None:
        return "Chromium is not installed: apt-get install chromium"
    from playwright.sync_api import Error as BrowserError
    from playwright.sync_api import sync_playwright

    own = own_environment(folder)
    run([*PERFLOOM, "import", recording], folder / "id", own)
    wait_for_settling()
    id = (folder / "id").read_text().split()[0]
    environment = (
        {k: v for k, v in os.environ.items() if not k.startswith("PERFLOOM_")} | own | {"PERFLOOM_TOKEN": TOKEN}
    )
    store = open_store(Settings.load(environ=environment))
    profile = store.results.open(id)
    keys = [page.key for page in RESULT_PAGES if page.has_data(profile)]
    samples = profile.samples.num_rows
    store.close()
    with flamegraph_page.serve(environment) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        opened = browser.new_page(viewport={"width": 1920, "height": 1080})
        opened.goto(f"{url}/?token={TOKEN}")
        pages = []
        for key in keys:
            found = [_open(opened, f"{url}/results/{id}/{key}".rstrip("/")) for _ in range(rounds + 1)]
            again = found[1:]
            paints = [paint for _, _, paint in again if paint is not None]
            pages.append(
                PageFigures(
                    key or "overview",
                    found[0][0],
                    statistics.median(one[0] for one in again),
                    int(found[0][1]),
                    statistics.median(paints) if paints else None,
                )
            )
        try:
            times = flamegraph_page.measure_frames(opened, f"{url}/results/{id}/flamegraph")
        except BrowserError as error:
            # The other figures took minutes.
            return f"Chromium: {str(error).splitlines()[0]}"
        frames = {action: (statistics.median(gaps), gaps[int(0.95 * len(gaps))]) for action, (gaps, _) in times.items()}
        browser.close()
    return BrowserFigures(samples, tuple(pages), frames)


def _open(page: Any, address: str) -> tuple[float, float, float | None]:
    page.goto(address, wait_until="load")
    page.wait_for_timeout(SETTLED_MS)
    server_ms, transferred, paint_ms = page.evaluate(TIMING)
    return server_ms, transferred, paint_ms
