"""Fixtures of batch systems, one of each for the whole run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import batch


@pytest.fixture(scope="session")
def slurm() -> Iterator[batch.Slurm]:
    """A real Slurm of one node."""
    with batch.slurm() as system:
        yield system


@pytest.fixture(scope="session")
def lsf_server() -> Iterator[batch.LsfDouble]:
    """The double of LSF. Take `lsf`, which leaves no settings of one test for the next."""
    with batch.lsf() as system:
        yield system


@pytest.fixture
def lsf(lsf_server: batch.LsfDouble) -> Iterator[batch.LsfDouble]:
    """The double of LSF, with its settings as at first."""
    lsf_server.control()
    yield lsf_server
    lsf_server.control()
