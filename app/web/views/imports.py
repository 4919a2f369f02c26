"""/import: recordings from elsewhere. Each becomes a job that starts at the reading stage."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from flask import Blueprint, jsonify, redirect, request
from werkzeug.datastructures import FileStorage
from werkzeug.wrappers import Response

from ...domain.errors import Conflict, InvalidRequest, PerfloomError
from ...domain.selection import check_choice
from ...domain.units import TIME_UNITS, Quantity, format_quantity
from ...readers import READERS
from ...store import Job
from ...store.files.disk import disk_errors
from ...store.ids import new_id
from ..rendering import Page, render
from ..security import is_api
from ..services import current_services
from ..uploads import accepts_files, received_files, save_all

blueprint = Blueprint("imports", __name__)
TOGETHER_FIELD = "together"


@dataclass(frozen=True)
class ImportPage(Page):
    """`/import`. formats: labels of readable formats. clocks: time units; clock_of: the formats that use them. error:
    why the last attempt failed."""

    template: ClassVar[str] = "import.html"
    name: str
    merge_files: bool
    clock: str
    clocks: tuple[tuple[str, str], ...]
    clock_of: str
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
@accepts_files
def submit() -> Response:
    """Receive files (field `file`, several), create jobs, and redirect to them.

    name: of the result, by default the file's. together: 1 for the files of one run, which become one result. clock:
    ns, us, ms or s, the time unit for files without one. As JSON:
    `{"jobs": [{"id", "name", "url"}]}`.
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
    clock, files = parse_clock(), received_files("file")
    name = " ".join(request.form.get("name", "").split())
    if len(files) > 1 and request.form.get(TOGETHER_FIELD, "") in ("1", "on"):
        return [_job(files, name or f"{files[0].filename} and {len(files) - 1} more", clock)]
    numbered = len(files) > 1
    return [
        _job([file], (f"{name} ({number})" if numbered else name) if name else file.filename or "", clock)
        for number, file in enumerate(files, start=1)
    ]


@blueprint.post("/results/<id>/again")
def import_again(id: str) -> Response:
    """Read the files of a result again, with another clock (`clock`), into a new result."""
    store, clock = current_services().store, parse_clock()
    result, files = store.results.get(id), store.results.original(id)
    if not files or len(files) < len(result.originals):
        raise Conflict("The files of this result are no longer stored. Import them again, and choose the clock there.")
    job_id = new_id()
    directory = store.jobs.directory(job_id) / "artefacts"
    with disk_errors(directory):
        directory.mkdir(mode=0o700, parents=True)
        for file in files:
            os.link(file.path, directory / file.path.name)
    spec = import_spec([file.path.name for file in files], clock)
    job = store.jobs.create("import", spec, result.name, id=job_id)
    current_services().queue.enqueue_read(job_id)
    return redirect(f"/jobs/{job.id}", 303)


def parse_clock() -> str:
    """The time unit in a form, empty for none. Raises InvalidRequest."""
    clock = request.form.get("clock", "")
    return check_choice("clock", clock, TIME_UNITS) if clock else ""


def import_spec(names: Sequence[str], clock: str) -> dict[str, Any]:
    """The spec of an import."""
    return {"files": list(names)} | ({"clock": clock} if clock else {})


def _job(files: Sequence[FileStorage], name: str, clock: str) -> Job:
    """Store the files, then write the database row, then notify: a crash in between loses nothing that was
    acknowledged."""
    store = current_services().store
    id = new_id()
    kept = save_all(files, store.jobs.directory(id) / "artefacts")
    job = store.jobs.create("import", import_spec(kept, clock), name[:300], id=id)
    current_services().queue.enqueue_read(id)
    return job


def _page(error: PerfloomError | None = None) -> Response:
    page = ImportPage(
        name=request.form.get("name", "") if error else "",
        merge_files=bool(error) and TOGETHER_FIELD in request.form,
        clock=request.form.get("clock", "") if error else "",
        clocks=tuple((word, label) for word, (label, _) in TIME_UNITS.items()),
        clock_of=", ".join(reader.label for reader in READERS.values() if reader.read_with_time_unit),
        error=error.message if error else None,
        formats=tuple(
            _list_entry(label) for label in (*(r.label for r in READERS.values()), "ranks of a job (ranks.tar)")
        ),
        limit=format_quantity(current_services().settings.upload_limit_bytes, "bytes"),
        max_files=200,
    )
    return render(page, error.http_status if error else 200)


def _list_entry(label: str) -> str:
    """The label of a format as an entry of a list: without its article."""
    return re.sub(r"^an? ", "", label)
