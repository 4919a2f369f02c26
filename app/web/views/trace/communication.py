"""/results/<id>/communication: computation and communication of ranks, collectives, waiting times."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from flask import Blueprint
from markupsafe import Markup
from werkzeug.wrappers import Response

from ....analysis.core.schema import records
from ....analysis.distributed.skew import within_skew
from ....analysis.tables import TABLES
from ....charts.heatmap_strips import HeatmapCell, draw_heatmap_strip
from ....charts.stacked_bars import PANEL_SIZES, StackedValues, draw_columns
from ....domain.profile import Profile
from ....domain.units import NS_PER_US, Quantity, format_percent, format_quantity
from ...rendering import Page, render
from ..results.clock_notes import ClockNote, build_clock_note
from ..results.result_frame import ResultFrame, open_result_frame
from ..results.sheets import (
    ColumnView,
    Sheet,
    SheetRow,
    build_headings,
    build_rows,
    build_sheet,
    column_scales,
    filter_and_sort,
    inherit_descriptions,
)
from ..results.tables import FILE_RULE, ColumnHeading, table_file_response
from .time_parts import (
    OVERLAP_PARTS,
    HorizontalBar,
    PartShare,
    draw_horizontal_bars,
    first_and_last,
    format_step_with_rank,
    list_shares,
    mean_values,
    overlap_values,
    step_url,
)

blueprint = Blueprint("communication", __name__)
MAX_RANKS = 64
REQUIRED_COLUMNS = ("name", "collectives", "calls", "total_us")
MAX_ROWS = 100
FILE_TABLES = ("communication", "collectives", "stragglers", "clocks")


def _time(column: str, label: str, description: str = "") -> ColumnView:
    return ColumnView(column, label, "time", description, scale="time")


_WAITING = _time("waiting_us", "Waiting")
_MOVING = _time("transferring_us", "Transfer")
_UNCERTAIN = ColumnView("uncertain", "Within skew", "flag")
_HELD_UNCERTAIN = ColumnView("held_up_uncertain", "Within skew", "flag")
COLLECTIVES = inherit_descriptions(
    TABLES["collectives"].columns,
    (
        ColumnView("name", "Collective", "name"),
        ColumnView("group", "Group", "text"),
        ColumnView("size", "Ranks", "count"),
        ColumnView("dtype", "Type", "text"),
        ColumnView("bytes", "Bytes", "bytes"),
        ColumnView("collectives", "Count"),
        ColumnView("calls", "Calls, all ranks"),
        _time("total_us", "Total, all ranks"),
        _time("mean_us", "Mean"),
        _time("max_us", "Max"),
        _WAITING,
        _MOVING,
        ColumnView("algorithm_gb_per_s", "Algorithm", "rate"),
        ColumnView("bus_gb_per_s", "Bus", "rate"),
        _UNCERTAIN,
    ),
)
STRAGGLERS = inherit_descriptions(
    TABLES["stragglers"].columns,
    (
        ColumnView("rank", "Rank", "count"),
        ColumnView("last", "Last"),
        ColumnView("collectives", "Of"),
        _time("held_up_us", "Delayed others"),
        _HELD_UNCERTAIN,
        _time("waiting_us", "Waited"),
        _UNCERTAIN,
        _time("transferring_us", "Transfer"),
    ),
)
STEPS = inherit_descriptions(
    TABLES["communication"].columns,
    (
        ColumnView("step", "Step", "name"),
        ColumnView("rank", "Rank", "count"),
        _time("total_us", "Total"),
        _time("computing_us", "Only computation", OVERLAP_PARTS[0].description),
        _time("both_us", "Both at once", OVERLAP_PARTS[1].description),
        _time("communicating_us", "Only communication", OVERLAP_PARTS[2].description),
        _time("neither_us", "Neither", OVERLAP_PARTS[3].description),
        ColumnView("overlap_percent", "Overlapped", "percent"),
        _WAITING,
        _MOVING,
        _UNCERTAIN,
    ),
)
CLOCKS = inherit_descriptions(
    TABLES["clocks"].columns,
    (
        ColumnView("rank", "Rank", "count"),
        ColumnView("host", "Host", "text"),
        ColumnView("state", "Clock", "word"),
        _time("shift_us", "Shift"),
        _time("skew_us", "Remaining offset"),
        _time("residual_us", "Residual skew"),
        _time("farthest_us", "Max skew"),
        ColumnView("collectives", "Collectives"),
        ColumnView("matched_by", "Matched by", "word"),
        ColumnView("drift_ppm", "Drift, ppm", "number"),
    ),
)


@dataclass(frozen=True)
class PlainTable:
    """A table that does not sort."""

    headings: tuple[ColumnHeading, ...]
    rows: tuple[SheetRow, ...]
    left_out: int


@dataclass(frozen=True)
class HeatmapRow:
    """How long a rank waited in each step. svg: without script or style. uncertain: shorter than the
    residual skew of the clocks; uncertain_cells: in some step."""

    label: str
    url: str
    svg: Markup
    waiting: Quantity
    uncertain: bool
    uncertain_cells: bool


@dataclass(frozen=True)
class CommunicationPage(Page):
    """`/results/<id>/communication`. svg: a column for each step, the mean of its ranks; empty for a single one.
    overlap_text: the share of communication overlapped by computation. heatmap: empty if no collective was matched on
    several ranks. compared_text: a sentence on the number of matched ones. csv: URLs by table."""

    template: ClassVar[str] = "results/communication.html"
    frame: ResultFrame
    svg: Markup
    ranks: tuple[HorizontalBar, ...]
    ranks_left_out: int
    shares: tuple[PartShare, ...]
    overlap_text: str
    heatmap: tuple[HeatmapRow, ...]
    heatmap_ends: tuple[str, str]
    stragglers: PlainTable | None
    compared_text: str
    collectives: Sheet
    steps: PlainTable
    clocks: PlainTable | None
    clock_note: ClockNote | None
    csv: dict[str, str]


@blueprint.get("/results/<id>/communication")
def show(id: str) -> Response:
    """What is selected."""
    frame, profile = open_result_frame(id, "communication")
    table = TABLES["communication"].frame(profile, frame.selection)
    steps = records(table)
    every = TABLES["collectives"].frame(profile, frame.selection)
    shown = tuple(
        column
        for column in _uncertain(every, COLLECTIVES)
        if column.column in REQUIRED_COLUMNS or _has_values(every, column)
    )
    rows, order = filter_and_sort(every, shown, "-total_us", ("name", "group", "dtype"))
    stragglers = TABLES["stragglers"].frame(profile, frame.selection)
    by_step, by_rank = _means(steps, "step"), _means(steps, "rank")
    named = [
        StackedValues(f"step {name}", values, frame.filtered_url(None, step=name), name)
        for name, values in by_step.items()
    ]
    ranked = [
        StackedValues(
            "average step" if rank is None else f"rank {rank}",
            values,
            "" if rank is None else frame.filtered_url(None, ranks=((rank, rank),)),
        )
        for rank, values in by_rank.items()
    ]
    communicated = sum(step["both_us"] + step["communicating_us"] for step in steps)
    hidden = sum(step["both_us"] for step in steps)
    return render(
        CommunicationPage(
            frame=frame,
            # `draw_columns` escapes every text and uses neither script nor style; tests hold it to that.
            svg=Markup(
                draw_columns("Computation and communication by step", OVERLAP_PARTS, named, "ns", "Step", PANEL_SIZES)
            )
            if len(named) > 1
            else Markup(),
            ranks=draw_horizontal_bars(OVERLAP_PARTS, ranked[:MAX_RANKS]),
            ranks_left_out=max(0, len(ranked) - MAX_RANKS),
            shares=list_shares(OVERLAP_PARTS, mean_values([overlap_values(step) for step in steps])),
            overlap_text=format_percent(100 * hidden / communicated) if communicated else "",
            heatmap=_heat(frame, profile, steps),
            heatmap_ends=first_and_last([one.label for one in named]),
            stragglers=_build_plain_table(stragglers, STRAGGLERS, None) if len(stragglers) > 1 else None,
            compared_text=_describe_comparison(records(every)),
            collectives=build_sheet("Collectives", rows, shown, order, noun="collective", total_rows=len(every)),
            steps=_build_plain_table(table, STEPS, lambda row: step_url(frame, row, len(by_rank) > 1)),
            clocks=_clocks(profile, frame),
            clock_note=build_clock_note(frame, profile),
            csv={name: frame.url(f"{name}.csv") for name in FILE_TABLES},
        )
    )


@blueprint.get(f"/results/<id>/communication.{FILE_RULE}", defaults={"name": "communication"})
@blueprint.get(f"/results/<id>/collectives.{FILE_RULE}", defaults={"name": "collectives"})
@blueprint.get(f"/results/<id>/stragglers.{FILE_RULE}", defaults={"name": "stragglers"})
@blueprint.get(f"/results/<id>/clocks.{FILE_RULE}", defaults={"name": "clocks"})
def download_table(id: str, name: str, file_format: str) -> Response:
    """One of the tables; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "communication")
    return table_file_response(
        f"{frame.name} {name}", file_format, TABLES[name].frame(profile, frame.selection), profile
    )


