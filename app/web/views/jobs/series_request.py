"""What a run series is asked for, from the form or as JSON: its check, and its jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ....domain.errors import Conflict, InvalidRequest, NotFound
from ....domain.jobs import JobSpec, RecorderName, Scope, SeriesRun, Side, order_runs
from ....recording.fields.job_form import JobForm, to_form
from ....recording.recorders.preflight import PreflightFinding, Severity
from ....store import Job, NewRun
from ....store.ids import is_id, new_id
from ...services import current_services
from .. import permission
from ..targets import credentials
from .form import CHECK_TIMEOUT_S, default_name
from .form_check import FormCheck, check_form
from .target_choice import select_target

MAX_RUNS, MAX_WARM_UPS = 50, 5
OTHER_FIELDS = ("command", "cwd", "environment", "target")
"""The fields of a job in which the other side can differ."""
MAX_NAME_CHARACTERS = 100


@dataclass(frozen=True)
class SeriesRequest:
    """A series without errors: the specs of the sides that are recorded."""

    base: Job
    specs: Mapping[Side, JobSpec]
    runs: int
    warm_ups: int
    keeps_base: bool


@dataclass(frozen=True)
class SeriesCheck:
    """request: None with errors. checks: of the sides that are recorded. findings: by field; those under "" concern the
    complete series."""

    request: SeriesRequest | None
    checks: tuple[FormCheck, ...]
    findings: Mapping[str, tuple[PreflightFinding, ...]]


def read_jobs(base_id: str, other_id: str) -> tuple[Job, Job]:
    """(the job that is run again, the one with the settings of the other side: the same if its id is empty). Ids are of
    jobs, or of results of jobs. Raises NotFound, and InvalidRequest for jobs that cannot be compared."""
    base = _find_job(base_id)
    other = _find_job(other_id) if other_id else base
    for job in (base, other):
        if job.kind != "record":
            raise InvalidRequest("This job was an import, which has no command that could run again.")
    if (base.job_spec.recorder is RecorderName.PERF_STAT) != (other.job_spec.recorder is RecorderName.PERF_STAT):
        raise InvalidRequest("One of the jobs counts events, the other samples them. Choose jobs of the same recorder.")
    return base, other


def _find_job(id: str) -> Job:
    store = current_services().store
    job = store.jobs.find(id)
    if job is None and (result := store.results.find(id)) is not None:
        job = store.jobs.find(result.job_id) if result.job_id else None
        if job is None:
            raise NotFound(f"The result {id[:40]!r} has no job any more, or was imported: there is no command to run.")
    return store.jobs.get(id) if job is None else job


def check_series(base: Job, other: JobForm, runs: str, warm_ups: str, *, keeps_base: bool) -> SeriesCheck:
    """other: the settings of the other side. runs, warm_ups: as typed. keeps_base: the stored result of the job `base`
    is the base, which is not recorded again."""
    found: dict[str, list[PreflightFinding]] = {}
    numbers = {}
    for name, title, typed, least, most in (
        ("runs", "Runs", runs, 1, MAX_RUNS),
        ("warm_ups", "Warm-up runs", warm_ups, 0, MAX_WARM_UPS),
    ):
        text = typed.strip()
        if text.isascii() and text.isdecimal() and len(text) < 9 and least <= int(text) <= most:
            numbers[name] = int(text)
        else:
            message = f"{title}: enter a whole number from {least} to {most}."
            found.setdefault(name, []).append(PreflightFinding(Severity.ERROR, name, message, ""))
    if keeps_base and not find_result(base):
        message = "The job has no result that could be the base; record it again."
        found.setdefault("base", []).append(PreflightFinding(Severity.ERROR, "base", message, ""))
    forms = {Side.OTHER: other} if keeps_base else {Side.BASE: to_form(base.job_spec), Side.OTHER: other}
    checks: dict[Side, FormCheck] = {}
    for side, form in forms.items():
        if checks and dict(form) == dict(forms[Side.BASE]):
            checks[side] = checks[Side.BASE]
            continue
        checks[side] = check_form(form, select_target(form.target), host_timeout_s=CHECK_TIMEOUT_S)
        for one in checks[side].findings:
            own = side is Side.OTHER and one.field in OTHER_FIELDS
            if one.level is Severity.HINT and not own:
                # About settings that are not changed here.
                continue
            message = one.message if own or len(forms) < 2 else f"{side.capitalize()}: {one.message}"
            found.setdefault(one.field if own else "", []).append(replace(one, message=message))
    findings = {name: tuple(listed) for name, listed in found.items()}
    specs = {side: check.spec for side, check in checks.items() if check.spec is not None}
    failed = any(one.level is Severity.ERROR for listed in findings.values() for one in listed)
    requested = None
    if not failed and len(specs) == len(forms):
        requested = SeriesRequest(base, specs, numbers["runs"], numbers["warm_ups"], keeps_base)
    return SeriesCheck(requested, tuple(checks.values()), findings)


def queue_series(requested: SeriesRequest, wanted_id: str = "", secrets: Mapping[str, str] | None = None) -> str:
    """Store the jobs and notify a worker for the first one. Returns the id of the first job, which is that of the
    series. wanted_id: of the form, so that submitting it twice creates one series. secrets: for the targets, stored
    encrypted."""
    here = current_services()
    specs = requested.specs
    same = specs.get(Side.BASE) == specs[Side.OTHER]
    order = order_runs(
        requested.runs, requested.warm_ups, (Side.BASE,) if same else tuple(Side), keeps_base=requested.keeps_base
    )
    id = wanted_id if is_id(wanted_id) else new_id()
    base = find_result(requested.base) if requested.keeps_base else ""
    runs = []
    for number, (side, run) in enumerate(order):
        spec = specs[side]
        place = SeriesRun(id, number, side, run, base)
        end = f", {place.title}"
        name = (spec.name or default_name(spec))[: MAX_NAME_CHARACTERS - len(end)] + end
        runs.append(NewRun(new_id() if number else id, place, name, spec, permission.origin_details()))
    if secrets and here.store.jobs.find(id) is None:
        for one in runs:
            if credentials.secret_prompts(select_target(one.spec.target).target):
                credentials.seal_secrets(f"job:{one.id}", secrets)
    try:
        here.store.series.create(runs)
    except Conflict:
        # Submitted twice.
        if here.store.jobs.get(id).details.series is None:
            raise
        return id
    here.queue.enqueue(here.store.jobs.get(id))
    return id


def has_command(job: Job) -> bool:
    """Whether it starts a command."""
    return job.job_spec.scope is not Scope.PROCESS


def find_result(job: Job) -> str:
    """The id of the job's result, empty without one."""
    found = current_services().store.results.find(job.result_id) if job.result_id else None
    return found.id if found and not found.missing else ""
