"""/results/<id>/steps: how long each step took and what its time went to."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint
from markupsafe import Markup
from werkzeug.wrappers import Response

from ....analysis.core.schema import records
from ....analysis.tables import TABLES
from ....charts.shares import Made, columns
from ....domain.profile import Profile
from ....domain.units import Quantity, quantity
from ...rendering import Page, render
from ..results.frame import Frame, open_frame
from ..results.sheets import Sheet, Shown, asked, sheet
from ..results.tables import FILE, table_file
from .parts import STEP_PARTS, Lying, Share, ends, lying, mean, shares, step_label, step_notes, step_url, step_values

blueprint = Blueprint("steps", __name__)


def _time(column: str, label: str, description: str = "") -> Shown:
    return Shown(column, label, "time", description, scale="time")


SHOWN = (
    Shown("step", "Step", "name"),
    Shown("rank", "Rank", "count"),
    Shown("start_ms", "Start", "time", "When it began, from the start of the recording."),
    _time("total_us", "Total", "From its start to its end on host and devices."),
    _time("kernel_us", "Kernels", "A kernel ran on a device."),
    _time("communication_kernel_us", "Communicating", f"Of the time of kernels: {STEP_PARTS[1].description.lower()}"),
    _time("memcpy_us", "Copies", STEP_PARTS[2].description),
    _time("memset_us", "Sets", STEP_PARTS[3].description),
    _time("communication_us", "Calls of collectives", STEP_PARTS[4].description),
    _time("runtime_us", "Runtime", STEP_PARTS[5].description),
    _time("dataloader_us", "DataLoader", STEP_PARTS[6].description),
    _time("cpu_exec_us", "Operators", STEP_PARTS[7].description),
    _time("other_us", "Other", STEP_PARTS[8].description),
    _time("idle_us", "Devices idle", "No device did anything."),
    Shown("device_work", "Launched", "count", "How many kernels, copies and sets it launched."),
    Shown("tokens", "Tokens", "count", "How many tokens of a language model it evaluated."),
    Shown("tokens_per_s", "Tokens/s", "number", "In a second of this step."),
)
ALWAYS = ("start_ms", "total_us", "other_us")


@dataclass(frozen=True)
class StepsPage(Page):
    """`/results/<id>/steps`. svg: a column for each step. ends: what the first and the last are. longest: the highest
    of them. shares: of the steps shown, on average."""

    template: ClassVar[str] = "results/steps.html"
    frame: Frame
    svg: Markup
    ends: tuple[str, str]
    longest: Quantity
    average: tuple[Lying, ...]
    shares: tuple[Share, ...]
    notes: tuple[str, ...]
    sheet: Sheet
    csv: str


@blueprint.get("/results/<id>/steps")
def show(id: str) -> Response:
    """The steps that are selected."""
    frame, profile = open_frame(id, "steps")
    every = _rows(frame, profile)
    shown, found = _shown(every), records(every)
    rows, order = asked(every, shown, "start_ms", ("step",))
    several = len({row["rank"] for row in found}) > 1
    made = [Made(step_label(row, several), step_values(row), step_url(frame, row, several)) for row in found]
    average = mean([one.values for one in made])
    return render(
        StepsPage(
            frame=frame,
            # `columns` escapes every text and uses neither script nor style; tests hold it to that.
            svg=Markup(columns("The time of each step", STEP_PARTS, made, "ns")),
            ends=ends([one.label for one in made]),
            longest=quantity(max((sum(one.values) for one in made), default=None), "ns"),
            average=lying(STEP_PARTS, [Made("average", average)]) if made else (),
            shares=shares(STEP_PARTS, average),
            notes=step_notes(profile, frame.selection),
            sheet=sheet("Steps", rows, shown, order, noun="step", url=lambda row: step_url(frame, row, several)),
            csv=frame.url("steps.csv"),
        )
    )


@blueprint.get(f"/results/<id>/steps.{FILE}")
def as_file(id: str, form: str) -> Response:
    """All of them; columns as `perfloom report` names them."""
    frame, profile = open_frame(id, "steps")
    return table_file(f"{frame.name} steps", form, _rows(frame, profile))


def _rows(frame: Frame, profile: Profile) -> pd.DataFrame:
    return TABLES["steps"].rows(profile, frame.selection)


def _shown(rows: pd.DataFrame) -> tuple[Shown, ...]:
    """The columns in which something stands."""
    return tuple(column for column in SHOWN if column.textual or column.column in ALWAYS or _says(rows[column.column]))


def _says(values: "pd.Series[Any]") -> bool:
    return bool((values.fillna(0) != 0).any())
