"""Reads the machine code and lines of a stored profile's functions. In the restricted child."""

import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from perfloom.domain.errors import PerfloomError
from perfloom.ingest.compression import open_decompressed
from perfloom.ingest.machine_code.code_builder import CodeBuilder, deadline_after
from perfloom.readers import perf_data
from perfloom.readers.perf_build_id_list import parse_build_id_list
from perfloom.readers.perf_build_ids import read_build_ids
from perfloom.store.files import columns
from perfloom.store.files.binary_cache import BinaryFolder
from perfloom.store.files.code import write_code

from . import rank_archive
from .binaries import Binaries
from .rank_folders import rank_folders
from .request import AnswerWriter, Request

DEADLINE_S = 30.0
"""CPU time for the debug information of all binaries of a recording."""
HEAD_BYTES = 512
COPY_BYTES = 8 << 20
MAX_LIST_BYTES = 4 << 20
"""Of a text with build ids."""


def read_machine_code(request: Request, answers: AnswerWriter) -> tuple[Path, ...]:
    """Write the code of the profile in `request.out` to `request.code.folder`."""
    assert request.out is not None and request.code is not None
    answers.progress(None, "Reading source lines", now=True)
    build_ids = dict(request.code.build_ids or {})
    if request.code.uploads and request.code.incoming:
        from .uploaded_binaries import sort_uploads

        sort_uploads(request.code.uploads, build_ids, BinaryFolder(Path(request.code.incoming)))
    build_ids = read_all_build_ids(request) | build_ids
    recorders = set()
    for one in request.inputs:
        with suppress(OSError):
            recorders.add(os.stat(one.path).st_uid)
    binaries = Binaries(
        build_ids=build_ids,
        recorded_here=request.code.recorded_here,
        reads_dumps=request.code.reads_dumps,
        recorders=frozenset(recorders),
        lines=Path(request.code.lines) if request.code.lines else None,
        started=request.code.started,
        public=request.code.public,
        buildid_dir=request.buildid_dir or os.devnull,
        folders=tuple(BinaryFolder(Path(folder)) for folder in request.code.folders),
    )
    builder = CodeBuilder(binaries.open_object, binaries.read_source, deadline_after(DEADLINE_S))
    folder = Path(request.code.folder)
    write_code(builder.build(columns.read(Path(request.out))), folder)
    return (folder,)


def read_all_build_ids(request: Request) -> dict[str, str]:
    """The build ids of all recordings of a request, by path. What cannot be read has none."""
    found: dict[str, str] = {}
    for one in request.inputs:
        with suppress(OSError, ValueError, PerfloomError), _list_recordings(Path(one.path), request) as files:
            for file in files:
                with suppress(OSError, ValueError, PerfloomError):
                    for path, build_id in _read_build_ids(file).items():
                        found.setdefault(path, build_id)
    return found


@contextmanager
def _list_recordings(path: Path, request: Request) -> Iterator[Iterator[IO[bytes]]]:
    """A recording, decompressed to a temporary file if it is compressed; or those in an archive of ranks, and the lists
    of their build ids. Raises UnreadableInput, TooLarge, OSError."""
    with open_decompressed(path, request.limits.unpacked_bytes) as stream:
        head = stream.peek(HEAD_BYTES)
        if rank_archive.sniff(head):
            with tempfile.TemporaryDirectory(dir=request.scratch) as scratch:
                root = Path(scratch, "ranks")
                disk = os.statvfs(scratch)
                room = disk.f_bavail * disk.f_frsize - request.limits.free_bytes
                rank_archive.unpack(stream, root, room, path.name)
                yield _open_ranks(root)
            return
        if stream.packed is None or not perf_data.sniff(head):
            with open(path, "rb") as plain:
                yield iter((plain,))
            return
        with tempfile.TemporaryFile(dir=request.scratch) as file:
            shutil.copyfileobj(stream, file, COPY_BYTES)
            file.flush()
            yield iter((file,))


def _open_ranks(root: Path) -> Iterator[IO[bytes]]:
    for rank in rank_folders(root):
        for path in rank.recordings:
            with open(path, "rb") as file:
                yield file


def _read_build_ids(file: IO[bytes]) -> dict[str, str]:
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
        return read_build_ids(view) or parse_build_id_list(bytes(view[:MAX_LIST_BYTES]))
