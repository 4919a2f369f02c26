"""A client's connection as gunicorn's threads see it: the bytes that the gate has read come first, and waiting is
limited.

The underlying socket is non-blocking. A thread that must wait for the client, to receive or to send, needs one of a few
slots, so that slow clients never occupy all threads. The client must sustain a minimum rate.
"""

import errno
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from perfloom.domain.errors import RequestTimeout

_Answer = TypeVar("_Answer")
MIN_BYTES_PER_S = 8_000
"""Bytes per second that a client must send or receive while a thread waits for it."""
GRACE_S = 15.0
"""Seconds that a client may fall behind that rate. A lead is not saved up."""
SEND_SLOT_TIMEOUT_S = 2.0
"""How long a response waits for a slot."""
CHUNK = 65536
SEND_BUFFER = 212_992
"""Linux's default limit for any process (net.core.wmem_max)."""


class Slots:
    """Slots for threads that wait for clients. Thread-safe."""

    def __init__(self, count: int) -> None:
        self._free = threading.BoundedSemaphore(count)

    def take(self, timeout_s: float = 0.0) -> bool:
        """Whether a slot became free within the time."""
        return self._free.acquire(timeout=timeout_s) if timeout_s else self._free.acquire(blocking=False)

    def release(self) -> None:
        """Give a slot back."""
        self._free.release()


class TransferBudget:
    """The time that threads may still wait for one transfer, in seconds."""

    def __init__(self) -> None:
        self.left_s = GRACE_S

    def spend(self, waited_s: float, moved: int) -> None:
        """Account for a wait: its duration, and the bytes received or sent."""
        self.left_s = min(GRACE_S, self.left_s - waited_s + moved / MIN_BYTES_PER_S)


