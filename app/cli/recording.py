"""record: a recording as a job, waited for."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..domain.errors import InvalidRequest, JobFailed
from ..domain.jobs import CallGraph, JobSpec, RecorderName, Scope
from .options import data_option, settings_of

if TYPE_CHECKING:
    from ..store.jobs import Job

_positive = click.IntRange(min=1)


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--name", default="", help="Name of the result.  [default: the command]")
@click.option("--event", "-e", "events", multiple=True, metavar="EVENT", help="What to measure; may be repeated.")
@click.option("--frequency", "-F", type=_positive, metavar="HZ", help="Samples a second.  [default: 199]")
@click.option("--period", "-c", type=_positive, metavar="COUNT", help="A sample every so many events.")
@click.option(
    "--call-graph",
    type=click.Choice(["none", "fp", "dwarf", "lbr"]),
    default="dwarf",
    show_default=True,
    help="How stacks are walked.",
)
@click.option("--stack-bytes", type=_positive, default=8192, show_default=True, help="Stack kept by dwarf.")
@click.option("--pid", type=_positive, help="Observe this process instead of a command.")
@click.option("--system-wide", "-a", is_flag=True, help="Observe the whole machine (while the command runs).")
@click.option("--per-cpu", is_flag=True, help="Tell the CPUs apart.")
@click.option("--duration", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="End it after this.")
@click.option("--count", is_flag=True, help="Count events (perf stat) instead of sampling.")
@click.option("--interval", type=_positive, metavar="MS", help="With --count: print every so many ms.")
@click.option("--repeat", type=_positive, metavar="TIMES", help="With --count: run the command so often.")
@click.option("--input", "inputs", multiple=True, type=click.Path(), help="Copy this file into the job's directory.")
@click.option("--cwd", type=click.Path(file_okay=False), help="Where the command runs.  [default: here]")
@click.option("--on", "target", default="local", show_default=True, metavar="TARGET", help="Where to record.")
@data_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def record(
    name: str,
    events: tuple[str, ...],
    frequency: int | None,
    period: int | None,
    call_graph: str,
    stack_bytes: int,
    pid: int | None,
    system_wide: bool,
    per_cpu: bool,
    duration: float | None,
    count: bool,
    interval: int | None,
    repeat: int | None,
    inputs: tuple[str, ...],
    cwd: str | None,
    target: str,
    data: Path | None,
    command: tuple[str, ...],
) -> int:
    """Record COMMAND (after --) as a job, wait for it, and print the id of the result.

    Progress and what the command prints go to standard error. A first Ctrl-C ends the command and keeps what was
    recorded; a second one drops it.
    """
    if target != "local":
        raise InvalidRequest(f"There is no target {target!r}; the one there is is called local.", "on")
    if pid is not None and (system_wide or command):
        raise click.UsageError("--pid observes one process: leave --system-wide and the command out.")
    if frequency is not None and period is not None:
        raise click.UsageError("--frequency and --period exclude each other: leave one out.")
    if pid is None and not system_wide and not command:
        raise click.UsageError("There is nothing to record: give a command after --, or --pid, or --system-wide.")
    spec = JobSpec(
        name=name,
        target=target,
        recorder=RecorderName.PERF_STAT if count else RecorderName.PERF_RECORD,
        scope=Scope.PROCESS if pid is not None else Scope.SYSTEM if system_wide else Scope.COMMAND,
        command=command,
        # With input files the command runs in the job's own directory, unless it is told where.
        cwd=os.path.abspath(cwd) if cwd else None if inputs else os.getcwd(),
        inputs=tuple(os.path.abspath(given) for given in inputs),
        events=events,
        frequency=frequency,
        period=period,
        call_graph=CallGraph(call_graph),
        stack_bytes=stack_bytes,
        pid=pid,
        per_cpu=per_cpu,
        duration_s=duration,
        interval_ms=interval,
        repeat=repeat,
    )
    from ..workers import following

    settings = settings_of(data)
    with Progress() as progress:
        job = following.record(settings, spec, name or default_name(spec), progress.show)
    if job.result_id is None:
        raise JobFailed(job.reason or f"The job ended as {job.state}, without a result.")
    if job.reason:
        click.echo(f"perfloom: {job.reason}", err=True)
    click.echo(job.result_id)
    return 0


def default_name(spec: JobSpec) -> str:
    """What a recording is called that was given no name."""
    if spec.command:
        return " ".join([Path(spec.command[0]).name, *spec.command[1:]])[:100]
    return f"PID {spec.pid}" if spec.scope is Scope.PROCESS else "Whole machine"


class Progress:
    """What a person sees while waiting: on a terminal one line that changes, else a line for each state."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._state = ""
        self._shown = 0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def show(self, job: "Job") -> None:
        """Say how far `job` is."""
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
        elif job.state != self._state:
            click.echo(text, err=True)
        self._state = job.state

    def _clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()
            self._shown = 0


commands: list[click.Command] = [record]
