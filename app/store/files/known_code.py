"""The machine code and lines of functions that were read before: a file for each state of a binary, in
`<data>/binaries/lines/<build id>`.

A recording of a known binary then costs only what is not known yet. A file belongs to the very files that were read,
the binary and its debug information, by inode, size and time of change. So another file with the same build id,
or debug information that is installed later, is read. What is damaged is read again: a checksum at the end of a file
shows it, because Arrow ends the process for some damaged texts.
"""

import hashlib
import io
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array
from ...domain.schemas.code import CODE_SCHEMAS, Code
from ...domain.tables import get_column
from ...ingest import machine_code
from .binary_cache import BinaryFolder, folder_name, is_build_id

MAX_STATES = 4
"""Of the files of one build id that are kept."""
_DIGEST, _DIGEST_BYTES = "sha256", 32
_TABLES = tuple(name for name in CODE_SCHEMAS if name != "frames")
_DAMAGED = (pa.ArrowException, OSError, ValueError, LookupError, TypeError)


@dataclass(frozen=True)
class KnownCode:
    """The functions of one state of a binary: see `CodeCache`. path: of the file."""

    folder: BinaryFolder
    build_id: str
    path: Path

    def read(self) -> Code | None:
        """See `CodeCache`."""
        try:
            with pa.memory_map(str(self.path)) as file:
                data = file.read_buffer()
            content = memoryview(data)[:-_DIGEST_BYTES]
            if hashlib.new(_DIGEST, content).digest() != bytes(memoryview(data)[-_DIGEST_BYTES:]):
                return None
            stream = pa.BufferReader(data.slice(0, len(content)))
            tables = {name: pa.ipc.open_stream(stream).read_all() for name in _TABLES}
            code = Code(**tables)
            if not _is_valid(code):
                return None
        except _DAMAGED:
            return None
        self.folder.keep(self.build_id)
        return code

    def write(self, code: Code) -> None:
        """See `CodeCache`."""
        temporary = self.path.with_name(f".{secrets.token_hex(6)}")
        with suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                with open(temporary, "x+b") as file:
                    for name in _TABLES:
                        table = getattr(code, name)
                        with pa.ipc.new_stream(file, table.schema) as writer:
                            writer.write_table(table)
                    file.seek(0)
                    digest = hashlib.file_digest(file, _DIGEST).digest()
                    file.seek(0, os.SEEK_END)
                    file.write(digest)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(self.path)
            finally:
                temporary.unlink(missing_ok=True)
            self._remove_others()

    def _remove_others(self) -> None:
        """Remove what was written longest ago, such as for a file that was replaced."""
        found = sorted((path.stat().st_mtime, path) for path in self.path.parent.iterdir())
        for _, path in found[:-MAX_STATES]:
            path.unlink(missing_ok=True)


def find_known_code(root: Path, build_id: str, streams: Sequence[BinaryIO]) -> KnownCode | None:
    """The known functions of a binary. root: of all. streams: the binary, and the separate file with its debug
    information. None if they are no files."""
    if not is_build_id(build_id):
        return None
    digest = hashlib.sha256(_hash_readers())
    try:
        for stream in streams:
            about = os.fstat(stream.fileno())
            state = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
            digest.update(repr(state).encode())
    except (OSError, io.UnsupportedOperation):
        return None
    return KnownCode(BinaryFolder(root), build_id, root / folder_name(build_id) / digest.hexdigest()[:32])


@cache
def _hash_readers() -> bytes:
    """A hash of the modules that read machine code: what other versions of them have read is not used."""
    digest = hashlib.sha256()
    for path in sorted(Path(machine_code.__path__[0]).glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def _is_valid(code: Code) -> bool:
    """Whether the tables have their columns, and rows refer to rows."""
    if any(getattr(code, name).schema != CODE_SCHEMAS[name] for name in _TABLES) or code.objects.num_rows != 1:
        return False
    symbol, start = get_column(code.instructions, "symbol"), get_column(code.symbols, "start")
    parent = get_column(code.places, "parent")
    return bool(
        (symbol[1:] >= symbol[:-1]).all()
        and (start[1:] > start[:-1]).all()
        and _refer(symbol, len(start), 0)
        and _refer(get_column(code.instructions, "place"), len(parent), -1)
        and _refer(get_column(code.places, "file"), code.files.num_rows, -1)
        and (parent < np.arange(len(parent))).all()
        and _refer(parent, len(parent), -1)
    )


def _refer(rows: Array, count: int, least: int) -> bool:
    return not len(rows) or bool(rows.min() >= least and rows.max() < count)
