"""The files that a result was read from, stored with it in `original/`."""

import fcntl
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import zstandard

from ..result import OriginalFile
from .disk import safe_name, sync_directory, sync_file

FOLDER = "original"
SUFFIX = ".zst"
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00", b"BZh", b"PK\x03\x04")
_PROBE_BYTES = 1 << 20
AT_ONCE_BYTES = 16 << 20
LEVEL = 1
"""Higher levels take twice as long each and do not compress traces better."""
_FICLONE = 0x40049409


@dataclass(frozen=True)
class Original:
    """A file that a result was read from, as stored. name: the original one; path: with .zst if it is stored
    compressed. bytes: of the file at `path`."""

    name: str
    path: Path
    bytes: int


def store_copies(files: Sequence[Path], directory: Path, path: Path) -> tuple[OriginalFile, ...]:
    """Copy `files` to `directory`/original, with safe names, and flush them to disk.

    A file below `ours` (the data directory) is hard-linked instead if possible, because it does not change any more.
    Another large file is compressed immediately, if it is compressible, to avoid writing it twice. Raises OSError.
    """
    if not files:
        return ()
    folder = directory / FOLDER
    folder.mkdir()
    original_files: list[OriginalFile] = []
    for file in files:
        source = file.resolve(strict=True)
        names = {name for original in original_files for name in (original.name, original.name + SUFFIX)}
        target = folder / safe_name(file.name, names)
        if not (source.is_relative_to(path.resolve()) and _link_file(source, target)):
            size = source.stat().st_size
            if size >= AT_ONCE_BYTES and _worth_it(source):
                _compress(source, target.with_name(target.name + SUFFIX))
                original_files.append(OriginalFile(target.name, size, settled=True))
                continue
            _copy(source, target)
        target.chmod(0o600)
        sync_file(target)
        original_files.append(OriginalFile(target.name, target.stat().st_size))
    sync_directory(folder)
    return tuple(original_files)


def locate(directory: Path, originals: Sequence[OriginalFile]) -> tuple[Original, ...]:
    """The paths of the existing originals of the result in `directory`."""
    found = []
    for original in originals:
        for name in (original.name, original.name + SUFFIX):
            path = directory / FOLDER / name
            try:
                found.append(Original(original.name, path, path.stat().st_size))
                break
            except FileNotFoundError:
                continue
    return tuple(found)


def compress(directory: Path, originals: Sequence[OriginalFile]) -> tuple[OriginalFile, ...]:
    """Compress compressible originals. At any time each original exists completely, plain, compressed or both.

    Raises OSError, after which nothing has changed.
    """
    for original in originals:
        path = directory / FOLDER / original.name
        packed = path.with_name(path.name + SUFFIX)
        if original.settled or not path.exists() or not _worth_it(path):
            continue
        if not packed.exists():
            _compress(path, packed)
        path.unlink()
        sync_directory(path.parent)
    return tuple(replace(original, settled=True) for original in originals)


def _compress(path: Path, packed: Path) -> None:
    temporary = packed.with_name(f".{packed.name}")
    try:
        with open(path, "rb") as source, open(temporary, "wb") as target:
            size = os.fstat(source.fileno()).st_size
            zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).copy_stream(source, target, size=size)
            target.flush()
            os.fsync(target.fileno())
        temporary.chmod(0o600)
        temporary.rename(packed)
        sync_directory(packed.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _worth_it(path: Path) -> bool:
    """Whether compression shrinks a piece from the middle of a file by at least 10 %."""
    with open(path, "rb") as file:
        if file.read(6).startswith(_COMPRESSED):
            return False
        file.seek(max(0, os.fstat(file.fileno()).st_size // 2 - _PROBE_BYTES // 2))
        piece = file.read(_PROBE_BYTES)
    return len(piece) > 512 and len(zstandard.ZstdCompressor(level=1).compress(piece)) < 0.9 * len(piece)


def _link_file(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:
        return False
    return True


def _copy(source: Path, target: Path) -> None:
    with open(source, "rb") as file, open(target, "xb") as copy:
        try:
            # File systems with reflinks share the blocks.
            fcntl.ioctl(copy.fileno(), _FICLONE, file.fileno())
        except OSError:
            shutil.copyfileobj(file, copy, 1 << 20)
