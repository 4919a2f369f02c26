"""record: run a recording as a job, here or at a target, and wait for it."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..domain.errors import InvalidRequest, JobFailed
from ..domain.jobs import CallGraph, EventSplitting, JobSpec, JobState, MpiFlavor, RecorderName, Scope
from .option_groups import GroupedCommand, option_in_group
from .options import data_option, load_settings

if TYPE_CHECKING:
    from ..recording.recorders.preflight import PreflightFinding
    from ..store.jobs import Job

_positive = click.IntRange(min=1)
_what = option_in_group("Recording")
_torch = option_in_group("With --recorder pytorch")
_where = option_in_group("Where it runs")
_mpi = option_in_group("MPI")
_batch = option_in_group("Batch system")
_around = option_in_group("Environment")
_kept = option_in_group("Settings and files")


@click.command(cls=GroupedCommand, context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@_what("--name", help="Name of the result.  [default: the command]")
@_what(
    "--recorder",
    type=click.Choice([str(name) for name in RecorderName]),
    help="Recorder to use.  [default: perf-record]",
)
@_what("--event", "-e", "events", multiple=True, metavar="EVENT", help="Event to measure, as in perf; may be repeated.")
@_what("--frequency", "-F", type=_positive, metavar="HZ", help="Samples per second.  [default: 199]")
@_what("--period", "-c", type=_positive, metavar="COUNT", help="One sample per this many events.")
@_what(
    "--call-graph",
    type=click.Choice([str(graph) for graph in CallGraph]),
    help="How to unwind stacks.  [default: dwarf]",
)
@_what("--stack-bytes", type=_positive, metavar="BYTES", help="Stack size copied by dwarf.  [default: 8192]")
@_what("--pid", type=_positive, help="Observe this process instead of running a command.")
@_what("--system-wide", "-a", is_flag=True, help="Observe the whole system (while the command runs).")
@_what("--per-cpu", is_flag=True, help="Separate data per CPU.")
@_what("--count-hardware", is_flag=True, help="Also count hardware events while they are sampled; uses counters.")
@_what("--duration", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Stop after this time.")
@_what("--count", is_flag=True, help="Count events instead of sampling: --recorder perf-stat.")
@_what("--interval", type=_positive, metavar="MS", help="With --count: print counts at this interval.")
@_what("--repeat", type=_positive, metavar="TIMES", help="With --count: run the command this many times.")
@_what(
    "--split",
    type=click.Choice([str(way) for way in EventSplitting]),
    help="With more events than counters: multiplex them in one run (default), or run the command once for each group "
    "of events, one run after another or all at once.",
)
@_what(
    "--events-per-run",
    type=_positive,
    metavar="NUMBER",
    help="With --split: events per group.  [default: as many as counters]",
)
@_torch(
    "--torch-steps",
    metavar="STEPS",
    help="Steps to record: wait,warmup,active,repeat, or “whole”.  [default: 1,1,3,1]",
)
@_torch("--torch-memory", is_flag=True, help="Also record each memory allocation.")
@_torch("--torch-shapes", is_flag=True, help="Also record input shapes of operators.")
@_torch("--torch-stacks", is_flag=True, help="Also record each Python call; slows the program down.")
@_torch("--torch-modules", is_flag=True, help="Also record modules of TorchScript models.")
@_torch(
    "--torch-seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Without steps: how long to record.  [default: 30]",
)
@_where(
    "--on", "target", metavar="TARGET", help="Where to record: a name from “perfloom target list”.  [default: local]"
)
@_where(
    "--cwd",
    type=click.Path(file_okay=False),
    help="Working directory.  [default: the current one; at another target and with --input the job's directory]",
)
@_where(
    "--input",
    "inputs",
    multiple=True,
    type=click.Path(),
    help="Copy this file into the job's directory first; may be repeated.",
)
@_where("--sudo", is_flag=True, help="Start perf (only perf) with sudo, if the target allows it.")
@_mpi(
    "--mpi",
    type=click.Choice(["none", *(str(flavor) for flavor in MpiFlavor)]),
    help="MPI implementation that starts the ranks.  [default: none]",
)
@_mpi("--ranks", "-n", type=_positive, metavar="NUMBER", help="Number of ranks.")
@_mpi("--ranks-per-node", type=_positive, metavar="NUMBER", help="Ranks per node.")
@_mpi("--mpi-program", metavar="PROGRAM", help="MPI launcher.  [default: the target's, else that of --mpi]")
@_mpi("--mpi-arg", multiple=True, metavar="ARG", help="Global argument of the launcher; may be repeated.")
@_mpi("--rank-arg", multiple=True, metavar="ARG", help="Argument directly before the program; may be repeated.")
@_mpi("--record-every", type=_positive, metavar="NUMBER", help="Record ranks 0, NUMBER, 2 × NUMBER …")
@_mpi("--record-only", metavar="RANGES", help="Record only these ranks, for example 0-3,8.")
@_mpi("--per-host", is_flag=True, help="Instead of ranks, record the whole system once per host.")
@_batch("--queue", "--partition", "-q", metavar="NAME", help="LSF queue or Slurm partition.")
@_batch("--project", "--account", metavar="NAME", help="LSF project or Slurm account.")
@_batch("--wall-time", metavar="TIME", help="Time limit of the batch job: 30min, 2h, 1:30:00.")
@_batch("--resources", "-R", metavar="STRING", help="LSF resource string.")
@_batch("--nodes", type=_positive, metavar="NUMBER", help="Number of Slurm nodes.")
@_batch("--cpus", type=_positive, metavar="NUMBER", help="CPUs per rank, or for the single process.")
@_batch("--exclusive", is_flag=True, help="No other jobs on the nodes.")
@_batch("--batch-arg", multiple=True, metavar="ARG", help="Argument of bsub or sbatch; may be repeated.")
@_around("--module", "modules", multiple=True, metavar="NAME", help="Load this module first; may be repeated.")
@_around("--env", multiple=True, metavar="NAME=VALUE", help="Set an environment variable; may be repeated.")
@_around("--path", multiple=True, metavar="DIR", help="Prepend to PATH; may be repeated.")
@_around("--library-path", multiple=True, metavar="DIR", help="Prepend to LD_LIBRARY_PATH; may be repeated.")
@_around("--preload", multiple=True, metavar="FILE", help="Prepend to LD_PRELOAD; may be repeated.")
@_kept("--preset", metavar="FILE|NAME", help="Start from these settings; options take precedence.")
@_kept(
    "--save-preset",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the settings as TOML (or .json), without values that look like secrets. Records only if there is "
    "something to record.",
)
@_kept("--no-recordings", is_flag=True, help="Copy back only the perf script text, not perf.data.")
@_kept("--detach", "-d", is_flag=True, help="Print the id of the job and do not wait: see “perfloom wait”.")
@_kept("--leave-files", is_flag=True, help="Do not remove the job's directory at the target.")
@data_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def record(context: click.Context, /, data: Path | None, command: tuple[str, ...], **given: Any) -> int:
    """Record COMMAND (after --) as a job, wait for it, and print the id of the result.

    Progress and what the command prints go to standard error. Ctrl-C ends the command and keeps what was recorded; a
    second Ctrl-C discards it. With --detach the job continues after this command and its shell.
    """
    from . import record_spec

    settings = load_settings(data)
    asked = {name for name in given if _typed(context, name)}
    spec = record_spec.build_spec(settings, {name: given[name] for name in asked}, command)
    if given["save_preset"]:
        record_spec.save_settings(spec, Path(given["save_preset"]))
        if not record_spec.records_anything(spec):
            return 0
    spec = record_spec.with_current_directory(spec)
    from ..workers import job_client
    from ..workers.serve.secrets import ask_on_terminal

    name = spec.name or default_name(spec)
    try:
        if given["detach"]:
            click.echo(job_client.submit(settings, spec, name, say=_warn).id)
            return 0
        with ProgressLine() as progress:
            job = job_client.record(settings, spec, name, progress.show, ask=ask_on_terminal, say=_warn)
    except InvalidRequest as error:
        raise record_spec.name_option(error) from None
    return print_result(job)


def print_result(job: "Job") -> int:
    """Print the id of the result of a job that has ended, and its messages; returns the exit status. Raises JobFailed
    if it has none."""
    if job.result_id is None:
        raise JobFailed(job.reason or f"The job ended in state {job.state} without a result.")
    for text in _final_messages(job):
        click.echo(f"perfloom: {text}", err=True)
    click.echo(job.result_id)
    return 0


def _warn(finding: "PreflightFinding") -> None:
    click.echo(f"perfloom: {finding.message} {finding.advice}".rstrip(), err=True)


def _final_messages(job: "Job") -> list[str]:
    """Messages about a job that has a result: why the result is incomplete, and other observations."""
    reason = job.reason or ""
    more = [text for text in (job.outcome.reasons if job.outcome else ()) if text not in reason]
    return [reason, *more] if reason else more


def _typed(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def default_name(spec: JobSpec) -> str:
    """The name of a recording that was given none."""
    if spec.command:
        return " ".join([Path(spec.command[0]).name, *spec.command[1:]])[:100]
    return f"PID {spec.pid}" if spec.scope is Scope.PROCESS else "Whole system"


class ProgressLine:
    """Progress while waiting: on a terminal one line that changes, else a line for each state, and for each reason
    why the job waits."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._said = ""
        self._shown = 0

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def show(self, job: "Job") -> None:
        """Show the progress of `job`."""
        text = f"perfloom: {job.state}"
        if self._terminal and not job.state.final:
            if job.progress is not None:
                text += f" {job.progress:.0%}"
            if job.progress_text:
                text += f", {job.progress_text}"
            self._clear()
            width = os.get_terminal_size(sys.stderr.fileno()).columns - 1
            sys.stderr.write(text[:width])
            sys.stderr.flush()
            self._shown = len(text[:width])
        else:
            if job.progress_text and not job.state.final and _waits(job):
                text += f", {job.progress_text}"
            if text != self._said:
                click.echo(text, err=True)
                self._said = text

    def _clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()
            self._shown = 0


def _waits(job: "Job") -> bool:
    """Whether the progress text says what the job waits for, not how far it is."""
    return job.state is JobState.PENDING or bool(job.details.get("unreached") or job.details.get("failures"))


commands: list[click.Command] = [record]
