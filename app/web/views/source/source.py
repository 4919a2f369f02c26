"""/results/<id>/source: lines and instructions of a function, with their self and total."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.core.functions import base_name, function_id, functions_of
from ....analysis.core.sample_selection import event_id
from ....analysis.source.code_index import index_code
from ....analysis.source.figures import Figures, FunctionCode, compute_function_code
from ....analysis.source.listing import list_lines, text_of_line
from ....analysis.stacks.hotspots import compute_hotspots
from ....domain.profile import Profile
from ....domain.schemas.code import Code
from ....domain.symbols.short_names import shorten_distinct
from ...parameters import parse_choice
from ...rendering import Page, render
from ...services import current_services
from ..results.functions import sandwich_urls
from ..results.missing_data import explain_no_samples
from ..results.result_frame import PageLink, ResultFrame, open_result_frame
from ..results.sheets import ColumnView, Sheet, build_sheet, filter_and_sort
from ..results.source_places import describe_places, list_places, source_urls
from ..results.tables import FILE_RULE, SortOrder, current_url_with, table_file_response, table_file_url
from .cells import FigureColumn, build_columns
from .missing import MissingFiles, find_missing_files, find_repeat_address, is_waiting
from .notes import explain_function, explain_missing_code
from .rows import InstructionRow, SourceSection, anchor_of_line, build_instruction_rows, build_sections

blueprint = Blueprint("source", __name__)
LINES, ASSEMBLY = "lines", "assembly"
VIEWS = {LINES: "Source", ASSEMBLY: "Assembly"}
WRITTEN, CALLED = "written", "called"
INLINED = {WRITTEN: "Where written", CALLED: "Where called"}
_DEFAULT_COLUMNS = ("self_0", "self_percent_0", "total_0", "total_percent_0")


@dataclass(frozen=True)
class SourcePage(Page):
    """function: its name, empty for the list of functions. sheet: hot lines, or functions. sections, instructions: of
    the view. columns: the figures of their rows. missing: files to add. waiting: the address that says whether the code
    is being read or changed, empty if it is not. repeat: that of the form that reads it. callers: the function in the
    flame graph."""

    template: ClassVar[str] = "results/source.html"
    frame: ResultFrame
    function: str
    module: str
    notes: tuple[str, ...]
    views: tuple[PageLink, ...]
    inlined: tuple[PageLink, ...]
    view: str
    sheet: Sheet
    sections: tuple[SourceSection, ...]
    instructions: tuple[InstructionRow, ...]
    instruction_count: int
    columns: tuple[FigureColumn, ...]
    missing: MissingFiles | None
    waiting: str
    repeat: str
    callers: str
    whole: str
    empty_text: str
    csv: str


@blueprint.get("/results/<id>/source")
def show(id: str) -> Response:
    """A function, or without `function` the functions to choose from."""
    frame, profile = open_result_frame(id, "source")
    code = current_services().store.results.open_code(id)
    asked = _parse_function()
    if asked is None:
        return render(_list_functions(frame, profile, code))
    found = _compute(frame, profile, code, asked)
    views = {word: title for word, title in VIEWS.items() if word == ASSEMBLY or _has_lines(found)}
    view = parse_choice("view", VIEWS, next(iter(views)))
    rows = _line_rows(profile, code, found)
    line_columns = _columns(frame, found)
    rows, order = filter_and_sort(rows, line_columns, "-self_0", ("place", "text"))
    sheet = build_sheet(
        "Hot lines",
        rows[rows["total_0"] != 0] if len(rows) and not rows["total_0"].isna().all() else rows,
        line_columns,
        order,
        noun="line",
        total_rows=len(rows),
        url=lambda row: row["url"],
        bar=("self_percent_0", "total_percent_0"),
        wide=False,
    )
    shown = frozenset(option.name for option in sheet.columns.options if option.shown)
    row = int(function_id(profile, asked)[0])
    name = functions_of(profile).name_of(row)
    instructions, sections, columns = _build_view(profile, code, found, view, shown)
    return render(
        SourcePage(
            frame=frame,
            function=name,
            module=functions_of(profile).module_of(row),
            notes=_explain_missing(id, profile)
            if code is None
            else (*explain_function(profile, code, asked, found), *_explain_missing_files(id)),
            views=tuple(
                PageLink(word, title, current_url_with(("view", None if word == LINES else word)), word == view)
                for word, title in views.items()
            ),
            inlined=tuple(
                PageLink(
                    word,
                    title,
                    current_url_with(("inlined", None if word == WRITTEN else word), ("page", None)),
                    word == _parse_inlined(),
                )
                for word, title in INLINED.items()
            )
            if _has_lines(found)
            else (),
            view=view,
            sheet=sheet,
            sections=sections,
            instructions=instructions,
            instruction_count=0 if found is None else len(found.rows),
            columns=columns,
            missing=find_missing_files(id, profile, code, asked),
            **_offers(id, profile, code),
            callers=sandwich_urls(frame)(name),
            whole=frame.url("source"),
            empty_text="No sample of the selection is in a line of this function.",
            csv=table_file_url("source.csv"),
        )
    )


@blueprint.get(f"/results/<id>/source.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All lines of a function, or with `view=assembly` its instructions; without a function the list of functions."""
    frame, profile = open_result_frame(id, "source")
    code = current_services().store.results.open_code(id)
    asked = _parse_function()
    if asked is None:
        rows, _ = _sort_functions(frame, _function_rows(frame, profile, code))
        return table_file_response(f"{frame.name} functions", file_format, rows, profile)
    found = _compute(frame, profile, code, asked)
    name = f"{frame.name} {functions_of(profile).name_of(int(function_id(profile, asked)[0]))[:80]}"
    if parse_choice("view", VIEWS, LINES) == ASSEMBLY:
        data = _instruction_table(profile, code, found)
        return table_file_response(f"{name} assembly", file_format, data, profile)
    lines = _line_rows(profile, code, found).drop(columns="url")
    names = {f"{word}_{number}": f"{word} {one.name}" for number, one in _numbered(found) for word in _WORDS}
    return table_file_response(f"{name} lines", file_format, lines.rename(columns=names), profile)


