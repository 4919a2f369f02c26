"""Differences of two results in a table (operators, kernels, modules, memory, steps, threads), by name.

Threads are matched by role. Other rows of several ranks are added up. Sums can be divided by the number of steps, to
compare recordings of different length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...domain.errors import InvalidRequest
from ...domain.list_text import abbreviate_names
from ...domain.profile import Profile
from ...domain.selection import Selection, check_choice
from ...domain.tables import get_strings
from ...domain.text import shorten
from ..core.measurements import find_share_only_events
from ..core.sample_selection import event_id, ranks_of
from ..core.schema import Column, TableFunction, TableRows, build_rows, records, table_function
from ..memory import allocations
from ..ml import kernels, modules, operators, steps
from ..ml.operator_parts import OPERATOR_PARTS, operator_parts_of
from ..ml.tokens import parse_step_kind
from .relative_change import divide, percent_of_base
from .runs import find_event
from .thread_roles import RANK, RoleSide, match_threads

STATUSES = ("grew", "shrank", "appeared", "vanished", "same")
COLUMNS = (
    Column("name", "", "Name of the compared operator, kernel, module, device, part of a step, role or rank."),
    Column("status", "", "grew, shrank, appeared, vanished or same."),
    Column("measure", "", "The compared column of the table."),
    Column("base", "", "Value in the base profile, per step if requested.", "Float64"),
    Column("other", "", "Value in the other profile.", "Float64"),
    Column("delta", "", "other − base.", "Float64"),
    Column("delta_percent", "%", "delta in percent of the size of base.", "Float64"),
    Column("ratio", "", "other ÷ base.", "Float64"),
)
_NAMES = "Names of the threads in the {}, the most frequent first, with their number if there are several."
THREAD_COLUMNS = (
    Column("unit", "", "Of base, other and delta: that of the event, or % if samples give no total, or threads."),
    Column("base_percent", "%", "base in percent of all rows.", "Float64"),
    Column("other_percent", "%", "other in percent of all rows.", "Float64"),
    Column("base_threads", "", _NAMES.format("base")),
    Column("other_threads", "", _NAMES.format("other")),
    Column("match", "", "Why they belong together: name, functions (several roles have the name), rank, or one side."),
    Column("overlap", "", "How alike what they run is, from 0 to 1: Morisita index of their functions.", "Float64"),
)
"""The further columns of the table `threads`."""
MAX_NAMES = 10
STEP_PARTS = {
    "kernel": "Kernels",
    "memcpy": "Memcpy",
    "memset": "Memset",
    "communication": "Calls of collectives",
    "runtime": "Runtime",
    "dataloader": "DataLoader",
    "cpu_exec": "Operators on the CPU",
    "other": "Other",
    "total": "Whole step",
}
"""The compared columns of the table `steps`, with labels."""
STEP_GROUPS = {"prefill": "Prefill", "decode": "Decode (per token)"}
"""Steps of language models that are compared separately."""


@dataclass(frozen=True)
class Measure:
    """A column that can be compared. kind: time (µs), bytes, count, or event for the unit of it. additive: whether
    values of ranks and steps are added; else the maximum is used."""

    column: str
    label: str
    kind: str = "time"
    additive: bool = True


@dataclass(frozen=True)
class ComparedTable:
    """A table that can be compared. noun: what a row is. key: the column with its name."""

    name: str
    title: str
    noun: str
    key: str
    measures: tuple[Measure, ...]


COMPARED_TABLES = {
    one.name: one
    for one in (
        ComparedTable(
            "operators",
            "Operators",
            "operator",
            "name",
            (
                Measure("device_self_us", "Device self"),
                Measure("device_total_us", "Device total"),
                Measure("host_self_us", "Host self"),
                Measure("host_total_us", "Host total"),
                Measure("calls", "Calls", "count"),
            ),
        ),
        ComparedTable(
            "kernels",
            "Kernels",
            "kernel",
            "name",
            (
                Measure("total_us", "Time"),
                Measure("calls", "Calls", "count"),
                Measure("max_us", "Longest", additive=False),
            ),
        ),
        ComparedTable(
            "modules",
            "Modules",
            "module",
            "module",
            (
                Measure("device_total_us", "Device total"),
                Measure("host_total_us", "Host total"),
                Measure("calls", "Calls", "count"),
            ),
        ),
        ComparedTable(
            "memory",
            "Memory",
            "device",
            "device",
            (
                Measure("peak_bytes", "Peak", "bytes", additive=False),
                Measure("peak_reserved_bytes", "Peak reserved", "bytes", additive=False),
                Measure("unfreed_bytes", "Never freed", "bytes", additive=False),
                Measure("allocated_bytes", "Total allocated", "bytes"),
                Measure("allocations", "Blocks", "count"),
            ),
        ),
        ComparedTable(
            "steps",
            "Steps",
            "part of a step",
            "name",
            (
                Measure("mean_us", "Mean", additive=False),
                Measure("median_us", "Median", additive=False),
                Measure("max_us", "Longest", additive=False),
            ),
        ),
        ComparedTable(
            "threads",
            "Threads",
            "role",
            "name",
            (Measure("weight", "Weight", "event"), Measure("threads", "Number of threads", "count")),
        ),
    )
}
"""The tables that can be compared, by name in URLs."""


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """The values by name in each recording of both sides, in the order of the table. unit: of measures of an event.
    details: values of further columns by name."""

    base: list[dict[str, float]]
    other: list[dict[str, float]]
    unit: str = ""
    details: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def list_names(self) -> list[str]:
        """The names of either side."""
        return list(dict.fromkeys(name for side in (self.other, self.base) for rows in side for name in rows))


def has_table(profile: Profile, name: str) -> bool:
    """Whether a profile has rows of a table that can be compared."""
    if name == "modules":
        return modules.has_modules(profile)
    if name == "memory":
        return allocations.has_memory(profile)
    if name == "threads":
        return bool(profile.threads.num_rows and profile.samples.num_rows)
    return bool({"operators": profile.slices, "kernels": profile.device_work, "steps": profile.steps}[name].num_rows)


@table_function
def diff_table(
    base: Profile,
    other: Profile,
    selection: Selection,
    name: str,
    measure: str = "",
    each_step: bool = False,
    by: str = "",
    other_selection: Selection | None = None,
) -> TableRows:
    """One row for each name that either has; the greatest change first.

    measure: a column of the table, its first one where empty. each_step: sums are divided by the number of steps of
    the respective profile. by: what rows of operators are, one of `list_groupings`; their names where empty. The
    selected step, ranks and window apply to both, unless the other side has its own. Raises InvalidRequest.
    """
    compared = COMPARED_TABLES[name]
    chosen = resolve_measure(list_measures(compared, base, other) if not measure else compared.measures, measure)
    selections = selection, other_selection or selection
    measured = measure_sides([base], [other], selections, compared, chosen, each_step=each_step, by=by)
    (before,), (after,) = measured.base, measured.other
    names = measured.list_names()
    if name == "steps":
        # A column that is empty in both is not recorded by traces of this kind.
        names = [one for one in names if before.get(one) or after.get(one)]
    values = [(before.get(one), after.get(one)) for one in names]
    base_values, other_values = (np.array([value[side] or 0.0 for value in values]) for side in (0, 1))
    deltas = other_values - base_values
    details = describe_rows(measured, names, values)
    compared_rows = build_rows(
        (*COLUMNS, *details),
        {
            "name": names,
            "status": [find_status(b, a) for b, a in values],
            "measure": [chosen.column] * len(names),
            "base": [b for b, _ in values],
            "other": [a for _, a in values],
            "delta": deltas,
            "delta_percent": percent_of_base(deltas, base_values),
            "ratio": divide(other_values, base_values),
            **{column.name: each for column, each in details.items()},
        },
    )
    return compared_rows.take(np.argsort(-np.abs(deltas), kind="stable"))


def describe_rows(
    measured: MeasuredRows, names: Sequence[str], values: Sequence[tuple[float | None, float | None]]
) -> dict[Column, list[Any]]:
    """The values of `THREAD_COLUMNS` for these rows and their values of base and other; nothing of other tables."""
    if not measured.details:
        return {}
    sums = [sum(value[side] or 0.0 for value in values) for side in (0, 1)]
    known = dict(measured.details)
    for at, side in enumerate(("base", "other")):
        known[f"{side}_percent"] = {
            name: 100 * (value[at] or 0.0) / sums[at]
            for name, value in zip(names, values, strict=True)
            if sums[at] and value[at] is not None
        }
    return {column: [known[column.name].get(name) for name in names] for column in THREAD_COLUMNS}


def list_measures(compared_table: ComparedTable, *profiles: Profile) -> tuple[Measure, ...]:
    """The measures of these profiles: device times only if one of them has any."""
    devices = any(profile.device_work.num_rows for profile in profiles)
    return tuple(measure for measure in compared_table.measures if devices or not measure.column.startswith("device_"))


def resolve_measure(measures: Sequence[Measure], name: str) -> Measure:
    """The selected measure; by default the first. Raises InvalidRequest."""
    known = {measure.column: measure for measure in measures}
    return known[check_choice("of", name, known)] if name else measures[0]


def find_status(before: float | None, after: float | None) -> str:
    """What happened to a value, one of `STATUSES`."""
    if not before and not after:
        return "same"
    if not before:
        return "appeared"
    if not after:
        return "vanished"
    return "grew" if after > before else "shrank" if after < before else "same"


def list_groupings(base: Profile, other: Profile, name: str) -> tuple[str, ...]:
    """The groupings of this table that both profiles support, if there is a choice."""
    if name == "threads":
        return ("name", RANK) if all(len(ranks_of(profile)) > 1 for profile in (base, other)) else ()
    if name != "operators":
        return ()
    parts = [part for part in OPERATOR_PARTS if all(part in operator_parts_of(profile) for profile in (base, other))]
    return ("name", *parts) if parts else ()


def resolve_grouping(base: Profile, other: Profile, name: str, grouping: str) -> str:
    """The selected grouping of this table; "" for its default. Raises InvalidRequest."""
    groupings = list_groupings(base, other, name)
    if grouping and grouping not in groupings:
        if name == "operators" and not groupings:
            raise InvalidRequest(f"Not both results have {' or '.join(OPERATOR_PARTS)} of operators; omit by.", "by")
        if not groupings:
            raise InvalidRequest(f"Rows of {name} have no groupings; omit by.", "by")
        check_choice("by", grouping, groupings)
    return "" if grouping == "name" else grouping


def measure_sides(
    bases: Sequence[Profile],
    others: Sequence[Profile],
    selections: tuple[Selection, Selection],
    compared_table: ComparedTable,
    measure: Measure,
    *,
    each_step: bool = False,
    by: str = "",
) -> MeasuredRows:
    """The values of each recording: see `diff_table`. selections: of base and other. Raises InvalidRequest."""
    sides = [
        [max(1, _steps(one, selection)) if each_step and measure.additive else 1 for one in side]
        for side, selection in zip((bases, others), selections, strict=True)
    ]
    if compared_table.name == "threads":
        return _measure_threads(bases, others, selections, measure, sides, by)
    base, other = (
        [
            {key: value / count for key, value in _rows(one, selection, compared_table, measure, by).items()}
            for one, count in zip(side, counts, strict=True)
        ]
        for side, counts, selection in zip((bases, others), sides, selections, strict=True)
    )
    return MeasuredRows(base, other)


def _measure_threads(
    bases: Sequence[Profile],
    others: Sequence[Profile],
    selections: tuple[Selection, Selection],
    measure: Measure,
    steps_of: Sequence[Sequence[int]],
    by: str,
) -> MeasuredRows:
    event = find_event(bases, others, *selections)
    roles = match_threads(bases, others, *selections, event, by)
    is_weight = measure.column == "weight"
    is_share = is_weight and any(event_id(one, event) in find_share_only_events(one) for one in (*bases, *others))
    unit = get_strings(others[0].events, "unit")[event_id(others[0], event)] if is_weight else "threads"
    names = [role.name for role in roles]
    both = [role.base for role in roles], [role.other for role in roles]
    base, other = (
        [
            _role_values(names, sides, at, "weight" if is_weight else "threads", count, is_share)
            for at, count in enumerate(counts)
        ]
        for sides, counts in zip(both, steps_of, strict=True)
    )
    details: dict[str, dict[str, Any]] = {
        "unit": dict.fromkeys(names, "%" if is_share else unit),
        "base_threads": {role.name: list_role_threads(role.base) for role in roles},
        "other_threads": {role.name: list_role_threads(role.other) for role in roles},
        "match": {role.name: role.match for role in roles},
        "overlap": {role.name: role.overlap for role in roles},
    }
    return MeasuredRows(base, other, "%" if is_share else unit, details)


def _role_values(
    names: Sequence[str], sides: Sequence[RoleSide], recording: int, column: str, steps_of_it: int, is_share: bool
) -> dict[str, float]:
    """The values of the roles of a recording, or their percentages of all."""
    values = {
        name: float(getattr(side, column)[recording])
        for name, side in zip(names, sides, strict=True)
        if side.threads[recording]
    }
    divisor = (sum(values.values()) or 1.0) / 100 if is_share else steps_of_it
    return {name: value / divisor for name, value in values.items()}


def list_role_threads(side: RoleSide) -> str:
    """The names of the threads of a role on a side, the most frequent first, with their number if there are several."""
    texts = [f"{shorten(name)} ({count})" if count > 1 else shorten(name) for name, count in side.names.most_common()]
    return abbreviate_names(texts, MAX_NAMES)


def _rows(
    profile: Profile, selection: Selection, compared_table: ComparedTable, measure: Measure, by: str
) -> dict[str, float]:
    """The value of each name, in order of the table."""
    selection = selection.replace(event=None)
    if compared_table.name == "steps":
        return _step_parts(profile, selection, measure)
    functions: dict[str, TableFunction[...]] = {
        "operators": operators.compute_operators,
        "kernels": kernels.compute_kernels,
        "modules": modules.compute_modules,
        "memory": allocations.compute_memory,
    }
    table = functions[compared_table.name]
    found: dict[str, float] = {}
    for row in records(table.rows(profile, selection, by) if by else table.rows(profile, selection)):
        value = row[measure.column]
        if value is None:
            continue
        name, known = row[compared_table.key] or "", found.get(row[compared_table.key] or "")
        found[name] = float(value) if known is None else known + value if measure.additive else max(known, float(value))
    return found


def _step_parts(profile: Profile, selection: Selection, measure: Measure) -> dict[str, float]:
    rows: list[dict[str, Any]] = records(steps.compute_steps.rows(profile, selection))
    reduced: Any = {"mean_us": np.mean, "median_us": np.median, "max_us": np.max}[measure.column]
    if not rows:
        return {}
    parts = {label: float(reduced([row[f"{part}_us"] for row in rows])) for part, label in STEP_PARTS.items()}
    for kind, label in STEP_GROUPS.items():
        if alike := [row["total_us"] for row in rows if parse_step_kind(row["step"]) == kind]:
            parts[label] = float(reduced(alike))
    return parts


def _steps(profile: Profile, selection: Selection) -> int:
    """How many steps of all ranks are selected; 0 where the recording has none."""
    return len(steps.select_steps(profile, selection.replace(event=None))) if profile.steps.num_rows else 0
