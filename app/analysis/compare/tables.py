"""Differences of two traces in a table (operators, kernels, modules, memory, steps), by name.

Rows of several ranks are added up. Sums can be divided by the number of steps, to compare recordings of different
length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.errors import InvalidRequest
from ...domain.profile import Profile
from ...domain.selection import Selection, check_choice
from ..core.schema import Column, TableFunction, TableRows, build_rows, records, table_function
from ..memory import allocations
from ..ml import kernels, modules, operators, steps
from ..ml.operator_parts import OPERATOR_PARTS, operator_parts_of
from ..ml.tokens import parse_step_kind

STATUSES = ("grew", "shrank", "appeared", "vanished", "same")
COLUMNS = (
    Column("name", "", "Name of the compared operator, kernel, module, device or part of a step."),
    Column("status", "", "grew, shrank, appeared, vanished or same."),
    Column("measure", "", "The compared column of the table."),
    Column("base", "", "Value in the base profile, per step if requested.", "Float64"),
    Column("other", "", "Value in the other profile.", "Float64"),
    Column("delta", "", "other − base.", "Float64"),
    Column("delta_percent", "%", "delta in percent of base.", "Float64"),
)
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
    """A column that can be compared. kind: time (µs), bytes or count. additive: whether values of ranks and steps are
    added; else the maximum is used."""

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
    )
}
"""The tables that can be compared, by name in URLs."""


def has_table(profile: Profile, name: str) -> bool:
    """Whether a profile has rows of a table that can be compared."""
    if name == "modules":
        return modules.has_modules(profile)
    if name == "memory":
        return allocations.has_memory(profile)
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
) -> TableRows:
    """One row for each name that either has; the greatest change first.

    measure: a column of the table, its first one where empty. each_step: sums are divided by the number of steps of
    the respective profile. by: what rows of operators are, one of `list_groupings`; their names where empty. The
    selected step, ranks and window apply to both. Raises InvalidRequest.
    """
    compared = COMPARED_TABLES[name]
    chosen = resolve_measure(list_measures(compared, base, other) if not measure else compared.measures, measure)
    before, after = (
        measure_rows(profile, selection, compared, chosen, each_step=each_step, by=by) for profile in (base, other)
    )
    names = list(dict.fromkeys([*after, *before]))
    if name == "steps":
        # A column that is empty in both is not recorded by traces of this kind.
        names = [one for one in names if before.get(one) or after.get(one)]
    values = [(before.get(one), after.get(one)) for one in names]
    deltas = [(b or 0.0, a or 0.0) for b, a in values]
    compared_rows = build_rows(
        COLUMNS,
        {
            "name": names,
            "status": [find_status(b, a) for b, a in values],
            "measure": [chosen.column] * len(names),
            "base": [b for b, _ in values],
            "other": [a for _, a in values],
            "delta": [a - b for b, a in deltas],
            "delta_percent": [100 * (a - b) / b if b else None for b, a in deltas],
        },
    )
    return compared_rows.take(np.argsort([-abs(a - b) for b, a in deltas], kind="stable"))


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


def measure_rows(
    profile: Profile,
    selection: Selection,
    compared_table: ComparedTable,
    measure: Measure,
    *,
    each_step: bool = False,
    by: str = "",
) -> dict[str, float]:
    """The value of each name in a profile, in order of the table: see `diff_table`."""
    rows = _rows(profile, selection, compared_table, measure, by)
    steps_of_it = max(1, _steps(profile, selection)) if each_step and measure.additive else 1
    return {key: value / steps_of_it for key, value in rows.items()}


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
