"""The job form: the input is checked, shown as a command, and queued if it has no errors."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from flask import Blueprint, Response, jsonify, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ....domain.errors import Conflict, InvalidRequest, Prompt
from ....domain.fields import Option
from ....domain.jobs import JOB_FIELDS, JobSpec, RecorderName, Scope
from ....domain.selection import parse_flag
from ....domain.targets import LOCAL
from ....recording.fields.events import EventMatches
from ....recording.fields.job_form import JobForm, to_form
from ....recording.fields.relevance import NO_MPI, FieldLabel, list_batch_labels, list_hiding_choices, make_hiding_rules
from ....recording.mpi.registry import MPI_LAUNCHERS
from ....recording.recorders import RECORDERS, Recorder
from ....recording.recorders.preflight import PreflightFinding, Severity
from ....store import Job
from ....store.ids import is_id, new_id
from ...pages import with_query
from ...parameters import parse_choice
from ...rendering import Page, render
from ...services import current_services
from .. import permission
from ..declared_form import DeclaredForm
from ..targets import credentials
from . import target_choice
from .form_check import FormCheck, Lines, check_form, check_target, command_lines
from .target_choice import SelectedTarget, TargetChoice, match_events, select_target

blueprint = Blueprint("job_form", __name__)
CHECK_TIMEOUT_S = 3.0
"""Timeout of the worker's check of paths and command on submit."""
PREVIEW_CHECK_TIMEOUT_S = 1.5


@dataclass(frozen=True)
class PresetLink:
    """A preset in the form's menu. url: fills the form. file: it as a file. current: the form was filled from it."""

    name: str
    url: str
    file: str
    current: bool


@dataclass(frozen=True)
class JobFormPage(DeclaredForm, Page):
    """`/jobs/new`. id: of the job that this form creates, so that submitting it twice creates one.

    form_check: None before submission; target_findings: of the target, also before. submitted,
    saving_preset: see `form_page`. source: a label of the job or preset the form was filled from. hidden_by: for each
    field the choices to which it does not apply. secrets: passwords that the target requires.
    """

    template: ClassVar[str] = "jobs/new.html"
    declarations = JOB_FIELDS
    id: str
    fields: JobForm
    form_check: FormCheck | None
    target_findings: tuple[PreflightFinding, ...]
    submitted: bool
    saving_preset: bool
    selected_target: SelectedTarget
    targets: tuple[TargetChoice, ...]
    event_query: str
    event_matches: EventMatches | None
    presets: tuple[PresetLink, ...]
    preset_name: str
    source: str
    mpi_implementations: tuple[Option, ...]
    hidden_by: Mapping[str, str]
    batch_labels: Mapping[str, tuple[FieldLabel, ...]]
    secrets: tuple[Prompt, ...]

    def findings(self, field: str) -> tuple[PreflightFinding, ...]:
        """The findings of a field."""
        if self.form_check is None:
            return tuple(finding for finding in self.target_findings if finding.field == field)
        return self.form_check.by_field.get(field, ())

    @property
    def recorders(self) -> Mapping[RecorderName, Recorder]:
        """The registered recorders."""
        return RECORDERS

    @property
    def recorders_with_fields(self) -> tuple[Recorder, ...]:
        """The recorders that have their own group of fields in the form, under their name."""
        return tuple(each for name, each in RECORDERS.items() if name in self.groups)

    def other_recorders(self, name: str) -> str:
        """The choices of other recorders, as words that hide what is of this one."""
        return " ".join(f"recorder-{other}" for other in RECORDERS if other != name)

    @property
    def command_lines(self) -> Lines:
        """The lines of the command."""
        return command_lines(self.form_check.command if self.form_check else "")


