"""Stored results: for each a directory of columns, and a row in the database.

A result is written to a staged directory, flushed, and renamed, so it is created atomically; it never changes later.
`recover` repairs differences between directories and rows after a crash.
"""

import contextlib
import json
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ..domain.errors import InvalidRequest, Unavailable
from . import deletion
from .database import Database
from .deletion import ABOUT_FILE, read_about
from .files import originals
from .files.disk import disk_errors, disk_usage, remove_tree, sync_directory
from .files.originals import Original
from .files.profile_cache import ProfileCache
from .files.staging import stage_result
from .ids import not_found, require_id
from .models.jobs import JobRow
from .models.results import ResultRow, TagRow
from .result import (
    OriginalFile,
    Result,
    casefold_text,
    normalize_name,
    normalize_notes,
    normalize_tags,
    result_from_row,
    search_text,
)

if TYPE_CHECKING:
    from ..domain.profile import Profile
    from ..domain.schemas.code import Code
    from .recovery import RecoveryReport

log = logging.getLogger(__name__)
SORTS: dict[str, ColumnElement[Any]] = {
    "created": ResultRow.created.expression,
    "recorded": ResultRow.recorded.expression,
    "name": func.lower(ResultRow.name),
    "format": ResultRow.format.expression,
    "bytes": ResultRow.bytes.expression,
    "samples": ResultRow.samples.expression,
    "threads": ResultRow.threads.expression,
    "duration": ResultRow.duration_ns.expression,
    "host": func.lower(ResultRow.host),
    "command": func.lower(ResultRow.command),
}
CODE_LOCK = "code.lock"
MAX_SEARCH = 1000
MAX_VALUES = 500


