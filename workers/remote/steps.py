"""The steps of a planned job, which `workers.steps` takes in place of its own."""

from perfloom.domain.jobs import JobState
from perfloom.workers.remote.collecting import collect
from perfloom.workers.remote.patience import patient
from perfloom.workers.remote.polling import look_at_one
from perfloom.workers.remote.staging import stage

STEPS = {
    JobState.STAGING: patient(stage),
    JobState.PENDING: patient(look_at_one),
    JobState.RUNNING: patient(look_at_one),
    JobState.COLLECTING: patient(collect),
}
