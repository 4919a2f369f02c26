"""/compare/counts: what changed between two results in the counts of perf stat."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.compare.counts import COLUMNS, NOT_COMPARED, SAMPLED, diff_counts, has_counts, is_counts_only
from ....domain.errors import InvalidRequest, NotFound
from ....domain.profile import Profile
from ....store import Result
from ...rendering import Page, render
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
from .functions import ComparedResult, SelectionBar, comparison_tabs
from .series import PARAMETER as SERIES_PARAMETER
from .series import list_series_notes
from .tables import describe_side, parse_sides, selection_bar

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
    """`/compare/counts?base=&other=`. warning: that one side was sampled, or that runs have no result; else empty."""

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

    bases: tuple[Result, ...]
    others: tuple[Result, ...]
    profiles: tuple[Profile, ...]
    rows: pd.DataFrame
    total_rows: int

    @property
    def name(self) -> str:
        return f"{self.bases[0].name} to {self.others[0].name} counts"

    @property
    def sides(self) -> tuple[tuple[Profile, ...], tuple[Profile, ...]]:
        """The profiles of the base, and those of the other."""
        return self.profiles[: len(self.bases)], self.profiles[len(self.bases) :]


@blueprint.get("/compare/counts")
def show() -> Response:
    """The comparison, in the order of the events."""
    query = _parse_query()
    return render(
        CompareCountsPage(
            base=describe_side("Base", "base", query.bases),
            other=describe_side("Other", "other", query.others),
            swap=current_url_with(
                ("page", None), *(("base", one.id) for one in query.others), *(("other", one.id) for one in query.bases)
            ),
            tabs=comparison_tabs((query.profiles[0], query.profiles[-1]), "counts"),
            bar=selection_bar(request_selection(), query.profiles[-1]),
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
    return table_file_response(query.name, file_format, query.rows, *query.profiles, columns=COLUMNS)


@blueprint.get("/api/v1/compare/counts")
def get_json() -> Response:
    """The table as a list of objects; format=csv|parquet: as a file."""
    query = _parse_query()
    return table_response(query.name, query.rows, *query.profiles, columns=COLUMNS)


def _parse_query() -> _CountsQuery:
    if not (request.args.get("base") and request.args.get("other")):
        raise InvalidRequest("A comparison needs two results. Choose them on the page Compare.", "base")
    bases, others, profiles = parse_sides()
    if not any(has_counts(profile) for profile in profiles):
        raise NotFound("Neither of these results has counts of perf stat. Compare their functions.")
    selection, (before, after) = request_selection(), (profiles[: len(bases)], profiles[len(bases) :])
    every = diff_counts(before[0], after[0], selection, selection, more_bases=before[1:], more_others=after[1:])
    rows = filter_rows(every, parse_search(), ("event", "status"))
    return _CountsQuery(bases, others, profiles, rows, len(every))


def _warning(asked: _CountsQuery) -> str:
    notes = [note.text for note in list_series_notes(request.args.get(SERIES_PARAMETER, ""))]
    return " ".join([*notes, *filter(None, [_sampling_warning(asked)])])


def _sampling_warning(asked: _CountsQuery) -> str:
    sides = dict(zip(("base", "other"), asked.sides, strict=True))
    titles = [title for title, side in sides.items() if any(map(_has_samples, side))]
    counted = [title for title, side in sides.items() if any(map(has_counts, side))]
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
