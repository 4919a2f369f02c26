"""The web application as it is deployed: gunicorn in a separate process, with results stored beforehand."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perfloom.config import Settings
from perfloom.domain.profile import Profile
from perfloom.store import Store, open_store
from perfloom.store.files import columns
from tests.web.conftest import EVIL, HOSTILE, ORDINARY, TOKEN, profile

DEADLINE_S = 60
START = "from perfloom.workers.serve.web_server import main; main()"


@dataclass(frozen=True)
class Served:
    """A running server. log: what it wrote."""

    url: str
    settings: Settings
    log: Path

    @property
    def entry(self) -> str:
        """The address that signs in."""
        return f"{self.url}/?token={TOKEN}"


def put(store: Store, id: str, name: str, made: Profile, *originals: Path) -> None:
    """Store a profile as a result."""
    staged = store.results.stage(id)
    columns.write(made, staged)
    store.results.publish(id, staged, name=name, originals=originals)


def fill(store: Store, folder: Path) -> None:
    """Store an ordinary result, a second one, and one with every name hostile."""
    original = folder / "run.perf.txt"
    original.write_text("whatever\n" * 1000)
    for id, name, made in (
        (ORDINARY, "an ordinary result", profile(functions=60, samples=1200)),
        ("another00000", "another result", profile(functions=60, samples=1200, seed=2)),
        (EVIL, HOSTILE[0] + HOSTILE[1], profile(HOSTILE)),
    ):
        put(store, id, name, made, original)
    store.results.set_tags(ORDINARY, ["baseline", "matmul"])
    store.results.set_tags(EVIL, HOSTILE[:3])
    store.results.set_notes(EVIL, "\n".join(HOSTILE))


@contextlib.contextmanager
def served(folder: Path, *, filled: bool) -> Iterator[Served]:
    """A server over a data directory in `folder`, ended with the block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.set_inheritable(True)
        port = listening.getsockname()[1]
        settings = Settings.load(folder / "data", environ={}, token=TOKEN, runtime=folder / "run")
        store = open_store(settings)
        if filled:
            fill(store, folder)
        store.close()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PERFLOOM_")} | {
            "PERFLOOM_DATA": str(settings.data),
            "PERFLOOM_RUNTIME": str(settings.runtime),
            "PERFLOOM_TOKEN": TOKEN,
            "PERFLOOM_PORT": str(port),
        }
        log = folder / "server.log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", START, "1", str(listening.fileno())],
                env=environment,
                stdout=output,
                stderr=output,
                pass_fds=[listening.fileno()],
            )
    try:
        here = Served(f"http://127.0.0.1:{port}", settings, log)
        _wait(here, process)
        yield here
    finally:
        process.terminate()
        process.wait(30)


def _wait(here: Served, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{here.url}/healthz", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"the server did not start: {here.log.read_text()[-4000:]}")
