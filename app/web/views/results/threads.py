"""/results/<id>/threads: the weight of each thread, with links to select it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint
from markupsafe import Markup
from werkzeug.wrappers import Response

from ....analysis.core.measurements import (
    find_counted_events,
    find_share_only_events,
    measure_counts,
    running_percent,
)
from ....analysis.core.sample_selection import event_id, ranks_of
from ....analysis.core.schema import records
from ....analysis.matrix.cells import sum_groups
from ....analysis.matrix.groups import matrix_groups
from ....analysis.tables import TABLES
from ....charts.rank_columns import RankValue, draw_rank_columns, list_legend, measure_balance
from ....domain.profile import Profile
from ....domain.selection import UNKNOWN_THREAD
from ....domain.tables import NO_ID
from ....domain.units import format_caveat, format_quantity
from ...rendering import Page, render
from .result_frame import ResultFrame, open_result_frame
from .sheets import (
    PLACES,
    ColumnView,
    Sheet,
    build_sheet,
    filter_and_sort,
    inherit_descriptions,
    largest_bar,
    places_of,
)
from .tables import FILE_RULE, SortOrder, table_file_response, table_file_url

blueprint = Blueprint("threads", __name__)
UNEVEN = 1.1
"""From this ratio, the maximum by rank is reported as above the mean."""


@dataclass(frozen=True)
class RankChart:
    """The load balance of ranks. svg: without script or style. uneven: whether the maximum is more than a tenth above
    the mean. measure: what of the event, empty for all. matrix: the page with its functions.

    table: URL of the numbers as CSV.
    """

    event: str
    measure: str
    summary: str
    max: str
    max_url: str
    over_mean: str
    uneven: bool
    svg: Markup
    legend: tuple[tuple[str, str], ...]
    table: str
    matrix: str


@dataclass(frozen=True)
class ThreadsPage(Page):
    """`/results/<id>/threads`. ranks: None without ranks to compare."""

    template: ClassVar[str] = "results/threads.html"
    frame: ResultFrame
    ranks: RankChart | None
    sheet: Sheet
    csv: str


@blueprint.get("/results/<id>/threads")
def show(id: str) -> Response:
    """A page of the table, for the event selected."""
    frame, profile = open_result_frame(id, "threads")
    every = _rows(frame, profile)
    rows, order = _filter_and_sort(frame, every)
    return render(
        ThreadsPage(
            frame=frame,
            ranks=_rank_chart(frame, profile),
            sheet=build_sheet(
                "Threads",
                rows,
                _columns(frame, places_of(rows)),
                order,
                noun="thread",
                total_rows=len(every),
                url=lambda row: frame.filtered_url("hotspots", threads=(row["key"],)) if row["key"] else "",
                bar=largest_bar(rows, "value"),
                bar_label="Relative to the largest",
                wide=False,
            ),
            csv=table_file_url("threads.csv"),
        )
    )


@blueprint.get(f"/results/<id>/threads.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All rows that the search leaves; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "threads")
    rows, _ = _filter_and_sort(frame, _rows(frame, profile))
    return table_file_response(f"{frame.name} threads", file_format, rows, profile)


@blueprint.get(f"/results/<id>/ranks.{FILE_RULE}")
def download_ranks(id: str, file_format: str) -> Response:
    """What each rank measured; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "threads")
    return table_file_response(
        f"{frame.name} ranks", file_format, TABLES["ranks"].frame(profile, frame.selection), profile
    )


