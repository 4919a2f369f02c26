"""The values of formulas: of the selection, and by function, module, thread, process, rank or host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Float64Array
from ...domain.profile import Profile
from ...domain.selection import Selection, check_choice
from ..core.flame_groups import FlameGroup, groups_of, host_label, rank_label
from ..core.functions import functions_of
from ..core.measurements import (
    Measurement,
    best_total,
    find_counted_events,
    find_share_only_events,
    list_measurements,
    missing_total_note,
)
from ..core.sample_selection import event_names
from ..core.schema import Column, Table, TableRows, build_rows, memoize_table, table_function
from ..stacks.hotspots import function_weights
from .evaluation import evaluate
from .resolution import ResolvedFormula, resolve_formulas

WITHOUT_PERIODS = "samples were recorded without periods, so that they give no totals"
BY = ("selection", "function", "module", "thread", "process", "rank", "host")
COLUMNS = (
    Column("formula", "", "Name of the formula."),
    Column("expression", "", "The formula."),
    Column("unit", "", 'Unit of self and total, such as "%" or "GHz"; empty for a ratio.'),
    Column("name", "", "The function, module, thread, process, rank or host; missing for the whole selection."),
    Column("module", "", "Program or library of the function."),
    Column(
        "self",
        "event",
        "The formula of the self weights of its events in the function or module; missing for others, and where the "
        "divisor is 0.",
        "Float64",
    ),
    Column(
        "total",
        "event",
        "The formula of the sums of its events: counts if there are any, else weights of samples. Missing where the "
        "divisor is 0 or an event gives no total.",
        "Float64",
    ),
    Column("event", "", "The first event of the formula."),
    Column("weight", "", "The total of that event here, in its unit.", "Float64"),
    Column(
        "note", "", "Whether its events were measured in different runs or in different code, or why total is missing."
    ),
)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums of events. names, modules: of the places. own: self weights, by event; None where there are none. total: by
    event; NaN is missing. notes: why an event has no total."""

    names: Sequence[str | None]
    modules: Sequence[str | None]
    own: Mapping[int, Float64Array] | None
    total: Mapping[int, Float64Array]
    notes: Mapping[int, str]


@table_function
def compute_formulas(profile: Profile, selection: Selection, by: str = "selection") -> TableRows:
    """One row for each formula whose events were measured, and place with a value of any of them.

    A formula is evaluated on sums, never averaged. The selected event has no effect. Functions and modules have only
    samples. Places are sorted by the weight of the first event of the formula, descending.
    """
    return evaluate_formulas(profile, selection, by, resolve_formulas(profile))


def evaluate_formulas(
    profile: Profile, selection: Selection, by: str, formulas: tuple[ResolvedFormula, ...]
) -> TableRows:
    """The rows of `compute_formulas` for these formulas of the profile."""
    check_choice("by", by, BY)
    everything = selection.replace(event=None)
    key = (f"formulas by {by}", *(one.formula for one in formulas))
    return memoize_table(repr(key), profile, everything, lambda: _formulas(profile, everything, by, formulas))


def _formulas(profile: Profile, selection: Selection, by: str, formulas: tuple[ResolvedFormula, ...]) -> TableRows:
    events = sorted({event for one in formulas for event in one.events.values()})
    sums = (
        _functions(profile, selection, events, by)
        if by in ("function", "module")
        else _participants(profile, selection, events, by)
    )
    values: dict[str, list[object]] = {column.name: [] for column in COLUMNS}
    for resolved in formulas:
        _append(values, profile, resolved, sums)
    return build_rows(COLUMNS, values)


