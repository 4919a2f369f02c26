"""/compare/counts: what changed between two results in the counts of perf stat."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.compare.counts import COLUMNS, NOT_COMPARED, SAMPLED, diff_counts, has_counts, is_counts_only
from ....domain.errors import InvalidRequest, NotFound
from ....domain.profile import Profile
from ....domain.units import format_quantity
from ....store import Result
from ...rendering import Page, render
from ...services import current_services
from ..results.result_frame import PageLink, request_selection
from ..results.sheets import ColumnView, Sheet, build_sheet, inherit_descriptions
from ..results.tables import (
    FILE_RULE,
    current_url_with,
    filter_rows,
    parse_search,
    table_file_response,
    table_file_url,
    table_response,
)
from .functions import ComparedResult, SelectionBar, compared_result, comparison_tabs
from .tables import selection_bar

blueprint = Blueprint("compare_counts", __name__)


COLUMNS_SHOWN = inherit_descriptions(
    COLUMNS,
    (
        ColumnView("event", "Event", "name"),
        ColumnView("status", "Status", "status", title=lambda row: row["note"] or ""),
        ColumnView("base", "Base", "amount", caveat=lambda row: _spread(row["base_deviation_percent"])),
        ColumnView("other", "Other", "amount", caveat=lambda row: _spread(row["other_deviation_percent"])),
        ColumnView("delta", "Change", "amount", "Other minus base", signed=True, tone=lambda row: _tone(row)),
        ColumnView("delta_percent", "%", "percent", "Change as a share of the base", signed=True),
        ColumnView("ratio", "Ratio", "ratio"),
    ),
)


@dataclass(frozen=True)
class CompareCountsPage(Page):
    """`/compare/counts?base=&other=`. warning: that one side was sampled, empty where both were counted."""

    template: ClassVar[str] = "compare/counts.html"
    base: ComparedResult
    other: ComparedResult
    swap: str
    tabs: tuple[PageLink, ...]
    bar: SelectionBar
    warning: str
    sheet: Sheet
    csv: str


@dataclass(frozen=True)
class _CountsQuery:
    """What is compared. rows: those that the search leaves of `total_rows`."""

    base: Result
    other: Result
    profiles: tuple[Profile, Profile]
    rows: pd.DataFrame
    total_rows: int


@blueprint.get("/compare/counts")
def show() -> Response:
    """The comparison, in the order of the events."""
    query = _parse_query()
    return render(
        CompareCountsPage(
            base=compared_result("Base", "base", query.base, format_quantity(query.base.duration_ns, "ns")),
            other=compared_result("Other", "other", query.other, format_quantity(query.other.duration_ns, "ns")),
            swap=current_url_with(("base", query.other.id), ("other", query.base.id), ("page", None)),
            tabs=comparison_tabs(query.profiles, "counts"),
            bar=selection_bar(request_selection(), query.profiles[1]),
            warning=_warning(query),
            sheet=build_sheet(
                "Differences of counts",
                _mark_explained(query.rows),
                COLUMNS_SHOWN,
                None,
                noun="event",
                total_rows=query.total_rows,
                note=lambda row: f"{row['event']}: {row['note']}." if row["note"] else "",
            ),
            csv=table_file_url("counts.csv"),
        )
    )


@blueprint.get(f"/compare/counts.{FILE_RULE}")
def download_table(file_format: str) -> Response:
    """All rows that the search leaves; columns as `perfloom diff A B counts` names them."""
    query = _parse_query()
    return table_file_response(
        f"{query.base.name} to {query.other.name} counts", file_format, query.rows, *query.profiles, columns=COLUMNS
    )


@blueprint.get("/api/v1/compare/counts")
def get_json() -> Response:
    """The table as a list of objects; format=csv|parquet: as a file."""
    query = _parse_query()
    return table_response(
        f"{query.base.name} to {query.other.name} counts", query.rows, *query.profiles, columns=COLUMNS
    )


def _parse_query() -> _CountsQuery:
    if not (request.args.get("base") and request.args.get("other")):
        raise InvalidRequest("A comparison needs two results. Choose them on the page Compare.", "base")
    results = current_services().store.results
    base, other = (results.get(request.args[word]) for word in ("base", "other"))
    profiles = results.open(base.id), results.open(other.id)
    if not any(has_counts(profile) for profile in profiles):
        raise NotFound("Neither of these results has counts of perf stat. Compare their functions.")
    selection = request_selection()
    every = diff_counts(*profiles, selection, selection)
    rows = filter_rows(every, parse_search(), ("event", "status"))
    return _CountsQuery(base, other, profiles, rows, len(every))


def _warning(asked: _CountsQuery) -> str:
    titles = [title for title, profile in zip(("base", "other"), asked.profiles, strict=True) if _has_samples(profile)]
    counted = [title for title, profile in zip(("base", "other"), asked.profiles, strict=True) if has_counts(profile)]
    if len(counted) == 2 and SAMPLED not in {*asked.rows["base_source"], *asked.rows["other_source"]}:
        return ""
    if len(counted) == 1 and len(titles) == 1 and counted != titles:
        return (
            f"The {counted[0]} was counted (perf stat), the {titles[0]} was sampled (perf record). A sampled total is "
            "an estimate, so such values are shown but not subtracted. Count both with perf stat."
        )
    return "Some events were counted on one side and sampled on the other. They are not compared."


def _has_samples(profile: Profile) -> bool:
    return bool(profile.samples.num_rows) and not is_counts_only(profile)


def _mark_explained(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows; a change that its spread may explain has its own status."""
    within = rows["within_spread"].fillna(False).astype(bool) & (rows["delta"].fillna(0) != 0)
    return rows.assign(status=rows["status"].mask(within, "not significant"))


def _tone(row: dict[str, Any]) -> str:
    """The CSS class of a change: none within its spread."""
    if row["within_spread"] or not row["delta"] or row["status"] == NOT_COMPARED:
        return ""
    return "more" if row["delta"] > 0 else "less"


def _spread(share: float | None) -> str:
    return "" if share is None else f"± {share:.2g} %"
