"""What a person asks of a job at a target: its end. Asked once, what was recorded is kept; asked again, it is dropped.

Each request is counted in the job's row and seen to at its target: gently first, so that recordings are completed, and
hard after a while. Where nobody can be reached there it waits, and a second request gives the job up.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

from perfloom.domain.jobs import JobSpec
from perfloom.recording.recorders import recorder_of
from perfloom.store.jobs import Job
from perfloom.workers.road import Road

HARD_S = 20.0
"""How long a job that was asked to end may take to complete its recordings."""
OWN_HARD_S = 60.0
"""The same where the program itself writes what was recorded of it."""
DROP_S = 30.0
"""How long a job that is dropped is watched for its end."""
TEXT = "Is being ended"


@dataclass(frozen=True)
class Ending:
    """times: how often the end was asked for. since: when first (epoch). last: when last. gentle: whether the target
    was told so."""

    times: int = 0
    since: float = 0.0
    last: float = 0.0
    gentle: bool = False

    @property
    def dropped(self) -> bool:
        """Whether nothing of what was recorded is wanted any more."""
        return self.times > 1

    def wants_hard(self, now: float, spec: JobSpec) -> bool:
        """Whether it is time to be hard to the job `spec`."""
        patience = HARD_S if recorder_of(spec).injection(spec) is None else OWN_HARD_S
        return self.dropped or now - self.since > patience


def of(job: Job) -> Ending:
    """What was asked of a job, and done about it, so far."""
    return Ending(**(job.details.get("ending") or {}))


def noted(road: Road, job: Job) -> Job:
    """The job, with a new request for its end counted and taken off its row, so that the next one is seen."""
    if not job.cancel_requested:
        return job
    now = time.time()
    known = of(job)
    ending = replace(known, times=known.times + 1, since=known.since or now, last=now)
    return write(road, replace(job, cancel_requested=False), ending, cancel_requested=False, progress_text=TEXT)


def write(road: Road, job: Job, ending: Ending, **columns: Any) -> Job:
    """Have what was asked and done stand in the job's row."""
    details = job.details | {"ending": vars(ending)}
    road.store.jobs.update(job.id, expected=job.state, details=details, **columns)
    return replace(job, details=details)
