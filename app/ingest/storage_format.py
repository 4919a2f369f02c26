"""The stored form of a profile: one uncompressed Arrow IPC file per table, and a manifest in JSON.

The manifest has the schema version, the meta of the profile, and rows, bytes and SHA-256 of each table. The store keeps
the files in one directory and maps them; an exported profile has the same bytes in one archive.
"""

import hashlib
import json
import mmap
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from ..domain.errors import UnreadableInput
from ..domain.profile import Meta
from ..domain.tables import REQUIRED, SCHEMAS, empty_table
from .chunked_tables import ChunkedTable

SCHEMA_VERSION = 6
FOLDER = "perfloom-profile/"
"""The prefix of every name in an archive."""
MANIFEST_LIMIT_BYTES = 16 * 1024**2
REREAD_ADVICE = "Import the original file again."
GAP_BYTES = 1 << 16
"""A table with fewer rows is small enough to be written at once; everything but columns is much shorter."""


@dataclass(frozen=True)
class TableFile:
    """The manifest's entry of one table's file."""

    rows: int
    bytes: int
    sha256: str


EMPTY_FILE = TableFile(rows=0, bytes=0, sha256=hashlib.sha256(b"").hexdigest())
"""Of a table without rows, which has no file."""


@dataclass(frozen=True)
class Manifest:
    """The content of manifest.json."""

    schema_version: int
    meta: Meta
    tables: dict[str, TableFile]

    @property
    def is_outdated(self) -> bool:
        """Whether it was written by an earlier version, in which tables and columns may be missing."""
        return self.schema_version < SCHEMA_VERSION


def get_file_name(table: str) -> str:
    """The name of a table's file."""
    return f"{table}.arrow"


def format_manifest(meta: Meta, tables: Mapping[str, TableFile]) -> bytes:
    """The manifest of a profile written by this version."""
    entries = {name: asdict(entry) for name, entry in tables.items()}
    data = {"schema_version": SCHEMA_VERSION, "meta": meta.to_json(), "tables": entries}
    return json.dumps(data, indent=1).encode()


def write_table(table: pa.Table, name: str, sink: Any) -> None:
    """Write table `name` to a binary file as one record batch, so that a mapped column is one numpy array."""
    schema = SCHEMAS[name]
    if table.schema != schema:
        table = table.select(schema.names).cast(schema)
    batches = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=schema)]
    with pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


