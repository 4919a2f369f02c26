"""Jobs: list, live page of one, and actions: cancel, retry, delete."""

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from flask import Blueprint, Response, flash, jsonify, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from ....domain.errors import Conflict, HostKeyUnknown, InvalidRequest, NotFound, Prompt
from ....domain.jobs import Executor, JobSpec, JobState, Scope
from ....domain.targets import LOCAL, SchedulerName
from ....domain.units import format_elapsed, format_quantity, format_utc, format_utc_iso
from ....recording.fields import command_line
from ....store import Job
from ....store.files.disk import disk_errors, remove_tree
from ....store.ids import new_id
from ....store.jobs import POLLED_STATES
from ...pages import result_url, target_url
from ...parameters import parse_choice
from ...rendering import Page, render
from ...services import current_services
from .. import job_stages as job_stages
from .. import permission
from ..job_stages import JobStage
from ..results.tables import Pager, attachment, build_pager, current_url_with, parse_page
from ..setting_rows import SettingRow
from ..targets import credentials
from ..targets.checks import unaccepted_key_url
from . import output as job_output
from .form_check import Lines, command_lines
from .progress import ProgressView, load_plan, load_progress, plan_command
from .settings_summary import list_settings

blueprint = Blueprint("jobs", __name__)
PAGE_SIZE = 50
QUEUED_LONG_S = 5.0
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class JobListRow:
    """A job in a list. target: empty for an import. result: address of its result, or None."""

    id: str
    name: str
    kind: str
    state: str
    label: str
    text: str
    command: str
    target: str
    progress: float | None
    elapsed: str
    elapsed_s: float
    is_running: bool
    created_text: str
    created_iso: str
    result: str | None


@dataclass(frozen=True)
class StateFilter:
    """A choice of which jobs are listed."""

    label: str
    count: int
    url: str
    current: bool


@dataclass(frozen=True)
class JobListPage(Page):
    """`/jobs`."""

    template: ClassVar[str] = "jobs/list.html"
    rows: tuple[JobListRow, ...]
    filters: tuple[StateFilter, ...]
    pager: Pager
    live: bool


@dataclass(frozen=True)
class JobPage(Page):
    """`/jobs/<id>`. open_url: its best result page. waiting: why it is waiting, if known.

    program: how the user's program ended. keeps_recording: cancelling now ends the recording and keeps it;
    discards_recording: cancelling now discards the recording. progress: its status at the target. secret_prompts:
    secrets that it waits for; secret_reason: why; can_seal: whether a worker runs for which they can be encrypted.
    key_url: of the page where the unknown host key can be accepted. in_series: whether it is a run of a series.
    """

    template: ClassVar[str] = "jobs/job.html"
    id: str
    name: str
    kind: str
    state: str
    label: str
    final: bool
    stages: tuple[JobStage, ...]
    elapsed: str
    elapsed_s: float
    reason: str
    advice: str
    program: str
    reasons: tuple[str, ...]
    waiting: str
    cancel_requested: bool
    keeps_recording: bool
    discards_recording: bool
    result_url: str | None
    open_url: str | None
    incomplete: tuple[str, ...]
    command: str
    command_lines: Lines
    facts: tuple[SettingRow, ...]
    created_text: str
    created_iso: str
    output: job_output.OutputChunk
    output_text: str
    output_size: str
    target: str
    progress: ProgressView | None
    observed_s: float
    observed_text: str
    secret_prompts: tuple[Prompt, ...]
    secret_reason: str
    can_seal: bool
    key_url: str
    in_series: bool

    @property
    def versions(self) -> dict[str, str]:
        """For each part of the page a mark that changes when it should be redrawn; except for running clocks."""
        state = (self.name, self.state, self.label, self.reason, self.reasons, self.waiting, self.result_url)
        parts = {
            "state": (*state, self.key_url, self.open_url, self.incomplete, self.discards_recording),
            "rail": tuple((s.name, s.status, s.progress, s.text, s.since) for s in self.stages),
            "facts": (self.command, self.facts),
            "progress": (self.final, self.progress and self.progress.change_key),
            "needs": (self.secret_prompts, self.secret_reason, self.can_seal),
        }
        return {name: hashlib.sha256(repr(part).encode()).hexdigest()[:12] for name, part in parts.items()}


