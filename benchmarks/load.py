"""Response times of pages while many clients read and some submit.

    python -m benchmarks.load [--processes 2] [--readers 50] [--submitters 10] [--seconds 20] [--think 1.0]
    python -m benchmarks.load --serve ...     the same with `perfloom serve`, and its memory after the test

Starts a server with its own results (one of 100,000 samples, 20 small ones), and readers with persistent connections:
they request the pages of a result and the lists, and wait `--think` seconds on average between requests (0: none). A
submitter imports a small file, as often. Goals: p50 150 ms, p99 1.5 s.
"""

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks import memory
from benchmarks.synthetic import profile as synthetic
from perfloom.config import Settings
from perfloom.store import open_store
from perfloom.store.files import columns

TOKEN = "a-token-of-the-benchmark-0123456789"
GOAL_P50_S, GOAL_P99_S = 0.15, 1.5
START = "from perfloom.cli import main; main()"
FIRST = "benchmark000"
PAGES = ("/", "/jobs", "/results/{}", "/results/{}/flamegraph", "/results/{}/hotspots", "/results/{}/threads")
RECORDED = b"".join(
    b"work %d %d.%06d: 1000 cycles:\n\t%x work+0x10 (/bin/work)\n\t%x main+0x20 (/bin/work)\n\n"
    % (4242, 100 + n // 1000, n % 1000 * 1000, 0x401000 + n % 7, 0x402000)
    for n in range(300)
)


def fill(settings: Settings) -> None:
    """Store the results for the readers."""
    with contextlib.closing(open_store(settings)) as store:
        for number in range(21):
            size = 1000 if number else 100_000
            staged = store.results.stage(f"benchmark{number:03}")
            columns.write(synthetic(samples=size, stacks=size // 10, events=2, seed=number), staged)
            store.results.publish(f"benchmark{number:03}", staged, name=f"result {number}")


@contextlib.contextmanager
def server(folder: Path, processes: int, serve: bool) -> Iterator[tuple[int, int]]:
    """(port, pid) of a server over `folder`/data: `perfloom web` and a broker, or `perfloom serve`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PERFLOOM_")} | {
        "PERFLOOM_DATA": str(folder / "data"),
        "PERFLOOM_RUNTIME": str(folder / "run"),
        "PERFLOOM_TOKEN": TOKEN,
    }
    started = []
    words = ["serve", "--port", str(port)]
    if not serve:
        redis = folder / "redis.sock"
        argv = [shutil.which("redis-server") or "redis-server", "--port", "0", "--unixsocket", str(redis), "--save", ""]
        started.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL))
        environment["PERFLOOM_BROKER_URL"] = f"redis+socket://{redis}"
        words = ["web", "--port", str(port), "--processes", str(processes)]
    started.append(subprocess.Popen([sys.executable, "-c", START, *words], env=environment, stdout=subprocess.DEVNULL))
    try:
        end = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as asking:
                asking.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                if b" 200 " in asking.recv(100):
                    break
            if time.monotonic() > end:
                raise SystemExit("the server does not start")
            time.sleep(0.1)
        yield port, started[-1].pid
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(60)


class Client:
    """A client with one connection that is kept as long as the server keeps it."""

    def __init__(self, port: int, took: dict[str, list[float]]) -> None:
        self._port, self._took = port, took
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, name: str, request: bytes) -> bytes:
        """The answer's header; its time is recorded under `name`."""
        begin = time.perf_counter()
        for _ in range(2):
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
            reader, writer = self._streams
            try:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                await self._body(head, reader)
                break
            except (asyncio.IncompleteReadError, OSError):
                # The server closed an idle connection.
                writer.close()
                self._streams = None
        else:
            raise SystemExit(f"{name}: no answer")
        self._took[name].append(time.perf_counter() - begin)
        if not head.startswith((b"HTTP/1.1 2", b"HTTP/1.1 3")):
            raise SystemExit(f"{name}: {head[:200]!r}")
        if b"connection: close" in head.lower():
            writer.close()
            self._streams = None
        return head

    @staticmethod
    async def _body(head: bytes, reader: asyncio.StreamReader) -> None:
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                await reader.readexactly(int(line.partition(b":")[2]))
                return
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()


async def read(client: Client, cookie: bytes, end: float, think_s: float, random: random.Random) -> None:
    """Read pages until `end`."""
    await asyncio.sleep(random.random() * think_s)
    while time.monotonic() < end:
        page = random.choice(PAGES)
        path = page.format(FIRST if random.random() < 0.5 else f"benchmark{random.randrange(1, 21):03}")
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nAccept-Encoding: gzip\r\n"
        await client.ask(page, head.encode() + b"Cookie: " + cookie + b"\r\n\r\n")
        await asyncio.sleep(random.expovariate(1 / think_s) if think_s else 0)


async def submit(client: Client, end: float, think_s: float, random: random.Random) -> None:
    """Import files until `end`."""
    body = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="run.txt"\r\n\r\n' + RECORDED + b"\r\n--x--\r\n"
    )
    head = f"POST /api/v1/imports HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    head += f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {len(body)}\r\n\r\n"
    await asyncio.sleep(random.random() * think_s)
    while time.monotonic() < end:
        await client.ask("import", head.encode() + body)
        await asyncio.sleep(random.expovariate(1 / think_s) if think_s else 0)


async def load(port: int, options: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of every request, by page."""
    took: dict[str, list[float]] = defaultdict(list)
    head = await Client(port, defaultdict(list)).ask(
        "sign in", f"GET /?token={TOKEN} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    )
    line = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"set-cookie:"))
    cookie = line.partition(b":")[2].partition(b";")[0].strip()
    # Every page once, so that each process has loaded its imports.
    await asyncio.gather(
        *(read(Client(port, defaultdict(list)), cookie, time.monotonic() + 3, 0, random.Random(n)) for n in range(6))
    )
    end = time.monotonic() + options.seconds
    readers = [read(Client(port, took), cookie, end, options.think, random.Random(n)) for n in range(options.readers)]
    submitters = [submit(Client(port, took), end, options.think, random.Random(-n)) for n in range(options.submitters)]
    await asyncio.gather(*readers, *submitters)
    return took


def line(name: str, took: list[float], seconds: float) -> str:
    """One line of the report."""
    marks = statistics.quantiles(took, n=100) if len(took) > 1 else took * 99
    milliseconds = "".join(f"{mark * 1e3:9.0f}" for mark in (marks[49], marks[98], max(took)))
    return f"{name:28}{len(took):7}{len(took) / seconds:8.1f}{milliseconds}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--submitters", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--think", type=float, default=1.0, help="seconds between two requests of one client")
    parser.add_argument("--serve", action="store_true", help="measure `perfloom serve`, with workers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(Settings.load(folder / "data", environ={}, token=TOKEN, runtime=folder / "run"))
        with server(folder, options.processes, options.serve) as (port, pid):
            took = asyncio.run(load(port, options))
            print(f"{'page':28}{'count':>7}{'/ s':>8}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}")
            for page, times in sorted(took.items()):
                print(line(page, times, options.seconds))
            every = [time for times in took.values() for time in times]
            print(line("all", every, options.seconds))
            marks = statistics.quantiles(every, n=100)
            reached = marks[49] < GOAL_P50_S and marks[98] < GOAL_P99_S
            print("goals reached" if reached else "goals missed: p50 150 ms, p99 1500 ms")
            if options.serve:
                # Spare readers end after 20 s without work.
                time.sleep(60)
            memory.report(pid)


if __name__ == "__main__":
    main()
