"""JobSpec, the request of a user: each field with its declaration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidRequest
from ..fields import (
    Applies,
    ArgumentsField,
    ChoiceField,
    CommandLineField,
    DeclaredField,
    EventsField,
    LibrariesField,
    LinesField,
    NumberField,
    NumbersField,
    PartField,
    PathField,
    PathListField,
    PatternField,
    SwitchField,
    TargetNameField,
    TextField,
    TitleField,
    VariablesField,
    WordField,
    WordsField,
    declare,
    declared_fields,
    declared_parts,
    dump_fields,
    load_fields,
    option,
)
from .language import LANGUAGES, Language
from .parts import (
    ARGUMENT,
    CALL_GRAPHS,
    DEFAULT_HZ,
    DEFAULT_STACK_BYTES,
    IN_DIRECTORY,
    MAX_PID,
    ON_TARGET,
    SCOPES,
    SPLITTING,
    SPLITTINGS,
    STACK_BYTES,
    TIME_LIMIT,
    Batch,
    CallGraph,
    EventSplitting,
    Mpi,
    PyTorch,
    RecorderName,
    Scope,
)

_PERF: Applies = {"recorder_fields": ("perf",)}
_SAMPLING: Applies = {"recorder_fields": ("sampling",)}
_COUNTING: Applies = {"recorder_fields": ("counting",)}
_STARTED: Applies = {"scope": (Scope.COMMAND, Scope.SYSTEM)}


@dataclass(frozen=True)
class JobSpec:
    """The complete description of a job, as the user gave it. Contains no secret. Convertible to JSON and back.

    The declaration of a field says what it is. In addition: frequency, period: one of the two. pid: one or several, for
    Scope.PROCESS. cwd None: the job's own directory. target: the name of a Target. mpi None: one process. splitting: of
    several runs, `{run}` in command, inputs and environment is the number. cpu_list, cgroup: empty for all.
    """

    name: str = declare(
        "",
        TitleField("The name"),
        "Name",
        "To find the result again. Empty: the program’s name.",
        group="job",
        option=option("--name", help="Name of the result.  [default: the command]"),
    )
    target: str = declare(
        "local",
        TargetNameField("The target"),
        "Target",
        setting="Target",
        option=ON_TARGET,
    )
    recorder: RecorderName = declare(
        RecorderName.PERF_RECORD,
        ChoiceField(RecorderName),
        "Recorder",
        setting="Recorder",
        option=option("--recorder", help="Recorder to use.  [default: perf-record]"),
    )
    scope: Scope = declare(Scope.COMMAND, SCOPES, "Scope", setting="Scope")
    command: tuple[str, ...] = declare(
        (),
        CommandLineField(TextField("An argument of the command")),
        "Command",
        "As in a shell, but no shell runs it: quotes group words, nothing is expanded. With the whole system, "
        "recording lasts as long as the command; then it may be left out.",
        applies=_STARTED,
        placeholder="python3 -c 'print(sum(i * i for i in range(10**7)))'",
        setting="Command",
    )
    cwd: str | None = declare(
        None,
        PathField("The working directory"),
        "Working directory",
        "An absolute path, where the job runs. Empty: the job’s directory.",
        applies=_STARTED,
        group="directory",
        mono=True,
        placeholder="/home/me/project",
        setting="Directory",
        option=IN_DIRECTORY,
    )
    environment: dict[str, str] = declare(
        {},
        VariablesField(),
        "Environment variables",
        "One NAME=value per line, taken literally, without quotes. They are kept with the job: do not enter passwords.",
        applies=_STARTED,
        group="directory",
        placeholder="OMP_NUM_THREADS=4",
        setting="Environment",
        option=option(
            "--env", metavar="NAME=VALUE", help="Set an environment variable; may be repeated.", section="around"
        ),
    )
    inputs: tuple[str, ...] = declare(
        (),
        LinesField(PathField("An input file")),
        "Input files to copy first",
        "One absolute path per line, of files on the worker’s machine. They are copied to where the command starts.",
        applies=_STARTED,
        group="directory",
        placeholder="/data/input.csv",
        setting="Input file",
        option=option(
            "--input", metavar="PATH", help="Copy this file to the job's directory; may be repeated.", section="where"
        ),
    )
    events: tuple[str, ...] = declare(
        (),
        EventsField(TextField("An event")),
        "Events",
        applies=_PERF,
        setting="Events",
        shown="default",
        default_shown=True,
        option=option("--event", "-e", metavar="EVENT", help="Event to measure, as in perf; may be repeated."),
    )
    frequency: int | None = declare(
        None,
        NumberField(1, 1_000_000, "samples per second"),
        "Frequency",
        f"For each thread and event. Empty: {DEFAULT_HZ}, a prime, so that it differs from periodic work.",
        applies=_SAMPLING,
        unit="Hz",
        placeholder=str(DEFAULT_HZ),
        setting="Frequency",
        option=option("--frequency", "-F", metavar="HZ", help=f"Samples per second.  [default: {DEFAULT_HZ}]"),
    )
    period: int | None = declare(
        None,
        NumberField(1, 10**15, "events between two samples"),
        "Period",
        "One sample after this many events. 1: each event, as is usual for tracepoints.",
        applies=_SAMPLING,
        unit="events",
        setting="Period",
        option=option("--period", "-c", metavar="COUNT", help="One sample per this many events."),
    )
    call_graph: CallGraph = declare(
        CallGraph.DWARF,
        CALL_GRAPHS,
        "Call graph",
        applies=_SAMPLING,
        setting="Call graph",
        default_shown=True,
        option=option("--call-graph", help="How to unwind stacks.  [default: dwarf]"),
    )
    stack_bytes: int = declare(
        DEFAULT_STACK_BYTES,
        STACK_BYTES,
        "Stack size",
        "For dwarf: bytes of the stack copied with each sample. More gives deeper stacks and a larger file.",
        applies=_SAMPLING | {"call_graph": (CallGraph.DWARF,)},
        group="recorder",
        unit="bytes",
        short=True,
        setting="Stack size",
        default_shown=True,
        option=option(
            "--stack-bytes", metavar="BYTES", help=f"Stack size for dwarf.  [default: {DEFAULT_STACK_BYTES}]"
        ),
    )
    language: Language = declare(
        Language.NONE,
        LANGUAGES,
        "Language",
        applies=_SAMPLING | _STARTED,
        setting="Language",
        option=option("--language", help="Also name the functions of this interpreter.  [default: none]"),
    )
    pid: int | tuple[int, ...] | None = declare(
        None,
        NumbersField(1, MAX_PID, "as a process number"),
        "Process",
        "For a running process: its PID, as ps or top shows it. Several: 4711, 4712.",
        applies={"scope": (Scope.PROCESS,)},
        group="process",
        short=True,
        setting="Process",
        option=option(
            "--pid", metavar="PID", help="Observe this process instead of running a command; several with commas."
        ),
    )
    per_cpu: bool = declare(
        False,
        SwitchField(),
        "Per CPU",
        "For the whole system: keeps with each sample or count the CPU it was on.",
        applies=_PERF | {"scope": (Scope.SYSTEM,)},
        group="system",
        setting="Per CPU",
        option=option("--per-cpu", help="Separate data per CPU."),
    )
    count_hardware: bool = declare(
        False,
        SwitchField(),
        "Count hardware events",
        "Exact totals in addition to the samples. They use hardware counters. Software events are always counted.",
        applies=_SAMPLING,
        group="events",
        setting="Count hardware events",
        option=option("--count-hardware", help="Also count hardware events while they are sampled; uses counters."),
    )
    off_cpu: bool = declare(
        False,
        SwitchField(),
        "Time off the CPU",
        "Also when threads left a CPU and returned, and where they waited: off-CPU flame graph.",
        applies=_SAMPLING,
        group="events",
        setting="Time off the CPU",
        option=option("--off-cpu", help="Also record how long threads were off the CPU, and where they waited."),
    )
    branch_stacks: bool = declare(
        False,
        SwitchField(),
        "Branch stacks",
        "Also the last branches before each sample (LBR): hot branches and loops. Hardware events only.",
        applies=_SAMPLING,
        group="events",
        setting="Branch stacks",
        option=option("--branch-stacks", help="Also record the last branches before each sample (perf record -b)."),
    )
    duration_s: float | None = declare(
        None,
        TIME_LIMIT,
        "Time limit",
        "The recording is ended after it, and kept. Seconds, or a number with ms, s, min or h.",
        form="duration",
        group="job",
        short=True,
        placeholder="none",
        setting="Time limit",
        option=option("--duration", metavar="SECONDS", help="Stop after this time."),
    )
    interval_ms: int | None = declare(
        None,
        NumberField(1, 3_600_000, "milliseconds between two readings"),
        "Interval",
        "For perf stat: print the counts at this interval. Empty: once, at the end.",
        form="interval",
        applies=_COUNTING,
        group="recorder",
        unit="ms",
        short=True,
        setting="Interval",
        option=option("--interval", metavar="MS", help="With --count: print counts at this interval."),
    )
    repeat: int | None = declare(
        None,
        NumberField(1, 100, "runs"),
        "Repeat",
        "For perf stat: number of runs, for mean and standard deviation. Empty: one.",
        applies=_COUNTING | _STARTED,
        group="recorder",
        unit="runs",
        short=True,
        setting="Repeat",
        option=option("--repeat", metavar="TIMES", help="With --count: run the command this many times."),
    )
    mpi: Mpi | None = declare(None, PartField(Mpi, optional=True), "MPI")
    batch: Batch = declare(Batch(), PartField(Batch), "Batch system")
    pytorch: PyTorch = declare(PyTorch(), PartField(PyTorch), "With --recorder pytorch")
    modules: tuple[str, ...] = declare(
        (),
        WordsField(WordField("A module")),
        "Modules",
        "Loaded before anything else, in this order.",
        applies=_STARTED,
        group="search",
        placeholder="gcc/12.2.0 openmpi/4.1",
        setting="Modules",
        option=option("--module", metavar="NAME", help="Load this module first; may be repeated.", section="around"),
    )
    path: tuple[str, ...] = declare(
        (),
        PathListField(PathField("A directory in PATH")),
        "PATH",
        "Directories to put before it, one per line.",
        applies=_STARTED,
        group="search",
        placeholder="/opt/solver/bin",
        setting="PATH",
        option=option("--path", metavar="DIR", help="Prepend to PATH; may be repeated.", section="around"),
    )
    library_path: tuple[str, ...] = declare(
        (),
        PathListField(PathField("A directory in LD_LIBRARY_PATH")),
        "LD_LIBRARY_PATH",
        "Directories to put before it, one per line.",
        applies=_STARTED,
        group="search",
        placeholder="/opt/solver/lib",
        setting="LD_LIBRARY_PATH",
        option=option(
            "--library-path", metavar="DIR", help="Prepend to LD_LIBRARY_PATH; may be repeated.", section="around"
        ),
    )
    preload: tuple[str, ...] = declare(
        (),
        LibrariesField(TextField("A library to preload")),
        "LD_PRELOAD",
        "Libraries for the command alone, not for perf.",
        applies=_STARTED,
        group="search",
        placeholder="/usr/lib/libjemalloc.so.2",
        setting="LD_PRELOAD",
        option=option("--preload", metavar="FILE", help="Prepend to LD_PRELOAD; may be repeated.", section="around"),
    )
    splitting: EventSplitting = declare(
        EventSplitting.ONE_RUN,
        SPLITTINGS,
        "Event splitting",
        group="splitting",
        applies=_PERF | _STARTED,
        setting="Event splitting",
        option=SPLITTING,
    )
    events_per_run: int | None = declare(
        None,
        NumberField(1, 256, "events per run"),
        "Events in one run",
        "Empty: as many as the CPU counts at once.",
        applies=_PERF | _STARTED | {"splitting": (EventSplitting.SEQUENTIAL, EventSplitting.AT_ONCE)},
        group="splitting",
        short=True,
        setting="Events in one run",
        option=option(
            "--events-per-run",
            metavar="NUMBER",
            help="With --split: events per group.  [default: as many as counters]",
            strict=True,
        ),
    )
    sudo: bool = declare(
        False,
        SwitchField(),
        "Start perf with sudo",
        "Only perf runs as root. The command runs as you.",
        applies=_PERF | {"sudo": ("yes",)},
        group="sudo",
        setting="perf",
        shown="with sudo",
        option=option("--sudo", help="Start perf (only perf) with sudo, if the target allows it.", section="where"),
    )
    keep_recordings: bool = declare(
        True,
        SwitchField(),
        "Keep perf.data",
        "Off: only the text of perf script is copied back. It is smaller, and enough to read the recording again.",
        applies=_SAMPLING,
        group="kept",
        setting="perf.data",
        shown="not copied back",
        option=option(
            "--no-recordings", help="Copy back only the perf script text, not perf.data.", section="kept", off=True
        ),
    )
    leave_files: bool = declare(
        False,
        SwitchField(),
        "Keep files at the target",
        "Otherwise they are removed.",
        group="kept",
        setting="Files",
        shown="not removed at the target",
        option=option("--leave-files", help="Do not remove the job's directory at the target.", section="kept"),
    )
    cpu_list: str = declare(
        "",
        PatternField("The list of CPUs", r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*", "0-3,8"),
        "CPUs",
        "For the whole system: numbers and ranges, as in 0-3,8. Empty: all.",
        applies=_PERF | {"scope": (Scope.SYSTEM,)},
        group="system",
        short=True,
        mono=True,
        placeholder="all",
        setting="CPUs",
        option=option("--cpu", "-C", metavar="LIST", help="With -a: record only on these CPUs.", strict=True),
    )
    cgroup: str = declare(
        "",
        PatternField("The cgroup", r"[^\s,-][^\s,]*", "system.slice/sshd.service"),
        "Cgroup",
        "For the whole system: only processes of this cgroup, by its path below the root. Empty: all.",
        applies=_PERF | {"scope": (Scope.SYSTEM,)},
        group="system",
        mono=True,
        placeholder="system.slice/sshd.service",
        setting="Cgroup",
        option=option("--cgroup", "-G", metavar="PATH", help="With -a: record only this cgroup.", strict=True),
    )
    perf_arguments: tuple[str, ...] = declare(
        (),
        ArgumentsField(ARGUMENT),
        "Additional perf arguments",
        "Options that Perfloom does not set itself, written out and quoted as in a shell.",
        applies=_PERF,
        group="recorder",
        mono=True,
        placeholder="--mmap-pages 1024",
        setting="perf arguments",
        option=option(
            "--perf-arg",
            metavar="ARG",
            help="Further argument of perf, as in --perf-arg=--all-user; may be repeated.",
            strict=True,
        ),
    )
    baseline: bool = declare(
        False,
        SwitchField(),
        "Also run once without recording",
        "To measure the overhead: the command runs once more, after all runs that are recorded.",
        applies=_PERF | {"scope": (Scope.COMMAND,)},
        group="recorder",
        setting="Overhead",
        shown="measured by a run without recording",
        option=option("--baseline", help="Run the command once more without recording, to measure the overhead."),
    )
    fresh_inputs: bool = declare(
        False,
        SwitchField(),
        "Fresh input files for each run",
        "Each run of the command has its own directory with a copy of the input files.",
        applies=_STARTED,
        group="directory",
        setting="Input files",
        shown="a copy for each run",
        option=option("--fresh-inputs", help="Copy the input files anew for each run.", section="where", strict=True),
    )

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes to observe."""
        return self.pid if isinstance(self.pid, tuple) else () if self.pid is None else (self.pid,)

    @property
    def pid_text(self) -> str:
        """The processes to observe, as text for the user."""
        return ", ".join(map(str, self.pids))

    def to_json(self) -> dict[str, Any]:
        return dump_fields(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "JobSpec":
        """The reverse of `to_json`; keys of a later version are ignored. Raises InvalidRequest for bad values."""
        try:
            spec: JobSpec = load_fields(cls, data)
            return spec
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise InvalidRequest(f"Invalid job description: {error}.") from None


JOB_FIELDS: Mapping[str, DeclaredField] = {each.name: each for each in declared_fields(JobSpec)}
"""The fields of a JobSpec and its parts by their names in the form."""
JOB_PARTS: Mapping[str, PartField] = declared_parts(JobSpec)
"""The fields of a JobSpec that are nested classes."""
