"""Differences of two groups of recordings in a table (operators, kernels, modules, memory, steps, threads), by name."""

from collections.abc import Sequence

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.units import format_percent
from ..core.schema import Column, TableRows, build_rows, table_function
from .evidence import MIN_RUNS, MIN_SHARE, compare_measured
from .relative_change import divide, percent_of_base
from .tables import (
    COLUMNS,
    COMPARED_TABLES,
    describe_rows,
    find_status,
    list_measures,
    measure_sides,
    resolve_measure,
)

NO_EVIDENCE, UNTESTED = "no evidence", "not tested"
GROUP_COLUMNS = (
    *COLUMNS,
    Column("verdict", "", "Of times slower or faster, else more or less, no evidence or not tested."),
    Column("low_percent", "%", "Lower end of the 95 % interval of the ratio other ÷ base, minus 1.", "Float64"),
    Column("high_percent", "%", "Upper end of the interval.", "Float64"),
    Column("q", "", "Smallest rate of false discoveries at which the change is found.", "Float64"),
    Column(
        "detectable_percent",
        "%",
        "The smallest change of this value, in percent of it, that a single test of these recordings finds with a "
        "probability of 80 %; missing if the row was not tested.",
        "Float64",
    ),
)


@table_function
def diff_table_groups(
    bases: Sequence[Profile],
    others: Sequence[Profile],
    selection: Selection,
    name: str,
    measure: str = "",
    each_step: bool = False,
    by: str = "",
    other_selection: Selection | None = None,
) -> TableRows:
    """As `tables.diff_table`, of the means of several recordings on each side, with verdicts: see
    `evidence.compare_measured`, which times that vary on neither side do not get. A sum that a recording does not have
    is 0. Sums with less than `MIN_SHARE` of all rows on both sides are not tested. Raises InvalidRequest.
    """
    compared = COMPARED_TABLES[name]
    chosen = resolve_measure(list_measures(compared, *bases, *others) if not measure else compared.measures, measure)
    selections = selection, other_selection or selection
    measured = measure_sides(bases, others, selections, compared, chosen, each_step=each_step, by=by)
    groups, names = (measured.base, measured.other), measured.list_names()
    if name == "steps":
        names = [one for one in names if any(rows.get(one) for side in groups for rows in side)]
    # Of what was not measured in a recording, nothing is known; a sum without parts is 0.
    absent = 0.0 if chosen.additive else np.nan
    before, after = (
        np.array([[rows.get(one, absent) for rows in side] for one in names], np.float64).reshape(len(names), len(side))
        for side in groups
    )
    large = np.ones(len(names), bool)
    if chosen.additive:
        shares = [side.sum(axis=1) / max(float(side.sum()), 1e-300) for side in (before, after)]
        large = np.maximum(*shares) >= MIN_SHARE
    is_time = chosen.kind == "time" or measured.unit == "ns"
    if is_time or chosen.kind == "event":
        # Times are never equal, except those of copies of a recording, which have no noise between runs.
        large &= (np.ptp(before, axis=1) > 0) | (np.ptp(after, axis=1) > 0)
    evidence = compare_measured(before, after, large)
    means = [_mean(side) for side in (before, after)]
    deltas = np.nan_to_num(means[1]) - np.nan_to_num(means[0])
    values = [
        (None if np.isnan(before_mean) else before_mean, None if np.isnan(after_mean) else after_mean)
        for before_mean, after_mean in zip(*(mean.tolist() for mean in means), strict=True)
    ]
    known = ~np.isnan(evidence.q)
    details = describe_rows(measured, names, values)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        rows = build_rows(
            (*GROUP_COLUMNS, *details),
            {
                "name": names,
                "status": [find_status(*pair) for pair in values],
                "measure": [chosen.column] * len(names),
                "base": means[0],
                "other": means[1],
                "delta": deltas,
                "delta_percent": percent_of_base(deltas, means[0]),
                "ratio": divide(np.nan_to_num(means[1]), means[0]),
                "verdict": [
                    _verdict(is_time, bool(tested), bool(found), difference)
                    for tested, found, difference in zip(known, evidence.found, evidence.difference, strict=True)
                ],
                "low_percent": np.where(known, 100 * np.expm1(evidence.low), np.nan),
                "high_percent": np.where(known, 100 * np.expm1(evidence.high), np.nan),
                "q": evidence.q,
                "detectable_percent": np.where(known, 100 * np.expm1(evidence.detectable), np.nan),
                **{column.name: each for column, each in details.items()},
            },
        )
    return rows.take(np.lexsort((-np.abs(deltas), ~evidence.found)))


def describe_evidence(rows: TableRows) -> str:
    """How many rows of `diff_table_groups` have evidence, and the smallest change that the others could have shown, in
    a sentence."""
    detectable = np.array([np.nan if value is None else value for value in rows.column("detectable_percent")])
    detectable = detectable[~np.isnan(detectable)]
    if not len(detectable):
        return (
            f"No row was tested: verdicts need at least {MIN_RUNS} recordings on each side that are not copies, and "
            f"rows with at least {100 * MIN_SHARE:g} % of all."
        )
    found = sum(verdict not in (NO_EVIDENCE, UNTESTED) for verdict in rows.values["verdict"])
    ends = list(dict.fromkeys(format_percent(end) for end in (detectable.min(), detectable.max())))
    row = "row has" if len(detectable) == 1 else "rows have"
    return (
        f"{found} of {len(detectable)} tested {row} evidence of a change. The smallest change to be seen is "
        f"{' to '.join(ends)}{', depending on the row' if len(ends) > 1 else ''}."
    )


def _mean(side: Array) -> Array:
    """The mean of each row, without NaN; NaN if there is nothing else."""
    counts = (~np.isnan(side)).sum(axis=1)
    return np.asarray(np.where(counts, np.nansum(side, axis=1) / np.maximum(counts, 1), np.nan))


def _verdict(is_time: bool, is_tested: bool, is_found: bool, difference: float) -> str:
    if not is_tested:
        return UNTESTED
    if not is_found:
        return NO_EVIDENCE
    if is_time:
        return "slower" if difference > 0 else "faster"
    return "more" if difference > 0 else "less"
