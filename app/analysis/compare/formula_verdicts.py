"""What changed in a formula, such as cycles per instruction, between two groups of runs.

The value of a run is the formula on the sums of its events, of the whole and of each function, and never a mean of
ratios. Values are compared as logarithms. Their variance from sampling follows from those of the sums (delta method):
Var(log f) = Σ (∂ log f / ∂ log x)² · Var(x) / x² over the events x, which perf samples independently of each other.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array, BoolArray
from ...domain.errors import InvalidRequest
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.text import shorten
from ..core.sample_counts import MIN_COMPARED_SAMPLES
from ..core.sample_selection import event_names
from ..core.schema import build_rows
from ..formulas.evaluation import evaluate
from ..formulas.measures import explain_no_weights
from ..formulas.resolution import ResolvedFormula
from .evidence import MIN_SHARE, Evidence, compare_logarithms, has_enough_runs
from .matching import pair_formulas
from .runs import EarlierRuns, FunctionKey, RunGroups, collect_runs
from .verdicts import COLUMNS, MEASURES, Comparison, Verdict, WholeChange, compare_runs, find_notes

STEP = 1e-4
"""Of the logarithm of a sum, for derivatives."""


@dataclass(frozen=True, eq=False)
class _FormulaSide:
    """A side. sums, samples: of each event, by its name in the formula, float64 [1 + items, runs], the whole first;
    samples: NaN where the event was measured and not sampled. spread: as in `evidence.RunValues`."""

    sums: dict[str, Array]
    samples: dict[str, Array]
    spread: dict[str, Array]


def compare_groups(
    base: Sequence[Profile],
    other: Sequence[Profile],
    base_selection: Selection,
    other_selection: Selection,
    *,
    as_shares: bool | None = None,
    paired: bool = False,
    variation: float | None = None,
    find_earlier: Callable[[str], Sequence[EarlierRuns]] | None = None,
) -> Comparison:
    """`compare_runs`, or where a selection names a formula instead of an event, the comparison of its values; these
    have no shares, and no noise from earlier runs. Raises InvalidRequest."""
    pairs = [pair_formulas(one, two, base_selection, other_selection) for one in base[:1] for two in other[:1]]
    if not pairs or pairs[0] is None:
        return compare_runs(
            base,
            other,
            base_selection,
            other_selection,
            as_shares=as_shares,
            paired=paired,
            variation=variation,
            find_earlier=find_earlier,
        )
    if as_shares:
        raise InvalidRequest("A formula has no shares of a total. Compare its values.", "scale")
    formula = pairs[0][1]
    for profile in (*base, *other):
        found = pair_formulas(profile, other[0], base_selection, other_selection)
        reason = "" if found is None else explain_no_weights(profile, found[0])
        if reason:
            raise InvalidRequest(
                f"The samples give no value of {shorten(formula.name)}: {reason}. Choose an event, or record "
                "the events of the formula with a fixed period (perf record -c).",
                "event",
            )
    return _compare(base, other, base_selection, other_selection, formula, paired=paired, variation=variation)


def _compare(
    base: Sequence[Profile],
    other: Sequence[Profile],
    base_selection: Selection,
    other_selection: Selection,
    formula: ResolvedFormula,
    *,
    paired: bool,
    variation: float | None,
) -> Comparison:
    names = event_names(other[0])
    groups: dict[str, RunGroups] = {}
    for name, event in formula.events.items():
        selections = (one.replace(event=names[event]) for one in (base_selection, other_selection))
        groups[name] = collect_runs(base, other, *selections)
    lead = next(iter(groups.values()))
    runs = lead.base.runs, lead.other.runs
    if any((one.base.runs, one.other.runs) != runs for one in groups.values()):
        raise InvalidRequest(f"Not every run has all events of {shorten(formula.name)}. Leave out such runs.", "event")
    if paired and runs[0] != runs[1]:
        raise InvalidRequest(
            f"Pairs need as many runs on both sides, not {runs[0]} and {runs[1]}. Compare them without pairs.", "paired"
        )
    sides = [_build_side(groups, lead.functions, word) for word in ("base", "other")]
    (before, _), (after, _) = values = [_log_values(formula, side) for side in sides]
    whole_is_known = all(math.isfinite(float(logs[0].sum())) for logs, _ in values)
    if not whole_is_known:
        raise InvalidRequest(
            f"{shorten(formula.name)} has no positive value in a run, so that there is no ratio. Compare its events.",
            "event",
        )
    tested = _find_tested(sides, lead) & np.isfinite(before).all(axis=1) & np.isfinite(after).all(axis=1)
    known = [(np.where(np.isfinite(logs), logs, 0.0), np.nan_to_num(variance)) for logs, variance in values]
    evidence = compare_logarithms(known[0], known[1], tested, paired=paired, variation=variation)
    certain = variation is not None or has_enough_runs(lead.base, lead.other)
    ratio, low, high, detectable = (
        math.expm1(float(one[0])) for one in (evidence.difference, evidence.low, evidence.high, evidence.detectable)
    )
    means = [np.exp(before).mean(axis=1)[1:], np.exp(after).mean(axis=1)[1:]]
    return Comparison(
        _build_rows(lead.functions, formula, means, evidence, certain),
        formula.name,
        formula.formula.unit,
        *runs,
        False,
        certain,
        WholeChange(ratio, low, high, detectable, bool(evidence.found[0])),
        tuple(find_notes((*base, *other), lead.event)),
        formula=formula.formula.expression,
    )


def _build_side(groups: dict[str, RunGroups], functions: list[FunctionKey], word: str) -> _FormulaSide:
    """One side, with the functions of the first event: totals, then self values."""
    count = len(functions)
    sums, samples, spread = {}, {}, {}
    for name, group in groups.items():
        side = group.base if word == "base" else group.other
        index = {key: number for number, key in enumerate(group.functions)}
        rows = np.array([index.get(key, -1) for key in functions], np.int64)
        rows = np.concatenate((rows, np.where(rows < 0, -1, rows + len(group.functions))))
        # The last row, -1, is that of functions without this event.
        empty = np.zeros((1, side.runs))
        sums[name] = np.vstack((side.whole, np.vstack((side.weight, empty))[rows]))
        samples[name] = np.vstack((side.whole_samples, np.vstack((side.samples, empty))[rows]))
        spread[name] = side.spread
        assert len(sums[name]) == 1 + 2 * count
    return _FormulaSide(sums, samples, spread)


def _log_values(formula: ResolvedFormula, side: _FormulaSide) -> tuple[Array, Array]:
    """(logarithms of the values, their variance from sampling); not finite where a value is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(evaluate(formula.steps, side.sums))
        variance = np.zeros_like(logs)
        for name, value in side.sums.items():
            up, down = (
                np.log(evaluate(formula.steps, side.sums | {name: value * math.exp(step)})) for step in (STEP, -STEP)
            )
            counted = np.isnan(side.samples[name])
            relative = np.where(counted, 0.0, side.spread[name] / np.maximum(side.samples[name], 1))
            variance += ((up - down) / (2 * STEP)) ** 2 * relative
    return logs, variance


