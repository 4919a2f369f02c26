"""Repair after crashes: results without rows, stored recordings that were not removed, and the like."""

import contextlib
import logging
import time

from perfloom.domain.errors import NotFound, PerfloomError
from perfloom.domain.jobs import JobState
from perfloom.store.files.disk import remove_tree
from perfloom.store.ids import is_id

from .base.context import JobContext
from .base.jobfiles import JobFiles

ORPHAN_AGE_S = 24 * 3600.0
"""A job directory without a job in the database is removed after this time: an upload may be in progress."""

log = logging.getLogger(__name__)


def recover(context: JobContext) -> None:
    """Repair everything, once. May be interrupted, and run by several processes at a time."""
    context.store.results.recover()
    _job_directories(context)
    # Imports pyarrow.
    from . import code_files

    code_files.resume_requests(context)
    for id in context.store.results.list_uncompressed():
        with contextlib.suppress(NotFound):
            context.store.results.compress(id)


def _job_directories(context: JobContext) -> None:
    for path in (context.settings.data / "jobs").iterdir():
        if not is_id(path.name) or not path.is_dir():
            continue
        try:
            job = context.store.jobs.find(path.name)
            if job is None:
                if time.time() - path.stat().st_mtime > ORPHAN_AGE_S:
                    remove_tree(path)
            elif job.state is JobState.STORED and not context.store.results.is_code_expected(job.id):
                # The recording is in the result now, and no process reads its code.
                remove_tree(JobFiles(path).artifacts)
        except (OSError, PerfloomError) as error:
            log.warning("job directory %s: %s", path.name, error)
