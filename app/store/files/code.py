"""The machine code of a result as Arrow files in the directory `code` next to its profile, so that pages that do not
need it are as fast as without. Memory-mapped when read; created completely or not at all.
"""

import os
from pathlib import Path

import pyarrow as pa

from ...domain.errors import UnreadableInput
from ...domain.schemas.code import CODE_SCHEMAS, Code
from ...ingest.storage_names import CODE_FOLDER
from .disk import disk_errors, sync_directory


def write_code(code: Code, directory: Path) -> None:
    """Write `code` to a new directory and flush it to disk. Raises Unavailable if the disk is full."""
    with disk_errors(directory):
        # Without parents: a result that was deleted meanwhile stays deleted.
        directory.mkdir(mode=0o700, exist_ok=True)
        for name, table in code.tables().items():
            with open(directory / f"{name}.arrow", "wb") as file:
                with pa.ipc.new_file(file, table.schema) as writer:
                    writer.write_table(table)
                file.flush()
                os.fsync(file.fileno())
        sync_directory(directory)


def read_code(result: Path) -> Code | None:
    """The code of the result in a directory; None if it has none. Raises UnreadableInput if it is damaged."""
    folder = result / CODE_FOLDER
    return read_code_folder(folder) if folder.is_dir() else None


def read_code_folder(folder: Path) -> Code:
    """The code that `write_code` wrote to a directory. Raises UnreadableInput if it is damaged."""
    tables = {}
    for name, schema in CODE_SCHEMAS.items():
        try:
            with pa.memory_map(os.fspath(folder / f"{name}.arrow")) as file:
                table = pa.ipc.open_file(file).read_all()
        except (OSError, pa.ArrowException):
            table = None
        if table is None or table.schema != schema:
            raise UnreadableInput("The machine code stored with this result is damaged. Import the recording again.")
        tables[name] = table
    return Code(**tables)
