"""Columns are described once, in app/analysis; pages add only what they show differently."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from perfloom.analysis.compare import counts, functions
from perfloom.analysis.compare import tables as compared_tables
from perfloom.analysis.core.schema import Column
from perfloom.analysis.nsight.matching import MATCH_COLUMNS
from perfloom.analysis.tables import TABLES
from perfloom.web.views.results.sheets import ColumnView, inherit_descriptions
from tests.support.paths import ROOT

VIEWS = ROOT / "app" / "web" / "views"
COLUMN_TUPLES = (
    *(table.columns for table in TABLES.values()),
    *(counts.COLUMNS, functions.COLUMNS, compared_tables.COLUMNS, MATCH_COLUMNS),
)


def normalize(text: str) -> str:
    return " ".join(re.findall(r"[\w÷×%]+", text.casefold()))


def column_views(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """(line, column, other texts) of each call in a module that begins with the name of a column."""
    names = {column.name for columns in COLUMN_TUPLES for column in columns}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and node.args:
            texts = [
                value.value
                for value in (*node.args, *(keyword.value for keyword in node.keywords))
                if isinstance(value, ast.Constant) and isinstance(value.value, str)
            ]
            if texts and isinstance(node.args[0], ast.Constant) and texts[0] in names:
                yield node.lineno, texts[0], texts[1:]


def test_no_page_repeats_a_description_of_its_table() -> None:
    described = defaultdict(set)
    for columns in COLUMN_TUPLES:
        for column in columns:
            described[column.name].add(normalize(column.description))
    checked, repeated = 0, []
    for path in sorted(VIEWS.rglob("*.py")):
        for line, column, texts in column_views(path):
            checked += 1
            repeated += [f"{path.name}:{line}: {text}" for text in texts if normalize(text) in described[column]]
    assert checked > 200 and not repeated


def test_views_inherit_descriptions_of_columns() -> None:
    columns = (
        Column("total_us", "µs", "Total duration."),
        Column("mean_us", "µs", "total_us ÷ calls."),
        Column("grid", "", "Blocks of the launch; only by=configuration."),
        Column("bytes", "bytes", "Size."),
        Column("key", "", "The key of a thread."),
    )
    views = (
        ColumnView("total_us", "Total", "time"),
        ColumnView("mean_us", "Mean", "time"),
        ColumnView("grid", "Grid", "word"),
        ColumnView("bytes", "Size", "bytes", "Size at this time."),
        ColumnView("key", "Open", "link"),
    )
    assert [view.description for view in inherit_descriptions(columns, views)] == [
        "Total duration.",
        "“Total” ÷ calls.",
        "Blocks of the launch.",
        "Size at this time.",
        "",
    ]


def test_pages_show_labels_instead_of_names_of_columns() -> None:
    names = {column.name for columns in COLUMN_TUPLES for column in columns if "_" in column.name}
    for module in ("communication", "critical_path", "memory", "steps"):
        views = importlib.import_module(f"perfloom.web.views.trace.{module}")
        for value in vars(views).values():
            if isinstance(value, tuple) and value and isinstance(value[0], ColumnView):
                for view in value:
                    assert not names.intersection(re.findall(r"\w+", view.description)), (module, view)
