"""The cost of a remote host: scripts and files over SSH, on a link with a delay.

    PYTHONPATH=tools python -m benchmarks.transports [--delay-ms 20] [--files 1024] [--megabytes 100]

A real sshd on this machine is reached through a relay that delays every byte by half of the round trip in each
direction, without limiting the bytes in flight. Each line is a time in seconds; "round trips" is that time over the
delay, which shows sequential waits.
"""

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from perfloom.domain.targets import Target
from perfloom.workers import transports
from perfloom.workers.transports import FileCopy, open_transport
from tests.support.sshd import sshd


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float, byte_s: float = 0.0
) -> None:
    """Forward bytes with a delay. byte_s: seconds for a byte on the link, one after another."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def read() -> None:
        free_at = 0.0
        while data := await reader.read(1 << 16 if byte_s else 1 << 18):
            free_at = max(free_at, loop.time()) + byte_s * len(data)
            waiting.put_nowait((free_at + delay_s, data))
        waiting.put_nowait((max(free_at, loop.time()) + delay_s, b""))

    async def write() -> None:
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                break
            writer.write(data)
            await writer.drain()
        writer.close()

    with contextlib.suppress(OSError):
        await asyncio.gather(read(), write())


async def serve(port: int, delay_s: float, byte_s: float = 0.0) -> None:
    """Listen on a port, print it, and forward all connections to another port, with a delay each way. byte_s: seconds
    for a byte of a connection."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_carry(reader, far_writer, delay_s, byte_s), _carry(far_reader, writer, delay_s, byte_s))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def relay(port: int, round_trip_s: float, bits_per_s: float = 0.0) -> Iterator[int]:
    """A port of 127.0.0.1 that forwards to another one, with a delay. bits_per_s: of a connection, 0 for no limit."""
    byte_s = 8 / bits_per_s if bits_per_s else 0.0
    arguments = f"{port}, {round_trip_s / 2}, {byte_s}"
    code = f"import asyncio; from benchmarks.transports import serve; asyncio.run(serve({arguments}))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def timed(what: str, delay_s: float, do: Callable[[], object]) -> None:
    started = time.perf_counter()
    do()
    took = time.perf_counter() - started
    trips = f"{took / delay_s:8.1f} round trips" if delay_s else ""
    print(f"{what:40s}{took:8.2f} s {trips}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=20.0, help="Round trip of the link.")
    parser.add_argument("--files", type=int, default=1024)
    parser.add_argument("--megabytes", type=int, default=100)
    options = parser.parse_args()
    delay_s = options.delay_ms / 1000
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        far = stack.enter_context(sshd())
        port = stack.enter_context(relay(far.port, delay_s))
        known = f"[127.0.0.1]:{port} {far.host_key}"
        target = Target("far", ssh=far.ssh(port=port, host_keys=(known,)))
        stack.callback(transports.close_all)
        there = stack.enter_context(open_transport(target))
        small = [folder / str(number) for number in range(options.files)]
        for number, path in enumerate(small):
            path.write_bytes(b"x" * (number * 37 % 20_000))
        (folder / "big").write_bytes(os.urandom(1 << 20) * options.megabytes)
        (folder / "back").mkdir()
        away = [FileCopy(str(far.home / path.name), path) for path in small]
        back = [FileCopy(str(far.home / path.name), folder / "back" / path.name, path.stat().st_size) for path in small]
        big = FileCopy(str(far.home / "big"), folder / "big")
        timed("connect and run a script", delay_s, lambda: there.run("true"))
        timed("run a script", delay_s, lambda: there.run("true"))
        timed("run a script with input", delay_s, lambda: there.run("cat", input=b"x"))
        timed("run 20 scripts", delay_s, lambda: [there.run("true") for _ in range(20)])
        timed(f"put {options.files} small files", delay_s, lambda: there.put(away))
        timed(f"get {options.files} small files", delay_s, lambda: there.get(back))
        timed(f"put a file of {options.megabytes} MB", delay_s, lambda: there.put([big]))
        timed(
            f"get a file of {options.megabytes} MB",
            delay_s,
            lambda: there.get([FileCopy(big.remote, folder / "again")]),
        )


if __name__ == "__main__":
    main()
