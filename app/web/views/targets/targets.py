"""Targets: the list of them, the page of one with what its last check found, its file, and the way to be rid of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from flask import Blueprint, Response, flash, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ....domain.errors import Prompt
from ....domain.targets import KEEP_HOURS, LOCAL, CheckLine, Light, Queue, SchedulerName, Target
from ....domain.units import duration, utc_iso, utc_text
from ....recording.fields.check_place import FLAVOURS
from ....recording.fields.preset_file import FORMATS
from ....recording.fields.target_file import to_file
from ....recording.plan.starting import DIRECTORY
from ....recording.probe.words import SCHEDULER_TITLES, fingerprint, key_of, where
from ....store import StoredTarget
from ...pages import target_url
from ...rendering import Page, render
from ...services import services
from ..jobs import stages
from ..jobs.facts import Fact
from ..jobs.presets import TYPES
from ..results.tables import attachment
from . import credentials
from .checks import CheckView, asked_check, pending_key

blueprint = Blueprint("targets", __name__)
JOBS_SHOWN = 8
LIGHTS = {
    Light.GOOD: ("good", "good"),
    Light.NOTE: ("warn", "to know"),
    Light.BAD: ("bad", "to do"),
}
"""Light → how its badge looks, and what it says."""


@dataclass(frozen=True)
class LightCount:
    """How many lines of a check came out so. kind, label: of its badge."""

    kind: str
    label: str
    count: int


@dataclass(frozen=True)
class Row:
    """A target in the list. lights: of its last check, those worth a look first; empty where there was none."""

    name: str
    url: str
    where: str
    scheduler: str
    lights: tuple[LightCount, ...]
    checked_text: str
    checked_iso: str
    notes: str
    jobs: int


@dataclass(frozen=True)
class ListPage(Page):
    """`/targets`. alone: there is none but the worker's own machine."""

    template: ClassVar[str] = "targets/list.html"
    rows: tuple[Row, ...]
    alone: bool


@dataclass(frozen=True)
class LineView:
    """A line of a check. kind: how its badge looks, label: what it says."""

    title: str
    kind: str
    label: str
    text: str
    advice: str


@dataclass(frozen=True)
class KeyView:
    """An accepted key of a host."""

    host: str
    sort: str
    fingerprint: str


@dataclass(frozen=True)
class QueueView:
    """A queue, for people."""

    name: str
    default: bool
    open: bool
    limit: str
    text: str


@dataclass(frozen=True)
class JobRow:
    """A job at the target."""

    id: str
    name: str
    state: str
    label: str
    created_text: str
    created_iso: str


@dataclass(frozen=True)
class TargetPage(Page):
    """`/targets/<name>`. check: one that was just asked for. batch: what its queues are called, empty without a batch
    system. prompts: what is asked for at every check. keeps: whether a connection may be open that can
    be closed."""

    template: ClassVar[str] = "targets/target.html"
    name: str
    url: str
    local: bool
    where: str
    facts: tuple[Fact, ...]
    notes: str
    lines: tuple[LineView, ...]
    lights: tuple[LightCount, ...]
    checked_text: str
    checked_iso: str
    check: CheckView | None
    batch: str
    queues: tuple[QueueView, ...]
    keys: tuple[KeyView, ...]
    jobs: tuple[JobRow, ...]
    prompts: tuple[Prompt, ...]
    keeps: bool
    formats: tuple[str, ...]


@dataclass(frozen=True)
class DeletePage(Page):
    """`/targets/<name>/delete`: asks first."""

    template: ClassVar[str] = "targets/delete.html"
    name: str
    url: str
    where: str


@blueprint.get("/targets")
def index() -> AnyResponse:
    """All targets."""
    store = services().store
    active = store.jobs.active_by_target(kind="record")
    rows = tuple(_row(one, active.get(one.name, 0)) for one in store.targets.list())
    return render(ListPage(rows=rows, alone=len(rows) == 1))


@blueprint.get("/targets/<name>")
def show(name: str) -> AnyResponse:
    """One target. `check`: a check that was asked for; without scripts the page is loaded again until it is done."""
    stored = services().store.targets.get(name)
    check = asked_check(name, request.args.get("check", ""))
    if check is not None and check.id != request.args.get("check"):
        return redirect(check.url, 302)
    # Whoever left the page finds it again as long as the key is not accepted.
    return render(_page(stored, check or pending_key(stored)))


@blueprint.get("/targets/<name>/file")
def download(name: str) -> AnyResponse:
    """A target as a file to exchange: `format` is toml or json."""
    target = services().store.targets.get(name).target
    form = request.args.get("format", FORMATS[0])
    text = to_file(target, form)
    return attachment(Response(text, mimetype=TYPES[form]), f"{name}.{form}")


