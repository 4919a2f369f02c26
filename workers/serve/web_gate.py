"""gunicorn's threaded worker behind a gate: a thread gets a connection only with a complete request.

The main loop reads from all connections at once, and only searches for the end of the header and the length of the
body. It decides *when* a thread gets the connection; the bytes reach gunicorn's own parser unchanged. If the two
interpret a request differently, the thread finds too few bytes and has to wait like for any slow upload
(`web_connection`), for which there are fewer slots than threads.

* A header has 10 s and 32 kB, a body up to 64 kB another 20 s.
* A larger body, a chunked one, and one whose client waits for `100 Continue` needs a slot and a minimum rate.
* A TLS handshake counts as part of the header.
"""

import enum
import io
import resource
import selectors
import socket
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gunicorn import http
from gunicorn import sock as gunicorn_sock
from gunicorn.workers.gthread import ThreadWorker

from perfloom.store.files.profile_cache import evict_deleted_profiles

from ..base import processes
from .web_connection import Connection, Slots, TLSConnection

HEAD_BYTES, HEAD_S = 32 * 1024, 10.0
BODY_BYTES, BODY_S = 64 * 1024, 20.0
SLOT_TIMEOUT_S = 240.0
"""How long a large upload waits for a slot."""
LINGER_S, LINGERING = 2.0, 256
MIN_THREADS = 4
MAX_OPEN_FILES = 8192
TICK_S = 0.25
TRIM_S = 15.0
"""How often memory is returned to the kernel, if there were requests."""
EVICT_S = 5.0
"""How often profiles of results that another process deleted are dropped."""


class ConnectionPhase(enum.Enum):
    """What a connection waits for."""

    HANDSHAKE = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()
    SLOT = enum.auto()


@dataclass(frozen=True)
class Framing:
    """Where a request ends according to its header. end: length of header and body; None if only the parser can
    determine it. expects: whether the client may wait for `100 Continue` before it sends the body."""

    end: int | None
    expects: bool


def head_end(data: bytes | bytearray, begin: int = 0) -> int | None:
    """Length of the header including the empty line; None while that is missing. It does not end before `begin`.

    One empty line may precede the request line (RFC 9112 section 2.2); gunicorn's parser skips one, not more. A second
    one ends the header here, and the parser rejects it.
    """
    found = data.find(b"\r\n\r\n", begin)
    return None if found < 0 else found + 4


def framing(head: bytes) -> Framing:
    """What a complete header says about the body. The largest of several lengths counts: a thread must wait for missing
    bytes, but not if it gets more."""
    length, known, expects = 0, True, False
    for line in head.strip(b"\r\n").split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        name, value = name.strip().lower(), value.strip()
        if name == b"content-length":
            if value.isdigit() and len(value) < 19:
                length = max(length, int(value))
            else:
                known = False
        elif name == b"transfer-encoding":
            known = False
        elif name == b"expect":
            expects = True
    return Framing(len(head) + length if known else None, expects and (length > 0 or not known))


@dataclass(eq=False)
class PendingConnection:
    """A connection without a complete request. scanned: leading bytes without the end of the header."""

    conn: Any
    step: ConnectionPhase
    until: float
    watched: int = 0
    scanned: int = 0
    end: int = 0

    @property
    def sock(self) -> Connection:
        """Its socket."""
        sock: Connection = self.conn.sock
        return sock


