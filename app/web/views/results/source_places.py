"""Where functions are in source code, as a column of tables of functions that leads to their source."""

from collections.abc import Callable, Mapping
from urllib.parse import quote_plus

import pandas as pd

from ....analysis.core.functions import base_name, functions_of
from ....analysis.source.code_index import has_addresses, locate_functions
from ....domain.profile import Profile
from ....domain.schemas.code import Code
from .functions import MAX_URL
from .result_frame import ResultFrame
from .sheets import ColumnView

Places = Mapping[tuple[str, str], tuple[str, int]]


def describe_places(profile: Profile, code: Code | None) -> Places:
    """(file, line) where functions begin according to their debug information, by name and module."""
    functions = functions_of(profile)
    places = {} if code is None else locate_functions(profile, code)
    return {(functions.name_of(row), functions.module_of(row)): place for row, place in places.items()}


def list_places(rows: pd.DataFrame, places: Places) -> "pd.Series[str]":
    """File and line of each row of functions: as recorded, else of its debug information; None if unknown."""
    found = []
    columns = (rows[name].tolist() for name in ("name", "module", "file", "line"))
    for name, module, file, line in zip(*columns, strict=True):
        place = (file, line) if isinstance(file, str) else places.get((name or "", module or ""))
        known = place is not None and place[1] is not pd.NA
        found.append(None if place is None else f"{base_name(place[0])}:{place[1]}" if known else base_name(place[0]))
    return pd.Series(found, rows.index, dtype=object)


def place_column(frame: ResultFrame, profile: Profile) -> ColumnView:
    """The column `place` of a table of functions."""
    url = source_urls(frame)
    return ColumnView(
        *("place", "Line", "code", "Source file and line where the function begins"),
        link=(lambda row: url(row["name"] or "") if row["place"] else "") if has_addresses(profile) else None,
        sort="",
    )


def source_urls(frame: ResultFrame) -> Callable[[str], str]:
    """Makes the address of a function's source; empty where it would be too long."""
    before, _, after = frame.url("source", frame.selection, ("function", "\0")).rpartition("%00")

    def url(name: str) -> str:
        found = f"{before}{quote_plus(name)}{after}" if name else ""
        return found if len(found) <= MAX_URL else ""

    return url
