"""The steps of jobs that scripts run at their target."""

from perfloom.domain.jobs import JobState

from ..jobs.transitions import ExecutorSteps
from .collection import collect, finish_without_recording
from .polling import poll_job
from .retries import with_retries
from .staging import stage

STEPS = ExecutorSteps(
    steps={
        JobState.STAGING: with_retries(stage),
        JobState.PENDING: with_retries(poll_job),
        JobState.RUNNING: with_retries(poll_job),
        JobState.COLLECTING: with_retries(collect),
    },
    recorded=lambda files: (files.artifacts,),
    merges_ranks=True,
    finish_without_recording=finish_without_recording,
)
