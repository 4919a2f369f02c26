"""A profile as files: one uncompressed Arrow IPC file per table, and a manifest. Memory-mapped when read.

The manifest (`manifest.json`) has the schema version, the meta of the profile, and rows, bytes and SHA-256 of each
table. It is written last: a directory without one has no complete profile.
"""

import hashlib
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from ...domain.errors import UnreadableInput
from ...domain.profile import Profile
from ...domain.tables import SCHEMAS
from ...ingest.chunked_tables import ChunkedTable
from ...ingest.profile_upgrade import upgrade_profile
from ...ingest.storage_format import (
    EMPTY_FILE,
    MANIFEST_LIMIT_BYTES,
    REREAD_ADVICE,
    Manifest,
    TableFile,
    format_error,
    format_manifest,
    get_file_name,
    parse_manifest,
    read_table,
    write_chunked_table,
    write_table,
)
from ...ingest.storage_names import MANIFEST
from .disk import disk_errors, sync_directory

WRITERS = 4
"""How many tables are written at a time: while one is written to disk, another's checksum is computed. File systems
flush several small files together."""
MIN_HELPED_BYTES = 1 << 20
"""From this size on, the checksum of a table is computed by another thread than the one that writes it."""


def write(profile: Profile, directory: Path, pieces: Mapping[str, ChunkedTable] | None = None) -> None:
    """Write `profile` to `directory`, which is created or has no profile yet, and flush it to disk.

    pieces: tables in chunks that replace those of the profile.

    Raises Unavailable if the disk is full or cannot be written; the content of `directory` is then invalid.
    """
    with disk_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        tables = _write_tables(profile.tables() | dict(pieces or {}), directory)
        with open(directory / MANIFEST, "wb") as file:
            file.write(format_manifest(profile.meta, tables))
            file.flush()
            os.fsync(file.fileno())
        sync_directory(directory)


def read(directory: Path) -> Profile:
    """Map the profile in `directory`. Reads only headers, so it takes the same time for any size.

    Raises UnreadableInput if it is damaged, or has a schema that this version cannot read.
    """
    manifest = read_manifest(directory)
    tables = {name: read_table(_map_file(directory / get_file_name(name), name), name, manifest) for name in SCHEMAS}
    return upgrade_profile(Profile(meta=manifest.meta, **tables), manifest.schema_version)


def read_manifest(directory: Path) -> Manifest:
    """The manifest in `directory`. Raises UnreadableInput if it is missing or invalid."""
    path = directory / MANIFEST
    try:
        with open(path, "rb") as file:
            return parse_manifest(file.read(MANIFEST_LIMIT_BYTES + 1))
    except OSError:
        raise UnreadableInput(f"No stored profile in {directory}. {REREAD_ADVICE}") from None


def _write_tables(tables: Mapping[str, pa.Table | ChunkedTable], directory: Path) -> dict[str, TableFile]:
    """Write tables, several at a time, large ones first. Chunked tables share one spill file, so they are written one
    by one."""
    sizes = {name: table.nbytes for name, table in tables.items() if isinstance(table, pa.Table)}
    with ThreadPoolExecutor(WRITERS) as pool:
        begun = {
            name: pool.submit(_write_table, tables[name], name, directory)
            for name in sorted(sizes, key=sizes.__getitem__, reverse=True)
        }
        written = {name: _write_table(table, name, directory) for name, table in tables.items() if name not in begun}
        written |= {name: done.result() for name, done in begun.items()}
    return {name: written[name] for name in tables}


def _write_table(table: pa.Table | ChunkedTable, name: str, directory: Path) -> TableFile:
    rows = table.rows if isinstance(table, ChunkedTable) else table.num_rows
    if not rows:
        return EMPTY_FILE
    path = directory / get_file_name(name)
    # The disk and the processor work at the same time.
    with open(path, "wb") as file, ThreadPoolExecutor(1) as helper:
        if isinstance(table, ChunkedTable):
            # Its columns are not written in the order of the file.
            write_chunked_table(table, file)
            file.flush()
            flushed = helper.submit(os.fsync, file.fileno())
            with open(path, "rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            flushed.result()
        else:
            hashed = _HashedFile(file, helper if table.nbytes >= MIN_HELPED_BYTES else None)
            write_table(table, name, hashed)
            file.flush()
            os.fsync(file.fileno())
            digest = hashed.compute_digest()
        size = os.fstat(file.fileno()).st_size
    return TableFile(rows=rows, bytes=size, sha256=digest)


class _HashedFile:
    """A new binary file, and the SHA-256 of what is written to it. helper: of one thread that computes it; None to do
    it while writing."""

    closed = False

    def __init__(self, file: BinaryIO, helper: ThreadPoolExecutor | None) -> None:
        self._file = file
        self._helper = helper
        self._hash = hashlib.sha256()
        self._updates: list[Future[None]] = []

    def write(self, data: Any) -> int:
        """As a file does. The data must not change later."""
        if self._helper is None:
            self._hash.update(data)
        else:
            self._updates.append(self._helper.submit(self._hash.update, data))
        return self._file.write(data)

    def flush(self) -> None:
        """As a file does."""
        self._file.flush()

    def compute_digest(self) -> str:
        """The SHA-256 as in the manifest."""
        for update in self._updates:
            update.result()
        return self._hash.hexdigest()


def _map_file(path: Path, name: str) -> pa.MemoryMappedFile | None:
    try:
        return pa.memory_map(os.fspath(path)) if path.stat().st_size else pa.py_buffer(b"")
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowException) as error:
        raise UnreadableInput(
            f"The table {name} of this result cannot be opened ({format_error(error)}). {REREAD_ADVICE}"
        ) from None
