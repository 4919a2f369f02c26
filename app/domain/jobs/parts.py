"""The choices of a job, and the parts of a JobSpec: MPI, batch system, PyTorch. Each field is declared."""

from dataclasses import MISSING, dataclass
from enum import StrEnum
from typing import ClassVar

from ..fields import (
    Applies,
    ArgumentsField,
    ChoiceField,
    DurationField,
    EitherField,
    LineField,
    NumberField,
    Option,
    ProgramField,
    RanksField,
    StepsField,
    SwitchField,
    TextField,
    WallTimeField,
    WordField,
    declare,
    option,
)
from ..registered_names import RegisteredName

MAX_RANKS = 1_000_000
MAX_WALL_TIME_S = 366 * 86_400
MAX_CPUS = 100_000
MAX_SECONDS = 3600
DEFAULT_HZ = 199
"""Samples per second if none are requested: enough for an overview, few enough for 8 kB of stack each. A prime, so that
it does not coincide with periodic work of the program."""
DEFAULT_STACK_BYTES = 8192
MAX_STACK_BYTES = 65_528
"""The kernel's limit for one sample's copy of the user stack; the size is rounded up to 8."""
MAX_PID = 4_194_304
ARGUMENT = TextField("An argument")


class Scope(StrEnum):
    """What is observed."""

    COMMAND = "command"
    PROCESS = "process"
    SYSTEM = "system"


class CallGraph(StrEnum):
    """How perf unwinds the stack."""

    NONE = "none"
    FP = "fp"
    DWARF = "dwarf"
    LBR = "lbr"


class RecorderName(RegisteredName, kind="recorder"):
    """The registered recorders; constants only for those that other modules name."""

    PERF_RECORD: ClassVar["RecorderName"]
    PERF_STAT: ClassVar["RecorderName"]
    PYTORCH: ClassVar["RecorderName"]


RecorderName.PERF_RECORD = RecorderName.declare("perf-record")
RecorderName.PERF_STAT = RecorderName.declare("perf-stat")
RecorderName.PYTORCH = RecorderName.declare("pytorch")


class MpiFlavor(RegisteredName, kind="MPI implementation"):
    """The registered MPI implementations; constants only for those that other modules name."""

    OPENMPI: ClassVar["MpiFlavor"]
    MPICH: ClassVar["MpiFlavor"]
    INTEL: ClassVar["MpiFlavor"]
    SPECTRUM: ClassVar["MpiFlavor"]
    PLATFORM: ClassVar["MpiFlavor"]
    SRUN: ClassVar["MpiFlavor"]


MpiFlavor.OPENMPI = MpiFlavor.declare("openmpi")
MpiFlavor.MPICH = MpiFlavor.declare("mpich")
MpiFlavor.INTEL = MpiFlavor.declare("intel")
MpiFlavor.SPECTRUM = MpiFlavor.declare("spectrum")
MpiFlavor.PLATFORM = MpiFlavor.declare("platform")
MpiFlavor.SRUN = MpiFlavor.declare("srun")


class EventSplitting(StrEnum):
    """How more events are measured than the CPU has counters."""

    ONE_RUN = "one-run"
    """The command runs once; the kernel multiplexes the counters and scales their values."""
    SEQUENTIAL = "sequential"
    """The command runs once for each group of events, one run after another."""
    AT_ONCE = "at-once"
    """The command runs once for each group of events, all runs at the same time."""


