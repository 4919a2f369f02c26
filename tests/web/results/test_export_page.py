"""Opening a result elsewhere: what Perfetto's UI, speedscope and pprof get, from other origins and without the token."""

from __future__ import annotations

import http.server
import re
import subprocess
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from itsdangerous import URLSafeTimedSerializer
from werkzeug.serving import make_server

from perfloom.config import Settings
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.exporters import EXPORTERS
from perfloom.store import Store
from perfloom.web.app import create_app
from tests.support.parts import require
from tests.support.profiles import profile_of
from tests.support.speedscope_app import speedscope_app
from tests.support.traced import Trace
from tests.web.conftest import ORDINARY, TOKEN, Browser, profile
from tests.web.html import read
from tests.web.serving import put

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Chromium
    from playwright.sync_api import BrowserContext, Page

TRACE = "trace0000000"
PERFETTO = """<!doctype html><title>Perfetto</title><script>
const mute = location.pathname === '/mute';
function listen(event) {
  if (mute || event.source === null || event.source !== window.opener) return;
  if (event.data === 'PING') {
    if (document.readyState === 'complete') event.source.postMessage('PONG', '*');
    return;
  }
  const { buffer, ...about } = event.data.perfetto;
  if (!(buffer instanceof ArrayBuffer)) throw new Error('no ArrayBuffer');
  window.removeEventListener('message', listen);
  document.title = JSON.stringify({ ...about, from: event.origin });
  fetch('/taken', { method: 'POST', body: buffer }).then(() => { document.body.textContent = 'taken'; });
}
window.addEventListener('message', listen);
</script><body></body>"""


def a_trace() -> Profile:
    trace = Trace()
    host, other = trace.thread(11, "main", rank=0), trace.thread(12, "loader", rank=0)
    trace.slice(host, 0, 6_000_000, "train")
    trace.slice(host, 1_000_000, 4_000_000, "aten::mm")
    trace.slice(other, 2_000_000, 3_000_000, "read</script>")
    return trace.finish()