def _rank_chart(frame: ResultFrame, profile: Profile) -> RankChart | None:
    """The selected event by rank, over all runs that measured it."""
    if len(ranks_of(profile)) < 2:
        return None
    found: dict[int, RankValue] = {}
    selection = frame.selection.replace(event=frame.event or None)
    for row in records(TABLES["ranks"].rows(profile, selection)):
        rank = row["rank"]
        if rank is None or row["recorded"] is False:
            continue
        before = found.get(rank, RankValue(rank, None))
        value = before.value if row["value"] is None else (before.value or 0) + row["value"]
        found[rank] = RankValue(rank, value, row["host"] or before.host, row["note"] or before.note)
    computing = _computing_by_rank(frame, profile)
    for rank, weight in computing.items():
        if rank in found and found[rank].value is not None:
            found[rank] = replace(found[rank], value=weight)
    values = [found[rank] for rank in sorted(found)]
    balance = measure_balance(values)
    if balance is None:
        return None
    hosts = f" on {balance.hosts:,} hosts" if balance.hosts > 1 else ""
    mean = f"{format_quantity(balance.mean, frame.unit).text} on average"
    caveat = format_caveat(running_percent(measure_counts(profile, selection)))
    svg = draw_rank_columns(
        frame.event,
        frame.unit,
        values,
        balance,
        lambda rank: frame.filtered_url(None, ranks=((rank, rank),)),
    )
    return RankChart(
        event=frame.event,
        measure=", without waiting" if computing else "",
        summary=f"{balance.ranks:,} ranks{hosts}, {', '.join(filter(None, (mean, caveat)))}",
        max=f"rank {balance.max.rank}",
        max_url=frame.filtered_url(None, ranks=((balance.max.rank, balance.max.rank),)),
        over_mean=f"{balance.over_mean:.2f}" if balance.over_mean is not None else "",
        uneven=balance.over_mean is not None and balance.over_mean > UNEVEN,
        # `draw_rank_columns` escapes every name and uses neither script nor style; tests hold it to that.
        svg=Markup(svg),
        legend=list_legend(svg),
        table=frame.url("ranks.csv"),
        matrix=frame.url("matrix", None, ("by", "rank")),
    )


def _computing_by_rank(frame: ResultFrame, profile: Profile) -> dict[int, int]:
    """The weight of the samples of each rank that do not wait: waiting ranks spin, and would look as busy as those that
    compute. Empty for counts, where waiting is unknown, and if no sample waits."""
    event = event_id(profile, frame.event or None)
    if event == NO_ID or event in find_counted_events(profile) or event in find_share_only_events(profile):
        return {}
    groups = matrix_groups(profile, frame.selection, "rank")
    totals = sum_groups(profile, frame.selection, event, groups)
    if not totals.waiting_count.any():
        return {}
    return dict(zip(groups.key, totals.computing.tolist(), strict=True))


def _rows(frame: ResultFrame, profile: Profile) -> pd.DataFrame:
    return TABLES["threads"].frame(profile, frame.selection.replace(event=frame.event or None))


def _filter_and_sort(frame: ResultFrame, rows: pd.DataFrame) -> tuple[pd.DataFrame, SortOrder]:
    places = [place for place in PLACES if place.column != "cpu"]
    return filter_and_sort(rows, _columns(frame, places), "-value", ("name", "process", "host", "key"))


def _columns(frame: ResultFrame, places: Sequence[ColumnView]) -> tuple[ColumnView, ...]:
    def flamegraph(row: dict[str, Any]) -> str:
        return frame.filtered_url("flamegraph", threads=(row["key"],)) if row["key"] and row["samples"] else ""

    def scaled(row: dict[str, Any]) -> str:
        return format_caveat(row["running_percent"])

    found = (
        ColumnView("name", "Thread", "name", unnamed=lambda row: "unknown" if row["key"] == UNKNOWN_THREAD else ""),
        ColumnView("process", "Process", "text"),
        *places,
        ColumnView("samples", "Samples"),
        ColumnView("value", frame.event or "Value", "value", unit=frame.unit, caveat=scaled),
        ColumnView("percent", "%", "percent", sort=""),
        ColumnView("key", "Flame graph", "link", sort="", link=flamegraph),
    )
    return inherit_descriptions(TABLES["threads"].columns, found)
