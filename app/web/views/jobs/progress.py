"""The status of a job at a target: its submissions, runs and ranks, for its page.

The workers write the last status to the job's directory (see domain/progress.py), the web application only reads it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ....domain.list_text import format_ranges, to_ranges
from ....domain.targets import BatchState
from ....domain.units import format_utc
from ....recording.job_status import JobStatus, RankStatus, RunStatus, SubmissionStatus
from ....recording.liveness import silent_since

PROGRESS_FILE = Path("run") / "sight.json"
PLAN_FILE = Path("run") / "plan.json"
MAX_CELLS = 8192
"""Maximum number of drawn ranks of all runs."""
MAX_NAMED = 24
"""Up to this number, each rank is shown with number and host."""
MAX_PROBLEMS = 25
MAX_BYTES = 32 << 20

BATCH_LABELS = {
    BatchState.PENDING: "Waiting",
    BatchState.HELD: "Held",
    BatchState.RUNNING: "Running",
    BatchState.SUSPENDED: "Suspended",
    BatchState.DONE: "Done",
    BatchState.FAILED: "Failed",
    BatchState.CANCELLED: "Cancelled",
    BatchState.TIME_LIMIT: "Time limit reached",
    BatchState.UNKNOWN: "Unknown",
    BatchState.GONE: "No longer listed",
}
RUN_LABELS = {"waiting": "Waiting", "running": "Running", "ended": "Ended"}
STATES = {
    "waiting": "waiting",
    "started": "starting",
    "recording": "running",
    "ended": "ended",
    "reading": "being read",
    "done": "done",
    "failed": "failed",
}
"""States of a rank in their order, with labels."""
_STOPPED = {
    "signal": "ended by a signal",
    "cancel": "cancelled",
    "limit": "ended at its time limit",
}


@dataclass(frozen=True)
class SubmissionRow:
    """A submission. badge: a state for the color. position: number of jobs before it in the queue. unreachable_since:
    since when there is no heartbeat."""

    title: str
    scheduler_id: str
    label: str
    state_text: str
    badge: str
    reason: str
    position: str
    hosts: str
    exit_text: str
    unreachable_since: str = ""


@dataclass(frozen=True)
class RankCell:
    """A drawn rank. state: of STATES. is_recorded: whether perf was to record it."""

    state: str
    name: str
    text: str
    is_recorded: bool

    @property
    def title(self) -> str:
        """The tooltip."""
        return " · ".join(part for part in (self.name, self.text) if part)


@dataclass(frozen=True)
class RunProgressRow:
    """One run of the command. counts: (state, its name, how many ranks). hidden_ranks: number of ranks without
    a cell."""

    number: int
    label: str
    state: str
    events: str
    exit_text: str
    ranks: int
    counts: tuple[tuple[str, str, int], ...]
    cells: tuple[RankCell, ...]
    hidden_ranks: int

    @property
    def names_ranks(self) -> bool:
        """Whether ranks have labels, instead of small squares."""
        return len(self.cells) <= MAX_NAMED

    @property
    def summary(self) -> str:
        """The counts as text."""
        return ", ".join(f"{count:,} {name}" for _, name, count in self.counts)


@dataclass(frozen=True)
class RankProblem:
    """A rank with a problem."""

    run: int
    rank: str
    host: str
    text: str


@dataclass(frozen=True)
class ProgressView:
    """The status of a job. observed_at: seconds since the epoch. more_problems: number of problems that are not listed.

    hosts: of its ranks. single: one process without MPI, for which nothing is drawn.
    """

    submissions: tuple[SubmissionRow, ...]
    runs: tuple[RunProgressRow, ...]
    problems: tuple[RankProblem, ...]
    more_problems: int
    notes: tuple[str, ...]
    hosts: tuple[str, ...]
    single: bool
    observed_at: float

    @property
    def change_key(self) -> tuple[Any, ...]:
        """Everything except the clock, for a mark that detects changes."""
        return (self.submissions, self.runs, self.problems, self.more_problems, self.notes, self.hosts)


def load_plan(directory: Path) -> Mapping[str, Any]:
    """The plan of the job in `directory`; empty if there is none (yet)."""
    found = _read(directory / PLAN_FILE)
    return found if isinstance(found, dict) else {}


def plan_command(plan: Mapping[str, Any]) -> str:
    """The command lines of a plan."""
    preview = plan.get("preview")
    return preview if isinstance(preview, str) else ""


def load_progress(directory: Path, plan: Mapping[str, Any], expected: int | None) -> ProgressView | None:
    """The last status of the job in `directory`; None without one. expected: requested number of ranks."""
    data = _read(directory / PROGRESS_FILE)
    if data is None:
        return None
    try:
        job_status = JobStatus.from_json(data)
    except (TypeError, ValueError, KeyError, AttributeError):
        # Written by another version.
        return None
    return build_progress_view(job_status, expected, _events(plan))


def build_progress_view(job_status: JobStatus, expected: int | None, events: dict[int, Sequence[str]]) -> ProgressView:
    """A job status for the page. events: of each planned run, if known."""
    by_run: dict[int, list[RankStatus]] = {number: [] for number in (*events, *(run.run for run in job_status.runs))}
    for rank in job_status.ranks:
        by_run.setdefault(rank.run, []).append(rank)
    known = {run.run: run for run in job_status.runs}
    runs: list[RunProgressRow] = []
    concerns: list[RankProblem] = []
    room = MAX_CELLS
    for number in sorted(by_run):
        run = known.get(number, RunStatus(number, "running" if by_run[number] else "waiting"))
        ranks = sorted(by_run[number], key=lambda rank: (rank.rank is None, rank.rank or 0, rank.host))
        row = _run(run, ranks, expected, events.get(number, ()), room)
        room -= len(row.cells)
        runs.append(row)
        concerns += _concerns(run, ranks, expected)
    return ProgressView(
        submissions=tuple(
            replace(
                _submission(submission, len(job_status.submissions)),
                unreachable_since=_describe_missing_heartbeat(submission, job_status.seen_at),
            )
            for submission in job_status.submissions
        ),
        runs=tuple(runs),
        problems=tuple(concerns[:MAX_PROBLEMS]),
        more_problems=max(0, len(concerns) - MAX_PROBLEMS),
        notes=job_status.notes,
        hosts=tuple(sorted({rank.host for rank in job_status.ranks if rank.host})),
        single=len(runs) <= 1 and expected is None and len(job_status.ranks) <= 1,
        observed_at=job_status.seen_at,
    )


def _submission(submission_status: SubmissionStatus, count: int) -> SubmissionRow:
    batch = submission_status.batch
    title = f"Submission {submission_status.number}" if count > 1 else "Submission"
    reason = _STOPPED.get(submission_status.stopped.partition(" ")[0], submission_status.stopped)
    if batch is None:
        label, badge = ("Ended", "stored") if submission_status.exit_status is not None else ("Running", "running")
        if submission_status.exit_status is None and submission_status.alive is False:
            label, badge = "No longer running", "lost"
        return SubmissionRow(
            title=title,
            scheduler_id=f"process {submission_status.native.split()[0]}" if submission_status.native.strip() else "",
            label=label,
            state_text="",
            badge=badge,
            reason=reason,
            position="",
            hosts=submission_status.host,
            exit_text=_exit(submission_status.exit_status),
        )
    position = "" if batch.position is None else "next" if batch.position == 0 else f"{batch.position:,} ahead"
    return SubmissionRow(
        title=title,
        scheduler_id=batch.id or submission_status.native,
        label=BATCH_LABELS[batch.state],
        state_text=batch.native,
        badge=_badge(batch.state),
        reason=batch.reason or reason,
        position=position if batch.state in (BatchState.PENDING, BatchState.HELD) else "",
        hosts=", ".join(batch.hosts) or submission_status.host,
        exit_text=_exit(
            batch.exit_status if submission_status.exit_status is None else submission_status.exit_status, batch.signal
        ),
    )


def _describe_missing_heartbeat(submission_status: SubmissionStatus, seen_at: float) -> str:
    """A sentence on since when it sends no heartbeat; empty if it does."""
    since = silent_since(submission_status, seen_at)
    return "" if since is None else f"No heartbeat since {format_utc(since)}"


def _badge(state: BatchState) -> str:
    """The job state whose color fits."""
    if state is BatchState.DONE:
        return "stored"
    if state in (BatchState.FAILED, BatchState.TIME_LIMIT):
        return "failed"
    if state in (BatchState.UNKNOWN, BatchState.GONE):
        return "lost"
    return "running" if state is BatchState.RUNNING else "pending"


def _run(
    run: RunStatus, ranks: Sequence[RankStatus], expected: int | None, events: Sequence[str], room: int
) -> RunProgressRow:
    numbered = [(rank.rank or 0, _cell(rank)) for rank in ranks]
    seen = {rank.rank for rank in ranks}
    if expected is not None and None not in seen:
        state, text = ("failed", "never reported") if run.state == "ended" else ("waiting", "not reported yet")
        numbered += [(n, RankCell(state, f"rank {n}", text, True)) for n in range(expected) if n not in seen]
        numbered.sort(key=lambda pair: pair[0])
    cells = [cell for _, cell in numbered]
    counted = Counter(cell.state for cell in cells)
    return RunProgressRow(
        number=run.run,
        label=RUN_LABELS.get(run.state, run.state[:20].capitalize()),
        state={"waiting": "pending", "running": "running", "ended": "stored"}.get(run.state, "pending"),
        events=", ".join(events),
        exit_text=_exit(run.exit_status),
        ranks=len(cells),
        counts=tuple((state, name, counted[state]) for state, name in STATES.items() if counted[state]),
        cells=tuple(cells[: max(0, room)]),
        hidden_ranks=max(0, len(cells) - max(0, room)),
    )


def _cell(rank: RankStatus) -> RankCell:
    failed = rank.exit_status not in (None, 0)
    state = "failed" if failed else rank.state if rank.state in STATES else "started"
    words = [rank.host, _exit(rank.exit_status) if failed else STATES[state]]
    if not rank.recorded:
        words.append("not recorded")
    return RankCell(state, _name(rank), " · ".join(word for word in words if word), rank.recorded)


def _name(rank: RankStatus) -> str:
    return "the host" if rank.rank is None else f"rank {rank.rank}"


def _concerns(run: RunStatus, ranks: Iterable[RankStatus], expected: int | None) -> list[RankProblem]:
    """Ranks that failed, have a note, did not end with the run, or differ from the request."""
    found: list[RankProblem] = []
    seen: set[int] = set()
    for rank in ranks:
        texts = []
        if rank.rank is not None:
            seen.add(rank.rank)
        if rank.exit_status not in (None, 0):
            texts.append(f"Ended with {_exit(rank.exit_status)}.")
        if run.state == "ended" and rank.state in ("started", "recording"):
            texts.append("The run ended, but this rank did not report its end.")
        if expected is not None and rank.size is not None and rank.size != expected:
            texts.append(f"MPI reports {rank.size:,} ranks instead of {expected:,}. Check the MPI launcher.")
        if rank.note:
            texts.append(rank.note)
        if texts:
            name = str(rank.rank) if rank.rank is not None else "all"
            found.append(RankProblem(run.run, name, rank.host, " ".join(texts)))
    if expected is not None and run.state == "ended" and seen:
        missing = [number for number in range(expected) if number not in seen]
        if missing:
            found.append(RankProblem(run.run, format_ranks(missing), "", "No status was reported."))
    return found


def format_ranks(numbers: Sequence[int]) -> str:
    """Ascending numbers as ranges, such as 0–3, 8; if there are many, the first ones."""
    parts = to_ranges(numbers)
    return format_ranges(parts[:12]) + (" …" if len(parts) > 12 else "")


def _exit(status: int | None, signal: int | None = None) -> str:
    if signal is not None:
        return f"signal {signal}"
    if status is None:
        return ""
    # A shell reports a signal as 128 + its number.
    return f"signal {status - 128}" if 128 < status <= 128 + 64 else f"exit status {status}"


def _read(path: Path) -> Any:
    """JSON of a file that another process replaces atomically; None if there is none."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _events(plan: Mapping[str, Any]) -> dict[int, Sequence[str]]:
    """The events of each run, by the plan of a job."""
    runs = plan.get("runs")
    events: dict[int, Sequence[str]] = {}
    for run in runs if isinstance(runs, list) else ():
        if isinstance(run, dict) and isinstance(run.get("run"), int) and isinstance(run.get("events"), list):
            events[run["run"]] = [str(event) for event in run["events"]]
    return events
