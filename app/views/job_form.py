"""The job form: what was typed is examined, shown as the command it means, and queued when nothing is in its way."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from flask import Blueprint, Response, jsonify, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ..domain.errors import Conflict, InvalidRequest
from ..domain.facts import HostFacts
from ..domain.jobs import CallGraph, JobSpec, RecorderName, Scope
from ..forms.events import EventIndex, EventMatches
from ..forms.job import JobFields, parse, to_fields
from ..forms.relevance import field_of, hidden_by
from ..launchers import UNKNOWN_HOST, command_line
from ..pages import with_query
from ..recorders import RECORDERS
from ..recorders.events import to_count, to_sample
from ..recorders.preflight import Finding, Level, preflight
from ..rendering import Page, render
from ..services import services
from ..store import Host, Job
from ..store.ids import is_id, new_id

blueprint = Blueprint("job_form", __name__)
CHECK_TIMEOUT_S = 3.0
"""How long a submit waits for the worker's look at paths and command."""
PREVIEW_CHECK_TIMEOUT_S = 1.5

SCOPES = (
    (Scope.COMMAND, "A command", "It is started here, and recorded from its first instruction to its last."),
    (Scope.PROCESS, "A running process", "Attach to a process by its PID; it goes on undisturbed."),
    (Scope.SYSTEM, "The whole system", "Every process on every CPU."),
)
RECORDER_TEXTS = {
    RecorderName.PERF_RECORD: ("perf record", "Sample call stacks: where the time goes, as a flame graph."),
    RecorderName.PERF_STAT: ("perf stat", "Count events exactly: how much of each, without stacks."),
}
CALL_GRAPHS = (
    (CallGraph.DWARF, "dwarf", "Copies a piece of the stack with each sample. Works for any program."),
    (CallGraph.FP, "fp", "Frame pointers: cheapest, for programs built with them."),
    (CallGraph.LBR, "lbr", "Intel’s branch records: cheap, with a limited depth."),
    (CallGraph.NONE, "none", "No stacks: only the function that ran."),
)


@dataclass(frozen=True)
class Choice:
    """One of several to choose from. hint: what it means."""

    value: str
    label: str
    hint: str


@dataclass(frozen=True)
class Examined:
    """What can be said about a filled-in form. command: the line that would be started, empty while errors stand.

    by_field: the findings at each field of the form; those under "" concern the whole.
    """

    spec: JobSpec | None
    findings: tuple[Finding, ...]
    command: str
    host: str

    @property
    def by_field(self) -> dict[str, tuple[Finding, ...]]:
        return {name: tuple(f for f in self.findings if f.field == name) for name in {f.field for f in self.findings}}

    @property
    def blocked(self) -> bool:
        """Whether an error stands in the way."""
        return any(finding.level is Level.ERROR for finding in self.findings)

    @property
    def warned(self) -> str:
        """A mark of the warnings, empty without one: who accepts them accepts these and no later ones."""
        texts = sorted(f"{f.field}\0{f.message}" for f in self.findings if f.level is Level.WARNING)
        return hashlib.sha256("\0\0".join(texts).encode()).hexdigest()[:16] if texts else ""


@dataclass(frozen=True)
class PresetLink:
    """A preset in the form's menu. url: fills the form. current: the form was filled from it."""

    name: str
    url: str
    current: bool


@dataclass(frozen=True)
class FormPage(Page):
    """`/jobs/new`. id: of the job that this form will make, so that sending it twice makes one.

    examined: None where nothing was sent yet. tried, saving: see `form_page`. source: the job or preset the form was
    filled from, in words. hidden_by: for each field the choices under which it has no meaning.
    """

    template: ClassVar[str] = "jobs/new.html"
    id: str
    fields: JobFields
    examined: Examined | None
    tried: bool
    saving: bool
    host: str
    host_text: str
    default_events: dict[str, str]
    event_query: str
    event_matches: EventMatches | None
    presets: tuple[PresetLink, ...]
    preset_name: str
    source: str
    recorders: tuple[Choice, ...]
    scopes: tuple[Choice, ...]
    call_graphs: tuple[Choice, ...]
    hidden_by: Mapping[str, str]

    def findings(self, field: str) -> tuple[Finding, ...]:
        """What is to be said at a field."""
        return self.examined.by_field.get(field, ()) if self.examined else ()

    @property
    def command_pieces(self) -> tuple[str, ...]:
        """The command between its blanks, so that a line is broken at a blank rather than behind a hyphen."""
        return tuple(self.examined.command.split(" ")) if self.examined and self.examined.command else ()

    def invalid(self, field: str) -> bool:
        """Whether a field has an error."""
        return any(finding.level is Level.ERROR for finding in self.findings(field))


