"""Who took part in what was recorded: runs of the command, ranks and hosts, and how it ended for them."""

from dataclasses import dataclass
from typing import Any

from ....analysis.core.picking import hosts_of, ranks_of
from ....analysis.tables import TABLES, records
from ....domain.listing import some
from ....domain.profile import Profile
from ....domain.selection import Selection
from ....domain.units import Quantity, quantity

MOST_RUNS, MOST_ODD, MOST_HOSTS = 12, 12, 4


@dataclass(frozen=True)
class RunRow:
    """An execution of the command. good: whether it ended with 0, null where nobody noted it."""

    run: int
    command: str
    events: str
    hosts: str
    ranks: str
    duration: Quantity
    exit_status: str
    good: bool | None


@dataclass(frozen=True)
class RankRow:
    """A rank of which something is to be said."""

    rank: str
    run: int
    host: str
    exit: str
    note: str


@dataclass(frozen=True)
class Taking:
    """Who took part: runs and ranks. odd: the ranks of which something is to be said, the first of them. more_…: how
    many are left out."""

    several_runs: bool
    with_ranks: bool
    runs: tuple[RunRow, ...]
    more_runs: int
    odd: tuple[RankRow, ...]
    more_odd: int


def hosts_text(profile: Profile) -> str:
    """The hosts that took part, the first few by name; empty for none."""
    return some(hosts_of(profile), MOST_HOSTS)


def taking(profile: Profile) -> Taking | None:
    """None where there is one process of one run, and nothing to be said of it."""
    told = sorted(profile.ranks.to_pylist(), key=lambda row: (row["run"], row["rank"] or 0))
    with_ranks = bool(len(ranks_of(profile)))
    odd = [row for row in told if row["note"] or row["signal"] or row["exit_status"]]
    if profile.runs.num_rows < 2 and not with_ranks and not odd:
        return None
    rows = records(TABLES["runs"].rows(profile, Selection()))
    return Taking(
        several_runs=len(rows) > 1,
        with_ranks=with_ranks,
        runs=tuple(_run_row(row) for row in rows[:MOST_RUNS]),
        more_runs=max(0, len(rows) - MOST_RUNS),
        odd=tuple(_rank_row(row) for row in odd[:MOST_ODD]),
        more_odd=max(0, len(odd) - MOST_ODD),
    )


def _run_row(row: dict[str, Any]) -> RunRow:
    milliseconds, status = row["duration_ms"], row["exit_status"]
    return RunRow(
        run=row["run"],
        command=row["command"] or "",
        events=row["events"] or "",
        hosts=some((row["hosts"] or "").split(", "), MOST_HOSTS),
        ranks=row["ranks"] or "",
        duration=quantity(None if milliseconds is None else milliseconds * 1e6, "ns"),
        exit_status="" if status is None else str(status),
        good=None if status is None else status == 0,
    )


def _rank_row(row: dict[str, Any]) -> RankRow:
    status = row["exit_status"]
    return RankRow(
        rank="" if row["rank"] is None else str(row["rank"]),
        run=row["run"],
        host=row["host"] or "",
        exit=f"signal {row['signal']}" if row["signal"] else "" if status is None else str(status),
        note=row["note"] or "",
    )
