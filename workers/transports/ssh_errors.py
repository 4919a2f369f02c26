"""Converts errors of asyncssh and sockets to errors with messages for users."""

import errno
import os
import socket

import asyncssh

from perfloom.domain.errors import PerfloomError, Refused, Unreachable
from perfloom.domain.text import sanitize_line

from .hops import Hop

CHECK_ADVICE = "Check the target's host and port."
RETRY_NOTE = "Perfloom retries."


def connect_error(
    error: BaseException, hop: Hop, on_the_way: str, before: Hop | None, proxy_output: str = ""
) -> PerfloomError:
    """The error for a connection that could not be opened. on_the_way: text that identifies a jump host, empty for the
    target. before: the jump host before `hop`. proxy_said: the standard error of its ProxyCommand."""
    host = f"{hop.title}{on_the_way}"
    if hop.proxy_command and isinstance(error, asyncssh.ConnectionLost | OSError):
        message = f"; it printed: {_short(proxy_output)}" if proxy_output.strip() else ""
        return Unreachable(
            f"The ProxyCommand for {host} in ~/.ssh/config did not connect to it{message}. Try it manually on the "
            "worker's machine."
        )
    if isinstance(error, TimeoutError):
        return Unreachable(
            f"{host} did not answer within {hop.timeout_s:g} s. Check that it is up and can be reached from here "
            f"(a firewall may drop packets silently). {CHECK_ADVICE}"
        )
    if isinstance(error, asyncssh.ChannelOpenError):
        return _through(error, host, before)
    if isinstance(error, socket.gaierror | UnicodeError):
        return Unreachable(f"{host} cannot be resolved here ({_words(error)}). {CHECK_ADVICE}")
    if isinstance(error, asyncssh.Error):
        return _login(error, host)
    if isinstance(error, OSError):
        return _socket(error, host)
    return Unreachable(f"The connection to {host} failed: {_words(error)}.")


def is_too_many_tries(error: BaseException) -> bool:
    """Whether a host disconnected after too many authentication attempts (MaxAuthTries)."""
    return isinstance(error, asyncssh.Error) and "too many authentication failures" in _words(error).lower()


def _through(error: asyncssh.ChannelOpenError, host: str, before: Hop | None) -> PerfloomError:
    """The jump host could not connect to the next host."""
    jump = before.title if before is not None else "The jump host"
    if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
        return Refused(
            f"{jump} does not forward connections to {host} ({_words(error)}): its sshd_config has AllowTcpForwarding "
            "no, or PermitOpen without it. Ask its administrator, or use another jump host."
        )
    return Unreachable(f"{jump} cannot reach {host}: {_words(error)}. {CHECK_ADVICE}")


def _login(error: asyncssh.Error, host: str) -> PerfloomError:
    words = _words(error)
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return Refused(
            f"{host} and this machine have no common encryption method ({words}). The host's SSH server may be very "
            "old. Add its methods to ~/.ssh/config (KexAlgorithms, Ciphers, HostKeyAlgorithms)."
        )
    if isinstance(error, asyncssh.ProtocolError | asyncssh.ProtocolNotSupported):
        return Refused(f"{host} does not follow the SSH protocol ({words}). {CHECK_ADVICE}")
    if isinstance(error, asyncssh.ConnectionLost):
        return Unreachable(
            f"{host} closed the connection before the login. It may be busy, or block this machine for "
            f"a while, or its port may not be SSH. {RETRY_NOTE}"
        )
    return Unreachable(f"{host} ended the connection: {words}. {RETRY_NOTE}")


def _socket(error: OSError, host: str) -> PerfloomError:
    if isinstance(error, ConnectionRefusedError):
        return Unreachable(f"No SSH server listens there: {host} refused the connection. {CHECK_ADVICE}")
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN):
        return Unreachable(f"No route to {host} now ({_words(error)}). Check that network and VPN are up.")
    return Unreachable(f"The connection to {host} failed: {_words(error)}. {RETRY_NOTE}")


def connection_lost_error(error: BaseException, host: str, doing: str) -> Unreachable:
    """The error for a connection that broke. doing: what was being done, as in “while files …”."""
    return Unreachable(f"The connection to {host} was lost {doing} ({_words(error)}). {RETRY_NOTE}")


CONNECTION_LOST: tuple[type[BaseException], ...] = (
    asyncssh.DisconnectError,
    asyncssh.SFTPConnectionLost,
    asyncssh.SFTPNoConnection,
    ConnectionError,
)
"""Exceptions after the connection was lost."""


def _words(error: BaseException) -> str:
    """The message of an error on one line of limited length; it may contain text of the server."""
    message = str(getattr(error, "reason", "") or getattr(error, "strerror", "") or error)
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and (error.errno or 0) > 0:
        # Messages of asyncio contain irrelevant numbers.
        message = os.strerror(error.errno or 0)
    return _short(message) or type(error).__name__


def _short(text: str) -> str:
    return sanitize_line(text).strip(" .")[:300]
