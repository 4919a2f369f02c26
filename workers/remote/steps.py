"""The steps of a planned job, which `workers.steps` takes in place of its own."""

from perfloom.domain.jobs import JobState

from .collection import collect
from .polling import poll_job
from .retries import with_retries
from .staging import stage

STEPS = {
    JobState.STAGING: with_retries(stage),
    JobState.PENDING: with_retries(poll_job),
    JobState.RUNNING: with_retries(poll_job),
    JobState.COLLECTING: with_retries(collect),
}
