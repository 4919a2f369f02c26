"""Copying files over SFTP: many at a time and in pipelined blocks, so that a far host costs few round trips in all.

A file is written under a name of its own and renamed when it is whole, at either side. What was fetched of a file when
the connection broke is kept beside its place, and the next time goes on behind it, if the file there is still the same
(its size and time of change are part of the name).
"""

import asyncio
import contextlib
import os
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from perfloom.domain.errors import PerfloomError, Unavailable, Unreachable
from perfloom.domain.units import format_bytes
from perfloom.recording.quoting import quote
from perfloom.store.files.disk import disk_errors

from ..scripts import worker_script
from . import cat_copy, script_session, ssh_errors
from .base import FileCopy, Progress
from .connections import LinkBroken, SshLink, discard_link, open_session_on
from .local import is_complete, mode_of, open_for_reading

MAX_FILES = 64
"""Files at a time: each small one costs four round trips, which so many share."""
BLOCK_BYTES = 1 << 18
MAX_BLOCKS = 32
"""Blocks on the way at a time, of all files together: they bound the memory that is taken."""
START_S = 30.0
DEFAULT_BLOCK_BYTES = 1 << 15
"""Every server takes blocks of this size."""


@dataclass
class CopyProgress:
    """How far it is; written in the event loop, read by whoever waits."""

    files: int
    bytes: int | None
    done: int = 0
    bytes_moved: int = 0
    name: str = ""

    def report(self, progress: Progress, verb: str) -> None:
        """Say so."""
        part = self.bytes_moved / self.bytes if self.bytes else self.done / max(1, self.files)
        name = self.name if self.files == 1 else f"{min(self.files, self.done + 1)} of {self.files} files"
        progress(min(1.0, part), f"{verb} {name}, {format_bytes(self.bytes_moved)} so far")


CopyFunction = Callable[[SshLink, Sequence[FileCopy], CopyProgress], Awaitable[None]]
"""`put` or `get`."""


async def sftp_client(link: SshLink) -> Any:
    """The SFTP client of a link; False where the host has no SFTP."""
    async with link.sftp_lock:
        if link.sftp is None:
            try:
                async with asyncio.timeout(START_S):
                    link.sftp = await open_session_on(link, lambda: link.target.start_sftp_client(send_env=None))
            except LinkBroken:
                raise
            except (asyncssh.Error, TimeoutError, Unreachable):
                link.sftp = False
        return link.sftp


async def put(link: SshLink, files: Sequence[FileCopy], tally: CopyProgress) -> None:
    """See Transport.put."""
    sftp = await sftp_client(link)
    blocks = asyncio.Semaphore(MAX_BLOCKS)

    async def one(file: FileCopy) -> None:
        tally.name = file.local.name
        with open_for_reading(file.local) as stream:
            source, mode = stream.fileno(), mode_of(file)
            if sftp:
                await _put_one(link, sftp, file, source, mode, blocks, tally)
            else:
                await cat_copy.put(link, file.remote, source, mode, tally)
        tally.done += 1

    await _each(link, files, one, MAX_FILES if sftp else cat_copy.MAX_FILES, "while files were copied there")


async def get(link: SshLink, files: Sequence[FileCopy], tally: CopyProgress) -> None:
    """See Transport.get."""
    sftp = await sftp_client(link)
    blocks = asyncio.Semaphore(MAX_BLOCKS)
    left = {folder: _left_over(folder) for folder in {file.local.parent for file in files}}

    async def one(file: FileCopy) -> None:
        if is_complete(file):
            tally.bytes_moved += file.bytes or 0
        else:
            tally.name = Path(file.remote).name
            with disk_errors(file.local):
                file.local.parent.mkdir(parents=True, exist_ok=True)
            if sftp:
                await _get_one(link, sftp, file, left[file.local.parent], blocks, tally)
            else:
                await cat_copy.get(link, file, tally)
        tally.done += 1

    await _each(link, files, one, MAX_FILES if sftp else cat_copy.MAX_FILES, "while files were fetched")


