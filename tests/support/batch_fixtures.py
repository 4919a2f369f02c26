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
    """The simulated LSF. Use `lsf`, which resets its settings after each test."""
    with batch.lsf() as system:
        yield system


@pytest.fixture
def lsf(lsf_server: batch.LsfDouble) -> Iterator[batch.LsfDouble]:
    """The simulated LSF, with its default settings."""
    lsf_server.control()
    yield lsf_server
    lsf_server.control()
