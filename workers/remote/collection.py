"""Collecting: complete the recordings at the target, fetch them file by file, and remove the job's directory there.

May be interrupted anywhere: complete files are not fetched again, and nothing is removed there before all files are
here.
"""

import os
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import zstandard

from perfloom.domain.errors import NotFound, Unavailable
from perfloom.domain.jobs import JobSpec, JobState, Outcome
from perfloom.domain.rank_state import parse_state
from perfloom.domain.targets import Target
from perfloom.domain.units import format_bytes
from perfloom.recording.job_status import JobStatus
from perfloom.recording.plan.plan import (
    PollRequest,
    list_script,
    parse_list_output,
    parse_poll_output,
    parse_table_list,
    poll_script,
    symbolize_script,
)
from perfloom.recording.recorders import recorder_of
from perfloom.store.files.disk import remove_tree
from perfloom.store.jobs import Job

from ..base.context import JobContext, StepInterrupted, make_reporter
from ..base.jobfiles import JobFiles
from ..base.json_files import read_json, write_json
from ..base.outcome import RecordingOutcome, explain_no_recording
from ..base.progress import Progress
from ..jobs import transitions
from ..local import supervisor_client
from ..read.rank_folders import BUILD_IDS, PLAN, RECORDING, STATE, TEXTS
from ..targets import cleanup
from ..targets.access import collecting_slot, open_target
from ..transports import FileCopy, Transport
from . import polling, symbol_tables
from .output import RemoteOutput

SYMBOLIZE_TIMEOUT_S = 600.0
"""Timeout of one call that resolves symbols. The script pauses long before, to be continued."""
LIST_S = 120.0
PIECE_BYTES = 1 << 20
MAX_NOTES = 5
MESSAGE_PREFIX = "perfloom: "
"""Prefix of messages of the scripts in the output of a job."""
_NO_RECORDINGS = (STATE, BUILD_IDS)


def collect(context: JobContext, job: Job, files: JobFiles) -> None:
    """Fetch the files of a job that has ended, and have them read, or report why there are none."""
    if job.cancel_requested:
        raise StepInterrupted
    if not job.details.collected:
        target = context.store.targets.get(job.target).target
        with collecting_slot(), open_target(context, target, [job]) as transport:
            _fetch(context, job, files, target, transport, make_reporter(context, job))
        job = _commit(context, job, collected=True)
    if not job.details.cleaned_up:
        # If that cannot be done now, it is done later; the result does not wait for it.
        cleanup.clean_up_job(context, job, over=_all_have_exit_status(files))
        job = _commit(context, job, cleaned_up=True)
    _finish(context, job, files)


def _fetch(
    context: JobContext, job: Job, files: JobFiles, target: Target, transport: Transport, report: Progress
) -> None:
    """Fetch the output and the files of the job."""
    directory = job.details.directory
    _fetch_output(files, job, transport)
    while True:
        report(None, f"Resolving symbols on {transport.title}")
        done = transport.run(symbolize_script(directory), timeout_s=SYMBOLIZE_TIMEOUT_S)
        if done.text.split()[-1:] != ["more"]:
            break
    done = transport.run(list_script(directory, job.job_spec), timeout_s=LIST_S)
    if done.status != 0:
        # What is not listed is not fetched, and is removed with the directory.
        message = " ".join(done.errors.split())[-300:] or "no reason was given"
        raise Unavailable(f"The recorded files on {transport.title} cannot be listed: {message}")
    files_there = parse_list_output(done.stdout, job.job_spec)
    copies = [
        FileCopy(f"{directory}/{path}", files.artifacts / path, size)
        for path, size in files_to_fetch(files_there, job.job_spec)
    ]
    tables = _plan_tables(context, files, target, directory, done.stdout)
    copies += tables.copies.values() if tables else ()
    _check_room(context, files, copies)
    what = "the recording and symbol tables" if tables else f"{len(copies)} files"
    report(0.0, f"Fetching {what} from {transport.title}")
    try:
        transport.get(copies, report)
    except NotFound as error:
        # A script that still reads a recording there replaces it with its text: then list the files again.
        raise Unavailable(error.message) from None
    if tables:
        tables.keep(_measure_room(context, files))
        remove_tree(files.root / symbol_tables.INCOMING)
    if symbols := symbol_tables.open_target_symbols(context.settings.data, target):
        symbol_tables.note_use(symbols, files.collected_files())


def _plan_tables(
    context: JobContext, files: JobFiles, target: Target, directory: str, listed: bytes
) -> symbol_tables.TableFetch | None:
    """What to fetch of the symbol tables that ranks left; None if none did."""
    found = parse_table_list(listed)
    cache = symbol_tables.open_target_symbols(context.settings.data, target) if found else None
    return symbol_tables.plan_fetch(cache, found, directory, files.root / symbol_tables.INCOMING) if cache else None


