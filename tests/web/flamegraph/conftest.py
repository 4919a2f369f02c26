"""A real server with stored results, and pages of it in Chromium."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Error

from perfloom.config import Settings
from perfloom.domain.profile import Profile
from perfloom.store import open_store
from perfloom.store.files import columns
from tests.support.servers import running
from tests.support.signing import sign_in
from tests.web.flamegraph import making

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TOKEN = "a-token-of-the-flame-graph-tests"
RESULTS: dict[str, Callable[[], Profile]] = {
    "small0000000": making.small,
    "before000000": lambda: making.small(making.OFTEN),
    "after0000000": lambda: making.changed(making.OFTEN),
    "changed00000": making.changed,
    "hostile00000": making.hostile,
    "deep00000000": making.deep,
    "empty0000000": making.empty,
    "large0000000": making.large,
    "larger000000": lambda: making.large(less=5),
}


@dataclass(frozen=True)
class Server:
    """A gunicorn server. url: without a slash at its end."""

    url: str
    data: Path

    def get(self, path: str) -> bytes:
        """What a program with the token gets."""
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: bytes = answer.read()
            return found


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The application as it is deployed, over results of every sort."""
    with tempfile.TemporaryDirectory(prefix="pl-", dir="/tmp") as folder:
        data = Path(folder, "data")
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("PERFLOOM_")},
            "PERFLOOM_DATA": str(data),
            "PERFLOOM_TOKEN": TOKEN,
            "PERFLOOM_RUNTIME": str(Path(folder, "run")),
        }
        settings = Settings.load(environ=environment)
        store = open_store(settings)
        try:
            for id, make in RESULTS.items():
                staged = store.results.stage(id)
                columns.write(make(), staged)
                store.results.publish(id, staged, name=f"result {id.rstrip('0')}", originals=[])
        finally:
            store.close()
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            port = listening.getsockname()[1]
        command = [sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "--workers", "1", "--threads", "4"]
        died = ["setpriv", "--pdeathsig", "KILL", "--"]
        log = Path(folder, "web.log")
        import signal

        with running([*died, *command, "wsgi:app"], log, signal.SIGTERM, env=environment) as process:
            url = f"http://127.0.0.1:{port}"
            _wait(url, process, log)
            yield Server(url, data)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"{url}/healthz", timeout=5).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text(errors="replace")[-3000:]) from None
            time.sleep(0.05)


class Graph:
    """A page with a flame graph, and what a test asks of it."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        self.server = server

    def open(self, id: str, query: str = "") -> None:
        """Open a result's graph and wait until it is drawn."""
        self.goto(f"/results/{id}/flamegraph" + (f"?{query}" if query else ""))
        self.settled()

    def goto(self, path: str) -> None:
        sign_in(self.page.context, f"{self.server.url}/?token={TOKEN}")
        self.page.goto(self.server.url + path)

    def ask(self, expression: str, argument: Any = None) -> Any:
        """Evaluate a function of (panel, argument) of the page's first graph."""
        return self.page.evaluate(
            f"""async (argument) => {{
                const {{ panels }} = await import(document.querySelector('script[src*="charts/flamegraph.js"]').src);
                return ({expression})(panels()[0], argument);
            }}""",
            argument,
        )

    def until(self, expression: str, argument: Any = None, limit_s: float = 20) -> Any:
        """The first value that is true of `ask`, asked again until then."""
        deadline = time.monotonic() + limit_s
        while True:
            try:
                value = self.ask(expression, argument)
            except Error as error:
                # The page is being loaded again.
                if "context was destroyed" not in error.message and "reading 'src'" not in error.message:
                    raise
                value = None
            if value:
                return value
            assert time.monotonic() < deadline, f"never true: {expression}"
            self.page.wait_for_timeout(15)

    def settled(self) -> None:
        """Wait until the picture asked for is shown and nothing moves."""
        self.until("(panel) => panel.idle && !panel.view.moving")

    def names(self) -> list[str]:
        """The frames of the picture, as they come."""
        found: list[str] = self.ask("({picture}) => Array.from({length: picture.count}, (_, i) => picture.name(i))")
        return found

    def zoomed(self) -> str:
        """The name of the frame zoomed to."""
        found: str = self.ask("({picture, view}) => picture.name(view.zoomed)")
        return found

    def place(self, name: str) -> tuple[float, float]:
        """The middle of the first frame with this name, in the window, scrolled to where it is in sight."""
        found = self.ask(
            """(panel, name) => {
                const { picture, view } = panel;
                const node = Array.from({length: picture.count}, (_, i) => i).find((i) => picture.name(i) === name);
                if (node === undefined) return null;
                view.reveal(node);
                const box = view.box(node);
                return [box.left + box.width / 2, box.top + box.height / 2];
            }""",
            name,
        )
        assert found is not None, f"no frame {name!r} in the picture"
        return found[0], found[1]

    def click(self, name: str, **options: Any) -> None:
        """Click the first frame with this name, and wait for what follows."""
        self.page.mouse.click(*self.place(name), **options)
        self.settled()

    def choose(self, name: str, entry: str) -> None:
        """Choose an entry of a frame's context menu."""
        self.page.mouse.click(*self.place(name), button="right")
        self.page.get_by_role("menuitem", name=entry).or_(self.page.get_by_role("menuitemcheckbox", name=entry)).click()

    def query(self) -> dict[str, str]:
        """The words of the address."""
        found: dict[str, str] = self.page.evaluate("() => Object.fromEntries(new URLSearchParams(location.search))")
        return found


@pytest.fixture
def graph(page: Page, server: Server) -> Graph:
    """A page in a fresh context. Fails at its end on errors of scripts and violations of the policy."""
    return Graph(page, server)


@pytest.fixture
def other_graph(browser: Browser, server: Server) -> Iterator[Callable[..., Graph]]:
    """Make a page whose context has other properties (`color_scheme`, `java_script_enabled` …). Faults as for `graph`."""
    contexts = []
    faults: list[str] = []

    def make(**properties: Any) -> Graph:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}} | properties)
        contexts.append(context)
        context.set_default_timeout(20_000)
        context.on("weberror", lambda error: faults.append(f"uncaught: {error.error}"))
        context.on(
            "console",
            lambda message: faults.append(message.text) if "Content Security Policy" in message.text else None,
        )
        return Graph(context.new_page(), server)

    yield make
    for context in contexts:
        context.close()
    assert not faults, "the page's own faults: " + "; ".join(faults)
