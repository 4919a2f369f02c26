"""The progress of a job (JobState), what runs it (Executor) and how it ended (Outcome)."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ..json_fields import select_known_fields


class JobState(StrEnum):
    """How far Perfloom got with a job. How the user's program ended is separate: see Outcome."""

    DRAFT = "draft"
    """Saved, never submitted."""
    QUEUED = "queued"
    """Waits for a worker."""
    STAGING = "staging"
    """A worker has claimed it and prepares its directory and inputs."""
    PENDING = "pending"
    """Waits in the batch system's queue."""
    RUNNING = "running"
    """The program runs, or ran and its exit was not yet observed."""
    COLLECTING = "collecting"
    """The program has ended; its output is collected."""
    READING = "reading"
    """The recording is being read into a profile."""
    STORED = "stored"
    """A result exists."""
    FAILED = "failed"
    """There is no result, and the reason is known."""
    CANCELLED = "cancelled"
    """A user ended it."""
    LOST = "lost"
    """The process that ran it disappeared, so that the program's end is unknown."""

    @property
    def final(self) -> bool:
        """Whether this state is final."""
        return self in (JobState.STORED, JobState.FAILED, JobState.CANCELLED, JobState.LOST)


class Executor(StrEnum):
    """What runs the program of a job."""

    SUPERVISOR = "supervisor"
    """A process on the worker's machine whose child is perf."""
    SCRIPTS = "scripts"
    """Shell scripts in a directory at the target, which is polled."""


@dataclass(frozen=True)
class Outcome:
    """How the user's program ended, as far as known.

    exit_status: 0–255, null where a signal ended it. signal: its number. time_limit: ended because its duration
    limit was reached. cancelled: ended at the request of a user. reasons: sentences for the user.
    """

    exit_status: int | None = None
    signal: int | None = None
    time_limit: bool = False
    cancelled: bool = False
    reasons: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"reasons": list(self.reasons)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Outcome":
        known_fields = select_known_fields(cls, data)
        return cls(**known_fields | {"reasons": tuple(known_fields.get("reasons", ()))})