SCOPES = ChoiceField(
    Scope,
    (
        Option(Scope.COMMAND, "A command", "Start it, and record it from start to exit."),
        Option(Scope.PROCESS, "A running process", "Attach to a process by its PID. It keeps running afterwards."),
        Option(Scope.SYSTEM, "The whole system", "All processes on all CPUs."),
    ),
)
CALL_GRAPHS = ChoiceField(
    CallGraph,
    (
        Option(CallGraph.DWARF, "dwarf", "Copies a part of the stack with each sample. Works for any program."),
        Option(CallGraph.FP, "fp", "Frame pointers: lowest overhead, for programs compiled with them."),
        Option(CallGraph.LBR, "lbr", "Intel’s last branch records: low overhead, limited depth."),
        Option(CallGraph.NONE, "none", "No stacks: only the sampled function."),
    ),
)
SPLITTINGS = ChoiceField(
    EventSplitting,
    (
        Option(
            EventSplitting.ONE_RUN,
            "One run",
            "Events are multiplexed, and scaled counts are marked.",
        ),
        Option(
            EventSplitting.SEQUENTIAL,
            "One run per group",
            "Each run counts as many events as there are counters, one run after another.",
        ),
        Option(EventSplitting.AT_ONCE, "All runs at once", "One run per group, all at the same time."),
    ),
)
STACK_BYTES = NumberField(
    8,
    MAX_STACK_BYTES,
    "bytes of stack",
    multiple=8,
    missing=f"Enter the number of bytes of the stack that each sample copies, as in {DEFAULT_STACK_BYTES}.",
)
TIME_LIMIT = DurationField(
    0.1,
    30 * 86_400.0,
    "The time limit is out of range. Use 0.1 seconds to 30 days.",
    "The time limit must be a number of seconds.",
)

ON_TARGET = option(
    "--on",
    metavar="TARGET",
    help="Where to record: a name from “perfloom target list”.  [default: local]",
    section="where",
)
IN_DIRECTORY = option(
    "--cwd",
    metavar="DIR",
    help="Working directory.  [default: the current one; at another target and with --input the job's directory]",
    section="where",
)
SPLITTING = option(
    "--split",
    help="With more events than counters: multiplex them in one run (default), or run the command once for each group "
    "of events, one run after another or all at once.",
)

_MPI: Applies = {"scope": (Scope.COMMAND,), "mpi": MpiFlavor}
_RANKS: Applies = _MPI | {"recorded": ("ranks",)}
_PYTORCH: Applies = {"recorder_fields": ("pytorch",)}


