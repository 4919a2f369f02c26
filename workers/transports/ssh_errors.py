"""What went wrong on the way to a host, for a person: every error of asyncssh and of sockets as one of ours."""

import errno
import os
import socket

import asyncssh

from perfloom.domain.errors import PerfloomError, Refused, Unreachable
from perfloom.domain.text import sanitize_line

from .hops import Hop

CHECK_ADVICE = "Check the target's host and port."
RETRY_NOTE = "It is tried again."


def connect_error(
    error: BaseException, hop: Hop, on_the_way: str, before: Hop | None, proxy_said: str = ""
) -> PerfloomError:
    """The error of a connection that was not made. on_the_way: words on what host `hop` is, where it is not the target
    itself. before: the host that it was to be reached through. proxy_said: what its ProxyCommand printed."""
    host = f"{hop.title}{on_the_way}"
    if hop.proxy_command and isinstance(error, asyncssh.ConnectionLost | OSError):
        said = f"; it says: {_short(proxy_said)}" if proxy_said.strip() else ""
        return Unreachable(
            f"The ProxyCommand for {host} in ~/.ssh/config did not lead there{said}. Try it by hand, on the machine of "
            "the worker."
        )
    if isinstance(error, TimeoutError):
        return Unreachable(
            f"{host} did not answer within {hop.timeout_s:g} s. See whether it is up and can be reached from here "
            f"(a firewall drops packets without a word). {CHECK_ADVICE}"
        )
    if isinstance(error, asyncssh.ChannelOpenError):
        return _through(error, host, before)
    if isinstance(error, socket.gaierror | UnicodeError):
        return Unreachable(f"{host} is a name that is not known here ({_words(error)}). {CHECK_ADVICE}")
    if isinstance(error, asyncssh.Error):
        return _login(error, host)
    if isinstance(error, OSError):
        return _socket(error, host)
    return Unreachable(f"The connection to {host} failed: {_words(error)}.")


def is_too_many_tries(error: BaseException) -> bool:
    """Whether a host hung up because of what was tried before, such as keys (MaxAuthTries)."""
    return isinstance(error, asyncssh.Error) and "too many authentication failures" in _words(error).lower()


def _through(error: asyncssh.ChannelOpenError, host: str, before: Hop | None) -> PerfloomError:
    """The host before did not connect us on."""
    jump = before.title if before is not None else "The jump host"
    if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
        return Refused(
            f"{jump} does not pass connections on to {host} ({_words(error)}): its sshd_config has AllowTcpForwarding "
            "no, or PermitOpen without it. Ask its administrator, or go another way."
        )
    return Unreachable(f"{jump} cannot reach {host}: {_words(error)}. {CHECK_ADVICE}")


def _login(error: asyncssh.Error, host: str) -> PerfloomError:
    words = _words(error)
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return Refused(
            f"{host} and this machine have no way to encrypt in common ({words}). The host's SSH server may be very "
            "old: name what it offers in ~/.ssh/config (KexAlgorithms, Ciphers, HostKeyAlgorithms)."
        )
    if isinstance(error, asyncssh.ProtocolError | asyncssh.ProtocolNotSupported):
        return Refused(f"What answers as {host} does not speak SSH as it should ({words}). {CHECK_ADVICE}")
    if isinstance(error, asyncssh.ConnectionLost):
        return Unreachable(
            f"{host} closed the connection before anybody was logged in. It may be busy, or lock this machine out for "
            f"a while; or another service than SSH listens there. {RETRY_NOTE}"
        )
    return Unreachable(f"{host} ended the connection: {words}. {RETRY_NOTE}")


def _socket(error: OSError, host: str) -> PerfloomError:
    if isinstance(error, ConnectionRefusedError):
        return Unreachable(f"No SSH server listens there: {host} refused the connection. {CHECK_ADVICE}")
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN):
        return Unreachable(f"There is no way to {host} now ({_words(error)}). See whether network and VPN are up.")
    return Unreachable(f"The connection to {host} failed: {_words(error)}. {RETRY_NOTE}")


def connection_lost_error(error: BaseException, host: str, doing: str) -> Unreachable:
    """The error of a connection that was there and broke. doing: what was being done, as in “while files …”."""
    return Unreachable(f"The connection to {host} broke {doing} ({_words(error)}). {RETRY_NOTE}")


CONNECTION_LOST: tuple[type[BaseException], ...] = (
    asyncssh.DisconnectError,
    asyncssh.SFTPConnectionLost,
    asyncssh.SFTPNoConnection,
    ConnectionError,
)
"""What is raised where the connection is no more."""


def _words(error: BaseException) -> str:
    """What an error says of itself, on one line that is not too long; servers put words of their own into it."""
    said = str(getattr(error, "reason", "") or getattr(error, "strerror", "") or error)
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and (error.errno or 0) > 0:
        # asyncio has words of its own, with numbers in them that say nothing.
        said = os.strerror(error.errno or 0)
    return _short(said) or type(error).__name__


def _short(text: str) -> str:
    return sanitize_line(text).strip(" .")[:300]