class Elsewhere(http.server.SimpleHTTPRequestHandler):
    """The two other sites: a page that speaks Perfetto's protocol as it is documented, and the app of speedscope."""

    taken: ClassVar[list[bytes]] = []
    folder: ClassVar[str] = ""
    written: ClassVar[dict[str, bytes]] = {}

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, directory=self.folder)

    def do_GET(self) -> None:
        form = urlsplit(self.path).path.removeprefix("/written/")
        if form in self.written:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.written[form])
            return
        if urlsplit(self.path).path not in ("/perfetto", "/mute", "/shut"):
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        if self.path == "/shut":
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.end_headers()
        self.wfile.write(PERFETTO.encode())

    def do_POST(self) -> None:
        self.taken.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """It says nothing."""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """The address of the other sites, whose host has another name than ours: another origin and another site."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, elsewhere: str) -> Iterator[tuple[str, Store]]:
    """A server with two results that knows these sites: its address and store."""
    folder = tmp_path_factory.mktemp("opening")
    settings = Settings.load(
        folder / "data",
        environ={},
        token=TOKEN,
        runtime=folder / "run",
        perfetto_url=f"{elsewhere}/perfetto",
        speedscope_url=elsewhere,
    )
    app = create_app(settings)
    store: Store = app.extensions["perfloom"].store
    put(store, ORDINARY, "an ordinary result", profile())
    put(store, TRACE, "a trace", a_trace())
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", store
    server.shutdown()
    app.extensions["perfloom"].queue.close()
    store.close()


@pytest.fixture
def context(browser: Chromium, here: tuple[str, Store]) -> Iterator[BrowserContext]:
    made = browser.new_context()
    made.set_default_timeout(20_000)
    made.new_page().goto(f"{here[0]}/?token={TOKEN}")
    yield made
    made.close()


def at(context: BrowserContext, address: str) -> Page:
    page = context.pages[0]
    page.goto(address)
    return page


def test_perfetto_takes_what_is_selected(context: BrowserContext, here: tuple[str, Store], elsewhere: str) -> None:
    page = at(context, f"{here[0]}/results/{TRACE}/export?thread=main&start-ms=0.5")
    page.get_by_role("link", name="Open in Perfetto").click()
    assert "1 slice, 3 samples" in page.inner_text("[data-perfetto]").replace("\xa0", " ")
    with context.expect_page() as opened:
        page.get_by_role("button", name="Open http").click()
    page.get_by_text("Sent: ").wait_for()
    opened.value.get_by_text("taken").wait_for()
    selection = Selection(threads=("main",), start_ns=500_000)
    (taken,) = Elsewhere.taken
    assert taken == b"".join(EXPORTERS["perfetto"].write(here[1].results.open(TRACE), selection, {}))
    assert b"aten::mm" in taken and b"read<" not in taken
    assert opened.value.title() == (
        f'{{"title":"a trace","fileName":"a trace.trace.json","downloadable":true,"from":"{here[0]}"}}'
    )


def test_perfetto_does_not_come(context: BrowserContext, here: tuple[str, Store], elsewhere: str) -> None:
    """What the page says, which is always what to do: where the window is blocked, silent, cut off, or closed."""
    page = at(context, f"{here[0]}/results/{TRACE}/open/perfetto")
    page.clock.install()

    def tried(path: str) -> None:
        page.goto(f"{here[0]}/results/{TRACE}/open/perfetto")
        # Where it is taken from is a module's constant, read when the page was loaded: the window goes elsewhere.
        page.evaluate("to => { const real = window.open; window.open = () => to && real.call(window, to); }", path)
        page.get_by_role("button", name="Open http").click()

    told = page.get_by_role("alert")
    tried("")
    told.get_by_text("Allow pop-ups").wait_for()
    with context.expect_page() as opened:
        tried(f"{elsewhere}/mute")
    page.clock.fast_forward(30_000)
    told.get_by_text("does not answer yet").wait_for()
    opened.value.close()
    page.clock.fast_forward(1_000)
    told.get_by_text("was closed").wait_for()
    with context.expect_page() as opened:
        tried(f"{elsewhere}/shut")
    opened.value.wait_for_load_state()
    page.clock.fast_forward(1_000)
    told.get_by_text("Cross-Origin-Opener-Policy").wait_for()


def test_speedscope_fetches_and_shows_it(context: BrowserContext, here: tuple[str, Store]) -> None:
    Elsewhere.folder = str(speedscope_app())
    page = at(context, f"{here[0]}/results/{TRACE}/export?thread=main")
    with context.expect_page() as opened:
        page.get_by_role("link", name="Open in speedscope").click()
    app = opened.value
    app.get_by_text("rank 0 · main 11 · host time").first.wait_for()
    # The table of its sandwich view, which its own importer made.
    app.keyboard.press("3")
    assert sandwich(app) == {"aten::mm": ["3.00ms", "3.00ms"], "train": ["6.00ms", "3.00ms"]}


def sandwich(app: Page) -> dict[str, list[str]]:
    """Total and self of each function in speedscope's table."""
    app.get_by_role("cell", name="aten::mm").wait_for()
    rows = [row.split("\n\t") for row in app.locator("tr").all_inner_texts()[1:]]
    return {name.strip(): [total.split()[0], own.split()[0]] for total, own, name in rows}


def test_speedscope_reads_our_other_forms_too(page: Page, elsewhere: str) -> None:
    """Its importers of pprof, collapsed stacks and Chrome's trace events are other people's readers of what we write."""
    Elsewhere.folder = str(speedscope_app())
    profile, selection = a_trace(), Selection(threads=("main",))
    for form in ("pprof", "perfetto", "collapsed"):
        exporter = EXPORTERS[form]
        Elsewhere.written[f"x{exporter.suffix}"] = b"".join(exporter.write(profile, selection, {}))
        page.goto("about:blank")
        page.goto(f"{elsewhere}/#profileURL=/written/x{exporter.suffix}&view=sandwich")
        long, short = ("6,000,000", "3,000,000") if form == "collapsed" else ("6.00ms", "3.00ms")
        found = sandwich(page)
        # Collapsed stacks stand below the name of their thread.
        assert found.pop("main", None) == ([long, "0"] if form == "collapsed" else None)
        assert found == {"aten::mm": [short, short], "train": [long, short]}


def test_speedscope_shows_samples_of_trace_events(page: Page, elsewhere: str) -> None:
    """A sample lasts for its weight: 3 ms of aten::mm below train, 2 ms of train alone, and after 2 ms 1 ms more."""
    Elsewhere.folder = str(speedscope_app())
    profile = profile_of(
        [
            ("train;aten::mm", 1_000_000, 0, 1_000_000),
            ("train;aten::mm", 2_000_000, 0, 3_000_000),
            ("train", 2_000_000, 0, 5_000_000),
            ("train", 1_000_000, 0, 8_000_000),
        ],
        events=(("cpu-clock", "ns"),),
    )
    Elsewhere.written["x.json"] = b"".join(EXPORTERS["perfetto"].write(profile, Selection(), {}))
    page.goto("about:blank")
    page.goto(f"{elsewhere}/#profileURL=/written/x.json&view=sandwich")
    found = sandwich(page)
    assert found["aten::mm"] == ["3.00ms", "3.00ms"] and found["train"] == ["6.00ms", "3.00ms"]


