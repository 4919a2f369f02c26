"""/results/<id>/losses: what could not be read, and why a result is not complete."""

from dataclasses import dataclass
from typing import ClassVar

from flask import Blueprint
from werkzeug.wrappers import Response

from ....analysis.core.schema import records
from ....analysis.tables import TABLES
from ....domain.units import Quantity, choose_scale
from ...rendering import Page, render
from .result_frame import ResultFrame, open_result_frame
from .tables import FILE_RULE, table_file_response

blueprint = Blueprint("losses", __name__)


@dataclass(frozen=True)
class LossRow:
    """A loss. example: the first one, with its position in the file."""

    reason: str
    count: Quantity
    example: str


@dataclass(frozen=True)
class LossesPage(Page):
    """`/results/<id>/losses`. reasons: why the recording is not complete."""

    template: ClassVar[str] = "results/losses.html"
    frame: ResultFrame
    rows: tuple[LossRow, ...]
    reasons: tuple[str, ...]
    csv: str


@blueprint.get("/results/<id>/losses")
def show(id: str) -> Response:
    """All losses, the most frequent first."""
    frame, profile = open_result_frame(id, "losses")
    scale = choose_scale(0, "count")
    rows = records(TABLES["losses"].rows(profile, frame.selection))
    return render(
        LossesPage(
            frame=frame,
            rows=tuple(LossRow(r["reason"] or "", scale.format(r["count"]), r["example"] or "") for r in rows),
            reasons=() if frame.result.complete else tuple(frame.result.reasons) or ("The recording was cut short.",),
            csv=f"/results/{id}/losses.csv",
        )
    )


@blueprint.get(f"/results/<id>/losses.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """The table; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "losses")
    rows = TABLES["losses"].frame(profile, frame.selection)
    return table_file_response(f"{frame.name} losses", file_format, rows)
