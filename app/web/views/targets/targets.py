"""Targets: list, page of one with its last check, export as a file, and deletion."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from flask import Blueprint, Response, flash, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ....domain.errors import Prompt
from ....domain.targets import LOCAL, TARGET_FIELDS, BatchQueue, CheckLine, CheckStatus, SchedulerName, Target
from ....domain.units import NS_PER_S, format_duration, format_utc, format_utc_iso
from ....recording.fields.preset_file import FORMATS
from ....recording.fields.target_file import to_file
from ....recording.plan.submission import DEFAULT_DIRECTORY
from ....recording.probe.target_text import fingerprint, parse_host_key, target_location
from ....recording.schedulers import SCHEDULERS, field_label, scheduler_of, scheduler_title
from ....store import StoredTarget
from ...pages import target_url
from ...rendering import Page, render
from ...services import current_services
from .. import job_stages as stages
from ..results.tables import attachment
from ..setting_rows import SettingRow, declared_rows
from ..settings_files import MEDIA_TYPES
from . import credentials
from .checks import CheckView, find_pending_key, load_check

blueprint = Blueprint("targets", __name__)
JOBS_SHOWN = 8
LIGHTS = {
    CheckStatus.GOOD: ("good", "good"),
    CheckStatus.NOTE: ("warn", "note"),
    CheckStatus.BAD: ("bad", "to do"),
}
"""Status → CSS class and label of its badge."""


@dataclass(frozen=True)
class CheckStatusCount:
    """The number of results of a check with a status. kind, label: of its badge."""

    kind: str
    label: str
    count: int


@dataclass(frozen=True)
class TargetListRow:
    """A target in the list. problem: why it cannot be used. lights: of its last check, by severity; empty without a
    check."""

    name: str
    url: str
    where: str
    problem: str
    scheduler: str
    lights: tuple[CheckStatusCount, ...]
    checked_text: str
    checked_iso: str
    notes: str
    jobs: int


@dataclass(frozen=True)
class TargetListPage(Page):
    """`/targets`. is_empty: whether there is only the worker's machine. schedulers: titles of the batch systems that
    Perfloom knows."""

    template: ClassVar[str] = "targets/list.html"
    rows: tuple[TargetListRow, ...]
    is_empty: bool
    schedulers: tuple[str, ...]


@dataclass(frozen=True)
class CheckLineView:
    """A line of a check. kind, label: of its badge."""

    title: str
    kind: str
    label: str
    text: str
    advice: str


@dataclass(frozen=True)
class HostKeyView:
    """An accepted key of a host."""

    host: str
    key_type: str
    fingerprint: str


@dataclass(frozen=True)
class QueueView:
    """A queue, for display."""

    name: str
    default: bool
    open: bool
    limit: str
    text: str


@dataclass(frozen=True)
class TargetJobRow:
    """A job at the target."""

    id: str
    name: str
    state: str
    label: str
    created_text: str
    created_iso: str


@dataclass(frozen=True)
class TargetPage(Page):
    """`/targets/<name>`. check: a requested check. batch: the term for its queues, empty without a batch system.
    prompts: secrets required for every check. may_keep_connection: whether a connection can be open that can be
    closed."""

    template: ClassVar[str] = "targets/target.html"
    name: str
    url: str
    local: bool
    where: str
    facts: tuple[SettingRow, ...]
    notes: str
    lines: tuple[CheckLineView, ...]
    lights: tuple[CheckStatusCount, ...]
    checked_text: str
    checked_iso: str
    check: CheckView | None
    batch: str
    project_label: str
    queues: tuple[QueueView, ...]
    keys: tuple[HostKeyView, ...]
    jobs: tuple[TargetJobRow, ...]
    prompts: tuple[Prompt, ...]
    may_keep_connection: bool
    formats: tuple[str, ...]


@dataclass(frozen=True)
class DeleteTargetPage(Page):
    """`/targets/<name>/delete`: the confirmation."""

    template: ClassVar[str] = "targets/delete.html"
    name: str
    url: str
    where: str


@blueprint.get("/targets")
def show_list() -> AnyResponse:
    """All targets."""
    store = current_services().store
    active = store.jobs.active_by_target(kind="record")
    rows = tuple(_row(target, active.get(target.name, 0)) for target in store.targets.list())
    return render(
        TargetListPage(rows=rows, is_empty=len(rows) == 1, schedulers=tuple(each.title for each in SCHEDULERS.values()))
    )


@blueprint.get("/targets/<name>")
def show(name: str) -> AnyResponse:
    """One target. `check`: a requested check; without scripts the page reloads until it is done."""
    target = current_services().store.targets.get(name)
    check = load_check(name, request.args.get("check", ""))
    if check is not None and check.id != request.args.get("check"):
        return redirect(check.url, 302)
    # After leaving the page, the check is shown again while the key is not accepted.
    return render(_page(target, check or find_pending_key(target)))


@blueprint.get("/targets/<name>/file")
def download(name: str) -> AnyResponse:
    """A target as a file to exchange: `format` is toml or json."""
    target = current_services().store.targets.get(name).target
    form = request.args.get("format", FORMATS[0])
    text = to_file(target, form)
    return attachment(Response(text, mimetype=MEDIA_TYPES[form]), f"{name}.{form}")


@blueprint.route("/targets/<name>/delete", methods=["GET", "POST"])
def delete(name: str) -> AnyResponse:
    """Ask for confirmation, then delete a target. Its jobs and results remain."""
    targets = current_services().store.targets
    target = targets.describe(name) or targets.get(name)
    if request.method == "GET":
        where = target.problem or target_location(target.target)
        return render(DeleteTargetPage(name=name, url=target_url(name), where=where))
    targets.delete(name)
    flash(f"Deleted the target “{name}”.", "good")
    return redirect("/targets", 303)


def _row(stored_target: StoredTarget, jobs: int) -> TargetListRow:
    target = stored_target.target
    return TargetListRow(
        name=stored_target.name,
        url=target_url(stored_target.name),
        where=target_location(target),
        problem=stored_target.problem,
        scheduler="" if target.scheduler is SchedulerName.NONE else scheduler_title(target.scheduler),
        lights=_lights(stored_target.lines),
        checked_text="" if stored_target.checked is None else format_utc(stored_target.checked),
        checked_iso="" if stored_target.checked is None else format_utc_iso(stored_target.checked),
        notes=" ".join(target.notes.split()),
        jobs=jobs,
    )


def _lights(lines: tuple[CheckLine, ...]) -> tuple[CheckStatusCount, ...]:
    counts = (
        (light, sum(line.light is light for line in lines))
        for light in (CheckStatus.BAD, CheckStatus.NOTE, CheckStatus.GOOD)
    )
    return tuple(CheckStatusCount(*LIGHTS[light], count) for light, count in counts if count)


def _page(stored_target: StoredTarget, check: CheckView | None) -> TargetPage:
    target, facts = stored_target.target, stored_target.facts
    jobs = current_services().store.jobs.list(target=stored_target.name, kind="record", limit=JOBS_SHOWN)
    batch = field_label(target.scheduler, "queue", "Queue") if scheduler_of(target.scheduler) else ""
    return TargetPage(
        name=stored_target.name,
        url=target_url(stored_target.name),
        local=stored_target.name == LOCAL,
        where=target_location(target),
        facts=tuple(_facts(target, stored_target)),
        notes=target.notes,
        lines=tuple(
            CheckLineView(line.title, *LIGHTS[line.light], line.text, line.advice) for line in stored_target.lines
        ),
        lights=_lights(stored_target.lines),
        checked_text="" if stored_target.checked is None else format_utc(stored_target.checked),
        checked_iso="" if stored_target.checked is None else format_utc_iso(stored_target.checked),
        check=check,
        batch=batch,
        project_label=field_label(target.scheduler, "project", "Project"),
        queues=tuple(map(_queue, facts.queues)) if facts and batch else (),
        keys=tuple(
            HostKeyView(*parse_host_key(line), fingerprint(line))
            for line in (target.ssh.host_keys if target.ssh else ())
        ),
        jobs=tuple(
            TargetJobRow(
                job.id,
                job.name or job.id,
                job.state.value,
                stages.LABELS[job.state],
                format_utc(job.created),
                format_utc_iso(job.created),
            )
            for job in jobs
        ),
        prompts=credentials.secret_prompts(target),
        may_keep_connection=target.ssh is not None and target.ssh.keep,
        formats=FORMATS,
    )


def _queue(queue: BatchQueue) -> QueueView:
    limit = "" if queue.wall_time_s is None else format_duration(queue.wall_time_s * NS_PER_S)
    return QueueView(queue.name, queue.default, queue.open, limit, queue.text)


def _facts(target: Target, stored_target: StoredTarget) -> Iterator[SettingRow]:
    """The settings of the target, and those found by its check."""
    ssh, facts = target.ssh, stored_target.facts
    yield SettingRow("Location", target_location(target))
    if ssh is not None:
        ways = [*(["SSH agent"] if ssh.agent else []), *(["~/.ssh/config"] if ssh.config else [])]
        yield SettingRow("Uses", " and ".join(ways) or "neither SSH agent nor ~/.ssh/config")
    place = facts.directory if facts and facts.directory else target.directory or DEFAULT_DIRECTORY
    yield SettingRow("Job directory", place, True)
    yield from declared_rows(TARGET_FIELDS, target)
