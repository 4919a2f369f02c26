"""/compare/imports: two files that were chosen on the page Compare are read, then the comparison opens."""

import time
from dataclasses import dataclass
from typing import ClassVar

from flask import Blueprint, redirect, request
from werkzeug.wrappers import Response

from ....domain.units import format_elapsed
from ....store import Job
from ...pages import with_query
from ...rendering import Page, render
from ...services import current_services
from .. import job_stages

blueprint = Blueprint("compare_imports", __name__)
SIDES = {"base": "Base", "other": "Other"}


@dataclass(frozen=True)
class ImportedSide:
    """A file. elapsed_s: since it was submitted; None when it was read, or could not be."""

    title: str
    id: str
    name: str
    state: str
    label: str
    text: str
    elapsed: str
    elapsed_s: float | None


@dataclass(frozen=True)
class CompareImportsPage(Page):
    """`/compare/imports?base=JOB&other=JOB`. is_over: whether a file cannot be read, and none is being read."""

    template: ClassVar[str] = "compare/imports.html"
    sides: tuple[ImportedSide, ...]
    is_over: bool


@blueprint.get("/compare/imports")
def show() -> Response:
    """The progress of both; the comparison if both are stored."""
    jobs = {side: current_services().store.jobs.get(request.args.get(side, "")) for side in SIDES}
    found = [(side, job.result_id) for side, job in jobs.items() if job.result_id is not None]
    if len(found) == len(SIDES):
        return redirect(with_query("/compare", found), 303)
    sides = tuple(_build_side(SIDES[side], job) for side, job in jobs.items())
    return render(CompareImportsPage(sides, all(job.state.final for job in jobs.values())))


def _build_side(title: str, job: Job) -> ImportedSide:
    elapsed = max(0.0, (job.ended or time.time()) - job.created)
    return ImportedSide(
        title,
        job.id,
        job.name,
        job.state.value,
        job_stages.LABELS[job.state],
        (job.reason or "") if job.state.final else job.progress_text,
        format_elapsed(elapsed),
        None if job.state.final else round(elapsed, 1),
    )