def key_of(browser_client: Browser, query: str = "") -> tuple[str, str]:
    """The address for pprof on the page of exports: path with query, and the key in it."""
    text = unescape(browser_client.page(f"/results/{ORDINARY}/export{query}"))
    found = re.search(r"-http=localhost:0 '(http[^']*)'", text)
    assert found
    parts = urlsplit(found[1])
    return f"{parts.path}?{parts.query}", parse_qs(parts.query)["key"][0]


def test_an_address_without_the_token(
    browser_client: Browser,
    client: Any,
    settings: Settings,
    store: Store,
    ordinary: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, key = key_of(browser_client, "?thread=worker-0")
    stranger = client.application.test_client()
    answer = stranger.get(address)
    selection = Selection(threads=("worker-0",))
    assert answer.data == b"".join(EXPORTERS["pprof"].write(store.results.open(ordinary), selection, {}))
    assert answer.headers["Access-Control-Allow-Origin"] == "https://www.speedscope.app"
    asked = {"Origin": "https://www.speedscope.app", "Access-Control-Request-Private-Network": "true"}
    before = stranger.options(address, headers=asked)
    assert (before.status_code, before.headers["Access-Control-Allow-Private-Network"]) == (204, "true")
    for other in (
        key[:-2],
        "x" + key,
        "",
        URLSafeTimedSerializer("another", "perfloom export").dumps(["x", "svg", []]),
    ):
        refused = stranger.get("/handed/profile.pb.gz", query_string={"key": other})
        assert refused.status_code == 403 and "not from this server" in refused.text
    monkeypatch.setattr("perfloom.web.views.results.exports.SIGNED_URL_SECONDS", -1)
    late = stranger.get(address)
    assert late.status_code == 403 and "Open the export page" in late.text


def test_pprof_fetches_it_by_the_command_that_is_shown(
    here: tuple[str, Store], context: BrowserContext, tmp_path: Path
) -> None:
    go = require("go")
    page = at(context, f"{here[0]}/results/{TRACE}/export?thread=main")
    command = page.locator('[data-copy^="go tool pprof"]').get_attribute("data-copy") or ""
    address = command.split("'")[1]
    done = subprocess.run(
        [go, "tool", "pprof", "-top", "-unit=ms", address],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PPROF_TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"3ms .* aten::mm$", done.stdout, re.MULTILINE) and "</script>" not in done.stdout


def test_where_speedscope_cannot_reach_this_server_it_is_not_offered(browser_client: Browser, ordinary: str) -> None:
    near = browser_client.page(f"/results/{ordinary}/export")
    assert "Open in speedscope" in near
    far = browser_client.client.get(
        f"/results/{ordinary}/export", base_url="http://10.1.2.3:8000", headers={"Authorization": f"Bearer {TOKEN}"}
    ).text
    assert "Open in speedscope" not in far and "drop the file on" in far


def test_the_page_of_exports_leads_everywhere(browser_client: Browser, ordinary: str) -> None:
    page = read(browser_client.page(f"/results/{ordinary}/export?event=page-faults&start-ms=0.1"))
    # What is left aside are the forms, whose fields carry the selection.
    links = [link for link in page.links if re.search(f"/{ordinary}/(export|tables)/.*[?]", link)]
    assert len(links) > len(EXPORTERS) + 3 * 8
    for link in links:
        assert "event=page-faults" in link and "start-ms=0.1" in link
        response = browser_client.client.get(link)
        assert response.status_code == 200 and response.headers["Content-Disposition"].startswith("attachment"), link
    hiding = read(browser_client.page(f"/results/{ordinary}/export?hide=main"))
    refused = [f for f in EXPORTERS if f"/results/{ordinary}/export/{f}?hide=main" not in hiding.links]
    assert refused == [form for form, exporter in EXPORTERS.items() if exporter.requires_recorded_stacks] == ["profile"]
    assert not any("/tables/operators" in link for link in links), "there are none"
    opener = browser_client.client.get(f"/results/{ordinary}/open/perfetto")
    assert opener.headers["Cross-Origin-Opener-Policy"] == "same-origin-allow-popups"
    assert (
        browser_client.client.get(f"/results/{ordinary}/export").headers["Cross-Origin-Opener-Policy"] == "same-origin"
    )
