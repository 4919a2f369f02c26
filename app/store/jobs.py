"""Jobs in the database, which is authoritative for what was requested and for its state.

Only `transition` and `claim` change a state, each with one UPDATE that is conditional on the previous state, so that
exactly one of several processes succeeds.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import ColumnElement, delete, func, select, update

from ..domain.errors import Conflict, NotFound, Unavailable
from ..domain.jobs import JobDetails, JobState, Outcome
from ..domain.targets import LOCAL
from .database import Database
from .files.disk import disk_errors, remove_tree
from .ids import new_id, not_found, require_id
from .models.jobs import JobRow

if TYPE_CHECKING:
    from ..domain.jobs import JobSpec

JobKind = Literal["record", "import"]
ACTIVE_STATES = tuple(state.value for state in JobState if not state.final and state is not JobState.DRAFT)
POLLED_STATES = (JobState.PENDING, JobState.RUNNING)
"""The states in which the jobs of a target that scripts run are polled together."""


@dataclass(frozen=True)
class Job:
    """A job. Times: seconds since the epoch, null for not yet.

    spec: the description as JSON (for kind "record" a JobSpec: see `job_spec`). target: where it runs. progress: 0–1
    within the present state, null if unknown. attempt: how often it was claimed. claimed_by: the claiming worker.
    process_group: of the supervisor of the user's program on `host`. argv: the exact command. reason: why it ended, a
    sentence. due_at: when its next step is due. details: data of its steps. history: its states and their start times,
    oldest first.
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
    def is_from_elsewhere(self) -> bool:
        """Whether another machine may have recorded."""
        from ..domain.targets import LOCAL

        return self.kind == "record" and self.target != LOCAL

    @property
    def job_spec(self) -> "JobSpec":
        """The description of a recording. Raises InvalidRequest if it is invalid."""
        # The adapters register the names in it. Imported here, because a list of jobs needs neither.
        from ..domain.jobs import JobSpec
        from ..recording import adapters  # noqa: F401

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
        """Store a new job. due_at: when its first step is due (null: now). Raises Conflict for an id that exists."""
        row = new_row(kind, spec, name, state=state, due_at=due_at, id=id, details=details)
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
            raise not_found("job", id)
        return job_of(row)

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
        query = select(JobRow).order_by(JobRow.created.desc(), JobRow.id)
        if active is not None:
            query = query.where(JobRow.state.in_(ACTIVE_STATES) if active else JobRow.state.not_in(ACTIVE_STATES))
        if kind is not None:
            query = query.where(JobRow.kind == kind)
        if states:
            query = query.where(JobRow.state.in_([state.value for state in states]))
        if target is not None:
            query = query.where(JobRow.target == target)
        with self._database.read() as session:
            return tuple(job_of(row) for row in session.scalars(query.offset(max(0, offset)).limit(max(0, limit))))

    def counts(self) -> dict[JobState, int]:
        """The number of jobs by state; states without jobs are left out."""
        query = select(JobRow.state, func.count()).group_by(JobRow.state)
        with self._database.read() as session:
            found = {JobState(state): count for state, count in session.execute(query)}
        return {state: found[state] for state in JobState if state in found}

    def active_by_target(self, *, kind: JobKind) -> dict[str, int]:
        """The number of active jobs by target; targets without jobs are left out."""
        jobs = func.count().label("jobs")
        query = select(JobRow.target, jobs).where(JobRow.state.in_(ACTIVE_STATES), JobRow.kind == kind)
        with self._database.read() as session:
            return {row.target: row.jobs for row in session.execute(query.group_by(JobRow.target))}

    def latest(self, *, kind: JobKind | None = None, states: Collection[JobState] = ()) -> Job | None:
        """The newest job, or None."""
        found = self.list(kind=kind, states=states, limit=1)
        return found[0] if found else None

    def list_queued(self, *, kind: JobKind, limit: int) -> tuple[Job, ...]:
        """Queued jobs, the oldest first, without those that wait for an earlier run of their series."""
        query = select(JobRow).where(_waits_for_place(), JobRow.kind == kind)
        with self._database.read() as session:
            return tuple(job_of(row) for row in session.scalars(query.order_by(JobRow.created, JobRow.id).limit(limit)))

    def count_queued_before(self, job: Job, targets: Collection[str] = ()) -> int:
        """The number of jobs of the same kind (and at one of `targets`) in `list_queued` that are older than `job`."""
        earlier = (JobRow.created < job.created) | ((JobRow.created == job.created) & (JobRow.id < job.id))
        query = select(func.count()).where(_waits_for_place(), JobRow.kind == job.kind, earlier)
        if targets:
            query = query.where(JobRow.target.in_(targets))
        with self._database.read() as session:
            return session.scalar(query) or 0

    def list_due(self, now: float | None = None, limit: int = 1000) -> tuple[str, ...]:
        """Ids of the jobs that are due at `now`, the longest overdue first, without those of `due_polls`."""
        query = (
            select(JobRow.id)
            .where(
                JobRow.state.in_(ACTIVE_STATES),
                JobRow.due_at <= (time.time() if now is None else now),
                ~_polled_together(),
            )
            .order_by(JobRow.due_at, JobRow.id)
            .limit(limit)
        )
        with self._database.read() as session:
            return tuple(session.scalars(query))

    def due_polls(self, now: float | None = None) -> dict[str, tuple[str, ...]]:
        """Ids, by target, of the due jobs that are polled together: run by scripts, and started."""
        query = (
            select(JobRow.target, JobRow.id)
            .where(_polled_together(), JobRow.due_at <= (time.time() if now is None else now))
            .order_by(JobRow.target, JobRow.id)
        )
        found: dict[str, list[str]] = {}
        with self._database.read() as session:
            for target, id in session.execute(query):
                found.setdefault(target, []).append(id)
        return {target: tuple(ids) for target, ids in found.items()}

    def list_polled(self, target: str) -> tuple[Job, ...]:
        """All started jobs that scripts run at a target, oldest first."""
        query = select(JobRow).where(_polled_together(), JobRow.target == target).order_by(JobRow.created, JobRow.id)
        with self._database.read() as session:
            return tuple(job_of(row) for row in session.scalars(query))

    def postpone(self, ids: Sequence[str], due_at: float, *, cancelled: bool = False) -> None:
        """Postpone the next poll of active jobs. cancelled: also those with an unprocessed cancellation."""
        for start in range(0, len(ids), 500):
            part = ids[start : start + 500]
            change = update(JobRow).where(JobRow.id.in_(part), JobRow.state.in_(ACTIVE_STATES)).values(due_at=due_at)
            self._execute_change(change if cancelled else change.where(JobRow.cancel_requested.is_(False)))

    def claim(
        self, id: str, worker: str, host: str | None, seconds: float, *, details: JobDetails | None = None
    ) -> Job | None:
        """Claim a queued job for `worker`: set the state staging, increment the attempt, due again in `seconds`.

        host: the only host that can poll it, null for any. Returns None if it is not queued any more, or its
        cancellation was requested.
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
        """Change the state and `columns`, if the state is one of `expected` (and the attempt is the given one).

        Returns False otherwise: another process was faster. A final state sets `ended` and clears `due_at`; RUNNING
        sets `started` if it is not set.
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
        """Change columns of many jobs, by id; jobs in other states are not changed.

        Does not set the time of the last change: it is for values that change all the time, such as a queue position.
        """
        states = [state.value for state in job_states]
        with self._database.write() as session:
            for id, columns in changes.items():
                change = update(JobRow).where(JobRow.id == id, JobRow.state.in_(states))
                session.execute(change.values(_plain(dict(columns))))

    def report_progress(self, id: str, progress: float | None, text: str) -> bool:
        """Set the progress within the present state: 0–1 or null, and a text. False if the job has ended."""
        return self.update(id, progress=progress, progress_text=text)

    def rename(self, id: str, name: str) -> None:
        """Change the name. Raises NotFound."""
        require_id(id, "job")
        if not self._execute_change(update(JobRow).where(JobRow.id == id).values(name=name)):
            raise not_found("job", id)

    def request_cancel(self, id: str) -> bool:
        """Request the cancellation of the job, and make it due now. False if it has already ended."""
        now = time.time()
        change = update(JobRow).where(JobRow.id == id, JobRow.state.in_((*ACTIVE_STATES, JobState.DRAFT.value)))
        return self._execute_change(change.values(cancel_requested=True, due_at=now, changed=now))

    def delete(self, id: str) -> None:
        """Delete a job that has ended, or a draft, with its directory; its result is kept.

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
        """The directory of a job's files, which is not created: `work/`, `artefacts/`, `output.log`, `run/`."""
        return self._directory / require_id(id, "job")

    def _execute_change(self, change: Any, id: str = "", entered: JobState | None = None, at: float = 0.0) -> bool:
        """Execute `change`; returns whether it matched a row. entered: the new state, for the row's history."""
        with self._database.write() as session:
            rowcount: int = session.execute(change).rowcount  # type: ignore[attr-defined]
            if rowcount and entered is not None:
                row = session.get_one(JobRow, id)
                if not row.history or row.history[-1][0] != entered.value:
                    row.history = [*row.history, [entered.value, at]]
        return rowcount > 0


def new_row(
    kind: JobKind,
    spec: Mapping[str, Any],
    name: str,
    *,
    state: JobState = JobState.QUEUED,
    due_at: float | None = None,
    id: str | None = None,
    details: JobDetails | None = None,
) -> JobRow:
    """The row of a new job. due_at: null for now."""
    now = time.time()
    return JobRow(
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


def _waits_for_place() -> ColumnElement[bool]:
    """The condition for queued jobs that may start. A run of a series that is not due waits for earlier ones."""
    return (JobRow.state == JobState.QUEUED.value) & JobRow.due_at.is_not(None)


def _polled_together() -> ColumnElement[bool]:
    """The condition for jobs of `due_polls`."""
    # The stored form of `JobDetails.executor`.
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


def job_of(row: JobRow) -> Job:
    """The job of a row."""
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