@dataclass(frozen=True)
class Mpi:
    """How ranks are started, and which of them are recorded.

    program: the name of the MPI launcher at the target ("": that of the MPI implementation). arguments: of the
    launcher, for all ranks (mpirun's global options); rank_arguments: those for the set of ranks, directly before the
    program (mpiexec's local options). Every `every`-th rank from 0 on is recorded, of those that `only` names ("0-3,8";
    "": all of them). per_host: instead of ranks, the whole system is recorded once on every host.
    """

    flavour: MpiFlavor = declare(
        MISSING,
        ChoiceField(MpiFlavor, what="MPI implementation"),
        "MPI",
        form="mpi",
        applies={"scope": (Scope.COMMAND,)},
        setting="MPI",
        option=option("--mpi", help="MPI implementation that starts the ranks.  [default: none]"),
    )
    ranks: int = declare(
        1,
        NumberField(1, MAX_RANKS, "ranks", missing="Enter the number of ranks, 1 or more."),
        "Ranks",
        "Processes in all.",
        applies=_MPI,
        group="ranks",
        unit="ranks",
        short=True,
        prefilled=False,
        setting="Ranks",
        default_shown=True,
        option=option("--ranks", "-n", metavar="NUMBER", help="Number of ranks."),
    )
    ranks_per_node: int | None = declare(
        None,
        NumberField(1, MAX_RANKS, "ranks per node"),
        "Ranks per node",
        "Empty: as MPI or the batch system distributes them.",
        applies=_MPI,
        group="ranks",
        unit="ranks",
        short=True,
        setting="Ranks per node",
        option=option("--ranks-per-node", metavar="NUMBER", help="Ranks per node."),
    )
    program: str = declare(
        "",
        ProgramField("The MPI launcher"),
        "MPI launcher",
        "Name or path at the target. Empty: the target’s setting, else the default of the MPI implementation.",
        form="mpi_program",
        applies=_MPI,
        group="launcher",
        mono=True,
        placeholder="mpirun",
        setting="MPI launcher",
        option=option(
            "--mpi-program", metavar="PROGRAM", help="MPI launcher.  [default: the target's, else that of --mpi]"
        ),
    )
    arguments: tuple[str, ...] = declare(
        (),
        ArgumentsField(ARGUMENT),
        "Arguments for all ranks",
        "For the MPI launcher, quoted as in a shell.",
        form="mpi_arguments",
        applies=_MPI,
        group="launcher",
        mono=True,
        placeholder="--bind-to core",
        setting="Launcher arguments",
        option=option("--mpi-arg", metavar="ARG", help="Global argument of the launcher; may be repeated."),
    )
    rank_arguments: tuple[str, ...] = declare(
        (),
        ArgumentsField(ARGUMENT),
        "Arguments before the program",
        "Options that the MPI launcher takes per set of ranks.",
        applies=_MPI,
        group="launcher",
        mono=True,
        placeholder="-x LC_ALL",
        setting="Arguments before the program",
        option=option("--rank-arg", metavar="ARG", help="Argument directly before the program; may be repeated."),
    )
    every: int = declare(
        1,
        NumberField(1, MAX_RANKS, "ranks", missing="Enter the number of ranks, 1 or more."),
        "Every n-th rank",
        "1: all of them. 8: ranks 0, 8, 16 …",
        applies=_RANKS,
        group="recorded-ranks",
        short=True,
        setting="Every n-th rank",
        option=option("--record-every", metavar="NUMBER", help="Record ranks 0, NUMBER, 2 × NUMBER …"),
    )
    only: str = declare(
        "",
        RanksField("The ranks to record"),
        "Only ranks",
        "As in 0-3,8. Empty: all.",
        applies=_RANKS,
        group="recorded-ranks",
        short=True,
        mono=True,
        placeholder="all",
        setting="Only ranks",
        option=option("--record-only", metavar="RANGES", help="Record only these ranks, for example 0-3,8."),
    )
    per_host: bool = declare(
        False,
        EitherField(
            Option("ranks", "Ranks", "Each rank separately: all ranks, unless you select fewer below."),
            Option("hosts", "Hosts", "Instead of ranks the whole system, once per host."),
        ),
        "What is recorded",
        form="recorded",
        applies=_MPI,
        setting="What is recorded",
        option=option("--per-host", help="Instead of ranks, record the whole system once per host."),
    )


@dataclass(frozen=True)
class Batch:
    """Resources of a batch job. Ignored if the target has no batch system. Each batch system declares which fields
    apply, and their labels.

    queue: or partition. project: or account. cpus: for each rank, or for the single process. arguments: additional ones
    of bsub or sbatch.
    """

    queue: str = declare(
        "",
        WordField("The queue"),
        "Queue",
        mono=True,
        setting="Queue",
        option=option("--queue", "--partition", "-q", metavar="NAME", help="Queue or partition."),
    )
    project: str = declare(
        "",
        WordField("The project"),
        "Project",
        "The project that is charged. Empty: the default.",
        group="batch",
        mono=True,
        setting="Project",
        option=option("--project", "--account", metavar="NAME", help="Project or account that is charged."),
    )
    wall_time_s: int | None = declare(
        None,
        WallTimeField(MAX_WALL_TIME_S, "The wall time is out of range. Use 1 second to 366 days."),
        "Wall time",
        "As in 30 min, 2 h or 1:30:00. The batch system ends the job after it; what was recorded is kept.",
        form="wall_time",
        group="batch",
        placeholder="the queue’s",
        setting="Wall time",
        option=option("--wall-time", metavar="TIME", help="Time limit of the batch job: 30min, 2h, 1:30:00."),
    )
    resources: str = declare(
        "",
        LineField("The resource string"),
        "Resources (-R)",
        "Perfloom adds span[ptile=] for the ranks on each node.",
        group="batch-resources",
        mono=True,
        placeholder="select[mem>4000]",
        setting="Resources",
        option=option(
            "--resources", "-R", metavar="STRING", help="Resource requirements, in the words of the batch system."
        ),
    )
    nodes: int | None = declare(
        None,
        NumberField(1, MAX_CPUS, "nodes"),
        "Nodes",
        "Empty: as many as the ranks need.",
        group="batch-resources",
        short=True,
        setting="Nodes",
        option=option("--nodes", metavar="NUMBER", help="Number of nodes."),
    )
    cpus: int | None = declare(
        None,
        NumberField(1, MAX_CPUS, "CPUs"),
        "CPUs per rank",
        "For each rank, or for the one process.",
        group="batch-resources",
        short=True,
        setting="CPUs per rank",
        option=option("--cpus", metavar="NUMBER", help="CPUs per rank, or for the single process."),
    )
    exclusive: bool = declare(
        False,
        SwitchField(),
        "Exclusive nodes",
        "No other job disturbs the measurement. It may wait longer.",
        group="batch-switches",
        setting="Exclusive nodes",
        option=option("--exclusive", help="No other jobs on the nodes."),
    )
    arguments: tuple[str, ...] = declare(
        (),
        ArgumentsField(ARGUMENT),
        "Arguments",
        "Of the command that submits jobs, quoted as in a shell.",
        form="batch_arguments",
        group="batch-arguments",
        mono=True,
        setting="Batch arguments",
        option=option("--batch-arg", metavar="ARG", help="Argument of bsub or sbatch; may be repeated."),
    )


