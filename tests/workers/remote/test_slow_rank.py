"""A rank that computes more from half of the time on, recorded as a job: the matrix names it, and who waits for it."""

from __future__ import annotations

import pytest

from perfloom.analysis.core.sample_selection import event_id
from perfloom.analysis.matrix.balance import find_balances
from perfloom.domain.jobs import JobState, Mpi, MpiFlavor
from perfloom.domain.selection import Selection
from perfloom.domain.targets import Target
from perfloom.workers.base.context import JobContext
from tests.support.marks import slow_except
from tests.support.mpi.programs import MpiBuild
from tests.support.mpi.slow_rank import EVEN, LAUNCHERS, RANKS, SLOW
from tests.workers.remote.driving import at, run


@pytest.mark.slow
@pytest.mark.parametrize("flavour", slow_except([MpiFlavor.OPENMPI], [MpiFlavor.OPENMPI, MpiFlavor.MPICH]))
@pytest.mark.parametrize("slow", [SLOW, EVEN])
def test_the_slow_rank_of_a_job_is_found(
    context: JobContext, here: Target, mpi_build: MpiBuild, flavour: MpiFlavor, slow: int
) -> None:
    # Perfloom adds --oversubscribe itself.
    arguments = LAUNCHERS[flavour][2:]
    spec = at(
        here,
        *(str(mpi_build(flavour, "slow_rank")), "5000", "10", str(slow)),
        mpi=Mpi(flavour, RANKS, arguments=arguments),
        frequency=999,
    )
    job = run(context, spec, 90)
    assert job.state is JobState.STORED, job
    profile = context.store.results.open(job.id)
    [balance] = find_balances(profile, Selection(), event_id(profile, None), "rank")
    assert balance.outlier is (slow == SLOW), balance
    if slow == SLOW:
        groups, duration = balance.groups, profile.meta.duration_ns or 0
        assert (groups.key[balance.most], balance.function) == (SLOW, "relax"), balance
        assert balance.since is not None
        assert abs(balance.since.at_ns - duration / 2) <= balance.since.error_ns + duration / 8, balance
        assert SLOW not in [groups.key[group] for group in balance.waiting]
        # On a busy machine, ranks of Open MPI that wait yield the CPU to other programs, and use less of it.
        assert balance.waiting or balance.less_percent, balance
