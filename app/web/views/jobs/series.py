"""Run series: a form that submits jobs of two sides, which run one after the other, and their page."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from flask import Blueprint, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ....domain.errors import Conflict, InvalidRequest, Prompt
from ....domain.jobs import JobState, RecorderName, SeriesRun, Side
from ....domain.targets import LOCAL, Target
from ....domain.units import format_elapsed
from ....recording.fields import command_line
from ....recording.fields.job_form import JobForm, to_form
from ....recording.recorders.preflight import PreflightFinding, Severity
from ....store import Job, RunSeries
from ....store.ids import is_id, new_id
from ...pages import result_url, with_query
from ...parameters import parse_choice
from ...rendering import Page, render
from ...services import current_services
from .. import job_stages
from ..targets import credentials
from .form import default_name
from .series_request import (
    MAX_RUNS,
    MAX_WARM_UPS,
    OTHER_FIELDS,
    check_series,
    find_result,
    has_command,
    queue_series,
    read_jobs,
)
from .target_choice import TargetChoice, list_target_choices, select_target

blueprint = Blueprint("job_series", __name__)
DEFAULT_RUNS = 5
AGAIN, KEPT = "again", "kept"
"""Whether the base is recorded again, or is the stored result."""
DELETED = "Its result was deleted."


@dataclass(frozen=True)
class BaseJob:
    """The job that is run again. result: the address of its result, empty without one."""

    id: str
    name: str
    command: str
    target: str
    result: str


@dataclass(frozen=True)
class SeriesFormPage(Page):
    """`/jobs/series/new?from=JOB&with=JOB`. id: of the first job that the form creates, so that submitting it twice
    creates one series. typed: the fields. other_id, other_name: of the job whose settings are those of the other side.
    has_command: whether the other side has a command that can differ. findings: by field, for the complete form under
    an empty name. accepted: a mark of the warnings that were shown."""

    template: ClassVar[str] = "jobs/series_new.html"
    id: str
    base: BaseJob
    other_id: str
    other_name: str
    typed: Mapping[str, str]
    has_command: bool
    targets: tuple[TargetChoice, ...]
    findings: Mapping[str, tuple[PreflightFinding, ...]]
    submitted: bool
    accepted: str
    secrets: tuple[Prompt, ...]
    max_runs: int = MAX_RUNS
    max_warm_ups: int = MAX_WARM_UPS

    @property
    def has_errors(self) -> bool:
        """Whether there is an error."""
        return any(one.level is Severity.ERROR for found in self.findings.values() for one in found)

    @property
    def problems(self) -> tuple[tuple[str, PreflightFinding], ...]:
        """The errors and warnings, with their field."""
        return tuple(
            (name, one) for name, found in self.findings.items() for one in found if one.level is not Severity.HINT
        )

    def invalid(self, field: str) -> bool:
        """Whether a field has an error."""
        return any(one.level is Severity.ERROR for one in self.findings.get(field, ()))


@dataclass(frozen=True)
class SeriesRow:
    """A run of a series. result: the address of its result, empty without one. elapsed_s: since its start; None before
    it, and after its end."""

    id: str
    title: str
    state: str
    label: str
    text: str
    elapsed: str
    elapsed_s: float | None
    result: str


@dataclass(frozen=True)
class SeriesPage(Page):
    """`/jobs/<id>/series`. comparison: its address, empty while a side has no result. base: the address of the stored
    result that is the base, empty if the base is recorded, or was deleted. problem: why runs are missing."""

    template: ClassVar[str] = "jobs/series.html"
    id: str
    name: str
    rows: tuple[SeriesRow, ...]
    ended: int
    is_over: bool
    is_cancelling: bool
    elapsed: str
    elapsed_s: float
    base: str
    comparison: str
    problem: str


@blueprint.get("/jobs/series/new")
def new() -> AnyResponse:
    """The form, filled from a job (`from`), the other side from another one (`with`)."""
    base, other = read_jobs(request.values.get("from", ""), request.values.get("with", ""))
    fields = to_form(other.job_spec)
    typed = {name: str(fields[name]) for name in OTHER_FIELDS}
    return _form_page(base, other, {"runs": str(DEFAULT_RUNS), "warm_ups": "1", "base": AGAIN} | typed)


@blueprint.post("/jobs/series/new")
def submit() -> AnyResponse:
    """Queue the runs, or show the form again with its errors."""
    base, other = read_jobs(request.values.get("from", ""), request.values.get("with", ""))
    typed = {
        name: request.form.get(name, "").replace("\r\n", "\n") for name in ("runs", "warm_ups", "base", *OTHER_FIELDS)
    }
    typed["target"] = typed["target"] or LOCAL
    if typed["base"] not in (AGAIN, KEPT):
        raise InvalidRequest(f"base must be {AGAIN} or {KEPT}.", "base")
    changed = {name: typed[name] for name in OTHER_FIELDS if name != "command" or has_command(other)}
    form = JobForm(**{**dict(to_form(other.job_spec)), **changed})
    checked = check_series(base, form, typed["runs"], typed["warm_ups"], keeps_base=typed["base"] == KEPT)
    requested, checks, findings = checked.request, checked.checks, checked.findings
    accepted = "-".join(check.has_warnings for check in checks)
    if requested is None or (accepted.strip("-") and accepted != request.form.get("accepted", "")):
        return _form_page(base, other, typed, findings=findings, accepted=accepted, submitted=True, status=422)
    secrets = credentials.posted_secrets(_prompts([check.spec.target for check in checks if check.spec]), request.form)
    if secrets and not credentials.sealing_workers():
        missing = PreflightFinding(Severity.ERROR, "", *credentials.NO_WORKER_TEXT)
        return _form_page(base, other, typed, findings={**findings, "": (missing,)}, submitted=True, status=422)
    first = queue_series(requested, request.form.get("id", ""), secrets)
    return redirect(with_query(f"/jobs/{first}/series", [("then", "compare")]), 303)


@blueprint.get("/jobs/<id>/series")
def show(id: str) -> AnyResponse:
    """The runs of the series of a job. `then=compare` opens the comparison when all have ended."""
    series = current_services().store.series.get(id)
    comparison = comparison_url(series)
    if parse_choice("then", ("compare",)) and series.is_over and comparison:
        return redirect(comparison, 303)
    now = time.time()
    began = series.jobs[0].created
    elapsed = max(0.0, (max(one.ended or now for one in series.jobs) if series.is_over else now) - began)
    return render(
        SeriesPage(
            id=id,
            name=_series_name(series),
            rows=tuple(_build_row(one, now) for one in series.jobs),
            ended=sum(one.state.final for one in series.jobs),
            is_over=series.is_over,
            is_cancelling=all(one.state.final or one.cancel_requested for one in series.jobs),
            elapsed=format_elapsed(elapsed),
            elapsed_s=round(elapsed, 1),
            base=result_url(series.base) if series.base and not _lacks_base(series) else "",
            comparison=comparison,
            problem=describe_missing(series),
        )
    )


@blueprint.post("/jobs/<id>/series/cancel")
def cancel(id: str) -> AnyResponse:
    """Cancel the runs that have not ended."""
    cancel_series(current_services().store.series.get(id))
    return redirect(f"/jobs/{id}/series", 303)


def cancel_series(series: RunSeries) -> None:
    """Request the cancellation of the runs that have not ended. Raises Conflict if all have."""
    here = current_services()
    if series.is_over:
        raise Conflict("All runs have already ended.")
    here.store.series.request_cancel(series)
    for job in series.jobs:
        if not job.state.final:
            here.queue.enqueue(job)


def comparison_url(series: RunSeries) -> str:
    """The comparison of both sides; empty while one of them has no result."""
    sides = {side: series.results(side) for side in Side}
    if not all(sides.values()) or _lacks_base(series):
        return ""
    pairs = [(str(side), id) for side in Side for id in sides[side]]
    if series.jobs[0].job_spec.recorder is RecorderName.PERF_STAT:
        return with_query("/compare/counts", [*pairs, ("series", series.id)])
    options = [("paired", "1")] if series.has_pairs else []
    # Both sides do the same work, also if they are different builds.
    return with_query("/compare/runs", [*pairs, ("scale", "absolute"), *options, ("series", series.id)])


def count_missing(series: RunSeries) -> str:
    """How many runs ended without a result, and how many jobs were deleted, as sentences; empty if none."""
    missing, deleted = len(series.without_result()), len(series.deleted_runs)
    total = sum(len(series.compared(side)) for side in Side) + deleted
    sentences = []
    if total == missing == 1:
        sentences.append("The run has no result.")
    elif missing:
        sentences.append(f"{missing} of {total} runs {'has' if missing == 1 else 'have'} no result.")
    if deleted > 1:
        sentences.append(f"The jobs of {deleted} of {total} runs were deleted.")
    elif deleted:
        sentences.append(f"The job of 1 of {total} runs was deleted.")
    return " ".join(sentences)


def describe_missing(series: RunSeries) -> str:
    """The same, with the first of these runs that failed, else the first one, and why it has none."""
    if _lacks_base(series):
        return "The result that is the base was deleted, so there is nothing to compare."
    missing = series.without_result()
    if not missing:
        return count_missing(series)
    first = min(missing, key=lambda job: (job.state is JobState.CANCELLED, _run(job).number))
    which = f"Run {_run(first).run} of the {_run(first).side}"
    return f"{count_missing(series)} {which}: {_describe_end(first) or job_stages.LABELS[first.state]}"


def _describe_end(job: Job) -> str:
    """Why a run that ended has no result, or what is missing in it."""
    return DELETED if job.state is JobState.STORED and job.result_id is None else job.reason or ""


def _lacks_base(series: RunSeries) -> bool:
    """Whether the stored result that is the base was deleted."""
    return bool(series.base) and current_services().store.results.find(series.base) is None


def _run(job: Job) -> SeriesRun:
    assert job.details.series is not None
    return job.details.series


def _form_page(
    base: Job,
    other: Job,
    typed: Mapping[str, str],
    *,
    findings: Mapping[str, tuple[PreflightFinding, ...]] | None = None,
    accepted: str = "",
    submitted: bool = False,
    status: int = 200,
) -> AnyResponse:
    sent = request.form.get("id", "")
    result = find_result(base)
    page = SeriesFormPage(
        id=sent if is_id(sent) else new_id(),
        base=BaseJob(
            base.id,
            base.name or f"Job {base.id}",
            command_line.join(base.job_spec.command),
            base.target,
            result_url(result) if result else "",
        ),
        other_id="" if other is base else other.id,
        other_name="" if other is base else other.name or f"Job {other.id}",
        typed=typed,
        has_command=has_command(other),
        targets=list_target_choices(),
        findings=findings or {},
        submitted=submitted,
        accepted=accepted,
        secrets=_prompts([base.target, typed["target"]]),
    )
    return render(page, status)


def _prompts(names: Sequence[str]) -> tuple[Prompt, ...]:
    """The secrets that the form asks for: of the only target that requires some. With several, each job asks."""
    targets: dict[str, Target | None] = {name: select_target(name).target for name in names}
    prompts = [found for target in targets.values() if (found := credentials.secret_prompts(target))]
    return prompts[0] if len(prompts) == 1 else ()


def _series_name(series: RunSeries) -> str:
    spec = series.jobs[-1].job_spec
    return spec.name or default_name(spec)


def _build_row(job: Job, now: float) -> SeriesRow:
    run = _run(job)
    title = f"Warm-up of the {run.side}" if run.is_warm_up else f"{run.side.capitalize()} {run.run}"
    is_cancelling = job.cancel_requested and not job.state.final
    elapsed = None if job.started is None else max(0.0, (job.ended or now) - job.started)
    is_waiting = job.state is JobState.QUEUED and job.due_at is None
    return SeriesRow(
        id=job.id,
        title=title,
        state=job.state.value,
        label="Cancelling" if is_cancelling else "Waiting" if is_waiting else job_stages.LABELS[job.state],
        text=_describe_end(job) if job.state.final else "" if is_waiting else job.progress_text,
        elapsed="" if elapsed is None else format_elapsed(elapsed),
        elapsed_s=None if elapsed is None or job.state.final else round(elapsed, 1),
        result=result_url(job.result_id) if job.result_id else "",
    )