@dataclass(frozen=True)
class DeleteJobPage(Page):
    """`/jobs/<id>/delete`: the confirmation."""

    template: ClassVar[str] = "jobs/delete.html"
    id: str
    name: str
    label: str
    keeps_result: bool


@blueprint.app_template_global("job_row")
def job_row(job: Job) -> JobListRow:
    """A job as a row of a list."""
    now = time.time()
    elapsed = max(0.0, (job.ended or now) - job.created)
    return JobListRow(
        id=job.id,
        name=_title(job),
        kind=job.kind,
        state=job.state.value,
        label=_label(job),
        text=job.progress_text or (job.reason or "" if job.state.final else ""),
        command=_asked_command(job),
        target=job.target if job.kind == "record" else "",
        progress=job.progress,
        elapsed=format_elapsed(elapsed),
        elapsed_s=round(elapsed, 1),
        is_running=not job.state.final,
        created_text=format_utc(job.created),
        created_iso=format_utc_iso(job.created),
        result=result_url(job.result_id) if job.result_id else None,
    )


@blueprint.get("/jobs")
def show_list() -> AnyResponse:
    """All jobs, newest first; `state` chooses those of one state, or the active ones."""
    jobs = current_services().store.jobs
    counts = jobs.counts()
    active = sum(count for state, count in counts.items() if not state.final and state is not JobState.DRAFT)
    states = [state for state in JobState if state.final]
    choice = parse_choice("state", ("active", *states))
    choices = [("", "All", sum(counts.values())), ("active", "Active", active)]
    choices += [(state.value, job_stages.LABELS[state], counts.get(state, 0)) for state in states]
    total = next(count for value, _, count in choices if value == choice)
    page = parse_page()
    found = jobs.list(
        active=True if choice == "active" else None,
        states=(JobState(choice),) if choice in states else (),
        offset=(page - 1) * PAGE_SIZE,
        limit=PAGE_SIZE,
    )
    return render(
        JobListPage(
            rows=tuple(map(job_row, found)),
            filters=tuple(
                StateFilter(label, count, current_url_with(("state", value or None), ("page", None)), value == choice)
                for value, label, count in choices
                if count or value in ("", choice)
            ),
            pager=build_pager(page, total, PAGE_SIZE, noun="job"),
            live=any(not job.state.final for job in found),
        )
    )


@blueprint.get("/jobs/running")
def list_running() -> Response:
    """The jobs that have not ended, as a piece of a page and as ids, for the page that shows them."""
    jobs = current_services().store.jobs.list(active=True, limit=20)
    html = render_template("jobs/_running_rows.html", jobs=jobs)
    return jsonify(ids=[job.id for job in jobs], html=html)


@blueprint.get("/jobs/<id>")
def show(id: str) -> AnyResponse:
    """One job; the page updates itself, with and without scripts."""
    return render(job_page(current_services().store.jobs.get(id)))


@blueprint.get("/jobs/<id>/live")
def get_live_parts(id: str) -> Response:
    """The state, the parts of the page with their marks, and the output after byte `offset`, with the `mark` of
    the client. `known`: the marks that the client has, separated by commas; these parts are omitted."""
    job = current_services().store.jobs.get(id)
    offset = request.args.get("offset", "0")
    if not offset.isdecimal() or len(offset) > 18:
        raise InvalidRequest("offset must be a whole number from 0.", "offset")
    path = _output_path(id)
    piece = job_output.read_after(path, int(offset), request.args.get("mark", ""), job.state.final)
    page = job_page(job, piece)
    answer: dict[str, Any] = {
        "state": page.state,
        "label": page.label,
        "final": page.final,
        "open_url": page.open_url,
        "seen_s": page.observed_s if page.progress else None,
        "output": {
            "reset": piece.offset != int(offset),
            "offset": piece.offset,
            "next": piece.next,
            "size": piece.size,
            "mark": piece.mark,
            "text": piece.text,
            "size_text": page.output_size,
        },
    }
    parts = set(request.args.get("known", "").split(","))
    answer["parts"] = {
        name: {"mark": mark, "html": render_template(f"jobs/_{name}.html", page=page)}
        for name, mark in page.versions.items()
        if mark not in parts
    }
    return jsonify(answer)


