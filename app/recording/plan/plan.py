"""The files that run a job at a target, and the scripts that start, poll and end it. Pure: texts and argv.

At the target each job has its own directory (0700), in the target's job directory:

    .perfloom           marks it as Perfloom's: only directories with it are removed
    plan.sh             the job as shell functions and variables: the only generated script, with all quoting
    job.sh, rank.sh     POSIX sh, the same for every job, with common.sh; perf is the only other program needed there
    perfloom-wait       started by perf record; becomes the command when perf stat observes it
    sitecustomize.py    the file that the PyTorch recorder injects into programs
    work/               where the command runs, unless the job says otherwise
    work<r>/            the working directory of the r-th run, a copy of work/, with fresh_inputs
    output              the output of the command
    sub<k>.begun/       created by the process that starts the k-th submission, so that it is started at most once
    sub<k>.ran/         created by job.sh, so that it does nothing if a batch system starts it again
    sub<k>.id           the process of job.sh: pid, start time, boot
    sub<k>.life         a counter that job.sh increments every few seconds: its heartbeat
    sub<k>.answer …     the batch system's answer (.errors, .status), and its own log of the job (.log)
    sub<k>.state        the state of the submission
    tables/             symbol tables of the binaries of large recordings, which are brought here instead of their text
    tables.known        those that need not be brought
    run<r>/state        the r-th run of the command
    run<r>/<rank>/      a rank of it ("all" without MPI, "on-HOST" for one recording per host): state and artifacts;
                        written: the size of a recording on another disk, while it grows

State files are lines of a key and a value: `start`, `end` (ns since the epoch), `host`, `pid`, `rank`, `size`, `exit`,
`signal`, `stopped` (the cause of a request to end), `recorded` (0, 1), `state` (progress), `text` (ok, `tables` if the
recording is to be read with symbol tables, or failed with the reason), `written` (bytes of the recording), `cpus` (that
it may use), `governor` (of CPU frequencies), `note` (for the user). Of several lines with a key the last one counts,
except for notes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...domain.errors import InvalidRequest
from ...domain.host_facts import HostFacts
from ...domain.jobs import JOB_FIELDS, Executor, JobSpec, Scope
from ...domain.rank_state import MAX_RUNS
from ...domain.targets import RESERVED_PREFIXES, TARGET_FIELDS, Target, TargetFacts
from ..mpi import base
from ..mpi.registry import mpi_launcher_of
from ..recorders import recorder_of
from ..recorders.languages import language_files
from ..scripts import script_text
from .collection import list_script, parse_list_output, remove_script, symbolize_script
from .plan_text import parse_rank_ranges, plan_text
from .polling import PollRequest, PollResult, parse_poll_output, poll_script, with_batch_status
from .preview import preview as _preview
from .runs import Run, plan_runs, submissions
from .submission import (
    cancel_script,
    create_directory_script,
    parse_submit_output,
    reset_submission_script,
    resolve_directory_script,
    submit_script,
)
from .symbol_tables import KNOWN_FILE, MAX_KNOWN, parse_table_list

SCRIPTS = {
    "common.sh": ("modules.sh", "common.sh", "count.sh", "tables.sh"),
    "job.sh": ("job.sh",),
    "rank.sh": ("rank.sh",),
    "perfloom-wait": ("wait.sh",),
}
"""The files that are the same for every job, and the scripts that each consists of."""
UNKNOWN_REMOTE_HOST = HostFacts(host="", options=("-N",))
"""Used for a host that was never checked. Every perf has -N; without it, perf fills the build-id cache in $HOME."""
MAX_EVENTS = 2000
SUPERVISED_JOB_FIELDS = frozenset(
    (
        *("name", "target", "recorder", "scope", "command", "cwd", "environment", "inputs", "events", "frequency"),
        *("period", "call_graph", "stack_bytes", "pid", "per_cpu", "count_hardware", "off_cpu", "branch_stacks"),
        *(
            "duration",
            "interval",
            "repeat",
            "batch",
            "pytorch",
            "events_per_run",
            "cpu_list",
            "cgroup",
            "perf_arguments",
        ),
    )
)
"""Fields and parts of a job that a supervisor supports, and those that do not count for its jobs. Any other one that is
set selects the scripts."""
SUPERVISED_TARGET_FIELDS = frozenset(
    ("name", "ssh", "scheduler", "mpi", "starters", "sudo", "counters", "symbol_tables", "poll", "notes")
)
"""The same of a target."""


@dataclass(frozen=True)
class Plan:
    """The plan of a job. files: text by name. submissions: the run numbers of each. groups: the events of each run
    (empty: the recorder's default). runs: the runs."""

    files: Mapping[str, str]
    submissions: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[str, ...], ...]
    runs: tuple[Run, ...]


def choose_executor(spec: JobSpec, target: Target, *, run_as: str = "") -> Executor:
    """The executor of a job: a supervisor if it is one process of the worker's user on this machine and sets no other
    field than those that a supervisor supports, else scripts. run_as: the user that runs programs on this machine,
    empty for the worker's own."""
    # Injected files need a directory of the job.
    injected = recorder_of(spec).injection(spec) is not None
    needs_scripts = not target.is_local or injected or run_as or _needs_scripts(spec, target)
    return Executor.SCRIPTS if needs_scripts else Executor.SUPERVISOR


