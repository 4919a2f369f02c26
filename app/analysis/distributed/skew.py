"""Clock skew of ranks: the shift applied to the times of each, and the remaining offset.

The times in a result were aligned when its files were merged (`clock_alignment`); this reports the applied shifts and
how closely the same collectives end now. docs/metrics.md has the definitions.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ...domain.arrays import Array
from ...domain.list_text import format_ranges, to_ranges
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.units import NS_PER_US
from ..core.memo import memoize
from ..core.sample_selection import match_places, threads_of
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from .clock_alignment import ClockEstimate, CollectiveEnds, estimate_clocks
from .collective_calls import SYNCHRONIZING_COLLECTIVES, MatchBasis
from .collectives import collectives_of


class ClockState(StrEnum):
    """The state of the clock of a rank."""

    REFERENCE = "reference"
    """Others are given relative to it."""
    SHIFTED = "shifted"
    """Its times were shifted to match the reference."""
    AGREES = "agrees"
    """It matched without a shift."""
    OFF = "off"
    """It does not match and was not shifted: the result was stored by a version that did not align clocks."""
    UNKNOWN = "not aligned"
    """No collective was found on it and on another rank."""
    SAME_HOST = "same host"
    """The same, but all ranks ran on one host, which has one clock."""


MATCHED_BY = {
    MatchBasis.NUMBER: "sequence number",
    MatchBasis.STEP: "order in a step",
    MatchBasis.ORDER: "order",
    MatchBasis.UNDECIDED: "nothing",
}
CLOCKS = (
    Column("rank", "", "The rank.", "Int64"),
    Column("host", "", "The host of the rank, if known."),
    Column("state", "", f"{', '.join(ClockState)}: see Clocks of ranks."),
    Column("group", "", "Ranks with the same number share collectives; missing without collectives.", "Int64"),
    Column(
        "shift_us",
        "µs",
        "What was added to its times to align them with the reference; missing if not aligned.",
        "Float64",
    ),
    Column("skew_us", "µs", "Remaining offset from the reference: the median over the ends of collectives.", "Float64"),
    Column("residual_us", "µs", "Three of four of its collectives end on all their ranks within this time.", "Float64"),
    Column("farthest_us", "µs", "All of its collectives end on all their ranks within this time.", "Float64"),
    Column("collectives", "", "Number of collectives shared with other ranks.", "int64"),
    Column(
        "matched_by",
        "",
        "How calls of one collective were matched between ranks; the least certain way used: "
        f"{', '.join(MATCHED_BY.values())}.",
    ),
    Column(
        "drift_ppm",
        "ppm",
        "How much faster its clock runs than the median of the others; missing if no drift is evident.",
        "Float64",
    ),
)


@dataclass(frozen=True)
class RankClock:
    """The clock of a rank. shift_ns: None if not aligned. clock: None if it shares no collective. basis: the least
    reliable match of its collectives; UNDECIDED if none matched although other ranks have them, too."""

    rank: int
    host: str
    state: ClockState
    shift_ns: int | None
    clock: ClockEstimate | None
    basis: MatchBasis


@dataclass(frozen=True)
class ClockSkew:
    """Of a result with several ranks. residual_ns: the greatest of all ranks, None if none could be compared."""

    ranks: tuple[RankClock, ...]
    residual_ns: int | None

    @property
    def groups(self) -> int:
        """The number of groups of ranks that no collective connects, including single ranks."""
        known = {rank.clock.group for rank in self.ranks if rank.clock is not None}
        return len(known) + sum(rank.clock is None for rank in self.ranks)

    def in_state(self, *states: ClockState) -> str:
        """The ranks in these states, as "0–3, 7"; empty for none."""
        return format_ranges(to_ranges(rank.rank for rank in self.ranks if rank.state in states))


def skew_of(profile: Profile) -> ClockSkew | None:
    """The clocks of the ranks; None without several. Built once."""
    return memoize(profile, "skew", lambda: _build(profile), pin=True)


@table_function
def compute_clocks(profile: Profile, selection: Selection) -> TableRows:
    """One row for each rank, if there are several."""
    skew = skew_of(profile)
    rows = [] if skew is None else list(skew.ranks)
    if rows:
        ranks = match_places(profile, selection, np.array([row.rank for row in rows]))
        rows = [row for row, keep in zip(rows, ranks.tolist(), strict=True) if keep]

    def clock_values(name: str) -> list[float | None]:
        return [None if row.clock is None else getattr(row.clock, name) / NS_PER_US for row in rows]

    return build_rows(
        CLOCKS,
        {
            "rank": [row.rank for row in rows],
            "host": [row.host or None for row in rows],
            "state": [row.state.value for row in rows],
            "group": [None if row.clock is None else row.clock.group for row in rows],
            "shift_us": [None if row.shift_ns is None else row.shift_ns / NS_PER_US for row in rows],
            "skew_us": clock_values("ahead_ns"),
            "residual_us": clock_values("residual_ns"),
            "farthest_us": clock_values("farthest_ns"),
            "collectives": [0 if row.clock is None else row.clock.collectives for row in rows],
            "matched_by": [MATCHED_BY.get(row.basis) for row in rows],
            "drift_ppm": [None if row.clock is None else row.clock.drift_ppm for row in rows],
        },
    )


def within_skew(profile: Profile, total_ns: Array, count: Array) -> list[bool | None]:
    """Which of these figures are unreliable: sums of times between ranks whose average is shorter than the residual
    clock skew. None if there are no such times, or if the skew is unknown.

    All pages and tables use this, so a figure is marked everywhere.
    """
    skew = skew_of(profile)
    if skew is None or skew.residual_ns is None:
        return [None] * len(total_ns)
    limit = skew.residual_ns
    pairs = zip(total_ns.astype(np.float64).tolist(), count.tolist(), strict=True)
    return [None if total != total or not times else bool(total < limit * times) for total, times in pairs]


def _build(profile: Profile) -> ClockSkew | None:
    threads = threads_of(profile)
    ranks = np.unique(threads.rank[threads.rank >= 0])
    if len(ranks) < 2:
        return None
    hosts = dict.fromkeys(ranks.tolist(), "")
    for rank, host in zip(threads.rank.tolist(), threads.host, strict=True):
        if rank in hosts and host:
            hosts[rank] = host
    same = len(set(hosts.values())) == 1 and "" not in hosts.values()
    if not profile.slices.num_rows and len(set(hosts.values()) - {""}) < 2:
        # Samples are not compared between ranks, unless times of several hosts are shown together.
        return None
    shifts = {row["rank"]: row["shift_ns"] for row in profile.clocks.to_pylist() if row["rank"] is not None}
    rows = []
    for rank, clock, basis in zip(ranks.tolist(), _clocks(profile, ranks), _bases(profile, ranks), strict=True):
        state = _state(clock, shifts.get(rank), same)
        rows.append(RankClock(rank, hosts[rank], state, shifts.get(rank), clock, basis))
    known = [one.clock.residual_ns for one in rows if one.clock is not None]
    return ClockSkew(tuple(rows), max(known, default=None))


def _clocks(profile: Profile, ranks: Array) -> list[ClockEstimate | None]:
    if not profile.slices.num_rows:
        return [None] * len(ranks)
    collectives = collectives_of(profile)
    rows = np.flatnonzero(collectives.rank >= 0)
    together = np.array([kind.name in SYNCHRONIZING_COLLECTIVES for kind in collectives.kinds] + [False])
    clock = np.searchsorted(ranks, collectives.rank[rows])
    return estimate_clocks(
        CollectiveEnds(clock, collectives.end[rows], collectives.match[rows], together[collectives.kind[rows]]),
        len(ranks),
    )


def _bases(profile: Profile, ranks: Array) -> list[MatchBasis]:
    if not profile.slices.num_rows:
        return [MatchBasis.ALONE] * len(ranks)
    collectives = collectives_of(profile)
    bases = []
    for rank in ranks.tolist():
        mine = collectives.basis[collectives.rank == rank]
        shared = mine[mine != MatchBasis.UNDECIDED].max(initial=MatchBasis.ALONE)
        bases.append(MatchBasis(int(mine.max(initial=MatchBasis.ALONE) if shared == MatchBasis.ALONE else shared)))
    return bases


def _state(clock: ClockEstimate | None, shift_ns: int | None, same_host: bool) -> ClockState:
    if clock is None:
        return ClockState.SAME_HOST if same_host else ClockState.UNKNOWN
    if clock.is_off:
        return ClockState.OFF
    if clock.reference and not shift_ns:
        return ClockState.REFERENCE
    return ClockState.SHIFTED if shift_ns else ClockState.AGREES


TABLES = (Table("clocks", "Clocks of ranks", CLOCKS, compute_clocks),)
"""The tables of this module."""