def _means(steps: list[dict[str, Any]], by: str) -> dict[Any, tuple[float, ...]]:
    """The mean times of OVERLAP_PARTS by step or rank."""
    alike: dict[Any, list[tuple[float, ...]]] = defaultdict(list)
    for step in steps:
        alike[step[by]].append(overlap_values(step))
    return {key: mean_values(values) for key, values in alike.items()}


def _heat(frame: ResultFrame, profile: Profile, steps: list[dict[str, Any]]) -> tuple[HeatmapRow, ...]:
    """A strip for each rank, a cell for each step: the share of it that the rank waited."""
    if all(step["waiting_us"] is None for step in steps):
        return ()
    place = {name: number for number, name in enumerate(dict.fromkeys(step["step"] for step in steps))}
    of_rank: dict[int | None, list[dict[str, Any]]] = defaultdict(list)
    for step in steps:
        of_rank[step["rank"]].append(step)
    # Relative to the longest reliable wait, so that differences are visible.
    longest = max((_share(step) or 0.0 for step in steps if not step["uncertain"]), default=0.0)
    heatmap_rows = []
    for rank, mine in list(of_rank.items())[:MAX_RANKS]:
        cells = []
        for step in mine:
            share, at = _share(step), place[step["step"]]
            text = format_quantity((step["waiting_us"] or 0.0) * NS_PER_US, "ns").text
            words = f"{format_step_with_rank(step, True)}\nwaited {text}, {format_percent(100 * (share or 0.0))}"
            words += "\nwithin the residual clock skew, not reliable" if step["uncertain"] else ""
            strength = None if share is None else share / longest if longest else 0.0
            url, outlined = frame.filtered_url(None, step=step["step"]), bool(step["uncertain"])
            cells.append(HeatmapCell(at, at + 1, strength, words, url=url, uncertain=outlined))
        total_ns = sum(step["waiting_us"] or 0.0 for step in mine) * NS_PER_US
        count = sum(step["matched"] for step in mine)
        (unsure,) = within_skew(profile, np.array([total_ns]), np.array([count]))
        label = f"rank {rank}"
        svg = Markup(draw_heatmap_strip(f"Waiting time of {label} by step", cells, 0, len(place)))
        only = () if rank is None else ((rank, rank),)
        heatmap_rows.append(
            HeatmapRow(
                label,
                frame.filtered_url(None, ranks=only),
                svg,
                format_quantity(total_ns, "ns"),
                bool(unsure),
                any(cell.uncertain for cell in cells),
            )
        )
    return tuple(heatmap_rows)