def present_host() -> Host | None:
    """The machine that would run a job, as far as known: the one last heard of, with facts before one without."""
    hosts = services().store.hosts.list()
    return next((host for host in hosts if host.facts), hosts[0] if hosts else None)


def examine(typed: JobFields, host: Host | None, *, ask_within_s: float | None) -> Examined:
    """Everything that can be said about the form; with `ask_within_s`, the machine's own worker is asked too."""
    parsed = parse(typed)
    found = [Finding(Level.ERROR, name, message, "") for name, message in parsed.errors.items()]
    found += [Finding(Level.WARNING, name, hint, "") for name, hints in parsed.hints.items() for hint in hints]
    if parsed.spec is None:
        return Examined(None, tuple(found), "", host.name if host else "")
    return _judged(parsed.spec, found, host, ask_within_s)


def examine_spec(spec: JobSpec, host: Host | None, *, ask_within_s: float | None) -> Examined:
    """The same for a description that came as JSON."""
    return _judged(spec, [], host, ask_within_s)


def _judged(spec: JobSpec, found: list[Finding], host: Host | None, ask_within_s: float | None) -> Examined:
    facts = host.facts if host else None
    found += [_at_form_field(finding) for finding in preflight(spec, facts)]
    if ask_within_s is not None:
        found += _asked(spec, ask_within_s)
    order = list(Level)
    found.sort(key=lambda finding: order.index(finding.level))
    return Examined(spec, tuple(dict.fromkeys(found)), command_line(spec, facts), host.name if host else "")


def _at_form_field(finding: Finding) -> Finding:
    return replace(finding, field=field_of(finding.field))


def _asked(spec: JobSpec, timeout_s: float) -> list[Finding]:
    """What the worker says about paths and command; that it says nothing is a warning."""
    answer = services().queue.check(spec.to_json(), timeout_s)
    if answer is not None:
        return [_at_form_field(finding) for finding in answer]
    advice = "The job waits in the queue until one does: start it with “perfloom worker”, or “perfloom serve”."
    return [Finding(Level.WARNING, "", "No worker answers now, so command and paths are not checked.", advice)]


@blueprint.get("/jobs/new")
def new() -> AnyResponse:
    """The empty form, or one filled from an earlier job (`from`) or a preset (`preset`)."""
    fields, source, preset = JobFields(), "", ""
    if "from" in request.args:
        job = services().store.jobs.get(request.args["from"])
        if job.kind != "record":
            raise InvalidRequest("That was an import, which has no command. Import the files again under Import.")
        fields, source = to_fields(job.job_spec), f"job {job.name or job.id}"
    elif "preset" in request.args:
        found = services().store.presets.get(request.args["preset"])
        fields, source, preset = to_fields(found.job_spec), f"preset {found.name}", found.name
    return form_page(fields, source=source, preset=preset)


@blueprint.post("/jobs/new")
def submit() -> AnyResponse:
    """Queue the job, or show the form again with what is in its way. Without scripts also: preview, event search."""
    typed = JobFields.from_form(request.form.to_dict(flat=False))
    host = present_host()
    action, query = request.form.get("action", "submit"), request.form.get("event_query", "")
    if action == "enter":
        # The Enter key without scripts: nothing is started by it.
        action = "events" if query.strip() and "event" not in request.form else "preview"
    if action == "events":
        return form_page(typed, host=host, query=query, search=True)
    examined = examine(typed, host, ask_within_s=CHECK_TIMEOUT_S)
    if action == "preview":
        return form_page(typed, examined=examined, host=host)
    accepted = request.form.get("accepted", "")
    if examined.spec is None or examined.blocked or examined.warned not in ("", accepted):
        return form_page(typed, examined=examined, host=host, tried=True, status=422)
    return redirect(f"/jobs/{queue_job(examined.spec, request.form.get('id', '')).id}", 303)


@blueprint.post("/jobs/preview")
def preview() -> Response:
    """The command that a filled-in form means and what speaks against it, for the page while somebody types.

    `check` asks the machine's worker too, which takes longer.
    """
    typed = JobFields.from_form(request.form.to_dict(flat=False))
    asked = PREVIEW_CHECK_TIMEOUT_S if request.form.get("check") else None
    examined = examine(typed, present_host(), ask_within_s=asked)
    return jsonify(
        command=examined.command,
        host=examined.host,
        findings=[finding.to_json() for finding in examined.findings],
    )


