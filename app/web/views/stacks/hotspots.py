"""/results/<id>/hotspots: self and total by function, module or thread."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint
from werkzeug.wrappers import Response

from ....analysis.core.functions import base_name
from ....analysis.stacks.hotspots import BY, compute_hotspots
from ....analysis.tables import TABLES
from ....domain.profile import Profile
from ....domain.symbols.short_names import shorten_distinct
from ...parameters import parse_choice
from ...rendering import Page, render
from ...services import current_services
from ..results.functions import has_modules, place_of, sandwich_urls
from ..results.missing_data import explain_no_samples
from ..results.result_frame import PageLink, ResultFrame, open_result_frame
from ..results.sheets import ColumnView, Sheet, build_sheet, filter_and_sort, inherit_descriptions, largest_bar
from ..results.source_places import describe_places, list_places, place_column
from ..results.tables import FILE_RULE, SortOrder, current_url_with, table_file_response, table_file_url

blueprint = Blueprint("hotspots", __name__)
PYTHON_PREFIX = "py::"
"""Of symbols with which CPython, or its stand-in `python_inject`, names functions for perf."""


@dataclass(frozen=True)
class HotspotsPage(Page):
    """by: function, module or thread. empty_text: why the table is empty without a filter. with_modules: whether any
    is known. python_url: only Python functions, with the time of what they call in the interpreter; empty if there is
    nothing to choose.
    """

    template: ClassVar[str] = "results/hotspots.html"
    frame: ResultFrame
    by: str
    with_modules: bool
    choices: tuple[PageLink, ...]
    sheet: Sheet
    empty_text: str
    csv: str
    python_url: str


@blueprint.get("/results/<id>/hotspots")
def show(id: str) -> Response:
    """A page of the table."""
    frame, profile = open_result_frame(id, "hotspots")
    by, with_modules = _by(), has_modules(profile)
    columns, url = hotspot_columns(by, frame), sandwich_urls(frame)
    every = _rows(frame, profile, by)
    places = describe_places(profile, current_services().store.results.open_code(id)) if by == "function" else {}
    rows, order = _filter_and_sort(frame, every)
    shown = columns if by == "thread" or (by == "function" and with_modules) else (columns[0], *columns[2:])
    if by == "function" and (places or every["file"].notna().any()):
        rows = rows.assign(place=list_places(rows, places))
        shown = (*shown[:1], place_column(frame, profile), *shown[1:])
    return render(
        HotspotsPage(
            frame=frame,
            by=by,
            with_modules=with_modules,
            choices=tuple(
                PageLink(
                    word,
                    f"By {word}",
                    current_url_with(("by", None if word == "function" else word), ("page", None)),
                    word == by,
                )
                for word in BY
                if word in (by, "function", "thread") or with_modules
            ),
            sheet=build_sheet(
                "Hotspots",
                rows,
                shown,
                order,
                noun=by,
                total_rows=len(every),
                url=(lambda row: url(row["name"] or "")) if by == "function" else None,
                bar=largest_bar(rows, "self") if frame.formula else ("self_percent", "total_percent"),
                bar_label="Self, relative to the largest" if frame.formula else "Share",
                mark="kind",
                wide=False,
            ),
            empty_text=explain_no_samples(profile, frame.event),
            csv=table_file_url("hotspots.csv"),
            python_url=_python_url(frame, every) if by == "function" else "",
        )
    )


@blueprint.get(f"/results/<id>/hotspots.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All rows that the search leaves, in the order of the page; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "hotspots")
    rows, _ = _filter_and_sort(frame, _rows(frame, profile, _by()))
    return table_file_response(f"{frame.name} hotspots", file_format, rows, profile)


def hotspot_columns(by: str, frame: ResultFrame) -> tuple[ColumnView, ...]:
    """The columns of hotspots by function, module or thread."""

    def weight(column: str, label: str, where: str) -> ColumnView:
        return ColumnView(column, label, "value", f"{frame.event} {where}", "weight", unit=frame.unit)

    def title(row: dict[str, Any]) -> str:
        return "\n".join(filter(None, (row["name"], place_of(row))))

    # The names of processes may have slashes.
    shorten_module = None if by == "thread" else base_name
    found: tuple[ColumnView, ...] = (
        ColumnView(
            *("name", by.capitalize(), "name"), title=title, shorten_page=shorten_distinct if by == "function" else None
        ),
        ColumnView("module", "Process" if by == "thread" else "Module", "text", shorten=shorten_module),
        weight("self", "Self", "without callees"),
        ColumnView("self_percent", "%", "percent", sort=""),
        weight("total", "Total", "including callees"),
        ColumnView("total_percent", "%", "percent", sort=""),
    )
    if frame.formula:
        found = tuple(column for column in found if column.kind != "percent")
    return inherit_descriptions(TABLES["hotspots"].columns, found)


def _python_url(frame: ResultFrame, rows: pd.DataFrame) -> str:
    """The functions whose interpreter named them for perf, as `--language python` and `-X perf` do."""
    named = rows["name"].str.startswith(PYTHON_PREFIX)
    if frame.selection.show is not None or not named.any() or named.all():
        return ""
    return frame.filtered_url("hotspots", show=f"^{PYTHON_PREFIX}")


def _by() -> str:
    return parse_choice("by", BY, "function")


def _rows(frame: ResultFrame, profile: Profile, by: str) -> pd.DataFrame:
    return compute_hotspots(profile, frame.selection.replace(event=frame.event or None), by)


def _filter_and_sort(frame: ResultFrame, rows: pd.DataFrame) -> tuple[pd.DataFrame, SortOrder]:
    # Events that were sampled, not counted, have only shares to sort by.
    unknown = [] if frame.formula else [word for word in ("self", "total") if rows[word].isna().all()]
    return filter_and_sort(
        rows,
        hotspot_columns("function", frame),
        # Small functions have the most extreme values of a formula.
        "" if frame.formula else "-self",
        ("name", "module"),
        sort_columns={word: f"{word}_percent" for word in unknown},
    )
