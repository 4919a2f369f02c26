"""Which rank (process, thread, host) computes more than the others, in what, since when, and who waits for it."""

from dataclasses import dataclass, field, replace

import numpy as np

from ...domain.arrays import Array
from ...domain.event_names import measures_time
from ...domain.list_text import format_ranges, to_ranges
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.symbols.short_names import shorten_symbol
from ...domain.tables import NO_ID, get_strings
from ...domain.units import format_duration, format_quantity
from ..core.functions import functions_of
from ..core.measurements import find_share_only_events
from ..core.memo import memoize
from ..core.sample_counts import MIN_COMPARED_SAMPLES
from ..core.sample_selection import event_names
from ..core.waiting_functions import waiting_pattern
from .cells import GroupTotals, MatrixCells, sum_groups
from .changes import Since, find_since
from .groups import MatrixGroups, matrix_groups
from .matrix import NO_STACK, Matrix, build_matrix
from .outliers import MIN_SHARE, is_significant, measure_excess, sampling_variance

MIN_WAIT_ERRORS = 3.0
"""A group waits for an outlier if its share of waiting is greater by so many standard errors, and by `MIN_SHARE`."""


@dataclass(frozen=True)
class Balance:
    """The groups of one role. most: the group that computes most (its place), with `value`, and `mean` of all;
    others_mean: of the other groups. outlier: whether it exceeds its error and is material.

    function: that explains most of the excess, "" for none; function_excess: how much of it; row: of the matrix, -1 for
    none. since: of the function. waiting: groups that wait for it, for this share of their weight since then.
    less_percent: if there are none, how much less time the others use, computing and waiting; 0 if not material.
    waiting_function: where these groups, or else the others, wait most; "" with few samples that wait.
    """

    groups: MatrixGroups = field(metadata={"shared": True})
    members: int
    most: int
    value: int
    mean: float
    others_mean: float
    excess: float
    error: float
    outlier: bool
    row: int = -1
    function: str = ""
    function_excess: float = 0.0
    since: Since | None = None
    waiting: tuple[int, ...] = ()
    waiting_function: str = ""
    waiting_percent: float = 0.0
    less_percent: float = 0.0

    @property
    def over_mean_percent(self) -> float:
        """How much more the group with the most computes than the mean of all."""
        return 100.0 * (self.value / self.mean - 1) if self.mean else 0.0


def find_balances(profile: Profile, selection: Selection, event: int, by: str) -> tuple[Balance, ...]:
    """The balance of each role with several groups, the one that computes most first; ranks and hosts have one role."""
    chosen = selection.replace(event=None, invert=False, recursion=False)
    key = ("balance", chosen, event, by, waiting_pattern())
    return memoize(profile, key, lambda: _find(profile, chosen, event, by))


def _find(profile: Profile, selection: Selection, event: int, by: str) -> tuple[Balance, ...]:
    groups = matrix_groups(profile, selection, by)
    if event == NO_ID or not groups.compared:
        return ()
    totals = sum_groups(profile, selection, event, groups)
    found = []
    for role in range(int(groups.role.max(initial=-1)) + 1):
        members = np.flatnonzero(groups.role == role)
        if len(members) >= groups.least and totals.computing[members].sum() > 0:
            balance, mean_whole = _of_role(groups, totals, members)
            if balance.outlier:
                # The functions are only needed to explain an outlier.
                matrix = build_matrix(profile, selection, event, by)
                balance = _explain(profile, selection, event, matrix, members, balance, mean_whole)
            found.append(balance)
    return tuple(sorted(found, key=lambda one: -one.mean * one.members))


