"""/compare/counts: what changed between two results in what perf stat counted."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.compare.counts import COLUMNS, NOT_COMPARED, SAMPLED, count_differences, has_counts, only_counted
from ....analysis.core.schema import records
from ....domain.errors import InvalidRequest, NotFound
from ....domain.profile import Profile
from ....domain.units import MISSING, Quantity, percent, quantity
from ....store import Result
from ...rendering import Page, render
from ...services import services
from ..results.frame import Link, selected
from ..results.tables import FILE, asked_search, here, keep_matching, rows_asked, table_file
from .functions import Bar, Side, sided, tabs
from .tables import bar_of

blueprint = Blueprint("compare_counts", __name__)


@dataclass(frozen=True)
class CountRow:
    """An event of both. spread: of either value, "± 1.2 %", empty where it is not known. percent, ratio: in words.
    more: 1 where it grew by more than its spread, -1 where it shrank, 0 else."""

    event: str
    status: str
    base: Quantity
    base_spread: str
    other: Quantity
    other_spread: str
    change: Quantity
    percent: str
    ratio: str
    more: int
    note: str


@dataclass(frozen=True)
class CompareCountsPage(Page):
    """`/compare/counts?base=&other=`. warning: that one side was sampled, empty where both were counted."""

    template: ClassVar[str] = "compare/counts.html"
    base: Side
    other: Side
    swap: str
    tabs: tuple[Link, ...]
    bar: Bar
    warning: str
    search: str
    hidden: tuple[tuple[str, str], ...]
    rows: tuple[CountRow, ...]
    csv: str


@dataclass(frozen=True)
class _Asked:
    base: Result
    other: Result
    profiles: tuple[Profile, Profile]
    rows: pd.DataFrame


@blueprint.get("/compare/counts")
def show() -> Response:
    """The comparison, in the order of the events."""
    asked = _asked()
    return render(
        CompareCountsPage(
            base=sided("Base", "base", asked.base, quantity(asked.base.duration_ns, "ns")),
            other=sided("Other", "other", asked.other, quantity(asked.other.duration_ns, "ns")),
            swap=here(("base", asked.other.id), ("other", asked.base.id)),
            tabs=tabs(asked.profiles, "counts"),
            bar=bar_of(selected(), asked.profiles[1]),
            warning=_warning(asked),
            search=request.args.get("search", ""),
            hidden=tuple((k, v) for k, v in request.args.items(multi=True) if k != "search"),
            rows=tuple(_row(row) for row in records(asked.rows)),
            csv=here().replace("/compare/counts", "/compare/counts.csv", 1),
        )
    )


@blueprint.get(f"/compare/counts.{FILE}")
def as_file(form: str) -> Response:
    """All rows that the search leaves; columns as `perfloom diff A B counts` names them."""
    asked = _asked()
    return table_file(f"{asked.base.name} to {asked.other.name} counts", form, asked.rows, COLUMNS)


@blueprint.get("/api/v1/compare/counts")
def as_json() -> Response:
    """The table as a list of objects; format=csv|parquet: as a file."""
    asked = _asked()
    return rows_asked(f"{asked.base.name} to {asked.other.name} counts", asked.rows, COLUMNS)


def _asked() -> _Asked:
    if not (request.args.get("base") and request.args.get("other")):
        raise InvalidRequest("Two results are compared; choose them on the page Compare.", "base")
    results = services().store.results
    base, other = (results.get(request.args[word]) for word in ("base", "other"))
    profiles = results.open(base.id), results.open(other.id)
    if not any(has_counts(profile) for profile in profiles):
        raise NotFound("Neither of these results has counts of perf stat; compare their functions.")
    selection = selected()
    rows = keep_matching(count_differences(*profiles, selection, selection), asked_search(), ("event", "status"))
    return _Asked(base, other, profiles, rows)


def _warning(asked: _Asked) -> str:
    sampled = [title for title, profile in zip(("base", "other"), asked.profiles, strict=True) if _sampled(profile)]
    counted = [title for title, profile in zip(("base", "other"), asked.profiles, strict=True) if has_counts(profile)]
    if len(counted) == 2 and SAMPLED not in {*asked.rows["base_source"], *asked.rows["other_source"]}:
        return ""
    if len(counted) == 1 and len(sampled) == 1 and counted != sampled:
        return (
            f"The {counted[0]} was counted (perf stat), the {sampled[0]} was sampled (perf record). A sampled total is "
            "an estimate: such values stand side by side here and are not subtracted. Count both with perf stat."
        )
    return "Some events were counted on one side and sampled on the other; these are not compared."


def _sampled(profile: Profile) -> bool:
    return bool(profile.samples.num_rows) and not only_counted(profile)


def _row(row: dict[str, Any]) -> CountRow:
    unit, delta, within = row["unit"] or "count", row["delta"], row["within_spread"]
    change = quantity(delta, unit)
    sign = "+" if delta is not None and delta > 0 else ""
    share = row["delta_percent"]
    return CountRow(
        event=row["event"],
        status="within the spread" if within and delta else row["status"],
        base=quantity(row["base"], unit),
        base_spread=_spread(row["base_deviation_percent"]),
        other=quantity(row["other"], unit),
        other_spread=_spread(row["other_deviation_percent"]),
        change=Quantity(change.value, sign + change.text, sign + change.exact),
        percent=MISSING if share is None else sign + percent(share),
        ratio=MISSING if row["ratio"] is None else f"{row['ratio']:.4g}",
        more=0 if within or not delta or row["status"] == NOT_COMPARED else 1 if delta > 0 else -1,
        note=row["note"] or "",
    )


def _spread(share: float | None) -> str:
    return "" if share is None else f"± {share:.2g} %"
