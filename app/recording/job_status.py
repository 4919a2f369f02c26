"""The observed status of a job at its target: its submissions, runs and ranks. The job page shows it."""

from dataclasses import asdict, dataclass
from typing import Any

from ..domain.targets import BatchState, BatchStatus


@dataclass(frozen=True)
class RankStatus:
    """One rank of one run. rank: its number, null for a job without MPI or for a host's one recording. state: one of
    "started", "recording", "ended", "reading" (perf script at work), "done". started_ns, ended_ns: of that host's
    clock, since the epoch. recorded: whether perf was to record it. size: the number of ranks as MPI reports it.
    written: the bytes of its recording so far, null if unknown. stopped: the cause that ended it, or "": `limit` (the
    time limit of the job), `disk` (it was full), `starter` (the MPI launcher killed it), `signal TERM` or another
    signal (from the system). perf_killed: whether a signal ended perf while the program continued: how that ended is
    not known."""

    run: int
    rank: int | None
    host: str
    state: str
    exit_status: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    recorded: bool = True
    size: int | None = None
    note: str = ""
    stopped: str = ""
    perf_killed: bool = False
    written: int | None = None


@dataclass(frozen=True)
class RunStatus:
    """One run of the command. state: "waiting", "running" or "ended"."""

    run: int
    state: str
    exit_status: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None


@dataclass(frozen=True)
class SubmissionStatus:
    """One submitted script: to the batch system (native: its id there) or started directly (native: pid).

    alive: whether its process is alive, null if that is unknown here. exit_status: null until it
    has written one. stopped: what ended it ("signal TERM" and the like), as far as recorded.

    life: a value that changes while it is alive (heartbeat). life_at: when it was last seen to change; doubted_at:
    since when the batch system reports that it does not run (both in epoch seconds of the polling machine, null for
    never). lives: whether there was a heartbeat since then or, if the batch system does not know, recently.
    """

    number: int
    native: str
    host: str = ""
    batch: BatchStatus | None = None
    alive: bool | None = None
    exit_status: int | None = None
    stopped: str = ""
    life: str = ""
    life_at: float | None = None
    doubted_at: float | None = None
    lives: bool = False


@dataclass(frozen=True)
class JobStatus:
    """The status of a job at `seen_at` (epoch seconds). notes: sentences for the page. written: (epoch seconds, bytes
    of all recordings) of the polls at which it was new, the last ones."""

    submissions: tuple[SubmissionStatus, ...] = ()
    runs: tuple[RunStatus, ...] = ()
    ranks: tuple[RankStatus, ...] = ()
    output_bytes: int = 0
    notes: tuple[str, ...] = ()
    seen_at: float = 0.0
    written: tuple[tuple[float, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "JobStatus":
        return cls(
            submissions=tuple(_submission(rank) for rank in data.get("submissions", ())),
            runs=tuple(RunStatus(**rank) for rank in data.get("runs", ())),
            ranks=tuple(RankStatus(**rank) for rank in data.get("ranks", ())),
            output_bytes=int(data.get("output_bytes", 0)),
            notes=tuple(data.get("notes", ())),
            seen_at=float(data.get("seen_at", 0.0)),
            written=tuple((float(at), int(size)) for at, size in data.get("written", ())),
        )


def _submission(data: dict[str, Any]) -> SubmissionStatus:
    batch = data.get("batch")
    if batch:
        batch = BatchStatus(**batch | {"state": BatchState(batch["state"]), "hosts": tuple(batch.get("hosts", ()))})
    return SubmissionStatus(**data | {"batch": batch})