def _of_role(groups: MatrixGroups, totals: GroupTotals, members: Array) -> tuple[Balance, float]:
    """(the balance of these groups without an explanation, the mean of their whole weights)."""
    value = totals.computing[members].astype(np.float64)
    whole = totals.whole[members]
    variance = sampling_variance(totals.computing[members], totals.computing_count[members], whole)
    place = int(value.argmax())
    most = int(members[place])
    mean_whole = float(whole.mean())
    [excess], [error] = _measure(value[place], variance[place], value, variance)
    [outlier] = is_significant(
        np.array([excess]),
        np.array([error]),
        totals.computing_count[most : most + 1],
        np.array([mean_whole]),
        np.array([len(members)]),
    ).tolist()
    balance = Balance(
        groups=groups,
        members=len(members),
        most=most,
        value=int(totals.computing[most]),
        mean=float(value.mean()),
        others_mean=float(value.mean() - excess / len(members)),
        excess=float(excess),
        error=float(error),
        outlier=outlier,
    )
    return balance, mean_whole


def _measure(top: float, own: float, value: Array, variance: Array) -> tuple[Array, Array]:
    return measure_excess(
        np.array([top]),
        np.array([own]),
        np.array([value.sum()]),
        np.array([(value * value).sum()]),
        np.array([variance.sum()]),
        np.array([len(value)]),
    )


def _explain(
    profile: Profile,
    selection: Selection,
    event: int,
    matrix: Matrix,
    members: Array,
    balance: Balance,
    whole: float,
) -> Balance:
    """The same with the function, since when, and who waits."""
    cells, most = matrix.cells, balance.most
    row, excess = _find_function(matrix, len(members), most, whole)
    since = matrix.since.get(row)
    if row >= 0 and matrix.excess.top_group[row] != most:
        [since] = find_since(profile, selection, event, cells.groups, cells.rows, [(row, most)])
    later = cells.totals
    if since is not None:
        # Before, others may have waited for another reason.
        start = selection.replace(start_ns=since.at_ns)
        later = sum_groups(profile, start, event, cells.groups)
    waiting = _find_waiting(later, members, most)
    names = functions_of(profile)
    percent, less = 0.0, 0.0
    if len(waiting):
        percent = 100.0 * float(later.waiting[waiting].sum()) / float(later.whole[waiting].sum())
    elif measures_time(event_names(profile)[event]) and not selection.has_patterns:
        # Patterns remove samples, also of time on the CPU.
        others = float(cells.totals.whole[members].sum() - cells.totals.whole[most]) / (len(members) - 1)
        less = max(0.0, 100.0 * (1 - others / float(cells.totals.whole[most])))
    function = int(cells.rows.function[row]) if row >= 0 else -1
    return replace(
        balance,
        row=row,
        function=names.name_of(function) if function >= 0 else "",
        function_excess=excess,
        since=since,
        waiting=tuple(waiting.tolist()),
        waiting_function=_find_wait(profile, cells, waiting if len(waiting) else members[members != most]),
        waiting_percent=percent,
        less_percent=less if less >= 100 * MIN_SHARE else 0.0,
    )


def _find_function(matrix: Matrix, members: int, most: int, whole: float) -> tuple[int, float]:
    """The row that computes with the greatest significant excess of this group, and the excess; -1 for none."""
    cells, sums = matrix.cells, matrix.excess
    own = np.flatnonzero(cells.group == most)
    row = cells.row[own]
    # Most of the weight of a row can be that of another role.
    own = own[~cells.rows.waits[row] & (cells.rows.function[row] >= 0) & (sums.role[row] == cells.groups.role[most])]
    row, value = cells.row[own], cells.weight[own].astype(np.float64)
    variance = sampling_variance(cells.weight[own], cells.count[own], cells.totals.whole[cells.group[own]])
    groups = np.full(len(own), members)
    excess, error = measure_excess(value, variance, sums.total[row], sums.squares[row], sums.variance[row], groups)
    found = is_significant(excess, error, cells.count[own], np.full(len(own), whole), groups)
    if not found.any():
        return -1, 0.0
    best = int(np.where(found, excess, -np.inf).argmax())
    return int(row[best]), float(excess[best])


