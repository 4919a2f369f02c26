"""/results/<id>/steps: the duration of each step, by part."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint
from markupsafe import Markup
from werkzeug.wrappers import Response

from ....analysis.core.schema import records
from ....analysis.tables import TABLES
from ....charts.stacked_bars import StackedValues, draw_columns
from ....domain.profile import Profile
from ...rendering import Page, render
from ..results.result_frame import ResultFrame, open_result_frame
from ..results.sheets import ColumnView, Sheet, build_sheet, filter_and_sort, inherit_descriptions
from ..results.tables import FILE_RULE, table_file_response
from .time_parts import (
    STEP_PARTS,
    HorizontalBar,
    PartShare,
    draw_horizontal_bars,
    format_step_with_rank,
    list_shares,
    list_step_notes,
    mean_values,
    step_url,
    step_values,
)

blueprint = Blueprint("steps", __name__)


def _time(column: str, label: str, description: str = "") -> ColumnView:
    return ColumnView(column, label, "time", description, scale="time")


COLUMN_VIEWS = inherit_descriptions(
    TABLES["steps"].columns,
    (
        ColumnView("step", "Step", "name"),
        ColumnView("rank", "Rank", "count", fixed=True),
        ColumnView("start_ms", "Start", "time"),
        _time("total_us", "Total"),
        _time("kernel_us", "Kernels"),
        _time(
            "communication_kernel_us", "Communicating", f"Part of the kernel time: {STEP_PARTS[1].description.lower()}"
        ),
        _time("memcpy_us", "Memcpy", STEP_PARTS[2].description),
        _time("memset_us", "Memset", STEP_PARTS[3].description),
        _time("communication_us", "Calls of collectives", STEP_PARTS[4].description),
        _time("runtime_us", "Runtime", STEP_PARTS[5].description),
        _time("dataloader_us", "DataLoader", STEP_PARTS[6].description),
        _time("cpu_exec_us", "Operators", STEP_PARTS[7].description),
        _time("other_us", "Other", STEP_PARTS[8].description),
        _time("idle_us", "Devices idle"),
        ColumnView("device_work", "Launched"),
        ColumnView("tokens", "Tokens"),
        ColumnView("tokens_per_s", "Tokens/s", "number"),
    ),
)
REQUIRED_COLUMNS = ("start_ms", "total_us", "other_us")


@dataclass(frozen=True)
class StepsPage(Page):
    """`/results/<id>/steps`. svg: a column for each step. shares: mean of the shown steps."""

    template: ClassVar[str] = "results/steps.html"
    frame: ResultFrame
    svg: Markup
    average: tuple[HorizontalBar, ...]
    shares: tuple[PartShare, ...]
    notes: tuple[str, ...]
    sheet: Sheet
    csv: str


@blueprint.get("/results/<id>/steps")
def show(id: str) -> Response:
    """The steps that are selected."""
    frame, profile = open_result_frame(id, "steps")
    every = _rows(frame, profile)
    shown, found = _visible_columns(every), records(every)
    rows, order = filter_and_sort(every, shown, "start_ms", ("step",))
    several = len({row["rank"] for row in found}) > 1
    made = [
        StackedValues(
            format_step_with_rank(row, several),
            step_values(row),
            step_url(frame, row, several),
            f"{row['step']} · {row['rank']}" if several else row["step"],
        )
        for row in found
    ]
    average = mean_values([one.values for one in made])
    return render(
        StepsPage(
            frame=frame,
            # `draw_columns` escapes every text and uses neither script nor style; tests hold it to that.
            svg=Markup(draw_columns("Time by step", STEP_PARTS, made, "ns", "Step · rank" if several else "Step")),
            average=draw_horizontal_bars(STEP_PARTS, [StackedValues("average", average)]) if made else (),
            shares=list_shares(STEP_PARTS, average),
            notes=list_step_notes(profile, frame.selection),
            sheet=build_sheet(
                "Steps",
                rows,
                shown,
                order,
                noun="step",
                url=lambda row: step_url(frame, row, several),
                total_rows=len(every),
            ),
            csv=frame.url("steps.csv"),
        )
    )


@blueprint.get(f"/results/<id>/steps.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All of them; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "steps")
    return table_file_response(f"{frame.name} steps", file_format, _rows(frame, profile), profile)


def _rows(frame: ResultFrame, profile: Profile) -> pd.DataFrame:
    return TABLES["steps"].frame(profile, frame.selection)


def _visible_columns(rows: pd.DataFrame) -> tuple[ColumnView, ...]:
    """The columns with values."""
    return tuple(
        column
        for column in COLUMN_VIEWS
        if column.is_text or column.column in REQUIRED_COLUMNS or _has_nonzero(rows[column.column])
    )


def _has_nonzero(values: "pd.Series[Any]") -> bool:
    return bool((values.fillna(0) != 0).any())
