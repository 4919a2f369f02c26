"""Leaving a target: what still runs there is ended, and the job's directory removed.

What cannot be done now is noted in files of the data directory, one for each job, and done when the target is next
reached.
"""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from perfloom.config import Settings
from perfloom.domain.errors import PerfloomError
from perfloom.domain.isolation import ProtectedServer
from perfloom.domain.targets import Target
from perfloom.recording.plan.plan import remove_script
from perfloom.recording.plan.submission import job_name
from perfloom.store.ids import is_id
from perfloom.store.jobs import Job

from ..context import JobContext
from ..local.supervisor import read_json, write_json
from ..transports import Transport
from . import batch
from .access import open_target

CLEANUP_FOLDER = ".left"
REMOVE_TIMEOUT_S = 120.0

log = logging.getLogger(__name__)


def clean_up_job(context: JobContext, job: Job, *, over: bool = False) -> None:
    """Remove a job's directory at its target. Notes where that cannot be done now.

    over: it is known that nothing of it runs. Otherwise it is ended first: a program must not lose its directory.
    """
    if not job.details.directory:
        return
    left = _left(job)
    try:
        target = context.store.targets.get(job.target).target
        with open_target(context, target, [job]) as transport:
            gone = _removed(transport, left) if over else _clear(transport, target, left)
    except PerfloomError as error:
        log.warning("job %s: %s", job.id, error.message)
        gone = False
    if not gone:
        _write(context.settings, job.id, left)


def remove_directory(transport: Transport, directory: str) -> bool:
    """Remove a job's directory; False where something of it is still there."""
    return transport.run(remove_script(directory), timeout_s=REMOVE_TIMEOUT_S).status == 0


def clean_up_target(context: JobContext, target: Target) -> None:
    """See to what was left at a target that can be reached now. Raises nothing."""
    for path, left in _noted(context.settings):
        if left.get("target") != target.name:
            continue
        try:
            # Where a password is asked for, that of the job itself.
            job = context.store.jobs.find(str(left.get("id")))
            server = ProtectedServer.from_request(left.get("server"))
            with open_target(context, target, [job] if job else [], server) as transport:
                if _clear(transport, target, left):
                    path.unlink(missing_ok=True)
        except (PerfloomError, OSError) as error:
            log.info("%s could not be removed at %s: %s", left.get("directory"), target.name, error)
            return


def targets_to_clean_up(settings: Settings) -> tuple[str, ...]:
    """The names of the targets at which something was left. What is too old is given up."""
    found = []
    for path, left in _noted(settings):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > settings.unreachable_seconds:
                path.unlink()
            else:
                found.append(str(left.get("target")))
    return tuple(dict.fromkeys(found))


def _left(job: Job) -> dict[str, Any]:
    return {
        "target": job.target,
        "directory": job.details.directory,
        "id": job.id,
        "submissions": {str(number): id for number, id in job.details.submission_ids.items()},
        "begun": job.details.begun,
        "keep": job.job_spec.leave_files,
        "server": job.details.server.to_json() if job.details.server else None,
    }


def _clear(transport: Transport, target: Target, left: dict[str, Any]) -> bool:
    if left["begun"]:
        known = left["submissions"]
        # What was handed over and never said what it is called goes by its name.
        found = (
            known.get(str(k)) or batch.find_by_name(transport, target, job_name(left["id"], k))
            for k in range(left["begun"])
        )
        batch.cancel_jobs(transport, target, [id for id in found if id], [left["directory"]], gently=False)
    return _removed(transport, left)


def _removed(transport: Transport, left: dict[str, Any]) -> bool:
    """Whether nothing of its directory is there (any more), or all of it is to stay."""
    return left["keep"] or remove_directory(transport, left["directory"])


def _write(settings: Settings, job_id: str, left: dict[str, Any]) -> None:
    folder = settings.data / "jobs" / CLEANUP_FOLDER
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        write_json(folder / job_id, left)


def _noted(settings: Settings) -> Iterator[tuple[Path, dict[str, Any]]]:
    folder = settings.data / "jobs" / CLEANUP_FOLDER
    with suppress(OSError):
        for name in sorted(os.listdir(folder)):
            left = read_json(folder / name) if is_id(name) else None
            if left is not None:
                yield folder / name, left
