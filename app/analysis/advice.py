"""Advice: what a trace shows that could be better, each with its evidence in numbers, where to look, and what to do.

A rule is one function of `advice_evidence` and one row of `advice_rules`. It yields nothing where the data cannot
support it, and nothing below its threshold, which may be set. A finding states what was measured and the threshold that
it passed.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from ..domain.errors import InvalidRequest
from ..domain.listing import ranges_of, ranges_text
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.units import quantity
from . import communication, devices, graphs, idle, kernels, launches, memory, operators, steps
from .affected import affected
from .picking import threads_of
from .remember import remembered
from .schema import Column, frame, records
from .slices import has_clock

Row = dict[str, Any]
COLUMNS = (
    Column("rule", "", "The key of the rule, by which its threshold is set."),
    Column("title", "", "What was found."),
    Column("severity", "", "high, medium or low: by how much of the time it is about; none where advice is withheld."),
    Column("rank", "", "The rank it was found on, of several the worst; missing where it is about all.", "Int64"),
    Column("ranks", "", "All ranks it was found on, as 0–3, 7; missing where it is about all, or there is one only."),
    Column("measured", "", "What was measured, in `unit`.", "float64"),
    Column("threshold", "", "From where on the rule speaks, in `unit`.", "float64"),
    Column("unit", "", "%, µs, bytes or empty for a count."),
    Column("evidence", "", "The numbers behind it."),
    Column("advice", "", "What to do."),
    Column("page", "", "The page of the result where to look."),
)
INSTEAD = "Copy the file again, or record again and let the program and its profiler end by themselves."
"""What to do where advice is withheld."""
HIGH, MEDIUM = 25.0, 10.0
"""From how many percent of the time a finding is of high or of medium severity."""


@dataclass(frozen=True)
class Finding:
    """What a rule found. measured: in the rule's unit. share: of the time that it is about, in percent; None where that
    is not what it is about. evidence: a sentence with numbers. advice: where the rule's own is not enough."""

    measured: float
    evidence: str
    share: float | None = None
    rank: int | None = None
    advice: str = ""
    query: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Rule:
    """A rule. key: as in addresses. meaning: what the threshold is compared with. below: it speaks below the threshold,
    not from it on. page: where to look. judge: its findings, given what tables say; also those that the threshold
    leaves out."""

    key: str
    title: str
    threshold: float
    unit: str
    meaning: str
    page: str
    judge: Callable[["Evidence"], Iterator[Finding]]
    advice: str
    below: bool = False

    def amount(self, value: float) -> str:
        """Something measured, with its unit."""
        if self.unit == "bytes":
            return quantity(value, "bytes").text
        return f"{value:,.3g}{f' {self.unit}' if self.unit else ''}"

    def speaks(self, measured: float, threshold: float) -> bool:
        """Whether something measured passes the threshold."""
        return measured < threshold if self.below else measured >= threshold


@dataclass(frozen=True)
class Advice:
    """A finding that passed the threshold of its rule. others: the same on other ranks, of which it is the worst.
    severity: high, medium or low."""

    rule: Rule
    finding: Finding
    threshold: float
    others: tuple[Finding, ...] = ()

    @property
    def ranks(self) -> str:
        """All ranks it was found on, as "0–3, 7"; empty for none."""
        found = {one.rank for one in (self.finding, *self.others) if one.rank is not None}
        return ranges_text(ranges_of(sorted(found)))

    @property
    def evidence(self) -> str:
        """The numbers behind it, of several ranks those of the worst and how the others' compare."""
        if not self.others:
            return self.finding.evidence
        count = len({one.rank for one in self.others} - {self.finding.rank})
        measured = [one.measured for one in self.others]
        low, high = (self.rule.amount(value) for value in (min(measured), max(measured)))
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
        return "high" if share >= HIGH else "medium" if share >= MEDIUM else "low"


class Evidence:
    """The tables of a profile under a selection, each worked out when a rule first asks for it."""

    def __init__(self, profile: Profile, selection: Selection) -> None:
        self.profile = profile
        self.selection = selection.only(event=None)

    @cached_property
    def steps(self) -> list[Row]:
        return self._rows(steps.steps)

    @cached_property
    def devices(self) -> list[Row]:
        return self._rows(devices.devices)

    @cached_property
    def idle(self) -> list[Row]:
        """Of whole devices, not of their streams."""
        return [row for row in self._rows(idle.idle) if row["stream"] is None]

    @cached_property
    def launches(self) -> list[Row]:
        return self._rows(launches.launches)

    @cached_property
    def graphs(self) -> list[Row]:
        return self._rows(graphs.graphs)

    @cached_property
    def copies(self) -> list[Row]:
        return self._rows(kernels.copies)

    @cached_property
    def kernels(self) -> list[Row]:
        return self._rows(kernels.kernels)

    @cached_property
    def operators(self) -> list[Row]:
        return self._rows(operators.operators)

    @cached_property
    def communication(self) -> list[Row]:
        return self._rows(communication.communication)

    @cached_property
    def collectives(self) -> list[Row]:
        return self._rows(communication.collectives)

    @cached_property
    def stragglers(self) -> list[Row]:
        return self._rows(communication.stragglers)

    @cached_property
    def memory(self) -> list[Row]:
        return self._rows(memory.memory)

    def _rows(self, table: Callable[[Profile, Selection], pd.DataFrame]) -> list[Row]:
        """A table; without ranks where there is one only, whether or not it has a number."""
        rows = records(table(self.profile, self.selection))
        return rows if self.several else [{**row, "rank": None} for row in rows]

    @cached_property
    def several(self) -> bool:
        """Whether there are several ranks."""
        return len(np.unique(threads_of(self.profile).rank)) > 1

    def rank_of(self, rank: int) -> int | None:
        """A rank (-1: none) as rows have it."""
        return rank if self.several and rank >= 0 else None

    def of_ranks(self, rows: list[Row]) -> dict[int | None, list[Row]]:
        """Rows by rank, in order of the ranks."""
        found: dict[int | None, list[Row]] = {}
        for row in sorted(rows, key=lambda row: -1 if row["rank"] is None else row["rank"]):
            found.setdefault(row["rank"], []).append(row)
        return found

    @cached_property
    def time_us(self) -> dict[int | None, float]:
        """How long all steps of each rank took together."""
        return {rank: sum(row["total_us"] for row in rows) for rank, rows in self.of_ranks(self.steps).items()}


