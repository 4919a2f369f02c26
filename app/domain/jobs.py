"""What a user asks for (JobSpec), how far it got (JobState) and how it ended (Outcome)."""

from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from .errors import InvalidRequest


class JobState(StrEnum):
    """How far Perfloom got with a job. How the user's program ended is a separate thing: see Outcome."""

    DRAFT = "draft"
    """Saved, never submitted."""
    QUEUED = "queued"
    """Waits for a worker."""
    STAGING = "staging"
    """A worker has claimed it and prepares its directory and inputs."""
    PENDING = "pending"
    """Waits in the batch system's queue."""
    RUNNING = "running"
    """The program runs, or ran and nobody has looked yet."""
    COLLECTING = "collecting"
    """The program has ended; what it left is brought together."""
    READING = "reading"
    """What was recorded is being read into a profile."""
    STORED = "stored"
    """A result exists."""
    FAILED = "failed"
    """There is no result, and the reason is known."""
    CANCELLED = "cancelled"
    """A person ended it."""
    LOST = "lost"
    """What ran it vanished, so that nothing can be said about the program."""

    @property
    def final(self) -> bool:
        """Whether nothing more will happen."""
        return self in (JobState.STORED, JobState.FAILED, JobState.CANCELLED, JobState.LOST)


class Scope(StrEnum):
    """What is observed."""

    COMMAND = "command"
    PROCESS = "process"
    SYSTEM = "system"


class CallGraph(StrEnum):
    """How perf walks the stack."""

    NONE = "none"
    FP = "fp"
    DWARF = "dwarf"
    LBR = "lbr"


class RecorderName(StrEnum):
    """The registered recorders."""

    PERF_RECORD = "perf-record"
    PERF_STAT = "perf-stat"


@dataclass(frozen=True)
class JobSpec:
    """Everything a job needs to know, as the user gave it. Holds no secret. Survives as JSON.

    command: argv. inputs: files copied into the working directory first. frequency: Hz, period: counts; one of the
    two. stack_bytes: per sample, for dwarf. pid: for Scope.PROCESS. duration_s: the recording is ended after it.
    interval_ms, repeat: for perf stat. cwd None: the job's own directory.
    """

    name: str = ""
    target: str = "local"
    recorder: RecorderName = RecorderName.PERF_RECORD
    scope: Scope = Scope.COMMAND
    command: tuple[str, ...] = ()
    cwd: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    frequency: int | None = None
    period: int | None = None
    call_graph: CallGraph = CallGraph.DWARF
    stack_bytes: int = 8192
    pid: int | None = None
    per_cpu: bool = False
    duration_s: float | None = None
    interval_ms: int | None = None
    repeat: int | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "JobSpec":
        """The reverse of `to_json`; words of a later version are ignored. Raises InvalidRequest for bad values."""
        known = {f.name for f in fields(cls)}
        kept = {key: value for key, value in data.items() if key in known}
        try:
            for name, kind in (("recorder", RecorderName), ("scope", Scope), ("call_graph", CallGraph)):
                if name in kept:
                    kept[name] = kind(kept[name])
            for name in ("command", "inputs", "events"):
                kept[name] = tuple(str(value) for value in kept.get(name, ()))
            return cls(**kept)
        except (TypeError, ValueError) as error:
            raise InvalidRequest(f"This job description cannot be used: {error}.") from None


@dataclass(frozen=True)
class Outcome:
    """How the user's program ended, as far as known.

    exit_status: 0–255, null where a signal ended it. signal: its number. time_limit: ended because its duration
    limit was reached. cancelled: ended because a person asked. reasons: sentences for a person.
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
        known = {f.name for f in fields(cls)}
        kept = {key: value for key, value in data.items() if key in known}
        return cls(**kept | {"reasons": tuple(kept.get("reasons", ()))})
