"""Formulas instead of events: which one a selection names, and its values.

The event of a selection is the name of an event or of a formula. What shows a formula makes the sums of its events as
for events, for each row, cell or part of the time, and evaluates the formula on these sums. A formula has no share of a
total, and its values are never added.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...domain.arrays import Array, Float64Array
from ...domain.errors import InvalidRequest
from ...domain.event_names import SAMPLED_ONLY, find_event
from ...domain.formulas.formula import Formula
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import get_strings
from ...domain.units import RATIO
from ..core.measurements import (
    Measurement,
    best_total,
    find_counted_events,
    find_share_only_events,
    measure_counts,
    measure_samples,
    missing_total_note,
)
from ..core.memo import memoize
from ..core.sample_selection import event_names, samples_of
from .evaluation import evaluate
from .resolution import ResolvedFormula, resolve_formulas

WITHOUT_PERIODS = "samples were recorded without periods, so that they give no totals"
Sums = Mapping[int, Array]
"""Sums by event: arrays of one shape."""


def find_formula(profile: Profile, name: str | None) -> ResolvedFormula | None:
    """The formula of this name whose events were measured; None if there is none, or an event has that name."""
    if name is None or find_event(name, event_names(profile), get_strings(profile.events, "attributes")) is not None:
        return None
    return next((one for one in resolve_formulas(profile) if one.name == name), None)


def selected_formula(profile: Profile, selection: Selection) -> ResolvedFormula | None:
    """The formula that a selection names instead of an event."""
    return find_formula(profile, selection.event)


def use_lead_event(profile: Profile, selection: Selection) -> Selection:
    """The selection with the first event of its formula instead of it, for what only an event has: a width, an order
    of samples. Without a formula the same selection."""
    formula = selected_formula(profile, selection)
    return selection if formula is None else selection.replace(event=event_names(profile)[formula.lead])


def name_table(name: str, profile: Profile, selection: Selection) -> str:
    """The name of a table in the cache: of a formula with its steps, because the formula of a name can change."""
    formula = selected_formula(profile, selection)
    return name if formula is None else f"{name} of {formula.formula!r} {formula.steps!r}"


def refuse_formula(profile: Profile, selection: Selection, what: str) -> None:
    """Raise InvalidRequest if the selection names a formula, which `what` ("the table heatmap") cannot show."""
    formula = selected_formula(profile, selection)
    if formula is not None:
        names = ", ".join(event_names(profile)[event] for event in formula.parts)
        raise InvalidRequest(
            f"{formula.name} is a formula, and {what} shows only events. Choose one of its events: {names}.", "event"
        )


def list_sampled_formulas(profile: Profile) -> tuple[ResolvedFormula, ...]:
    """The formulas with a value where only samples count: all their events have samples whose weights give totals."""

    def build() -> tuple[Formula, ...]:
        sampled = samples_of(profile).count_by_event > 0
        return tuple(
            one.formula
            for one in resolve_formulas(profile)
            if all(sampled[event] for event in one.parts) and not explain_no_weights(profile, one)
        )

    every = resolve_formulas(profile)
    known = set(memoize(profile, ("sampled formulas", tuple(one.formula for one in every)), build))
    return tuple(one for one in every if one.formula in known)


def display_unit(formula: ResolvedFormula) -> str:
    """The unit of its values, as `domain.units` writes them."""
    return {"": RATIO, "%": "percent"}.get(formula.formula.unit, formula.formula.unit)


def select_parts(profile: Profile, selection: Selection, formula: ResolvedFormula) -> dict[int, Selection]:
    """The selection of each event of a formula."""
    names = event_names(profile)
    return {event: selection.replace(event=names[event]) for event in formula.parts}


def evaluate_sums(formula: ResolvedFormula, sums: Sums) -> Float64Array:
    """The formula on sums of its events; NaN is missing."""
    values = {name: np.asarray(sums[event], np.float64) for name, event in formula.events.items()}
    return evaluate(formula.steps, values)


def evaluate_weights(profile: Profile, formula: ResolvedFormula, sums: Sums) -> Float64Array:
    """The formula on sums of weights of samples; all NaN if the samples of one of its events give no totals."""
    found = evaluate_sums(formula, sums)
    return np.full(found.shape, np.nan) if explain_no_weights(profile, formula) else found


def explain_no_weights(profile: Profile, formula: ResolvedFormula) -> str:
    """Why the samples of its events give no value; empty if they do."""
    if not find_share_only_events(profile).isdisjoint(formula.parts):
        return SAMPLED_ONLY
    return WITHOUT_PERIODS if _lacks_periods(profile, formula, frozenset()) else ""


def _lacks_periods(profile: Profile, formula: ResolvedFormula, counted: frozenset[int]) -> bool:
    """Whether it relates samples that were recorded without periods, so that perf may have sampled each event at
    another rate. counted: events whose samples are not used."""
    weighted = profile.events.column("weighted").to_pylist()
    unweighted = {event for event in formula.parts if not weighted[event]} - counted
    return len(formula.parts) > 1 and bool(unweighted)


def measure_parts(
    profile: Profile, selection: Selection, formula: ResolvedFormula, each_cpu: bool = True
) -> list[Measurement]:
    """What was measured of the events of a formula."""
    found: list[Measurement] = []
    for chosen in select_parts(profile, selection, formula).values():
        found += measure_samples(profile, chosen)
        found += measure_counts(profile, chosen, each_cpu)
    return found


def sum_measurements(
    profile: Profile, events: Iterable[int], groups: Sequence[Iterable[Measurement]]
) -> dict[int, Float64Array]:
    """By event the total of each group of measurements: counts if there are any, else samples. NaN if it is unknown.

    An event that is only sampled has no weight where it has no samples.
    """
    counted = set(profile.counts.column("event").unique().to_pylist())
    found = {event: np.full(len(groups), np.nan if event in counted else 0.0) for event in events}
    for place, group in enumerate(groups):
        of_event: dict[int, list[Measurement]] = {}
        for m in group:
            of_event.setdefault(m.event, []).append(m)
        for event, rows in of_event.items():
            if event in found:
                value = best_total(rows)
                found[event][place] = np.nan if value is None else float(value)
    return found


def evaluate_totals(profile: Profile, formula: ResolvedFormula, sums: Sums) -> Float64Array:
    """The formula on totals of `sum_measurements`."""
    found = evaluate_sums(formula, sums)
    lacks = _lacks_periods(profile, formula, find_counted_events(profile))
    return np.full(found.shape, np.nan) if lacks else found


def evaluate_groups(
    profile: Profile, formula: ResolvedFormula, groups: Sequence[Iterable[Measurement]]
) -> list[float | None]:
    """The formula on the totals of each group of measurements; None is missing."""
    found = evaluate_totals(profile, formula, sum_measurements(profile, formula.parts, groups))
    return [None if np.isnan(value) else value for value in found.tolist()]


def measure_formula(
    profile: Profile, selection: Selection, formula: ResolvedFormula, each_cpu: bool = True
) -> list[Measurement]:
    """The values of a formula as measurements of its first event, one for each place where a part was measured: thread,
    host, rank, CPU, and run unless its parts are from different runs. samples: of all parts."""
    groups: dict[tuple[object, ...], list[Measurement]] = {}
    for m in measure_parts(profile, selection, formula, each_cpu):
        place = m.thread, m.host, m.rank, None if formula.across_runs else m.run, m.cpu
        groups.setdefault(place, []).append(m)
    values = evaluate_groups(profile, formula, list(groups.values()))
    return [_combine(formula, rows, value) for rows, value in zip(groups.values(), values, strict=True)]


def _combine(formula: ResolvedFormula, rows: list[Measurement], value: float | None) -> Measurement:
    """The measurement of a formula from those of its parts at one place."""
    counted = any(m.source == "counted" for m in rows)
    statuses = [m.status for m in rows if m.value is None]
    return rows[0]._replace(
        event=formula.lead,
        run=None if formula.across_runs else rows[0].run,
        samples=sum(m.samples for m in rows),
        value=value,
        source="counted" if counted else "sampled",
        status=(statuses or [None])[0] if value is None else "ok" if counted else None,
        enabled_ns=sum(m.enabled_ns for m in rows),
        running_ns=sum(m.running_ns for m in rows),
        scaling=next((m.scaling for m in rows if m.scaling), None),
        deviation_percent=None,
        missing=sum(m.missing for m in rows),
    )


def describe_formula(profile: Profile, formula: ResolvedFormula, rows: Iterable[Measurement]) -> str:
    """What a reader of its values must know: that parts were not measured together, or why they are missing. rows: all
    measurements of the selection."""
    notes = [formula.note]
    of_event: dict[int, list[Measurement]] = {event: [] for event in formula.parts}
    for m in rows:
        if m.event in of_event:
            of_event[m.event].append(m)
    for event, found in of_event.items():
        missing = sum(m.missing for m in found)
        name = event_names(profile)[event]
        if unknown := missing_total_note(found):
            notes.append(unknown)
        elif missing:
            notes.append(f"{name} was not counted in {missing} intervals or on so many CPUs")
    if _lacks_periods(profile, formula, find_counted_events(profile)):
        notes.append(WITHOUT_PERIODS)
    return "; ".join(dict.fromkeys(note for note in notes if note))
