"""The script that polls many jobs at once, and the parser of its output.

For each job it prints `job ID`, `there`, `gone` or `hidden`, a line for each heartbeat and each process of job.sh, then
three pieces with their length before them: all state files, one per line, the sizes of recordings, and new output. The
pieces are delimited by length, because a program's output is arbitrary.
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...domain.rank_state import is_rank_folder, parse_run_folder
from ...domain.targets import BatchStatus
from ..job_status import JobStatus, RankStatus, RunStatus, SubmissionStatus
from ..quoting import quote
from ..scripts import script_text

MAX_NOTES = 100
MAX_BYTES = 1 << 63
_SIZE = re.compile(r"8[0-9a-f]{3} ([0-9]{1,20}) (\./run[^/]*/[^/]*)/perf\.data", re.ASCII)
"""A line of `stat`: the type and mode of a regular file, its size and its path."""
_SUB = re.compile(r"sub([0-9]{1,6})\.state", re.ASCII)
_LIFE = re.compile(rb"life \./sub([0-9]{1,6})\.life ([0-9]{1,20})", re.ASCII)
_WHO = re.compile(rb"who \./sub([0-9]{1,6})\.id ([0-9]{1,10}) ([0-9]{1,20}) ([\w-]{1,64}) (yes|no|unknown)", re.ASCII)


@dataclass(frozen=True)
class PollRequest:
    """A job to poll: its directory at the target, and how many bytes of its output were already fetched. native_ids:
    the batch system's ids of its submissions, by number."""

    id: str
    directory: str
    output_offset: int
    native_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class PollResult:
    """The result of a poll for one job. output: new output. directory_exists: whether its directory exists."""

    status: JobStatus
    output: bytes
    directory_exists: bool


def poll_script(jobs: Sequence[PollRequest], most_output: int) -> str:
    """sh: print the status of all these jobs, and at most `most_output` bytes of new output of each."""
    calls = [f"pl_look {quote(j.id)} {quote(j.directory)} {int(j.output_offset)} {int(most_output)}" for j in jobs]
    return "\n".join((script_text("plan/poll.sh"), *calls)) + "\n"


def parse_poll_output(jobs: Sequence[PollRequest], stdout: bytes) -> Mapping[str, PollResult]:
    """The results in the output of `poll_script`, by job id. Jobs whose part is missing or incomplete are left out."""
    reader = _Reader(stdout)
    poll_output: dict[str, PollResult] = {}
    for job in jobs:
        try:
            poll_output[job.id] = _parse_job(job, reader)
        except (ValueError, IndexError):
            break
    return poll_output