def _share(step: dict[str, Any]) -> float | None:
    if step["waiting_us"] is None or not step["total_us"]:
        return None
    return float(step["waiting_us"] / step["total_us"])


def _build_plain_table(
    rows: pd.DataFrame, shown: tuple[ColumnView, ...], url: Callable[[dict[str, Any]], str] | None
) -> PlainTable:
    shown = _uncertain(rows, shown)
    few, scales = rows.head(MAX_ROWS), column_scales(rows, shown)
    return PlainTable(
        build_headings(shown, scales, None), build_rows(few, shown, scales, url=url), len(rows) - len(few)
    )


def _clocks(profile: Profile, frame: ResultFrame) -> PlainTable | None:
    """The clocks of ranks, where there are several; columns of which something is known."""
    rows = TABLES["clocks"].frame(profile, frame.selection)
    if not len(rows):
        return None
    return _build_plain_table(rows, tuple(column for column in CLOCKS if _has_values(rows, column)), None)


def _has_values(rows: pd.DataFrame, column: ColumnView) -> bool:
    values = rows[column.column]
    return bool((values.notna() & (values != "")).any())


def _uncertain(rows: pd.DataFrame, column_views: tuple[ColumnView, ...]) -> tuple[ColumnView, ...]:
    """The columns, without the flags of uncertain values if no value is uncertain."""
    flags = {view.column for view in column_views} & {_UNCERTAIN.column, _HELD_UNCERTAIN.column}
    some = any(bool(rows[column].any()) for column in flags)
    return tuple(view for view in column_views if some or view.column not in flags)


def _describe_comparison(every: list[dict[str, Any]]) -> str:
    count, matched = (sum(row[name] for row in every) for name in ("collectives", "matched"))
    if not count:
        return "No collectives were recorded."
    if not matched:
        return (
            f"{count:,} collectives, none of which was found on a second rank. Import the files of all ranks as one "
            "result to see which ranks wait for others."
        )
    return f"{matched:,} of {count:,} collectives were found on several ranks. Waiting times are known only for these."