class _SparseWriter:
    """A binary file that skips columns. places: the positions of their bytes."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.places: list[int] = []

    def write(self, data: Any) -> int:
        """As a file does."""
        size = memoryview(data).nbytes
        if size < GAP_BYTES:
            self._file.write(data)
        else:
            self.places.append(self._file.tell())
            self._file.seek(size, os.SEEK_CUR)
        return size

    def flush(self) -> None:
        """As a file does."""


def write_chunked_table(pieces: ChunkedTable, file: BinaryIO) -> None:
    """Write a chunked table to a new file. Raises OSError.

    If no column has nulls it is one record batch, as with `write_table`: first everything but the columns is written,
    then every chunk of every column at its position. Else each chunk is a record batch. Raises ValueError if the chunks
    do not have the stated length.
    """
    schema = SCHEMAS[pieces.name]
    if pieces.rows < GAP_BYTES:
        write_table(pieces.to_table(), pieces.name, file)
        return
    if set(REQUIRED[pieces.name]) < set(schema.names):
        with pa.ipc.new_file(file, schema) as writer:
            done = sum(_write_batch(writer, batch) for batch in pieces.iterate_batches())
    else:
        done = _write_columns(pieces, schema, file)
    if done != pieces.rows:
        raise ValueError(f"{pieces.name} has {done} rows in chunks, not {pieces.rows}")


def _write_batch(writer: Any, batch: pa.RecordBatch) -> int:
    writer.write_batch(batch)
    return int(batch.num_rows)


def _write_columns(pieces: ChunkedTable, schema: pa.Schema, file: BinaryIO) -> int:
    """Write columns without nulls as one record batch. Returns the number of rows."""
    # These bytes are never read, so they take no memory.
    nothing = pa.py_buffer(mmap.mmap(-1, 8 * pieces.rows, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ))
    widths = [field.type.bit_width // 8 for field in schema]
    columns = [
        pa.Array.from_buffers(field.type, pieces.rows, [None, nothing.slice(0, width * pieces.rows)])
        for field, width in zip(schema, widths, strict=True)
    ]
    gaps = _SparseWriter(file)
    with pa.ipc.new_file(pa.PythonFile(gaps, "w"), schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    done = 0
    for batch in pieces.iterate_batches():
        for place, width, column in zip(gaps.places, widths, batch.columns, strict=True):
            file.seek(place + width * done)
            file.write(memoryview(column.buffers()[1])[width * column.offset :][: width * len(column)])
        done += batch.num_rows
    return done


def read_table(source: Any, name: str, manifest: Manifest) -> pa.Table:
    """Table `name` from a mapped file or a buffer, without a copy. `source` None: there is no such file.

    Raises UnreadableInput if it is damaged, or differs from the manifest.
    """
    entry = manifest.tables.get(name)
    if entry == EMPTY_FILE:
        return empty_table(name)
    if entry is None or source is None:
        if entry is None and manifest.is_outdated:
            return empty_table(name)
        raise UnreadableInput(f"The table {name} of this result is missing. {REREAD_ADVICE}")
    if len(source) != entry.bytes if isinstance(source, pa.Buffer) else source.size() != entry.bytes:
        raise UnreadableInput(f"The table {name} of this result is damaged: its length differs. {REREAD_ADVICE}")
    try:
        table = pa.ipc.open_file(source).read_all()
    except (OSError, pa.ArrowException) as error:
        raise UnreadableInput(
            f"The table {name} of this result is damaged ({format_error(error)}). {REREAD_ADVICE}"
        ) from None
    if table.num_rows != entry.rows:
        raise UnreadableInput(f"The table {name} of this result is damaged: rows are missing. {REREAD_ADVICE}")
    return fit_schema(table, name, manifest.is_outdated)


def compute_digest(data: Any) -> str:
    """The SHA-256 of some bytes, as it is in the manifest."""
    return hashlib.sha256(data).hexdigest()


def fit_schema(table: pa.Table, name: str, old: bool) -> pa.Table:
    """`table` with exactly the columns of `SCHEMAS[name]`.

    old: it was written by an earlier version, and a column that did not exist then is filled with null. Raises
    UnreadableInput if null is not permitted there, or a column has another type.
    """
    schema = SCHEMAS[name]
    if table.schema == schema:
        return table
    columns = []
    for field in schema:
        if field.name in table.schema.names:
            values = table.column(field.name)
            if values.type != field.type:
                try:
                    values = values.cast(field.type)
                except pa.ArrowException:
                    raise UnreadableInput(
                        f"The column {name}.{field.name} of this result has an unexpected type. {REREAD_ADVICE}"
                    ) from None
            columns.append(values)
        elif old and (field.name not in REQUIRED[name] or not table.num_rows):
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            raise UnreadableInput(f"This result has no column {name}.{field.name}. {REREAD_ADVICE}")
    return pa.Table.from_arrays(columns, schema=schema)


def parse_manifest(text: bytes) -> Manifest:
    """A manifest from its JSON. Raises UnreadableInput if it is damaged or of a newer version."""
    try:
        if len(text) > MANIFEST_LIMIT_BYTES:
            raise ValueError("too long")
        data = json.loads(text)
        version = int(data["schema_version"])
        if version > SCHEMA_VERSION:
            raise UnreadableInput(
                f"This result was stored by a newer version of Perfloom (schema {version}; this version reads up to "
                f"{SCHEMA_VERSION}). Upgrade Perfloom, or import the original file again."
            )
        tables = {
            str(name): TableFile(rows=int(of["rows"]), bytes=int(of["bytes"]), sha256=str(of["sha256"]))
            for name, of in data["tables"].items()
        }
        return Manifest(version, Meta.from_json(_check_meta(data["meta"])), tables)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableInput(f"The manifest of this result is damaged ({error}). {REREAD_ADVICE}") from None


def _check_meta(meta: dict[str, Any]) -> dict[str, Any]:
    """`meta` with every value of the type that Meta declares. Raises ValueError."""
    kinds: dict[str, tuple[type, ...]] = {
        "format": (str,),
        "duration_ns": (int, type(None)),
        "start_epoch_ns": (int, type(None)),
        "clock": (str, type(None)),
        "main_event": (str, type(None)),
        "command": (str, type(None)),
        "complete": (bool,),
        "reasons": (list,),
        "facts": (dict,),
        "capabilities": (list,),
    }
    for name, value in meta.items():
        if not isinstance(value, kinds.get(name, (object,))) or (isinstance(value, bool) and name != "complete"):
            raise ValueError(f"meta.{name} is {type(value).__name__}")
    texts = [*meta.get("reasons", ()), *meta.get("capabilities", ()), *meta.get("facts", {}).values()]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("meta contains values other than text")
    return meta


def format_error(error: Exception) -> str:
    """The first line of an exception's message."""
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
