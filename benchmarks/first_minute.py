"""Time of what a newcomer does first: the first import on a machine, and the first page of a new server after login.

    python -m benchmarks.first_minute [--runs 5]

Each run has a new home directory, so that no loop is compiled yet, and a new data directory. The first import of a
PyTorch trace of 1 MB is compared with a second one, and with loading pandas and pyarrow. Medians; all runs in turns.
"""

from __future__ import annotations

import argparse
import http.cookiejar
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from .commands import TRACE
from .make_trace import make

PERFLOOM = str(Path(sys.executable).with_name("perfloom"))
PEER = (sys.executable, "-c", "import pandas, pyarrow")
BYTES = 1_000_000


def measure_command(argv: tuple[str, ...], environment: dict[str, str]) -> float:
    """Seconds of a command."""
    start = time.perf_counter()
    subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.perf_counter() - start


def measure_first_page(environment: dict[str, str]) -> float:
    """Seconds from the request of the first page of a new server until its end, after the login."""
    argv = (PERFLOOM, "serve", "--port", "0")
    with subprocess.Popen(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            login = server.stdout.readline().split()[0]
            opener = urllib.request.build_opener(
                urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()), _NoRedirect()
            )
            opener.open(login).close()
            start = time.perf_counter()
            opener.open(login.partition("?")[0]).read()
            return time.perf_counter() - start
        finally:
            server.terminate()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Answers a redirect as it is: the login must not open the first page."""

    def http_error_303(self, request, response, code, message, headers):  # type: ignore[no-untyped-def]
        return response


def main() -> None:
    """Print seconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        trace = Path(name, "trace.json")
        make(TRACE, BYTES, trace)
        for _ in range(runs):
            home = Path(name, "home")
            environment = os.environ | {"HOME": str(home), "PERFLOOM_DATA": str(home / "data")}
            for variable in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
                environment.pop(variable, None)
            home.mkdir()
            for command, argv in (
                ("first import", (PERFLOOM, "import", str(trace))),
                ("second import", (PERFLOOM, "import", str(trace))),
                ("import pandas, pyarrow", PEER),
            ):
                seconds.setdefault(command, []).append(measure_command(argv, environment))
            seconds.setdefault("first page", []).append(measure_first_page(environment))
            shutil.rmtree(home)
    median = {command: statistics.median(times) for command, times in seconds.items()}
    for command, value in median.items():
        print(f"{command:24} {value:6.2f} s")
    print(f"first ÷ second import: {median['first import'] / median['second import']:.2f}")
    print(f"first import ÷ pandas, pyarrow: {median['first import'] / median['import pandas, pyarrow']:.2f}")


if __name__ == "__main__":
    main()
