"""The values of formulas: of the selection, and by function, module, thread, process, rank or host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Float64Array
from ...domain.profile import Profile
from ...domain.selection import Selection, check_choice
from ..core.flame_groups import FlameGroup, groups_of
from ..core.functions import functions_of
from ..core.measurements import Measurement, find_share_only_events, list_measurements
from ..core.sample_selection import check_selection, event_names
from ..core.schema import Column, Table, TableRows, build_rows, memoize_table, table_function
from ..formulas.measures import describe_formula, evaluate_totals, evaluate_weights, sum_measurements, use_lead_event
from ..formulas.resolution import ResolvedFormula, resolve_formulas
from ..stacks.hotspots import function_weights
from .participants import label_participant

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
    event; NaN is missing. sampled: whether they are weights of samples, without counts."""

    names: Sequence[str | None]
    modules: Sequence[str | None]
    own: Mapping[int, Float64Array] | None
    total: Mapping[int, Float64Array]
    sampled: bool = False


@table_function
def compute_formulas(profile: Profile, selection: Selection, by: str = "selection") -> TableRows:
    """One row for each formula whose events were measured, and place with a value of any of them.

    A formula is evaluated on sums, never averaged. The selected event has no effect. Functions and modules have only
    samples. Places are sorted by the weight of the first event of the formula, descending.
    """
    check_selection(profile, use_lead_event(profile, selection))
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
    everywhere = list_measurements(profile, selection)
    for resolved in formulas:
        _append(values, profile, resolved, sums, describe_formula(profile, resolved, everywhere))
    return build_rows(COLUMNS, values)


def _append(
    values: dict[str, list[object]], profile: Profile, resolved: ResolvedFormula, sums: _Sums, note: str
) -> None:
    """Append the rows of a formula."""
    events = list(resolved.events.values())
    shown = np.any([(sums.total[event] != 0) & ~np.isnan(sums.total[event]) for event in events], axis=0)
    # The selection as a whole has no name, and always a row.
    rows = np.arange(1) if sums.names == [None] else np.flatnonzero(shown)
    rows = rows[np.argsort(-np.nan_to_num(sums.total[resolved.lead][rows]), kind="stable")]
    places = rows.tolist()
    formula, count = resolved.formula, len(rows)
    evaluated = evaluate_weights if sums.sampled else evaluate_totals
    columns: dict[str, list[object]] = {
        "formula": [formula.name] * count,
        "expression": [formula.expression] * count,
        "unit": [formula.unit] * count,
        "name": [sums.names[row] for row in places],
        "module": [sums.modules[row] for row in places],
        "self": [np.nan] * count if sums.own is None else list(evaluated(profile, resolved, sums.own)[rows]),
        "total": list(evaluated(profile, resolved, sums.total)[rows]),
        "event": [event_names(profile)[resolved.lead]] * count,
        "weight": list(sums.total[resolved.lead][rows]),
        "note": [note or None] * count,
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
    return _Sums(names, modules, own, total, sampled=True)


def _participants(profile: Profile, selection: Selection, events: Sequence[int], by: str) -> _Sums:
    group = FlameGroup(by) if by != "selection" else None
    found: dict[str | None, list[Measurement]] = {} if group else {None: []}
    groups = groups_of(profile, group) if group else None
    for m in list_measurements(profile, selection):
        label = None if group is None or groups is None else label_participant(m, group, groups)
        found.setdefault(label, []).append(m)
    return _Sums(list(found), [None] * len(found), None, sum_measurements(profile, events, list(found.values())))


TABLES = (Table("formulas", "Formulas", COLUMNS, compute_formulas, by=BY, takes_formulas=True),)
"""The tables of this module."""
