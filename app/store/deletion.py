"""Deletes a result: first its files, to free space on a full disk, then its row.

The first step, a rename, commits the deletion: `results/.trash-<id>-…` marks it until the row is deleted, too, and the
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

from .files.disk import disk_errors, remove_tree, sync_directory
from .ids import is_id, not_found, require_id

ABOUT_FILE = "result.json"
"""A file next to the manifest with columns of the row that are not in the profile, in case the row is lost."""
TRASH = ".trash-"
"""Of the names of directories of deleted results in `results`."""
JOB_FOLDERS = ("work", "artefacts")


def read_about(directory: Path) -> dict[str, Any]:
    """The content of `ABOUT_FILE` in `directory`; empty if it cannot be read."""
    try:
        with open(directory / ABOUT_FILE, encoding="utf-8") as file:
            about = json.load(file)
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def delete_files(data: Path, id: str, job_id: str | None = None) -> Path:
    """Remove the files of a result, its cache, and the recordings of its job. Needs neither database nor free space.

    job_id: of its job; by default the one named in the result's directory.
    Returns the empty directory that marks the deletion until the row is deleted. Raises Unavailable.
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
            # No space for the new name: first remove files under the old one.
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
        raise not_found("result", id)
    delete_files(data, id)


def clear_directory(directory: Path) -> None:
    """Remove the content of a directory, but not the directory."""
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
    """Whether the deletion of a result has begun."""
    return not (results / id).is_dir() and any(results.glob(f"{TRASH}{id}-*"))


def has_unfinished(results: Path) -> bool:
    """Whether there are unfinished deletions."""
    return any(results.glob(f"{TRASH}*"))


def _job(directory: Path, id: str) -> str:
    job_id = str(read_about(directory).get("job_id") or id)
    return job_id if is_id(job_id) else id


def _rename(directory: Path, mark: Path) -> None:
    try:
        directory.rename(mark)
    except FileNotFoundError:
        # Its files are already removed. The mark is for the row, and may be missing on a full disk.
        with contextlib.suppress(OSError):
            mark.mkdir(mode=0o700)
