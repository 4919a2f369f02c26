"""Rows of functions, for several pages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode

import pandas as pd

from ....analysis.core.functions import base_name, functions_of
from ....analysis.core.patterns import exact_pattern
from ....analysis.core.schema import records
from ....domain.profile import Profile
from ....domain.selection import MAX_PATTERN_CHARS
from ....domain.symbols.short_names import shorten_distinct
from ....domain.units import Quantity, choose_scale
from .result_frame import ResultFrame

MAX_URL = 4_000
"""Servers and proxies reject much longer URLs; a C++ name can be longer than that."""


def has_modules(profile: Profile) -> bool:
    """Whether the module of any function is known: traces have none."""
    return any(functions_of(profile).modules)


@dataclass(frozen=True)
class FunctionRow:
    """A function (module, thread) and its weight. bars: self and total in percent. url: its callers and
    callees, empty where there is none."""

    name: str
    module: str
    name_short: str
    module_short: str
    kind: str
    location: str
    self_weight: Quantity
    self_percent: Quantity
    total: Quantity
    total_percent: Quantity
    self_bar: float
    total_bar: float
    url: str


def build_function_rows(frame: ResultFrame, rows: pd.DataFrame) -> tuple[FunctionRow, ...]:
    """Rows of the table `hotspots` for a page."""
    scale = choose_scale(float(rows["total"].abs().max()) if rows["total"].notna().any() else 0, frame.unit)
    percents, url = choose_scale(100, "percent"), sandwich_urls(frame)
    short = shorten_distinct(name or "" for name in rows["name"])
    return tuple(
        FunctionRow(
            name=row["name"] or "",
            module=row["module"] or "",
            name_short=short(row["name"] or ""),
            module_short=base_name(row["module"] or ""),
            kind=row["kind"] or "",
            location=place_of(row),
            self_weight=scale.format(row["self"]),
            self_percent=percents.format(row["self_percent"]),
            total=scale.format(row["total"]),
            total_percent=percents.format(row["total_percent"]),
            self_bar=_bar(row["self_percent"]),
            total_bar=_bar(row["total_percent"]),
            url=url(row["name"] or ""),
        )
        for row in records(rows)
    )


def sandwich_urls(frame: ResultFrame, event: str | None = None) -> Callable[[str], str]:
    """Makes the address of a function's callers and callees in the flame graph; empty where it would be too long.

    event: the event of that graph, None for the selected one.
    """
    selection = frame.selection if event is None else frame.selection.replace(event=event)
    before, _, after = frame.url("flamegraph", selection, ("function", "\0")).rpartition("%00")

    def url(name: str) -> str:
        found = f"{before}{quote_plus(name)}{after}" if name else ""
        return found if len(found) <= MAX_URL else ""

    return url


def function_query(event: str, name: str) -> str:
    """The parameters that select an event and a function, in addition to a focus; empty if the pattern is too long."""
    pattern = exact_pattern(name)
    pairs = [("event", event), ("focus", pattern)]
    return urlencode(pairs, errors="replace") if len(pattern) <= MAX_PATTERN_CHARS else ""


def append_query(address: str, query: str) -> str:
    """An address with more parameters; empty if it would be too long."""
    found = f"{address}{'&' if '?' in address else '?'}{query}" if query else address
    return found if len(found) <= MAX_URL else ""


def place_of(row: dict[str, Any]) -> str:
    """The source file and line, empty where they are not known."""
    if not row["file"]:
        return ""
    return f"{row['file']}:{row['line']}" if row["line"] is not None else str(row["file"])


def _bar(percent: float | None) -> float:
    return min(100.0, max(0.0, percent or 0.0))
