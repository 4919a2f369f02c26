"""Jobs of each batch system."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recording.schedulers.jobs import Jobs
from tests.support.batch import LsfDouble, Slurm


@pytest.fixture(params=["slurm", "lsf"])
def jobs(request: pytest.FixtureRequest, tmp_path: Path) -> Jobs:
    """Jobs of a batch system, first of Slurm and then of LSF's double."""
    return Jobs(request.getfixturevalue(request.param), tmp_path)


@pytest.fixture
def slurm_jobs(slurm: Slurm, tmp_path: Path) -> Jobs:
    """Jobs of Slurm."""
    return Jobs(slurm, tmp_path)


@pytest.fixture
def lsf_jobs(lsf: LsfDouble, tmp_path: Path) -> Jobs:
    """Jobs of LSF's double."""
    return Jobs(lsf, tmp_path)
