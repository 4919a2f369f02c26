"""/results/<id>/critical-path: what the end of a recording waited for, and what shortening it would win."""

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
from flask import Blueprint
from werkzeug.wrappers import Response

from ....analysis.core.schema import records
from ....analysis.tables import TABLES
from ....charts.shares import Made, Part
from ....domain.profile import Profile
from ....domain.selection import Selection
from ...rendering import Page, render
from ..results.clock_notes import ClockNote, clock_note
from ..results.frame import Frame, open_frame
from ..results.sheets import Sheet, Shown, asked, sheet
from ..results.tables import FILE, table_file
from .parts import Lying, Share, lying, shares

blueprint = Blueprint("critical_path", __name__)
NS_PER_US = 1_000
MOST_STEPS = 60
PARTS = (
    Part("kernel", "Computation", "A device computed, and what came next waited for it."),
    Part("communication", "Communication", "A device communicated, from when the last rank had come."),
    Part("memcpy", "Copies", "A device copied, and what came next waited for it."),
    Part("memset", "Sets", "A device set memory, or did what is of no other kind."),
    Part("cpu", "Host", "The host was at work; devices had nothing to do for it, or were ahead of nothing."),
    Part("runtime", "Launch", "From the end of a launching call until the device began."),
    Part("dataloader", "Between work", "On a device, between work and what waited for it."),
    Part("other", "Nothing recorded", "Nothing was recorded that the end could have waited for."),
)
OF_KIND = {
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
"""Which of PARTS each kind of the table is."""
SHOWN = (
    Shown("name", "On the path", "name"),
    Shown("kind", "Kind", "word"),
    Shown("parts", "Parts", "count", "How often the path goes through it."),
    Shown("total_us", "On the path", "time", "Time of the path in it.", scale="time"),
    Shown("percent", "%", "percent", "Its share of the path."),
    Shown("mean_us", "Mean", "time", "Time on the path ÷ parts.", scale="call"),
    Shown(
        "saves_us",
        "Would save",
        "time",
        "How much sooner all would be done if this took no time in itself: less than its time on the path where "
        "something else would be waited for instead. Of the first 25, for a whole recording.",
        scale="time",
    ),
    Shown("rank", "Rank", "count"),
    Shown(
        "uncertain",
        "Within skew",
        "flag",
        "Whether the path changes rank there, and its mean is shorter than the clocks' residual skew.",
    ),
)


@dataclass(frozen=True)
class CriticalPathPage(Page):
    """`/results/<id>/critical-path`. whole: all of the path that is selected. steps: the same for each step, the first
    MOST_STEPS; left_out: how many more there are."""

    template: ClassVar[str] = "results/critical_path.html"
    frame: Frame
    whole: tuple[Lying, ...]
    shares: tuple[Share, ...]
    steps: tuple[Lying, ...]
    left_out: int
    narrowed: bool
    sheet: Sheet
    clock_note: ClockNote | None
    csv: str


@blueprint.get("/results/<id>/critical-path")
def show(id: str) -> Response:
    """The path by what is on it."""
    frame, profile = open_frame(id, "critical-path")
    values = [0.0] * len(PARTS)
    for row in records(_rows(frame, profile, "kind")):
        values[OF_KIND[row["kind"]]] += row["total_us"] * NS_PER_US
    steps = _steps(frame, profile)
    every = _rows(frame, profile)
    optional = ("saves_us", "rank", "uncertain")
    shown = tuple(column for column in SHOWN if column.column not in optional or every[column.column].any())
    rows, order = asked(every, shown, "-total_us", ("name",))
    return render(
        CriticalPathPage(
            frame=frame,
            whole=lying(PARTS, [Made("all of it", tuple(values))]) if sum(values) else (),
            shares=shares(PARTS, values),
            steps=lying(PARTS, steps[:MOST_STEPS]),
            left_out=max(0, len(steps) - MOST_STEPS),
            narrowed=frame.selection.only(event=None) != Selection(),
            sheet=sheet("The critical path", rows, shown, order, noun="name", bar=("percent", "percent")),
            clock_note=clock_note(frame, profile, path=True),
            csv=frame.url("critical-path.csv"),
        )
    )


@blueprint.get(f"/results/<id>/critical-path.{FILE}")
def as_file(id: str, form: str) -> Response:
    """All rows; columns as `perfloom report` names them."""
    frame, profile = open_frame(id, "critical-path")
    return table_file(f"{frame.name} critical path", form, _rows(frame, profile))


def _rows(frame: Frame, profile: Profile, by: str | None = None) -> pd.DataFrame:
    return TABLES["critical-path"].rows(profile, frame.selection, by)


def _steps(frame: Frame, profile: Profile) -> list[Made]:
    """The path in each step, in order; nothing where there are no steps to tell apart."""
    found: dict[str, list[float]] = {}
    for row in records(_rows(frame, profile, "step")):
        if row["name"]:
            found.setdefault(row["name"], [0.0] * len(PARTS))[OF_KIND[row["kind"]]] += row["total_us"] * NS_PER_US
    if len(found) < 2:
        return []
    return [Made(f"step {name}", tuple(made), frame.narrowed(None, step=name)) for name, made in found.items()]
