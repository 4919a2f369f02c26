"""Reading that begins before the database is open: `perfloom import` loads the libraries of the database, which takes
as long as reading a small file, while the reader process reads.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from perfloom.config import Settings
from perfloom.domain.errors import PerfloomError
from perfloom.store.files.disk import remove_tree
from perfloom.store.files.staging import stage_result

from . import prefork, reading


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
