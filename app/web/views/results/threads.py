"""/results/<id>/threads: what each thread weighs, and the way to see it alone."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint, request
from markupsafe import Markup
from werkzeug.wrappers import Response

from ....analysis.core.measured import counted, running_percent
from ....analysis.core.picking import ranks_of
from ....analysis.core.schema import records
from ....analysis.tables import TABLES
from ....charts.ranks import RankValue, balance, draw
from ....domain.profile import Profile
from ....domain.selection import UNKNOWN_THREAD
from ....domain.units import Quantity, Scale, quantity, scale_for
from ...rendering import Page, render
from .caveats import caveat
from .frame import Frame, open_frame
from .tables import (
    FILE,
    PAGE_SIZE,
    Heading,
    Order,
    Pager,
    asked_order,
    asked_page,
    asked_search,
    heading,
    here,
    keep_matching,
    pager,
    table_file,
)

blueprint = Blueprint("threads", __name__)
UNEVEN = 1.1
"""From here on the greatest value by rank is said to be above the mean."""
SORTS = ("name", "process", "host", "rank", "run", "pid", "tid", "samples", "value")


@dataclass(frozen=True)
class Row:
    """A thread and its share. bar: of the largest, in percent.

    only: its hotspots. flamegraph: its picture. Both None where it has no key.
    """

    name: str
    process: str
    host: str
    rank: str
    run: str
    pid: str
    tid: str
    kind: str
    samples: Quantity
    value: Quantity
    percent: Quantity
    caveat: str
    bar: float
    only: str | None
    flamegraph: str | None


@dataclass(frozen=True)
class RankChart:
    """How even the ranks are. svg: without script or style of its own. uneven: more than a tenth above the mean.

    table: where the numbers are, as CSV.
    """

    event: str
    summary: str
    most: str
    most_url: str
    over_mean: str
    uneven: bool
    svg: Markup
    table: str


@dataclass(frozen=True)
class ThreadsPage(Page):
    """`/results/<id>/threads`. with_hosts, with_ranks, with_runs: whether there are several of them. with_pids,
    with_tids: whether any is known. ranks: None where there are none to compare."""

    template: ClassVar[str] = "results/threads.html"
    frame: Frame
    search: str
    hidden: tuple[tuple[str, str], ...]
    headings: dict[str, Heading]
    rows: tuple[Row, ...]
    with_hosts: bool
    with_ranks: bool
    with_pids: bool
    with_tids: bool
    with_runs: bool
    ranks: RankChart | None
    pager: Pager
    csv: str


@blueprint.get("/results/<id>/threads")
def show(id: str) -> Response:
    """A page of the table, for the event selected."""
    frame, profile = open_frame(id, "threads")
    order, page = asked_order(SORTS, "-value"), asked_page()
    rows = _rows(frame, profile, order)
    largest = float(rows["value"].max()) if rows["value"].notna().any() else 0.0
    scale = scale_for(largest, frame.unit)
    window = rows.iloc[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    return render(
        ThreadsPage(
            frame=frame,
            search=request.args.get("search", ""),
            hidden=tuple((k, v) for k, v in request.args.items(multi=True) if k not in ("search", "page")),
            headings={
                "name": heading(order, "name", "Thread", css="name"),
                "process": heading(order, "process", "Process", css="name name--second"),
                "host": heading(order, "host", "Host", css="fit"),
                "rank": heading(order, "rank", "Rank", css="num fit"),
                "run": heading(order, "run", "Run", css="num fit"),
                "pid": heading(order, "pid", "PID", css="num fit"),
                "tid": heading(order, "tid", "TID", css="num fit"),
                "samples": heading(order, "samples", "Samples", numeric=True, css="fit"),
                "value": heading(order, "value", frame.event or "Value", numeric=True, css="fit", unit=scale.label),
            },
            rows=tuple(_row(frame, row, scale, largest) for row in records(window)),
            with_hosts=bool(rows["host"].notna().any()),
            with_ranks=bool(rows["rank"].notna().any()),
            with_pids=bool(rows["pid"].notna().any()),
            with_tids=bool(rows["tid"].notna().any()),
            with_runs=bool(rows["run"].nunique() > 1),
            ranks=_rank_chart(frame, profile),
            pager=pager(page, len(rows), PAGE_SIZE, noun="thread"),
            csv=here(("page", None)).replace(f"/results/{id}/threads", f"/results/{id}/threads.csv", 1),
        )
    )


@blueprint.get(f"/results/<id>/threads.{FILE}")
def as_file(id: str, form: str) -> Response:
    """All rows that the search leaves; columns as `perfloom report` names them."""
    frame, profile = open_frame(id, "threads")
    rows = _rows(frame, profile, asked_order(SORTS, "-value"))
    return table_file(f"{frame.name} threads", form, rows)


@blueprint.get(f"/results/<id>/ranks.{FILE}")
def ranks_as_file(id: str, form: str) -> Response:
    """What each rank measured; columns as `perfloom report` names them."""
    frame, profile = open_frame(id, "threads")
    return table_file(f"{frame.name} ranks", form, TABLES["ranks"].rows(profile, frame.selection))


def _rank_chart(frame: Frame, profile: Profile) -> RankChart | None:
    """The selected event by rank, over all runs that measured it."""
    if len(ranks_of(profile)) < 2:
        return None
    found: dict[int, RankValue] = {}
    selection = frame.selection.only(event=frame.event or None)
    for row in records(TABLES["ranks"].rows(profile, selection)):
        rank = row["rank"]
        if rank is None or row["recorded"] is False:
            continue
        before = found.get(rank, RankValue(rank, None))
        value = before.value if row["value"] is None else (before.value or 0) + row["value"]
        found[rank] = RankValue(rank, value, row["host"] or before.host, row["note"] or before.note)
    values = [found[rank] for rank in sorted(found)]
    told = balance(values)
    if told is None:
        return None
    hosts = f" on {told.hosts:,} hosts" if told.hosts > 1 else ""
    mean = f"{quantity(told.mean, frame.unit).text} on average"
    scaled = caveat(running_percent(counted(profile, selection)))
    return RankChart(
        event=frame.event,
        summary=f"{told.ranks:,} ranks{hosts}, {', '.join(filter(None, (mean, scaled)))}",
        most=f"rank {told.most.rank}",
        most_url=frame.narrowed(None, ranks=((told.most.rank, told.most.rank),)),
        over_mean=f"{told.over_mean:.2f}" if told.over_mean is not None else "",
        uneven=told.over_mean is not None and told.over_mean > UNEVEN,
        # `draw` escapes every name and uses neither script nor style; tests hold it to that.
        svg=Markup(draw(frame.event, frame.unit, values, told)),
        table=frame.url("ranks.csv"),
    )


def _rows(frame: Frame, profile: Profile, order: Order) -> pd.DataFrame:
    rows = TABLES["threads"].rows(profile, frame.selection.only(event=frame.event or None))
    rows = keep_matching(rows, asked_search(), ("name", "process", "host", "key"))
    return rows.sort_values(order.column, ascending=not order.descending, kind="stable", na_position="last")


def _row(frame: Frame, row: dict[str, Any], scale: Scale, largest: float) -> Row:
    def number(word: str) -> str:
        return "" if row[word] is None else str(row[word])

    key = row["key"]
    return Row(
        name=row["name"] or ("not known" if key == UNKNOWN_THREAD else ""),
        process=row["process"] or "",
        host=row["host"] or "",
        rank=number("rank"),
        run=number("run"),
        pid=number("pid"),
        tid=number("tid"),
        kind=row["kind"] or "",
        samples=scale_for(0, "count").quantity(row["samples"]),
        value=scale.quantity(row["value"]),
        percent=scale_for(100, "percent").quantity(row["percent"]),
        caveat=caveat(row["running_percent"]),
        bar=100.0 * max(0, row["value"] or 0) / largest if largest else 0.0,
        only=frame.narrowed("hotspots", threads=(key,)) if key else None,
        flamegraph=frame.narrowed("flamegraph", threads=(key,)) if key and row["samples"] else None,
    )
