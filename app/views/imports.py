"""/import: recordings made elsewhere. Each becomes a job that begins at the reading stage."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from flask import Blueprint, jsonify, redirect, request
from werkzeug.datastructures import FileStorage
from werkzeug.wrappers import Response

from ..domain.errors import InvalidRequest, PerfloomError
from ..domain.units import Quantity, quantity
from ..readers import READERS
from ..rendering import Page, render
from ..security import is_api
from ..services import services
from ..store import Job
from ..store.ids import new_id
from ..uploads import keep_all, received, takes_files

blueprint = Blueprint("imports", __name__)
TOGETHER = "together"


@dataclass(frozen=True)
class ImportPage(Page):
    """`/import`. formats: what can be read, in words. error: why the last try failed."""

    template: ClassVar[str] = "import.html"
    name: str
    together: bool
    error: str | None
    formats: tuple[str, ...]
    limit: Quantity
    max_files: int


@blueprint.get("/import")
def show() -> Response:
    """The form."""
    return _page()


@blueprint.post("/import")
@blueprint.post("/api/v1/imports")
@takes_files
def submit() -> Response:
    """Take the files (field `file`, several), make jobs of them, and go where they can be watched.

    name: of the result, by default the file's. together: 1 for the files of one run, which become one result. As
    JSON: `{"jobs": [{"id", "name", "url"}]}`.
    """
    try:
        jobs = _submit()
    except InvalidRequest as error:
        if is_api():
            raise
        return _page(error)
    if is_api():
        listed = [{"id": job.id, "name": job.name, "url": f"/jobs/{job.id}"} for job in jobs]
        return jsonify(jobs=listed)
    return redirect(f"/jobs/{jobs[0].id}" if len(jobs) == 1 else "/", 303)


def _submit() -> list[Job]:
    files = received("file")
    name = " ".join(request.form.get("name", "").split())
    if len(files) > 1 and request.form.get(TOGETHER, "") in ("1", "on"):
        return [_job(files, name or f"{files[0].filename} and {len(files) - 1} more")]
    numbered = len(files) > 1
    return [
        _job([file], (f"{name} ({number})" if numbered else name) if name else file.filename or "")
        for number, file in enumerate(files, start=1)
    ]


def _job(files: Sequence[FileStorage], name: str) -> Job:
    """Keep the files where jobs have theirs, then tell the catalogue, then ring: a crash in between loses nothing
    that was acknowledged."""
    store = services().store
    id = new_id()
    kept = keep_all(files, store.jobs.directory(id) / "artefacts")
    job = store.jobs.create("import", {"files": list(kept)}, name[:300], id=id)
    services().queue.ring_read(id)
    return job


def _page(error: PerfloomError | None = None) -> Response:
    page = ImportPage(
        name=request.form.get("name", "") if error else "",
        together=bool(error) and TOGETHER in request.form,
        error=error.message if error else None,
        formats=(*(reader.label for reader in READERS.values()), "the ranks of a job (ranks.tar)"),
        limit=quantity(services().settings.upload_limit_bytes, "bytes"),
        max_files=200,
    )
    return render(page, error.http_status if error else 200)
