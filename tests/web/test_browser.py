"""The pages in a real browser on the real server: no violation of the policy, no error, accessible, at every width."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perfloom.store import open_store
from tests.analysis.distributed.test_communication import pair
from tests.support.accessible import faults, faults_in_both_schemes
from tests.support.signing import sign_in
from tests.web.conftest import EVIL, ORDINARY, TOKEN, profile
from tests.web.serving import Served, put, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

RESULT = (
    *(
        "",
        "/timeline",
        "/hotspots",
        "/heatmap",
        "/heatmap?start-ms=100&end-ms=300",
        "/hotspots?by=thread",
        "/threads",
        "/matrix",
        "/matrix?by=thread&shade=row&cells=percent",
        "/counts",
        "/losses",
        "/export",
    ),
    *("/edit", "/delete"),
)
NARROWED = "/hotspots?event=page-faults&thread=-/100/101&end-ms=3000&focus=main&ignore=nothing&hide=parse"
PAGES = (
    "/",
    "/?search=nothing-like-it",
    "/import",
    "/tracer",
    "/compare",
    "/nothing",
    *(f"/results/{ORDINARY}{tab}" for tab in RESULT),
)
COMPARE = f"/compare?base={ORDINARY}&other=another00000"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), filled=True) as here:
        yield here


@pytest.fixture(scope="module")
def empty_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("empty"), filled=False) as here:
        yield here


class Watched:
    """A browsing context that remembers everything that went wrong in it."""

    def __init__(self, context: BrowserContext, entry: str) -> None:
        self.faults: list[str] = []
        self.expected: set[int] = set()
        context.set_default_timeout(20_000)
        context.on("weberror", lambda error: self.faults.append(f"uncaught: {error.error}"))
        context.on("console", self._console)
        sign_in(context, entry)
        self.page = context.new_page()

    def _console(self, message: Any) -> None:
        status = re.search(r"status of (\d+)", message.text)
        if status and int(status[1]) in self.expected:
            return
        if message.type in ("error", "warning") or "Content Security Policy" in message.text:
            self.faults.append(f"{message.type} on {self.page.url}: {message.text}")


@pytest.fixture
def watch(browser: Browser, server: Served) -> Iterator[Callable[..., Watched]]:
    opened: list[tuple[Any, Watched]] = []

    def open(here: Served = server, **options: Any) -> Watched:
        options.setdefault("viewport", {"width": 1280, "height": 800})
        context = browser.new_context(**options)
        watched = Watched(context, here.entry)
        opened.append((context, watched))
        return watched

    yield open
    for context, watched in opened:
        context.close()
        assert watched.faults == []


@pytest.fixture
def page(watch: Callable[..., Watched]) -> Page:
    opened: Page = watch().page
    return opened


@pytest.mark.slow
def test_accessible(watch: Callable[..., Watched], server: Served) -> None:
    watched = watch()
    watched.expected = {404}
    problems = {}
    for path in (*PAGES, f"/results/{ORDINARY}{NARROWED}", f"/results/{EVIL}", COMPARE):
        watched.page.goto(server.url + path)
        found = faults_in_both_schemes(watched.page)
        if found:
            problems[path] = found
    assert problems == {}


@pytest.mark.slow
def test_the_login_and_the_welcome_are_accessible(
    watch: Callable[..., Watched], browser: Browser, server: Served, empty_server: Served
) -> None:
    welcome = watch(empty_server).page
    welcome.goto(empty_server.url)
    assert "See where the time goes" in welcome.inner_text("main")
    assert faults_in_both_schemes(welcome) == []
    context = browser.new_context()
    login = context.new_page()
    login.goto(f"{server.url}/?token=wrong")
    assert "not the token" in login.inner_text("main")
    assert faults_in_both_schemes(login) == []
    context.close()


@pytest.mark.slow
def test_nothing_is_wider_than_the_window(watch: Callable[..., Watched], server: Served) -> None:
    watched = watch()
    watched.expected = {404}
    paths = (*PAGES, f"/results/{ORDINARY}{NARROWED}", COMPARE, f"/results/{EVIL}/hotspots", f"/results/{EVIL}/losses")
    for path in paths:
        watched.page.goto(server.url + path)
        for width in (360, 768, 2560):
            watched.page.set_viewport_size({"width": width, "height": 800})
            assert watched.page.evaluate("document.documentElement.scrollWidth") <= width, path
            menu = watched.page.locator("details.menu")
            if menu.count():
                menu.first.locator("> summary").click()
                wide = watched.page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, f"{path} with its menu"
                menu.first.locator("> summary").click()


@pytest.mark.slow
def test_pages_of_a_trace(watch: Callable[..., Watched], server: Served) -> None:
    store = open_store(server.settings)
    put(store, "trace0000000", "two ranks", pair())
    page = watch().page
    for tab in ("", "/steps", "/communication"):
        page.goto(f"{server.url}/results/trace0000000{tab}")
        assert faults_in_both_schemes(page) == [], tab
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, tab
        page.set_viewport_size({"width": 1280, "height": 800})
    store.results.delete("trace0000000")
    store.close()


def test_no_hostile_name_does_anything(page: Page, server: Served) -> None:
    for tab in RESULT[:-2]:
        page.goto(f"{server.url}/results/{EVIL}{tab}")
        assert page.evaluate("window.pwned") is None
    page.goto(server.url)
    assert page.evaluate("window.pwned") is None


def test_the_token_leaves_the_address(page: Page, server: Served) -> None:
    page.context.clear_cookies()
    page.goto(server.entry)
    assert page.url == f"{server.url}/"
    assert TOKEN not in page.content()
    assert TOKEN not in server.log.read_text()


def test_keys(page: Page, server: Served) -> None:
    page.goto(server.url)
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    assert faults(page) == []
    page.keyboard.press("Escape")
    assert not page.locator("#keys").is_visible()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("?/another")
    assert page.input_value("#search") == "?/another"
    page.fill("#search", "another")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server.url}/?search=another")
    page.click("h1")
    page.keyboard.press("g")
    page.keyboard.press("i")
    page.wait_for_url(f"{server.url}/import")
    page.goto(f"{server.url}/results/{ORDINARY}")
    page.keyboard.press("5")
    page.wait_for_url(f"{server.url}/results/{ORDINARY}/hotspots")


def test_two_are_ticked_and_compared(page: Page, server: Served) -> None:
    page.goto(server.url)
    boxes = page.locator("tbody input[type=checkbox]")
    button = page.get_by_role("button", name="Compare")
    for number in range(3):
        boxes.nth(number).check()
    assert button.is_disabled()
    page.get_by_label("Select <script>", exact=False).uncheck()
    assert button.inner_text() == "Compare 2 of 2"
    button.click()
    page.wait_for_url(f"{server.url}{COMPARE}")
    page.wait_for_selector("canvas")


def background(page: Page) -> str:
    found: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return found


def test_color_scheme_can_be_selected(watch: Callable[..., Watched], server: Served) -> None:
    page = watch(color_scheme="light").page
    page.goto(server.url)
    light = background(page)
    page.click('[aria-label="Colors: Dark"]')
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    dark = background(page)
    assert dark != light
    page.goto(f"{server.url}/import")
    assert background(page) == dark and page.get_attribute("html", "data-theme") == "dark"
    page.click('[aria-label="Colors: As the system"]')
    page.wait_for_function("document.documentElement.dataset.theme === 'system'")
    assert background(page) == light
    page.emulate_media(color_scheme="dark")
    assert background(page) == dark


def test_sorting_searching_and_sticky_headings(page: Page, server: Served) -> None:
    page.goto(f"{server.url}/results/{ORDINARY}/hotspots")
    page.click("thead >> text=Total")
    page.wait_for_url("**sort=-total")
    assert page.get_attribute("thead th[aria-sort]", "aria-sort") == "descending"
    page.mouse.wheel(0, 1500)
    page.wait_for_function("window.scrollY > 300")
    box = page.locator("thead th").first.bounding_box()
    assert box is not None and 0 <= box["y"] < 100
    page.keyboard.press("/")
    page.keyboard.type("function_44")
    page.keyboard.press("Enter")
    page.wait_for_url("**sort=-total&search=function_44")
    assert page.locator("tbody tr").count() <= 11


def test_the_tabs_stay_where_they_are(page: Page, server: Served) -> None:
    places = []
    for tab in ("", "/flamegraph", "/hotspots", "/counts", "/threads"):
        page.goto(f"{server.url}/results/{ORDINARY}{tab}")
        places.append(page.locator(".tabs").bounding_box())
    assert all(place == places[0] for place in places), places


def test_the_main_navigation_shows_the_current_entry_in_a_narrow_window(page: Page, server: Served) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{server.url}/targets")
    box = page.locator(".top__nav [aria-current]").bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_narrowing_by_the_form_and_taking_it_back(page: Page, server: Served) -> None:
    page.goto(f"{server.url}/results/{ORDINARY}/threads")
    page.click("summary >> text=Filter")
    page.fill("#n-focus", "parse|main")
    page.fill("#n-end", "1000")
    page.click("button >> text=Filter")
    page.wait_for_url(f"{server.url}/results/{ORDINARY}/threads?focus=parse%7Cmain&end-ms=1000")
    page.click("text=Hotspots")
    page.wait_for_url("**/hotspots?end-ms=1000&focus=parse%7Cmain")
    page.click('[aria-label="Remove Focus parse|main"]')
    page.wait_for_url("**/hotspots?end-ms=1000")
    page.click("text=Reset")
    page.wait_for_url("**/hotspots")


def test_a_command_can_be_copied(watch: Callable[..., Watched], server: Served) -> None:
    page = watch(permissions=["clipboard-read", "clipboard-write"]).page
    page.goto(f"{server.url}/results/{ORDINARY}")
    page.locator("[data-copy]").first.click()
    page.wait_for_selector("text=Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "python3 -m workload"


def test_deleting(page: Page, server: Served) -> None:
    store = open_store(server.settings)
    put(store, "doomed000000", "a doomed result", profile())
    store.close()
    page.goto(server.url)
    assert "4 results" in page.inner_text("main")
    page.click('[aria-label="Delete a doomed result"]')
    page.click("button >> text=Delete")
    page.wait_for_url(f"{server.url}/")
    assert "Deleted “a doomed result”." in page.inner_text("main")
    assert "3 results" in page.inner_text("main")


class TestImport:
    @pytest.fixture
    def recording(self, tmp_path: Path) -> Path:
        path = tmp_path / "the run.perf.txt"
        path.write_text("python3 100 1.000001: 10 cycles: \n\t7f00 main (/bin/x)\n\n")
        return path

    def jobs(self, server: Served) -> list[str]:
        store = open_store(server.settings)
        try:
            return [job.name for job in store.jobs.list()]
        finally:
            store.close()

    def test_by_the_dialog(self, page: Page, server: Served, recording: Path) -> None:
        page.goto(f"{server.url}/import")
        page.set_input_files("#file", recording)
        assert "the run.perf.txt" in page.inner_text("[data-files]")
        page.fill("#f-name", "from the dialog")
        page.click("[data-send]")
        page.wait_for_url("**/jobs/*")
        assert "from the dialog" in self.jobs(server)

    def test_by_dropping(self, page: Page, server: Served) -> None:
        page.goto(f"{server.url}/import")
        transfer = page.evaluate_handle(
            "() => { const t = new DataTransfer(); t.items.add(new File(['x 1\\n'], 'dropped one.txt'));"
            " t.items.add(new File(['y 1\\n'], 'dropped two.txt')); return t; }"
        )
        page.dispatch_event("[data-drop]", "dragenter", {"dataTransfer": transfer})
        assert page.get_attribute("[data-drop]", "data-over") == ""
        page.dispatch_event("[data-drop]", "drop", {"dataTransfer": transfer})
        assert page.locator("[data-files] li").count() == 2
        page.click("[data-send]")
        page.wait_for_url(f"{server.url}/")
        assert {"dropped one.txt", "dropped two.txt"} <= set(self.jobs(server))

    def test_ranks_are_recognized(self, page: Page, server: Served, tmp_path: Path) -> None:
        for rank in (2, 10, 9):
            (tmp_path / f"trace.rank{rank}.json").write_text("{}")
        page.goto(f"{server.url}/import")
        assert not page.is_visible("[data-together]"), "one file has no ranks"
        page.set_input_files("#file", [tmp_path / f"trace.rank{rank}.json" for rank in (10, 2, 9)])
        page.wait_for_selector("[data-ranks]:visible")
        assert page.get_by_label("Import as one result with 3 ranks").is_checked()
        assert "rank 2, rank 9, rank 10" in page.inner_text("[data-ranks]")
        assert page.inner_text("[data-files] li:last-child span").startswith("trace.rank10")
        assert faults_in_both_schemes(page) == []
        page.click("[data-send]")
        page.wait_for_url("**/jobs/*")
        assert "trace.rank*.json" in self.jobs(server)
        page.goto(f"{server.url}/import")
        (tmp_path / "notes.txt").write_text("x 1\n")
        page.set_input_files(
            "#file", [tmp_path / name for name in ("trace.rank9.json", "notes.txt", "trace.rank2.json")]
        )
        assert page.get_by_label("Import as one result with 2 ranks, the other file separately").is_checked()
        assert page.inner_text("[data-ranks]").startswith("2 of these files look like the ranks of one run.")
        assert page.inner_text("[data-files] li:last-child span").startswith("notes.txt")
        page.goto(f"{server.url}/import")
        page.set_input_files("#file", [tmp_path / "trace.rank2.json", tmp_path / "trace.rank9.json"])
        page.get_by_label("Import as 2 results").check()
        page.click("[data-send]")
        page.wait_for_url(f"{server.url}/")
        assert {"trace.rank2.json", "trace.rank9.json"} <= set(self.jobs(server))

    def test_other_files_are_not_merged_unless_asked(self, page: Page, server: Served, tmp_path: Path) -> None:
        for name in ("before.txt", "after.txt"):
            (tmp_path / name).write_text("x 1\n")
        page.goto(f"{server.url}/import")
        page.set_input_files("#file", [tmp_path / "before.txt", tmp_path / "after.txt"])
        page.wait_for_selector("[data-ranks]:visible")
        assert "No ranks recognized" in page.inner_text("[data-ranks]")
        assert page.get_by_label("Import as 2 results").is_checked()
        page.get_by_label("Import as one result with 2 ranks").check()
        page.click("[data-send]")
        page.wait_for_url("**/jobs/*")
        assert "before.txt and 1 more" in self.jobs(server)

    def test_folders_of_ranks_are_dropped(self, page: Page, server: Served) -> None:
        page.goto(f"{server.url}/import")
        page.evaluate(
            """() => {
              const file = (path) => ({
                isFile: true,
                fullPath: path,
                file: (give) => give(new File([path], path.split('/').at(-1))),
              });
              const folder = (path, entries) => ({
                isDirectory: true,
                fullPath: path,
                createReader: () => ({ readEntries: (give) => give(entries.splice(0, 1)) }),
              });
              const entries = [
                folder('/run', [folder('/run/rank1', [file('/run/rank1/perf.txt'), file('/run/rank1/.hidden')]),
                  folder('/run/rank0', [file('/run/rank0/perf.txt')])]),
              ];
              const transfer = { types: ['Files'], files: new DataTransfer().files,
                items: entries.map((entry) => ({ webkitGetAsEntry: () => entry })) };
              const event = new Event('drop', { bubbles: true, cancelable: true });
              Object.defineProperty(event, 'dataTransfer', { value: transfer });
              document.querySelector('[data-drop]').dispatchEvent(event);
            }"""
        )
        page.wait_for_selector("[data-ranks]:visible")
        assert page.locator("[data-files] li span:first-child").all_inner_texts() == [
            "run/rank0/perf.txt",
            "run/rank1/perf.txt",
        ]
        page.click("[data-send]")
        page.wait_for_url("**/jobs/*")
        assert "run/rank*/perf.txt" in self.jobs(server)

    def test_an_empty_file_is_seen_before_it_is_sent(self, page: Page, server: Served, tmp_path: Path) -> None:
        (tmp_path / "empty.txt").touch()
        page.goto(f"{server.url}/import")
        page.set_input_files("#file", tmp_path / "empty.txt")
        assert "empty.txt is empty" in page.inner_text("[data-failure]")
        assert page.is_disabled("[data-send]")

    def test_an_upload_can_be_stopped(self, page: Page, server: Served, recording: Path) -> None:
        held = []
        page.route(
            "**/import", lambda route: held.append(route) if route.request.method == "POST" else route.continue_()
        )
        page.goto(f"{server.url}/import")
        page.set_input_files("#file", recording)
        page.fill("#f-name", "never arrived")
        page.click("[data-send]")
        page.wait_for_selector("[data-progress]:not([hidden])")
        assert page.is_disabled("[data-send]")
        page.click("[data-abort]")
        page.wait_for_selector("[data-progress]", state="hidden")
        assert not page.is_disabled("[data-send]") and page.url == f"{server.url}/import"
        assert held and "never arrived" not in self.jobs(server)

    def test_an_error_of_the_server_is_shown(
        self, watch: Callable[..., Watched], server: Served, recording: Path
    ) -> None:
        watched = watch()
        watched.expected = {403}
        page = watched.page
        page.goto(f"{server.url}/import")
        page.evaluate("document.querySelector('meta[name=csrf-token]').content = 'x'")
        page.set_input_files("#file", recording)
        page.click("[data-send]")
        page.wait_for_selector("[data-failure]:not([hidden])")
        assert "Reload the page" in page.inner_text("[data-failure]")
        assert not page.is_disabled("[data-send]")

    def test_without_scripts(self, watch: Callable[..., Watched], server: Served, recording: Path) -> None:
        page = watch(java_script_enabled=False).page
        page.goto(f"{server.url}/import")
        page.set_input_files("#file", recording)
        page.fill("#f-name", "without scripts")
        page.click("[data-send]")
        page.wait_for_url("**/jobs/*")
        assert "without scripts" in self.jobs(server)


def test_without_scripts(watch: Callable[..., Watched], server: Served) -> None:
    page = watch(java_script_enabled=False).page
    page.goto(server.url)
    page.fill("#search", "ordinary")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    hotspots = "nav[aria-label='Pages of this result'] >> text=Hotspots"
    for link in ("text=an ordinary result", hotspots, "text=page-faults", "text=By module", "thead >> text=Total"):
        with page.expect_navigation():
            page.click(link)
    assert page.url.endswith("/hotspots?event=page-faults&by=module&sort=-total")
    assert page.locator("tbody tr").count() == 2
    with page.expect_navigation():
        page.click('[aria-label="Colors: Dark"]')
    assert page.get_attribute("html", "data-theme") == "dark"
    assert page.url.endswith("/hotspots?event=page-faults&by=module&sort=-total")
    assert page.locator("[data-open]").is_hidden()
    page.goto(f"{server.url}/results/{ORDINARY}/edit")
    page.fill("#f-notes", "written without scripts")
    with page.expect_navigation():
        page.click("text=Save")
    assert "written without scripts" in page.inner_text("main")