@blueprint.route("/targets/<name>/delete", methods=["GET", "POST"])
def delete(name: str) -> AnyResponse:
    """Ask, then remove a target. Jobs that ran there stay, with their results."""
    targets = services().store.targets
    stored = targets.get(name)
    if request.method == "GET":
        return render(DeletePage(name=name, url=target_url(name), where=where(stored.target)))
    targets.delete(name)
    flash(f"Deleted the target “{name}”.", "good")
    return redirect("/targets", 303)


def _row(stored: StoredTarget, jobs: int) -> Row:
    target = stored.target
    return Row(
        name=stored.name,
        url=target_url(stored.name),
        where=where(target),
        scheduler="" if target.scheduler is SchedulerName.NONE else SCHEDULER_TITLES[target.scheduler],
        lights=_lights(stored.lines),
        checked_text="" if stored.checked is None else utc_text(stored.checked),
        checked_iso="" if stored.checked is None else utc_iso(stored.checked),
        notes=" ".join(target.notes.split()),
        jobs=jobs,
    )


def _lights(lines: tuple[CheckLine, ...]) -> tuple[LightCount, ...]:
    counts = ((light, sum(line.light is light for line in lines)) for light in (Light.BAD, Light.NOTE, Light.GOOD))
    return tuple(LightCount(*LIGHTS[light], count) for light, count in counts if count)


def _page(stored: StoredTarget, check: CheckView | None) -> TargetPage:
    target, facts = stored.target, stored.facts
    jobs = services().store.jobs.list(target=stored.name, kind="record", limit=JOBS_SHOWN)
    batch = {SchedulerName.SLURM: "Partition", SchedulerName.LSF: "Queue"}.get(target.scheduler, "")
    return TargetPage(
        name=stored.name,
        url=target_url(stored.name),
        local=stored.name == LOCAL,
        where=where(target),
        facts=tuple(_facts(target, stored)),
        notes=target.notes,
        lines=tuple(LineView(line.title, *LIGHTS[line.light], line.text, line.advice) for line in stored.lines),
        lights=_lights(stored.lines),
        checked_text="" if stored.checked is None else utc_text(stored.checked),
        checked_iso="" if stored.checked is None else utc_iso(stored.checked),
        check=check,
        batch=batch,
        queues=tuple(map(_queue, facts.queues)) if facts and batch else (),
        keys=tuple(KeyView(*key_of(line), fingerprint(line)) for line in (target.ssh.host_keys if target.ssh else ())),
        jobs=tuple(
            JobRow(
                job.id,
                job.name or job.id,
                job.state.value,
                stages.LABELS[job.state],
                utc_text(job.created),
                utc_iso(job.created),
            )
            for job in jobs
        ),
        prompts=credentials.asked_at(target),
        keeps=target.ssh is not None and target.ssh.keep,
        formats=FORMATS,
    )


def _queue(queue: Queue) -> QueueView:
    limit = "" if queue.wall_time_s is None else duration(queue.wall_time_s * 10**9)
    return QueueView(queue.name, queue.default, queue.open, limit, queue.text)


def _facts(target: Target, stored: StoredTarget) -> Iterator[Fact]:
    """What the target is set to, and what its check made of it. Of variables the names alone."""
    ssh, facts = target.ssh, stored.facts
    yield Fact("Where", where(target))
    if ssh is not None:
        if ssh.key_file:
            yield Fact("Key file", ssh.key_file, True)
        ways = [*(["keys of the agent"] if ssh.agent else []), *(["~/.ssh/config"] if ssh.config else [])]
        yield Fact("Taken into account", " and ".join(ways) or "neither agent nor ~/.ssh/config")
        if ssh.password:
            yield Fact("Password", "each job and each check asks for it" if not ssh.keep else "asked for once")
        if ssh.keep:
            kept = f"kept for all jobs, {KEEP_HOURS} hours after its last use, where it was opened with a secret"
            yield Fact("Connection", kept)
    yield Fact("Batch system", SCHEDULER_TITLES[target.scheduler])
    place = facts.directory if facts and facts.directory else target.directory or DIRECTORY
    yield Fact("Directory of jobs", place, True)
    if target.scratch:
        yield Fact("Scratch", target.scratch, True)
    if target.perf:
        yield Fact("perf", target.perf, True)
    if target.modules:
        yield Fact("Modules", ", ".join(target.modules))
    if target.environment:
        yield Fact("Environment", f"{', '.join(sorted(target.environment))} (values not shown)")
    if target.mpi is not None:
        yield Fact("Usual MPI", FLAVOURS[target.mpi])
    for flavour, program in target.starters.items():
        yield Fact(f"Starter of {FLAVOURS.get(flavour, flavour)}", program, True)  # type: ignore[call-overload]
    if target.sudo:
        yield Fact("perf with sudo", "allowed")
    if target.counters is not None:
        yield Fact("Events in a run", f"at most {target.counters}")
    yield Fact("Jobs are looked at", f"every {target.poll_s:g} s")
