"""Clients that send slowly, or never finish, do not delay others: over real sockets, against the real server."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfloom.workers.serve import web_gate
from perfloom.workers.serve.web_connection import Slots
from perfloom.workers.serve.web_gate import BODY_BYTES, HEAD_BYTES, HEAD_S, Framing, Gate, framing, head_end
from perfloom.workers.serve.web_server import THREADS
from tests.support import paths
from tests.support.marks import SLOW
from tests.support.parts import missing
from tests.web.conftest import TOKEN
from tests.web.serving import served

ROOT = paths.ROOT
QUICK_S = 1.0
"""Of a page beside the attackers, on a loaded machine. Without the gate it takes as long as the attack."""
BEARER = f"Authorization: Bearer {TOKEN}\r\n"


def _plain(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


class Target:
    """A server under test. connect: a new connection to it, encrypted where the server wants it."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self.port, self.context = port, context

    def connect(self) -> socket.socket:
        sock = _plain(self.port)
        return self.context.wrap_socket(sock, server_hostname="localhost") if self.context else sock

    def ask(self, request: bytes) -> bytes:
        """Everything that is answered until the server closes."""
        with self.connect() as sock:
            sock.sendall(request)
            return _all(sock)

    def health_s(self, times: int = 10) -> float:
        """The longest time that a new client waits for /healthz."""
        longest = 0.0
        for _ in range(times):
            begin = time.monotonic()
            answer = self.ask(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            longest = max(longest, time.monotonic() - begin)
            assert answer.startswith(b"HTTP/1.1 200"), answer
        return longest


def _all(sock: socket.socket) -> bytes:
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := sock.recv(65536):
            parts.append(part)
    return b"".join(parts)


def _wsgi(folder: Path, *words: str) -> Iterator[Target]:
    """`gunicorn wsgi:app` as the documentation has it, in a checkout."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PERFLOOM_")} | {
        "PERFLOOM_DATA": str(folder / "data"),
        "PERFLOOM_RUNTIME": str(folder / "run"),
        "PERFLOOM_TOKEN": TOKEN,
    }
    argv = [sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", *words, "wsgi:app"]
    log = folder / "gunicorn.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=output, stderr=output)
    context = ssl.create_default_context(cafile=folder / "tls.crt") if words else None
    target = Target(port, context)
    try:
        end = time.monotonic() + 60
        while True:
            try:
                target.health_s(1)
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < end, log.read_text()
                time.sleep(0.1)
        yield target
    finally:
        process.terminate()
        process.wait(30)
    assert "Traceback" not in log.read_text()


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """The web server of `perfloom serve` and `perfloom web`."""
    with served(tmp_path_factory.mktemp("slow"), filled=True) as here:
        yield Target(int(here.url.rpartition(":")[2]))
    assert "Traceback" not in here.log.read_text()


@pytest.fixture(scope="module")
def wsgi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """`gunicorn wsgi:app`."""
    yield from _wsgi(tmp_path_factory.mktemp("wsgi"))


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """`gunicorn wsgi:app` with its own certificate."""
    folder = tmp_path_factory.mktemp("tls")
    key, crt = folder / "tls.key", folder / "tls.crt"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(crt)]
    subprocess.run(words, check=True, capture_output=True)
    yield from _wsgi(folder, "--certfile", str(crt), "--keyfile", str(key))


@pytest.fixture(params=["web", "wsgi", "tls"])
def target(request: pytest.FixtureRequest) -> Target:
    """Each of the three."""
    found: Target = request.getfixturevalue(request.param)
    return found


def _hold(target: Target, count: int, begin: bytes) -> list[socket.socket]:
    held = []
    for _ in range(count):
        sock = target.connect()
        sock.sendall(begin)
        held.append(sock)
    return held


def _release(held: list[socket.socket]) -> None:
    for sock in held:
        sock.close()


@pytest.mark.slow
def test_half_sent_headers_hold_no_thread_and_are_answered_408(target: Target) -> None:
    begin = time.monotonic()
    held = _hold(target, 100, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Rest: ")
    try:
        assert target.health_s() < QUICK_S
        # One byte now and then does not help.
        for sock in held[:5]:
            sock.sendall(b"x")
        held[0].settimeout(20)
        assert _all(held[0]).startswith(b"HTTP/1.1 408")
        assert 8 < time.monotonic() - begin < 18
    finally:
        _release(held)


@SLOW
def test_five_hundred_half_sent_requests(web: Target) -> None:
    held = _hold(web, 500, b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    try:
        assert web.health_s() < QUICK_S
    finally:
        _release(held)


@pytest.mark.slow
def test_connections_that_say_nothing_hold_no_thread(target: Target) -> None:
    # With TLS these have not even begun their handshake.
    held = [_plain(target.port) for _ in range(60)]
    try:
        assert target.health_s() < QUICK_S
    finally:
        _release(held)


@pytest.fixture
def open_files() -> Iterator[None]:
    """Permission to open so many at once."""
    wanted = 2048
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        missing(f"permission to open {wanted} files", f"ulimit -Hn {wanted}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.usefixtures("open_files")
def test_more_idle_connections_than_the_worker_takes(web: Target) -> None:
    held = []
    try:
        for _ in range(1100):
            sock = web.connect()
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            held.append(sock)
        assert web.health_s() < 3 * QUICK_S
    finally:
        _release(held)


def test_small_bodies_that_do_not_arrive_hold_no_thread(target: Target) -> None:
    held = _hold(target, 60, b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\ntoken=")
    try:
        assert target.health_s() < QUICK_S
    finally:
        _release(held)


@pytest.mark.parametrize(
    "framed",
    [b"Content-Length: 900000000", b"Transfer-Encoding: chunked", b"Content-Length: 100\r\nExpect: 100-continue"],
)
def test_uploads_hold_fewer_threads_than_there_are(target: Target, framed: bytes) -> None:
    head = b"POST /import HTTP/1.1\r\nHost: localhost\r\n" + BEARER.encode() + framed
    held = _hold(target, 2 * THREADS, head + b"\r\nContent-Type: multipart/form-data; boundary=x\r\n\r\n")
    try:
        assert target.health_s() < QUICK_S
    finally:
        _release(held)


def test_who_does_not_show_the_token_does_not_keep_others_from_uploading(web: Target) -> None:
    held = _hold(web, 50, b"POST /import HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000000\r\n\r\n")
    try:
        begin = time.monotonic()
        assert _upload(web, os.urandom(200_000))["jobs"]
        assert time.monotonic() - begin < 15 * QUICK_S
    finally:
        _release(held)


def test_slow_bodies_of_the_login_form_do_not_delay_uploads(web: Target) -> None:
    form = b"Content-Type: application/x-www-form-urlencoded\r\n"
    head = b"POST /login HTTP/1.1\r\nHost: localhost\r\n" + form
    held = _hold(web, 20, head + b"Content-Length: 3900000\r\n\r\ntoken=")
    try:
        begin = time.monotonic()
        assert _upload(web, os.urandom(200_000))["jobs"]
        assert time.monotonic() - begin < 15 * QUICK_S
    finally:
        _release(held)
    answer = web.ask(head + b"Connection: close\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70_000)
    assert answer.startswith(b"HTTP/1.1 413"), answer


@pytest.mark.slow
def test_an_upload_below_the_minimum_rate_is_given_up(web: Target) -> None:
    head = f"POST /api/v1/imports HTTP/1.1\r\nHost: localhost\r\n{BEARER}Content-Length: 900000\r\n"
    with web.connect() as sock:
        sock.sendall(head.encode() + b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n")
        begin = time.monotonic()
        sock.settimeout(1.0)
        answer = b""
        while not answer and time.monotonic() - begin < 40:
            sock.sendall(b"y" * 100)
            with contextlib.suppress(TimeoutError):
                answer = sock.recv(4096)
        assert answer.startswith(b"HTTP/1.1 408"), answer
        assert 10 < time.monotonic() - begin < 30


def test_a_client_that_takes_nothing_holds_few_threads(web: Target) -> None:
    def ask() -> socket.socket:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.connect(("127.0.0.1", web.port))
        sock.sendall(b"GET /static/css/base.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
        return sock

    held = [ask() for _ in range(60)]
    try:
        time.sleep(1.0)
        assert web.health_s(5) < 3 * QUICK_S
    finally:
        _release(held)


def test_a_header_that_is_too_large_is_answered_431(target: Target) -> None:
    many = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 1000) for number in range(HEAD_BYTES // 1000 + 2))
    assert target.ask(b"GET /healthz HTTP/1.1\r\n" + many + b"\r\n").startswith(b"HTTP/1.1 431")


def test_empty_lines_before_a_request_are_refused_at_once(web: Target) -> None:
    """All but the first. They are not scanned again for each byte that follows."""
    asked = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert web.ask(b"\r\n" + asked).startswith(b"HTTP/1.1 200")
    for lines in (2, 15_000):
        begin = time.monotonic()
        with web.connect() as sock:
            sock.sendall(b"\r\n" * lines)
            assert sock.recv(65536).startswith(b"HTTP/1.1 400")
        assert time.monotonic() - begin < HEAD_S / 2


def test_a_header_in_single_bytes_costs_no_more_for_what_is_there(web: Target) -> None:
    held = _hold(web, 30, b"\r\n" * 15_000) + _hold(web, 30, b"GET / HTTP/1.1\r\nX: " + b"\n" * 30_000)
    ended = threading.Event()

    def send() -> None:
        while not ended.wait(0.01):
            for sock in held:
                with contextlib.suppress(OSError):
                    sock.send(b"\n")

    sender = threading.Thread(target=send)
    sender.start()
    try:
        assert web.health_s() < QUICK_S
    finally:
        ended.set()
        sender.join()
        _release(held)


def _upload(target: Target, data: bytes, framed: str = "length") -> dict[str, list[object]]:
    body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n' + data + b"\r\n--x--\r\n"
    head = f"POST /api/v1/imports HTTP/1.1\r\nHost: localhost\r\n{BEARER}Connection: close\r\n"
    head += "Content-Type: multipart/form-data; boundary=x\r\n"
    if framed == "chunked":
        head += "Transfer-Encoding: chunked\r\n"
        pieces = [body[at : at + 50_000] for at in range(0, len(body), 50_000)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    else:
        head += f"Content-Length: {len(body)}\r\n"
    with target.connect() as sock:
        if framed == "expect":
            sock.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
            assert sock.recv(100).startswith(b"HTTP/1.1 100")
        else:
            sock.sendall(head.encode() + b"\r\n")
        sock.sendall(body)
        answer = _all(sock)
    assert answer.startswith(b"HTTP/1.1 200"), (answer[:100], answer[-1000:])
    found: dict[str, list[object]] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return found


@pytest.mark.parametrize("framed", ["length", "chunked", "expect"])
@pytest.mark.parametrize("size", [100, BODY_BYTES, 3_000_000])
def test_bodies_of_every_kind_arrive(target: Target, framed: str, size: int) -> None:
    assert len(_upload(target, os.urandom(size), framed)["jobs"]) == 1


def test_requests_behind_each_other_are_all_answered(target: Target) -> None:
    """Pipelined: several at once, and the last of them in two pieces."""
    one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    posted = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\n\r\ntoken=x"
    chunked = b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n7\r\ntoken=x\r\n0\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with target.connect() as sock:
        sock.sendall(one * 3 + posted + chunked + one + last[:20])
        time.sleep(0.5)
        sock.sendall(last[20:])
        answer = _all(sock)
    assert answer.count(b"HTTP/1.1 200 OK") == 5
    assert answer.count(b"HTTP/1.1 401") == 2


def test_a_request_hidden_in_a_body_is_not_answered(target: Target) -> None:
    """What gate and parser make of lengths that contradict each other can only end the connection."""
    hidden = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for framed in (
        b"Content-Length: 5\r\nContent-Length: %d" % len(hidden),
        b"Content-Length: %d\r\nTransfer-Encoding: chunked" % len(hidden),
        b"Transfer-Encoding: xchunked\r\nContent-Length: 0",
        b"Content-Length: +0",
        b"Content-Length : %d" % len(hidden),
    ):
        answer = target.ask(b"POST /login HTTP/1.1\r\nHost: localhost\r\n" + framed + b"\r\n\r\n" + hidden)
        assert answer.count(b"HTTP/1.1 ") == 1 and b"HTTP/1.1 200" not in answer, (framed, answer)


def test_the_body_of_a_refused_request_is_no_request(web: Target) -> None:
    """The login answers before the body has come; its bytes are never read as the next request."""
    hidden = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with web.connect() as sock:
        sock.sendall(b"POST /import HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 401")
        with contextlib.suppress(OSError):
            sock.sendall(hidden * 100)
        assert b"ok\n" not in _all(sock)


@SLOW
def test_readers_are_quick_beside_an_attack(web: Target) -> None:
    """Eight readers with 200 half-sent requests beside them."""
    held = _hold(web, 200, b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    took: list[float] = []

    def read() -> None:
        request = urllib.request.Request(f"http://127.0.0.1:{web.port}/", headers={"Authorization": f"Bearer {TOKEN}"})
        for _ in range(5):
            begin = time.monotonic()
            with urllib.request.urlopen(request, timeout=30) as answer:
                answer.read()
            took.append(time.monotonic() - begin)

    try:
        readers = [threading.Thread(target=read) for _ in range(8)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        assert len(took) == 40 and statistics.median(took) < QUICK_S
    finally:
        _release(held)


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (b"", None),
        (b"GET / HTTP/1.1\r\n", None),
        (b"GET / HTTP/1.1\r\n\r\nrest", 18),
        (b"\r\n", None),
        (b"\r\nGET / HTTP/1.1\r\n\r\nrest", 20),
        (b"\r\n\r\n", 4),
        (b"\r\n\r\nGET / HTTP/1.1\r\n\r\n", 4),
        (b"GET / HTTP/1.1\n\n", None),
    ],
)
def test_the_end_of_a_header(data: bytes, end: int | None) -> None:
    assert head_end(data) == end


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (b"", (0, False)),
        (b"Content-Length: 5\r\n", (5, False)),
        (b"content-length:5\r\nCONTENT-LENGTH: 7\r\n", (7, False)),
        (b"Content-Length: 5\r\nExpect: 100-continue\r\n", (5, True)),
        (b"Expect: 100-continue\r\n", (0, False)),
        (b"Content-Length: -1\r\n", (None, False)),
        (b"Content-Length: 5\r\nTransfer-Encoding: identity\r\n", (None, False)),
        (b"X: y\r\nnot a header\r\n", (0, False)),
    ],
)
def test_the_length_of_a_body(lines: bytes, expected: tuple[int | None, bool]) -> None:
    head = b"POST / HTTP/1.1\r\n" + lines + b"\r\n"
    length, expects = expected
    assert framing(head) == Framing(None if length is None else len(head) + length, expects)


def test_a_closed_gate_can_still_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that ends closes its gate, finishes its requests, and calls `tick` meanwhile."""
    monkeypatch.setattr(web_gate, "LINGER_S", 0.0)
    monkeypatch.setattr(web_gate, "TICK_S", 0.0)
    gate = Gate(Slots(1), 8, lambda _: None, lambda _: None)
    pairs = [socket.socketpair() for _ in range(2)]
    with selectors.DefaultSelector() as gate.poller:
        gate.linger(pairs[0][0])
        gate._take_closing(time.monotonic() + 60)  # It lingers now.
        gate.linger(pairs[1][0])  # This is closed later.
        gate.close()
        gate.tick()
        assert not gate.poller.get_map()
    for ours, theirs in pairs:
        assert ours.fileno() < 0 and theirs.recv(1) == b""
        theirs.close()
