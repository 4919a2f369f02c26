"""Putting right what crashes left: results without rows, recordings that were stored and not removed, and the like."""

import contextlib
import logging
import time

from perfloom.domain.errors import NotFound, PerfloomError
from perfloom.domain.jobs import JobState
from perfloom.store.files.disk import remove_tree
from perfloom.store.ids import is_id
from perfloom.workers.local.jobfiles import JobFiles
from perfloom.workers.road import Road

OWNERLESS_S = 24 * 3600.0
"""A directory of a job that the catalogue does not know is removed when it is older: an upload may be under way."""

log = logging.getLogger(__name__)


def tidy(road: Road) -> None:
    """Everything, once. May be interrupted, and done by several at a time."""
    road.store.results.sweep()
    _job_directories(road)
    for id in road.store.results.to_compress():
        with contextlib.suppress(NotFound):
            road.store.results.compress(id)


def _job_directories(road: Road) -> None:
    for path in (road.settings.data / "jobs").iterdir():
        if not is_id(path.name) or not path.is_dir():
            continue
        try:
            job = road.store.jobs.find(path.name)
            if job is None:
                if time.time() - path.stat().st_mtime > OWNERLESS_S:
                    remove_tree(path)
            elif job.state is JobState.STORED:
                # What was recorded lies with the result now.
                remove_tree(JobFiles(path).artefacts)
        except (OSError, PerfloomError) as error:
            log.warning("job directory %s: %s", path.name, error)
