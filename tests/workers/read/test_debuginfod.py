"""Source lines with files of debuginfod: from a real server, and from servers that misbehave."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.analysis.source.missing_code import MissingObject, MissingSource, list_missing_objects
from perfloom.domain.errors import Unavailable
from perfloom.ingest.machine_code.code_builder import CodeBuilder, deadline_after
from perfloom.store.files import binary_cache
from perfloom.store.files.binary_cache import BinaryFolder, FileKind
from perfloom.workers import code_files, debuginfod
from perfloom.workers.base.context import JobContext
from perfloom.workers.debuginfod import DebuginfodFiles
from perfloom.workers.read.binaries import KERNEL, Binaries
from tests.support.machine_code import FOLDER, build_profile, compile_program
from tests.support.parts import require
from tests.workers.read.test_source_lines import ID, read_code, record, status_of, store_recording

BUILD_ID = "0123456789abcdef0123456789abcdef01234567"
BINARY = MissingObject("/bin/made", BUILD_ID, 1.0, wants_binary=True)
SOURCE = MissingSource("/src/odd name?#%41.c", (BUILD_ID,))


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """The address of a server of debuginfod that has found the files of a folder."""
    program = require("debuginfod")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "-p", str(port), "-d", ":memory:", "-F", str(folder)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"{address}/metrics", timeout=10) as answer:
                    text = answer.read().decode()
                if 'thread_work_total{role="traverse"} 1' in text and 'thread_work_pending{role="scan"} 0' in text:
                    break
            except OSError:
                assert process.poll() is None
            time.sleep(0.1)
        yield address
    finally:
        process.kill()
        process.wait()


@pytest.mark.heavy
def test_what_is_missing_comes_from_a_real_server(context: JobContext, tmp_path: Path) -> None:
    there, served = tmp_path / "there", tmp_path / "served"
    there.mkdir()
    served.mkdir()
    binary = compile_program("sum.c", there, optimized=True)
    recording = record(binary, "4000")
    store_recording(context.settings, context.store, recording)
    binary.rename(served / "sum")
    assert status_of(read_code(context.settings, context.store, recording, recorded_here=False), binary) == "missing"
    with serve(served) as address:
        settings = replace(context.settings, debuginfod_urls=(address,))
        notes = code_files.fetch_missing(replace(context, settings=settings), ID)
    assert notes == []
    code = context.store.results.open_code(ID)
    assert code is not None and status_of(code, binary) == "complete"
    texts = {Path(row["path"]).name: row["text"] for row in code.files.to_pylist()}
    assert texts["sum.c"] == (FOLDER / "sum.c").read_text()
    kept = list((context.settings.data / "binaries" / binary_cache.DEBUGINFOD).glob("*/*"))
    assert {path.name for path in kept} >= {"executable", "sources"}


class Server:
    """A server of one answer for each address. asked: the addresses that it was asked for."""

    def __init__(self, answers: dict[str, bytes], *, otherwise: bytes = b"HTTP/1.0 404 Not Found\r\n\r\n") -> None:
        self.answers, self.otherwise = answers, otherwise
        self.asked: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                request = b""
                while b"\r\n\r\n" not in request and (data := connection.recv(1 << 16)):
                    request += data
                path = request.split(b" ")[1].decode()
                self.asked.append(path)
                connection.sendall(self.answers.get(path, self.otherwise))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    found: list[Server] = []
    yield found
    for server in found:
        server.close()


def answer(content: bytes, length: int | None = None) -> bytes:
    size = len(content) if length is None else length
    return b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (size, content)


def test_servers_are_asked_in_turn(tmp_path: Path, servers: list[Server]) -> None:
    prefix = f"/buildid/{BUILD_ID}"
    first = Server({})
    second = Server(
        {f"{prefix}/executable": answer(b"binary"), f"{prefix}/source/src/odd%20name%3F%23%2541.c": answer(b"text")}
    )
    servers += [first, second]
    files, folder = DebuginfodFiles([first.address, second.address], 1 << 30), BinaryFolder(tmp_path)
    files.fetch_objects([BINARY, replace(BINARY, build_id="../../etc")], folder)
    assert folder.file(BUILD_ID, FileKind.EXECUTABLE).read_bytes() == b"binary"
    assert not folder.file(BUILD_ID, FileKind.DEBUG).exists()
    secret = MissingSource("/etc/shadow", (BUILD_ID,))
    (source,) = files.fetch_sources([SOURCE, secret])
    assert (source.wanted, source.content, source.changed) == (SOURCE, b"text", None)
    assert first.asked == second.asked and all("shadow" not in path and ".." not in path for path in first.asked)
    assert [path.name for path in tmp_path.iterdir()] == [BUILD_ID]


def test_too_much_and_too_little_is_not_kept(
    tmp_path: Path, servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"/buildid/{BUILD_ID}"
    server = Server({f"{prefix}/executable": answer(b"x" * 1001), f"{prefix}/debuginfo": answer(b"short", 100)})
    servers.append(server)
    monkeypatch.setattr(debuginfod, "MAX_FILE_BYTES", 1000)
    with pytest.raises(Unavailable, match="ended too early"):
        DebuginfodFiles([server.address], 1 << 30).fetch_objects([BINARY], BinaryFolder(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "answered",
    [
        b"HTTP/1.0 500 Internal Server Error\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"",
        b"HTTP/1.0 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n",
        b"HTTP/1.0 302 Found\r\nLocation: ftp://127.0.0.1:1/x\r\n\r\n",
    ],
)
def test_a_server_that_fails_is_named_and_asked_once(tmp_path: Path, servers: list[Server], answered: bytes) -> None:
    server = Server({}, otherwise=answered)
    servers.append(server)
    files = DebuginfodFiles([server.address], 1 << 30)
    with pytest.raises(Unavailable, match="PERFLOOM_DEBUGINFOD_URLS"):
        files.fetch_objects([BINARY, BINARY], BinaryFolder(tmp_path))
    assert len(server.asked) == 1 and not list(tmp_path.iterdir())


def test_a_server_that_is_away_does_not_hide_others(tmp_path: Path, servers: list[Server]) -> None:
    away = Server({})
    away.close()
    server = Server({f"/buildid/{BUILD_ID}/executable": answer(b"binary")})
    servers.append(server)
    folder = BinaryFolder(tmp_path)
    DebuginfodFiles([away.address, server.address], 1 << 30).fetch_objects([BINARY], folder)
    assert folder.file(BUILD_ID, FileKind.EXECUTABLE).read_bytes() == b"binary"


def test_the_kernel_is_asked_for_by_its_debug_information() -> None:
    profile = build_profile(Path("/boot/vmlinux"), {"schedule": 0x1000}, module=KERNEL)
    files = Binaries({KERNEL: BUILD_ID}, False, None, False, os.devnull)
    code = CodeBuilder(files.open_object, files.read_source, deadline_after(60)).build(profile)
    assert list_missing_objects(profile, code) == (MissingObject(KERNEL, BUILD_ID, 1.0, wants_binary=False),)
