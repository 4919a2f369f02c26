"""Copies files over SFTP: many at a time and with pipelined blocks, to limit round trips to distant hosts.

A file is copied to a temporary name, then renamed, on both sides. If the connection breaks, the fetched part remains,
and the next attempt continues after it if the file is unchanged: the temporary name contains its size and modification
time.
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

from ..base.progress import Progress
from ..base.scripts import worker_script
from . import cat_copy, script_session, ssh_errors
from .base import FileCopy
from .connections import LinkBroken, SshLink, discard_link, open_session_on
from .local import is_complete, mode_of, open_for_reading

MAX_FILES = 64
"""Files copied at a time: each small one takes four round trips."""
BLOCK_BYTES = 1 << 18
MAX_BLOCKS = 32
"""Blocks in flight at a time, of all files together. Limits memory."""
START_S = 30.0
DEFAULT_BLOCK_BYTES = 1 << 15
"""Every server supports blocks of this size."""


@dataclass
class CopyProgress:
    """The progress of a copy; written in the event loop, read by the waiting thread."""

    files: int
    bytes: int | None
    done: int = 0
    bytes_moved: int = 0
    name: str = ""

    def report(self, progress: Progress, verb: str) -> None:
        """Call `progress` with the present state."""
        part = self.bytes_moved / self.bytes if self.bytes else self.done / max(1, self.files)
        name = self.name if self.files == 1 else f"{min(self.files, self.done + 1)} of {self.files} files"
        progress(min(1.0, part), f"{verb} {name}, {format_bytes(self.bytes_moved)} so far")


CopyFunction = Callable[[SshLink, Sequence[FileCopy], CopyProgress], Awaitable[None]]
"""`put` or `get`."""


async def sftp_client(link: SshLink) -> Any:
    """The SFTP client of a link; False if the host has no SFTP."""
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
    """Call `one` for all files, `at_once` at a time; the first error ends all."""
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
        first = _select_error(errors)
        if isinstance(first, ssh_errors.CONNECTION_LOST):
            discard_link(link)
            first = ssh_errors.connection_lost_error(first, link.host, doing)
        raise first from None
    finally:
        link.copying -= 1


def _select_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first PerfloomError, else the first error. A broken connection causes one for every file."""
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
        # asyncssh must not split reads and writes (0): each one here is a block already.
        target = await sftp.open(partial, flags, asyncssh.SFTPAttrs(permissions=mode), encoding=None, block_size=0)
        try:
            await _write_blocks(sftp, target, source, blocks, tally)
            # Restore permissions that the umask there removed.
            if mode & 0o100:
                await target.setstat(asyncssh.SFTPAttrs(permissions=mode))
        finally:
            # A network file system may report only here that the disk is full.
            await target.close()
        await _rename(sftp, partial, there)
    except BaseException as error:
        if link.alive:
            # The file may exist even if the answer to its creation was not awaited.
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
    """Cancel blocks in flight."""
    for *_, task in pending:
        task.cancel()
        blocks.release()
    await asyncio.gather(*(task for *_, task in pending), return_exceptions=True)


async def _rename(sftp: Any, partial: bytes, there: bytes) -> None:
    try:
        await sftp.posix_rename(partial, there)
    except asyncssh.SFTPOpUnsupported:
        # An old server cannot replace a file: for a moment it does not exist.
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
            # Checked first, because disk space was reserved for the listed size.
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
    """Temporary files of earlier attempts."""
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
    """Fetch the rest of a file. It is written in order, so that a partial file has no holes."""
    step = _block(sftp.limits.max_read_len)
    pending: deque[tuple[int, int, asyncio.Task[bytes]]] = deque()
    offset = start
    try:
        while offset < size or pending:
            # Only a file without blocks in flight waits for a free one, so there is no deadlock.
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
    """The error for a file that cannot be written at the target. SFTP only reports a failure, so a script gets the
    reason."""
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
    """The usual message of a system for an SFTP error."""
    if isinstance(error, asyncssh.SFTPNoSuchFile | asyncssh.SFTPNoSuchPath):
        return cat_copy.NO_SUCH
    if isinstance(error, asyncssh.SFTPPermissionDenied):
        return cat_copy.DENIED
    return error.reason