class Connection(socket.socket):
    """A plain connection, created from the descriptor of an accepted socket. Call `prepare` first."""

    _receiving: Slots
    _sending: Slots
    _linger: Callable[[socket.socket], None]
    _limit: float | None = None
    _answered = False
    _half_closed = False

    def prepare(self, receiving: Slots, sending: Slots, linger: Callable[[socket.socket], None]) -> None:
        """Set the slots, and the function that gets the descriptor when the connection is closed after a shutdown."""
        self._receiving, self._sending, self._linger = receiving, sending, linger
        self.buffer = bytearray()
        self.has_slot = False
        self._budget = TransferBudget()
        # A page fits into the buffer, so its thread is free again however slowly the client receives it.
        super().setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        super().settimeout(0.0)

    def begin_request(self) -> None:
        """A new request is handed to a thread."""
        self._answered = False
        self._budget = TransferBudget()

    def end_request(self) -> None:
        """The thread has ended: its slot is free again."""
        if self.has_slot:
            self.has_slot = False
            self._receiving.release()

    def fill(self) -> int | None:
        """Read what has arrived into the buffer. Returns its length, 0 at the end of the connection, None if nothing
        has arrived. Never waits."""
        try:
            data = self._receive()
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError:
            return 0
        self.buffer += data
        return len(data)

    def _receive(self) -> bytes:
        return super().recv(CHUNK)

    def _transmit(self, data: memoryview) -> int:
        return super().send(data)

    def offer(self, data: bytes) -> None:
        """Send what can be sent without waiting."""
        try:
            super().send(data)
        except OSError:
            pass

    def unread(self) -> int:
        """Bytes that were received and not yet read."""
        return len(self.buffer)

    # Methods that gunicorn calls.

    def recv(self, size: int, flags: int = 0) -> bytes:
        """At most `size` bytes, from the buffer, else from the network. Raises RequestTimeout; TimeoutError if the rest
        of an unread body has not arrived."""
        while not self.buffer:
            count = self.fill()
            if count == 0:
                return b""
            if count is None:
                self._await_client()
            else:
                self._budget.spend(0.0, count)
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    def _await_client(self) -> None:
        if self._answered or self._half_closed:
            raise TimeoutError("stopped waiting for the rest of this request")
        if not self.has_slot and not self._receiving.take():
            raise RequestTimeout("Too many slow uploads at once. Send it again later.")
        self.has_slot = True
        limit = self._budget.left_s
        begin = time.monotonic()
        ready = _ready(self, select.POLLIN, limit)
        self._budget.spend(time.monotonic() - begin, 0)
        if not ready or self._budget.left_s <= 0:
            raise RequestTimeout(
                f"The upload was slower than {MIN_BYTES_PER_S // 1000} kB/s, and was stopped. Send it again."
            )

    def send(self, data: Any, flags: int = 0) -> int:
        """Send a part of `data`; returns its length. Raises ConnectionResetError if the client is too slow."""
        view = memoryview(data).cast("B")
        if not bytes(view[:10]).startswith(b"HTTP/1.1 1"):
            self._answered = True
        if not view:
            return 0
        budget: TransferBudget | None = None
        try:
            while True:
                sent = self._send_some(view)
                if sent is not None:
                    return sent
                if budget is None:
                    if not self._sending.take(SEND_SLOT_TIMEOUT_S):
                        raise _connection_reset("too many clients receive their responses slowly")
                    budget = self._budget
                begin = time.monotonic()
                ready = _ready(self, select.POLLOUT, max(0.0, budget.left_s))
                budget.spend(time.monotonic() - begin, 0)
                if not ready:
                    raise _connection_reset("the client does not receive its response")
        finally:
            if budget is not None:
                self._sending.release()

    def _send_some(self, view: memoryview) -> int | None:
        try:
            sent = self._transmit(view[:CHUNK])
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        self._budget.spend(0.0, sent)
        return sent

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send all of `data`, as `send` does."""
        view = memoryview(data).cast("B")
        while view:
            view = view[self.send(view) :]

    def settimeout(self, value: float | None) -> None:
        """Only stored: the time limits are those above."""
        self._limit = value
        super().settimeout(0.0)

    def gettimeout(self) -> float | None:
        """The last value set."""
        return self._limit

    def setblocking(self, flag: bool) -> None:
        """Like `settimeout` with None or 0."""
        self.settimeout(None if flag else 0.0)

    def shutdown(self, how: int) -> None:
        """Half-close. From now on no method waits; `close` leaves the rest to the gate."""
        self._half_closed = True
        super().shutdown(how)

    def close(self) -> None:
        """Close immediately; after a shutdown, when the client has read the response."""
        if self._half_closed and self.fileno() >= 0:
            self._linger(socket.socket(fileno=self.detach()))
        super().close()


class TLSConnection(Connection, ssl.SSLSocket):  # type: ignore[misc]
    """A connection over TLS."""

    def do_handshake(self, block: bool = False) -> None:
        """Like `ssl.SSLSocket`."""
        _retry_once(super().do_handshake)

    def _receive(self) -> bytes:
        return _retry_once(super()._receive)

    def _transmit(self, data: memoryview) -> int:
        return _retry_once(lambda: super(TLSConnection, self)._transmit(data))

    def unread(self) -> int:
        """Bytes that were received and not yet read, including those in the TLS layer."""
        return len(self.buffer) + self.pending()


def _retry_once(call: Callable[[], _Answer]) -> _Answer:
    """The result of `call`, which is retried once after an error.

    OpenSSL has an error queue for each thread. Python 3.13 leaves system errors in it when it raises them, and raises
    them again for the thread's next connections when those only have to wait.
    """
    try:
        return call()
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        raise
    except OSError:
        _clear_errors()
    return call()


def _clear_errors() -> None:
    """Clear OpenSSL's error queue of this thread. Python does so when it looks up an unknown cipher."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers("none-of-this-name")
    except ssl.SSLError:
        pass


def _ready(connection: socket.socket, event: int, timeout_s: float) -> bool:
    poller = select.poll()
    poller.register(connection, event)
    return bool(poller.poll(max(0.0, timeout_s) * 1000))


def _connection_reset(why: str) -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, why)