@blueprint.get("/jobs/new")
def new() -> AnyResponse:
    """The empty form, or one filled from an earlier job (`from`) or a preset (`preset`); `target` chooses one, and
    `off_cpu=1` also records the time off the CPU, `branch_stacks=1` branch stacks; `recorder` and `events` (several)
    replace those fields."""
    fields, source, preset = JobForm(target=request.args.get("target") or LOCAL), "", ""
    if "from" in request.args:
        job = current_services().store.jobs.get(request.args["from"])
        if job.kind != "record":
            raise InvalidRequest("This job was an import, which has no command. Import the files again under Import.")
        fields, source = to_form(job.job_spec), f"job {job.name or job.id}"
    elif "preset" in request.args:
        found = current_services().store.presets.get(request.args["preset"])
        fields, source, preset = to_form(found.job_spec), f"preset {found.name}", found.name
    for field in ("off_cpu", "branch_stacks"):
        if parse_flag(field, request.args.get(field)):
            fields = JobForm(**dict(fields) | {field: True})
    if "recorder" in request.args:
        fields = JobForm(**dict(fields) | {"recorder": parse_choice("recorder", tuple(RECORDERS), "")})
    if "events" in request.args:
        fields = JobForm(**dict(fields) | {"events": "\n".join(request.args.getlist("events"))})
    return form_page(fields, source=source, preset=preset)


@blueprint.post("/jobs/new")
def submit() -> AnyResponse:
    """Queue the job, or show the form again with its errors.

    Without scripts also: preview, event search, the fields of another target.
    """
    typed = JobForm.from_form(request.form.to_dict(flat=False))
    selected_target = select_target(typed.target)
    action, query = request.form.get("action", "submit"), request.form.get("event_query", "")
    if action == "enter":
        # The Enter key without scripts does not start a job.
        action = "events" if query.strip() and "event" not in request.form else "preview"
    if action == "target":
        return form_page(typed, selected_target=selected_target)
    if action == "events":
        return form_page(typed, selected_target=selected_target, query=query, search=True)
    form_check = check_form(typed, selected_target, host_timeout_s=CHECK_TIMEOUT_S)
    if action == "preview":
        return form_page(typed, form_check=form_check, selected_target=selected_target)
    secrets = credentials.posted_secrets(credentials.secret_prompts(selected_target.target), request.form)
    if secrets and not credentials.sealing_workers():
        missing = PreflightFinding(Severity.ERROR, "", *credentials.NO_WORKER_TEXT)
        form_check = replace(form_check, findings=(missing, *form_check.findings))
    accepted = request.form.get("accepted", "")
    if form_check.spec is None or form_check.has_errors or form_check.has_warnings not in ("", accepted):
        return form_page(typed, form_check=form_check, selected_target=selected_target, submitted=True, status=422)
    return redirect(f"/jobs/{queue_job(form_check.spec, request.form.get('id', ''), secrets).id}", 303)


@blueprint.get("/jobs/form.css")
def style_sheet() -> Response:
    """The style sheet that hides fields that do not apply to the selected choices."""
    return Response(make_hiding_rules(), mimetype="text/css")


@blueprint.post("/jobs/preview")
def preview() -> Response:
    """The command of a filled-in form and its findings, during input.

    `check` also requests a check by the machine's worker, which takes longer. `place`: the target shown on the page.
    """
    typed = JobForm.from_form(request.form.to_dict(flat=False))
    selected_target = select_target(typed.target)
    host_timeout_s = PREVIEW_CHECK_TIMEOUT_S if request.form.get("check") else None
    examined = check_form(typed, selected_target, host_timeout_s=host_timeout_s)
    return jsonify(
        command=examined.command,
        lines=command_lines(examined.command),
        note=examined.note,
        host=examined.host,
        groups=examined.groups,
        findings=[finding.to_json() for finding in examined.findings],
        place={
            "name": selected_target.name,
            "host": selected_target.host,
            "text": selected_target.text,
            "suggested": selected_target.suggestions,
            "queue_hint": selected_target.queue_hint,
            "queues": [{"name": queue.name, "text": queue.text} for queue in selected_target.queues],
            "default_events": selected_target.default_events,
            "secrets": [
                {"name": prompt.name, "text": prompt.text}
                for prompt in credentials.secret_prompts(selected_target.target)
            ],
        },
    )


