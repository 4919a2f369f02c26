"""Deleting a result: its files first, so that a full disk has room again, then its row.

The first step, a rename, decides the deletion: `results/.trash-<id>-…` marks it until the row is gone too, and the
result is no longer shown. If the row remains, after a crash or because the database cannot be written, the sweep
deletes it.
"""

import contextlib
import errno
import json
import os
import secrets
from pathlib import Path
from typing import Any

from ..domain.errors import NotFound
from .files.disk import disk_errors, remove_tree, sync_directory
from .ids import is_id, require_id

ABOUT_FILE = "result.json"
"""Next to the manifest: what the row has and the profile does not, in case the row is lost."""
TRASH = ".trash-"
JOB_FOLDERS = ("work", "artefacts")


def read_about(directory: Path) -> dict[str, Any]:
    """What `ABOUT_FILE` says of the result in `directory`; nothing where it cannot be read."""
    try:
        with open(directory / ABOUT_FILE, encoding="utf-8") as file:
            about = json.load(file)
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def delete_files(data: Path, id: str, job_id: str | None = None) -> Path:
    """Remove the files of a result, its cache, and what its job recorded. Needs neither database nor free space.

    job_id: of its job; by default the one named in the result's directory.
    Returns the directory, empty now, that marks the deletion until the row is gone. Raises Unavailable.
    """
    results = data / "results"
    directory = results / require_id(id, "result")
    mark = results / f"{TRASH}{id}-{secrets.token_hex(4)}"
    job = data / "jobs" / require_id(job_id or _job(directory, id), "job")
    with disk_errors(results):
        try:
            _rename(directory, mark)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # Not even room for the new name: the old one serves until there is.
            clear_directory(directory)
            _rename(directory, mark)
        sync_directory(results)
        clear_directory(mark)
        for path in (data / "cache" / id, *(job / folder for folder in JOB_FOLDERS)):
            remove_tree(path)
    return mark


def delete_files_by_id(data: Path, id: str) -> None:
    """`delete_files` without access to the database. Raises NotFound, Unavailable."""
    results = data / "results"
    if is_deleting(results, require_id(id, "result")):
        return
    if not (results / id).is_dir():
        raise NotFound(f"No result {id!r}; it was deleted, or never existed.")
    delete_files(data, id)


def clear_directory(directory: Path) -> None:
    """Remove what is in a directory, and leave it."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            remove_tree(Path(entry.path))
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(entry.path)


def is_deleting(results: Path, id: str) -> bool:
    """Whether a result whose row is there is being deleted."""
    return not (results / id).is_dir() and any(results.glob(f"{TRASH}{id}-*"))


def has_unfinished(results: Path) -> bool:
    """Whether there is a deletion to be ended."""
    return any(results.glob(f"{TRASH}*"))


def _job(directory: Path, id: str) -> str:
    job_id = str(read_about(directory).get("job_id") or id)
    return job_id if is_id(job_id) else id


def _rename(directory: Path, mark: Path) -> None:
    try:
        directory.rename(mark)
    except FileNotFoundError:
        # Its files are gone already; the mark is for the row, and may be missing on a full disk.
        with contextlib.suppress(OSError):
            mark.mkdir(mode=0o700)
