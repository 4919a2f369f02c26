"""Advice: possible improvements of a traced program, with evidence, the page with details, and what to do.

A rule is a detector (`detectors`) and a row of `rules`. It yields nothing if the data are insufficient or the value
does not pass its threshold, which can be set. A finding states the measured value and the threshold.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from ...domain.errors import InvalidRequest
from ...domain.profile import Profile
from ...domain.selection import Selection
from ..core.facts import has_pytorch_terms
from ..core.loss_impact import loss_impact_of
from ..core.memo import memoize
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..core.slice_selection import has_clock
from .cpu_detectors import has_cpu_samples
from .cpu_rules import CPU_RULES
from .model import Advice, AdviceFinding, Rule, RuleInput
from .rules import RULES

COLUMNS = (
    Column("rule", "", "The key of the rule, as used to set its threshold."),
    Column("title", "", "What was found."),
    Column("severity", "", "high, medium or low, by the share of the time concerned; none if advice is withheld."),
    Column("rank", "", "The rank of the finding, or the worst of several; missing if it concerns all ranks.", "Int64"),
    Column(
        "ranks",
        "",
        "All ranks with this finding, as 0–3, 7; missing if it concerns all ranks, or if there is only one.",
    ),
    Column("measured", "", "The measured value, in `unit`.", "float64"),
    Column("threshold", "", "The threshold of the rule, in `unit`.", "float64"),
    Column("unit", "", "%, µs, bytes, or empty for a count."),
    Column("evidence", "", "The measurements behind the finding."),
    Column("advice", "", "What to do."),
    Column("page", "", "The page of the result with details."),
)
WITHHELD_ADVICE = "Copy the file again, or record again and let the program and its profiler exit normally."
"""What to do if advice is withheld."""


def list_rules(profile: Profile) -> tuple[Rule, ...]:
    """The rules that apply to a profile: for slices in time, and for sampled CPU time."""
    return (RULES if _is_trace(profile) else ()) + (CPU_RULES if has_cpu_samples(profile) else ())


def _is_trace(profile: Profile) -> bool:
    """Whether the rules for traces apply. A recording of perf may have slices, too: the states of its threads."""
    has_more = has_pytorch_terms(profile) or bool(profile.device_work.num_rows)
    return has_clock(profile) and (has_more or not has_cpu_samples(profile))


def find_advice(profile: Profile, selection: Selection, thresholds: Mapping[str, float] | None = None) -> list[Advice]:
    """The findings by severity; empty if advice is withheld. thresholds: by key of the rule, instead of the
    defaults."""
    advice: list[Advice] = []
    if withheld_reason(profile):
        return advice
    for rule, findings in _apply_rules(profile, selection):
        threshold = (thresholds or {}).get(rule.key, rule.threshold)
        advice += _merge_ranks(
            rule, threshold, [finding for finding in findings if rule.triggers(finding.measured, threshold)]
        )
    order = {"high": 0, "medium": 1, "low": 2}
    return sorted(advice, key=lambda finding: (order[finding.severity], -(finding.finding.share or 0)))


def withheld_reason(profile: Profile) -> str:
    """Why advice is withheld, or "". Shares and idle times of a part of the profile are not valid for all of it."""
    state = loss_impact_of(profile)
    if state.complete or not _is_trace(profile):
        return ""
    return (
        f"{' '.join(state.reasons) or 'The recording is not complete.'} Every rule compares shares of the whole "
        "recording, which cannot be computed from a part of it."
    )


def _merge_ranks(rule: Rule, threshold: float, findings: list[AdviceFinding]) -> list[Advice]:
    """Combine findings of a rule on several ranks into one; findings on one rank remain separate."""
    ranked = [finding for finding in findings if finding.rank is not None]
    if len({finding.rank for finding in ranked}) < 2:
        return [Advice(rule, finding, threshold) for finding in findings]
    worst = max(
        ranked,
        key=lambda finding: (finding.share or 0.0, -finding.measured if rule.triggers_below else finding.measured),
    )
    others = tuple(finding for finding in ranked if finding is not worst)
    return [
        Advice(rule, worst, threshold, others),
        *(Advice(rule, finding, threshold) for finding in findings if finding.rank is None),
    ]


def _apply_rules(profile: Profile, selection: Selection) -> Iterator[tuple[Rule, tuple[AdviceFinding, ...]]]:
    """The findings of each rule, regardless of its threshold."""
    evidence = RuleInput(profile, selection)
    for rule in list_rules(profile):
        yield rule, memoize(profile, _key(rule.key, evidence.selection), partial(_findings, rule, evidence))


def _key(rule: str, selection: Selection) -> tuple[object, ...]:
    return "findings", rule, selection


def _findings(rule: Rule, evidence: RuleInput) -> tuple[AdviceFinding, ...]:
    return tuple(rule.detect(evidence))


def dump_findings(profile: Profile) -> bytes:
    """The findings of all rules in the whole profile, as JSON to be stored."""
    found = {
        rule.key: [asdict(finding) for finding in findings] for rule, findings in _apply_rules(profile, Selection())
    }
    return json.dumps(found, default=float).encode()


def restore_findings(profile: Profile, data: bytes) -> None:
    """Restore the output of `dump_findings` into the memo of a profile. Raises KeyError, TypeError or ValueError for
    other data."""
    for rule, rows in json.loads(data).items():
        pairs = [row | {"query": tuple((word, value) for word, value in row["query"])} for row in rows]
        findings = tuple(AdviceFinding(**row) for row in pairs)
        memoize(profile, _key(rule, Selection()), partial(tuple, findings), pin=True)


@table_function
def compute_advice(profile: Profile, selection: Selection, thresholds: Mapping[str, float] | None = None) -> TableRows:
    """One row per finding, by severity. If advice is withheld, one row with the reason."""
    why = withheld_reason(profile)
    if not why:
        return build_advice_frame.rows(find_advice(profile, selection, thresholds))
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
        "advice": WITHHELD_ADVICE,
        "page": "losses",
    }
    return build_rows(COLUMNS, {name: [value] for name, value in values.items()})


@table_function
def build_advice_frame(advices: list[Advice]) -> TableRows:
    """Findings as a table."""
    return build_rows(
        COLUMNS,
        {
            "rule": [one.rule.key for one in advices],
            "title": [one.rule.title for one in advices],
            "severity": [one.severity for one in advices],
            "rank": [one.finding.rank for one in advices],
            "ranks": [one.ranks or None for one in advices],
            "measured": [float(one.finding.measured) for one in advices],
            "threshold": [float(one.threshold) for one in advices],
            "unit": [one.rule.unit for one in advices],
            "evidence": [one.evidence for one in advices],
            "advice": [one.finding.advice or one.rule.advice for one in advices],
            "page": [one.rule.page for one in advices],
        },
    )


def parse_thresholds(params: Mapping[str, str]) -> dict[str, float]:
    """Thresholds by the keys of rules, from the parameters of a query. Raises InvalidRequest for values that are not
    numbers."""
    thresholds = {}
    for rule in RULES + CPU_RULES:
        text = params.get(rule.key, "").strip()
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < 1e15:
            raise InvalidRequest(
                f"The threshold {rule.key} must be a number of at least 0, not {text[:40]!r}.", rule.key
            )
        thresholds[rule.key] = value
    return thresholds


TABLES = (Table("advice", "Advice", COLUMNS, compute_advice),)
"""The tables of this module."""
