"""Copying files over SSH where a host offers no SFTP: through `cat`, file by file."""

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator
from typing import Protocol

from perfloom.domain.errors import NotFound, PerfloomError, Refused, Unavailable
from perfloom.domain.plain import one_line
from perfloom.recording.plan.quoting import quote
from perfloom.store.files.disk import disk_errors
from perfloom.workers.transports import sessions
from perfloom.workers.transports.base import Copy
from perfloom.workers.transports.connections import Link

FILES = 4
HOURS_S = 6 * 3600.0
"""No file takes longer; a broken connection is noticed long before."""
MOST = 1 << 62
NO_SUCH = "No such file or directory"
DENIED = "Permission denied"
"""What systems say."""


class Moved(Protocol):
    """Counts bytes."""

    moved: int


async def put(link: Link, there: str, source: int, mode: int, tally: Moved) -> None:
    """Copy the open file `source` there."""
    folder, _, name = there.rpartition("/")
    partial = f"{folder}/.{name[:60]}.{secrets.token_hex(6)}.part"
    size = os.fstat(source).st_size

    async def pieces() -> AsyncIterator[bytes]:
        offset = 0
        while data := os.pread(source, min(sessions.CHUNK, size - offset), offset):
            yield data
            offset += len(data)
            tally.moved += len(data)

    # Where the connection breaks, cat sees no more than an end: whether that was all is told by the size.
    script = (
        f"LC_ALL=C; export LC_ALL; umask 077; f={quote(partial)}; t={quote(there)}; d={quote(folder or '/')}\n"
        'if [ ! -d "$d" ]; then echo "No such file or directory" >&2; exit 1; fi\n'
        'if [ -d "$t" ]; then echo "Is a directory" >&2; exit 1; fi\n'
        "trap 'rm -f -- \"$f\"; exit 1' HUP INT TERM\n"
        f'if cat >"$f" && [ "$(wc -c <"$f")" -eq {size} ] && chmod {mode:o} "$f" && mv -f -- "$f" "$t"\n'
        "then exit 0; fi\n"
        'rm -f -- "$f"; exit 1'
    )
    done = await sessions.run(link, script, pieces(), timeout_s=HOURS_S, limit_bytes=1 << 20)
    if done.status != 0:
        raise not_written(link, there, done.errors)


async def get(link: Link, file: Copy, tally: Moved) -> None:
    """Fetch a file, from where it was broken off if its size says that it is the same."""
    path = quote(file.there)
    script = f"LC_ALL=C; export LC_ALL; cat -- {path}"
    partial = file.here.parent / f".{file.here.name[:100]}.{'any' if file.bytes is None else file.bytes}.part"
    with disk_errors(file.here):
        handle = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        start = os.fstat(handle).st_size
        if file.bytes is None or start > file.bytes:
            os.ftruncate(handle, 0)
            start = 0
        if start:
            script = f"LC_ALL=C; export LC_ALL; tail -c +{start + 1} -- {path}"
            os.lseek(handle, start, os.SEEK_SET)
            tally.moved += start

        def take(data: bytes) -> None:
            rest = memoryview(data)
            with disk_errors(file.here):
                while rest:
                    rest = rest[os.write(handle, rest) :]
            tally.moved += len(data)

        # With room for words on what is wrong.
        limit = MOST if file.bytes is None else file.bytes - start + (1 << 16)
        done = await sessions.run(link, script, timeout_s=HOURS_S, limit_bytes=limit, sink=take)
        size = os.fstat(handle).st_size
    finally:
        os.close(handle)
    if done.status != 0:
        if not size:
            with contextlib.suppress(OSError):
                partial.unlink()
        raise not_read(link, file.there, done.errors)
    if file.bytes is not None and size != file.bytes:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise changed(link, file, size)
    with disk_errors(file.here):
        await asyncio.to_thread(os.replace, partial, file.here)


def changed(link: Link, file: Copy, size: int) -> Unavailable:
    """The error where a file there has another size than it was said to have."""
    return Unavailable(
        f"{file.there} on {link.host} has {size} bytes and not {file.bytes}: it was changed meanwhile. Fetch it again."
    )


def not_written(link: Link, path: str, words: str) -> PerfloomError:
    """The error where a file there cannot be written. words: what the system there says of it."""
    host, folder = link.host, path.rpartition("/")[0] or "/"
    if "No space left" in words or "quota" in words.lower():
        full = "the user's share of the disk (quota)" if "quota" in words.lower() else "the disk"
        return Unavailable(
            f"{path} cannot be written on {host}: {full} is full there. Delete something below {folder}, or choose "
            "another directory for the target, then try again."
        )
    if "No such file" in words or "Not a directory" in words:
        return NotFound(f"The folder {folder} is not on {host} (any more).")
    if "Permission denied" in words or "Read-only" in words or "not permitted" in words:
        return Refused(
            f"{path} may not be written on {host} by {link.hops[-1].user} ({_line(words)}). Choose another directory "
            "for the target, or have its permissions changed there."
        )
    return Unavailable(f"{path} cannot be written on {host} ({_line(words)}). Check the disk there, then try again.")


def not_read(link: Link, path: str, words: str) -> PerfloomError:
    """The error where a file there cannot be read. words: what the system there says of it."""
    if "No such file" in words:
        return NotFound(f"{path} is not on {link.host} (any more).")
    if "Permission denied" in words:
        return Refused(f"{path} on {link.host} may not be read by {link.hops[-1].user}. Check its permissions there.")
    return Unavailable(f"{path} on {link.host} cannot be read ({_line(words)}). Check the disk there, then try again.")


def _line(words: str) -> str:
    lines = [line for line in words.splitlines() if line.strip() and "records" not in line]
    return one_line(lines[0] if lines else words).strip(" .")[-200:] or "no reason is given"
