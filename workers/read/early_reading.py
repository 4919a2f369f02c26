"""Reading that begins while a command loads its own libraries: those of the database for `perfloom import`, those of
commands and tables for `perfloom report`.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from perfloom.config import Settings
from perfloom.domain.errors import PerfloomError
from perfloom.store.files.disk import remove_tree
from perfloom.store.files.staging import stage_result

from . import prefork, reading


def begin_profile(settings: Settings, files: Sequence[Path | str]) -> None:
    """Let the process that was started ahead, if any, begin what `read_profile` will ask for, which reports errors."""
    if (reader := prefork.take_reader()) is None:
        return
    with contextlib.ExitStack() as unless_begun:
        unless_begun.callback(reader.end)
        folder = tempfile.TemporaryDirectory(prefix="perfloom-")
        unless_begun.callback(folder.cleanup)
        with contextlib.suppress(PerfloomError):
            request = reading.make_profile_request(settings, files, folder.name)
            if reader.send_request(reading.write_request(request)):
                prefork.offer_profile(prefork.BegunProfile(reader, request, folder))
                unless_begun.pop_all()


@contextlib.contextmanager
def begin_reading(settings: Settings, id: str, files: Sequence[Path], clock: str) -> Iterator[None]:
    """Let the process that was started ahead, if any, read the files of one run for the result `id`.

    `read_to_result` takes it; at the end of the block it is ended if that was not called. clock: see Request. Raises
    UnreadableInput, Unavailable.
    """
    if (reader := prefork.take_reader()) is None:
        yield
        return
    staged: list[Path] = []
    try:
        for _ in range(2):
            staged.append(stage_result(settings.data, id))
    except PerfloomError:
        reader.end()
        for path in staged:
            remove_tree(path)
        raise
    folder, scratch = staged
    prefork.offer_reading(prefork.EarlyReading(reader, tuple(files), clock, folder, scratch))
    try:
        request = reading.make_request(settings, files, scratch, folder, clock=clock, describe=True, stays=True)
        if not reader.send_request(reading.write_request(request)):
            end_reading(files, clock)
        yield
    finally:
        end_reading(files, clock)


def end_reading(files: Sequence[Path], clock: str) -> None:
    """End the process that reads these files, and remove its directories, unless `read_to_result` took them."""
    early = prefork.take_reading(files, clock)
    if early is not None:
        early.reader.end()
        remove_tree(early.scratch)
        remove_tree(early.staged)