def advices(profile: Profile, selection: Selection, thresholds: Mapping[str, float] | None = None) -> list[Advice]:
    """What is advised, the most serious first; nothing where advice is withheld. thresholds: of rules by their keys, in
    place of their own."""
    found: list[Advice] = []
    if withheld(profile):
        return found
    for rule, findings in _judged(profile, selection):
        threshold = (thresholds or {}).get(rule.key, rule.threshold)
        found += _merged(rule, threshold, [one for one in findings if rule.speaks(one.measured, threshold)])
    order = {"high": 0, "medium": 1, "low": 2}
    return sorted(found, key=lambda one: (order[one.severity], -(one.finding.share or 0)))


def withheld(profile: Profile) -> str:
    """Why nothing is advised, empty where something may be: shares and idle times of a part are none of the whole."""
    state = affected(profile)
    if state.complete or not has_clock(profile):
        return ""
    return (
        f"{' '.join(state.reasons) or 'The recording is not complete.'} Every rule compares shares of the whole "
        "recording, which cannot be known from a part of it."
    )


def _merged(rule: Rule, threshold: float, findings: list[Finding]) -> list[Advice]:
    """One piece of advice for all ranks on which a rule found the same; for one rank, a piece for each finding."""
    ranked = [one for one in findings if one.rank is not None]
    if len({one.rank for one in ranked}) < 2:
        return [Advice(rule, one, threshold) for one in findings]
    worst = max(ranked, key=lambda one: (one.share or 0.0, -one.measured if rule.below else one.measured))
    others = tuple(one for one in ranked if one is not worst)
    return [
        Advice(rule, worst, threshold, others),
        *(Advice(rule, one, threshold) for one in findings if one.rank is None),
    ]


def _judged(profile: Profile, selection: Selection) -> Iterator[tuple[Rule, tuple[Finding, ...]]]:
    """Each rule, and what it finds, whatever the threshold."""
    from .advice_rules import RULES

    if has_clock(profile):
        evidence = Evidence(profile, selection)
        for rule in RULES:
            yield rule, remembered(profile, _key(rule.key, evidence.selection), partial(_findings, rule, evidence))


def _key(rule: str, selection: Selection) -> tuple[object, ...]:
    return "findings", rule, selection


def _findings(rule: Rule, evidence: Evidence) -> tuple[Finding, ...]:
    return tuple(rule.judge(evidence))


def told_of_whole(profile: Profile) -> bytes:
    """What all rules find in the whole, to be kept: JSON."""
    found = {rule.key: [asdict(one) for one in findings] for rule, findings in _judged(profile, Selection())}
    return json.dumps(found, default=float).encode()


def remember_whole(profile: Profile, told: bytes) -> None:
    """Have a profile remember what `told_of_whole` gave. Raises KeyError, TypeError, ValueError for what is none of
    it."""
    for rule, rows in json.loads(told).items():
        pairs = [row | {"query": tuple((word, value) for word, value in row["query"])} for row in rows]
        findings = tuple(Finding(**row) for row in pairs)
        remembered(profile, _key(rule, Selection()), partial(tuple, findings), pin=True)


def advice(profile: Profile, selection: Selection, thresholds: Mapping[str, float] | None = None) -> pd.DataFrame:
    """One row for each finding; the most serious first. Where advice is withheld, one row that says why."""
    why = withheld(profile)
    if not why:
        return frame_of(advices(profile, selection, thresholds))
    values: dict[str, Any] = {
        "rule": "withheld",
        "title": "Advice is withheld",
        "severity": "none",
        "rank": None,
        "ranks": None,
        "measured": math.nan,
        "threshold": math.nan,
        "unit": "",
        "evidence": why,
        "advice": INSTEAD,
        "page": "losses",
    }
    return frame(COLUMNS, {name: [value] for name, value in values.items()})


def frame_of(found: list[Advice]) -> pd.DataFrame:
    """Findings as a table."""
    return frame(
        COLUMNS,
        {
            "rule": [one.rule.key for one in found],
            "title": [one.rule.title for one in found],
            "severity": [one.severity for one in found],
            "rank": [one.finding.rank for one in found],
            "ranks": [one.ranks or None for one in found],
            "measured": [float(one.finding.measured) for one in found],
            "threshold": [float(one.threshold) for one in found],
            "unit": [one.rule.unit for one in found],
            "evidence": [one.evidence for one in found],
            "advice": [one.finding.advice or one.rule.advice for one in found],
            "page": [one.rule.page for one in found],
        },
    )


def thresholds_of(given: Mapping[str, str]) -> dict[str, float]:
    """Thresholds by the keys of rules, from the words of a query. Raises InvalidRequest for what is no number."""
    from .advice_rules import RULES

    found = {}
    for rule in RULES:
        text = given.get(rule.key, "").strip()
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < 1e15:
            raise InvalidRequest(f"The threshold {rule.key} is a number from 0, not {text[:40]!r}.", rule.key)
        found[rule.key] = value
    return found
