"""/results/<id>/topdown: the share of pipeline slots in each category of the CPU, as a tree."""

from dataclasses import dataclass
from typing import ClassVar

from flask import Blueprint
from werkzeug.wrappers import Response

from ....analysis.topdown.models import Model, ResolvedModel, chosen_model, load_models, resolve_models
from ....analysis.topdown.rows import compute_topdown
from ....domain.jobs.parts import RecorderName
from ....domain.profile import Profile
from ....domain.units import format_percent
from ...pages import with_query
from ...rendering import Page, render
from ...services import current_services
from ..results.result_frame import ResultFrame, open_result_frame
from ..results.tables import FILE_RULE, table_file_response, table_file_url

blueprint = Blueprint("topdown", __name__)


@dataclass(frozen=True)
class CategoryRow:
    """A category of the tree. percent: of all slots, for its bar; text: the same with its unit. record: a link to the
    job form with the events of its parts, empty if they were measured or there are none."""

    name: str
    level: int
    percent: float
    text: str
    threshold: str
    above: bool
    hint: str
    formula: str
    note: str
    record: str


@dataclass(frozen=True)
class RecordingAdvice:
    """What to record on a kind of CPU. levels: level, command line for a terminal, link to the job form."""

    cpus: str
    verified: str
    levels: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True)
class TopdownPage(Page):
    """rows: the tree; empty without its events. title, verified: of the model that applies. advice: what to record."""

    template: ClassVar[str] = "results/topdown.html"
    frame: ResultFrame
    title: str
    verified: str
    rows: tuple[CategoryRow, ...]
    advice: tuple[RecordingAdvice, ...]
    csv: str


@blueprint.get("/results/<id>/topdown")
def show(id: str) -> Response:
    """The tree of the selection, or what to record."""
    frame, profile = open_result_frame(id, "topdown")
    source = _job(frame)
    rows = compute_topdown.rows(profile, frame.selection)
    titles = rows.column("model")
    chosen = chosen_model(profile, titles[0]) if titles else None
    return render(
        TopdownPage(
            frame=frame,
            title=titles[0] if titles else "",
            verified=chosen.model.verified if chosen else "",
            rows=_rows(profile, frame, chosen, source) if chosen else (),
            advice=tuple(_advise(model, source) for model in _models(profile, chosen)),
            csv=table_file_url("topdown.csv"),
        )
    )


@blueprint.get(f"/results/<id>/topdown.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """The table `topdown` of the selection."""
    frame, profile = open_result_frame(id, "topdown")
    return table_file_response(
        f"{frame.name} top-down", file_format, compute_topdown(profile, frame.selection), profile
    )


def _rows(
    profile: Profile, frame: ResultFrame, chosen: ResolvedModel, source: list[tuple[str, str]]
) -> tuple[CategoryRow, ...]:
    table = compute_topdown.rows(profile, frame.selection)
    columns = ("category", "level", "percent", "threshold_percent", "above", "hint", "formula", "note")
    found = []
    for name, level, percent, threshold, above, hint, formula, note in zip(
        *(table.column(column) for column in columns), strict=True
    ):
        lacking = level == 1 and chosen.lacks(name) and len(_models(profile, chosen)) == 1
        found.append(
            CategoryRow(
                name=name,
                level=level,
                percent=min(100.0, max(0.0, percent or 0.0)),
                text=format_percent(percent),
                threshold=f"{threshold:g}\u00a0%",
                above=above,
                hint=hint,
                formula=formula,
                note=note or "",
                record=_form_url(chosen.model, 2, source) if lacking else "",
            )
        )
    return tuple(found)


def _models(profile: Profile, chosen: ResolvedModel | None) -> tuple[Model, ...]:
    """The models to record for: all without a tree, else those that measure the same and can go deeper."""
    if chosen is None:
        return load_models()
    if chosen.levels > 1:
        return ()
    return tuple(each.model for each in resolve_models(profile) if len(each.categories) == len(chosen.categories))


def _advise(model: Model, source: list[tuple[str, str]]) -> RecordingAdvice:
    return RecordingAdvice(
        model.cpus,
        model.verified,
        tuple(
            (level, f"perf stat -e '{','.join(groups)}' COMMAND", _form_url(model, level, source))
            for level, groups in model.record.items()
        ),
    )


def _form_url(model: Model, level: int, source: list[tuple[str, str]]) -> str:
    """The job form with the events of a level."""
    events = [("events", group) for group in model.record[level]]
    return with_query("/jobs/new", [*source, ("recorder", str(RecorderName.PERF_STAT)), *events])


def _job(frame: ResultFrame) -> list[tuple[str, str]]:
    """The job of the result, as a parameter of the job form."""
    job = current_services().store.jobs.find(frame.result.job_id) if frame.result.job_id else None
    return [("from", job.id)] if job is not None and job.kind == "record" else []
