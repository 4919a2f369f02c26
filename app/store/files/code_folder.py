"""The directory with the machine code of a result: it appears completely or not at all, else there is a reason.

Without pyarrow, which `code` needs for the tables in it.
"""

import secrets
from pathlib import Path

from ...ingest.storage_names import CODE_FOLDER, MANIFEST, STAGED_CODE_PREFIX
from .disk import disk_errors, remove_tree, sync_directory

REASON_FILE = "code-missing.txt"
"""Why the machine code could not be read, for a person."""
MAX_REASON = 2000
MIN_SAMPLES = 20
"""For results with fewer samples, which say nothing about lines, no code is read."""


def publish_code(staged: Path, result: Path) -> None:
    """Make a written directory that of the result, unless it has one, or was deleted meanwhile. `staged` is removed."""
    try:
        if not (result / MANIFEST).is_file():
            return
        with disk_errors(result):
            try:
                staged.rename(result / CODE_FOLDER)
            except OSError:
                # rename never replaces a directory with files.
                if not (result / CODE_FOLDER).exists():
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
