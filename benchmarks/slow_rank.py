"""How often the matrix finds the rank that computes more, and how often it finds one where there is none.

    python -m benchmarks.slow_rank [--runs 20] [--total-ms 6000]

Records tests/support/mpi/slow_rank.c on four ranks, with Open MPI and with MPICH: rank 2 computes twice as much in each
step from half of the time on; then the same without a slow rank. A run with a slow rank is right if the finding names
rank 2, its function, a time whose error contains half of the time (the program measures it from MPI_Init on; 10 % of
the time is allowed for that), and only other ranks as waiting. A run without one is right if nothing is an outlier.
Status 1 if any run is wrong. "all wait": in how many runs all other ranks are named as waiting. If the machine is busy
with other work, a rank that gets less of a CPU may be last as well, and then it does not wait.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from perfloom.analysis.core.sample_selection import event_id
from perfloom.analysis.matrix.balance import Balance, find_balances, format_balance
from perfloom.config import Settings
from perfloom.domain.jobs import MpiFlavor
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.workers.read import reading
from tests.support.mpi.slow_rank import EVEN, RANKS, SLOW, build, record_ranks

FUNCTION = "relax"


def is_right(profile: Profile, balance: Balance, slow: int) -> bool:
    """Whether the finding is that of the program."""
    if slow == EVEN:
        return not balance.outlier
    duration = profile.meta.duration_ns or 0
    since = balance.since
    return (
        balance.outlier
        and balance.groups.key[balance.most] == slow
        and balance.function == FUNCTION
        and since is not None
        and abs(since.at_ns - duration / 2) <= since.error_ns + duration / 10
        and bool(balance.waiting)
    )


def main() -> int:
    """Record, report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--total-ms", type=int, default=6000)
    given = parser.parse_args()
    wrong = 0
    for flavour in (MpiFlavor.OPENMPI, MpiFlavor.MPICH):
        for slow in (SLOW, EVEN):
            right = all_wait = 0
            for _ in range(given.runs):
                with tempfile.TemporaryDirectory(prefix="perfloom-ranks-") as name:
                    folder = Path(name)
                    program = build(flavour, folder)
                    files = record_ranks(program, flavour, folder, slow=slow, total_ms=given.total_ms)
                    settings = Settings.load(folder / "data", environ={})
                    profile = reading.read_profile(settings, files)
                event = event_id(profile, None)
                [balance] = find_balances(profile, Selection(), event, "rank")
                found = is_right(profile, balance, slow)
                right += found
                all_wait += len(balance.waiting) == RANKS - 1
                print("right" if found else "WRONG", format_balance(profile, event, balance), flush=True)
            wrong += given.runs - right
            waits = "" if slow == EVEN else f", all wait in {all_wait}"
            print(
                f"{flavour}, {'even' if slow == EVEN else f'rank {slow} slow'}: {right} of {given.runs} right{waits}\n"
            )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
