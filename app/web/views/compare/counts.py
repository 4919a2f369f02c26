"""/compare/counts: what changed between two results in what perf stat counted."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.compare.counts import COLUMNS, NOT_COMPARED, SAMPLED, count_differences, has_counts, only_counted
from ....domain.errors import InvalidRequest, NotFound
from ....domain.profile import Profile
from ....domain.units import quantity
from ....store import Result
from ...rendering import Page, render
from ...services import services
from ..results.frame import Link, selected
from ..results.sheets import Sheet, Shown, sheet
from ..results.tables import FILE, asked_search, here, keep_matching, rows_asked, table_file
from .functions import Bar, Side, sided, tabs
from .tables import bar_of

blueprint = Blueprint("compare_counts", __name__)


COLUMNS_SHOWN = (
    Shown("event", "Event", "name"),
    Shown("status", "What", "status", title=lambda row: row["note"] or ""),
    Shown("base", "Base", "amount", caveat=lambda row: _spread(row["base_deviation_percent"])),
    Shown("other", "Other", "amount", caveat=lambda row: _spread(row["other_deviation_percent"])),
    Shown("delta", "Change", "amount", "Other less base", signed=True, tone=lambda row: _tone(row)),
    Shown("delta_percent", "%", "percent", "Change as a share of the base", signed=True),
    Shown("ratio", "Ratio", "ratio", "Other ÷ base"),
)


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
    sheet: Sheet
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
            swap=here(("base", asked.other.id), ("other", asked.base.id), ("page", None)),
            tabs=tabs(asked.profiles, "counts"),
            bar=bar_of(selected(), asked.profiles[1]),
            warning=_warning(asked),
            sheet=sheet(
                "Differences of counts",
                _shown(asked.rows),
                COLUMNS_SHOWN,
                None,
                noun="event",
                note=lambda row: f"{row['event']}: {row['note']}." if row["note"] else "",
            ),
            csv=here(("page", None)).replace("/compare/counts", "/compare/counts.csv", 1),
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


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows; a change that its spread may explain has a status of its own."""
    within = rows["within_spread"].fillna(False).astype(bool) & (rows["delta"].fillna(0) != 0)
    return rows.assign(status=rows["status"].mask(within, "within the spread"))


def _tone(row: dict[str, Any]) -> str:
    """The CSS class of a change: none within its spread."""
    if row["within_spread"] or not row["delta"] or row["status"] == NOT_COMPARED:
        return ""
    return "more" if row["delta"] > 0 else "less"


def _spread(share: float | None) -> str:
    return "" if share is None else f"± {share:.2g} %"
