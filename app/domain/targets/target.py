"""A named place where jobs run: a Target, each field with its declaration."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar

from ..errors import InvalidRequest
from ..fields import (
    Applies,
    ChoiceField,
    DeclaredField,
    DurationField,
    HostKeyField,
    HostNameField,
    JumpHostField,
    NewTargetNameField,
    NumberField,
    OptionalChoiceField,
    ParagraphsField,
    PartField,
    PrivateKeyField,
    ProgramsField,
    SwitchField,
    TargetPathField,
    TargetProgramField,
    TextListField,
    UserNameField,
    VariablesField,
    WordField,
    WordListField,
    WordsField,
    declare,
    declared_fields,
    dump_fields,
    load_fields,
    option,
)
from ..jobs import MpiFlavor
from ..registered_names import RegisteredName

KEEP_HOURS = 12
"""How long a connection that needed a secret is kept after its last use, if the target permits that."""
MAX_ENTRIES = 200
RESERVED_PREFIXES = ("PERFLOOM_", "pl_")
"""The prefix of variables that Perfloom sets for jobs."""


class SchedulerName(RegisteredName, kind="batch system"):
    """The registered batch systems, and none; constants only for those that other modules name."""

    NONE: ClassVar["SchedulerName"]
    SLURM: ClassVar["SchedulerName"]
    LSF: ClassVar["SchedulerName"]


SchedulerName.NONE = SchedulerName.register("none")
SchedulerName.SLURM = SchedulerName.declare("slurm")
SchedulerName.LSF = SchedulerName.declare("lsf")

_SSH: Applies = {"way": ("ssh",)}


@dataclass(frozen=True)
class Ssh:
    """How a host is reached. Empty fields come from ~/.ssh/config of the user that the worker runs as.

    jump: in the order of the connection. keep: whether a connection that needed a secret serves all jobs of the target,
    and is kept for KEEP_HOURS after its last use; otherwise it is used for one job or check. host_keys: accepted keys,
    lines of a known_hosts file, in addition to those of the user's own file. connect_timeout_s: for each host.
    """

    host: str = declare(
        MISSING,
        HostNameField("The host"),
        "Host",
        "Name, address, or an alias of ~/.ssh/config on the worker’s machine.",
        applies=_SSH,
        group="host",
        mono=True,
        prefilled=False,
        placeholder="login.example.org",
        option=option("--ssh", metavar="HOST", help="Connect over SSH: name, address, or alias in ~/.ssh/config."),
    )
    user: str = declare(
        "",
        UserNameField("The name of the user"),
        "User",
        "Empty: as ~/.ssh/config says, else the worker’s own name.",
        applies=_SSH,
        group="host",
        mono=True,
        option=option("--user", help="Login name.  [default: from ~/.ssh/config]"),
    )
    port: int | None = declare(
        None,
        NumberField(1, 65_535, "as a port"),
        "Port",
        "Empty: as ~/.ssh/config says, else 22.",
        applies=_SSH,
        group="host",
        short=True,
        option=option("--port", help="SSH port.  [default: from ~/.ssh/config, else 22]"),
    )
    key_file: str = declare(
        "",
        PrivateKeyField("The path of the key file"),
        "Key file",
        "A private key on the worker’s machine. Empty: the usual ones.",
        applies=_SSH,
        group="connection",
        mono=True,
        placeholder="~/.ssh/id_ed25519",
        setting="Key file",
        option=option("--key", metavar="FILE", help="Private key on this machine."),
    )
    agent: bool = declare(
        True,
        SwitchField(),
        "Try keys of an SSH agent",
        "The agent of the shell that the worker was started from.",
        applies=_SSH,
        group="login",
        option=option("--no-agent", help="Do not use the SSH agent.", off=True),
    )
    config: bool = declare(
        True,
        SwitchField(),
        "Use ~/.ssh/config",
        "Of the user that the worker runs as.",
        applies=_SSH,
        group="login",
        option=option("--no-config", help="Do not use ~/.ssh/config.", off=True),
    )
    jump: tuple[str, ...] = declare(
        (),
        WordListField(JumpHostField("A jump host"), MAX_ENTRIES),
        "Through jump hosts",
        "[user@]host[:port], one per line, in the order of the connection.",
        applies=_SSH,
        group="connection",
        placeholder="gate.example.org",
        option=option("--jump", metavar="[USER@]HOST[:PORT]", help="Connect through this host; may be repeated."),
    )
    password: bool = declare(
        False,
        SwitchField(),
        "Log in with a password",
        "Each job and each check asks for it. It is never stored.",
        applies=_SSH,
        group="login",
        setting="Password",
        shown="each job and each check asks for it",
        option=option("--password", help="Log in with a password: each job and each check asks for it."),
    )
    host_keys: tuple[str, ...] = declare(
        (), TextListField(HostKeyField("A host key"), MAX_ENTRIES), "Accepted host keys", internal=True
    )
    connect_timeout_s: float = declare(
        15.0,
        DurationField(
            1,
            600,
            "The connection timeout is out of range. Use 1 to 600 seconds.",
            "The connection timeout must be a number of seconds.",
            optional=False,
        ),
        "Connection timeout",
        "For each host of the connection.",
        form="connect_timeout",
        applies=_SSH,
        group="numbers",
        unit="s",
        short=True,
        placeholder="15",
        setting="Connection timeout",
        option=option("--timeout", metavar="SECONDS", help="Connection timeout.  [default: 15]"),
    )
    keep: bool = declare(
        False,
        SwitchField(),
        "Keep the connection",
        "A connection that was opened with a password, passphrase or code then serves every job of this target, for "
        f"{KEEP_HOURS} hours after its last use, and its page can close it. Otherwise it serves the job that asked, "
        "and is closed with it.",
        applies=_SSH,
        group="login",
        setting="Connection",
        shown=f"if it needed a secret, shared by all jobs, for {KEEP_HOURS} hours after its last use",
        option=option(
            "--keep-connection",
            help=f"Use a connection that needed a password for all jobs, for {KEEP_HOURS} hours after its last use.",
        ),
    )


@dataclass(frozen=True)
class Target:
    """A named place where jobs run. Contains no secret. Survives as JSON.

    ssh None: this machine, that is the worker's. directory: the parent of the jobs' directories; with a batch system or
    several hosts, all of them must see it ("": ~/.perfloom). scratch: a directory on the local disk of each host in
    which a rank records before its files are copied to the job's directory ("": it records into the job's directory;
    $TMPDIR and similar variables are expanded on that host). perf: its path there ("": as found on PATH). modules,
    environment: for every job. mpi: the suggested MPI implementation. `starters`: the MPI launcher of each. sudo:
    whether a job may start perf with sudo. counters: the maximum hardware events of a run (null: by the CPU's family).
    symbol_tables: whether those of its binaries may be copied here. poll_s: how often jobs are checked.
    """

    name: str = declare(
        MISSING,
        NewTargetNameField("The name"),
        "Name",
        "As jobs and commands call it: letters, digits, spaces and . _ - + @",
        prefilled=False,
    )
    ssh: Ssh | None = declare(None, PartField(Ssh, optional=True), "SSH")
    scheduler: SchedulerName = declare(
        SchedulerName.NONE,
        ChoiceField(SchedulerName, what="batch system"),
        "Batch system",
        setting="Batch system",
        default_shown=True,
        option=option("--scheduler", help="Batch system that runs the jobs.  [default: none]"),
    )
    directory: str = declare(
        "",
        TargetPathField("The directory"),
        "Job directory",
        "Each job creates a directory in it and removes it. With a batch system, all hosts must share it. Variables "
        "such as $SCRATCH are expanded at the target.",
        group="directories",
        mono=True,
        placeholder="~/.perfloom",
        option=option("--directory", metavar="DIR", help="Directory for jobs.  [default: ~/.perfloom]"),
    )
    scratch: str = declare(
        "",
        TargetPathField("The scratch directory"),
        "Scratch",
        "A directory on each host’s local disk to record in first. Empty: the job’s directory.",
        group="directories",
        mono=True,
        placeholder="$TMPDIR",
        setting="Scratch",
        option=option("--scratch", metavar="DIR", help="Local disk to record on first, such as $TMPDIR."),
    )
    perf: str = declare(
        "",
        TargetProgramField("perf"),
        "perf",
        "Its name or absolute path there. Empty: as PATH finds it.",
        group="programs",
        mono=True,
        placeholder="perf",
        setting="perf",
        option=option("--perf", metavar="PROGRAM", help="Name or absolute path of perf there.  [default: perf]"),
    )
    modules: tuple[str, ...] = declare(
        (),
        WordsField(WordField("A module"), MAX_ENTRIES),
        "Modules",
        "Loaded for every job and every batch system query, one per line.",
        group="modules",
        placeholder="openmpi/4.1",
        setting="Modules",
        option=option("--module", metavar="MODULE", help="Load it for each job; may be repeated."),
    )
    environment: dict[str, str] = declare(
        {},
        VariablesField(RESERVED_PREFIXES, MAX_ENTRIES),
        "Environment variables",
        "One NAME=value per line, for every job. They are stored here: do not enter passwords.",
        group="more",
        placeholder="OMP_NUM_THREADS=4",
        setting="Environment",
        option=option("--env", metavar="NAME=VALUE", help="Set it for each job; may be repeated."),
    )
    mpi: MpiFlavor | None = declare(
        None,
        OptionalChoiceField(MpiFlavor, none="No suggestion"),
        "Default MPI",
        "Preselected in the job form.",
        group="programs",
        setting="Default MPI",
        option=option("--mpi", help="Suggested MPI implementation."),
    )
    starters: dict[str, str] = declare(
        {},
        ProgramsField(MpiFlavor, "MPI launcher"),
        "MPI launchers",
        "If they have unusual names: implementation=program, one per line.",
        group="more",
        placeholder="openmpi=/opt/openmpi/bin/mpirun",
        setting="MPI launcher",
        option=option("--starter", metavar="MPI=PROGRAM", help="Program name of the launcher of an MPI."),
    )
    sudo: bool = declare(
        False,
        SwitchField(),
        "Allow sudo for perf",
        "Where the administrator allows it without a password. The recorded program itself runs as you.",
        group="more",
        setting="perf with sudo",
        shown="allowed",
        option=option("--sudo", help="Jobs may start perf with sudo."),
    )
    counters: int | None = declare(
        None,
        NumberField(1, 64, "events per run"),
        "Events per run",
        "How many the CPU counts at once. Empty: by its family.",
        group="numbers",
        short=True,
        setting="Events per run",
        option=option("--counters", metavar="N", help="Events per run.  [default: from the CPU's family]"),
    )
    symbol_tables: bool = declare(
        True,
        SwitchField(),
        "Copy symbol tables",
        "Large recordings are read here, with names of functions that are copied from the host’s binaries once. Off: "
        "names are looked up there.",
        applies=_SSH,
        group="more",
        setting="Symbol tables",
        shown="not copied",
        option=option("--no-symbol-tables", help="Copy no symbol tables: convert recordings to text there.", off=True),
    )
    poll_s: float = declare(
        5.0,
        DurationField(
            0.2,
            3600,
            "The polling interval is out of range. Use 0.2 to 3,600 seconds.",
            "The polling interval must be a number of seconds.",
            optional=False,
        ),
        "Polling interval",
        "One question for all of them. Use 30 s or more on shared systems.",
        form="poll",
        group="numbers",
        unit="s",
        short=True,
        placeholder="5",
        setting="Polling interval",
        default_shown=True,
        option=option("--poll", metavar="SECONDS", help="Polling interval for jobs.  [default: 5]"),
    )
    notes: str = declare(
        "",
        ParagraphsField("The text"),
        "Notes",
        "Free text.",
        group="notes",
        option=option("--notes", help="Free text."),
    )

    @property
    def is_local(self) -> bool:
        """Whether it is the worker's own machine without a batch system: a job there takes one of the worker's
        slots."""
        return self.ssh is None and self.scheduler is SchedulerName.NONE

    def to_json(self) -> dict[str, Any]:
        return dump_fields(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Target":
        """The reverse of `to_json`; keys of a later version are ignored. Raises InvalidRequest for bad values."""
        try:
            target: Target = load_fields(cls, data)
            return target
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise InvalidRequest(f"Invalid target description: {error}.") from None


TARGET_FIELDS: Mapping[str, DeclaredField] = {each.name: each for each in declared_fields(Target)}
"""The fields of a Target and its connection by their names in the form."""