@blueprint.get("/jobs/<id>/output.txt")
def output(id: str) -> AnyResponse:
    """The stored output as a file, unchanged."""
    current_services().store.jobs.get(id)
    path = _output_path(id)
    if not path.is_file():
        raise NotFound("This job has no output, or its files were deleted.")
    return attachment(Response(_bytes_of(path), mimetype="text/plain"), f"{id}-output.txt")


@blueprint.post("/jobs/<id>/cancel")
def cancel(id: str) -> AnyResponse:
    """Request the cancellation of a job: its program, and everything that it started."""
    request_cancel(id)
    return redirect(f"/jobs/{id}", 303)


@blueprint.post("/jobs/<id>/retry")
def retry(id: str) -> AnyResponse:
    """Repeat as a new job: a program is never started twice under one id."""
    job = current_services().store.jobs.get(id)
    if not job.state.final:
        raise Conflict("This job has not ended yet. Wait for it or cancel it first.")
    again = _same_again(job)
    current_services().queue.enqueue(again)
    return redirect(f"/jobs/{again.id}", 303)


def _same_again(job: Job) -> Job:
    """A new job with the description of an earlier one; for an import with its files too."""
    jobs = current_services().store.jobs
    if job.kind == "record":
        permission.require_permission(current_services().store.targets.get(job.target).target)
        return jobs.create("record", job.spec, job.name, details=permission.origin_details())
    id, files = new_id(), jobs.directory(job.id) / "artefacts"
    names = [str(name) for name in job.spec.get("files", ())]
    target = jobs.directory(id) / "artefacts"
    with disk_errors(target):
        target.mkdir(mode=0o700, parents=True)
        try:
            for name in names:
                os.link(files / name, target / name, follow_symlinks=False)
        except FileNotFoundError:
            remove_tree(target.parent)
            raise Conflict("The files of this import are no longer stored. Import them again under Import.") from None
    return jobs.create("import", job.spec, job.name, id=id)


@blueprint.route("/jobs/<id>/delete", methods=["GET", "POST"])
def delete(id: str) -> AnyResponse:
    """Ask for confirmation, then delete a job that has ended; its result remains."""
    jobs = current_services().store.jobs
    job = jobs.get(id)
    if request.method == "GET":
        page = DeleteJobPage(
            id=id, name=_title(job), label=job_stages.LABELS[job.state], keeps_result=job.result_id is not None
        )
        return render(page)
    jobs.delete(id)
    flash(f"Deleted the job “{_title(job)}”.", "good")
    return redirect("/jobs", 303)


def request_cancel(id: str) -> Job:
    """Store the request in the database and notify a worker. Raises Conflict for a job that has ended."""
    store = current_services().store
    store.jobs.get(id)
    if not store.jobs.request_cancel(id):
        raise Conflict("This job has already ended and cannot be cancelled.")
    job = store.jobs.get(id)
    current_services().queue.enqueue(job)
    return job


def job_page(job: Job, piece: job_output.OutputChunk | None = None) -> JobPage:
    """The current page of a job."""
    now = time.time()
    stages = job_stages.list_stages(job, now, batch=_runs_in_batch(job))
    elapsed = max(0.0, (job.ended or now) - job.created)
    piece = piece or job_output.read_tail(_output_path(job.id), job.state.final)
    waiting = _waiting(job, now)
    result, best, incomplete = _result(job)
    spec = _spec(job)
    directory = current_services().store.jobs.directory(job.id)
    plan = load_plan(directory)
    progress = load_progress(directory, plan, spec.mpi.ranks if spec and spec.mpi else None)
    command = command_line.join(job.argv) if job.argv else plan_command(plan)
    seen_s = max(0.0, now - progress.observed_at) if progress else 0.0
    needs = () if job.state.final else job.details.needed_secrets
    wrong = job.state.final and job.state is not JobState.STORED
    return JobPage(
        id=job.id,
        name=_title(job),
        kind=job.kind,
        state=job.state.value,
        label=_label(job),
        final=job.state.final,
        stages=stages,
        elapsed=format_elapsed(elapsed),
        elapsed_s=round(elapsed, 1),
        reason=job.reason or "",
        advice=job_stages.failure_advice(job) if wrong else "",
        # The worker's messages contain it already.
        program="" if job.outcome and job.outcome.reasons else job_stages.outcome_text(job.outcome),
        reasons=_additional_reasons(job),
        waiting=waiting,
        cancel_requested=job.cancel_requested or _ending(job) > 1,
        keeps_recording=spec is not None and spec.scope is not Scope.COMMAND and job.state is JobState.RUNNING,
        discards_recording=job.kind == "record"
        and (job.state in (JobState.COLLECTING, JobState.READING) or _ending(job) == 1),
        result_url=result,
        open_url=best,
        incomplete=incomplete,
        command=command,
        command_lines=command_lines(command),
        facts=list_settings(job, spec),
        created_text=format_utc(job.created),
        created_iso=format_utc_iso(job.created),
        output=piece,
        output_text=job_output.apply_carriage_returns(piece.text),
        output_size=format_quantity(piece.size, "bytes").text if piece.size else "",
        target=job.target,
        progress=progress,
        observed_s=seen_s,
        observed_text=format_elapsed(seen_s),
        secret_prompts=needs,
        secret_reason=job.progress_text if needs else "",
        can_seal=bool(needs) and bool(credentials.sealing_workers()),
        key_url=_key_url(job),
        in_series=job.details.series is not None,
    )


