"""Jobs in the database: the truth about what was requested and how far it got.

A state changes only by `transition` and `claim`, each one UPDATE that names the states it may start from, so that of
several processes exactly one succeeds.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import ColumnElement, delete, func, select, update

from ..domain.errors import Conflict, NotFound, Unavailable
from ..domain.jobs import JobDetails, JobSpec, JobState, Outcome
from ..domain.targets import LOCAL
from ..recording import adapters  # noqa: F401  (registers the names in stored jobs and targets)
from .database import Database
from .files.disk import disk_errors, remove_tree
from .ids import new_id, require_id
from .models import JobRow

JobKind = Literal["record", "import"]
ACTIVE_STATES = tuple(state.value for state in JobState if not state.final and state is not JobState.DRAFT)
POLLED_STATES = (JobState.PENDING, JobState.RUNNING)
"""The states in which the jobs of a target that scripts run are polled together."""


@dataclass(frozen=True)
class Job:
    """A job. Times: seconds since the epoch, null for not yet.

    spec: the description as JSON (for kind "record" a JobSpec: see `job_spec`). target: where it runs. progress: 0–1
    within the present state, null where it is not known. attempt: how often it was claimed. claimed_by: the worker
    that has it. process_group: of the supervisor of the user's program on `host`. argv: the exact command. reason: why
    it ended as it did, for a person. due_at: when somebody should look at it again. details: what its steps note.
    history: every state it has been in and since when, oldest first.
    """

    id: str
    kind: JobKind
    name: str
    spec: dict[str, Any]
    target: str
    state: JobState
    progress: float | None
    progress_text: str
    created: float
    changed: float
    started: float | None
    ended: float | None
    attempt: int
    claimed_by: str | None
    host: str | None
    process_group: int | None
    argv: tuple[str, ...] | None
    outcome: Outcome | None
    reason: str | None
    result_id: str | None
    cancel_requested: bool
    due_at: float | None
    details: JobDetails
    history: tuple[tuple[JobState, float], ...]

    @property
    def job_spec(self) -> JobSpec:
        """The description of a recording. Raises InvalidRequest where it cannot be understood."""
        return JobSpec.from_json(self.spec)


class Jobs:
    """The jobs in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._directory = database.settings.data / "jobs"

    def create(
        self,
        kind: JobKind,
        spec: Mapping[str, Any],
        name: str,
        *,
        state: JobState = JobState.QUEUED,
        due_at: float | None = None,
        id: str | None = None,
        details: JobDetails | None = None,
    ) -> Job:
        """Store a new job. due_at: when somebody should first look at it (null: now). Raises Conflict for an id that
        exists."""
        now = time.time()
        row = JobRow(
            id=require_id(id, "job") if id is not None else new_id(),
            kind=kind,
            name=name,
            spec=dict(spec),
            target=str(spec.get("target") or LOCAL),
            state=state.value,
            progress=None,
            progress_text="",
            created=now,
            changed=now,
            attempt=0,
            cancel_requested=False,
            due_at=None if state.final else now if due_at is None else due_at,
            details=(details or JobDetails()).to_json(),
            history=[[state.value, now]],
        )
        with self._database.write() as session:
            if session.get(JobRow, row.id) is not None:
                raise Conflict(f"A job {row.id} already exists; let Perfloom choose the id.")
            session.add(row)
        return self.get(row.id)

    def get(self, id: str) -> Job:
        """A job by its id. Raises NotFound."""
        with self._database.read() as session:
            row = session.get(JobRow, require_id(id, "job"))
        if row is None:
            raise NotFound(f"No job {id}; it was deleted, or never existed.")
        return _job(row)

    def find(self, id: str) -> Job | None:
        """A job by its id, or None."""
        try:
            return self.get(id)
        except NotFound:
            return None

    def list(
        self,
        *,
        active: bool | None = None,
        kind: JobKind | None = None,
        states: Collection[JobState] = (),
        target: str | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> tuple[Job, ...]:
        """Jobs, newest first. active: True those that are not final (drafts neither), False the others."""
        wanted = select(JobRow).order_by(JobRow.created.desc(), JobRow.id)
        if active is not None:
            wanted = wanted.where(JobRow.state.in_(ACTIVE_STATES) if active else JobRow.state.not_in(ACTIVE_STATES))
        if kind is not None:
            wanted = wanted.where(JobRow.kind == kind)
        if states:
            wanted = wanted.where(JobRow.state.in_([state.value for state in states]))
        if target is not None:
            wanted = wanted.where(JobRow.target == target)
        with self._database.read() as session:
            return tuple(_job(row) for row in session.scalars(wanted.offset(max(0, offset)).limit(max(0, limit))))

    def counts(self) -> dict[JobState, int]:
        """How many jobs there are in each state; states without any are left out."""
        wanted = select(JobRow.state, func.count()).group_by(JobRow.state)
        with self._database.read() as session:
            found = {JobState(state): count for state, count in session.execute(wanted)}
        return {state: found[state] for state in JobState if state in found}

    def active_by_target(self, *, kind: JobKind) -> dict[str, int]:
        """How many active jobs there are at each target; targets without any are left out."""
        jobs = func.count().label("jobs")
        wanted = select(JobRow.target, jobs).where(JobRow.state.in_(ACTIVE_STATES), JobRow.kind == kind)
        with self._database.read() as session:
            return {row.target: row.jobs for row in session.execute(wanted.group_by(JobRow.target))}

    def latest(self, *, kind: JobKind | None = None, states: Collection[JobState] = ()) -> Job | None:
        """The newest job, or None."""
        found = self.list(kind=kind, states=states, limit=1)
        return found[0] if found else None

    def list_queued(self, *, kind: JobKind, limit: int) -> tuple[Job, ...]:
        """Queued jobs, the one that waits longest first."""
        wanted = select(JobRow).where(JobRow.state == JobState.QUEUED.value, JobRow.kind == kind)
        with self._database.read() as session:
            return tuple(_job(row) for row in session.scalars(wanted.order_by(JobRow.created, JobRow.id).limit(limit)))

    def count_queued_before(self, job: Job, targets: Collection[str] = ()) -> int:
        """How many queued jobs of the same kind (and at one of `targets`) have waited longer than `job`."""
        earlier = (JobRow.created < job.created) | ((JobRow.created == job.created) & (JobRow.id < job.id))
        wanted = select(func.count()).where(JobRow.state == JobState.QUEUED.value, JobRow.kind == job.kind, earlier)
        if targets:
            wanted = wanted.where(JobRow.target.in_(targets))
        with self._database.read() as session:
            return session.scalar(wanted) or 0

    def list_due(self, now: float | None = None, limit: int = 1000) -> tuple[str, ...]:
        """Ids of the jobs that somebody should look at by `now`, the longest overdue first, without those of
        `due_polls`."""
        wanted = (
            select(JobRow.id)
            .where(
                JobRow.state.in_(ACTIVE_STATES), JobRow.due_at <= (time.time() if now is None else now), ~_together()
            )
            .order_by(JobRow.due_at, JobRow.id)
            .limit(limit)
        )
        with self._database.read() as session:
            return tuple(session.scalars(wanted))

    def due_polls(self, now: float | None = None) -> dict[str, tuple[str, ...]]:
        """Ids, by target, of the due jobs that are polled together with all others there: run by scripts, and begun."""
        wanted = (
            select(JobRow.target, JobRow.id)
            .where(_together(), JobRow.due_at <= (time.time() if now is None else now))
            .order_by(JobRow.target, JobRow.id)
        )
        found: dict[str, list[str]] = {}
        with self._database.read() as session:
            for target, id in session.execute(wanted):
                found.setdefault(target, []).append(id)
        return {target: tuple(ids) for target, ids in found.items()}

    def list_polled(self, target: str) -> tuple[Job, ...]:
        """All jobs run by scripts that have begun at a target, oldest first."""
        wanted = select(JobRow).where(_together(), JobRow.target == target).order_by(JobRow.created, JobRow.id)
        with self._database.read() as session:
            return tuple(_job(row) for row in session.scalars(wanted))

    def postpone(self, ids: Sequence[str], due_at: float, *, cancelled: bool = False) -> None:
        """Have active jobs polled later. cancelled: also those with a cancellation that is not processed yet."""
        for start in range(0, len(ids), 500):
            part = ids[start : start + 500]
            change = update(JobRow).where(JobRow.id.in_(part), JobRow.state.in_(ACTIVE_STATES)).values(due_at=due_at)
            self._execute_change(change if cancelled else change.where(JobRow.cancel_requested.is_(False)))

    def claim(
        self, id: str, worker: str, host: str | None, seconds: float, *, details: JobDetails | None = None
    ) -> Job | None:
        """Take a queued job for `worker`: it is now being staged, its attempt one more, due again in `seconds`.

        host: where alone it can be followed, null for anywhere. None where it is not queued (any more), or its
        cancelling was asked for.
        """
        now = time.time()
        more = {} if details is None else {"details": details.to_json()}
        change = (
            update(JobRow)
            .where(JobRow.id == id, JobRow.state == JobState.QUEUED.value, JobRow.cancel_requested.is_(False))
            .values(
                state=JobState.STAGING.value,
                attempt=JobRow.attempt + 1,
                claimed_by=worker,
                host=host,
                changed=now,
                due_at=now + seconds,
                progress=None,
                progress_text="",
                **more,
            )
        )
        return self.find(id) if self._execute_change(change, id, JobState.STAGING, now) else None

    def transition(
        self,
        id: str,
        expected: JobState | Collection[JobState],
        new: JobState,
        *,
        expected_attempt: int | None = None,
        **columns: Any,
    ) -> bool:
        """Change the state, and `columns` with it, if it is one of `expected` (and the attempt the one given).

        False where it is not: somebody else was faster. A final state sets `ended` and is due never again; RUNNING
        sets `started` where it is not set.
        """
        now = time.time()
        states = [expected] if isinstance(expected, JobState) else list(expected)
        values = {"state": new.value, "changed": now, "progress": None, "progress_text": ""} | _plain(columns)
        if new.final:
            values = {"ended": now, "due_at": None} | values
        elif new is JobState.RUNNING and "started" not in values:
            values["started"] = func.coalesce(JobRow.started, now)
        change = update(JobRow).where(JobRow.id == id, JobRow.state.in_([state.value for state in states]))
        if expected_attempt is not None:
            change = change.where(JobRow.attempt == expected_attempt)
        return self._execute_change(change.values(values), id, new, now)

    def update(
        self,
        id: str,
        *,
        expected: JobState | Collection[JobState] | None = None,
        expected_attempt: int | None = None,
        **columns: Any,
    ) -> bool:
        """Change `columns` without changing the state; conditions as for `transition`, by default any active state."""
        if expected is None:
            states = list(ACTIVE_STATES)
        else:
            states = [s.value for s in ([expected] if isinstance(expected, JobState) else expected)]
        change = update(JobRow).where(JobRow.id == id, JobRow.state.in_(states))
        if expected_attempt is not None:
            change = change.where(JobRow.attempt == expected_attempt)
        return self._execute_change(change.values({"changed": time.time()} | _plain(columns)))

    def update_all(self, changes: Mapping[str, Mapping[str, Any]], job_states: Collection[JobState]) -> None:
        """Change columns of many jobs at once, by their ids; those in other states by now are left alone.

        When each was last changed stays: it is for what changes all the time, such as a place in a queue.
        """
        states = [state.value for state in job_states]
        with self._database.write() as session:
            for id, columns in changes.items():
                change = update(JobRow).where(JobRow.id == id, JobRow.state.in_(states))
                session.execute(change.values(_plain(dict(columns))))

    def report_progress(self, id: str, progress: float | None, text: str) -> bool:
        """Say how far the present state has got: 0–1 or null, and in words. False where the job has ended."""
        return self.update(id, progress=progress, progress_text=text)

    def rename(self, id: str, name: str) -> None:
        """Change the name. Raises NotFound."""
        require_id(id, "job")
        if not self._execute_change(update(JobRow).where(JobRow.id == id).values(name=name)):
            raise NotFound(f"No job {id}; it was deleted, or never existed.")

    def request_cancel(self, id: str) -> bool:
        """Note that a person wants the job ended, and make it due now. False where it has ended already."""
        now = time.time()
        change = update(JobRow).where(JobRow.id == id, JobRow.state.in_((*ACTIVE_STATES, JobState.DRAFT.value)))
        return self._execute_change(change.values(cancel_requested=True, due_at=now, changed=now))

    def delete(self, id: str) -> None:
        """Delete a job that has ended, or a draft, with its directory; its result stays.

        Raises NotFound, or Conflict while the job is active.
        """
        job = self.get(id)
        if not (job.state.final or job.state is JobState.DRAFT):
            raise Conflict("The job is still active; cancel it first.")
        with disk_errors(self._directory):
            remove_tree(self._directory / id)
        try:
            with self._database.write() as session:
                session.execute(delete(JobRow).where(JobRow.id == id, JobRow.state.not_in(ACTIVE_STATES)))
        except Unavailable as error:
            raise Unavailable(f"Deleted the files of this job, but not its database entry. {error.message}") from error

    def directory(self, id: str) -> Path:
        """Where a job's files are (not created here): `work/`, `artefacts/`, `output.log` and the supervisor's."""
        return self._directory / require_id(id, "job")

    def _execute_change(self, change: Any, id: str = "", entered: JobState | None = None, at: float = 0.0) -> bool:
        """Whether `change` found its row. entered: the state it brings, noted in the row's history with it."""
        with self._database.write() as session:
            rowcount: int = session.execute(change).rowcount  # type: ignore[attr-defined]
            if rowcount and entered is not None:
                row = session.get_one(JobRow, id)
                if not row.history or row.history[-1][0] != entered.value:
                    row.history = [*row.history, [entered.value, at]]
        return rowcount > 0


def _together() -> ColumnElement[bool]:
    """The jobs of `due_polls`."""
    # How `JobDetails.executor` is stored.
    by_scripts = func.coalesce(JobRow.details["planned"].as_boolean(), False)
    return JobRow.state.in_([state.value for state in POLLED_STATES]) & by_scripts


def _plain(columns: dict[str, Any]) -> dict[str, Any]:
    """Column values as the database stores them."""
    plain = {}
    for name, value in columns.items():
        if name not in JobRow.__table__.columns or name in ("id", "state", "created", "history"):
            raise TypeError(f"a job has no column {name!r} that could be changed")
        if isinstance(value, (JobDetails, Outcome)):
            value = value.to_json()
        elif isinstance(value, tuple):
            value = list(value)
        plain[name] = value
    return plain


def _job(row: JobRow) -> Job:
    return Job(
        id=row.id,
        kind="import" if row.kind == "import" else "record",
        name=row.name,
        spec=row.spec,
        target=row.target,
        state=JobState(row.state),
        progress=row.progress,
        progress_text=row.progress_text,
        created=row.created,
        changed=row.changed,
        started=row.started,
        ended=row.ended,
        attempt=row.attempt,
        claimed_by=row.claimed_by,
        host=row.host,
        process_group=row.process_group,
        argv=None if row.argv is None else tuple(row.argv),
        outcome=None if row.outcome is None else Outcome.from_json(row.outcome),
        reason=row.reason,
        result_id=row.result_id,
        cancel_requested=row.cancel_requested,
        due_at=row.due_at,
        details=JobDetails.from_json(row.details),
        history=tuple((JobState(state), at) for state, at in row.history),
    )