def _find_wait(profile: Profile, cells: MatrixCells, groups: Array) -> str:
    """The function in which these groups wait most; "" if they have few samples that wait."""
    chosen = np.zeros(len(cells.groups), bool)
    chosen[groups] = True
    inside = np.flatnonzero(cells.rows.waits[cells.row])
    inside = inside[chosen[cells.group[inside]]]
    if int(cells.count[inside].sum()) < MIN_COMPARED_SAMPLES:
        return ""
    by_row = np.bincount(cells.row[inside], cells.weight[inside], len(cells.rows))
    function = int(cells.rows.function[int(by_row.argmax())])
    return functions_of(profile).name_of(function) if function >= 0 else NO_STACK


def _find_waiting(totals: GroupTotals, members: Array, most: int) -> Array:
    """The groups that wait for a greater share of their time than the one that computes most."""
    share = totals.waiting / np.maximum(1, totals.whole)
    variance = share * (1 - share) / np.maximum(1, totals.count)
    more, error = share - share[most], np.sqrt(variance + variance[most])
    found = (more > MIN_WAIT_ERRORS * error) & (more >= MIN_SHARE)
    waiting: Array = members[found[members]]
    return waiting


def format_balance(profile: Profile, event: int, balance: Balance) -> str:
    """The balance in one or two sentences. Without an outlier: that there is none, and how large one had to be."""
    groups, shares = balance.groups, event in find_share_only_events(profile)
    noun = groups.by
    if not balance.outlier:
        return (
            f"No {noun} computes more than the others by more than the error of the samples and "
            f"{100 * MIN_SHARE:.0f} % of the time."
        )
    unit = get_strings(profile.events, "unit")[event] or "count"

    def amount(value: float) -> str:
        suffix = f" {event_names(profile)[event]}" if unit == "count" else ""
        return format_quantity(value, unit).text + suffix

    over = f"{100.0 * balance.excess / balance.others_mean:.0f} % more than" if balance.others_mean > 0 else "unlike"
    mean = f"mean of the other {balance.members - 1:,} {_plural(noun)}"
    others = f"the {'other ' + noun if balance.members == 2 else mean}"
    text = f"{_name(groups, balance.most)} computes {'' if shares else amount(balance.value) + ', '}{over} {others}"
    if not shares:
        text += f" ({amount(balance.others_mean)})"
    if balance.function:
        text += f", mostly in {shorten_symbol(balance.function)}"
        part = min(1.0, balance.function_excess / balance.excess)
        text += f" ({100 * part:.0f} % of the difference)"
    if balance.since is not None:
        text += f", since {format_duration(balance.since.at_ns)} ± {format_duration(balance.since.error_ns)}"
    text += "."
    if balance.waiting:
        several = len(balance.waiting) > 1
        text += (
            f" {_list_groups(groups, balance.waiting)} {'wait' if several else 'waits'} for it: "
            f"{balance.waiting_percent:.0f} % of {'their' if several else 'its'} time"
            + (" since then" if balance.since is not None else "")
            + (f", mostly in {shorten_symbol(balance.waiting_function)}" if balance.waiting_function else "")
            + "."
        )
    elif balance.less_percent:
        text += (
            f" The other{'s use' if balance.members > 2 else f' {noun} uses'} {balance.less_percent:.0f} % less CPU "
            "time"
            + (
                f"; their samples that wait are mostly in {shorten_symbol(balance.waiting_function)}"
                if balance.waiting_function
                else ""
            )
            + ". A recording of the time off the CPU shows how long they wait."
        )
    return text


def _plural(noun: str) -> str:
    return noun + ("es" if noun.endswith("s") else "s")


def _name(groups: MatrixGroups, group: int) -> str:
    label = groups.labels[group]
    if groups.by == "rank":
        return label.capitalize()
    return f"{groups.by.capitalize()} {label}"


def _list_groups(groups: MatrixGroups, which: tuple[int, ...]) -> str:
    if groups.by == "rank":
        ranks = sorted(groups.key[group] for group in which)
        return f"Rank{'s' * (len(ranks) > 1)} {format_ranges(to_ranges(ranks))}"
    names = [groups.labels[group] for group in which]
    more = len(names) - 3
    return (
        f"{(_plural(groups.by) if len(names) > 1 else groups.by).capitalize()} "
        + ", ".join(names[:3])
        + (f" and {more:,} more" if more > 0 else "")
    )