def _label(job: Job) -> str:
    ending = job.cancel_requested or _ending(job)
    return "Cancelling" if ending and not job.state.final else job_stages.LABELS[job.state]


def _additional_reasons(job: Job) -> tuple[str, ...]:
    """How the program ended and other notes, except what the job's reason already says."""
    if job.outcome is None:
        return ()
    said, how = job.reason or "", f"ended with exit status {job.outcome.exit_status}"
    known = {f"The command {how}."} if how in said else set()
    return tuple(reason for reason in job.outcome.reasons if reason not in said and reason not in known)


def _ending(job: Job) -> int:
    """How many cancellations of a job at a target were requested and processed."""
    return job.details.cancellation.times


def _title(job: Job) -> str:
    return job.name or f"Job {job.id}"


def _runs_in_batch(job: Job) -> bool:
    """Whether it runs in a batch system, according to its target if that still exists."""
    if job.kind != "record" or job.target == LOCAL:
        return False
    target = current_services().store.targets.all().get(job.target)
    return target is not None and target.scheduler is not SchedulerName.NONE


def _spec(job: Job) -> JobSpec | None:
    """The job's spec; None for an import, and for a spec of another version that cannot be read."""
    if job.kind != "record":
        return None
    try:
        return job.job_spec
    except InvalidRequest:
        return None


def _asked_command(job: Job) -> str:
    spec = _spec(job)
    return command_line.join(spec.command) if spec else ""


def _output_path(id: str) -> Path:
    return current_services().store.jobs.directory(id) / "output.log"


def _waiting(job: Job, now: float) -> str:
    """Why the job waits: no worker is running, or the target cannot be reached."""
    if job.state.final or now - job.created < QUEUED_LONG_S:
        return ""
    is_polled = job.details.executor is Executor.SCRIPTS
    if (job.state is JobState.QUEUED or is_polled) and not current_services().store.hosts.list_alive():
        begun = f"The job continues at {job.target}." if job.state in POLLED_STATES else "The job waits."
        return (
            "No worker is running. Start one with “perfloom worker” or “perfloom serve”, with "
            f"--data {current_services().settings.data}. {begun}"
        )
    # Required secrets have a separate form.
    return job.progress_text if job.details.unreachable_since and not job.details.needed_secrets else ""


def _key_url(job: Job) -> str:
    """The page to accept the host key that a job waits for, or failed by; else empty."""
    kept_out = job.details.error_kind == HostKeyUnknown.__name__ or bool(job.details.unreachable_since)
    return target_url(job.target) if kept_out and unaccepted_key_url(job.target) else ""


def _result(job: Job) -> tuple[str | None, str | None, tuple[str, ...]]:
    """(address of the result, address of its best page, why it is not complete)."""
    if job.result_id is None:
        return None, None, ()
    try:
        result = current_services().store.results.get(job.result_id)
    except NotFound:
        return None, None, ()
    best = "flamegraph" if result.samples and not result.missing else ""
    url = result_url(result.id)
    return url, result_url(result.id, best) if best else url, () if result.complete else tuple(result.reasons)


def _bytes_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
