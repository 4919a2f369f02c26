"""Target: a named place to run jobs. TargetFacts: what a check found out about it. BatchStatus: of one batch job."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from .errors import InvalidRequest
from .fields import RegisteredName
from .host_facts import HostFacts
from .jobs import MpiFlavor
from .json_fields import select_known_fields

LOCAL = "local"


class SchedulerName(RegisteredName, kind="batch system"):
    """The registered batch systems, and none; here those whose names other modules use."""

    NONE: ClassVar["SchedulerName"]
    SLURM: ClassVar["SchedulerName"]
    LSF: ClassVar["SchedulerName"]


SchedulerName.NONE = SchedulerName.register("none")
SchedulerName.SLURM = SchedulerName.register("slurm")
SchedulerName.LSF = SchedulerName.register("lsf")


KEEP_HOURS = 12
"""For how long after its last use a connection is kept that took a secret, where the target says so."""


@dataclass(frozen=True)
class Ssh:
    """How a host is reached. What is left open comes from ~/.ssh/config of the user that the worker runs as.

    host: its name, address, or alias in that file. key_file: of a private key, on the worker's machine. agent: whether
    keys of an SSH agent are tried. jump: hosts to go through, [user@]host[:port], in the order of the way. password:
    whether a password is asked for. keep: whether a connection that took a secret serves all jobs of the target, and is
    kept for KEEP_HOURS after its last use; otherwise it serves the job or check whose secret it was. host_keys: keys
    that were accepted, lines of a known_hosts file, beside those of the user's own file. connect_timeout_s: for each
    host on the way.
    """

    host: str
    user: str = ""
    port: int | None = None
    key_file: str = ""
    agent: bool = True
    config: bool = True
    jump: tuple[str, ...] = ()
    password: bool = False
    host_keys: tuple[str, ...] = ()
    connect_timeout_s: float = 15.0
    keep: bool = False


@dataclass(frozen=True)
class Target:
    """A named place to run. Holds no secret. Survives as JSON.

    ssh None: this machine, that is the worker's. directory: where jobs have their directories; with a batch system or
    several hosts it must be one that all of them see ("": ~/.perfloom). scratch: a directory of each host's own in
    which a rank records before its files are copied to the job's directory ("": it records there at once; $TMPDIR and
    the like may be in it and are filled in on that host). perf: its path there ("": as PATH finds it). modules:
    loaded for every job. environment: for every job. mpi: the suggested MPI implementation. starters: the MPI
    launcher of each. sudo: whether a job may start perf with sudo. counters: how many events of the hardware a
    run may have (null: by the CPU's family). poll_s: how often jobs are checked.
    """

    name: str
    ssh: Ssh | None = None
    scheduler: SchedulerName = SchedulerName.NONE
    directory: str = ""
    scratch: str = ""
    perf: str = ""
    modules: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    mpi: MpiFlavor | None = None
    starters: dict[str, str] = field(default_factory=dict)
    sudo: bool = False
    counters: int | None = None
    poll_s: float = 5.0
    notes: str = ""

    @property
    def is_local(self) -> bool:
        """Whether it is the worker's own machine, without a batch system: a job there takes one of its places."""
        return self.ssh is None and self.scheduler is SchedulerName.NONE

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Target":
        """The reverse of `to_json`; words of a later version are ignored. Raises InvalidRequest for bad values."""
        try:
            kept = select_known_fields(cls, data)
            if kept.get("ssh") is not None:
                ssh = select_known_fields(Ssh, kept["ssh"])
                lists = {name: tuple(str(v) for v in ssh.get(name, ())) for name in ("jump", "host_keys")}
                kept["ssh"] = Ssh(**ssh | lists)
            kept["scheduler"] = SchedulerName(kept.get("scheduler", SchedulerName.NONE))
            kept["mpi"] = MpiFlavor(kept["mpi"]) if kept.get("mpi") else None
            kept["modules"] = tuple(str(value) for value in kept.get("modules", ()))
            for name in ("environment", "starters"):
                kept[name] = {str(key): str(value) for key, value in kept.get(name, {}).items()}
            return cls(**kept)
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidRequest(f"Invalid target description: {error}.") from None


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


class CheckStatus(StrEnum):
    """How one line of a check came out."""

    GOOD = "good"
    NOTE = "note"
    """It works, and there is something worth knowing."""
    BAD = "bad"


@dataclass(frozen=True)
class CheckLine:
    """One line of a check. advice: what to do, empty where there is nothing to do."""

    title: str
    light: CheckStatus
    text: str
    advice: str = ""


@dataclass(frozen=True)
class BatchQueue:
    """A queue, or partition, of a batch system. wall_time_s: its limit, null for none or not known."""

    name: str
    default: bool = False
    open: bool = True
    wall_time_s: int | None = None
    text: str = ""


@dataclass(frozen=True)
class TargetFacts:
    """What a check found out. host: facts of the host where jobs are submitted; compute: of one where they run, once
    a probe job was there (null: not asked, or the same).

    starters: the program of each MPI flavor found; versions: what it says it is. schedulers: batch systems whose
    programs are there, whether the target uses them or not. directory: the directory of jobs in full; file_system:
    what lies below it; runs_programs: whether programs may be started from it. shared: whether the hosts that run
    jobs see it too. scratch: the scratch directory in full. clock_ns: how far its clock is ahead of ours, give or
    take clock_error_ns. module_command: whether there is a command "module" where jobs run. packers: programs for
    packing there. missing: programs of the batch system and others that were looked for in vain. problems: what does
    not work, by its subject (as "directory"), in the words of the target.
    """

    host: HostFacts
    compute: HostFacts | None = None
    starters: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    schedulers: tuple[str, ...] = ()
    scheduler_version: str = ""
    queues: tuple[BatchQueue, ...] = ()
    directory: str = ""
    file_system: str = ""
    runs_programs: bool | None = None
    shared: bool | None = None
    scratch: str = ""
    free_bytes: int | None = None
    scratch_free_bytes: int | None = None
    clock_ns: int | None = None
    clock_error_ns: int | None = None
    sudo: bool | None = None
    module_command: bool | None = None
    packers: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def recording_host(self) -> HostFacts:
        """Facts of where perf runs, as far as they are known."""
        return self.compute or self.host

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "TargetFacts":
        kept = select_known_fields(cls, data)
        kept["host"] = HostFacts.from_json(kept["host"])
        kept["compute"] = HostFacts.from_json(kept["compute"]) if kept.get("compute") else None
        kept["queues"] = tuple(BatchQueue(**queue) for queue in kept.get("queues", ()))
        for name in ("missing", "packers", "schedulers"):
            kept[name] = tuple(kept.get(name, ()))
        return cls(**kept)
