"""The state of one batch job."""

from dataclasses import dataclass
from enum import StrEnum


class BatchState(StrEnum):
    """The state of a batch job, the same for all batch systems."""

    PENDING = "pending"
    HELD = "held"
    """Waits until a user or administrator releases it."""
    RUNNING = "running"
    SUSPENDED = "suspended"
    """It was started, and suspended."""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIME_LIMIT = "time-limit"
    UNKNOWN = "unknown"
    """The batch system cannot report its state at present."""
    GONE = "gone"
    """The batch system knows no such job (any more)."""

    @property
    def final(self) -> bool:
        """Whether it will not run any more."""
        return self in (BatchState.DONE, BatchState.FAILED, BatchState.CANCELLED, BatchState.TIME_LIMIT)


@dataclass(frozen=True)
class BatchStatus:
    """One batch job as its batch system reports it. native: the state as reported. reason: why it waits or ended, for
    the user. position: how many wait before it in its queue, null if unknown. hosts: where it runs."""

    id: str
    state: BatchState
    native: str = ""
    reason: str = ""
    position: int | None = None
    hosts: tuple[str, ...] = ()
    exit_status: int | None = None
    signal: int | None = None
