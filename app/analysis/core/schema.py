"""What a table is: its columns, and how a DataFrame gets exactly those."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...domain.errors import InvalidRequest
from ...domain.profile import Profile
from ...domain.selection import Selection
from .sample_selection import check_selection


@dataclass(frozen=True)
class Column:
    """A column of a table. unit: of its numbers ("" for texts and numbers without one, "event" for the unit that the
    column `unit` of the row names). dtype: that of the pandas column; "number" is Int64 where all values are whole,
    else Float64.
    """

    name: str
    unit: str
    description: str
    dtype: str = "str"


@dataclass(frozen=True)
class Table:
    """A table of any profile. compute: takes one of `by` besides where there are some, the first of
    which is what it does without. single_row: it always has one row, which JSON shows as one object.
    uses_selection: whether it obeys a selection.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    compute: Callable[..., pd.DataFrame]
    single_row: bool = False
    by: tuple[str, ...] = ()
    uses_selection: bool = True

    def rows(self, profile: Profile, selection: Selection, by: str | None = None) -> pd.DataFrame:
        """Its rows, one per value of the grouping `by`. Raises InvalidRequest, also for a selection of what the profile
        does not have where the table would not look at it."""
        if self.uses_selection:
            check_selection(profile, selection)
        if not by:
            found: pd.DataFrame = self.compute(profile, selection)
            return found
        if by not in self.by:
            offered = f"accepts by={', '.join(self.by)}" if self.by else "does not accept by"
            raise InvalidRequest(f"The table {self.name} {offered}, not {by[:40]!r}.", "by")
        found = self.compute(profile, selection, by)
        return found


def build_frame(columns: tuple[Column, ...], values: dict[str, Any]) -> pd.DataFrame:
    """A DataFrame with exactly the declared columns, in their order and of their types, also when it is empty."""
    return pd.DataFrame({c.name: _series(values[c.name], c.dtype) for c in columns})


def _series(values: Any, dtype: str) -> "pd.Series[Any]":
    if dtype != "number":
        return pd.Series(values, dtype=dtype)
    # Floats beyond 2^53 are whole without saying much, and some are no int64.
    whole = all(value is None or isinstance(value, int) or _is_whole(value) for value in values)
    return pd.Series(values, dtype="Int64" if whole else "Float64")


def _is_whole(value: float) -> bool:
    return abs(value) < 1 << 53 and float(value).is_integer()


def records(data: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as dicts of plain Python values, None for what is missing: what JSON shows."""
    columns: dict[str, list[Any]] = {}
    for name in data.columns:
        values = data[name]
        missing = values.isna().to_numpy().tolist()
        columns[name] = [None if gone else value for value, gone in zip(values.tolist(), missing, strict=True)]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