def _append(values: dict[str, list[object]], profile: Profile, resolved: ResolvedFormula, sums: _Sums) -> None:
    """Append the rows of a formula."""
    events = list(resolved.events.values())
    shown = np.any([(sums.total[event] != 0) & ~np.isnan(sums.total[event]) for event in events], axis=0)
    # The selection as a whole has no name, and always a row.
    rows = np.arange(1) if sums.names == [None] else np.flatnonzero(shown)
    rows = rows[np.argsort(-np.nan_to_num(sums.total[events[0]][rows]), kind="stable")]
    places = rows.tolist()
    formula, count = resolved.formula, len(rows)
    notes: list[str | None] = [
        resolved.note,
        *dict.fromkeys(sums.notes[event] for event in events if event in sums.notes),
    ]
    lacking = len(set(events)) > 1 and not find_unweighted_events(profile).isdisjoint(events)
    if lacking:
        notes.append(WITHOUT_PERIODS)

    def results(of: Mapping[int, Float64Array]) -> list[object]:
        if lacking:
            return [np.nan] * count
        return list(evaluate(resolved.steps, {name: of[event][rows] for name, event in resolved.events.items()}))

    columns: dict[str, list[object]] = {
        "formula": [formula.name] * count,
        "expression": [formula.expression] * count,
        "unit": [formula.unit] * count,
        "name": [sums.names[row] for row in places],
        "module": [sums.modules[row] for row in places],
        "self": [np.nan] * count if sums.own is None else results(sums.own),
        "total": results(sums.total),
        "event": [event_names(profile)[events[0]]] * count,
        "weight": list(sums.total[events[0]][rows]),
        "note": ["; ".join(note for note in notes if note) or None] * count,
    }
    for name, column in columns.items():
        values[name].extend(column)


def _functions(profile: Profile, selection: Selection, events: Sequence[int], by: str) -> _Sums:
    own: dict[int, Float64Array] = {}
    total: dict[int, Float64Array] = {}
    shares = find_share_only_events(profile)
    names: list[str | None] = []
    modules: list[str | None] = []
    for event in events:
        function, self_weight, total_weight, _ = function_weights(profile, selection, event, by)
        scale = np.nan if event in shares else 1.0
        own[event], total[event] = self_weight * scale, total_weight * scale
        if not names:
            functions = functions_of(profile)
            modules = list(functions.modules_of(function))
            names = list(functions.names_of(function)) if by == "function" else [m or "[unknown]" for m in modules]
    return _Sums(names, modules, own, total, _notes(profile, selection, events))


def _participants(profile: Profile, selection: Selection, events: Sequence[int], by: str) -> _Sums:
    groups = groups_of(profile, FlameGroup(by)) if by != "selection" else None

    def label(m: Measurement) -> str | None:
        if groups is None:
            return None
        if m.thread >= 0:
            return groups.labels[int(groups.thread_groups[m.thread])]
        if by == "rank":
            return rank_label(m.rank)
        return host_label(m.host) if by == "host" else "(all)"

    found: dict[str | None, dict[int, list[Measurement]]] = {} if groups else {None: {}}
    for m in list_measurements(profile, selection):
        found.setdefault(label(m), {}).setdefault(m.event, []).append(m)
    names = list(found)
    counted = set(profile.counts.column("event").to_pylist())
    total = {
        event: np.array([_total(found[name].get(event, ()), event in counted) for name in names], np.float64)
        for event in events
    }
    return _Sums(names, [None] * len(names), None, total, _notes(profile, selection, events))


def _total(rows: Sequence[Measurement], counted: bool) -> float:
    """The total of an event, NaN if unknown. An event that is only sampled has no weight where it has no samples."""
    value = best_total(rows) if rows or counted else 0
    return np.nan if value is None else float(value)


def _notes(profile: Profile, selection: Selection, events: Sequence[int]) -> dict[int, str]:
    """By event why it has no total in the selection."""
    rows: dict[int, list[Measurement]] = {event: [] for event in events}
    for m in list_measurements(profile, selection):
        if m.event in rows:
            rows[m.event].append(m)
    names = event_names(profile)
    notes = {event: missing_total_note(found) for event, found in rows.items()}
    for event, found in rows.items():
        missing = sum(m.missing for m in found)
        if missing and not notes[event]:
            notes[event] = f"{names[event]} was not counted in {missing} intervals or on so many CPUs"
    return {event: note for event, note in notes.items() if note}


def find_unweighted_events(profile: Profile) -> frozenset[int]:
    """The events whose samples were recorded without periods, so that they say nothing about the counts of events."""
    weighted = profile.events.column("weighted").to_pylist()
    return frozenset(n for n, known in enumerate(weighted) if not known) - find_counted_events(profile)


TABLES = (Table("formulas", "Formulas", COLUMNS, compute_formulas, by=BY),)
"""The tables of this module."""
