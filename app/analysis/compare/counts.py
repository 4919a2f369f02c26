"""Differences of counts (perf stat) between two results, by event.

A count is exact; a sampled total is an estimate whose error depends on the sampling. They are never subtracted from
each other. Several executions of a command are compared by their means.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import get_strings
from ..core.common_columns import EVENT
from ..core.measurements import (
    Measurement,
    best_total,
    measure_counts,
    measure_samples,
    missing_total_note,
    sum_known,
)
from ..core.sample_selection import event_names
from ..core.schema import Column, TableRows, build_rows, table_function
from ..formulas.measures import evaluate_totals
from ..formulas.resolution import ResolvedFormula
from .matching import list_common_formulas, pair_formulas
from .relative_change import divide, percent_of_base

NOT_COMPARED = "not compared"
COUNTED, SAMPLED, MISSING = "counted", "sampled", "absent"
_SPREAD = "Standard deviation of the mean of {0} over repeated runs, in percent of that mean; missing for a single run."
COLUMNS = (
    EVENT,
    Column("unit", "", "The unit of base, other and delta: count, ns, bytes, or the unit that perf printed."),
    Column("status", "", f"grew, shrank or same; “{NOT_COMPARED}” if the values are not comparable or one is missing."),
    Column("base", "event", "Value in the base profile, the mean of several runs; missing if it has none.", "number"),
    Column("other", "event", "Value in the other profile.", "number"),
    Column("delta", "event", "other − base; missing if they are not compared.", "number"),
    Column("delta_percent", "%", "delta in percent of the size of base.", "Float64"),
    Column("ratio", "", "other ÷ base.", "Float64"),
    Column("base_deviation_percent", "%", _SPREAD.format("base"), "Float64"),
    Column("other_deviation_percent", "%", _SPREAD.format("other"), "Float64"),
    Column(
        "within_spread",
        "",
        "Whether delta is smaller than twice its standard deviation, computed from both deviations; missing if one "
        "of them is unknown.",
        "boolean",
    ),
    Column("base_source", "", "How base was measured: counted, sampled or absent."),
    Column("other_source", "", "How other was measured."),
    Column("note", "", "Why the values are not compared, or other remarks."),
)


@dataclass(frozen=True)
class _Value:
    """An event or formula on one side. deviation: of the value, in its unit, None if unknown. remark: on a formula."""

    source: str = MISSING
    unit: str = ""
    value: int | float | None = None
    deviation: float | None = None
    status: str = ""
    missing: int = 0
    remark: str = ""


def has_counts(profile: Profile) -> bool:
    """Whether it has any counts."""
    return bool(profile.counts.num_rows)


def is_counts_only(profile: Profile) -> bool:
    """Whether all its values are counts: nothing was sampled or traced."""
    return has_counts(profile) and not profile.samples.num_rows and not profile.slices.num_rows


@table_function
def diff_counts(
    base: Profile,
    other: Profile,
    base_selection: Selection,
    other_selection: Selection,
    *,
    more_bases: Sequence[Profile] = (),
    more_others: Sequence[Profile] = (),
) -> TableRows:
    """One row for each event that was counted in either, in the order of the other; then one for each formula with
    values of counts that means the same in both, or only the selected formula. Of several runs it is evaluated
    on the means. more_bases, more_others: further recordings of a side, whose values are averaged, too.

    An event that was counted on one side and sampled on the other has a row with a note and no difference.
    """
    chosen = pair_formulas(base, other, base_selection, other_selection)
    is_event = (base_selection.event or other_selection.event) is not None and chosen is None
    if chosen is not None:
        base_selection, other_selection = (one.replace(event=None) for one in (base_selection, other_selection))
    bases, others = (
        [_values(profile, selection) for profile in side]
        for side, selection in (((base, *more_bases), base_selection), ((other, *more_others), other_selection))
    )
    before, after = _merge_values(bases), _merge_values(others)
    names = (
        []
        if chosen
        else [
            name
            for name in dict.fromkeys([*after, *before])
            if COUNTED in (before.get(name, _Value()).source, after.get(name, _Value()).source)
        ]
    )
    for one, two in [chosen] if chosen else [] if is_event else list_common_formulas(base, other):
        b, a = _mean_formula(base, one, before, bases), _mean_formula(other, two, after, others)
        # A formula without a value is explained by its events.
        if chosen or (COUNTED in (b.source, a.source) and b.value is not None and a.value is not None):
            names.append(one.name)
            before[one.name], after[one.name] = b, a
    pairs = [(before.get(name, _Value()), after.get(name, _Value())) for name in names]
    deltas = [_delta(b, a) for b, a in pairs]
    compared = [
        [None if delta is None else pair[side].value for pair, delta in zip(pairs, deltas, strict=True)]
        for side in (0, 1)
    ]
    return build_rows(
        COLUMNS,
        {
            "event": names,
            "unit": [a.unit or b.unit for b, a in pairs],
            "status": [_status(b, a, delta) for (b, a), delta in zip(pairs, deltas, strict=True)],
            "base": [b.value for b, _ in pairs],
            "other": [a.value for _, a in pairs],
            "delta": deltas,
            "delta_percent": percent_of_base(deltas, compared[0]),
            "ratio": divide(*compared[::-1]),
            "base_deviation_percent": [_share(b) for b, _ in pairs],
            "other_deviation_percent": [_share(a) for _, a in pairs],
            "within_spread": [_within(b, a, delta) for (b, a), delta in zip(pairs, deltas, strict=True)],
            "base_source": [b.source for b, _ in pairs],
            "other_source": [a.source for _, a in pairs],
            "note": [_note(b, a) or None for b, a in pairs],
        },
    )


def _values(profile: Profile, selection: Selection) -> dict[str, _Value]:
    """The values by name of an event: its counts, or if there are none, its samples."""
    names, units = event_names(profile), get_strings(profile.events, "unit")
    rows: dict[int, list[Measurement]] = {}
    for row in measure_counts(profile, selection):
        rows.setdefault(row.event, []).append(row)
    values = {names[event]: _count_value(mine, units[event]) for event, mine in rows.items()}
    samples: dict[int, list[Measurement]] = {}
    if profile.samples.num_rows:
        for row in measure_samples(profile, selection):
            samples.setdefault(row.event, []).append(row)
    for event, mine in samples.items():
        # Samples of occurrences may give no total.
        values.setdefault(
            names[event], _Value(SAMPLED, units[event], best_total(mine), status=missing_total_note(mine) or "ok")
        )
    return values


def _merge_values(recordings: Sequence[dict[str, _Value]]) -> dict[str, _Value]:
    """The means of several recordings, with the standard deviation of the mean between them. An event has a value if it
    was measured in the same way, in the same unit, in all of them."""
    if len(recordings) == 1:
        return recordings[0]
    merged = {}
    for name in dict.fromkeys(name for values in recordings for name in values):
        found = [values.get(name, _Value()) for values in recordings]
        first = next(value for value in found if value.source != MISSING)
        known = [value.value for value in found if (value.source, value.unit) == (first.source, first.unit)]
        numbers = [float(value) for value in known if value is not None]
        missing = sum(value.missing for value in found)
        if len(numbers) < len(recordings):
            text = f"counted in {len(numbers)} of {len(recordings)} recordings"
            merged[name] = _Value(first.source, first.unit, status=text, missing=missing)
            continue
        deviation = float(np.std(numbers, ddof=1)) / math.sqrt(len(numbers))
        merged[name] = _Value(first.source, first.unit, sum(numbers) / len(numbers), deviation, "ok", missing)
    return merged


def _formula_value(profile: Profile, formula: ResolvedFormula, values: Mapping[str, _Value]) -> _Value:
    """The formula on the values of its events."""
    names = event_names(profile)
    parts = {event: values.get(names[event], _Value()) for event in formula.parts}
    sources = {part.source for part in parts.values()}
    sums = {event: np.array(np.nan if part.value is None else float(part.value)) for event, part in parts.items()}
    value = float(evaluate_totals(profile, formula, sums))
    return _Value(
        source=sources.pop() if len(sources) == 1 else MISSING if MISSING in sources else SAMPLED,
        unit=formula.formula.unit,
        value=None if math.isnan(value) else value,
        status="ok" if not math.isnan(value) else "without a value",
        missing=sum(part.missing for part in parts.values()),
        remark=formula.note or "",
    )


def _mean_formula(
    profile: Profile, formula: ResolvedFormula, means: Mapping[str, _Value], recordings: Sequence[dict[str, _Value]]
) -> _Value:
    """The formula on the means of several recordings, with the standard deviation of the mean of its values in each."""
    found = _formula_value(profile, formula, means)
    if len(recordings) == 1:
        return found
    each = [_formula_value(profile, formula, values).value for values in recordings]
    known = [float(value) for value in each if value is not None]
    if len(known) < len(each):
        return found
    return replace(found, deviation=float(np.std(known, ddof=1)) / math.sqrt(len(known)))


def _count_value(rows: list[Measurement], unit: str) -> _Value:
    by_run: dict[int | None, list[Measurement]] = {}
    for row in rows:
        by_run.setdefault(row.run, []).append(row)
    known = [total for mine in by_run.values() if (total := sum_known(row.value for row in mine)) is not None]
    missing = sum(row.missing if row.value is not None else max(1, row.missing) for row in rows)
    if not known:
        return _Value(COUNTED, unit, status=rows[0].status or "", missing=missing)
    if len(known) > 1:
        deviation = float(np.std(known, ddof=1)) / math.sqrt(len(known))
        return _Value(COUNTED, unit, sum(known) / len(known), deviation, "ok", missing)
    # perf prints the deviation of each row, but not of their sum.
    share = rows[0].deviation_percent if len(rows) == 1 else None
    return _Value(COUNTED, unit, known[0], None if share is None else abs(known[0]) * share / 100, "ok", missing)


def _delta(base: _Value, other: _Value) -> int | float | None:
    if base.source != other.source or base.unit != other.unit or base.value is None or other.value is None:
        return None
    return other.value - base.value


def _status(base: _Value, other: _Value, delta: int | float | None) -> str:
    if delta is not None:
        return "grew" if delta > 0 else "shrank" if delta < 0 else "same"
    return NOT_COMPARED


def _share(value: _Value) -> float | None:
    return None if value.deviation is None or not value.value else 100 * value.deviation / abs(value.value)


def _within(base: _Value, other: _Value, delta: int | float | None) -> bool | None:
    if delta is None or base.deviation is None or other.deviation is None:
        return None
    return abs(delta) <= 2 * math.hypot(base.deviation, other.deviation)


def _note(base: _Value, other: _Value) -> str:
    notes = []
    if {base.source, other.source} == {COUNTED, SAMPLED}:
        notes.append(
            f"{base.source} in the base, {other.source} in the other: not comparable, since a sampled "
            "total is an estimate; count both with perf stat"
        )
    elif MISSING not in (base.source, other.source) and base.unit != other.unit:
        notes.append(f"{base.unit} in the base, {other.unit} in the other: not comparable")
    for side, value in (("base", base), ("other", other)):
        if value.source == COUNTED and value.value is None:
            notes.append(f"{value.status or 'not counted'} in the {side}")
        elif value.source == MISSING:
            notes.append(f"not recorded in the {side}")
        elif value.remark:
            notes.append(f"{value.remark} in the {side}")
        elif value.missing:
            notes.append(f"{value.missing:,} intervals or CPUs of the {side} were not counted")
    return "; ".join(notes)
