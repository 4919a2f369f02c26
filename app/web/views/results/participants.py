"""The participants of a recording: runs of the command, ranks and hosts, and how they ended."""

from dataclasses import dataclass
from typing import Any

from ....analysis.core.sample_selection import hosts_of, ranks_of
from ....analysis.tables import TABLES, records
from ....domain.list_text import abbreviate_names
from ....domain.profile import Profile
from ....domain.selection import Selection
from ....domain.units import NS_PER_MS, Quantity, format_quantity

MAX_RUNS, MAX_NOTABLE_RANKS, MAX_HOSTS = 12, 12, 4


@dataclass(frozen=True)
class RunRow:
    """An execution of the command. succeeded: whether it ended with status 0, null if not recorded."""

    run: int
    command: str
    events: str
    hosts: str
    ranks: str
    duration: Quantity
    exit_status: str
    succeeded: bool | None


@dataclass(frozen=True)
class RankRow:
    """A rank with a remark."""

    rank: str
    run: int
    host: str
    exit: str
    note: str


@dataclass(frozen=True)
class Participants:
    """Runs and ranks. notable_ranks: the first ranks with a remark. more_…: number of omitted ones."""

    several_runs: bool
    with_ranks: bool
    runs: tuple[RunRow, ...]
    more_runs: int
    notable_ranks: tuple[RankRow, ...]
    more_notable_ranks: int


def format_hosts(profile: Profile) -> str:
    """The hosts, the first few by name; empty for none."""
    return abbreviate_names(hosts_of(profile), MAX_HOSTS)


def list_participants(profile: Profile) -> Participants | None:
    """None for a single process of a single run without remarks."""
    ranks = sorted(profile.ranks.to_pylist(), key=lambda row: (row["run"], row["rank"] or 0))
    with_ranks = bool(len(ranks_of(profile)))
    odd = [row for row in ranks if row["note"] or row["signal"] or row["exit_status"]]
    if profile.runs.num_rows < 2 and not with_ranks and not odd:
        return None
    rows = records(TABLES["runs"].rows(profile, Selection()))
    recorded = {row["run"] for row in ranks if row["recorded"] is not False}
    timed = {row["run"] for row in ranks} - recorded
    return Participants(
        several_runs=len(rows) > 1,
        with_ranks=with_ranks,
        runs=tuple(_run_row(row, timed) for row in rows[:MAX_RUNS]),
        more_runs=max(0, len(rows) - MAX_RUNS),
        notable_ranks=tuple(_rank_row(row) for row in odd[:MAX_NOTABLE_RANKS]),
        more_notable_ranks=max(0, len(odd) - MAX_NOTABLE_RANKS),
    )


def _run_row(row: dict[str, Any], timed: set[int]) -> RunRow:
    """timed: the runs without recording."""
    milliseconds, status = row["duration_ms"], row["exit_status"]
    return RunRow(
        run=row["run"],
        command=row["command"] or "",
        events=row["events"] or ("without recording" if row["run"] in timed else ""),
        hosts=abbreviate_names((row["hosts"] or "").split(", "), MAX_HOSTS),
        ranks=row["ranks"] or "",
        duration=format_quantity(None if milliseconds is None else milliseconds * NS_PER_MS, "ns"),
        exit_status="" if status is None else str(status),
        succeeded=None if status is None else status == 0,
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
