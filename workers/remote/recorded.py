"""What a job that runs by scripts has recorded so far, for its page."""

import logging
from pathlib import Path

from perfloom.domain.rank_state import RECORDING_FILE, is_rank_folder, parse_run_folder
from perfloom.recording.job_status import JobStatus
from perfloom.recording.recorders import recorder_of
from perfloom.recording.samples_so_far import describe_written
from perfloom.store.jobs import Job

from ..base.context import JobContext
from ..base.jobfiles import JobFiles
from ..base.sample_progress import update_progress

log = logging.getLogger(__name__)


def describe_recorded(context: JobContext, job: Job, files: JobFiles, job_status: JobStatus) -> str:
    """Samples and their rate if the recordings are on this machine, else bytes; empty if nothing is known. A fault is
    logged: it must not fail the job."""
    if not recorder_of(job.job_spec).samples:
        return ""
    try:
        recordings = _find_recordings(Path(job.details.directory)) if _is_countable(context, job) else {}
        if recordings:
            return update_progress(files.run, recordings).text
        return describe_written(job.job_spec, job_status)
    except Exception:
        log.exception("what the job %s has recorded cannot be described", job.id)
        return ""


def _is_countable(context: JobContext, job: Job) -> bool:
    """Whether its recordings are on disks of this machine, and belong to the worker's user. Compute nodes of a batch
    system write over a network file system; to read what they write would slow them down."""
    target = context.store.targets.get(job.target).target
    # The files of another user are not read: links in its directories could lead anywhere.
    return target.is_local and not target.scratch and not context.settings.run_as


def _find_recordings(directory: Path) -> dict[str, Path]:
    """The perf.data of each rank, by run and rank."""
    found = {}
    for path in sorted(directory.glob(f"run*/*/{RECORDING_FILE}")):
        run, place = parse_run_folder(path.parent.parent.name), path.parent.name
        if run is not None and is_rank_folder(place):
            found[f"{run}/{place}"] = path
    return found
