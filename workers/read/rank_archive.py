"""The recordings of the ranks of a planned job as one tar archive. It is stored with the result and can be imported.

An imported archive is untrusted: only the file names of a planned job are accepted.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, BinaryIO, cast

from perfloom.domain.errors import TooLarge, UnreadableInput
from perfloom.domain.rank_state import parse_plan
from perfloom.ingest import archive
from perfloom.ingest.compression import DecompressedStream
from perfloom.store.files.disk import disk_errors

from .rank_folders import PLAN, PLAN_BYTES, rank_folders, read_small_file

NAME = "ranks.tar"
FOLDER = "perfloom-ranks/"
MAX_FILES = 1 << 20
PIECE_BYTES = 1 << 20
_PATH = re.compile(r"run[0-9]{1,6}/[\w.-]{1,220}/[A-Za-z0-9][\w.-]{0,199}", re.ASCII)


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is such an archive."""
    return archive.is_archive(head, FOLDER + PLAN)


def pack(root: Path, out: Path, beside: Path, added: Sequence[Path] = ()) -> None:
    """Write the archive of a planned job's directory. added: more files of ranks, in directories of `beside` with the
    same names. Raises OSError."""
    with open(out, "wb") as target:
        for above, paths in ((root, (root / PLAN, *_files(root))), (beside, added)):
            for path in paths:
                with open(path, "rb") as file:
                    _add(target, FOLDER + path.relative_to(above).as_posix(), file)
        target.write(archive.make_end())
        target.flush()
        os.fsync(target.fileno())


def unpack(stream: DecompressedStream, root: Path, room: int, source: str) -> None:
    """Unpack an archive into a new directory. room: the available bytes. source: the name of the archive in messages.

    Raises UnreadableInput for a damaged archive or an unexpected file, TooLarge, and Unavailable for a full disk.
    """
    with disk_errors(root):
        root.mkdir(mode=0o700)
        for count, member in enumerate(archive.iterate_members(cast(BinaryIO, stream), source)):
            path = member.name.removeprefix(FOLDER)
            if not (path == PLAN or _PATH.fullmatch(path)) or ".." in path.split("/") or count > MAX_FILES:
                raise UnreadableInput(f"{source} contains an unexpected file {member.name[:60]!r}. Copy it again.")
            room -= member.size + archive.BLOCK_BYTES
            if room < 0:
                raise TooLarge(f"Not enough disk space to unpack {source}. Delete results or other files.")
            (root / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(root / path, "xb") as file:
                left = member.size
                while left:
                    data = archive.read_exactly(cast(BinaryIO, stream), min(left, PIECE_BYTES), source)
                    file.write(data)
                    left -= len(data)


def _files(root: Path) -> Iterator[Path]:
    plan = parse_plan(read_small_file(root / PLAN, PLAN_BYTES))
    for folder in rank_folders(root, plan.artifacts):
        yield from folder.files.values()


def _add(target: IO[bytes], name: str, file: IO[bytes]) -> None:
    size = left = os.fstat(file.fileno()).st_size
    target.write(archive.make_header(name, size))
    while left:
        data = file.read(min(left, PIECE_BYTES))
        if not data:
            raise OSError(f"{name} was truncated while it was read")
        target.write(data)
        left -= len(data)
    target.write(archive.make_padding(size))
