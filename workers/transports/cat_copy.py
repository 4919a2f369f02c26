"""Copies files over SSH to and from hosts without SFTP: with `cat`, one file after another."""

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator
from typing import Protocol

from perfloom.domain.errors import NotFound, PerfloomError, Refused, Unavailable
from perfloom.domain.text import sanitize_line
from perfloom.recording.quoting import quote
from perfloom.store.files.disk import disk_errors

from ..base.scripts import worker_script
from . import script_session
from .base import FileCopy
from .connections import SshLink

MAX_FILES = 4
FILE_TIMEOUT_S = 6 * 3600.0
"""The timeout of one file. A broken connection is detected much earlier."""
UNLIMITED = 1 << 62
NO_SUCH = "No such file or directory"
DENIED = "Permission denied"
"""Error messages of systems."""


class ByteCounter(Protocol):
    """Counts bytes."""

    bytes_moved: int


async def put(link: SshLink, there: str, source: int, mode: int, tally: ByteCounter) -> None:
    """Copy the open file `source` to the target."""
    folder, _, name = there.rpartition("/")
    partial = f"{folder}/.{name[:60]}.{secrets.token_hex(6)}.part"
    size = os.fstat(source).st_size

    async def pieces() -> AsyncIterator[bytes]:
        offset = 0
        while data := os.pread(source, min(script_session.CHUNK, size - offset), offset):
            yield data
            offset += len(data)
            tally.bytes_moved += len(data)

    script = (
        f"pl_partial={quote(partial)}; pl_file={quote(there)}; pl_folder={quote(folder or '/')}\n"
        f"pl_size={size}; pl_mode={mode:o}\n" + worker_script("transports/receive_file.sh")
    )
    done = await script_session.run_script(link, script, pieces(), timeout_s=FILE_TIMEOUT_S, limit_bytes=1 << 20)
    if done.status != 0:
        raise write_error(link, there, done.errors)


async def get(link: SshLink, file: FileCopy, tally: ByteCounter) -> None:
    """Fetch a file. Resumes an interrupted copy if the size of the file is unchanged."""
    path = quote(file.remote)
    script = f"LC_ALL=C; export LC_ALL; cat -- {path}"
    partial = file.local.parent / f".{file.local.name[:100]}.{'any' if file.bytes is None else file.bytes}.part"
    with disk_errors(file.local):
        handle = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        start = os.fstat(handle).st_size
        if file.bytes is None or start > file.bytes:
            os.ftruncate(handle, 0)
            start = 0
        if start:
            script = f"LC_ALL=C; export LC_ALL; tail -c +{start + 1} -- {path}"
            os.lseek(handle, start, os.SEEK_SET)
            tally.bytes_moved += start

        def take(data: bytes) -> None:
            rest = memoryview(data)
            with disk_errors(file.local):
                while rest:
                    rest = rest[os.write(handle, rest) :]
            tally.bytes_moved += len(data)

        # With room for an error message.
        limit = UNLIMITED if file.bytes is None else file.bytes - start + (1 << 16)
        done = await script_session.run_script(link, script, timeout_s=FILE_TIMEOUT_S, limit_bytes=limit, sink=take)
        size = os.fstat(handle).st_size
    finally:
        os.close(handle)
    if done.status != 0:
        if not size:
            with contextlib.suppress(OSError):
                partial.unlink()
        raise read_error(link, file.remote, done.errors)
    if file.bytes is not None and size != file.bytes:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise size_changed_error(link, file, size)
    with disk_errors(file.local):
        await asyncio.to_thread(os.replace, partial, file.local)


def size_changed_error(link: SshLink, file: FileCopy, size: int) -> Unavailable:
    """The error for a file at the target whose size differs from the listed one."""
    return Unavailable(
        f"{file.remote} on {link.host} has {size} bytes instead of {file.bytes}: it has changed. Fetch it again."
    )


def write_error(link: SshLink, path: str, words: str) -> PerfloomError:
    """The error for a file that cannot be written at the target. words: the system's message."""
    host, folder = link.host, path.rpartition("/")[0] or "/"
    if "No space left" in words or "quota" in words.lower():
        full = "the user's share of the disk (quota)" if "quota" in words.lower() else "the disk"
        return Unavailable(
            f"{path} cannot be written on {host}: {full} is full there. Delete files below {folder}, or choose "
            "another directory for the target, then try again."
        )
    if "No such file" in words or "Not a directory" in words:
        return NotFound(f"The directory {folder} does not exist on {host}, or no longer.")
    if "Permission denied" in words or "Read-only" in words or "not permitted" in words:
        return Refused(
            f"{path} may not be written on {host} by {link.hops[-1].user} ({_line(words)}). Choose another directory "
            "for the target, or change its permissions there."
        )
    return Unavailable(f"{path} cannot be written on {host} ({_line(words)}). Check the disk there, then try again.")


def read_error(link: SshLink, path: str, words: str) -> PerfloomError:
    """The error for a file that cannot be read at the target. words: the system's message."""
    if "No such file" in words:
        return NotFound(f"{path} does not exist on {link.host}, or no longer.")
    if "Permission denied" in words:
        return Refused(f"{path} on {link.host} may not be read by {link.hops[-1].user}. Check its permissions there.")
    return Unavailable(f"{path} on {link.host} cannot be read ({_line(words)}). Check the disk there, then try again.")


def _line(words: str) -> str:
    lines = [line for line in words.splitlines() if line.strip() and "records" not in line]
    return sanitize_line(lines[0] if lines else words).strip(" .")[-200:] or "no reason was given"