async def _each(
    link: SshLink, files: Sequence[FileCopy], one: Callable[[FileCopy], Awaitable[None]], at_once: int, doing: str
) -> None:
    """Do it with all files, so many at a time; the first failure ends all."""
    waiting = deque(files)

    async def work() -> None:
        while waiting:
            await one(waiting.popleft())

    link.copying += 1
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(files))):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        first = _first(errors)
        if isinstance(first, ssh_errors.CONNECTION_LOST):
            discard_link(link)
            first = ssh_errors.connection_lost_error(first, link.host, doing)
        raise first from None
    finally:
        link.copying -= 1


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that says most: of a broken connection every file has one."""
    flat: list[BaseException] = []
    rest: list[BaseException] = [errors]
    while rest:
        error = rest.pop(0)
        if isinstance(error, BaseExceptionGroup):
            rest.extend(error.exceptions)
        else:
            flat.append(error)
    return next((error for error in flat if isinstance(error, PerfloomError)), flat[0])


async def _put_one(
    link: SshLink, sftp: Any, file: FileCopy, source: int, mode: int, blocks: asyncio.Semaphore, tally: CopyProgress
) -> None:
    there = os.fsencode(file.remote)
    folder, _, name = there.rpartition(b"/")
    partial = folder + b"/." + name[:100] + b"." + secrets.token_hex(6).encode() + b".part"
    try:
        flags = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | asyncssh.FXF_EXCL
        # Blocks of its own are not wanted (0): what is written and read here is one block each.
        target = await sftp.open(partial, flags, asyncssh.SFTPAttrs(permissions=mode), encoding=None, block_size=0)
        try:
            await _write_blocks(sftp, target, source, blocks, tally)
            # What the umask there took away; it cannot take more than a script of ours needs.
            if mode & 0o100:
                await target.setstat(asyncssh.SFTPAttrs(permissions=mode))
        finally:
            # A disk of a network may tell only here that it is full.
            await target.close()
        await _rename(sftp, partial, there)
    except BaseException as error:
        if link.alive:
            # It may be there even if nobody has waited for the answer that it was made.
            with contextlib.suppress(asyncssh.Error, OSError):
                await asyncio.shield(sftp.remove(partial))
        if not isinstance(error, asyncssh.SFTPError) or isinstance(error, ssh_errors.CONNECTION_LOST):
            raise
        raise await _not_written(link, file.remote, error) from None


async def _write_blocks(sftp: Any, target: Any, source: int, blocks: asyncio.Semaphore, tally: CopyProgress) -> None:
    size = _block(sftp.limits.max_write_len)
    pending: deque[tuple[int, asyncio.Task[Any]]] = deque()
    offset = 0
    try:
        while True:
            while pending and (blocks.locked() or len(pending) >= MAX_BLOCKS):
                await _landed(pending, blocks, tally)
            data = os.pread(source, size, offset)
            if not data:
                break
            await blocks.acquire()
            pending.append((len(data), asyncio.ensure_future(target.write(data, offset))))
            offset += len(data)
        while pending:
            await _landed(pending, blocks, tally)
    finally:
        await _drop(pending, blocks)


async def _landed(
    pending: deque[tuple[int, asyncio.Task[Any]]], blocks: asyncio.Semaphore, tally: CopyProgress
) -> None:
    await pending[0][1]
    tally.bytes_moved += pending.popleft()[0]
    blocks.release()


async def _drop(pending: deque[Any], blocks: asyncio.Semaphore) -> None:
    """Give up what is still on the way."""
    for *_, task in pending:
        task.cancel()
        blocks.release()
    await asyncio.gather(*(task for *_, task in pending), return_exceptions=True)


async def _rename(sftp: Any, partial: bytes, there: bytes) -> None:
    try:
        await sftp.posix_rename(partial, there)
    except asyncssh.SFTPOpUnsupported:
        # An old server: for a moment nothing stands there.
        with contextlib.suppress(asyncssh.SFTPNoSuchFile):
            await sftp.remove(there)
        await sftp.rename(partial, there)


async def _get_one(
    link: SshLink, sftp: Any, file: FileCopy, left: Sequence[str], blocks: asyncio.Semaphore, tally: CopyProgress
) -> None:
    try:
        source = await sftp.open(os.fsencode(file.remote), asyncssh.FXF_READ, encoding=None, block_size=0)
        try:
            known = await source.stat()
            size, changed = int(known.size or 0), int(known.mtime or 0)
            # Before anything is fetched: no more comes here than there is room for.
            if file.bytes is not None and size != file.bytes:
                raise cat_copy.size_changed_error(link, file, size)
            partial = file.local.parent / f".{file.local.name[:100]}.{size}-{changed}.part"
            with disk_errors(file.local):
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                target = os.open(partial, flags, 0o600)
            try:
                start = min(size, os.fstat(target).st_size)
                tally.bytes_moved += start
                await _read_blocks(sftp, source, target, start, size, file, blocks, tally)
            finally:
                os.close(target)
        finally:
            with contextlib.suppress(asyncssh.Error, OSError):
                await source.close()
    except asyncssh.SFTPError as error:
        if isinstance(error, ssh_errors.CONNECTION_LOST):
            raise
        raise cat_copy.read_error(link, file.remote, _words(error)) from None
    with disk_errors(file.local):
        os.replace(partial, file.local)
        for name in left:
            if name.startswith(f".{file.local.name[:100]}."):
                (file.local.parent / name).unlink(missing_ok=True)


def _left_over(folder: Path) -> list[str]:
    """What earlier tries left of files there, whatever has become of those."""
    with contextlib.suppress(OSError):
        return [name for name in os.listdir(folder) if name.startswith(".") and name.endswith(".part")]
    return []


async def _read_blocks(
    sftp: Any,
    source: Any,
    target: int,
    start: int,
    size: int,
    file: FileCopy,
    blocks: asyncio.Semaphore,
    tally: CopyProgress,
) -> None:
    """Fetch what is missing. It is written in order, so that what is there is always a beginning without holes."""
    step = _block(sftp.limits.max_read_len)
    pending: deque[tuple[int, int, asyncio.Task[bytes]]] = deque()
    offset = start
    try:
        while offset < size or pending:
            # Only who has nothing on the way waits for a free block: so somebody always gets on.
            while offset < size and len(pending) < MAX_BLOCKS and (not pending or not blocks.locked()):
                await blocks.acquire()
                length = min(step, size - offset)
                pending.append((offset, length, asyncio.ensure_future(source.read(length, offset))))
                offset += length
            at, length, task = pending[0]
            data = await task
            while len(data) < length:
                more = await source.read(length - len(data), at + len(data))
                if not more:
                    raise Unavailable(f"{file.remote} was truncated while it was fetched. Fetch it again.")
                data += more
            with disk_errors(file.local):
                _write_all(target, data, at)
            pending.popleft()
            blocks.release()
            tally.bytes_moved += length
    finally:
        await _drop(pending, blocks)


def _write_all(handle: int, data: bytes, at: int) -> None:
    rest = memoryview(data)
    while rest:
        count = os.pwrite(handle, rest, at)
        rest, at = rest[count:], at + count


def _block(limit: int | None) -> int:
    return min(BLOCK_BYTES, limit) if limit else DEFAULT_BLOCK_BYTES


async def _not_written(link: SshLink, path: str, error: asyncssh.SFTPError) -> PerfloomError:
    """The error where a file there cannot be written. SFTP says only that it failed: the system there is asked why."""
    folder = path.rpartition("/")[0] or "/"
    words = _words(error)
    if words != cat_copy.NO_SUCH:
        name = f"{folder}/.perfloom-{secrets.token_hex(6)}.part"
        script = f"file={quote(name)}\n{worker_script('transports/try_writing.sh')}"
        with contextlib.suppress(PerfloomError):
            done = await script_session.run_script(link, script, timeout_s=START_S, limit_bytes=1 << 16)
            if done.status:
                words = done.text
    return cat_copy.write_error(link, path, words)


def _words(error: asyncssh.SFTPError) -> str:
    """What a system would say."""
    if isinstance(error, asyncssh.SFTPNoSuchFile | asyncssh.SFTPNoSuchPath):
        return cat_copy.NO_SUCH
    if isinstance(error, asyncssh.SFTPPermissionDenied):
        return cat_copy.DENIED
    return error.reason
