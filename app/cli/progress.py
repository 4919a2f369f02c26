"""Progress of a job that a command waits for, and its result."""

import os
import sys
from typing import TYPE_CHECKING

import click

from ..domain.errors import JobFailed

if TYPE_CHECKING:
    from ..store.jobs import Job


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
    # Imported here, so that `perfloom import` starts reading sooner.
    from ..domain.jobs import JobState

    return job.state is JobState.PENDING or bool(job.details.unreachable_since or job.details.failures)


def print_result(job: "Job") -> int:
    """Print the id of the result of a job that has ended, and its messages; returns the exit status. Raises JobFailed
    if it has none."""
    if job.result_id is None:
        raise JobFailed(job.reason or f"The job ended in state {job.state} without a result.")
    for text in _final_messages(job):
        click.echo(f"perfloom: {text}", err=True)
    click.echo(job.result_id)
    return 0


def _final_messages(job: "Job") -> list[str]:
    """Messages about a job that has a result: why the result is incomplete, and other observations."""
    reason = job.reason or ""
    more = [text for text in (job.outcome.reasons if job.outcome else ()) if text not in reason]
    return [reason, *more] if reason else more