class Gate:
    """Connections without a complete request, in the main loop of a worker.

    ready: called with each connection whose request is complete. gone: called for each connection closed here.
    """

    def __init__(self, slots: Slots, limit: int, ready: Callable[[Any], None], gone: Callable[[Any], None]) -> None:
        self.poller: selectors.BaseSelector | None = None
        self._slots, self._limit, self._ready, self._gone = slots, limit, ready, gone
        self._waiting: dict[PendingConnection, None] = {}
        self._uploads: deque[PendingConnection] = deque()
        self._closing: deque[socket.socket] = deque()
        self._lingering: dict[socket.socket, float] = {}
        self._next_tick = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def admit(self, conn: Any, handshake: bool) -> None:
        """Add a new connection, or one whose next request begins."""
        step = ConnectionPhase.HANDSHAKE if handshake else ConnectionPhase.HEAD
        pending_connection = PendingConnection(conn, step, time.monotonic() + HEAD_S)
        self._waiting[pending_connection] = None
        self._go_on(pending_connection)
        while len(self._waiting) > self._limit:
            self._close(self._oldest_of_busiest_address())

    def linger(self, sock: socket.socket) -> None:
        """Close a half-closed connection when its client has, or after a timeout. Thread-safe."""
        self._closing.append(sock)

    def tick(self) -> None:
        """Give free slots to waiting uploads, and close connections that have waited too long."""
        self._start_uploads()
        now = time.monotonic()
        if now < self._next_tick:
            return
        self._next_tick = now + TICK_S
        self._take_closing(now)
        for one in [one for one in self._waiting if one.until <= now]:
            self._expire(one)
        for sock in [sock for sock, until in self._lingering.items() if until <= now]:
            self._end(sock)

    def close(self) -> None:
        """Close all waiting connections. `tick` may still be called while the worker finishes its requests."""
        for one in list(self._waiting):
            self._close(one)
        while self._closing:
            self._closing.popleft().close()
        for sock in list(self._lingering):
            self._end(sock)

    # One connection.

    def _go_on(self, pending_connection: PendingConnection) -> None:
        if pending_connection.step is ConnectionPhase.HANDSHAKE and not self._shake_hands(pending_connection):
            return
        while True:
            if self._complete(pending_connection):
                return
            count = pending_connection.sock.fill()
            if count == 0:
                return self._close(pending_connection)
            if count is None:
                return self._watch(pending_connection, selectors.EVENT_READ)

    def _shake_hands(self, pending_connection: PendingConnection) -> bool:
        assert isinstance(pending_connection.sock, TLSConnection)
        try:
            pending_connection.sock.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(pending_connection, selectors.EVENT_READ)
            return False
        except ssl.SSLWantWriteError:
            self._watch(pending_connection, selectors.EVENT_WRITE)
            return False
        except (OSError, ValueError):
            self._close(pending_connection)
            return False
        pending_connection.step = ConnectionPhase.HEAD
        return True

    def _complete(self, pending_connection: PendingConnection) -> bool:
        """Whether the gate is done reading: the request is handed over, refused, or waits for a slot."""
        data = pending_connection.sock.buffer
        if pending_connection.step is ConnectionPhase.HEAD:
            end = head_end(data, max(0, pending_connection.scanned - 3))
            if end is None or end > HEAD_BYTES:
                pending_connection.scanned = len(data)
                if len(data) > HEAD_BYTES:
                    self._refuse(
                        pending_connection, 431, "Request Header Fields Too Large", "The header has more than 32 kB."
                    )
                    return True
                return False
            body = framing(bytes(data[:end]))
            if body.end is not None and len(data) >= body.end:
                self._hand_over(pending_connection)
                return True
            if body.end is None or body.expects or body.end - end > BODY_BYTES:
                pending_connection.step, pending_connection.until = (
                    ConnectionPhase.SLOT,
                    time.monotonic() + SLOT_TIMEOUT_S,
                )
                self._unwatch(pending_connection)
                self._uploads.append(pending_connection)
                self._start_uploads()
                return True
            pending_connection.step, pending_connection.until, pending_connection.end = (
                ConnectionPhase.BODY,
                time.monotonic() + BODY_S,
                body.end,
            )
        if len(data) >= pending_connection.end:
            self._hand_over(pending_connection)
            return True
        return False

    def _start_uploads(self) -> None:
        while self._uploads and self._slots.take():
            one = self._uploads.popleft()
            one.sock.has_slot = True
            self._hand_over(one)

    def _hand_over(self, pending_connection: PendingConnection) -> None:
        self._forget(pending_connection)
        pending_connection.sock.begin_request()
        self._ready(pending_connection.conn)

    def _expire(self, pending_connection: PendingConnection) -> None:
        if pending_connection.step is ConnectionPhase.SLOT:
            self._refuse(
                pending_connection, 503, "Service Unavailable", "Too many large uploads at once. Send it again later."
            )
        elif pending_connection.sock.buffer:
            self._refuse(
                pending_connection, 408, "Request Timeout", "The request did not arrive in time. Send it again."
            )
        else:
            # Browsers open spare connections; an answer there would be taken for that of the next request.
            self._close(pending_connection)

    def _refuse(self, pending_connection: PendingConnection, status: int, phrase: str, message: str) -> None:
        text = (
            f"HTTP/1.1 {status} {phrase}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"X-Content-Type-Options: nosniff\r\nContent-Length: {len(message) + 1}\r\n\r\n{message}\n"
        )
        pending_connection.sock.offer(text.encode())
        try:
            pending_connection.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self._close(pending_connection)

    def _close(self, pending_connection: PendingConnection) -> None:
        self._forget(pending_connection)
        pending_connection.sock.end_request()
        pending_connection.sock.close()
        self._gone(pending_connection.conn)

    def _forget(self, pending_connection: PendingConnection) -> None:
        self._unwatch(pending_connection)
        self._waiting.pop(pending_connection, None)
        if pending_connection.step is ConnectionPhase.SLOT and pending_connection in self._uploads:
            self._uploads.remove(pending_connection)

    def _oldest_of_busiest_address(self) -> PendingConnection:
        """The connection that has waited longest, of the address with most connections."""
        addresses = Counter(_address(one) for one in self._waiting)
        busiest = addresses.most_common(1)[0][0]
        return next(one for one in self._waiting if _address(one) == busiest)

    # The main loop.

    def _watch(self, pending_connection: PendingConnection, events: int) -> None:
        if pending_connection.watched == events:
            return
        self._unwatch(pending_connection)
        assert self.poller is not None
        self.poller.register(pending_connection.sock, events, lambda _: self._go_on(pending_connection))
        pending_connection.watched = events

    def _unwatch(self, pending_connection: PendingConnection) -> None:
        if pending_connection.watched:
            assert self.poller is not None
            self.poller.unregister(pending_connection.sock)
            pending_connection.watched = 0

    def _take_closing(self, now: float) -> None:
        assert self.poller is not None
        while self._closing:
            sock = self._closing.popleft()
            sock.setblocking(False)
            self._lingering[sock] = now + LINGER_S
            self.poller.register(sock, selectors.EVENT_READ, self._drain)
        while len(self._lingering) > LINGERING:
            self._end(next(iter(self._lingering)))

    def _drain(self, sock: Any) -> None:
        try:
            if sock.recv(65536):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._end(sock)

    def _end(self, sock: socket.socket) -> None:
        assert self.poller is not None
        del self._lingering[sock]
        self.poller.unregister(sock)
        sock.close()


