"""Repairs results after crashes: abandoned staged directories, unfinished deletions, directories without rows and rows
without directories."""

import contextlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import select, update

from ..domain.errors import PerfloomError
from ..ingest.storage_names import STAGED_CODE_PREFIX
from .database import Database
from .deletion import TRASH, clear_directory
from .files.disk import disk_errors, disk_usage, remove_tree
from .files.staging import STAGED_PREFIX
from .ids import is_id
from .jobs import ACTIVE_STATES
from .models.jobs import JobRow
from .models.results import ResultRow

log = logging.getLogger(__name__)
GRACE_SECONDS = 300.0
"""The minimum age at which staged directories without an active job are removed: a process may still use them."""


@dataclass
class RecoveryReport:
    """The changes of a recovery, by ids. damaged: directories without a readable result; they are not changed."""

    adopted: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    bytes_freed: int = 0


def recover(
    database: Database, adopt: Callable[[str], object], forget: Callable[[str], None], now: float
) -> RecoveryReport:
    """Repair the data directory after crashes.

    Abandoned staged directories are removed, unfinished deletions completed, results without a row adopted, rows
    without files marked, and the cache reduced to its limit. May run concurrently with everything else. adopt, forget:
    methods of Results. now: seconds since the epoch. Raises Unavailable.
    """
    recovery_report = RecoveryReport()
    directory = database.settings.data / "results"
    with disk_errors(directory):
        for path in directory.glob(f"{TRASH}*"):
            # Before anything is written, as the disk may be full.
            recovery_report.bytes_freed += disk_usage(path)
            clear_directory(path)
        rows = _rows(database)
        for id, missing in rows.items():
            _mark(database, directory, id, missing, recovery_report)
        for path in sorted(directory.iterdir()):
            if path.name.startswith(STAGED_PREFIX):
                if now - _last_change(path) > _grace_period(database, path):
                    _remove(path, recovery_report)
            elif path.name.startswith(TRASH):
                id = path.name.removeprefix(TRASH)[:12]
                if is_id(id) and not (directory / id).exists():
                    forget(id)
                _remove(path, recovery_report)
            elif is_id(path.name) and path.name not in rows and path.is_dir():
                try:
                    adopt(path.name)
                    recovery_report.adopted.append(path.name)
                except PerfloomError as error:
                    if path.exists():
                        log.warning("result %s cannot be listed: %s", path.name, error.message)
                        recovery_report.damaged.append(path.name)
            elif path.name in rows:
                _remove_staged_code(path, now, recovery_report)
        _sweep_cache(database, recovery_report)
    return recovery_report


def _remove_staged_code(result: Path, now: float, recovery_report: RecoveryReport) -> None:
    for path in result.glob(f"{STAGED_CODE_PREFIX}*"):
        # It may be published or removed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if path.is_dir() and not path.is_symlink() and now - _last_change(path) > GRACE_SECONDS:
                _remove(path, recovery_report)


def _rows(database: Database) -> dict[str, bool]:
    with database.read() as session:
        found = session.execute(select(ResultRow.id, ResultRow.missing)).all()
    return {row.id: row.missing for row in found}


def _mark(database: Database, directory: Path, id: str, missing: bool, recovery_report: RecoveryReport) -> None:
    gone = not (directory / id).is_dir()
    if gone == missing:
        return
    with database.write() as session:
        session.execute(update(ResultRow).where(ResultRow.id == id).values(missing=gone))
    (recovery_report.missing if gone else recovery_report.restored).append(id)


def _grace_period(database: Database, path: Path) -> float:
    """Seconds before a staged directory is removed: long while its job is active."""
    id = path.name.removeprefix(STAGED_PREFIX)[:12]
    with database.read() as session:
        active = session.scalar(select(JobRow.id).where(JobRow.id == id, JobRow.state.in_(ACTIVE_STATES)))
    return GRACE_SECONDS + (database.settings.read_seconds if active else 0)


def _last_change(path: Path) -> float:
    """The latest modification time in a directory, in seconds since the epoch."""
    newest = path.stat().st_mtime
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                newest = max(newest, os.lstat(os.path.join(folder, name)).st_mtime)
            except FileNotFoundError:
                continue
    return newest


def _remove(path: Path, recovery_report: RecoveryReport) -> None:
    size = disk_usage(path)
    remove_tree(path)
    recovery_report.removed.append(path.name)
    recovery_report.bytes_freed += size


def _sweep_cache(database: Database, recovery_report: RecoveryReport) -> None:
    cache = database.settings.data / "cache"
    if not cache.is_dir():
        return
    rows = _rows(database)
    sizes: list[tuple[float, int, Path]] = []
    for path in cache.iterdir():
        if path.name not in rows:
            _remove(path, recovery_report)
        else:
            sizes.append((_last_change(path), disk_usage(path), path))
    excess = sum(size for _, size, _ in sizes) - database.settings.cache_bytes
    for _, size, path in sorted(sizes):
        if excess <= 0:
            break
        _remove(path, recovery_report)
        excess -= size
