"""`perfloom import`: store files as a result, and wait for it.

The reader process gets its request before the libraries of the database are loaded: see `early_reading`.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, BinaryIO

from perfloom.config import Settings
from perfloom.domain.errors import TooLarge, UnreadableInput
from perfloom.ingest.compression import EMPTY_SPARSE_FILE, is_empty_sparse_file
from perfloom.ingest.switch_output_names import group_switch_output
from perfloom.store.files.disk import disk_errors, remove_tree, safe_name
from perfloom.store.ids import new_id

from .base.jobfiles import JobFiles
from .read import early_reading

if TYPE_CHECKING:
    from perfloom.store.jobs import Job

_PIECE_BYTES = 4 << 20


def import_files(
    settings: Settings, files: Sequence[str], name: str, watch: "Callable[[Job], None]", clock: str = ""
) -> "Job":
    """Import the files of one run ("-": standard input), wait, and return the job in its final state.

    clock: the unit of their times if they do not specify it, one of TIME_UNITS. watch: called whenever state or
    progress change. Ctrl-C cancels it. Raises UnreadableInput, TooLarge, Unavailable.
    """
    job_files = JobFiles(settings.data / "jobs" / new_id())
    with _interrupt_on_signals(), contextlib.ExitStack() as unless_submitted:
        unless_submitted.callback(remove_tree, job_files.root)
        file_names = _link_files(settings, job_files, files)
        links = [job_files.artifacts / file_name for file_name in file_names]
        with early_reading.begin_reading(settings, job_files.root.name, links, clock):

            def leave_to_worker() -> None:
                early_reading.end_reading(links, clock)
                _replace_links(settings, links, files)

            # Imported here: it loads the database's libraries.
            from . import job_client

            return job_client.run_import(
                settings,
                job_files,
                file_names,
                name or _name_result(file_names),
                watch,
                clock=clock,
                leave_to_worker=leave_to_worker,
                submitted=lambda: unless_submitted.pop_all(),
            )


def _name_result(file_names: Sequence[str]) -> str:
    """The name of a result of these files."""
    for name, recording in group_switch_output(file_names):
        if len(recording) == len(file_names):
            return name
    return file_names[0] + (f" and {len(file_names) - 1} more" if len(file_names) > 1 else "")


@contextlib.contextmanager
def _interrupt_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP, as SIGINT, raise KeyboardInterrupt, so that nothing is left of an interrupted import."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _link_files(settings: Settings, job_files: JobFiles, files: Sequence[str]) -> list[str]:
    """Put links to files into the job's directory; returns their names there. The result gets its own copies. Standard
    input is copied."""
    names: list[str] = []
    job_files.prepare()
    for file in files:
        name = safe_name("standard input" if file == "-" else os.path.basename(file), set(names))
        with _unreadable(file):
            if file == "-":
                _copy(settings, sys.stdin.buffer, file, job_files.artifacts / name)
            else:
                with open(file, "rb") as source:
                    if is_empty_sparse_file(source):
                        raise UnreadableInput(f"{file} {EMPTY_SPARSE_FILE}")
                os.symlink(os.path.abspath(file), job_files.artifacts / name)
        names.append(name)
    return names


def _replace_links(settings: Settings, links: Sequence[Path], files: Sequence[str]) -> None:
    """Replace links by copies, which are needed if the reading may begin after the end of this process."""
    for link, file in zip(links, files, strict=True):
        if link.is_symlink():
            with _unreadable(file), open(file, "rb") as source:
                link.unlink()
                _copy(settings, source, file, link)


@contextlib.contextmanager
def _unreadable(file: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnreadableInput(f"{file} cannot be read: {error.strerror}. Check its permissions.") from None


def _copy(settings: Settings, source: BinaryIO, shown: str, target: Path) -> None:
    disk = os.statvfs(target.parent)
    room = min(disk.f_bavail * disk.f_frsize - settings.reserve_bytes, settings.upload_limit_bytes)
    with disk_errors(target.parent), open(target, "xb") as copy:
        while data := source.read(_PIECE_BYTES):
            room -= len(data)
            if room < 0:
                raise TooLarge(
                    f"{shown} is too large: {settings.data} has no space for it, or it exceeds the limit of "
                    f"{settings.upload_limit_bytes:,} bytes. Delete results, or raise PERFLOOM_UPLOAD_LIMIT_BYTES."
                )
            copy.write(data)
        copy.flush()
        os.fsync(copy.fileno())
