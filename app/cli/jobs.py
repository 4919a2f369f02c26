"""jobs, job, wait, cancel and logs: jobs from the shell, with and without a server."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..domain.text import shorten
from ..domain.units import format_utc_iso
from .ids import JobId
from .options import data_option, format_option, load_settings
from .output import write_rows
from .progress import ProgressLine, print_result

if TYPE_CHECKING:
    from ..store.jobs import Job

F = TypeVar("F", bound=Callable[..., Any])
LIST_COLUMNS = ("id", "state", "name", "target", "created", "started", "ended", "progress", "text", "result")
TABLE_COLUMNS = ("id", "state", "created", "target", "name", "text")
WIDTHS = {"name": 32, "text": 48}
LIMIT = 20


def job_argument(*, active: bool = False, many: bool = False) -> Callable[[F], F]:
    """The argument ID, or ID..., of a command."""
    name, metavar = ("ids", "ID...") if many else ("id", "ID")
    return click.argument(name, nargs=-1 if many else 1, required=True, type=JobId(active=active), metavar=metavar)


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else format_utc_iso(seconds)


def _row(job: "Job") -> dict[str, Any]:
    return {
        "id": job.id,
        "state": str(job.state),
        "name": job.name,
        "target": job.target if job.kind == "record" else None,
        "created": _time(job.created),
        "started": _time(job.started),
        "ended": _time(job.ended),
        "progress": None if job.state.final else job.progress,
        "text": (job.reason if job.state.final else job.progress_text) or None,
        "result": job.result_id,
    }


@click.command("jobs")
@click.option("--active", is_flag=True, help="Only jobs that have not ended.")
@click.option("--limit", type=click.IntRange(min=1), default=LIMIT, show_default=True, metavar="NUMBER")
@format_option
@data_option
def list_jobs(active: bool, limit: int, output_format: str, data: Path | None) -> int:
    """List jobs, newest first: recordings and imports, of all commands and of the server."""
    from ..workers import job_list

    jobs = job_list.list_jobs(load_settings(data), active=active or None, limit=limit)
    rows = [_row(job) for job in jobs]
    if output_format != "table":
        write_rows(LIST_COLUMNS, rows, output_format)
        return 0
    short = [row | {name: row[name] and shorten(row[name], width) for name, width in WIDTHS.items()} for row in rows]
    write_rows(TABLE_COLUMNS, short, output_format, fit=True)
    return 0


@click.command("job")
@format_option
@data_option
@job_argument()
def show_job(output_format: str, data: Path | None, id: str) -> int:
    """Show a job: its state, why it waits or failed, its command and its settings."""
    from ..workers import job_list

    job = job_list.get_job(load_settings(data), id)
    outcome = job.outcome
    row = _row(job) | {
        "kind": job.kind,
        "host": job.host,
        "command": shlex.join(job.argv) if job.argv and output_format != "json" else job.argv,
        "exit_status": outcome.exit_status if outcome else None,
        "signal": outcome.signal if outcome else None,
        "notes": list(outcome.reasons) if outcome else [],
        "history": [f"{state} {format_utc_iso(at)}" for state, at in job.history],
    }
    if output_format == "json":
        row |= {"command": list(job.argv or ()) or None, "spec": job.spec}
    write_rows(list(row), [row], output_format, single=True)
    return 0


@click.command()
@data_option
@job_argument(active=True)
def wait(data: Path | None, id: str) -> int:
    """Wait for a job to end and print the id of its result. Ctrl-C ends the wait, not the job.

    Progress goes to standard error, and so does the prompt for a password.
    """
    from ..workers import job_client
    from ..workers.serve.secret_prompts import ask_on_terminal

    with ProgressLine() as progress:
        job = job_client.wait(load_settings(data), id, progress.show, ask=ask_on_terminal)
    return print_result(job)


@click.command()
@data_option
@job_argument(active=True, many=True)
def cancel(data: Path | None, ids: tuple[str, ...]) -> int:
    """Cancel jobs. What was recorded so far is kept; cancel again to discard it."""
    from ..workers import job_client

    job_client.cancel(load_settings(data), ids)
    return 0


@click.command()
@click.option(
    "--follow",
    "-f",
    is_flag=True,
    help="Follow the output until the job has ended. Ctrl-C ends this command, not the job.",
)
@data_option
@job_argument()
def logs(follow: bool, data: Path | None, id: str) -> int:
    """Print the output of the program of a job."""
    from ..workers import job_client

    settings = load_settings(data)
    if follow:
        job_client.wait(settings, id, output=sys.stdout.buffer)
    else:
        job_client.write_output(settings, id, sys.stdout.buffer)
    return 0


commands: list[click.Command] = [list_jobs, show_job, wait, cancel, logs]