@blueprint.get("/jobs/events")
def events() -> Response:
    """A page of the events that the host offers: `query`, `group`, `offset`."""
    host = present_host()
    offset = request.args.get("offset", "0")
    if not offset.isdecimal() or len(offset) > 9:
        raise InvalidRequest("offset is a whole number from 0.", "offset")
    found = matches(host, request.args.get("query", ""), request.args.get("group", ""), int(offset))
    return jsonify(
        host=host.name if host else None,
        total=found.total,
        next=found.next_offset,
        groups=[{"name": name, "matches": count} for name, count in found.groups],
        events=[{"name": e.name, "group": e.group, "description": e.description} for e in found.rows],
    )


def queue_job(spec: JobSpec, wanted_id: str = "") -> Job:
    """Store the job and ring for it. wanted_id: the form's, so that a form sent twice makes one job."""
    jobs = services().store.jobs
    name = spec.name or default_name(spec)
    try:
        job = jobs.create("record", spec.to_json(), name, id=wanted_id if is_id(wanted_id) else None)
    except Conflict:
        job = jobs.get(wanted_id)
        if job.kind == "record" and job.job_spec == spec:
            return job
        # Sent again after going back and changing something: that is another job.
        job = jobs.create("record", spec.to_json(), name)
    services().queue.ring(job)
    return job


def default_name(spec: JobSpec) -> str:
    """What a job is called whose form has no name: its program, and a script that an interpreter runs."""
    if spec.scope is Scope.PROCESS:
        return f"PID {spec.pid}"
    if not spec.command:
        return "Whole system"
    program = spec.command[0].rstrip("/").rpartition("/")[2] or spec.command[0]
    if len(spec.command) > 1 and program.startswith(("python", "perl", "ruby", "node", "bash", "sh", "java")):
        script = spec.command[1]
        if not script.startswith("-"):
            program += " " + script.rpartition("/")[2]
    return "".join(c if c.isprintable() else "\ufffd" for c in program)[:80]


def form_page(
    fields: JobFields,
    *,
    host: Host | None = None,
    examined: Examined | None = None,
    tried: bool = False,
    saving: bool = False,
    query: str = "",
    search: bool = False,
    source: str = "",
    preset: str = "",
    preset_name: str = "",
    status: int = 200,
) -> AnyResponse:
    """The form with these fields in it. tried: it was sent and something is in the way; saving: as a preset."""
    host = host or present_host()
    sent = request.form.get("id", "")
    page = FormPage(
        id=sent if is_id(sent) else new_id(),
        fields=fields,
        examined=examined,
        tried=tried,
        saving=saving,
        host=host.name if host else "",
        host_text=_host_text(host),
        default_events=_default_events(host),
        event_query=query,
        event_matches=matches(host, query) if search else None,
        presets=tuple(
            PresetLink(each.name, preset_url(each.name), each.name == preset)
            for each in services().store.presets.list()
        ),
        preset_name=preset_name or preset,
        source=source,
        recorders=tuple(Choice(name.value, *RECORDER_TEXTS[name]) for name in RECORDERS),
        scopes=tuple(Choice(*choice) for choice in SCOPES),
        call_graphs=tuple(Choice(*choice) for choice in CALL_GRAPHS),
        hidden_by=hidden_by(),
    )
    return render(page, status)


def preset_url(name: str) -> str:
    """The address of the form filled from a preset."""
    return with_query("/jobs/new", [("preset", name)])


def matches(host: Host | None, query: str, group: str = "", offset: int = 0) -> EventMatches:
    """The events of a host that fit a search."""
    facts = host.facts if host else None
    return (_index(facts) if facts else EventIndex.of(())).search(query, group, offset)


_indexes: dict[tuple[str, float], EventIndex] = {}


def _index(facts: HostFacts) -> EventIndex:
    """The index of a host's events, made once for each time they were looked up there."""
    key = (facts.host, facts.checked_at)
    found = _indexes.get(key)
    if found is None:
        found = EventIndex.of(facts.events)
        if len(_indexes) >= 8:
            _indexes.clear()
        _indexes[key] = found
    return found


def _host_text(host: Host | None) -> str:
    """One line on the machine that will run the job."""
    facts = host.facts if host else None
    if facts is None:
        return "No worker has described its machine yet."
    parts = [facts.host, facts.cpu, f"{facts.cpus} CPUs" if facts.cpus else "", facts.os]
    perf = f"perf {facts.perf_version}" if facts.perf_version else "no perf"
    return " · ".join(part for part in [*parts, perf] if part)


def _default_events(host: Host | None) -> dict[str, str]:
    """What each recorder measures where no event is given."""
    facts = (host.facts if host else None) or UNKNOWN_HOST
    plain = JobSpec()
    return {
        RecorderName.PERF_RECORD.value: ", ".join(to_sample(plain, facts)),
        RecorderName.PERF_STAT.value: ", ".join(to_count(plain, facts)),
    }
