"""How a recording ended, in words: from what the supervisor wrote to an Outcome and the reasons a page shows. Pure."""

import re
import signal
from dataclasses import dataclass
from typing import Any

from perfloom.domain.jobs import JobSpec, Outcome, Scope

from . import supervisor


@dataclass(frozen=True)
class RecordingOutcome:
    """outcome: of the program. incomplete_reasons: why the recording is not whole (empty: it is). error: why nothing
    was started. perf_killed: a signal ended perf itself, so that it did not write what it had in its buffer."""

    outcome: Outcome
    incomplete_reasons: tuple[str, ...]
    error: str | None = None
    perf_killed: bool = False


def parse_exit(exit: dict[str, Any], spec: JobSpec, *, cancel_requested: bool) -> RecordingOutcome:
    """What exit.json says. cancel_requested: a person asked for the end."""
    stopped = str(exit.get("stopped") or "")
    status, number = exit.get("exit_status"), exit.get("signal")
    short: list[str] = []
    notes: list[str] = []
    # Without a command of its own a recording has no other end than its limit.
    has_command = spec.scope is Scope.COMMAND or bool(spec.command)
    if stopped == supervisor.TIME_LIMIT and has_command:
        short.append(f"The command reached the limit of {spec.duration_s:g} s.")
    elif stopped == supervisor.CANCELLED and cancel_requested:
        short.append("It was cancelled.")
    elif stopped == supervisor.CANCELLED:
        short.append("Perfloom stopped during the recording.")
    elif stopped == supervisor.DISK:
        short.append("The recording ended early because the disk was nearly full.")
    killed = exit.get("recorder_signal")
    if killed is not None:
        short.append(
            f"perf was ended by {signal_name(int(killed))} before the command ended. The kernel does this when "
            "memory is low. The rest of the command was not recorded."
        )
    if not stopped and number is not None:
        short.append(f"{'The command' if has_command else 'perf'} was ended by {signal_name(int(number))}.")
    if not stopped and status:
        short.append(f"The command ended with exit status {status}.")
    if left := int(exit.get("ended_processes") or 0):
        who, was = ("process", "was") if left == 1 else ("processes", "were")
        if not stopped:
            notes.append(f"{left} {who} still ran when the command ended, and {was} also ended.")
    if survivors := exit.get("survivors"):
        listed = ", ".join(str(pid) for pid in survivors[:10])
        notes.append(f"These processes could not be ended: {listed}. They may belong to another user.")
    outcome = Outcome(
        # When perf was told to end, its status says nothing about the command.
        exit_status=None if stopped or status is None else int(status),
        signal=None if stopped or number is None else int(number),
        time_limit=stopped == supervisor.TIME_LIMIT,
        cancelled=stopped == supervisor.CANCELLED and cancel_requested,
        reasons=(*short, *notes),
    )
    error = exit.get("error")
    perf_killed = killed is not None or (not stopped and number is not None and not has_command)
    return RecordingOutcome(outcome, tuple(short), str(error) if error else None, perf_killed)


SAMPLES_LOST = "No sample was written before that, as perf still had them in its buffer."
KILLED_ADVICE = (
    "Check the kernel log (dmesg) for lack of memory, or find out who ended it. Submit it again with more memory, or "
    "record a shorter time."
)
SUPERVISOR_LOST = "The supervisor of the recording was killed, or the machine restarted."


def supervisor_lost() -> RecordingOutcome:
    """The supervisor is gone and has written nothing."""
    return RecordingOutcome(Outcome(reasons=(SUPERVISOR_LOST,)), (SUPERVISOR_LOST,))


def signal_name(number: int) -> str:
    """A signal for a person: its number and, where it has one, its name."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


_NOISE = re.compile(r"^\[ perf record: |Run 'perf list'|^\s*Usage:|^\s*or: perf|^\s+-\w, --")


def last_message(output: str) -> str:
    """What perf (or the program) said last, as one line of at most 400 characters; empty where it said nothing."""
    before_usage = re.split(r"(?m)^\s*Usage: perf", output)[0] or output
    lines = [" ".join(line.split()) for line in before_usage.splitlines() if line.strip() and not _NOISE.search(line)]
    # perf heads what it has to say with "Error:"; what comes after it matters, and its beginning more than its end.
    for place in range(len(lines) - 1, -1, -1):
        if re.match(r"(Error|event syntax error|failed|Failed|Couldn't|No permission)", lines[place]):
            return " ".join(lines[place : place + 4])[:400]
    return " ".join(lines[-2:])[-400:]


def explain_no_recording(ending: RecordingOutcome, output: str, recorder: str, *, wrote: bool = False) -> str:
    """Why there is nothing to read, as sentences with what to do. wrote: the recorder wrote a file, with no sample."""
    if ending.error:
        return ending.error
    said = last_message(output)
    missing = re.search(r"Failed to collect .* for the '(.*)' workload: (.*)", output)
    if missing:
        return f"{missing[1]} cannot be executed: {missing[2]}. Check its name and its permissions."
    status, killed = ending.outcome.exit_status, ending.perf_killed or ending.outcome.signal == signal.SIGKILL
    if wrote:
        nothing = SAMPLES_LOST if ending.perf_killed else "No sample was recorded before that."
        how = " ".join((*ending.incomplete_reasons, nothing))
    elif status:
        how = f"{recorder} ended with exit status {status} and recorded nothing."
    else:
        how = " ".join((*ending.incomplete_reasons, f"{recorder} recorded nothing."))
    if killed:
        # What was printed last does not explain it.
        return f"{how} {KILLED_ADVICE}"
    return f"{how} Its message: {said}" if said else f"{how} See the output, correct the job, and submit it again."