@blueprint.get("/jobs/events")
def events() -> Response:
    """A page of the events that a target offers: `target`, `query`, `group`, `offset`."""
    selected_target = select_target(request.args.get("target") or LOCAL)
    offset = request.args.get("offset", "0")
    if not offset.isdecimal() or len(offset) > 9:
        raise InvalidRequest("offset must be a whole number from 0.", "offset")
    found = match_events(selected_target, request.args.get("query", ""), request.args.get("group", ""), int(offset))
    return jsonify(
        host=selected_target.host or None,
        total=found.total,
        next=found.next_offset,
        groups=[{"name": name, "matches": count} for name, count in found.groups],
        events=[{"name": e.name, "group": e.group, "description": e.description} for e in found.rows],
    )


def queue_job(spec: JobSpec, wanted_id: str = "", secrets: Mapping[str, str] | None = None) -> Job:
    """Store the job and notify a worker. wanted_id: of the form, so that submitting it twice creates one job. secrets:
    for its target, stored encrypted."""
    jobs = current_services().store.jobs
    name = spec.name or default_name(spec)
    id = wanted_id if is_id(wanted_id) else new_id()
    if secrets and jobs.find(id) is None:
        # Before a worker can need them.
        credentials.seal_secrets(f"job:{id}", secrets)
    try:
        job = jobs.create("record", spec.to_json(), name, id=id, details=permission.origin_details())
    except Conflict:
        job = jobs.get(id)
        if job.kind == "record" and job.job_spec == spec:
            return job
        # Submitted again with changes after going back: a different job.
        return queue_job(spec, secrets=secrets)
    current_services().queue.enqueue(job)
    return job


def default_name(spec: JobSpec) -> str:
    """The default name of a job: its program, or the script of an interpreter."""
    if spec.scope is Scope.PROCESS:
        return f"PID {spec.pid_text}"
    if not spec.command:
        return "Whole system"
    program = spec.command[0].rstrip("/").rpartition("/")[2] or spec.command[0]
    if len(spec.command) > 1 and program.startswith(("python", "perl", "ruby", "node", "bash", "sh", "java")):
        script = spec.command[1]
        if not script.startswith("-"):
            program += " " + script.rpartition("/")[2]
    return "".join(c if c.isprintable() else "\ufffd" for c in program)[:80]


def form_page(
    fields: JobForm,
    *,
    selected_target: SelectedTarget | None = None,
    form_check: FormCheck | None = None,
    submitted: bool = False,
    saving: bool = False,
    query: str = "",
    search: bool = False,
    source: str = "",
    preset: str = "",
    preset_name: str = "",
    status: int = 200,
) -> AnyResponse:
    """The form with these fields. submitted: it was sent and has errors; saving: as a preset."""
    selected_target = selected_target or select_target(fields.target)
    sent = request.form.get("id", "")
    page = JobFormPage(
        id=sent if is_id(sent) else new_id(),
        fields=fields,
        form_check=form_check,
        target_findings=() if form_check else check_target(selected_target),
        submitted=submitted,
        saving_preset=saving,
        selected_target=selected_target,
        targets=target_choice.list_target_choices(),
        event_query=query,
        event_matches=match_events(selected_target, query) if search else None,
        presets=tuple(
            PresetLink(each.name, preset_url(each.name), preset_file_url(each.name), each.name == preset)
            for each in current_services().store.presets.list()
        ),
        preset_name=preset_name or preset,
        source=source,
        mpi_implementations=(
            Option(NO_MPI, "None: single process"),
            *(Option(name, each.label) for name, each in MPI_LAUNCHERS.items()),
        ),
        hidden_by=list_hiding_choices(),
        batch_labels=list_batch_labels(),
        secrets=credentials.secret_prompts(selected_target.target),
    )
    return render(page, status)


def preset_url(name: str) -> str:
    """The address of the form filled from a preset."""
    return with_query("/jobs/new", [("preset", name)])


def preset_file_url(name: str) -> str:
    """The address of a preset as a file."""
    return with_query("/jobs/presets/file", [("name", name)])