def _fetch_output(files: JobFiles, job: Job, transport: Transport) -> None:
    """Fetch what the program printed last."""
    last = polling.read_last_status(files) or JobStatus()
    for _ in range(2 + (supervisor_client.HEAD_BYTES + supervisor_client.TAIL_BYTES) // PIECE_BYTES):
        output = RemoteOutput(files)
        start = output.next_offset(last.output_bytes, PIECE_BYTES)
        request = PollRequest(job.id, job.details.directory, start, ())
        done = transport.run(poll_script([request], PIECE_BYTES), limit_bytes=polling.POLL_BYTES)
        result = parse_poll_output([request], done.stdout).get(job.id)
        if result is not None and not result.directory_exists:
            raise NotFound(polling.directory_gone(job))
        if result is None or not result.output:
            return
        output.append(result.output, start)
        last = replace(last, output_bytes=result.status.output_bytes)


def files_to_fetch(files: Sequence[tuple[str, int]], spec: JobSpec) -> list[tuple[str, int]]:
    """The files to fetch: recordings only if they are to be kept, or have no text."""
    texts = {str(PurePosixPath(path).parent) for path, _ in files if PurePosixPath(path).name in TEXTS}
    return [
        (path, size)
        for path, size in files
        if PurePosixPath(path).name != RECORDING or spec.keep_recordings or str(PurePosixPath(path).parent) not in texts
    ]


def _check_room(context: JobContext, files: JobFiles, copies: Sequence[FileCopy]) -> None:
    missing = sum(copy.bytes or 0 for copy in copies if _size(copy.local) != copy.bytes)
    room = _measure_room(context, files)
    if missing > room:
        raise Unavailable(
            f"Not enough disk space here for the recording: it has {format_bytes(missing)} more, but the disk of "
            f"{context.settings.data} has {format_bytes(room)} left. Delete results or other files."
        )


def _measure_room(context: JobContext, files: JobFiles) -> int:
    """Free disk space here that may be used, bytes."""
    disk = os.statvfs(files.artifacts)
    return max(0, disk.f_bavail * disk.f_frsize - context.settings.reserve_bytes)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _all_have_exit_status(files: JobFiles) -> bool:
    """Whether every submission wrote its exit status. Others only do not run any more."""
    job_status = polling.read_last_status(files)
    return job_status is not None and all(submission.exit_status is not None for submission in job_status.submissions)


def _commit(context: JobContext, job: Job, **more: Any) -> Job:
    details = replace(job.details, **more)
    if not context.store.jobs.update(job.id, expected=JobState.COLLECTING, details=details):
        raise StepInterrupted
    return replace(job, details=details)


def _finish(context: JobContext, job: Job, files: JobFiles) -> None:
    """Have the job read, or end it if nothing was recorded."""
    recordings = [path for path in files.collected_files() if path.name not in _NO_RECORDINGS]
    empty = not any(_has_content(path) for path in recordings)
    if not recordings or (empty and transitions.has_failed(job)):
        finish_without_recording(context, job, files)
        return
    outcome = job.outcome or Outcome()
    plan = read_json(files.artifacts / PLAN) or {}
    write_json(files.artifacts / PLAN, plan | {"told": outcome.cancelled or outcome.time_limit})
    transitions.send_to_reading(context, job, empty=empty, perf_killed=_perf_killed(files))


def _has_content(path: Path) -> bool:
    """Whether there is a sample, or a count. A recording with its text has the same content; without it, the reader
    checks it."""
    if path.name == RECORDING:
        return not any((path.parent / text).exists() for text in TEXTS)
    try:
        return transitions.has_samples(path)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError):
        # It is damaged: the reader reports this, with its rank.
        return True


def finish_without_recording(context: JobContext, job: Job, files: JobFiles) -> None:
    """Nothing was recorded: report why, as far as it is known."""
    job_status = polling.read_last_status(files) or JobStatus()
    notes = [note for note in dict.fromkeys(rank.note for rank in job_status.ranks) if note][:MAX_NOTES]

    def explain() -> str:
        reason = _why(job, files)
        # A program that does not exist explains everything else that went wrong.
        more = (
            [_search_path(job.job_spec)] if "cannot be executed" in reason else [*job_status.notes[:MAX_NOTES], *notes]
        )
        return " ".join((reason, *(text for text in more if text and text not in reason)))

    transitions.finish_without_recording(context, job, files, explain, notes)


def _search_path(spec: JobSpec) -> str:
    """Where a command that does not exist was searched."""
    name = spec.command[0] if spec.command else "/"
    if name.startswith("/"):
        return ""
    if "/" not in name:
        return f"It was searched on PATH at {spec.target}."
    if spec.cwd:
        return f"It was searched in {spec.cwd} at {spec.target}."
    return (
        f"It was searched in the job's directory at {spec.target}. Use its absolute path or a working directory, or "
        "add it as an input file."
    )


def _why(job: Job, files: JobFiles) -> str:
    """Why nothing was recorded: the messages of Perfloom's scripts, else that of the program that failed."""
    spec, outcome, output = job.job_spec, job.outcome or Outcome(), files.tail()
    messages = [line.removeprefix(MESSAGE_PREFIX) for line in output.splitlines() if line.startswith(MESSAGE_PREFIX)]
    if messages:
        return " ".join(dict.fromkeys(messages))
    recorder = recorder_of(spec)
    if recorder.nothing_recorded and outcome.exit_status == 0:
        return recorder.nothing_recorded
    program = f"The MPI launcher ({spec.mpi.flavour})" if spec.mpi else recorder.program_title
    wrote = any(path.name not in _NO_RECORDINGS for path in files.collected_files())
    ending = RecordingOutcome(outcome, outcome.reasons, perf_killed=_perf_killed(files))
    return explain_no_recording(ending, output, program, wrote=wrote)


def _perf_killed(files: JobFiles) -> bool:
    """Whether a signal ended the perf of some rank, so that its buffer was not written."""
    states = (path for path in files.collected_files() if path.name == STATE)
    return any(parse_state(path.read_bytes()).perf_signal is not None for path in states)
