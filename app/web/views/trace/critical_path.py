"""/results/<id>/critical-path: the work that determined the end of a recording, and possible savings."""

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
from flask import Blueprint
from werkzeug.wrappers import Response

from ....analysis.core.schema import records
from ....analysis.ml.kernel_names import shorten_kernel_name
from ....analysis.tables import TABLES
from ....charts.stacked_bars import StackedValues, StackPart
from ....domain.profile import Profile
from ....domain.selection import Selection
from ....domain.units import NS_PER_US
from ...rendering import Page, render
from ..results.clock_notes import ClockNote, build_clock_note
from ..results.result_frame import ResultFrame, open_result_frame
from ..results.sheets import ColumnView, Sheet, build_sheet, filter_and_sort, inherit_descriptions
from ..results.tables import FILE_RULE, table_file_response
from .time_parts import HorizontalBar, PartShare, draw_horizontal_bars, list_shares

blueprint = Blueprint("critical_path", __name__)
MAX_STEPS = 60
PATH_PARTS = (
    StackPart("kernel", "Computation", "A device ran a compute kernel that the next work waited for."),
    StackPart("communication", "Communication", "A device communicated, from the arrival of the last rank."),
    StackPart("memcpy", "Memcpy", "A device ran a memcpy that the next work waited for."),
    StackPart("memset", "Memset", "A device ran a memset or other work."),
    StackPart("cpu", "Host", "The host worked, and devices waited for it or had nothing to do."),
    StackPart("runtime", "Launch", "From the end of a launching call until the device started."),
    StackPart("dataloader", "Device gap", "On a device, between work and the work that waited for it."),
    StackPart("other", "Nothing recorded", "Nothing was recorded that the path could have waited for."),
)
PART_BY_KIND = {
    "computation": 0,
    "communication": 1,
    "memcpy": 2,
    "memset": 3,
    "other": 3,
    "host": 4,
    "launch": 5,
    "device gap": 6,
    "nothing recorded": 7,
}
"""The index into PARTS of each kind of the table."""
COLUMN_VIEWS = inherit_descriptions(
    TABLES["critical-path"].columns,
    (
        ColumnView("name", "On the path", "name", shorten=shorten_kernel_name),
        ColumnView("kind", "Kind", "word"),
        ColumnView("parts", "Parts"),
        ColumnView("total_us", "On the path", "time", scale="time"),
        ColumnView("percent", "%", "percent"),
        ColumnView("mean_us", "Mean", "time", scale="call"),
        ColumnView(
            "saves_us",
            "Would save",
            "time",
            "How much sooner the recording would end if this took no time: less than its time on the path if "
            "another path becomes critical. For the first 25, of a whole recording.",
            scale="time",
        ),
        ColumnView("rank", "Rank", "count"),
        ColumnView("uncertain", "Within skew", "flag"),
    ),
)


@dataclass(frozen=True)
class CriticalPathPage(Page):
    """`/results/<id>/critical-path`. whole: the selected path. steps: the path of each step, up to
    MOST_STEPS; left_out: number of omitted steps."""

    template: ClassVar[str] = "results/critical_path.html"
    frame: ResultFrame
    whole: tuple[HorizontalBar, ...]
    shares: tuple[PartShare, ...]
    steps: tuple[HorizontalBar, ...]
    left_out: int
    is_filtered: bool
    sheet: Sheet
    clock_note: ClockNote | None
    csv: str


@blueprint.get("/results/<id>/critical-path")
def show(id: str) -> Response:
    """The path by function."""
    frame, profile = open_result_frame(id, "critical-path")
    values = [0.0] * len(PATH_PARTS)
    for row in records(_rows(frame, profile, "kind")):
        values[PART_BY_KIND[row["kind"]]] += row["total_us"] * NS_PER_US
    steps = _steps(frame, profile)
    every = _rows(frame, profile)
    optional = ("saves_us", "rank", "uncertain")
    shown = tuple(column for column in COLUMN_VIEWS if column.column not in optional or every[column.column].any())
    rows, order = filter_and_sort(every, shown, "-total_us", ("name",))
    return render(
        CriticalPathPage(
            frame=frame,
            whole=draw_horizontal_bars(PATH_PARTS, [StackedValues("whole path", tuple(values))]) if sum(values) else (),
            shares=list_shares(PATH_PARTS, values),
            steps=draw_horizontal_bars(PATH_PARTS, steps[:MAX_STEPS]),
            left_out=max(0, len(steps) - MAX_STEPS),
            is_filtered=frame.selection.replace(event=None) != Selection(),
            sheet=build_sheet(
                "Critical path", rows, shown, order, noun="name", bar=("percent", "percent"), total_rows=len(every)
            ),
            clock_note=build_clock_note(frame, profile, path=True),
            csv=frame.url("critical-path.csv"),
        )
    )


@blueprint.get(f"/results/<id>/critical-path.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All rows; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "critical-path")
    return table_file_response(f"{frame.name} critical path", file_format, _rows(frame, profile), profile)


def _rows(frame: ResultFrame, profile: Profile, by: str | None = None) -> pd.DataFrame:
    return TABLES["critical-path"].frame(profile, frame.selection, by)


def _steps(frame: ResultFrame, profile: Profile) -> list[StackedValues]:
    """The path in each step, in order; empty with fewer than two steps."""
    found: dict[str, list[float]] = {}
    for row in records(_rows(frame, profile, "step")):
        if row["name"]:
            found.setdefault(row["name"], [0.0] * len(PATH_PARTS))[PART_BY_KIND[row["kind"]]] += (
                row["total_us"] * NS_PER_US
            )
    if len(found) < 2:
        return []
    return [
        StackedValues(f"step {name}", tuple(made), frame.filtered_url(None, step=name)) for name, made in found.items()
    ]
