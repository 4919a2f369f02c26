"""A client's connection as gunicorn's threads see it: what the gate has read comes first, and waiting is limited.

The socket below never blocks by itself. A thread that must wait for the client, to receive or to send, needs one of a
few slots for that, so that slow clients never hold every thread; and the client must keep up a minimum rate.
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
"""Bytes a second that a client must send or take while somebody waits for it."""
GRACE_S = 15.0
"""How far a client may fall behind that rate. What it is ahead is forgotten, so that it cannot be saved up."""
SEND_SLOT_TIMEOUT_S = 2.0
"""How long a response waits until fewer others wait for their clients."""
CHUNK = 65536
SEND_BUFFER = 212_992
"""What Linux grants everybody (net.core.wmem_max)."""


class Slots:
    """How many threads may wait for clients at the same time. Safe to use from any thread."""

    def __init__(self, count: int) -> None:
        self._free = threading.BoundedSemaphore(count)

    def take(self, timeout_s: float = 0.0) -> bool:
        """Whether a slot became free within the time."""
        return self._free.acquire(timeout=timeout_s) if timeout_s else self._free.acquire(blocking=False)

    def release(self) -> None:
        """Give a slot back."""
        self._free.release()


class TransferBudget:
    """Time that one transfer may still be waited for, in seconds."""

    def __init__(self) -> None:
        self.left_s = GRACE_S

    def spend(self, waited_s: float, moved: int) -> None:
        """After a wait: what it took, and the bytes that came or went."""
        self.left_s = min(GRACE_S, self.left_s - waited_s + moved / MIN_BYTES_PER_S)


class Connection(socket.socket):
    """A plain connection. Made from the descriptor of an accepted socket; `prepare` comes before anything else."""

    _receiving: Slots
    _sending: Slots
    _linger: Callable[[socket.socket], None]
    _limit: float | None = None
    _answered = False
    _half_closed = False

    def prepare(self, receiving: Slots, sending: Slots, linger: Callable[[socket.socket], None]) -> None:
        """Set the slots, and who takes over the descriptor when the connection was shut down and is closed."""
        self._receiving, self._sending, self._linger = receiving, sending, linger
        self.buffer = bytearray()
        self.has_slot = False
        self._budget = TransferBudget()
        # A page fits in there, so that its thread is free again however slowly it is taken.
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
        """Take into the buffer what has arrived: its length, 0 at the end of the connection, None where nothing has.
        Never waits."""
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
        """Bytes that were received and not yet taken."""
        return len(self.buffer)

    # What gunicorn calls.

    def recv(self, size: int, flags: int = 0) -> bytes:
        """At most `size` bytes: of the buffer, else of the network. Raises RequestTimeout; TimeoutError where what
        remains of a body that nobody wants has not arrived."""
        while not self.buffer:
            count = self.fill()
            if count == 0:
                return b""
            if count is None:
                self._await_client()
            else:
                self._budget.spend(0.0, count)
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        return taken

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
        """Send some of `data`; its length. Raises ConnectionResetError where the client takes nothing for too long."""
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
        """Remembered only: what is waited for, and how long, stands above."""
        self._limit = value
        super().settimeout(0.0)

    def gettimeout(self) -> float | None:
        """What was last set."""
        return self._limit

    def setblocking(self, flag: bool) -> None:
        """As `settimeout` with None or 0."""
        self.settimeout(None if flag else 0.0)

    def shutdown(self, how: int) -> None:
        """Half-close. From now on nothing is waited for; closing leaves the rest to the gate."""
        self._half_closed = True
        super().shutdown(how)

    def close(self) -> None:
        """Close at once; after a shutdown, as soon as the client has read what it was sent."""
        if self._half_closed and self.fileno() >= 0:
            self._linger(socket.socket(fileno=self.detach()))
        super().close()


class TLSConnection(Connection, ssl.SSLSocket):  # type: ignore[misc]
    """A connection over TLS."""

    def do_handshake(self, block: bool = False) -> None:
        """As of `ssl.SSLSocket`."""
        _again(super().do_handshake)

    def _receive(self) -> bytes:
        return _again(super()._receive)

    def _transmit(self, data: memoryview) -> int:
        return _again(lambda: super(TLSConnection, self)._transmit(data))

    def unread(self) -> int:
        """Bytes that were received and not yet taken, in the TLS layer too."""
        return len(self.buffer) + self.pending()


def _again(call: Callable[[], _Answer]) -> _Answer:
    """What `call` gives, tried a second time where it fails.

    OpenSSL has a queue of errors for each thread. Python 3.13 leaves errors of the system in it when it raises them,
    and raises them again on the connections that this thread serves next, where they have only to wait.
    """
    try:
        return call()
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        raise
    except OSError:
        _clear_errors()
    return call()


def _clear_errors() -> None:
    """Empty OpenSSL's queue of this thread, as Python does where no cipher has a name."""
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