def _find_tested(sides: Sequence[_FormulaSide], lead: RunGroups) -> BoolArray:
    """The whole, and the items with `MIN_SHARE` of the first event on a side, and on both sides with enough samples of
    each event: the logarithm of a sum of few samples is not distributed normally."""
    shares = [side.weight.sum(axis=1) / side.whole.sum() for side in (lead.base, lead.other)]
    tested: BoolArray = np.concatenate((np.ones(1, bool), np.maximum(*shares) >= MIN_SHARE))
    for side in sides:
        for samples in side.samples.values():
            few = samples.sum(axis=1) < MIN_COMPARED_SAMPLES
            tested[1:] &= ~few[1:]
    return tested


def _build_rows(
    functions: list[FunctionKey],
    formula: ResolvedFormula,
    means: Sequence[Array],
    evidence: Evidence,
    certain: bool,
) -> Any:
    count = len(functions)
    base, other = (np.where(np.isfinite(mean), mean, np.nan) for mean in means)
    items = evidence.take(slice(1, None))
    missing = np.full(count, np.nan)
    values: dict[str, Any] = {}
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        growth = np.where(base > 0, 100 * (other - base) / base, np.nan)
        for number, measure in enumerate(MEASURES):
            part = slice(number * count, (number + 1) * count)
            shown = ~np.isnan(items.q[part])
            values |= {
                f"{measure}_verdict": _verdicts(items, certain)[part],
                f"base_{measure}": base[part],
                f"other_{measure}": other[part],
                f"base_{measure}_percent": missing,
                f"other_{measure}_percent": missing,
                f"growth_{measure}_percent": growth[part],
                f"q_{measure}": items.q[part],
            }
            for name, ends in (
                ("change", items.difference),
                ("low", items.low),
                ("high", items.high),
                ("detectable", items.detectable),
            ):
                values[f"{name}_{measure}_percent"] = np.where(shown, 100 * np.expm1(ends[part]), np.nan)
    evident = items.found[:count] | items.found[count:]
    # Values of functions that are too small to be tested are the most extreme ones.
    small = np.isnan(items.q[:count]) & np.isnan(items.q[count:])
    order = np.lexsort((-np.nan_to_num(np.abs(values["growth_self_percent"])), small, ~evident))
    return build_rows(
        COLUMNS,
        {
            "name": [functions[n][0] for n in order.tolist()],
            "module": [functions[n][1] for n in order.tolist()],
            "event": [formula.name] * count,
            "unit": [formula.formula.unit] * count,
            **{name: value[order] for name, value in values.items()},
            "earlier_runs": [None] * count,
            "earlier_variation_percent": [None] * count,
        },
    )


def _verdicts(evidence: Evidence, certain: bool) -> Array:
    found, grew = evidence.found, evidence.difference > 0
    verdicts = np.full(len(found), str(Verdict.NONE), object)
    verdicts[np.isnan(evidence.q)] = str(Verdict.UNTESTED)
    verdicts[found & grew] = str(Verdict.MORE if certain else Verdict.NOISE)
    verdicts[found & ~grew] = str(Verdict.LESS if certain else Verdict.NOISE)
    return verdicts