class Results:
    """The results of a data directory and its database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.data = database.settings.data
        self.directory = self.data / "results"
        self._opened = ProfileCache()

    def stage(self, id: str) -> Path:
        """A new empty directory for a result, which `publish` completes. One per attempt."""
        return stage_result(self.data, id)

    def publish(
        self,
        id: str,
        path: Path,
        *,
        name: str,
        originals: Sequence[Path] = (),
        job_id: str | None = None,
        description: dict[str, Any] | None = None,
        packed: Mapping[Path, Path] | None = None,
    ) -> Result:
        """Publish the profile in `staged` as the result `id`, with the files it was read from.

        description: what `describe_profile` returns for it; None: it is computed. packed: originals that are compressed
        already, see `EarlyCompression`.

        May be repeated for the same id, by any process: the first result is kept and returned. `staged` is removed.
        Raises Unavailable if the disk is full or the database does not respond; then, or after a crash, the result
        exists completely or not at all.
        """
        final = self._path(id)
        try:
            with disk_errors(self.directory):
                if not final.exists():
                    description = description or self._describe(path)
                    self._complete(path, name, originals, job_id, packed or {})
                    self._rename(path, final)
                    sync_directory(self.directory)
        finally:
            remove_tree(path)
        return self.adopt(id, description)

    def adopt(self, id: str, description: dict[str, Any] | None = None) -> Result:
        """The result of an existing directory; adds its row if it is missing. description: see `publish`. Raises
        UnreadableInput."""
        directory = self._path(id)
        known = self.find(id)
        if known is not None and not known.missing:
            return known
        about = read_about(directory)
        described = description or self._describe(directory)
        if described["recorded"] is None:
            described = described | {"recorded": _seconds(about.get("recorded"))}
        row = ResultRow(
            id=id,
            job_id=about.get("job_id"),
            name=str(about.get("name") or id),
            created=float(about.get("created") or directory.stat().st_mtime),
            bytes=disk_usage(directory),
            originals=[asdict(original) for original in _originals(about)],
            notes="",
            missing=False,
            **described,
        )
        row.search = search_text(row, ())
        try:
            with self.database.write() as session:
                if session.get(ResultRow, id) is None:
                    session.add(row)
                else:
                    session.execute(update(ResultRow).where(ResultRow.id == id).values(missing=False))
        except IntegrityError:
            # Another process published or adopted it at the same time.
            pass
        return self.get(id)

    @staticmethod
    def _describe(directory: Path) -> dict[str, Any]:
        # Imported here, because lists of results and steps of jobs do not need these modules.
        from .description import describe_profile
        from .files import columns

        return describe_profile(columns.read(directory))

    def get(self, id: str) -> Result:
        """A result by its id. Raises NotFound."""
        found = self.find(id)
        if found is None:
            raise not_found("result", id)
        return found

    def find(self, id: str) -> Result | None:
        """A result by its id, or None."""
        with self.database.read() as session:
            found = _with_tags(session, session.scalars(select(ResultRow).where(ResultRow.id == id)))
        return found[0] if found and not deletion.is_deleting(self.directory, id) else None

    def open(self, id: str) -> "Profile":
        """The profile of a result, memory-mapped. Raises NotFound, or UnreadableInput if its files are damaged."""
        return self._opened.get(self._path(id), self.data / "cache" / id)

    def open_code(self, id: str) -> "Code | None":
        """The machine code of a result, memory-mapped; None if it has none. Raises NotFound, UnreadableInput."""
        from ..analysis.core.memo import memoize
        from ..ingest.storage_names import CODE_FOLDER
        from .files.code import read_code

        directory = self.path(id)
        try:
            found = os.stat(directory / CODE_FOLDER)
        except FileNotFoundError:
            return None
        # The same object as long as the profile is cached.
        return memoize(self.open(id), ("code", found.st_ino, found.st_mtime_ns), lambda: read_code(directory), pin=True)

    def code_lock(self, id: str) -> Path:
        """The file whose lock a process holds while it reads or changes the machine code of a result."""
        return self.cache(id) / CODE_LOCK

    def is_code_expected(self, id: str) -> bool:
        """Whether a process reads or changes the machine code of a result now."""
        from .files.locks import is_locked

        return is_locked(self.data / "cache" / require_id(id, "result") / CODE_LOCK)

    def explain_missing_code(self, id: str) -> str:
        """Why a result has no machine code; empty if that is not known. Raises NotFound."""
        from .files.code_folder import read_reason

        return read_reason(self.path(id))

    def explain_missing_files(self, id: str) -> str:
        """Why files for the machine code of a result could not be fetched or added; empty if they were. Raises
        NotFound."""
        from .files.binary_cache import is_requested
        from .files.code_folder import read_note

        if is_requested(self.data, id):
            return "Binaries and source files are being added to this page, which then shows them."
        return read_note(self.path(id))

    def open_once(self, id: str) -> "Profile":
        """The profile of a result, mapped for the caller alone and freed after use, with the disk space of a deleted
        result. Raises NotFound, UnreadableInput."""
        from .files import columns

        return columns.read(self.path(id))

    def prepare_tables(self, id: str) -> None:
        """Prepare the table cache of a large result. Raises NotFound, Unavailable, UnreadableInput."""
        from .files import table_cache

        table_cache.save(self.cache(id), self.open_once(id))

    def path(self, id: str) -> Path:
        """The local directory of a result. Raises NotFound."""
        directory = self._path(id)
        if not directory.is_dir():
            raise not_found("result", id)
        return directory

    def cache(self, id: str) -> Path:
        """The cache directory of a result, which is created; it may be removed at any time."""
        directory = self.data / "cache" / require_id(id, "result")
        with disk_errors(directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return directory

    def search(
        self,
        text: str = "",
        tag: str | Iterable[str] = (),
        sort: str = "created",
        descending: bool = True,
        offset: int = 0,
        limit: int = 50,
        *,
        name: str = "",
        command: str = "",
        format: str = "",
        host: str = "",
        target: str = "",
    ) -> tuple[tuple[Result, ...], int]:
        """A page of the results that contain every word of `text` and have every tag, and their total number.

        Words are searched in name, command, host, tags, notes and id, literally and ignoring case. name, command,
        format, host: exactly these, empty for any. target: where the job ran that recorded it. sort: a name of `SORTS`;
        ties are sorted by id. Raises InvalidRequest.
        """
        if sort not in SORTS:
            raise InvalidRequest(f"Results cannot be sorted by {sort[:40]!r}; use one of {', '.join(SORTS)}.", "sort")
        if len(text) > MAX_SEARCH:
            raise InvalidRequest(f"The search is longer than {MAX_SEARCH} characters; shorten it.", "search")
        query = select(ResultRow)
        position = func.instr if self.database.sqlite else func.strpos
        for word in dict.fromkeys(casefold_text(text).split()):
            query = query.where(position(ResultRow.search, word) > 0)
        for one in dict.fromkeys([tag] if isinstance(tag, str) else tag):
            if one:
                query = query.where(select(TagRow).where(TagRow.result_id == ResultRow.id, TagRow.tag == one).exists())
        if name:
            query = query.where(ResultRow.name == name)
        if command:
            query = query.where(ResultRow.command == command)
        if format:
            query = query.where(ResultRow.format == format)
        if host:
            query = query.where(ResultRow.host == host)
        if target:
            ran_there = JobRow.target == target, JobRow.kind == "record"
            query = query.where(select(JobRow).where(JobRow.id == ResultRow.job_id, *ran_there).exists())
        order = SORTS[sort]
        page = query.order_by(
            order.desc().nulls_last() if descending else order.asc().nulls_last(),
            ResultRow.id,
        )
        with self.database.read() as session:
            total = session.scalar(select(func.count()).select_from(query.subquery())) or 0
            rows = session.scalars(page.offset(min(max(0, offset), 2**31)).limit(min(max(0, limit), 10_000)))
            found = _with_tags(session, rows)
        results = tuple(result for result in found if not deletion.is_deleting(self.directory, result.id))
        return results, total - (len(found) - len(results))

    def tags(self) -> tuple[tuple[str, int], ...]:
        """All tags with their number of results, sorted by tag."""
        query = select(TagRow.tag, func.count()).group_by(TagRow.tag).order_by(TagRow.tag)
        with self.database.read() as session:
            return tuple((tag, count) for tag, count in session.execute(query))

    def repeated_values(self, field: str, limit: int = 100) -> tuple[tuple[str, int], ...]:
        """The names or commands (`field`) of several results with their number of results, the most frequent first."""
        column, number = {"name": ResultRow.name, "command": ResultRow.command}[field], func.count()
        query = select(column, number).where(column != "").group_by(column).having(number > 1)
        with self.database.read() as session:
            found = session.execute(query.order_by(number.desc(), column).limit(limit))
            return tuple((value, count) for value, count in found)

    def filter_values(self) -> dict[str, tuple[str, ...]]:
        """The values of `format`, `host` and `target` that `search` can filter by; at most `MAX_VALUES` each."""
        targets = select(JobRow.target).join(ResultRow, ResultRow.job_id == JobRow.id).where(JobRow.kind == "record")
        wanted = {"format": select(ResultRow.format), "host": select(ResultRow.host), "target": targets}
        with self.database.read() as session:
            found = {
                name: session.scalars(values.distinct().order_by(*values.selected_columns).limit(MAX_VALUES)).all()
                for name, values in wanted.items()
            }
        return {name: tuple(value for value in values if value) for name, values in found.items()}

    def count_and_size(self) -> tuple[int, int]:
        """(bytes on disk, number) of all results."""
        with self.database.read() as session:
            row = session.execute(select(func.coalesce(func.sum(ResultRow.bytes), 0), func.count())).one()
        return int(row[0]), int(row[1])

    def version(self) -> str:
        """A text that changes when a result is added or removed, or its size on disk changes."""
        query = select(func.count(), func.coalesce(func.sum(ResultRow.bytes), 0), func.max(ResultRow.created))
        with self.database.read() as session:
            number, size, latest = session.execute(query).one()
        return f"{number}-{size}-{0.0 if latest is None else latest:.6f}"

    def rename(self, id: str, name: str) -> Result:
        """Change the name. Raises NotFound, InvalidRequest."""
        with self._changing(id) as (_, row):
            row.name = normalize_name(name)
        return self.get(id)

    def set_notes(self, id: str, notes: str) -> Result:
        """Change the notes. Raises NotFound, InvalidRequest."""
        with self._changing(id) as (_, row):
            row.notes = normalize_notes(notes)
        return self.get(id)

    def set_tags(self, id: str, tags: Iterable[str]) -> Result:
        """Replace the tags. Raises NotFound, InvalidRequest."""
        query = normalize_tags(tags)
        with self._changing(id) as (session, row):
            session.execute(delete(TagRow).where(TagRow.result_id == row.id))
            session.add_all(TagRow(result_id=row.id, tag=tag) for tag in query)
        return self.get(id)

    def original(self, id: str) -> tuple[Original, ...]:
        """The files that a result was read from, as stored on disk. Raises NotFound."""
        return originals.locate(self._path(id), self.get(id).originals)

    def list_uncompressed(self, limit: int = 100) -> tuple[str, ...]:
        """Ids of results whose originals were not compressed yet, oldest first."""
        query = select(ResultRow.id, ResultRow.originals).where(ResultRow.missing.is_(False))
        with self.database.read() as session:
            found = session.execute(query.order_by(ResultRow.created)).all()
        waiting = (id for id, files in found if any(not file.get("settled") for file in files))
        return tuple(id for id, _ in zip(waiting, range(limit), strict=False))

    def compress(self, id: str) -> Result:
        """Compress the compressible originals of a result. May be interrupted and repeated.

        Raises NotFound, or Unavailable (disk full), after which nothing has changed.
        """
        before = self.get(id)
        directory = self.path(id)
        with disk_errors(directory):
            settled, size = originals.compress(directory, before.originals), disk_usage(directory)
        if (settled, size) == (before.originals, before.bytes):
            return before
        values = {"originals": [asdict(original) for original in settled], "bytes": size}
        with self.database.write() as session:
            session.execute(update(ResultRow).where(ResultRow.id == id).values(values))
        return self.get(id)

    def delete(self, id: str) -> None:
        """Delete a result: its files, originals, cache, its job's recordings, then its row and tags. Raises NotFound.

        After the first step it is not shown any more. After a crash, or if the database cannot be written, `recover`
        deletes the rest.
        """
        found = self.get(id)
        mark = deletion.delete_files(self.data, id, found.job_id)
        self._opened.evict(self._path(id))
        try:
            self.forget(id)
        except Unavailable as error:
            log.warning("the sweep will finish the deletion of result %s: %s", id, error.message)
            return
        with contextlib.suppress(OSError):
            mark.rmdir()

    def has_unfinished_deletions(self) -> bool:
        """Whether `recover` has to complete deletions."""
        return deletion.has_unfinished(self.directory)

    def forget(self, id: str) -> None:
        """Delete the row of a result and its tags; the files are kept."""
        with self.database.write() as session:
            session.execute(delete(ResultRow).where(ResultRow.id == id))

    def recover(self, now: float | None = None) -> "RecoveryReport":
        """Repair results after crashes: see `recovery.recover`."""
        # Imported here because it loads the modules of jobs, with all adapters.
        from .recovery import recover

        return recover(self.database, self.adopt, self.forget, time.time() if now is None else now)

    def _path(self, id: str) -> Path:
        return self.directory / require_id(id, "result")

    def _complete(
        self, path: Path, name: str, files: Sequence[Path], job_id: str | None, packed: Mapping[Path, Path]
    ) -> None:
        """Add the other files of a result to a staged directory, and flush it."""
        try:
            name = normalize_name(name)
        except InvalidRequest:
            from .files import columns

            manifest = columns.read_manifest(path)
            name = normalize_name((manifest.meta.command or manifest.meta.format)[:100])
        store_copies = originals.store_copies(files, path, self.data, packed)
        about = {
            "name": name,
            "job_id": job_id,
            "created": time.time(),
            "recorded": self._job_started(job_id),
            "originals": [asdict(original) for original in store_copies],
        }
        with open(path / ABOUT_FILE, "w", encoding="utf-8") as file:
            json.dump(about, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(path)

    def _job_started(self, job_id: str | None) -> float | None:
        """When the recording of a job started, None for an import."""
        if job_id is None:
            return None
        with self.database.read() as session:
            return session.scalar(select(JobRow.started).where(JobRow.id == job_id, JobRow.kind == "record"))

    @staticmethod
    def _rename(path: Path, final: Path) -> None:
        try:
            path.rename(final)
        except OSError:
            # Another process was first, and its result is kept: rename never replaces a non-empty directory.
            if not final.exists():
                raise

    @contextmanager
    def _changing(self, id: str) -> Iterator[tuple[Session, ResultRow]]:
        """The locked row of a result; its searchable text is updated at the end."""
        with self.database.write() as session:
            row = session.scalar(select(ResultRow).where(ResultRow.id == id).with_for_update())
            if row is None:
                raise not_found("result", id)
            yield session, row
            session.flush()
            tags = session.scalars(select(TagRow.tag).where(TagRow.result_id == id))
            row.search = search_text(row, tags)


def _with_tags(session: Session, rows: Iterable[ResultRow]) -> tuple[Result, ...]:
    found = list(rows)
    tags: dict[str, list[str]] = {row.id: [] for row in found}
    query = select(TagRow).where(TagRow.result_id.in_(list(tags))).order_by(TagRow.tag)
    for tag in session.scalars(query):
        tags[tag.result_id].append(tag.tag)
    return tuple(result_from_row(row, tags[row.id]) for row in found)


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _originals(about: dict[str, Any]) -> tuple[OriginalFile, ...]:
    try:
        return tuple(
            OriginalFile(str(of["name"]), int(of["bytes"]), settled=of.get("settled") is True)
            for of in about.get("originals", ())
        )
    except (TypeError, KeyError, ValueError):
        return ()