_WORDS = ("self", "self_percent", "total", "total_percent")


def _numbered(found: FunctionCode | None) -> list[tuple[int, Figures]]:
    return [] if found is None else list(enumerate(found.lines))


def _parse_function() -> int | str | None:
    """The requested function: its name, or its row in `functions`, which flame graphs know."""
    asked = request.args.get("function", "")
    if not asked:
        return None
    return int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 10 else asked


def _parse_inlined() -> str:
    return parse_choice("inlined", INLINED, WRITTEN)


def _compute(frame: ResultFrame, profile: Profile, code: Code | None, asked: int | str) -> FunctionCode | None:
    """The code of the function; None without any. Raises NotFound for an unknown function."""
    function_id(profile, asked)
    event = event_id(profile, frame.event or None)
    if code is None or event < 0:
        return None
    at_calls = _parse_inlined() == CALLED
    found = compute_function_code(profile, code, frame.selection, asked, event, at_calls=at_calls)
    return found if len(found.rows) else None


def _has_lines(found: FunctionCode | None) -> bool:
    return found is not None and bool(np.any(found.file >= 0))


def _line_rows(profile: Profile, code: Code | None, found: FunctionCode | None) -> pd.DataFrame:
    """One row for each line of the function's code."""
    if code is None or found is None:
        empty = {name: pd.Series(dtype="float64") for name in _DEFAULT_COLUMNS}
        return pd.DataFrame({"place": [], "file": [], "line": [], "text": [], "url": []} | empty)
    paths = code.files.column("path").to_pylist()
    pairs = list(zip(found.file.tolist(), found.line.tolist(), strict=True))
    base = current_url_with(("view", None), ("page", None))
    columns: dict[str, Any] = {
        "place": [f"{base_name(paths[file])}:{line or '?'}" if file >= 0 else "(no line)" for file, line in pairs],
        "file": [paths[file] if file >= 0 else None for file, _ in pairs],
        "line": pd.array([line or None for _, line in pairs], dtype="Int64"),
        "text": [text_of_line(profile, code, file, line) for file, line in pairs],
        "url": [f"{base}#{anchor_of_line(file, line)}" if file >= 0 and line else "" for file, line in pairs],
    }
    for number, one in _numbered(found):
        for word, values in zip(_WORDS, (one.own, one.own_percent, one.total, one.total_percent), strict=True):
            columns[f"{word}_{number}"] = values
    return pd.DataFrame(columns)


def _columns(frame: ResultFrame, found: FunctionCode | None) -> tuple[ColumnView, ...]:
    """Line and text, then self and total of the selected event; those of others and of formulas are hidden at first."""

    def title(row: dict[str, Any]) -> str:
        return f"{row['file'] or ''}:{row['line'] or '?'}"

    views = [
        ColumnView("place", "Line", "name", "Source file and line", title=title),
        ColumnView("text", "Source", "code", "The text of the line", sort=""),
    ]
    figures = [(one.name, one.unit, one.is_formula) for one in found.lines] if found else []
    for number, (name, unit, is_formula) in enumerate(figures or [(frame.event, frame.unit, False)]):
        kind, extra = "ratio" if is_formula else "value", number > 0
        for word, what in (("self", "in this line itself"), ("total", "in this line or in what it called")):
            label = f"{name} {word}" if extra else word.capitalize()
            description = f"{name} of samples {what}"
            views.append(
                ColumnView(
                    *(f"{word}_{number}", label, kind, description, f"weight{number}"),
                    unit="" if is_formula else unit,
                    extra=extra,
                )
            )
            if not is_formula:
                percent = f"{word}_percent_{number}"
                views.append(ColumnView(percent, "%", "percent", "Share of the selection", sort="", extra=extra))
    return tuple(views)


