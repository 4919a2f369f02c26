"""Tables: columns, rows, and the functions that compute them.

Rows are stored as columns: numpy arrays or lists. pandas is loaded only where a DataFrame is needed, because loading it
takes longer than computing most tables.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec

import numpy as np

from ...domain.arrays import Array, Int64Array
from ...domain.errors import InvalidRequest
from ...domain.profile import Profile
from ...domain.selection import Selection
from .memo import memoize
from .sample_selection import check_selection

if TYPE_CHECKING:
    import pandas as pd

P = ParamSpec("P")
MAX_EXACT = 1 << 53
"""Above it, all floats are integers regardless of the value, and some do not fit in int64."""


@dataclass(frozen=True)
class Column:
    """A column of a table. unit: of its numbers ("" for texts and numbers without one, "event" for the unit that the
    column `unit` of the row names). dtype: that of the pandas column; "number" is Int64 if all values are integers,
    else Float64.
    """

    name: str
    unit: str
    description: str
    dtype: str = "str"


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a table. values: one numpy array or sequence for each column; None and NaN are missing."""

    columns: tuple[Column, ...]
    values: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.values[self.columns[0].name])

    def column(self, name: str) -> list[Any]:
        """The plain Python values of a column, None for missing values."""
        declared = next(column.dtype for column in self.columns if column.name == name)
        values = self.values[name]
        return _plain_values(values, _number_type(values) if declared == "number" else declared)

    def records(self) -> list[dict[str, Any]]:
        """The rows as dicts of plain Python values, None for missing values, as in JSON."""
        return [row for block in self.record_blocks(max(1, len(self))) for row in block]

    def record_blocks(self, size: int) -> Iterator[list[dict[str, Any]]]:
        """The same, in blocks of `size` rows: the dicts of a million rows take a gigabyte."""
        names = [column.name for column in self.columns]
        columns = [_plain_values(values, dtype) for _, values, dtype in self._typed_columns()]
        for start in range(0, len(self), size):
            block = (column[start : start + size] for column in columns)
            yield [dict(zip(names, row, strict=True)) for row in zip(*block, strict=True)]

    def sort(self, *order: str) -> "TableRows":
        """The rows sorted by these columns, the most significant first; "-" before a name: descending. The sort is
        stable, missing values are last."""
        keys: list[Array] = []
        for word in reversed(order):
            keys += _sort_keys(self.column(word.removeprefix("-")), descending=word.startswith("-"))
        return self.take(np.lexsort(keys))

    def select(self, names: Sequence[str]) -> "TableRows":
        """The rows with these columns alone, in this order."""
        columns = {column.name: column for column in self.columns}
        return TableRows(tuple(columns[name] for name in names), self.values)

    def take(self, places: Array) -> "TableRows":
        """The rows at these indices, in this order."""
        return TableRows(self.columns, {name: _take(values, places) for name, values in self.values.items()})

    def to_frame(self) -> "pd.DataFrame":
        """The public form: a DataFrame with exactly the declared columns, in their order and of their types.

        Each caller gets its own frame over the same columns: it may add and replace columns, but not change their
        values.
        """
        return self._frame.copy(deep=False)

    @cached_property
    def _frame(self) -> "pd.DataFrame":
        import pandas as pd

        return pd.DataFrame({c.name: pd.Series(values, dtype=dtype) for c, values, dtype in self._typed_columns()})

    def _typed_columns(self) -> Iterator[tuple[Column, Any, str]]:
        for column in self.columns:
            values = self.values[column.name]
            plain = values if isinstance(values, np.ndarray | list) else list(values)
            yield column, plain, _number_type(plain) if column.dtype == "number" else column.dtype


class TableFunction(Generic[P]):
    """A function that computes the rows of a table. A call returns a DataFrame; `rows` does not need pandas."""

    def __init__(self, compute: Callable[P, TableRows]) -> None:
        self.rows = compute
        update_wrapper(self, compute)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> "pd.DataFrame":
        return self.rows(*args, **kwargs).to_frame()


def table_function(compute: Callable[P, TableRows]) -> TableFunction[P]:
    """Decorates a function that computes the rows of a table."""
    return TableFunction(compute)


