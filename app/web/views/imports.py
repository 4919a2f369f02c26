"""/import: recordings from elsewhere. Each becomes a job that starts at the reading stage."""

import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar

from flask import Blueprint, jsonify, redirect, request
from werkzeug.datastructures import FileStorage
from werkzeug.wrappers import Response

from ...domain.errors import Conflict, InvalidRequest, PerfloomError
from ...domain.selection import check_choice
from ...domain.units import TIME_UNITS, Quantity, format_quantity
from ...ingest.database_names import group_databases
from ...ingest.rank_names import find_ranks
from ...ingest.result_set_names import group_result_sets
from ...ingest.switch_output_names import group_switch_output
from ...readers import READERS
from ...store import Job
from ...store.files.disk import disk_errors, safe_name
from ...store.files.originals import Original
from ...store.ids import new_id
from ..pages import with_query
from ..parameters import parse_choice
from ..rendering import Page, render
from ..security import is_api
from ..services import current_services
from ..uploads import accepts_files, received_files, save_all

blueprint = Blueprint("imports", __name__)
TOGETHER_FIELD = "together"
AUTO, ONE_RESULT, ONE_EACH = "auto", "1", "0"
"""Values of `together`: ranks recognized by the names, one result, a result for each file."""
MAX_NAMES = 5000


@dataclass(frozen=True)
class ImportPage(Page):
    """`/import`. together: how several files are imported. formats: labels of readable formats. clocks: time units;
    clock_of: the formats that use them. error: why the last attempt failed."""

    template: ClassVar[str] = "import.html"
    name: str
    together: str
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

    name: of the result, by default the file's. together: 1 for the files of one run, which become one result; auto for
    one result of those whose names are those of the ranks of one run, in the order of the ranks. The files of a result
    set of PerfAnalyzer, of a database of HPCToolkit, or of `perf record --switch-output`, become one result unless it
    is 0. clock: ns, us, ms or s, the time unit for files without one. then (in the address): compare, to compare the
    results of two files.
    As JSON: `{"jobs": [{"id", "name", "url"}]}`.
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
    if parse_choice("then", ("compare",)) and len(jobs) == 2:
        return redirect(with_query("/compare/imports", [("base", jobs[0].id), ("other", jobs[1].id)]), 303)
    return redirect(f"/jobs/{jobs[0].id}" if len(jobs) == 1 else "/", 303)


@dataclass(frozen=True)
class FileSet:
    """Files that become one result. files: their indices, the index of the set first. unread: indices of other files of
    it, which are not read. name: of the result."""

    files: tuple[int, ...]
    unread: tuple[int, ...]
    name: str


def _find_sets(names: Sequence[str]) -> list[FileSet]:
    """The result sets of PerfAnalyzer, the databases of HPCToolkit and the recordings in several files among files
    with these names."""
    sets = [FileSet(group, (), names[group[0]]) for group in group_result_sets(names)]
    sets += [FileSet(group, (), name) for name, group in group_switch_output(names)]
    for group, unread in group_databases(names):
        tree = PurePosixPath(names[group[0]].replace("\\", "/"))
        sets.append(FileSet(group, unread, tree.parent.name or tree.name))
    return sets


def _submit() -> list[Job]:
    clock, files = parse_clock(), received_files("file")
    name = " ".join(request.form.get("name", "").split())
    together = request.form.get(TOGETHER_FIELD, "")
    names = [file.filename or "" for file in files]
    sets = _find_sets(names) if together in (AUTO, "") else []
    if sets:
        rest = sorted({*range(len(files))} - {at for group in sets for at in (*group.files, *group.unread)})
        groups = [*sets, *(FileSet((at,), (), names[at]) for at in rest)]
        return [
            _job([files[at] for at in group.files], _number_name(name, number, len(groups)) or group.name, clock)
            for number, group in enumerate(groups, start=1)
        ]
    ranks = find_ranks(names) if together == AUTO else None
    if ranks is not None:
        others = [_job([files[at]], files[at].filename or "", clock) for at in ranks.others]
        return [_job([files[at] for at in ranks.order], name or ranks.name, clock), *others]
    if len(files) > 1 and together in (ONE_RESULT, "on"):
        return [_job(files, name or f"{files[0].filename} and {len(files) - 1} more", clock)]
    return [
        _job([file], _number_name(name, number, len(files)) or file.filename or "", clock)
        for number, file in enumerate(files, start=1)
    ]


def _number_name(name: str, number: int, count: int) -> str:
    """The name of one of several results; empty without a name."""
    return f"{name} ({number})" if name and count > 1 else name


@blueprint.post("/import/ranks")
def recognize() -> Response:
    """What files with these names (`{"names": […]}`) are: `{"ranks": null, "sets": []}`.

    ranks: if some are the ranks of one run, an object with `count` (of ranks), `order` (indices of the names by rank),
    `reason` (a sentence), `certain`, and `others` (indices of the names that are not of this run). sets: of each result
    set of PerfAnalyzer, each database of HPCToolkit and each recording in several files the indices of its names."""
    content = request.get_json(silent=True)
    names = content.get("names") if isinstance(content, dict) else None
    if not isinstance(names, list) or len(names) > MAX_NAMES or not all(isinstance(name, str) for name in names):
        raise InvalidRequest(f"names must be a list of at most {MAX_NAMES} texts.", "names")
    sets = _find_sets(names)
    ranks = None if sets else find_ranks(names)
    indices = [(*group.files, *group.unread) for group in sets]
    return jsonify(ranks=asdict(ranks) if ranks else None, sets=indices)


@blueprint.post("/results/<id>/again")
def import_again(id: str) -> Response:
    """Read the files of a result again, with another clock (`clock`), into a new result."""
    store, clock = current_services().store, parse_clock()
    result, files = store.results.get(id), store.results.original(id)
    if not files or len(files) < len(result.originals):
        raise Conflict("The files of this result are no longer stored. Import them again, and choose the clock there.")
    job = import_stored(files, result.name, clock)
    return redirect(f"/jobs/{job.id}", 303)


def import_stored(files: Sequence[Original], name: str, clock: str = "") -> Job:
    """A job that reads stored originals again. It shares their data on disk."""
    store, id = current_services().store, new_id()
    directory = store.jobs.directory(id) / "artefacts"
    names: list[str] = []
    with disk_errors(directory):
        directory.mkdir(mode=0o700, parents=True)
        for file in files:
            names.append(safe_name(file.path.name, set(names)))
            os.link(file.path, directory / names[-1])
    job = store.jobs.create("import", import_spec(names, clock), name[:300], id=id)
    current_services().queue.enqueue_read(id)
    return job


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
        together=request.form.get(TOGETHER_FIELD, AUTO) if error else AUTO,
        clock=request.form.get("clock", "") if error else "",
        clocks=tuple((word, label) for word, (label, _) in TIME_UNITS.items()),
        clock_of=", ".join(reader.label for reader in READERS.values() if reader.takes_time_unit),
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
