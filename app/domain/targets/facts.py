"""The result of a check of a target."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from ..host_facts import HostFacts
from ..json_fields import select_known_fields


class CheckStatus(StrEnum):
    """The status of one line of a check."""

    GOOD = "good"
    NOTE = "note"
    """It works, with a remark."""
    BAD = "bad"


@dataclass(frozen=True)
class CheckLine:
    """One line of a check. advice: what to do, empty if there is nothing to do."""

    title: str
    light: CheckStatus
    text: str
    advice: str = ""


@dataclass(frozen=True)
class BatchQueue:
    """A queue, or partition, of a batch system. wall_time_s: its limit, null for none or unknown."""

    name: str
    default: bool = False
    open: bool = True
    wall_time_s: int | None = None
    text: str = ""


@dataclass(frozen=True)
class TargetFacts:
    """The result of a check. host: facts of the host where jobs are submitted; compute: of a host where they run, after
    a probe job ran there (null: not probed, or the same host).

    mpi_launchers: the program of each MPI flavor found (in JSON: `starters`); versions: as it prints them. schedulers:
    batch systems whose programs are there, whether the target uses them or not. directory: the directory of jobs in
    full; file_system: its type; runs_programs: whether it permits execution. shared: whether the hosts that run jobs
    see it too. scratch: the scratch directory in full. clock_ns: the offset of its clock to ours, give or
    take clock_error_ns. module_command: whether there is a command "module" where jobs run. packers: programs for
    packing there. missing: programs of the batch system and others that were not found. problems: what does
    not work, by its subject (as "directory"), in the words of the target.
    """

    host: HostFacts
    compute: HostFacts | None = None
    mpi_launchers: dict[str, str] = field(default_factory=dict)
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
        """Facts of the host where perf runs, as far as they are known."""
        return self.compute or self.host

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        # The key in stored facts.
        data["starters"] = data.pop("mpi_launchers")
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "TargetFacts":
        known_fields = select_known_fields(cls, data)
        known_fields["mpi_launchers"] = data.get("starters", {})
        known_fields["host"] = HostFacts.from_json(known_fields["host"])
        known_fields["compute"] = HostFacts.from_json(known_fields["compute"]) if known_fields.get("compute") else None
        known_fields["queues"] = tuple(BatchQueue(**queue) for queue in known_fields.get("queues", ()))
        for name in ("missing", "packers", "schedulers"):
            known_fields[name] = tuple(known_fields.get(name, ()))
        return cls(**known_fields)
