"""The directory with the machine code of a result: it appears completely or not at all, else there is a reason.

Without pyarrow, which `code` needs for the tables in it.
"""

import secrets
from contextlib import suppress
from pathlib import Path

from ...ingest.storage_names import CODE_FOLDER, MANIFEST, STAGED_CODE_PREFIX
from .disk import disk_errors, remove_tree, sync_directory

REASON_FILE = "code-missing.txt"
"""Why the machine code could not be read, for a person."""
NOTE_FILE = "code-note.txt"
"""What is being fetched of the machine code, or why it could not be fetched or added, for a person."""
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
        (result / REASON_FILE).unlink(missing_ok=True)
    finally:
        remove_tree(staged)


def replace_code(staged: Path, result: Path) -> None:
    """Make a written directory that of the result, instead of the one that it has, unless it was deleted meanwhile.
    `staged` is removed. A reader that has opened the replaced one keeps it."""
    replaced = stage_code(result)
    try:
        if not (result / MANIFEST).is_file():
            return
        with disk_errors(result):
            with suppress(FileNotFoundError):
                (result / CODE_FOLDER).rename(replaced)
            try:
                staged.rename(result / CODE_FOLDER)
            except OSError:
                with suppress(FileNotFoundError):
                    replaced.rename(result / CODE_FOLDER)
                raise
            sync_directory(result)
        (result / REASON_FILE).unlink(missing_ok=True)
    finally:
        remove_tree(staged)
        remove_tree(replaced)


def stage_code(result: Path) -> Path:
    """The name of a directory to write code to, which does not exist."""
    return result / f"{STAGED_CODE_PREFIX}{secrets.token_hex(4)}"


def write_reason(result: Path, reason: str) -> None:
    """Write down why the result in a directory has no code, unless it was deleted meanwhile. Raises Unavailable."""
    _write(result, REASON_FILE, reason)


def read_reason(result: Path) -> str:
    """Why the result in a directory has no code; empty if that is not known."""
    return _read(result / REASON_FILE)


def write_note(result: Path, note: str) -> None:
    """Write down what is done about missing code, or why it was not possible; empty: nothing. Raises Unavailable."""
    if note:
        _write(result, NOTE_FILE, note)
    else:
        with disk_errors(result):
            (result / NOTE_FILE).unlink(missing_ok=True)


def read_note(result: Path) -> str:
    """What `write_note` wrote last; empty for nothing."""
    return _read(result / NOTE_FILE)


def _write(result: Path, name: str, text: str) -> None:
    if not (result / MANIFEST).is_file():
        return
    with disk_errors(result):
        (result / name).write_text(text, encoding="utf-8")


def _read(path: Path) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_REASON)
    except OSError:
        return ""
