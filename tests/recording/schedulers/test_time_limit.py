"""At the time limit what has begun is completed, by the job itself and within what the batch system allows it."""

from __future__ import annotations

import pytest

from perfloom.domain.jobs import Batch
from perfloom.domain.targets import BatchState
from tests.recording.schedulers.jobs import Jobs
from tests.support.batch import LsfDouble, Slurm

ENDS = 'trap "echo told; echo completed; exit 3" {signal}; : >"$1/ready"; while :; do sleep 0.05; done'
OVERRUNS = (
    'trap "echo told" USR2 INT TERM; (trap "" USR2 INT TERM; sleep 62) & : >"$1/ready"; while :; do sleep 0.05; done'
)


@pytest.mark.slow
def test_slurm(slurm_jobs: Jobs) -> None:
    """Slurm sends TERM to the batch script and all others, and calls it a timeout whatever they then do."""
    id = slurm_jobs.shell(ENDS.format(signal="TERM"), batch=Batch(wall_time_s=60))
    slurm_jobs.ready()
    assert isinstance(slurm_jobs.system, Slurm)
    slurm_jobs.system.reach_time_limit(id)
    ended = slurm_jobs.wait(id)
    assert ended.state is BatchState.TIME_LIMIT
    assert ended.reason.startswith("It reached its time limit. Request a longer wall time")
    assert "told\ncompleted\n" in slurm_jobs.output.read_text()
    assert slurm_jobs.back(id).state is BatchState.TIME_LIMIT


def test_lsf(lsf_jobs: Jobs) -> None:
    """LSF sends USR2, and then waits for ten minutes."""
    assert isinstance(lsf_jobs.system, LsfDouble)
    lsf_jobs.system.control(minute=0.1)
    id = lsf_jobs.shell(ENDS.format(signal="USR2"), batch=Batch(wall_time_s=60))
    ended = lsf_jobs.wait(id)
    assert (ended.state, ended.exit_status) == (BatchState.TIME_LIMIT, 3)
    text = lsf_jobs.printed()
    assert "told\ncompleted\n" in text
    assert lsf_jobs.back(id).state is BatchState.TIME_LIMIT


def test_lsf_kills_what_does_not_end_in_time(lsf_jobs: Jobs) -> None:
    assert isinstance(lsf_jobs.system, LsfDouble)
    lsf_jobs.system.control(minute=0.1, ten_minutes=0.5, ten_seconds=0.5)
    id = lsf_jobs.shell(OVERRUNS, batch=Batch(wall_time_s=60))
    ended = lsf_jobs.wait(id)
    assert (ended.state, ended.signal) == (BatchState.TIME_LIMIT, 9)
    text = lsf_jobs.printed()
    assert text.partition("follows:")[2].count("told") == 3
