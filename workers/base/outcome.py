"""How a recording ended, and why it may be missing, in sentences for a page. Pure."""

import re
import signal
from dataclasses import dataclass

from perfloom.domain.jobs import Outcome

SAMPLES_LOST = "No sample was written before that, as perf still had them in its buffer."
KILLED_ADVICE = (
    "Check the kernel log (dmesg) for lack of memory, or find out who ended it. Submit it again with more memory, or "
    "record a shorter time."
)


@dataclass(frozen=True)
class RecordingOutcome:
    """outcome: of the program. incomplete_reasons: why the recording is incomplete (empty: it is complete). error: why
    nothing was started. perf_killed: a signal ended perf itself, so that its buffer was not written."""

    outcome: Outcome
    incomplete_reasons: tuple[str, ...]
    error: str | None = None
    perf_killed: bool = False


_NOISE = re.compile(r"^\[ perf record: |Run 'perf list'|^\s*Usage:|^\s*or: perf|^\s+-\w, --")


def last_message(output: str) -> str:
    """The last message of perf (or the program), as one line of at most 400 characters; empty if it printed none."""
    before_usage = re.split(r"(?m)^\s*Usage: perf", output)[0] or output
    lines = [" ".join(line.split()) for line in before_usage.splitlines() if line.strip() and not _NOISE.search(line)]
    # perf prints "Error:" before its message, whose first lines are the most useful.
    for place in range(len(lines) - 1, -1, -1):
        if re.match(r"(Error|event syntax error|failed|Failed|Couldn't|No permission)", lines[place]):
            return " ".join(lines[place : place + 4])[:400]
    return " ".join(lines[-2:])[-400:]


def explain_no_recording(ending: RecordingOutcome, output: str, recorder: str, *, wrote: bool = False) -> str:
    """Why there is nothing to read, as sentences with what to do. wrote: the recorder wrote a file, with no sample."""
    if ending.error:
        return ending.error
    message = last_message(output)
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
        # The last message does not explain it.
        return f"{how} {KILLED_ADVICE}"
    return (
        f"{how} Its message: {message}" if message else f"{how} See the output, correct the job, and submit it again."
    )
