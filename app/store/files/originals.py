"""The files that a result was read from, stored with it in `original/`."""

import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import zstandard

from ...domain.errors import UnreadableInput
from ..result import OriginalFile
from .disk import safe_name, sync_directory, sync_file

FOLDER = "original"
SUFFIX = ".zst"
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00", b"BZh", b"PK\x03\x04")
_PROBE_BYTES = 1 << 20
_PIECE_BYTES = 1 << 18
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


class EarlyCompression:
    """Compresses large files in a thread, while another process reads them. Those below the data directory are left
    out, see `store_copies`. A context manager: its end stops the thread.
    """

    def __init__(self, files: Sequence[Path], folder: Path, data: Path) -> None:
        """folder: an existing directory for the compressed files, on the same file system as `data`."""
        self._files = files
        self._folder = folder
        self._data = data
        self._stopped = threading.Event()
        self._packed: dict[Path, Path] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "EarlyCompression":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def wait(self) -> Mapping[Path, Path]:
        """Wait for its end. Returns the compressed files, by the path of each file. One that could not be compressed is
        missing."""
        self._thread.join()
        return self._packed

    def _run(self) -> None:
        for number, file in enumerate(self._files):
            packed = self._folder / f"{number}{SUFFIX}"
            try:
                source = file.resolve(strict=True)
                if not source.is_relative_to(self._data.resolve()) and _is_compressed_at_once(source):
                    _compress(source, packed, self._stopped.is_set)
                    self._packed[file] = packed
            except (OSError, UnreadableInput):
                # Storing the copies tries it again, and reports the error.
                return


def store_copies(
    files: Sequence[Path], directory: Path, path: Path, packed: Mapping[Path, Path] | None = None
) -> tuple[OriginalFile, ...]:
    """Copy `files` to `directory`/original, with safe names, and flush them to disk.

    A file below `path` (the data directory) is hard-linked instead if possible, because it does not change any more.
    Another large file is compressed immediately, if it is compressible, to avoid writing it twice. packed: files that
    are compressed already, which are moved. Raises OSError; UnreadableInput if a file becomes shorter meanwhile.
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
            done = (packed or {}).get(file)
            if done is not None or _is_compressed_at_once(source):
                compressed = target.with_name(target.name + SUFFIX)
                if done is None:
                    _compress(source, compressed)
                else:
                    done.rename(compressed)
                original_files.append(OriginalFile(target.name, _size_before(compressed), settled=True))
                continue
            _copy(source, target)
        target.chmod(0o600)
        sync_file(target)
        original_files.append(OriginalFile(target.name, target.stat().st_size, settled=_is_compressed(target)))
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


def _compress(path: Path, packed: Path, is_stopped: Callable[[], bool] = lambda: False) -> None:
    """Compress the bytes that a file has at the start; it may grow.

    Raises OSError; UnreadableInput if it becomes shorter; InterruptedError when `is_stopped`.
    """
    temporary = packed.with_name(f".{packed.name}")
    try:
        with open(path, "rb") as source, open(temporary, "wb") as target:
            size = rest = os.fstat(source.fileno()).st_size
            compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
            packer = compressor.compressobj(size=size)
            while rest > 0:
                if is_stopped():
                    raise InterruptedError
                piece = source.read(min(rest, _PIECE_BYTES))
                if not piece:
                    raise UnreadableInput(f"{path.name} became shorter while it was stored. Import it again.")
                rest -= len(piece)
                target.write(packer.compress(piece))
            target.write(packer.flush())
            target.flush()
            os.fsync(target.fileno())
        temporary.chmod(0o600)
        temporary.rename(packed)
        sync_directory(packed.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _size_before(packed: Path) -> int:
    """The size of a file before its compression by `_compress`."""
    with open(packed, "rb") as file:
        return int(zstandard.frame_content_size(file.read(64)))


def _is_compressed_at_once(path: Path) -> bool:
    """Whether a file outside of the data directory is stored compressed, not copied first."""
    return path.stat().st_size >= AT_ONCE_BYTES and _worth_it(path)


def _worth_it(path: Path) -> bool:
    """Whether compression shrinks a piece from the middle of a file by at least 10 %."""
    if _is_compressed(path):
        return False
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size // 2 - _PROBE_BYTES // 2))
        piece = file.read(_PROBE_BYTES)
    return len(piece) > 512 and len(zstandard.ZstdCompressor(level=1).compress(piece)) < 0.9 * len(piece)


def _is_compressed(path: Path) -> bool:
    """Whether a file is in a compressed format."""
    with open(path, "rb") as file:
        return file.read(6).startswith(_COMPRESSED)


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
