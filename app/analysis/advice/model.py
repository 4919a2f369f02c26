"""Advice rules, their input and their findings."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...domain.list_text import format_ranges, to_ranges
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.units import format_quantity
from ..core.sample_selection import threads_of
from ..core.schema import TableFunction
from ..distributed import communication
from ..memory import allocations as memory
from ..ml import devices, graphs, idle, kernels, launches, operators, steps

Row = dict[str, Any]


HIGH_PERCENT, MEDIUM_PERCENT = 25.0, 10.0
"""Percentages of the time from which a finding has high or medium severity."""


@dataclass(frozen=True)
class AdviceFinding:
    """A finding of a detector. measured: in the rule's unit. share: the affected percentage of the time; None if it
    does not concern time. evidence: a sentence with numbers. advice: in addition to that of the rule."""

    measured: float
    evidence: str
    share: float | None = None
    rank: int | None = None
    advice: str = ""
    query: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Rule:
    """A rule. key: as in addresses. threshold_meaning: what the threshold is compared with. triggers_below: it
    triggers below the threshold instead of at or above it. page: with details. detect: yields findings from tables,
    regardless of the threshold."""

    key: str
    title: str
    threshold: float
    unit: str
    threshold_meaning: str
    page: str
    detect: Callable[["RuleInput"], Iterator[AdviceFinding]]
    advice: str
    triggers_below: bool = False

    def format_amount(self, value: float) -> str:
        """A measured value with its unit."""
        if self.unit == "bytes":
            return format_quantity(value, "bytes").text
        return f"{value:,.3g}{f' {self.unit}' if self.unit else ''}"

    def triggers(self, measured: float, threshold: float) -> bool:
        """Whether a measured value passes the threshold."""
        return measured < threshold if self.triggers_below else measured >= threshold


@dataclass(frozen=True)
class Advice:
    """A finding that passed the threshold of its rule. others: the same finding on other ranks, of which this is the
    worst. severity: high, medium or low."""

    rule: Rule
    finding: AdviceFinding
    threshold: float
    others: tuple[AdviceFinding, ...] = ()

    @property
    def ranks(self) -> str:
        """All ranks with this finding, as "0–3, 7"; empty for none."""
        found = {one.rank for one in (self.finding, *self.others) if one.rank is not None}
        return format_ranges(to_ranges(sorted(found)))

    @property
    def evidence(self) -> str:
        """The numbers behind it; for several ranks those of the worst, and how the others compare."""
        if not self.others:
            return self.finding.evidence
        count = len({one.rank for one in self.others} - {self.finding.rank})
        measured = [one.measured for one in self.others]
        low, high = (self.rule.format_amount(value) for value in (min(measured), max(measured)))
        between = low if low == high else f"{low} to {high}"
        return (
            f"Rank {self.finding.rank}: {self.finding.evidence} "
            f"The same on {count:,} other rank{'s' * (count != 1)} ({between})."
        )

    @property
    def severity(self) -> str:
        share = self.finding.share
        if share is None:
            return "medium"
        return "high" if share >= HIGH_PERCENT else "medium" if share >= MEDIUM_PERCENT else "low"


class RuleInput:
    """The tables of a profile under a selection, each computed when a rule first uses it."""

    def __init__(self, profile: Profile, selection: Selection) -> None:
        self.profile = profile
        self.selection = selection.replace(event=None)

    @cached_property
    def steps(self) -> list[Row]:
        return self._rows(steps.compute_steps)

    @cached_property
    def devices(self) -> list[Row]:
        return self._rows(devices.compute_devices)

    @cached_property
    def idle(self) -> list[Row]:
        """Utilization of devices, not of their streams."""
        return [row for row in self._rows(idle.compute_idle) if row["stream"] is None]

    @cached_property
    def launches(self) -> list[Row]:
        return self._rows(launches.compute_launches)

    @cached_property
    def graphs(self) -> list[Row]:
        return self._rows(graphs.compute_graphs)

    @cached_property
    def copies(self) -> list[Row]:
        return self._rows(kernels.compute_copies)

    @cached_property
    def kernels(self) -> list[Row]:
        return self._rows(kernels.compute_kernels)

    @cached_property
    def operators(self) -> list[Row]:
        return self._rows(operators.compute_operators)

    @cached_property
    def communication(self) -> list[Row]:
        return self._rows(communication.compute_communication)

    @cached_property
    def collectives(self) -> list[Row]:
        return self._rows(communication.compute_collectives)

    @cached_property
    def stragglers(self) -> list[Row]:
        return self._rows(communication.compute_stragglers)

    @cached_property
    def memory(self) -> list[Row]:
        return self._rows(memory.compute_memory)

    def _rows(self, table: TableFunction[...]) -> list[Row]:
        """A table; without ranks if there is only one."""
        rows = table.rows(self.profile, self.selection).records()
        return rows if self.has_several_ranks else [{**row, "rank": None} for row in rows]

    @cached_property
    def has_several_ranks(self) -> bool:
        """Whether there are several ranks."""
        return len(np.unique(threads_of(self.profile).rank)) > 1

    def rank_of(self, rank: int) -> int | None:
        """A rank as in rows: None for -1."""
        return rank if self.has_several_ranks and rank >= 0 else None

    def group_by_rank(self, rows: list[Row]) -> dict[int | None, list[Row]]:
        """Rows by rank, in order of the ranks."""
        found: dict[int | None, list[Row]] = {}
        for row in sorted(rows, key=lambda row: -1 if row["rank"] is None else row["rank"]):
            found.setdefault(row["rank"], []).append(row)
        return found

    @cached_property
    def time_us(self) -> dict[int | None, float]:
        """The total duration of all steps of each rank."""
        return {rank: sum(row["total_us"] for row in rows) for rank, rows in self.group_by_rank(self.steps).items()}
