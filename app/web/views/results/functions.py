"""Rows about functions, as several pages show them."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from ....analysis.core.functions import functions_of, last_part
from ....analysis.core.schema import records
from ....domain.profile import Profile
from ....domain.units import Quantity, scale_for
from .frame import Frame

LONGEST_URL = 4_000
"""Servers and proxies refuse much longer ones; a C++ name may be longer than that by itself."""


def tells_modules(profile: Profile) -> bool:
    """Whether the module of any function is known: traces tell none."""
    return any(functions_of(profile).modules)


@dataclass(frozen=True)
class FunctionRow:
    """A function (module, thread) and what it weighs. bars: self and total in percent. url: its callers and
    callees, empty where there is none."""

    name: str
    module: str
    module_short: str
    kind: str
    place: str
    own: Quantity
    own_percent: Quantity
    total: Quantity
    total_percent: Quantity
    own_bar: float
    total_bar: float
    url: str


def function_rows(frame: Frame, rows: pd.DataFrame) -> tuple[FunctionRow, ...]:
    """Rows of the table `hotspots` for a page."""
    scale = scale_for(float(rows["total"].abs().max()) if rows["total"].notna().any() else 0, frame.unit)
    percents = scale_for(100, "percent")
    return tuple(
        FunctionRow(
            name=row["name"] or "",
            module=row["module"] or "",
            module_short=last_part(row["module"] or ""),
            kind=row["kind"] or "",
            place=place_of(row),
            own=scale.quantity(row["self"]),
            own_percent=percents.quantity(row["self_percent"]),
            total=scale.quantity(row["total"]),
            total_percent=percents.quantity(row["total_percent"]),
            own_bar=_bar(row["self_percent"]),
            total_bar=_bar(row["total_percent"]),
            url=sandwich_url(frame, row["name"] or ""),
        )
        for row in records(rows)
    )


def sandwich_url(frame: Frame, name: str) -> str:
    """Its callers and callees in the flame graph; empty where the address would be too long."""
    url = frame.url("flamegraph", None, ("function", name)) if name else ""
    return url if len(url) <= LONGEST_URL else ""


def place_of(row: dict[str, Any]) -> str:
    """The source file and line, empty where they are not known."""
    if not row["file"]:
        return ""
    return f"{row['file']}:{row['line']}" if row["line"] is not None else str(row["file"])


def _bar(percent: float | None) -> float:
    return min(100.0, max(0.0, percent or 0.0))
