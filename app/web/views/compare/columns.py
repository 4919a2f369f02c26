"""Columns of all tables of differences: the status of a row, its change and a bar of it."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from ....analysis.compare.functions import FEW_SAMPLES, STATUSES, UNDEFINED
from ..results.result_frame import PageLink
from ..results.sheets import Bar as RowBar
from ..results.sheets import ColumnView
from ..results.tables import current_url_with

STATUS_WORDS = {FEW_SAMPLES: "few samples"}


def status_column() -> ColumnView:
    """The status of a row."""
    titles = {
        FEW_SAMPLES: "Fewer than 30 samples on both sides: too few to compare",
        UNDEFINED: "The formula has no value on one side: a divisor is 0",
    }
    return ColumnView(
        "status",
        "Status",
        "status",
        shorten=lambda status: STATUS_WORDS.get(status, status),
        title=lambda row: titles.get(row["status"], ""),
    )


def change_tone(column: str) -> Callable[[dict[str, Any]], str]:
    """Makes the CSS class of a change from the column with its sign."""

    def tone(row: dict[str, Any]) -> str:
        change = row[column] or 0
        return "faint" if row["status"] == FEW_SAMPLES else "more" if change > 0 else "less" if change < 0 else ""

    return tone


def change_bar(rows: pd.DataFrame, column: str) -> Callable[[dict[str, Any]], RowBar]:
    """Makes the bars of a column of changes, scaled to the greatest."""
    values = rows[column].abs()
    greatest = float(values.max()) if values.notna().any() else 0.0

    def bar(row: dict[str, Any]) -> RowBar:
        share = 100.0 * (row[column] or 0) / greatest if greatest else 0.0
        return RowBar(share, change=True, faint=row["status"] == FEW_SAMPLES)

    return bar


def status_links(rows: pd.DataFrame, current: str) -> tuple[PageLink, ...]:
    """Links for each status with its number of rows; `now`: the selected one."""
    counts = rows["status"].value_counts()
    return tuple(
        PageLink(
            status,
            f"{STATUS_WORDS.get(status, status)} {int(counts[status]):,}",
            current_url_with(("status", None if status == current else status), ("page", None)),
            status == current,
        )
        for status in STATUSES
        if status in counts
    )