def _needs_scripts(spec: JobSpec, target: Target) -> bool:
    """Whether a field is set that a supervisor does not support."""
    parts = [(JOB_FIELDS, spec, SUPERVISED_JOB_FIELDS), (TARGET_FIELDS, target, SUPERVISED_TARGET_FIELDS)]
    return spec.mpi is not None or any(
        (each.part or each.name) not in supported and each.get(whole) != each.default
        for declared, whole, supported in parts
        for each in declared.values()
    )


def make_plan(
    spec: JobSpec,
    target: Target,
    facts: TargetFacts | None,
    job_id: str,
    directory: str,
    known_tables: Iterable[str] = (),
) -> Plan:
    """The plan of a job. directory: the job's at the target, absolute. known_tables: the names of symbol tables that
    need not be brought here. Raises InvalidRequest if the job is not possible there."""
    require_plannable(spec, target)
    host = recording_host(target, facts)
    found = plan_runs(spec, target, host)
    if len(found) > MAX_RUNS:
        raise InvalidRequest(f"The job needs {len(found):,} runs. The limit is {MAX_RUNS:,}. Choose fewer events.")
    parts = submissions(spec, found)
    launchers = base.launcher_programs(mpi_launcher_of(spec.mpi.flavour), spec.mpi, target, facts) if spec.mpi else ()
    files = {name: "".join(script_text(f"plan/{script}") for script in names) for name, names in SCRIPTS.items()}
    files["plan.sh"] = plan_text(spec, host, job_id, target, found, parts, launchers)
    if (injection := recorder_of(spec).injection(spec)) is not None:
        files |= injection.files
    files |= language_files(spec)
    if known := list(known_tables)[:MAX_KNOWN]:
        files[KNOWN_FILE] = "".join(f"{name}\n" for name in known)
    return Plan(files, parts, tuple(run.events for run in found), found)


def preview(spec: JobSpec, target: Target, facts: TargetFacts | None) -> str:
    """The command lines of a job for display: transport, batch system, launcher, recorder, command. Raises
    InvalidRequest if the job is not possible there."""
    # Report errors of the plan's texts before the job is submitted.
    make_plan(spec, target, facts, "JOB", "/JOB")
    return _preview(spec, target, facts, recording_host(target, facts))


def recording_host(target: Target, facts: TargetFacts | None) -> HostFacts:
    """The facts of the host where perf runs, as far as known, with the perf that the target specifies."""
    host = facts.recording_host if facts else UNKNOWN_REMOTE_HOST
    return replace(host, perf=target.perf) if target.perf else host


def require_plannable(spec: JobSpec, target: Target) -> None:
    """Raise InvalidRequest for a job that is not possible at any host."""
    mpi = spec.mpi
    if mpi is not None:
        if not spec.command or spec.scope is not Scope.COMMAND:
            raise InvalidRequest("With MPI, only a command can be recorded. Choose a command.", "scope")
        if mpi.ranks < 1 or mpi.every < 1 or (mpi.ranks_per_node or 1) < 1:
            raise InvalidRequest("The number of ranks must be at least 1.", "ranks")
        parse_rank_ranges(mpi.only)
        launcher = mpi_launcher_of(mpi.flavour)
        base.check_arguments(launcher, mpi.arguments, "mpi_arguments")
        base.check_arguments(launcher, mpi.rank_arguments, "rank_arguments")
    injection = recorder_of(spec).injection(spec)
    if injection is not None and (spec.scope is not Scope.COMMAND or spec.sudo or (mpi is not None and mpi.per_host)):
        raise InvalidRequest(f"{recorder_of(spec).label} only records a command without sudo. Choose that.", "scope")
    if own := next((name for name in target.environment if name.startswith(RESERVED_PREFIXES)), None):
        raise InvalidRequest(
            f"The target {target.name} sets the variable {own[:60]}, which is reserved for Perfloom. Remove it from "
            "the target's variables, or rename it.",
            "target",
        )
    if len(spec.events) > MAX_EVENTS:
        raise InvalidRequest(f"The job has {len(spec.events):,} events. Use at most {MAX_EVENTS:,}.", "events")
    if spec.sudo and not target.sudo:
        raise InvalidRequest(f"The target {target.name} does not allow sudo. Turn it off, or allow it.", "sudo")
    if spec.scope is Scope.COMMAND and not spec.command:
        raise InvalidRequest("No command to run. Enter one.", "command")
    if spec.scope is Scope.PROCESS and not spec.pids:
        raise InvalidRequest("No process to record. Enter its PID.", "pid")


__all__ = [
    "UNKNOWN_REMOTE_HOST",
    "Plan",
    "PollRequest",
    "PollResult",
    "Run",
    "cancel_script",
    "choose_executor",
    "create_directory_script",
    "list_script",
    "make_plan",
    "parse_list_output",
    "parse_poll_output",
    "parse_submit_output",
    "parse_table_list",
    "poll_script",
    "preview",
    "recording_host",
    "remove_script",
    "require_plannable",
    "reset_submission_script",
    "resolve_directory_script",
    "submit_script",
    "symbolize_script",
    "with_batch_status",
]