def _build_view(
    profile: Profile, code: Code | None, found: FunctionCode | None, view: str, shown: frozenset[str]
) -> tuple[tuple[InstructionRow, ...], tuple[SourceSection, ...], tuple[FigureColumn, ...]]:
    if code is None or found is None:
        return (), (), ()
    index = index_code(profile, code)
    if view == ASSEMBLY:
        columns = build_columns(found.instructions, shown)
        return build_instruction_rows(code, index, found, columns), (), columns
    columns = build_columns(found.lines, shown)
    files = list_lines(profile, code, found.file, found.line, found.lines[0].total_percent)
    return (), build_sections(files, found, index.address, columns), columns


def _instruction_table(profile: Profile, code: Code | None, found: FunctionCode | None) -> pd.DataFrame:
    if code is None or found is None:
        return pd.DataFrame({"address": [], "instruction": []})
    index, part = index_code(profile, code), code.instructions.take(found.rows)
    paths = code.files.column("path").to_pylist()
    file = found.file[found.line_of].tolist()
    columns: dict[str, Any] = {
        "address": [f"{address:x}" for address in index.address[found.rows].tolist()],
        "instruction": part.column("text").to_pylist(),
        "target": [None if target is None else f"{target:x}" for target in part.column("target").to_pylist()],
        "file": [paths[number] if number >= 0 else None for number in file],
        "line": pd.array([line or None for line in found.line[found.line_of].tolist()], dtype="Int64"),
    }
    for one in found.instructions:
        columns |= {f"self {one.name}": one.own, f"total {one.name}": one.total}
    return pd.DataFrame(columns)


def _explain_missing(id: str, profile: Profile) -> tuple[str, ...]:
    results = current_services().store.results
    if is_waiting(id):
        return ("Source lines and instructions are being read. This page shows them when they are ready.",)
    text = explain_missing_code(profile, results.explain_missing_code(id))
    return (text,) if text else ()


def _offers(id: str, profile: Profile, code: Code | None) -> dict[str, str]:
    """The addresses `waiting` and `repeat` of a page."""
    waits = is_waiting(id)
    return {
        "waiting": f"/results/{id}/source/waiting" if waits else "",
        "repeat": "" if waits else find_repeat_address(id, profile, code),
    }


def _explain_missing_files(id: str) -> tuple[str, ...]:
    text = current_services().store.results.explain_missing_files(id)
    return (text,) if text else ()


def _function_rows(frame: ResultFrame, profile: Profile, code: Code | None) -> pd.DataFrame:
    """The functions of the selection, with the place where each begins."""
    rows = compute_hotspots(profile, frame.selection.replace(event=frame.event or None))
    places = describe_places(profile, code)
    columns = [rows[name].tolist() for name in ("name", "module", "file", "line")]
    found: list[tuple[str | None, int | None]] = [
        (file, None if line is pd.NA else line)
        if isinstance(file, str)
        else places.get((name or "", module or ""), (None, None))
        for name, module, file, line in zip(*columns, strict=True)
    ]
    rows = rows.assign(
        file=pd.Series([file for file, _ in found], rows.index, dtype=object),
        line=pd.Series([line for _, line in found], rows.index, dtype="Int64"),
    )
    return rows.assign(place=list_places(rows, {}))


def _function_columns(frame: ResultFrame) -> tuple[ColumnView, ...]:
    def weight(column: str, label: str, where: str) -> ColumnView:
        return ColumnView(column, label, "value", f"{frame.event} {where}", "weight", unit=frame.unit)

    return (
        ColumnView("name", "Function", "name", shorten_page=shorten_distinct),
        ColumnView("place", "Line", "code", "Where the function begins", title=lambda row: row["file"] or ""),
        ColumnView("module", "Module", "text", shorten=base_name),
        weight("self", "Self", "without callees"),
        ColumnView("self_percent", "%", "percent", sort=""),
        weight("total", "Total", "including callees"),
        ColumnView("total_percent", "%", "percent", sort=""),
    )


def _sort_functions(frame: ResultFrame, rows: pd.DataFrame) -> tuple[pd.DataFrame, SortOrder]:
    unknown = {word: f"{word}_percent" for word in ("self", "total") if rows[word].isna().all()}
    return filter_and_sort(rows, _function_columns(frame), "-self", ("name", "module", "place"), sort_columns=unknown)


def _list_functions(frame: ResultFrame, profile: Profile, code: Code | None) -> SourcePage:
    every, url = _function_rows(frame, profile, code), source_urls(frame)
    rows, order = _sort_functions(frame, every)
    return SourcePage(
        frame=frame,
        function="",
        module="",
        notes=_explain_missing(frame.id, profile) if code is None else _explain_missing_files(frame.id),
        views=(),
        inlined=(),
        view="",
        sheet=build_sheet(
            "Functions",
            rows,
            _function_columns(frame),
            order,
            noun="function",
            total_rows=len(every),
            url=lambda row: url(row["name"] or ""),
            bar=("self_percent", "total_percent"),
            mark="kind",
            wide=False,
        ),
        sections=(),
        instructions=(),
        instruction_count=0,
        columns=(),
        missing=find_missing_files(frame.id, profile, code, None),
        **_offers(frame.id, profile, code),
        callers="",
        whole="",
        empty_text=explain_no_samples(profile, frame.event),
        csv=table_file_url("source.csv"),
    )
