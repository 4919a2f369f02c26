"""record: run a recording as a job, here or at a target, and wait for it."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..domain.errors import InvalidRequest, JobFailed
from ..domain.jobs import JobSpec, JobState, Scope
from .field_options import SECTIONS, job_options, name_option
from .option_groups import GroupedCommand, option_in_group
from .options import data_option, load_settings, typed_options

if TYPE_CHECKING:
    from ..recording.recorders.preflight import PreflightFinding
    from ..store.jobs import Job

_what = option_in_group(SECTIONS["what"])
_kept = option_in_group(SECTIONS["kept"])


@click.command(cls=GroupedCommand, context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@job_options
@_what("--system-wide", "-a", is_flag=True, help="Observe the whole system (while the command runs).")
@_what("--count", is_flag=True, help="Count events instead of sampling: --recorder perf-stat.")
@_kept("--preset", metavar="FILE|NAME", help="Start from these settings; options take precedence.")
@_kept(
    "--save-preset",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the settings as TOML (or .json), without values that look like secrets. Records only if there is "
    "something to record.",
)
@_kept("--detach", "-d", is_flag=True, help="Print the id of the job and do not wait: see “perfloom wait”.")
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
    spec = record_spec.build_spec(settings, typed_options(context, given), command)
    if given["save_preset"]:
        record_spec.save_settings(spec, Path(given["save_preset"]))
        if not record_spec.records_anything(spec):
            return 0
    spec = record_spec.with_current_directory(spec)
    from ..workers import job_client
    from ..workers.serve.secret_prompts import ask_on_terminal

    name = spec.name or default_name(spec)
    try:
        if given["detach"]:
            click.echo(job_client.submit(settings, spec, name, say=_warn).id)
            return 0
        with ProgressLine() as progress:
            job = job_client.record(settings, spec, name, progress.show, ask=ask_on_terminal, say=_warn)
    except InvalidRequest as error:
        raise name_option(error) from None
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
    """Print a warning or a hint of the preflight."""
    level = "hint: " if finding.level == "hint" else ""
    click.echo(f"perfloom: {level}{finding.message} {finding.advice}".rstrip(), err=True)


def _final_messages(job: "Job") -> list[str]:
    """Messages about a job that has a result: why the result is incomplete, and other observations."""
    reason = job.reason or ""
    more = [text for text in (job.outcome.reasons if job.outcome else ()) if text not in reason]
    return [reason, *more] if reason else more


def default_name(spec: JobSpec) -> str:
    """The default name of a recording."""
    if spec.command:
        return " ".join([Path(spec.command[0]).name, *spec.command[1:]])[:100]
    return f"PID {spec.pid_text}" if spec.scope is Scope.PROCESS else "Whole system"


class ProgressLine:
    """Progress while waiting: on a terminal one line that changes, else a line for each state, and for each reason
    why the job waits."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._last_text = ""
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
            if text != self._last_text:
                click.echo(text, err=True)
                self._last_text = text

    def _clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()
            self._shown = 0


def _waits(job: "Job") -> bool:
    """Whether the progress text is the reason for waiting, not progress."""
    return job.state is JobState.PENDING or bool(job.details.unreachable_since or job.details.failures)


commands: list[click.Command] = [record]
