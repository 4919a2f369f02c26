"""How a supervised recording ended, from what the supervisor wrote. Pure."""

from typing import Any

from perfloom.domain.jobs import JobSpec, Outcome, Scope
from perfloom.domain.text import signal_name

from ..base.outcome import RecordingOutcome
from . import supervisor


def parse_exit(exit: dict[str, Any], spec: JobSpec, *, cancel_requested: bool) -> RecordingOutcome:
    """The outcome from exit.json. cancel_requested: a person asked for the end."""
    stopped = str(exit.get("stopped") or "")
    status, number = exit.get("exit_status"), exit.get("signal")
    short: list[str] = []
    notes: list[str] = []
    # A recording without a command ends only at its limit.
    has_command = spec.scope is Scope.COMMAND or bool(spec.command)
    if stopped == supervisor.TIME_LIMIT and has_command:
        short.append(f"The command reached the limit of {spec.duration_s:g} s.")
    elif stopped == supervisor.CANCELLED and cancel_requested:
        short.append("It was cancelled.")
    elif stopped == supervisor.CANCELLED:
        short.append("Perfloom stopped during the recording.")
    elif stopped == supervisor.DISK:
        short.append("The recording ended early because the disk was nearly full.")
    recorder_signal = exit.get("recorder_signal")
    if recorder_signal is not None:
        short.append(
            f"perf was ended by {signal_name(int(recorder_signal))} before the command ended. "
            "The kernel does this when memory is low. The rest of the command was not recorded."
        )
    if not stopped and number is not None:
        short.append(f"{'The command' if has_command else 'perf'} was ended by {signal_name(int(number))}.")
    if not stopped and status:
        short.append(f"The command ended with exit status {status}.")
    if remaining := int(exit.get("ended_processes") or 0):
        who, was = ("process", "was") if remaining == 1 else ("processes", "were")
        if not stopped:
            notes.append(f"{remaining} {who} still ran when the command ended, and {was} also ended.")
    if survivors := exit.get("survivors"):
        listed = ", ".join(str(pid) for pid in survivors[:10])
        notes.append(f"These processes could not be ended: {listed}. They may belong to another user.")
    outcome = Outcome(
        # After a request to end, the status of perf says nothing about the command.
        exit_status=None if stopped or status is None else int(status),
        signal=None if stopped or number is None else int(number),
        time_limit=stopped == supervisor.TIME_LIMIT,
        cancelled=stopped == supervisor.CANCELLED and cancel_requested,
        reasons=(*short, *notes),
    )
    error = exit.get("error")
    perf_killed = recorder_signal is not None or (not stopped and number is not None and not has_command)
    return RecordingOutcome(outcome, tuple(short), str(error) if error else None, perf_killed)


SUPERVISOR_LOST = "The supervisor of the recording was killed, or the machine restarted."


def supervisor_lost() -> RecordingOutcome:
    """The outcome if the supervisor ended without a report."""
    return RecordingOutcome(Outcome(reasons=(SUPERVISOR_LOST,)), (SUPERVISOR_LOST,))
