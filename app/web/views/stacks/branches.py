"""/results/<id>/branches: the most frequent branches and loops in branch stacks (LBR)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint
from werkzeug.wrappers import Response

from ....analysis.core.functions import base_name
from ....analysis.stacks.branches import compute_branches, compute_loops, has_branches, longest_interval_ns
from ....analysis.tables import TABLES
from ....domain.profile import Profile
from ....domain.selection import PATTERN_FIELDS
from ....domain.symbols.short_names import shorten_distinct
from ....domain.units import format_duration
from ...pages import with_query
from ...parameters import parse_choice
from ...rendering import Page, render
from ...services import current_services
from ..results.functions import sandwich_urls
from ..results.missing_data import explain_no_branches
from ..results.result_frame import PageLink, ResultFrame, open_result_frame
from ..results.sheets import ColumnView, Sheet, build_sheet, filter_and_sort, inherit_descriptions, largest_bar
from ..results.tables import FILE_RULE, SortOrder, current_url_with, table_file_response, table_file_url

blueprint = Blueprint("branches", __name__)
BRANCHES, LOOPS = "branches", "loops"
TITLES = {BRANCHES: "Branches", LOOPS: "Loops"}
PARAMETER = "branch_stacks"
"""The parameter of the job form that switches the field on."""


@dataclass(frozen=True)
class BranchesPage(Page):
    """view: branches or loops. notes: what limits the figures. record: a link to the job form, if branch stacks were
    not recorded."""

    template: ClassVar[str] = "results/branches.html"
    frame: ResultFrame
    view: str
    views: tuple[PageLink, ...]
    notes: tuple[str, ...]
    sheet: Sheet
    empty_text: str
    record: str
    csv: str


@blueprint.get("/results/<id>/branches")
def show(id: str) -> Response:
    """A page of one of the two tables."""
    frame, profile = open_result_frame(id, "branches")
    view = _parse_view()
    every = _rows(frame, profile, view)
    rows, order = _filter_and_sort(every, view)
    url = sandwich_urls(frame)
    return render(
        BranchesPage(
            frame=frame,
            view=view,
            views=tuple(
                PageLink(
                    word,
                    title,
                    # The tables have different columns.
                    current_url_with(
                        *(("view", None if word == BRANCHES else word), ("page", None)),
                        *(("sort", None), ("columns", None)),
                    ),
                    word == view,
                )
                for word, title in TITLES.items()
            ),
            notes=_list_notes(frame, profile, every, view),
            sheet=build_sheet(
                TITLES[view],
                _format_places(rows, view),
                _columns(view),
                order,
                noun="branch" if view == BRANCHES else "loop",
                total_rows=len(every),
                url=lambda row: url(row["name"]),
                bar=largest_bar(rows, "count"),
                bar_label="Relative to the most frequent",
                wide=False,
            ),
            empty_text=explain_no_branches(profile, frame.event, loops=view == LOOPS),
            record="" if has_branches(profile) else _record_url(frame),
            csv=table_file_url(f"{view}.csv"),
        )
    )


@blueprint.get(f"/results/<id>/branches.{FILE_RULE}")
def download_branches(id: str, file_format: str) -> Response:
    """All branches that the search leaves, in the order of the page; columns as `perfloom report` names them."""
    return _download(id, file_format, BRANCHES)


@blueprint.get(f"/results/<id>/loops.{FILE_RULE}")
def download_loops(id: str, file_format: str) -> Response:
    """The same for loops."""
    return _download(id, file_format, LOOPS)


def _download(id: str, file_format: str, view: str) -> Response:
    frame, profile = open_result_frame(id, "branches")
    rows, _ = _filter_and_sort(_rows(frame, profile, view), view)
    return table_file_response(f"{frame.name} {view}", file_format, rows, profile)


def _parse_view() -> str:
    return parse_choice("view", (BRANCHES, LOOPS), BRANCHES)


def _rows(frame: ResultFrame, profile: Profile, view: str) -> pd.DataFrame:
    compute = compute_branches if view == BRANCHES else compute_loops
    return compute(profile, frame.selection.replace(event=frame.event or None))


def _filter_and_sort(rows: pd.DataFrame, view: str) -> tuple[pd.DataFrame, SortOrder]:
    texts = ("source", "source_module", "target", "target_module") if view == BRANCHES else ("function", "module")
    return filter_and_sort(rows, _columns(view), "-count", texts)


def _columns(view: str) -> tuple[ColumnView, ...]:
    def name(column: str, label: str, kind: str) -> ColumnView:
        return ColumnView(
            *(column, label, kind), title=lambda row: row[f"{column}_title"], shorten_page=shorten_distinct, fixed=True
        )

    mispredicted = ColumnView("mispredicted_percent", "Mispredicted", "percent")
    kind = ColumnView("type", "Type", "word", extra=True)
    shared = (ColumnView("count", "Count"), ColumnView("percent", "%", "percent", sort=""))
    if view == BRANCHES:
        found: tuple[ColumnView, ...] = (
            name("source", "From", "name"),
            name("target", "To", "code"),
            ColumnView("source_module", "Module", "text", shorten=base_name, extra=True),
            kind,
            *shared,
            mispredicted,
            ColumnView("mean_cycles", "Cycles", "number"),
        )
    else:
        found = (
            name("function", "Loop", "name"),
            ColumnView("module", "Module", "text", shorten=base_name),
            kind,
            *shared,
            ColumnView("iterations", "Iterations", "number", missing="not seen to end"),
            ColumnView("cycles_per_iteration", "Cycles per iteration", "number"),
            ColumnView("exits", "Exits", extra=True),
            ColumnView("measured_iterations", "Measured", extra=True),
            mispredicted,
        )
    return inherit_descriptions(TABLES[view].columns, found)


def _format_places(rows: pd.DataFrame, view: str) -> pd.DataFrame:
    """The rows with offsets behind names, as perf writes them. name: of the function."""
    rows = rows.copy()
    ends = ("source", "target") if view == BRANCHES else ("function",)
    # What has only an address has no flame graph.
    has_symbol = rows[f"{ends[0]}_offset" if view == BRANCHES else "start_offset"].notna()
    rows["name"] = rows[ends[0]].where(has_symbol, "")
    for end in ends:
        module = rows[f"{end}_module" if view == BRANCHES else "module"]
        offset = rows[f"{end}_offset" if view == BRANCHES else "start_offset"]
        last = rows["end_offset"] if view == LOOPS else offset
        rows[end] = [
            _format_place(*values, is_loop=view == LOOPS) for values in zip(rows[end], offset, last, strict=True)
        ]
        rows[f"{end}_title"] = [f"{place}\n{where}" for place, where in zip(rows[end], module, strict=True)]
    return rows


def _format_place(name: str, start: Any, end: Any, *, is_loop: bool) -> str:
    if pd.isna(start) or pd.isna(end):
        return name
    return f"{name}+0x{start:x} – 0x{end:x}" if is_loop else f"{name}+0x{start:x}"


def _list_notes(frame: ResultFrame, profile: Profile, rows: pd.DataFrame, view: str) -> tuple[str, ...]:
    if not has_branches(profile):
        return ()
    notes, selection = [], frame.selection
    unused = [word for word, field in PATTERN_FIELDS.items() if getattr(selection, field) is not None]
    unused += [word for word in ("invert", "recursion") if getattr(selection, word)]
    if unused:
        notes.append(
            f"Not applied here: {', '.join(unused)}. Branches are not kept by call stack. Search for functions instead."
        )
    interval = longest_interval_ns(profile)
    if interval and (selection.start_ns is not None or selection.end_ns is not None):
        notes.append(
            f"There are so many branches that they were added up for intervals of {format_duration(interval)}: the "
            "edges of the selected time are that coarse."
        )
    if len(rows) and view == BRANCHES and rows["source_offset"].isna().all():
        notes.append(
            "The branches have addresses only. Print them with symbols (perf script -F +brstacksym) to see functions "
            "and loops."
        )
    cycles = "mean_cycles" if view == BRANCHES else "cycles_per_iteration"
    if len(rows) and rows[cycles].isna().all() and (view == BRANCHES or rows["measured_iterations"].any()):
        notes.append("The CPU recorded no cycles with its branches.")
    return tuple(notes)


def _record_url(frame: ResultFrame) -> str:
    job = current_services().store.jobs.find(frame.result.job_id) if frame.result.job_id else None
    source = [("from", job.id)] if job is not None and job.kind == "record" else []
    return with_query("/jobs/new", [*source, (PARAMETER, "1")])
