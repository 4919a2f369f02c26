"""The tables of a profile: what `perfloom report`, the API and the pages show. Rows are never cut.

A table is declared in the module that computes it. The module is imported when the table is needed: a command that
prints one table does not wait for the others.
"""

import importlib
from collections.abc import Iterator, Mapping

from ..domain.profile import Profile
from ..domain.selection import Selection
from .core.schema import Column, Table, TableRows, records
from .formulas.measures import refuse_formula

__all__ = ["TABLES", "Column", "Table", "records", "table_rows"]

TABLE_MODULES = {
    "summary": "counts.totals",
    "losses": "counts.totals",
    "hotspots": "stacks.hotspots",
    "tree": "stacks.tree_table",
    "branches": "stacks.branches",
    "loops": "stacks.branches",
    "heatmap": "timeline.heat_map",
    "matrix": "matrix.rows",
    "matrix-cells": "matrix.rows",
    "counts": "counts.totals",
    "count-shares": "counts.shares",
    "count-metrics": "counts.count_metrics",
    "formulas": "counts.formula_values",
    "topdown": "topdown.rows",
    "ratios": "ratios.rows",
    "threads": "counts.totals",
    "events": "counts.totals",
    "ranks": "counts.ranks",
    "runs": "counts.ranks",
    "sampling": "counts.run_summary",
    "conditions": "counts.run_summary",
    "operators": "ml.operators",
    "kernels": "ml.kernels",
    "copies": "ml.kernels",
    "launches": "ml.launches",
    "graphs": "ml.graphs",
    "sequences": "ml.sequences",
    "modules": "ml.modules",
    "steps": "ml.steps",
    "devices": "ml.devices",
    "utilization": "ml.devices",
    "idle": "ml.idle",
    "memory": "memory.allocations",
    "memory-operators": "memory.allocations",
    "memory-live": "memory.allocations",
    "memory-events": "memory.allocations",
    "memory-curves": "memory.curves",
    "allocations": "memory.blocks",
    "communication": "distributed.communication",
    "clocks": "distributed.skew",
    "advice": "advice.findings",
    "critical-path": "distributed.critical_path",
    "collectives": "distributed.communication",
    "nsight": "nsight.reports",
    "nsight-metrics": "nsight.reports",
    "nsight-hints": "nsight.reports",
    "nsight-source": "nsight.source",
    "stragglers": "distributed.communication",
}
"""By the name of each table the module of this package whose `TABLES` declares it, in the order of pages."""


class TableRegistry(Mapping[str, Table]):
    """Every table by its name on the command line and in URLs."""

    def __getitem__(self, name: str) -> Table:
        module = importlib.import_module(f".{TABLE_MODULES[name]}", __package__)
        tables: dict[str, Table] = {table.name: table for table in module.TABLES}
        return tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(TABLE_MODULES)

    def __len__(self) -> int:
        return len(TABLE_MODULES)


TABLES = TableRegistry()


def table_rows(table: Table, profile: Profile, selection: Selection, by: str | None = None) -> TableRows:
    """The rows of a table for a selection by a user. Raises InvalidRequest, also for a formula that the table cannot
    show."""
    if table.uses_selection and not table.takes_formulas:
        refuse_formula(profile, selection, f"the table {table.name}")
    return table.rows(profile, selection, by)
