"""Uploaded files are written directly to disk: `<data>/uploads`, flushed, and removed after the request unless kept.

Only views marked with `accepts_files` can receive them; others have the small limit of a form. The mark is checked
before the form is read (see security), because finding the CSRF token requires reading the complete form.
"""

import io
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from flask import Flask, Request, request
from werkzeug.datastructures import FileStorage
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import FormDataParser

from ..config import Settings
from ..domain.errors import InvalidRequest, TooLarge
from ..domain.units import format_bytes
from ..store.files.disk import disk_errors, safe_name, sync_directory

PREFIX, SUFFIX = "upload-", ".part"
FORM_BYTES = 1 << 20
"""Maximum size of the other fields of a form with files."""
STALE_S = 24 * 3600
_ACCEPTS_FILES = "_perfloom_takes_files"
_View = TypeVar("_View", bound=Callable[..., Any])


class Upload:
    """A file during its upload: writes to disk, and raises Unavailable when the disk is full."""

    def __init__(self, directory: Path) -> None:
        with disk_errors(directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, path = tempfile.mkstemp(SUFFIX, PREFIX, directory)
        self._file = os.fdopen(handle, "w+b")
        self.path = Path(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> int:
        with disk_errors(self.path.parent):
            return self._file.write(data)

    def save_as(self, target: Path) -> None:
        """Move it to `target`, flushed to disk, and keep it after the request."""
        with disk_errors(target.parent):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self.path.rename(target)

    def discard(self) -> None:
        """Remove it, unless it was kept."""
        self._file.close()
        self.path.unlink(missing_ok=True)


class LimitedForm(FormDataParser):
    """Limits the number of fields before a form of any kind is parsed."""

    def _parse_urlencoded(
        self, stream: IO[bytes], mimetype: str, content_length: int | None, options: dict[str, str]
    ) -> Any:
        body = stream.read()
        if self.max_form_parts is not None and body.count(b"&") >= self.max_form_parts:
            raise RequestEntityTooLarge()
        return super()._parse_urlencoded(io.BytesIO(body), mimetype, content_length, options)


class UploadRequest(Request):
    """A request with a directory for its files."""

    form_data_parser_class = LimitedForm
    upload_directory: Path | None = None
    uploads: list[Upload]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.uploads = []

    def _get_file_stream(
        self,
        total_content_length: int | None,
        content_type: str | None,
        filename: str | None = None,
        content_length: int | None = None,
    ) -> IO[bytes]:
        if self.upload_directory is None:
            # Not used for files; forms are small.
            return io.BytesIO()
        upload = Upload(self.upload_directory)
        self.uploads.append(upload)
        return cast(IO[bytes], upload)


def accepts_files(view: _View) -> _View:
    """Mark a view that receives uploads, up to the configured limit."""
    setattr(view, _ACCEPTS_FILES, True)
    return view


def register(app: Flask, settings: Settings) -> None:
    """Enable uploads in `app`, and remove files left by an earlier crash."""
    app.request_class = UploadRequest
    app.teardown_request(_discard)
    remove_stale(settings.data / "uploads")


def prepare(view: Any, settings: Settings) -> None:
    """Set the directory and the size limit for files of this request. Raises TooLarge immediately if the Content-Length
    is larger."""
    if not getattr(view, _ACCEPTS_FILES, False) or request.method != "POST":
        return
    upload = cast(UploadRequest, request)
    upload.upload_directory = settings.data / "uploads"
    upload.max_content_length = settings.upload_limit_bytes + FORM_BYTES
    length = request.content_length or 0
    if length > upload.max_content_length:
        raise TooLarge(
            f"These files have {format_bytes(length)}, and this server accepts at most "
            f"{format_bytes(settings.upload_limit_bytes)}. "
            "Import them with `perfloom import` on the server, or raise PERFLOOM_UPLOAD_LIMIT_BYTES."
        )
    upload.upload_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = os.statvfs(upload.upload_directory)
    free = found.f_bavail * found.f_frsize
    if length > free - settings.reserve_bytes:
        raise TooLarge(
            f"These files have {format_bytes(length)}, and the server's disk has room for "
            f"{format_bytes(max(0, free - settings.reserve_bytes))}. Delete results there, then try again."
        )


def received_files(name: str) -> tuple[FileStorage, ...]:
    """The files sent as field `name`. Raises InvalidRequest if there is none, or one is empty."""
    files = tuple(file for file in request.files.getlist(name) if file.filename)
    if not files:
        raise InvalidRequest("No file selected; select at least one.", name)
    for file in files:
        file.stream.seek(0, os.SEEK_END)
        if file.stream.tell() == 0:
            raise InvalidRequest(f"{safe_name(file.filename or '')} is empty. Record again.", name)
    return files


def save_all(files: Sequence[FileStorage], directory: Path) -> tuple[str, ...]:
    """Move received files into the new `directory`; returns their sanitized names, in the same order."""
    names: list[str] = []
    with disk_errors(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in files:
            name = safe_name(file.filename or "file", set(names))
            cast(Upload, file.stream).save_as(directory / name)
            names.append(name)
        sync_directory(directory)
        sync_directory(directory.parent)
    return tuple(names)


def remove_stale(directory: Path, now: float | None = None) -> int:
    """Remove files that crashed requests left in `directory` more than a day ago; returns their number."""
    limit = (time.time() if now is None else now) - STALE_S
    cleared = 0
    for path in directory.glob(f"{PREFIX}*{SUFFIX}"):
        try:
            if path.stat().st_mtime < limit:
                path.unlink()
                cleared += 1
        except FileNotFoundError:
            continue
    return cleared


def _discard(error: BaseException | None) -> None:
    for upload in getattr(request, "uploads", ()):
        upload.discard()
