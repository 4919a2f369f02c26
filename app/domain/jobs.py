"""What a user asks for (JobSpec), how far it got (JobState) and how it ended (Outcome)."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from .errors import InvalidRequest
from .json_fields import select_known_fields


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
    """The program runs, or ran and its exit was not yet seen."""
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
    PYTORCH = "pytorch"


class MpiFlavor(StrEnum):
    """Whose MPI starts the ranks."""

    OPENMPI = "openmpi"
    MPICH = "mpich"
    INTEL = "intel"
    SPECTRUM = "spectrum"
    PLATFORM = "platform"
    SRUN = "srun"


@dataclass(frozen=True)
class Mpi:
    """How ranks are started, and which of them are recorded.

    program: the name of the MPI launcher there ("": that of the MPI implementation where the job runs). arguments: of
    the launcher, for all ranks (mpirun's global options); rank_arguments: those for the set of ranks, right before
    the program (mpiexec's local options). Recorded is every `every`-th rank from 0 on, of those that `only` names
    ("0-3,8"; "": all of them). per_host: in their place one recording of the whole system on every host.
    """

    flavour: MpiFlavor
    ranks: int = 1
    ranks_per_node: int | None = None
    program: str = ""
    arguments: tuple[str, ...] = ()
    rank_arguments: tuple[str, ...] = ()
    every: int = 1
    only: str = ""
    per_host: bool = False


@dataclass(frozen=True)
class Batch:
    """What a batch system is asked for. Without meaning where the target has none.

    queue: of LSF, partition of Slurm. project: of LSF (-P), account of Slurm. resources: LSF's -R. nodes: of Slurm.
    cpus: for each rank, or for the one process. arguments: further ones of bsub or sbatch.
    """

    queue: str = ""
    project: str = ""
    wall_time_s: int | None = None
    resources: str = ""
    nodes: int | None = None
    cpus: int | None = None
    exclusive: bool = False
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class PyTorch:
    """What the recorder of PyTorch records.

    steps: "wait,warmup,active,repeat" as torch.profiler.schedule takes them, or "whole" for the whole run. memory,
    shapes, stacks, modules: what is recorded besides (profile_memory, record_shapes, with_stack, with_modules).
    seconds: how long the whole run is recorded (null: 30, with stacks 10); steps are not limited by it.
    """

    steps: str = "1,1,3,1"
    memory: bool = False
    shapes: bool = False
    stacks: bool = False
    modules: bool = False
    seconds: float | None = None


class EventSplitting(StrEnum):
    """What is done with more events than the CPU has counters."""

    ONE_RUN = "one-run"
    """The command runs once; the kernel takes turns with the counters and scales what they say."""
    SEQUENTIAL = "sequential"
    """The command runs once for each group of events, one run after another."""
    AT_ONCE = "at-once"
    """The command runs once for each group of events, all runs at the same time."""


@dataclass(frozen=True)
class JobSpec:
    """Everything a job needs to know, as the user gave it. Holds no secret. Survives as JSON.

    command: argv. inputs: files copied into the working directory first. frequency: Hz, period: counts; one of the
    two. stack_bytes: per sample, for dwarf. count_hardware: events of the CPU are counted while they are sampled, for
    which they take counters. pid: for Scope.PROCESS. duration_s: the recording is ended after it.
    interval_ms, repeat: for perf stat. cwd None: the job's own directory.

    target: the name of a Target. mpi None: one process. modules: loaded before anything else (module load). path,
    library_path: directories put before PATH and LD_LIBRARY_PATH; preload: files put before LD_PRELOAD. splitting: see
    there; where there are several runs, `{run}` in command, inputs and environment means the number of the run.
    events_per_run: how many events a run has at most (null: as many as the CPU counts at once). sudo: perf, and
    nothing else, is started with sudo. keep_recordings: perf.data is brought too, not only the text made of it.
    leave_files: nothing is removed where the job ran.
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
    count_hardware: bool = False
    duration_s: float | None = None
    interval_ms: int | None = None
    repeat: int | None = None
    mpi: Mpi | None = None
    batch: Batch = Batch()
    pytorch: PyTorch = PyTorch()
    modules: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    library_path: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    splitting: EventSplitting = EventSplitting.ONE_RUN
    events_per_run: int | None = None
    sudo: bool = False
    keep_recordings: bool = True
    leave_files: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "JobSpec":
        """The reverse of `to_json`; words of a later version are ignored. Raises InvalidRequest for bad values."""
        try:
            kept = select_known_fields(cls, data)
            for name, kind in _CHOICES.items():
                if name in kept:
                    kept[name] = kind(kept[name])
            for name in TUPLE_FIELDS:
                kept[name] = _texts(kept.get(name, ()))
            if kept.get("mpi") is not None:
                mpi = select_known_fields(Mpi, kept["mpi"])
                mpi["flavour"] = MpiFlavor(mpi["flavour"])
                lists = {name: _texts(mpi.get(name, ())) for name in ("arguments", "rank_arguments")}
                kept["mpi"] = Mpi(**mpi | lists)
            batch = select_known_fields(Batch, kept.get("batch", {}))
            kept["batch"] = Batch(**batch | {"arguments": _texts(batch.get("arguments", ()))})
            kept["pytorch"] = PyTorch(**select_known_fields(PyTorch, kept.get("pytorch", {})))
            return cls(**kept)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise InvalidRequest(f"Invalid job description: {error}.") from None


TUPLE_FIELDS = ("command", "inputs", "events", "modules", "path", "library_path", "preload")
"""The fields of a JobSpec that are lists of strings."""
_CHOICES: dict[str, type[StrEnum]] = {
    "recorder": RecorderName,
    "scope": Scope,
    "call_graph": CallGraph,
    "splitting": EventSplitting,
}


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


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
        kept = select_known_fields(cls, data)
        return cls(**kept | {"reasons": tuple(kept.get("reasons", ()))})
