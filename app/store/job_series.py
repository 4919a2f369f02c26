"""Run series in the database: which runs a series has, and when the next one may start."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select, update

from ..domain.errors import Conflict, NotFound
from ..domain.jobs import JobDetails, JobSpec, JobState, SeriesRun, Side
from .database import Database
from .ids import is_id
from .jobs import ACTIVE_STATES, Job, job_of, new_row
from .models.jobs import JobRow

CREATION_STEP_S = 1e-5
"""Between the creation times of two runs, so that lists of jobs have the order of the series."""
MAX_CREATION_S = 1.0
"""All runs of a series have creation times in this range."""


@dataclass(frozen=True)
class NewRun:
    """A run to be created. id: of its job. details: of its job, without the series."""

    id: str
    place: SeriesRun
    name: str
    spec: JobSpec
    details: JobDetails


@dataclass(frozen=True)
class RunSeries:
    """A series. jobs: those that were not deleted, in their order."""

    jobs: tuple[Job, ...]

    @property
    def id(self) -> str:
        """The id of the series, which is also that of its first job."""
        return _place(self.jobs[0]).series

    @property
    def is_over(self) -> bool:
        """Whether all runs have ended."""
        return all(job.state.final for job in self.jobs)

    @property
    def base(self) -> str:
        """The id of the stored result that is the base, empty if the base is recorded again."""
        return next((base for job in self.jobs if (base := _place(job).base)), "")

    def compared(self, side: Side) -> tuple[Job, ...]:
        """The runs of a side that are compared: without warm-up runs."""
        return tuple(job for job in self.jobs if (run := _place(job)).side is side and not run.is_warm_up)

    def results(self, side: Side) -> tuple[str, ...]:
        """The ids of the results of a side, in the order of its runs."""
        kept = self.base if side is Side.BASE else ""
        found = sorted(self.compared(side), key=lambda job: _place(job).run)
        return (*filter(None, [kept]), *(job.result_id for job in found if job.result_id))

    @property
    def has_pairs(self) -> bool:
        """Whether every run of one side has a result, as the run of the same number on the other side has."""
        numbers = [
            [(_place(job).run, bool(job.result_id)) for job in sorted(self.compared(side), key=lambda j: _place(j).run)]
            for side in Side
        ]
        return len(numbers[0]) > 1 and numbers[0] == numbers[1] and all(there for _, there in numbers[0])

    @property
    def deleted_runs(self) -> tuple[tuple[Side, int], ...]:
        """The compared runs, as (side, number), whose jobs were deleted. Of runs after the last one that is left on any
        side, nothing is known."""
        numbers = {side: {_place(job).run for job in self.compared(side)} for side in Side}
        last = max((run for found in numbers.values() for run in found), default=0)
        sides = (Side.OTHER,) if self.base else tuple(Side)
        return tuple((side, run) for run in range(1, last + 1) for side in sides if run not in numbers[side])

    def without_result(self) -> tuple[Job, ...]:
        """The runs that have ended and have no result to compare."""
        return tuple(job for side in Side for job in self.compared(side) if job.state.final and job.result_id is None)


def _place(job: Job) -> SeriesRun:
    assert job.details.series is not None
    return job.details.series


class JobSeries:
    """The run series in the database. Of a series only one run at a time is due."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, runs: Sequence[NewRun]) -> None:
        """Store the jobs of a series, all or none. Raises Conflict if the first one exists: it was submitted twice."""
        rows: list[JobRow] = []
        for number, run in enumerate(runs):
            row = new_row(
                "record", run.spec.to_json(), run.name, id=run.id, details=replace(run.details, series=run.place)
            )
            if rows:
                row.created = row.changed = rows[0].created + number * CREATION_STEP_S
                row.due_at, row.progress_text = None, "Waits for the runs before it"
            rows.append(row)
        with self._database.write() as session:
            if session.get(JobRow, rows[0].id) is not None:
                raise Conflict(f"A job {rows[0].id} already exists; let Perfloom choose the id.")
            session.add_all(rows)

    def find(self, id: str) -> RunSeries | None:
        """The series with this id, as long as one of its jobs exists, or the series of the job with this id; None if
        there is none."""
        if not is_id(id):
            return None
        with self._database.read() as session:
            row = session.get(JobRow, id)
            if row is None:
                # Its first job was deleted.
                same = JobRow.details["series"]["id"].as_string() == id
                row = session.scalars(select(JobRow).where(same).limit(1)).first()
            job = job_of(row) if row is not None else None
        return self.of_job(job) if job is not None and job.details.series is not None else None

    def get(self, id: str) -> RunSeries:
        """The same. Raises NotFound."""
        found = self.find(id)
        if found is None:
            raise NotFound(f"No run series {id[:40]!r}: its jobs were deleted, or the job is not a run of a series.")
        return found

    def of_job(self, job: Job) -> RunSeries:
        """The series that a job belongs to. Raises NotFound."""
        run = job.details.series
        if run is None:
            raise NotFound(f"The job {job.id} is not a run of a series.")
        query = select(JobRow).where(
            JobRow.created.between(job.created - MAX_CREATION_S, job.created + MAX_CREATION_S),
            JobRow.details["series"]["id"].as_string() == run.series,
        )
        with self._database.read() as session:
            jobs = [job_of(row) for row in session.scalars(query)]
        return RunSeries(tuple(sorted(jobs, key=lambda one: _place(one).number)))

    def request_cancel(self, series: RunSeries) -> None:
        """Request the cancellation of all runs that have not ended. The last one first, so that none starts."""
        for job in reversed(series.jobs):
            if not job.state.final:
                self._make_due(job.id, cancel_requested=True)

    def start_turns(self) -> tuple[str, ...]:
        """Let the next run of each series start if all runs before it have ended; returns the ids of their jobs.

        If a run failed, and no run of its side has a result, the others are cancelled: they would fail, too.
        """
        query = select(JobRow).where(
            JobRow.state == JobState.QUEUED.value, JobRow.due_at.is_(None), JobRow.cancel_requested.is_(False)
        )
        with self._database.read() as session:
            waiting = [job_of(row) for row in session.scalars(query)]
        first: dict[str, Job] = {}
        for job in sorted((job for job in waiting if job.details.series), key=lambda one: _place(one).number):
            first.setdefault(_place(job).series, job)
        begun = []
        for job in first.values():
            series = self.of_job(job)
            if not all(one.state.final for one in series.jobs if _place(one).number < _place(job).number):
                continue
            if fails_always(series):
                self.request_cancel(series)
            elif self._make_due(job.id, is_waiting=True, progress_text=""):
                begun.append(job.id)
        return tuple(begun)

    def _make_due(self, id: str, *, is_waiting: bool = False, **columns: Any) -> bool:
        """Change a job that has not ended, and make it due now. False if it has ended. is_waiting: only if it is not
        due yet, because another process may have started it."""
        now = time.time()
        change = update(JobRow).where(JobRow.id == id, JobRow.state.in_(ACTIVE_STATES))
        if is_waiting:
            change = change.where(JobRow.due_at.is_(None))
        with self._database.write() as session:
            rowcount: int = session.execute(  # type: ignore[attr-defined]
                change.values(due_at=now, changed=now, **columns)
            ).rowcount
        return rowcount > 0


def fails_always(series: RunSeries) -> bool:
    """Whether a run failed, and no run of its side has a result."""
    failed = {_place(job).side for job in series.jobs if job.state in (JobState.FAILED, JobState.LOST)}
    stored = {_place(job).side for job in series.jobs if job.result_id is not None or job.state is JobState.STORED}
    return bool(failed - stored)
