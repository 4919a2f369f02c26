"""The machine code of a result as Arrow files in the directory `code` next to its profile, so that pages that do not
need it are as fast as without. Memory-mapped when read; created completely or not at all.
"""

import os
import secrets
from pathlib import Path

import pyarrow as pa

from ...domain.errors import UnreadableInput
from ...domain.schemas.code import CODE_SCHEMAS, Code
from ...ingest.storage_format import MANIFEST, STAGED_CODE_PREFIX
from .disk import disk_errors, remove_tree, sync_directory

FOLDER = "code"
REASON_FILE = "code-missing.txt"
"""Why the machine code could not be read, for a person."""
MAX_REASON = 2000


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


def publish_code(staged: Path, result: Path) -> None:
    """Make a written directory that of the result, unless it has one, or was deleted meanwhile. `staged` is removed."""
    try:
        if not (result / MANIFEST).is_file():
            return
        with disk_errors(result):
            try:
                staged.rename(result / FOLDER)
            except OSError:
                # rename never replaces a directory with files.
                if not (result / FOLDER).exists():
                    raise
            sync_directory(result)
    finally:
        remove_tree(staged)


def stage_code(result: Path) -> Path:
    """The name of a directory to write code to, which does not exist."""
    return result / f"{STAGED_CODE_PREFIX}{secrets.token_hex(4)}"


def write_reason(result: Path, reason: str) -> None:
    """Write down why the result in a directory has no code, unless it was deleted meanwhile. Raises Unavailable."""
    if not (result / MANIFEST).is_file():
        return
    with disk_errors(result):
        (result / REASON_FILE).write_text(reason, encoding="utf-8")


def read_reason(result: Path) -> str:
    """Why the result in a directory has no code; empty if that is not known."""
    try:
        with open(result / REASON_FILE, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_REASON)
    except OSError:
        return ""


def read_code(result: Path) -> Code | None:
    """The code of the result in a directory; None if it has none. Raises UnreadableInput if it is damaged."""
    folder = result / FOLDER
    if not folder.is_dir():
        return None
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
