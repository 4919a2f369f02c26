"""The web server process: gunicorn with Perfloom's application, on an inherited socket or one that it opens."""

import os
import socket
import sys
from typing import Any

from gunicorn.app.base import BaseApplication

from perfloom import garbage
from perfloom.config import Settings
from perfloom.domain.errors import Unavailable
from perfloom.paths import os_error_text

from ..base import processes
from .logs import set_up_logging

THREADS = 12
"""A quarter of them may wait for slow uploads and another quarter for slow downloads; the others never wait."""
WORKER = "perfloom.workers.serve.web_gate.GatedWorker"
REQUEST_TIMEOUT_S = 120


class _Application(BaseApplication):  # type: ignore[misc]
    """gunicorn, configured only here: not by files, command line or its own environment variables."""

    def __init__(self, settings: Settings, options: dict[str, Any], shared: bool) -> None:
        self._settings = settings
        self._shared = shared
        self._options = options
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._options.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        garbage.collect_rarely()
        import pyarrow

        from perfloom.web.app import create_app

        app = create_app(self._settings, shared=self._shared)
        # Arrow's own memory pool does not return freed memory.
        pyarrow.set_memory_pool(pyarrow.system_memory_pool())
        garbage.exclude_existing()
        return app


def serve(settings: Settings, *, descriptor: int | None = None, processes: int = 1, shared: bool = False) -> None:
    """Serve pages until a signal to end. handle: a descriptor of a listening socket; None: open one from the settings.
    shared: see `web.create_app`."""
    bind = [f"fd://{descriptor}" if descriptor is not None else address(settings)]
    options = OPTIONS | {"bind": bind, "workers": processes}
    known = _Application(settings, {}, shared).cfg.settings
    _Application(settings, {name: value for name, value in options.items() if name in known}, shared).run()


def _options() -> dict[str, Any]:
    shared = "/dev/shm"
    return {
        "worker_class": WORKER,
        "threads": THREADS,
        "timeout": REQUEST_TIMEOUT_S,
        "graceful_timeout": 3,
        "keepalive": 5,
        "limit_request_line": 8190,
        "accesslog": None,
        "errorlog": "-",
        "loglevel": "warning",
        "proc_name": "perfloom-web",
        "worker_tmp_dir": shared if os.access(shared, os.W_OK, effective_ids=True) else None,
        "control_socket_disable": True,
    }


OPTIONS = _options()
"""gunicorn's settings except for address and number of processes. gunicorn.conf.py has the same."""


def address(settings: Settings) -> str:
    """Host and port as gunicorn and URLs write them."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{host}:{settings.port}"


def listen(settings: Settings) -> socket.socket:
    """A socket that listens at the address of the settings. Raises Unavailable, with advice."""
    try:
        family, _, _, _, where = socket.getaddrinfo(
            settings.host.strip("[]"), settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise Unavailable(f"{settings.host} is not an address to listen on: {error.strerror}. Try 127.0.0.1.") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(256)
    except OSError as error:
        listening.close()
        advice = "Choose another with --port (0: a free port) or --host."
        raise Unavailable(f"Cannot listen on {address(settings)}: {os_error_text(error)}. {advice}") from None
    listening.set_inheritable(True)
    return listening


def main() -> None:
    """`web_server PROCESSES [HANDLE]`; settings come from the environment and the descriptor named there."""
    processes.disable_dumping()
    processes.limit_malloc_arenas()
    set_up_logging(bool(os.environ.get("PERFLOOM_VERBOSE")))
    descriptor = int(sys.argv[2]) if len(sys.argv) > 2 else None
    serve(Settings.load(), descriptor=descriptor, processes=int(sys.argv[1]))