@dataclass(frozen=True)
class Table:
    """A table of a profile. compute: computes the rows; if `by` is not empty, it accepts one of these groupings, by
    default the first. single_row: it always has one row, which JSON shows as one object. uses_selection: whether the
    selection applies. takes_formulas: whether the event of the selection can be a formula (`formulas.measures`).
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    compute: TableFunction[...]
    single_row: bool = False
    by: tuple[str, ...] = ()
    uses_selection: bool = True
    takes_formulas: bool = False

    def rows(self, profile: Profile, selection: Selection, by: str | None = None) -> TableRows:
        """Its rows, one per value of the grouping `by`. Raises InvalidRequest, also if the selection refers to
        something that the profile does not have, even if the table would not use it."""
        if self.uses_selection:
            # A table that takes formulas finds out what the event is.
            check_selection(profile, selection.replace(event=None) if self.takes_formulas else selection)
        if not by:
            return self.compute.rows(profile, selection)
        if by not in self.by:
            offered = f"accepts by={', '.join(self.by)}" if self.by else "does not accept by"
            raise InvalidRequest(f"The table {self.name} {offered}, not {by[:40]!r}.", "by")
        return self.compute.rows(profile, selection, by)

    def frame(self, profile: Profile, selection: Selection, by: str | None = None) -> "pd.DataFrame":
        """The same as a DataFrame."""
        return self.rows(profile, selection, by).to_frame()


def build_rows(columns: tuple[Column, ...], values: Mapping[str, Any]) -> TableRows:
    """Rows of exactly the declared columns. Raises KeyError if one is missing."""
    return TableRows(columns, {column.name: values[column.name] for column in columns})


def concatenate_rows(columns: tuple[Column, ...], parts: Sequence[TableRows]) -> TableRows:
    """The rows of several tables with these columns, one after the other."""
    return TableRows(columns, {column.name: _concatenate(column.name, parts) for column in columns})


def _concatenate(name: str, parts: Sequence[TableRows]) -> Any:
    pieces = [part.values[name] for part in parts]
    if pieces and all(isinstance(piece, np.ndarray) and piece.dtype == pieces[0].dtype for piece in pieces):
        return np.concatenate(pieces)
    return [value for part in parts for value in part.column(name)]


def memoize_table(name: str, profile: Profile, selection: Selection, build: Callable[[], TableRows]) -> TableRows:
    """The table `name` of a selection, computed once, because several parts of a page and of the next page need it."""
    return memoize(profile, ("table", name, selection), build)


def records(data: "TableRows | pd.DataFrame") -> list[dict[str, Any]]:
    """The rows as dicts of plain Python values, None for missing values, as in JSON."""
    if isinstance(data, TableRows):
        return data.records()
    columns: dict[str, list[Any]] = {}
    for name in data.columns:
        values = data[name]
        missing = values.isna().to_numpy().tolist()
        columns[name] = [None if gone else value for value, gone in zip(values.tolist(), missing, strict=True)]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _number_type(values: Any) -> str:
    if isinstance(values, np.ndarray) and values.dtype.kind == "i":
        return "Int64"
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return "Int64" if ((np.abs(values) < MAX_EXACT) & (values == np.floor(values))).all() else "Float64"
    whole = all(value is None or isinstance(value, int) or _is_whole(value) for value in values)
    return "Int64" if whole else "Float64"


def _is_whole(value: float) -> bool:
    return abs(value) < MAX_EXACT and float(value).is_integer()


def _plain_values(values: Any, dtype: str) -> list[Any]:
    """The values as in a pandas column of this type, None for missing values."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "i" and dtype in ("int64", "Int64"):
        return list(values.tolist())
    plain: list[Any] = values.tolist() if isinstance(values, np.ndarray) else list(values)
    # Most columns have nothing to convert.
    if isinstance(values, np.ndarray) and values.dtype == np.float64 and dtype in ("float64", "Float64"):
        for place in np.flatnonzero(np.isnan(values)).tolist():
            plain[place] = None
        return plain
    if dtype == "str" and set(map(type, plain)) <= {str, type(None)}:
        return plain
    kind: Callable[[Any], Any] = {"int64": int, "Int64": int, "bool": bool, "boolean": bool, "str": str}.get(
        dtype, float
    )
    return [None if value is None or value != value else kind(value) for value in plain]


def _sort_keys(values: Sequence[Any], *, descending: bool) -> Iterator[Array]:
    """Keys of a column for `numpy.lexsort`, the least significant first."""
    missing = np.fromiter((value is None for value in values), bool, len(values))
    distinct = sorted({value for value in values if value is not None})
    rank = {value: number for number, value in enumerate(distinct)}
    codes: Int64Array = np.fromiter((rank.get(value, 0) for value in values), np.int64, len(values))
    yield -codes if descending else codes
    yield missing


def _take(values: Any, places: Array) -> Any:
    return values[places] if isinstance(values, np.ndarray) else [values[place] for place in places.tolist()]
