"""The state of one batch job."""

from dataclasses import dataclass
from enum import StrEnum


class BatchState(StrEnum):
    """Where a batch job is, whatever the batch system calls it."""

    PENDING = "pending"
    HELD = "held"
    """Waits, and will until somebody lets it go."""
    RUNNING = "running"
    SUSPENDED = "suspended"
    """It was started, and stopped for a while."""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIME_LIMIT = "time-limit"
    UNKNOWN = "unknown"
    """The batch system cannot say at present."""
    GONE = "gone"
    """The batch system knows no such job (any more)."""

    @property
    def final(self) -> bool:
        """Whether it will not run any more."""
        return self in (BatchState.DONE, BatchState.FAILED, BatchState.CANCELLED, BatchState.TIME_LIMIT)


@dataclass(frozen=True)
class BatchStatus:
    """One batch job as its system tells of it. native: its own word for the state. reason: why it waits or ended, for
    a person. position: how many wait before it in its queue, null where it does not tell. hosts: where it runs."""

    id: str
    state: BatchState
    native: str = ""
    reason: str = ""
    position: int | None = None
    hosts: tuple[str, ...] = ()
    exit_status: int | None = None
    signal: int | None = None