@dataclass(frozen=True)
class PyTorch:
    """What the PyTorch recorder records.

    steps: "wait,warmup,active,repeat" as in torch.profiler.schedule, or "whole" for the whole run. memory, shapes,
    stacks, modules: what is recorded in addition (profile_memory, record_shapes, with_stack, with_modules). seconds:
    how long the whole run is recorded (null: 30, with stacks 10); steps are not limited by it.
    """

    steps: str = declare(
        "1,1,3,1",
        StepsField("The schedule"),
        "Steps",
        "wait,warmup,active,repeat: 1,1,3,1 skips one step, warms up in one and records three, once. “whole”: the "
        "whole run.",
        applies=_PYTORCH,
        group="pytorch",
        short=True,
        mono=True,
        placeholder="1,1,3,1",
        setting="Steps",
        default_shown=True,
        option=option(
            "--torch-steps",
            metavar="STEPS",
            help="Steps to record: wait,warmup,active,repeat, or “whole”.  [default: 1,1,3,1]",
        ),
    )
    memory: bool = declare(
        False,
        SwitchField(),
        "Memory",
        "Each allocation and its operator.",
        form="torch_memory",
        applies=_PYTORCH,
        group="pytorch",
        setting="Memory",
        option=option("--torch-memory", help="Also record each memory allocation."),
    )
    shapes: bool = declare(
        False,
        SwitchField(),
        "Shapes",
        "Shapes of the inputs of each operator.",
        form="torch_shapes",
        applies=_PYTORCH,
        group="pytorch",
        setting="Shapes",
        option=option("--torch-shapes", help="Also record input shapes of operators."),
    )
    stacks: bool = declare(
        False,
        SwitchField(),
        "Stacks",
        "Python calls and modules. The program is slower and the trace larger.",
        form="torch_stacks",
        applies=_PYTORCH,
        group="pytorch",
        setting="Stacks",
        option=option("--torch-stacks", help="Also record each Python call; slows the program down."),
    )
    modules: bool = declare(
        False,
        SwitchField(),
        "Modules",
        "Modules of TorchScript models. For other models, use Stacks.",
        form="torch_modules",
        applies=_PYTORCH,
        group="pytorch",
        setting="Modules",
        option=option("--torch-modules", help="Also record modules of TorchScript models."),
    )
    seconds: float | None = declare(
        None,
        DurationField(0.1, MAX_SECONDS, "Use 0.1 seconds to 60 minutes: the whole recording is kept in memory."),
        "Whole run, at most",
        "If there are no steps. The trace is kept in memory. Empty: 30 s, with stacks 10 s.",
        form="torch_seconds",
        applies=_PYTORCH,
        setting="At most",
        group="pytorch",
        short=True,
        placeholder="30 s",
        option=option("--torch-seconds", metavar="SECONDS", help="Without steps: how long to record.  [default: 30]"),
    )