class GatedWorker(ThreadWorker):  # type: ignore[misc]
    """gunicorn's gthread worker with the gate before its threads. HTTP/1.1 only, at least 4 threads."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if self.cfg.threads < MIN_THREADS:
            self.cfg.set("threads", MIN_THREADS)
        if "http_protocols" in self.cfg.settings:
            self.cfg.set("http_protocols", "h1")
        few = max(1, self.cfg.threads // 4)
        self._receiving, self._sending = Slots(few), Slots(few)
        # Waiting and idle connections never keep the worker from accepting others.
        half = max(1, self.worker_connections // 2 - self.cfg.threads)
        self.max_keepalived = half
        self.gate = Gate(self._receiving, half, self._start, self._forget)
        self._tls: ssl.SSLContext | None = None
        self._trim_at, self._trimmed_nr, self._evict_at = 0.0, 0, 0.0

    def init_process(self) -> None:
        """Raise the limit on open files, and prepare TLS."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        new_limit = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < new_limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))
        if self.cfg.is_ssl:
            self._tls = gunicorn_sock.ssl_context(self.cfg)
            self._tls.sslsocket_class = TLSConnection
        super().init_process()

    def run(self) -> None:
        """The main loop."""
        self.gate.poller = self.poller
        super().run()

    def notify(self) -> None:
        """Notify gunicorn that the loop is alive, and run the gate's timers."""
        super().notify()
        if self.gate.poller is not None:
            self.gate.tick()
        now = time.monotonic()
        if now >= self._evict_at:
            self._evict_at = now + EVICT_S
            evict_deleted_profiles()
        if self.nr != self._trimmed_nr and now >= self._trim_at:
            self._trim_at, self._trimmed_nr = now + TRIM_S, self.nr
            processes.trim_malloc()

    def set_accept_enabled(self, enabled: bool) -> None:
        """Shut down without waiting for incomplete requests."""
        super().set_accept_enabled(enabled)
        if not self.alive:
            self.gate.close()

    def enqueue_req(self, conn: Any) -> None:
        """Pass a connection to the gate instead of to a thread."""
        new = not isinstance(conn.sock, Connection)
        if new:
            try:
                self._take(conn)
            except OSError:
                conn.sock.close()
                self._forget(conn)
                return
        else:
            # Bytes that the parser has read ahead belong to the next request.
            ahead = conn.parser.unreader.buf.getvalue()
            conn.parser.unreader.buf = io.BytesIO()
            conn.sock.buffer[:0] = ahead
        self.gate.admit(conn, handshake=new and self._tls is not None)

    def finish_request(self, conn: Any, fs: Any) -> None:
        """A thread has finished a request. Bytes after it are checked immediately, because no event reports them."""
        conn.sock.end_request()
        super().finish_request(conn, fs)
        self.gate.tick()
        if conn.sock.fileno() >= 0 and conn in self.keepalived_conns and conn.sock.unread():
            self.on_client_socket_readable(conn, conn.sock)

    def _take(self, conn: Any) -> None:
        if self._tls is not None:
            conn.sock.setblocking(False)
            sock: Connection = self._tls.wrap_socket(
                conn.sock,
                server_side=True,
                do_handshake_on_connect=False,
                suppress_ragged_eofs=self.cfg.suppress_ragged_eofs,
            )  # type: ignore[assignment]
        else:
            sock = Connection(fileno=conn.sock.detach())
        conn.sock = sock
        sock.prepare(self._receiving, self._sending, self.gate.linger)
        # If the connection has a parser, gunicorn does not make a handshake in a thread.
        conn.parser = http.RequestParser(self.cfg, sock, conn.client)

    def _start(self, conn: Any) -> None:
        conn.data_ready = True
        super().enqueue_req(conn)

    def _forget(self, conn: Any) -> None:
        self.nr_conns -= 1


def _address(pending_connection: PendingConnection) -> str:
    client = pending_connection.conn.client
    return str(client[0]) if isinstance(client, tuple) and client else ""