class _Reader:
    """Reads lines and pieces from the front of the output."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def line(self) -> bytes:
        end = self._data.index(b"\n", self._at)
        line, self._at = self._data[self._at : end], end + 1
        return line

    def piece(self, size: int) -> bytes:
        """A piece of that many bytes; skips the line break after it."""
        piece = self._data[self._at : self._at + size]
        self._at += size + 1
        if size < 0 or self._at > len(self._data) or self._data[self._at - 1 : self._at] != b"\n":
            raise ValueError("cut short")
        return piece


def _parse_job(job: PollRequest, reader: _Reader) -> PollResult:
    if reader.line() != b"job " + job.id.encode():
        raise ValueError("another job")
    there = reader.line()
    if there == b"gone":
        return PollResult(JobStatus(), b"", directory_exists=False)
    if there == b"hidden":
        note = f"The job's directory {job.directory} is not accessible at the moment."
        return PollResult(JobStatus(notes=(note,)), b"", directory_exists=True)
    beats: dict[int, str] = {}
    while life := _LIFE.fullmatch(line := reader.line()):
        beats[int(life[1])] = life[2].decode()
    alive: dict[int, tuple[str, bool | None]] = {}
    while match := _WHO.fullmatch(line):
        native = b" ".join(match.group(2, 3, 4)).decode()
        alive[int(match[1])] = (native, {b"yes": True, b"no": False}.get(match[5]))
        line = reader.line()
    states = reader.piece(_number(line, b"states", 1)).decode(errors="replace")
    sizes = reader.piece(_number(reader.line(), b"sizes", 1)).decode(errors="replace")
    heading = reader.line()
    size, count = _number(heading, b"output", 1), _number(heading, b"output", 2)
    output = reader.piece(count)
    if reader.line() != b"end":
        raise ValueError("no end")
    job_status = _job_status(job, states, _parse_sizes(sizes), alive, beats, size)
    return PollResult(job_status, output, directory_exists=True)


def _number(line: bytes, key: bytes, place: int) -> int:
    words = line.split()
    if words[0] != key:
        raise ValueError(f"no {key.decode()}")
    return int(words[place])


def _parse_sizes(text: str) -> dict[str, int]:
    """The sizes of growing recordings, by the folder of the rank."""
    matches = [match for line in text.split("\n") if (match := _SIZE.fullmatch(line))]
    return {match[2]: size for match in matches if (size := _bytes(match[1])) is not None}


def _bytes(text: str | None) -> int | None:
    """A size in bytes that a file can have."""
    size = _int(text)
    return size if size is not None and size < MAX_BYTES else None


def _job_status(
    job: PollRequest,
    states: str,
    sizes: Mapping[str, int],
    alive: Mapping[int, tuple[str, bool | None]],
    beats: Mapping[int, str],
    size: int,
) -> JobStatus:
    submissions = {number: SubmissionStatus(number, native, alive=lives) for number, (native, lives) in alive.items()}
    submissions |= {n: SubmissionStatus(n, "") for n in range(len(job.native_ids)) if n not in submissions}
    found_runs: list[RunStatus] = []
    ranks: list[RankStatus] = []
    written = dict(sizes)
    folders: list[str] = []
    notes: list[str] = []
    for line in states.split("\n"):
        path, *fields = line.split("\t")
        values = {key: value for key, _, value in (field.partition(" ") for field in fields) if key != "note"}
        notes_of_file = [value for key, _, value in (field.partition(" ") for field in fields) if key == "note"]
        match path.split("/"):
            case [".", folder, place, "state"] if (run := parse_run_folder(folder)) is not None and is_rank_folder(
                place
            ):
                ranks.append(_rank(run, place, values, notes_of_file))
                folders.append(f"./{folder}/{place}")
            case [".", folder, place, "written"] if (own := _bytes(values.get("written"))) is not None:
                written[f"./{folder}/{place}"] = own
            case [".", folder, "state"] if (run := parse_run_folder(folder)) is not None:
                found_runs.append(_run(run, values))
                notes += notes_of_file
            case [".", file] if sub := _SUB.fullmatch(file):
                number = int(sub[1])
                submissions[number] = replace(
                    submissions.get(number) or SubmissionStatus(number, ""),
                    host=values.get("host", ""),
                    exit_status=_int(values.get("exit")),
                    stopped=values.get("stopped", ""),
                )
                notes += notes_of_file
    ranks = [
        rank if rank.written is not None else replace(rank, written=written.get(folder))
        for rank, folder in zip(ranks, folders, strict=True)
    ]
    for number, native in enumerate(job.native_ids):
        submissions[number] = replace(submissions[number], native=native)
    # For a job with one submission, changes of its output and state files count as heartbeats, too.
    more = f" {size} {zlib.crc32(states.encode())}" if len(submissions) == 1 else ""
    for number, submission in submissions.items():
        submissions[number] = replace(submission, life=f"{beats.get(number, '')}{more}")
    return JobStatus(
        submissions=tuple(submissions[number] for number in sorted(submissions)),
        runs=tuple(sorted(found_runs, key=lambda run: run.run)),
        ranks=tuple(
            sorted(
                ranks,
                key=lambda submission: (submission.run, submission.rank is None, submission.rank or 0, submission.host),
            )
        ),
        output_bytes=size,
        notes=tuple(dict.fromkeys(notes))[:MAX_NOTES],
    )


def _run(number: int, known: Mapping[str, str]) -> RunStatus:
    return RunStatus(
        number,
        "ended" if "exit" in known else "running",
        exit_status=_int(known.get("exit")),
        started_ns=_int(known.get("start")),
        ended_ns=_int(known.get("end")),
    )


def _rank(run: int, place: str, known: Mapping[str, str], notes_of_file: Sequence[str]) -> RankStatus:
    text = known.get("text", "")
    notes = [*notes_of_file, *([text.removeprefix("failed ")] if text.startswith("failed") else [])]
    signal = _int(known.get("signal"))
    return RankStatus(
        run,
        int(place) if place.isdigit() else None,
        known.get("host", ""),
        known.get("state", "started"),
        exit_status=_int(known.get("exit")) if signal is None else 128 + signal,
        started_ns=_int(known.get("start")),
        ended_ns=_int(known.get("end")),
        recorded=known.get("recorded", "1") != "0",
        size=_int(known.get("size")),
        note=" ".join(notes),
        stopped=known.get("stopped", ""),
        perf_killed="killed" in known,
        written=_bytes(known.get("written")),
    )


def _int(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,20}", text, re.ASCII) else None


def with_batch_status(job_status: JobStatus, statuses: Mapping[str, BatchStatus]) -> JobStatus:
    """The job status with the batch system's status of each submission, by native id."""
    return replace(
        job_status,
        submissions=tuple(
            replace(submission, batch=statuses.get(submission.native, submission.batch))
            for submission in job_status.submissions
        ),
    )
