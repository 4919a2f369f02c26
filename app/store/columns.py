"""A profile as files: one uncompressed Arrow IPC file a table, and a manifest. Read by mapping, without a copy.

The manifest (`manifest.json`) holds the schema version, the meta of the profile, and of each table its rows, bytes
and SHA-256. It is written last: a directory without one holds no profile.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..domain.errors import UnreadableInput
from ..domain.profile import Meta, Profile
from ..domain.tables import REQUIRED, SCHEMAS, empty
from .disk import disk_errors, sync_directory

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
MANIFEST_LIMIT_BYTES = 16 * 1024**2
AGAIN = "Read it again from the original file."


@dataclass(frozen=True)
class TableFile:
    """What the manifest says of one table's file."""

    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What stands in manifest.json."""

    schema_version: int
    meta: Meta
    tables: dict[str, TableFile]


def file_name(table: str) -> str:
    """The name of a table's file in a stored profile."""
    return f"{table}.arrow"


def write(profile: Profile, directory: Path) -> None:
    """Write `profile` into `directory` (made where missing, else without a profile so far) and flush it to disk.

    Raises Unavailable where the disk is full or cannot be written; what is then in `directory` is to be thrown away.
    """
    with disk_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        tables = {name: _write_table(table, name, directory) for name, table in profile.tables().items()}
        manifest = {"schema_version": SCHEMA_VERSION, "meta": profile.meta.to_json(), "tables": tables}
        with open(directory / MANIFEST, "w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(directory)


def read(directory: Path) -> Profile:
    """Map the profile in `directory`. Costs the same for any size: only headers are looked at.

    Raises UnreadableInput where it is damaged, or of a schema that cannot be read by this version.
    """
    manifest = read_manifest(directory)
    return Profile(meta=manifest.meta, **{name: _read_table(directory, name, manifest) for name in SCHEMAS})


def read_manifest(directory: Path) -> Manifest:
    """The manifest in `directory`. Raises UnreadableInput where there is none that can be understood."""
    path = directory / MANIFEST
    try:
        with open(path, "rb") as file:
            return parse_manifest(file.read(MANIFEST_LIMIT_BYTES + 1))
    except OSError:
        raise UnreadableInput(f"There is no stored profile in {directory}. {AGAIN}") from None


def parse_manifest(text: bytes) -> Manifest:
    """A manifest from its JSON. Raises UnreadableInput where it is damaged or of a newer version."""
    try:
        if len(text) > MANIFEST_LIMIT_BYTES:
            raise ValueError("too long")
        data = json.loads(text)
        version = int(data["schema_version"])
        if version > SCHEMA_VERSION:
            raise UnreadableInput(
                f"This result was stored by a newer version of Perfloom (schema {version}, this one reads up to "
                f"{SCHEMA_VERSION}). Upgrade Perfloom, or read the original file again."
            )
        tables = {
            str(name): TableFile(rows=int(of["rows"]), bytes=int(of["bytes"]), sha256=str(of["sha256"]))
            for name, of in data["tables"].items()
        }
        return Manifest(version, Meta.from_json(_checked_meta(data["meta"])), tables)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableInput(f"The manifest of this result is damaged ({error}). {AGAIN}") from None


def verify(directory: Path) -> None:
    """Compare every file with its checksum. Raises UnreadableInput where one differs."""
    for name, entry in read_manifest(directory).tables.items():
        if name not in SCHEMAS:
            continue
        try:
            with open(directory / file_name(name), "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            found = "missing"
        if found != entry.sha256:
            raise UnreadableInput(f"The table {name} of this result is damaged: its checksum differs. {AGAIN}")


def _checked_meta(meta: dict[str, Any]) -> dict[str, Any]:
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
    }
    for name, value in meta.items():
        if not isinstance(value, kinds.get(name, (object,))) or (isinstance(value, bool) and name != "complete"):
            raise ValueError(f"meta.{name} is {type(value).__name__}")
    texts = [*meta.get("reasons", ()), *meta.get("facts", {}).values()]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("meta holds something else than text")
    return meta


def _write_table(table: pa.Table, name: str, directory: Path) -> dict[str, Any]:
    schema = SCHEMAS[name]
    if table.schema != schema:
        table = table.select(schema.names).cast(schema)
    # One batch, so that a mapped column is one array and numpy sees it without a copy.
    batches = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=schema)]
    path = directory / file_name(name)
    with open(path, "wb") as file:
        with pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        file.flush()
        os.fsync(file.fileno())
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = os.fstat(file.fileno()).st_size
    return {"rows": table.num_rows, "bytes": size, "sha256": digest}


def _read_table(directory: Path, name: str, manifest: Manifest) -> pa.Table:
    entry = manifest.tables.get(name)
    old = manifest.schema_version < SCHEMA_VERSION
    if entry is None:
        if old:
            return empty(name)
        raise UnreadableInput(f"The table {name} of this result is missing. {AGAIN}")
    path = directory / file_name(name)
    try:
        if path.stat().st_size != entry.bytes:
            raise UnreadableInput(f"The table {name} of this result is damaged: its length differs. {AGAIN}")
        table = pa.ipc.open_file(pa.memory_map(os.fspath(path))).read_all()
    except (OSError, pa.ArrowException) as error:
        raise UnreadableInput(f"The table {name} of this result is damaged ({_short(error)}). {AGAIN}") from None
    if table.num_rows != entry.rows:
        raise UnreadableInput(f"The table {name} of this result is damaged: rows are missing. {AGAIN}")
    return fitted(table, name, old)


def fitted(table: pa.Table, name: str, old: bool) -> pa.Table:
    """`table` with exactly the columns of `SCHEMAS[name]`.

    old: it was written by an earlier version, and a column that did not exist then is filled with null. Raises
    UnreadableInput where null cannot stand there, or a column has another type.
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
                        f"The column {name}.{field.name} of this result is of another type. {AGAIN}"
                    ) from None
            columns.append(values)
        elif old and (field.name not in REQUIRED[name] or not table.num_rows):
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            raise UnreadableInput(f"This result has no column {name}.{field.name}. {AGAIN}")
    return pa.Table.from_arrays(columns, schema=schema)


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
