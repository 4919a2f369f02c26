"""Clean-up of a target: end what still runs of a job, and remove its directory.

What cannot be done now is stored in the data directory, in one file for each job, and done when the target is next
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

from ..base.context import JobContext
from ..base.json_files import read_json, write_json
from ..transports import Transport
from . import batch
from .access import open_target

CLEANUP_FOLDER = ".left"
REMOVE_TIMEOUT_S = 120.0

log = logging.getLogger(__name__)


def clean_up_job(context: JobContext, job: Job, *, over: bool = False) -> None:
    """Remove a job's directory at its target, now or when it is next reached.

    over: nothing of it runs. Otherwise it is ended first: a program must not lose its directory.
    """
    if not job.details.directory:
        return
    record = _cleanup_record(job)
    try:
        target = context.store.targets.get(job.target).target
        with open_target(context, target, [job]) as transport:
            is_removed = _remove(transport, record) if over else _end_and_remove(transport, target, record)
    except PerfloomError as error:
        log.warning("job %s: %s", job.id, error.message)
        is_removed = False
    if not is_removed:
        _save_record(context.settings, job.id, record)


def remove_directory(transport: Transport, directory: str) -> bool:
    """Remove a job's directory; False if something of it still exists."""
    return transport.run(remove_script(directory), timeout_s=REMOVE_TIMEOUT_S).status == 0


def clean_up_target(context: JobContext, target: Target) -> None:
    """Remove what remains at a target that can be reached now. Raises nothing."""
    for path, record in _records(context.settings):
        if record.get("target") != target.name:
            continue
        try:
            # If a password is needed, that of the job.
            job = context.store.jobs.find(str(record.get("id")))
            server = ProtectedServer.from_request(record.get("server"))
            with open_target(context, target, [job] if job else [], server) as transport:
                if _end_and_remove(transport, target, record):
                    path.unlink(missing_ok=True)
        except (PerfloomError, OSError) as error:
            log.info("%s could not be removed at %s: %s", record.get("directory"), target.name, error)
            return


def targets_to_clean_up(settings: Settings) -> tuple[str, ...]:
    """The names of the targets with something to remove. What is too old is given up."""
    names = []
    for path, record in _records(settings):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > settings.unreachable_seconds:
                path.unlink()
            else:
                names.append(str(record.get("target")))
    return tuple(dict.fromkeys(names))


def _cleanup_record(job: Job) -> dict[str, Any]:
    return {
        "target": job.target,
        "directory": job.details.directory,
        "id": job.id,
        "submissions": {str(number): id for number, id in job.details.submission_ids.items()},
        "begun": job.details.begun,
        "keep": job.job_spec.leave_files,
        "server": job.details.server.to_json() if job.details.server else None,
    }


def _end_and_remove(transport: Transport, target: Target, record: dict[str, Any]) -> bool:
    if record["begun"]:
        submissions = record["submissions"]
        # A submission without a known id is found by its name.
        ids = (
            submissions.get(str(k)) or batch.find_by_name(transport, target, job_name(record["id"], k))
            for k in range(record["begun"])
        )
        batch.cancel_jobs(transport, target, [id for id in ids if id], [record["directory"]], gently=False)
    return _remove(transport, record)


def _remove(transport: Transport, record: dict[str, Any]) -> bool:
    """Whether its directory does not exist any more, or is to be kept."""
    return record["keep"] or remove_directory(transport, record["directory"])


def _save_record(settings: Settings, job_id: str, record: dict[str, Any]) -> None:
    folder = settings.data / "jobs" / CLEANUP_FOLDER
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        write_json(folder / job_id, record)


def _records(settings: Settings) -> Iterator[tuple[Path, dict[str, Any]]]:
    folder = settings.data / "jobs" / CLEANUP_FOLDER
    with suppress(OSError):
        for name in sorted(os.listdir(folder)):
            record = read_json(folder / name) if is_id(name) else None
            if record is not None:
                yield folder / name, record
