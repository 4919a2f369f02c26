"""Count shares: the totals of an event by process, thread, rank or host, and their parts by innermost function.

A sample counts for its innermost function that is shown. Counts of `perf stat` have no functions. Where ranks or
hosts were counted, their totals are the counts; processes and threads have totals of samples if there are any.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.event_names import SAMPLED_ONLY
from ...domain.profile import Profile
from ...domain.selection import Selection, check_choice
from ...domain.tables import NO_ID, get_strings
from ...domain.units import NS_PER_S
from ..core.common_columns import EVENT, HOST, MPI_RANK, UNIT
from ..core.flame_groups import FlameGroup, FlameGroups, groups_of
from ..core.functions import functions_of
from ..core.measurements import (
    Measurement,
    find_counted_events,
    find_share_only_events,
    measure_counts,
    running_percent,
)
from ..core.sample_rollup import list_rollups
from ..core.sample_selection import event_id, event_names, filter_calls, select_events, sum_by_index, threads_of
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..core.thread_sums import sum_threads
from ..formulas.measures import describe_formula, evaluate_groups, measure_parts, selected_formula
from ..formulas.resolution import ResolvedFormula
from ..stacks.call_tree import build_shown_tree
from .participants import counted_values, label_participant
from .totals import selected_ns

BY = ("process", "thread", "rank", "host")
SAMPLE_GROUPINGS = ("process", "thread")
"""Groupings that only samples support; counts are of all processes and threads."""
PLACES = ("host", "rank", "pid", "tid")
COUNT_SHARES = (
    EVENT,
    UNIT,
    Column("participant", "", "The process, thread, rank or host, as `by` asks for."),
    HOST,
    MPI_RANK,
    Column("pid", "", "Process id; missing if the participant has several.", "Int64"),
    Column("tid", "", "Thread id; missing if the participant has several.", "Int64"),
    Column("function", "", "The innermost function; missing for samples without a stack, and for counts."),
    Column("module", "", "The executable or library of the function."),
    Column(
        "value",
        "event",
        "Weight of the selected samples of the participant in the function, or its count.",
        "number",
    ),
    Column("percent", "%", "value in percent of the total of the participant for this event.", "Float64"),
    Column("total", "event", "The total of the participant for this event.", "number"),
    Column(
        "reference_percent",
        "%",
        "total in percent of that of the reference; without a reference, of the sum over all participants.",
        "Float64",
    ),
    Column(
        "total_per_s",
        "",
        "total divided by the seconds of the selected time within the recording; missing without times.",
        "Float64",
    ),
    Column("source", "", "sampled, or counted (perf stat)."),
)


@dataclass(frozen=True, eq=False)
class _Parts:
    """Selected samples, some added up. thread: row of `threads`. function: the innermost one, NO_ID for none."""

    thread: Array
    function: Array
    weight: Array


@dataclass(frozen=True, eq=False)
class EventShares:
    """The totals of one event by participant, the largest first; participants without any are omitted.

    event: the first one of a formula. by_function: whether the parts by function are known. formula: whose values these
    are, which are not parts of the total; None for an event. total: over all participants. running_percent: of counts,
    the share of the time with a hardware counter. note: why there is no total. functions: rows of `functions` with
    weight, the largest first. places: the participant of each thread, NO_ID if it is omitted.
    """

    event: int
    by: str
    participants: tuple[str, ...]
    totals: tuple[int | float, ...]
    total: int | float | None
    by_function: bool
    running_percent: float | None
    note: str
    functions: Array
    places: Array
    parts: _Parts
    formula: ResolvedFormula | None = None

    def sum_parts(self, participants: Sequence[int], functions: Sequence[int]) -> Array:
        """int64 [participant, function]: the parts of these participants (indices) in these rows of `functions`."""
        shape = len(participants), len(functions)
        if not shape[0] or not shape[1]:
            return np.zeros(shape, np.int64)
        column = np.full(int(self.parts.function.max(initial=0)) + 2, NO_ID, np.int64)
        column[np.array(functions, np.int64) + 1] = np.arange(shape[1])
        kept = np.flatnonzero(column[self.parts.function + 1] >= 0)
        row = np.full(len(self.participants) + 1, NO_ID, np.int64)
        row[np.array(participants, np.int64)] = np.arange(shape[0])
        line = row[self.places[self.parts.thread[kept]]]
        kept, line = kept[line >= 0], line[line >= 0]
        cell = line * shape[1] + column[self.parts.function[kept] + 1]
        return sum_by_index(cell, self.parts.weight[kept], shape[0] * shape[1]).reshape(shape)

    def list_parts(self) -> tuple[Array, Array, Array]:
        """(participant, function, weight) of all parts: by participant, then largest first. Function NO_ID: samples
        without a stack."""
        size = int(self.parts.function.max(initial=0)) + 2
        place = self.places[self.parts.thread]
        kept = np.flatnonzero(place >= 0)
        cell, which = np.unique(
            place[kept].astype(np.int64) * size + self.parts.function[kept] + 1, return_inverse=True
        )
        weight = sum_by_index(which, self.parts.weight[kept], len(cell))
        cell, weight = cell[weight != 0], weight[weight != 0]
        order = np.lexsort((-weight, cell // size))
        participant, function = np.divmod(cell[order], size)
        return participant, function - 1, weight[order]


def build_shares(profile: Profile, selection: Selection, by: str = "process") -> EventShares:
    """The totals of the selected event (None: the main one), or the values of the selected formula. Raises
    InvalidRequest."""
    check_choice("by", by, BY)
    formula = selected_formula(profile, selection)
    if formula is not None:
        return _evaluate_shares(profile, selection, by, formula)
    event = event_id(profile, selection.event)
    groups = groups_of(profile, FlameGroup(by))
    guessed = event in find_share_only_events(profile)
    counted, running = counted_values(profile, selection, event, FlameGroup(by))
    # Of an event that was sampled, not counted, there is no total; if ranks and hosts were counted, theirs are counts.
    is_sampled = not guessed and not (counted and by not in SAMPLE_GROUPINGS)
    threads = profile.threads.num_rows
    weight = sum_threads(profile, selection, event).weight if is_sampled else np.zeros(threads, np.int64)
    sampled = bool(weight.any())
    unknown = "" if counted or sampled else _why_unknown(profile, selection, event)
    total: int | float | None = None
    if counted or not (guessed or unknown):
        total = sum(counted.values()) if counted else int(weight.sum())
    values = _add_by_label(groups, weight) if sampled else counted
    # Sorting is stable: equal totals stay in the order of the recording.
    names = sorted((name for name, value in values.items() if value), key=lambda name: -values[name])
    index = {name: n for n, name in enumerate(names)}
    of_group = np.array([index.get(label, NO_ID) for label in groups.labels], np.int64)
    parts = _split(profile, selection, event) if sampled else _Parts(*(np.zeros(0, np.int64) for _ in range(3)))
    return EventShares(
        event=event,
        by=by,
        participants=tuple(names),
        totals=tuple(values[name] for name in names),
        total=total,
        by_function=sampled or not counted,
        running_percent=running,
        note="" if total is not None else unknown or SAMPLED_ONLY,
        functions=_order_functions(profile, parts),
        places=of_group[groups.thread_groups] if sampled else np.full(threads, NO_ID),
        parts=parts,
    )


def _evaluate_shares(profile: Profile, selection: Selection, by: str, formula: ResolvedFormula) -> EventShares:
    group = FlameGroup(by)
    groups, rows = groups_of(profile, group), measure_parts(profile, selection, formula, each_cpu=False)
    found: dict[str, list[Measurement]] = {}
    for m in rows:
        found.setdefault(label_participant(m, group, groups), []).append(m)
    values = dict(zip(found, evaluate_groups(profile, formula, list(found.values())), strict=True))
    known = {label: value for label, value in values.items() if value is not None}
    names = sorted(known, key=lambda label: -known[label])
    [total] = evaluate_groups(profile, formula, [rows])
    none = np.zeros(0, np.int64)
    return EventShares(
        event=formula.lead,
        by=by,
        participants=tuple(names),
        totals=tuple(known[name] for name in names),
        total=total,
        by_function=False,
        running_percent=running_percent(m for m in rows if m.source == "counted"),
        note="" if total is not None else describe_formula(profile, formula, rows),
        functions=none,
        places=np.full(profile.threads.num_rows, NO_ID),
        parts=_Parts(none, none, none),
        formula=formula,
    )


def _add_by_label(groups: FlameGroups, weight: Array) -> dict[str, int | float]:
    """Weights of threads by the label of their group."""
    sums = sum_by_index(groups.thread_groups, weight, len(groups.labels)).tolist()
    found: dict[str, int | float] = dict.fromkeys(groups.labels, 0)
    for label, value in zip(groups.labels, sums, strict=True):
        found[label] += value
    return found


def _split(profile: Profile, selection: Selection, event: int) -> _Parts:
    kept = filter_calls(profile, selection)
    tree = build_shown_tree(profile, selection.frame_filter)
    function = tree.function if tree.node is None else tree.function[tree.node]
    columns: list[tuple[Array, ...]] = []
    for part in list_rollups(profile, selection, event):
        inside = part if kept is None else part.filter(kept.take(part.call))
        columns.append((inside.thread, function.take(inside.call), inside.weight))
    return _Parts(*(np.concatenate(column) for column in zip(*columns, strict=True)))


def _order_functions(profile: Profile, parts: _Parts) -> Array:
    own = sum_by_index(parts.function + 1, parts.weight, profile.functions.num_rows + 1)[1:]
    order = np.argsort(-own, kind="stable")
    ordered: Array = order[own[order] != 0]
    return ordered


def _why_unknown(profile: Profile, selection: Selection, event: int) -> str:
    """Why an event has no count: "not counted", "not supported"; empty if it was not requested."""
    rows = [row for row in measure_counts(profile, selection) if row.event == event]
    return ", ".join(sorted({row.status for row in rows if row.value is None and row.status}))


def selected_seconds(profile: Profile, selection: Selection) -> float | None:
    """The seconds of the selected window within the recording; None without times, if it is empty, and with a step,
    whose time differs by rank."""
    length = selected_ns(profile, selection) if selection.step is None else None
    return length / NS_PER_S if length else None


def sum_reference(
    profile: Profile, selection: Selection, shares: EventShares, reference: str | None
) -> int | float | None:
    """The value that is 100 % for the shares of a selection: the total of the participant `reference` in the selected
    time and functions, even if its threads or ranks are not selected; None: of all selected participants.

    The result is None if there is no such total, or if it is 0; of a formula also without a participant.
    """
    if reference is None:
        return None if shares.formula else sum(shares.totals) or None
    if selection.has_places:
        shares = build_shares(profile, selection.without_places(), shares.by)
    return dict(zip(shares.participants, shares.totals, strict=True)).get(reference) or None


@table_function
def compute_count_shares(
    profile: Profile, selection: Selection, by: str = "process", reference: str | None = None
) -> TableRows:
    """One row for each event, participant and function with a value; one row for each count. A formula has one row for
    each participant, and no parts.

    Sorted by event, then by the total of the participant, then by value, descending. reference: a participant.
    """
    if selected_formula(profile, selection) is not None:
        return _rows_of(profile, selection, by, reference)
    parts = [
        _rows_of(profile, selection.replace(event=event_names(profile)[event]), by, reference)
        for event in select_events(profile, selection)
    ]
    return build_rows(
        COUNT_SHARES,
        {
            column.name: np.concatenate([np.zeros(0, object), *(part.values[column.name] for part in parts)])
            if column.dtype in ("str", "Int64", "number")
            else np.concatenate([np.zeros(0), *(part.values[column.name] for part in parts)])
            for column in COUNT_SHARES
        },
    )


def _rows_of(profile: Profile, selection: Selection, by: str, reference: str | None) -> TableRows:
    shares = build_shares(profile, selection, by)
    if shares.by_function:
        participant, function, value = shares.list_parts()
    else:
        participant, function = np.arange(len(shares.participants)), np.full(len(shares.participants), NO_ID)
        value = np.array(shares.totals)
    rows, known = len(participant), functions_of(profile)
    # Integers stay exact.
    total = np.array(shares.totals, object)[participant]
    amount = total.astype(np.float64)
    whole, seconds = sum_reference(profile, selection, shares, reference), selected_seconds(profile, selection)
    unknown = np.full(rows, np.nan)

    def named(names_of: Callable[[Array], list[str]]) -> Array:
        texts = np.full(rows, None, object)
        texts[function >= 0] = [name or None for name in names_of(function[function >= 0])]
        return texts

    places = np.array(_list_places(profile, shares), object).reshape(len(shares.participants), len(PLACES))
    event, unit = event_names(profile)[shares.event], get_strings(profile.events, "unit")[shares.event]
    source = "sampled" if shares.by_function else "counted"
    if shares.formula is not None:
        event, unit, seconds = shares.formula.name, shares.formula.formula.unit, None
        source = "counted" if find_counted_events(profile) & set(shares.formula.parts) else "sampled"
    return build_rows(
        COUNT_SHARES,
        {
            "event": np.full(rows, event, object),
            "unit": np.full(rows, unit, object),
            "participant": np.array(shares.participants, object)[participant],
            **{name: places[participant, n] for n, name in enumerate(PLACES)},
            "function": named(known.names_of),
            "module": named(known.modules_of),
            "value": value.astype(object),
            "percent": unknown if shares.formula else 100.0 * value.astype(np.float64) / amount,
            "total": total,
            "reference_percent": unknown if whole is None else 100.0 * amount / whole,
            "total_per_s": unknown if seconds is None else amount / seconds,
            "source": np.full(rows, source, object),
        },
    )


def _list_places(profile: Profile, shares: EventShares) -> list[list[Any]]:
    """Host, rank, process id and thread id of each participant, None where it has several or none."""
    found: list[list[set[Any]]] = [[set() for _ in PLACES] for _ in shares.participants]
    threads, groups = threads_of(profile), groups_of(profile, FlameGroup(shares.by))
    index = {label: n for n, label in enumerate(shares.participants)}
    for thread, group in enumerate(groups.thread_groups.tolist()):
        place = index.get(groups.labels[group])
        if place is not None:
            rank = int(threads.rank[thread])
            values = threads.host[thread] or None, rank if rank >= 0 else None, threads.pid[thread], threads.tid[thread]
            for known, value in zip(found[place], values, strict=True):
                known.add(value)
    return [[next(iter(known)) if len(known) == 1 else None for known in sets] for sets in found]


TABLES = (
    Table("count-shares", "Counts by participant", COUNT_SHARES, compute_count_shares, by=BY, takes_formulas=True),
)
"""The tables of this module."""
