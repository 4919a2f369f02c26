"""record: run a recording as a job, here or at a target, and wait for it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..domain.errors import InvalidRequest
from ..domain.jobs import JobSpec, Scope
from .field_options import SECTIONS, job_options, name_option
from .option_groups import GroupedCommand, option_in_group
from .options import data_option, load_settings, typed_options
from .progress import ProgressLine, print_result

if TYPE_CHECKING:
    from ..recording.recorders.preflight import PreflightFinding

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


def _warn(finding: "PreflightFinding") -> None:
    """Print a warning or a hint of the preflight."""
    level = "hint: " if finding.level == "hint" else ""
    click.echo(f"perfloom: {level}{finding.message} {finding.advice}".rstrip(), err=True)


def default_name(spec: JobSpec) -> str:
    """The default name of a recording."""
    if spec.command:
        return " ".join([Path(spec.command[0]).name, *spec.command[1:]])[:100]
    return f"PID {spec.pid_text}" if spec.scope is Scope.PROCESS else "Whole system"


commands: list[click.Command] = [record]
