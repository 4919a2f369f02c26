"""What was recorded so far, as text: samples or bytes, their rate, and how they are distributed over ranks. Pure.

The samples in files at a target are not counted: perf compresses them, and a shell cannot decompress them. The sizes of
the files are known there without reading them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..domain.jobs import JobSpec
from ..domain.units import NO_BREAK_SPACE, format_bytes
from .job_status import JobStatus, RankStatus

NOTHING_WRITTEN = "no samples written yet: perf writes them when a buffer is half full"
TARGET_WINDOW_S = 15.0
"""The time for the rate of bytes at a target. Network file systems show sizes some seconds late, and so do ranks that
record on their own disk."""
_MAX_POINTS = 32

Point = tuple[float, int]
"""(time in seconds since the epoch, a number of samples or bytes)."""


def add_point(points: Sequence[Point], time: float, value: int) -> tuple[Point, ...]:
    """The points with one more, if its value is new; the last ones."""
    if points and points[-1][1] == value:
        return tuple(points)
    return (*points, (time, value))[-_MAX_POINTS:]


def format_rate(points: Sequence[Point], now: float, window_s: float, form: Callable[[float], str]) -> str:
    """The rate in the last `window_s`, or between the last two changes if these are further apart: "498 per second
    (last 5 s)". Empty if it is unknown, and if nothing has changed for longer than that."""
    if len(points) < 2:
        return ""
    last = points[-1]
    recent = [point for point in points if last[0] - point[0] <= window_s]
    first = recent[0] if len(recent) > 1 else points[-2]
    seconds = last[0] - first[0]
    if seconds <= 0 or last[1] < first[1] or now - last[0] > max(window_s, 2 * seconds):
        return ""
    return f"{form((last[1] - first[1]) / seconds)} per second (last {max(1, round(seconds))}{NO_BREAK_SPACE}s)"


def format_number(value: float) -> str:
    """A number of samples."""
    return f"{value:,.0f}"


def describe_ranks(values: Mapping[str, int], form: Callable[[float], str], noun: str = "ranks") -> str:
    """How many ranks have written something, and the least and the most; empty for a single one. values: by name."""
    written = {name: value for name, value in values.items() if value > 0}
    if len(values) < 2:
        return ""
    if len(written) < 2:
        return f"{len(written):,} of {len(values):,} {noun} have written"
    text = f"{len(written):,} {noun}"
    if len(written) < len(values):
        text = f"{len(written):,} of {len(values):,} {noun} have written"
    least, most = min(written, key=written.__getitem__), max(written, key=written.__getitem__)
    if written[least] == written[most]:
        return f"{text}, {form(written[most])} each"
    return f"{text}, from {form(written[least])} ({least}) to {form(written[most])} ({most})"


def with_written(job_status: JobStatus, last: JobStatus | None) -> JobStatus:
    """The job status with the history of `written`, and with ranks that have written no less than in the last status:
    the files of a rank are moved or removed after its end."""
    before = {_key(rank): rank.written or 0 for rank in last.ranks} if last else {}
    ranks = tuple(
        replace(rank, written=max(rank.written or 0, known)) if (known := before.get(_key(rank), 0)) else rank
        for rank in job_status.ranks
    )
    history = last.written if last else ()
    if total := sum(rank.written or 0 for rank in ranks):
        history = add_point(history, job_status.seen_at, total)
    return replace(job_status, ranks=ranks, written=history)


def describe_written(spec: JobSpec, job_status: JobStatus) -> str:
    """The bytes that the ranks of a job at a target have written so far; empty if that is unknown."""
    if not job_status.written:
        return ""
    rate = format_rate(job_status.written, job_status.seen_at, TARGET_WINDOW_S, format_bytes)
    latest = max(rank.run for rank in job_status.ranks) if job_status.ranks else 0
    values = {name_of(rank): rank.written or 0 for rank in job_status.ranks if rank.run == latest and rank.recorded}
    noun = "hosts" if spec.mpi is not None and spec.mpi.per_host else "ranks"
    total = f"{format_bytes(job_status.written[-1][1])} of samples so far"
    return " · ".join(part for part in (total, rate, describe_ranks(values, format_bytes, noun)) if part)


def name_of(rank: RankStatus) -> str:
    """The name of a rank, or of a host's one recording."""
    return rank.host if rank.rank is None else f"rank{NO_BREAK_SPACE}{rank.rank}"


def _key(rank: RankStatus) -> tuple[int, int | None, str]:
    return (rank.run, rank.rank, rank.host)
