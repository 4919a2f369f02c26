"""The steps of jobs that a supervisor runs on this machine: start the program, poll it, resolve its symbols."""

import time
from dataclasses import replace
from pathlib import Path

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.jobs import JobState, Outcome
from perfloom.domain.rank_state import COUNTS_FILE, RECORDING_FILE
from perfloom.domain.units import format_bytes
from perfloom.recording.recorders import perf_record, recorder_of
from perfloom.store.jobs import Job

from ..base.context import JobContext, StepInterrupted, make_reporter
from ..base.jobfiles import JobFiles
from ..base.outcome import RecordingOutcome, explain_no_recording
from ..base.sample_progress import update_progress
from ..jobs.transitions import (
    ExecutorSteps,
    finish_without_recording,
    has_failed,
    has_samples,
    runs_on_other_host,
    send_to_reading,
)
from . import launch, outcome, supervisor_client
from .intervals import format_last_interval


def stage(context: JobContext, job: Job, files: JobFiles) -> None:
    """Start the program."""
    if not runs_on_other_host(context, job):
        launch.launch(context, job, files)


def poll(context: JobContext, job: Job, files: JobFiles) -> None:
    """Poll the program; forward a cancellation."""
    if runs_on_other_host(context, job):
        return
    supervisor_status = supervisor_client.read_status(files)
    if supervisor_status.exit is not None or not supervisor_status.alive:
        if supervisor_status.exit is not None:
            ending = outcome.parse_exit(supervisor_status.exit, job.job_spec, cancel_requested=job.cancel_requested)
        else:
            supervisor_client.clean_up(files, job.id)
            ending = outcome.supervisor_lost()
        details = replace(
            job.details,
            incomplete_reasons=ending.incomplete_reasons,
            start_error=ending.error,
            perf_killed=ending.perf_killed,
            is_lost=supervisor_status.exit is None,
            failures=0,
        )
        # The cancellation is done; another one is for the steps that follow.
        context.store.jobs.transition(
            job.id,
            JobState.RUNNING,
            JobState.COLLECTING,
            outcome=ending.outcome,
            details=details,
            cancel_requested=False,
            due_at=time.time(),
        )
        return
    if job.cancel_requested:
        supervisor_client.request_stop(files)
    now = time.time()
    elapsed = now - (job.started or now)
    limit = job.job_spec.duration_s
    context.store.jobs.update(
        job.id,
        expected=JobState.RUNNING,
        progress=min(1.0, elapsed / limit) if limit else None,
        progress_text="Ending" if job.cancel_requested else _recorded_so_far(job, files),
        due_at=now + (0.2 if job.cancel_requested else min(2.0, max(0.2, elapsed / 10))),
    )


def _recorded_so_far(job: Job, files: JobFiles) -> str:
    """The progress text: the samples so far, the last interval of counts, else the size of the files."""
    spec, paths = job.job_spec, files.recorded_files()
    recorder = recorder_of(spec)
    if recorder.samples:
        recording = next((path for path in paths if path.name == RECORDING_FILE), None)
        return f"Recording: {update_progress(files.run, {'0/all': recording} if recording else {}).text}"
    if recorder.counts and spec.interval_ms is not None and paths:
        interval = format_last_interval(paths[0])
        if interval:
            return f"Counting, {interval}"
    size = sum(path.stat().st_size for path in paths)
    return f"Recording: {format_bytes(size)} so far" if size else "Recording"


def collect(context: JobContext, job: Job, files: JobFiles) -> None:
    """The program has ended: print its samples as text, on the machine that recorded them."""
    if runs_on_other_host(context, job):
        return
    if job.cancel_requested:
        raise StepInterrupted
    spec, recorder = job.job_spec, recorder_of(job.job_spec)
    paths = {path.name: path for path in files.recorded_files()}
    artifacts = recorder.artifacts(spec)
    if artifacts[0].name not in paths:
        end_without_recording(context, job, files)
        return
    from ..read import reading  # Brings the readers, which other steps do not need.

    report = make_reporter(context, job)
    report(None, "Resolving symbols")
    text = paths[artifacts[0].name]
    try:
        if not artifacts[0].text:
            text = reading.symbolize(context.settings, context.facts().perf, text, files.artifacts, report)
        empty = not has_samples(text)
    except UnreadableInput:
        if _cut_short(job):
            end_without_recording(context, job, files)
            return
        raise
    if empty and has_failed(job):
        end_without_recording(context, job, files)
        return
    if perf_record.has_nested_stat(job.argv or ()) and COUNTS_FILE not in paths:
        # The title of what perf stat prints: without counts below it, it is a loss.
        (files.artifacts / COUNTS_FILE).write_text(" Performance counter stats for 'a command':\n\n")
    send_to_reading(context, job, empty=empty, perf_killed=job.details.perf_killed)


def _cut_short(job: Job) -> bool:
    return bool(job.details.incomplete_reasons or job.details.is_lost or job.details.start_error)


def end_without_recording(context: JobContext, job: Job, files: JobFiles) -> None:
    """Nothing was recorded: report why, as far as it is known."""

    def explain() -> str:
        details = job.details
        ending = RecordingOutcome(
            job.outcome or Outcome(), details.incomplete_reasons, details.start_error, details.perf_killed
        )
        recorder = Path((job.argv or ("perf",))[0]).name
        return explain_no_recording(ending, files.tail(), recorder, wrote=bool(files.recorded_files()))

    finish_without_recording(context, job, files, explain)


STEPS = ExecutorSteps(
    steps={JobState.STAGING: stage, JobState.RUNNING: poll, JobState.COLLECTING: collect},
    recorded=JobFiles.recorded_files,
    merges_ranks=False,
    finish_without_recording=end_without_recording,
)
