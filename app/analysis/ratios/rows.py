"""The table of formulas by function, and by function and rank, process, thread or host."""

import numpy as np

from ...domain.profile import Profile
from ...domain.selection import Selection, check_choice
from ..core.sample_selection import event_names
from ..core.schema import Column, Table, TableRows, build_rows, memoize_table, table_function
from ..formulas.additional import additional_formulas
from .frame_values import mean_of
from .function_sums import BY, sum_functions, sum_places
from .metrics import has_ratios, list_formula_names, list_pairs, resolve_metric

COLUMNS = (
    Column("formula", "", "Name of the formula, or the ratio of two events if no formula applies."),
    Column("unit", "", 'Unit of self, total and mean, such as "%" or "GHz"; empty for a ratio.'),
    Column("name", "", "Name of the function as displayed."),
    Column("module", "", "Program or library of the function."),
    Column("place", "", "The rank, process, thread or host; missing for all of them together."),
    Column(
        "self",
        "event",
        "The formula of the self weights of its events in the function there; missing where the divisor is 0.",
        "Float64",
    ),
    Column("total", "event", "The formula of the totals of its events; missing where the divisor is 0.", "Float64"),
    Column("mean", "event", "The formula of all selected samples.", "Float64"),
    Column("event", "", "The first event of the formula."),
    Column("self_weight", "", "The self weight of that event in the function there, in its unit.", "Float64"),
    Column("total_weight", "", "The total weight of that event in the function there, in its unit.", "Float64"),
    Column("note", "", "Why values are missing, or that events were not measured together."),
)


@table_function
def compute_ratios(profile: Profile, selection: Selection, by: str = "function") -> TableRows:
    """One row for each formula whose events have samples, and function with a sample of any of them; by rank, process,
    thread or host: for each of these. Without a formula: the ratios of two events.

    Formulas are evaluated on sums of samples, never averaged. The selected event has no effect. By formula, then by the
    weight of its first event, descending.
    """
    check_choice("by", by, BY)
    everything = selection.replace(event=None, invert=False, recursion=False)
    key = repr(("ratios", by, additional_formulas()))
    return memoize_table(key, profile, everything, lambda: _rows(profile, everything, by))


def _rows(profile: Profile, selection: Selection, by: str) -> TableRows:
    values: dict[str, list[object]] = {column.name: [] for column in COLUMNS}
    texts = (list_formula_names(profile) or list_pairs(profile)) if has_ratios(profile) else []
    for text in texts:
        metric = resolve_metric(profile, text)
        events = metric.events
        sums = sum_functions(profile, selection, events) if by == BY[0] else sum_places(profile, selection, events, by)
        names, modules, places = sums.names(profile)
        count, formula = len(names), metric.formula.formula
        columns: dict[str, list[object]] = {
            "formula": [formula.name] * count,
            "unit": [formula.unit] * count,
            "name": [*names],
            "module": [*modules],
            "place": [*places],
            "self": list(metric.evaluate(sums.own)),
            "total": list(metric.evaluate(sums.total)),
            "mean": [mean_of(sums, metric)] * count,
            "event": [event_names(profile)[events[0]]] * count,
            "self_weight": list(sums.own[events[0]]) if not metric.unknown else [np.nan] * count,
            "total_weight": list(sums.total[events[0]]) if not metric.unknown else [np.nan] * count,
            "note": [metric.note or None] * count,
        }
        for name, column in columns.items():
            values[name].extend(column)
    return build_rows(COLUMNS, values)


TABLES = (Table("ratios", "Ratios", COLUMNS, compute_ratios, by=BY),)
"""The tables of this module."""
