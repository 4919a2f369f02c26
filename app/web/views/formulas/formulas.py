"""/results/<id>/formulas: formulas over events, of the selection, or of each function, thread, rank and so on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.core.functions import base_name
from ....analysis.core.sample_selection import event_names
from ....analysis.counts.formula_values import BY, evaluate_formulas
from ....analysis.formulas.resolution import ResolvedFormula, resolve_formula, resolve_formulas
from ....analysis.tables import TABLES
from ....domain.formulas.formula import MAX_FORMULA_CHARS, Formula, FormulaError
from ....domain.profile import Profile
from ....domain.symbols.short_names import shorten_distinct
from ....domain.tables import get_strings
from ...parameters import parse_choice
from ...rendering import Page, render
from ..results.functions import has_modules, sandwich_urls
from ..results.missing_data import explain_no_formulas
from ..results.result_frame import PageLink, ResultFrame, open_result_frame
from ..results.sheets import ColumnView, Sheet, build_sheet, filter_and_sort, inherit_descriptions
from ..results.tables import (
    FILE_RULE,
    SortOrder,
    current_url_with,
    filter_rows,
    parse_search,
    table_file_response,
    table_file_url,
)

blueprint = Blueprint("formulas", __name__)
OWN = "your formula"
"""The name of the formula that is written on the page."""


@dataclass(frozen=True)
class FormulasPage(Page):
    """by: see `BY`. chosen: the formula of all rows, None for all formulas. everything: the page with all formulas.

    expression: the text of the field; error: what is wrong with it. fields: what its form keeps of the query. limit:
    the maximum number of characters.
    """

    template: ClassVar[str] = "results/formulas.html"
    frame: ResultFrame
    by: str
    chosen: ResolvedFormula | None
    everything: str
    choices: tuple[PageLink, ...]
    expression: str
    error: str
    fields: tuple[tuple[str, str], ...]
    limit: int
    sheet: Sheet
    empty_text: str
    csv: str


@dataclass(frozen=True)
class _Request:
    """What is shown. formulas: those of the rows."""

    by: str
    formulas: tuple[ResolvedFormula, ...]
    chosen: ResolvedFormula | None
    expression: str
    error: str


@blueprint.get("/results/<id>/formulas")
def show(id: str) -> Response:
    """A page of the table."""
    frame, profile = open_result_frame(id, "formulas")
    asked = _parse(profile)
    every = _rows(frame, profile, asked)
    columns = _columns(profile, asked)
    rows, order = _filter_and_sort(every, asked.by, columns)
    link = sandwich_urls(frame)
    to_function = (lambda row: link(row["name"] or "")) if asked.by == "function" else None
    return render(
        FormulasPage(
            frame=frame,
            by=asked.by,
            chosen=asked.chosen,
            everything=current_url_with(("by", None), ("formula", None), ("page", None), ("sort", None)),
            choices=tuple(
                PageLink(
                    word,
                    "Whole selection" if word == BY[0] else f"By {word}",
                    current_url_with(("by", None if word == BY[0] else word), ("page", None), ("sort", None)),
                    word == asked.by,
                )
                for word in _groupings(profile, asked.by)
            ),
            expression=asked.expression,
            error=asked.error,
            fields=tuple(
                (word, value)
                for word, value in request.args.items(multi=True)
                if word not in ("expression", "formula", "page", "sort")
            ),
            limit=MAX_FORMULA_CHARS,
            sheet=build_sheet(
                "Formulas",
                rows,
                columns,
                order,
                noun="formula" if asked.by == BY[0] else asked.by,
                total_rows=len(every),
                url=_by_function if asked.chosen is None and profile.samples.num_rows else to_function,
                note=(lambda row: row["note"] or "") if asked.chosen is None else None,
                wide=False,
            ),
            empty_text=explain_no_formulas(profile),
            csv=table_file_url("formulas.csv"),
        )
    )


@blueprint.get(f"/results/<id>/formulas.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All rows that the search leaves, in the order of the page; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "formulas")
    asked = _parse(profile)
    rows, _ = _filter_and_sort(_rows(frame, profile, asked), asked.by, _columns(profile, asked))
    return table_file_response(f"{frame.name} formulas", file_format, rows, profile)


def _parse(profile: Profile) -> _Request:
    by = parse_choice("by", BY, BY[0])
    expression, error = request.args.get("expression", "").strip(), ""
    known = resolve_formulas(profile)
    if expression:
        try:
            known = (resolve_formula(profile, Formula(OWN, expression)), *known)
        except FormulaError as fault:
            error = fault.message
    chosen = None
    if not known:
        by = BY[0]
    elif by != BY[0]:
        name = request.args.get("formula", "")
        chosen = next((one for one in known if one.formula.name == name), known[0])
    return _Request(by, (chosen,) if chosen else known, chosen, expression, error)


def _groupings(profile: Profile, by: str) -> tuple[str, ...]:
    """The groupings that the profile can have."""
    lacking = set()
    if not profile.samples.num_rows:
        lacking |= {"function", "module"}
    if not any(rank is not None for rank in profile.threads.column("rank").to_pylist()) and not profile.ranks.num_rows:
        lacking.add("rank")
    if len({*profile.threads.column("host").to_pylist(), *profile.counts.column("host").to_pylist()} - {None, ""}) < 2:
        lacking.add("host")
    return tuple(word for word in BY if word == by or word not in lacking)


def _by_function(row: dict[str, object]) -> str:
    """The same formula by function."""
    return current_url_with(("formula", str(row["formula"])), ("by", "function"), ("page", None), ("sort", None))


def _columns(profile: Profile, asked: _Request) -> tuple[ColumnView, ...]:
    by, chosen = asked.by, asked.chosen
    columns: tuple[ColumnView, ...]
    if chosen is None:
        columns = (
            ColumnView("formula", "Formula", "name"),
            ColumnView("total", "Value", "ratio"),
            ColumnView("unit", "Unit", "word"),
            ColumnView("expression", "Expression", "code"),
        )
    else:
        first = next(iter(chosen.events.values()))
        parted, unit = by in ("function", "module"), chosen.formula.unit
        columns = (
            ColumnView("name", by.capitalize(), "name", shorten_page=shorten_distinct if by == "function" else None),
            *(
                (ColumnView("module", "Module", "text", shorten=base_name),)
                if by == "function" and has_modules(profile)
                else ()
            ),
            *((ColumnView("self", "Self", "ratio", unit_label=unit),) if parted else ()),
            ColumnView("total", "Total" if parted else "Value", "ratio", unit_label=unit),
            ColumnView("weight", event_names(profile)[first], "value", unit=get_strings(profile.events, "unit")[first]),
        )
    return inherit_descriptions(TABLES["formulas"].columns, columns)


def _rows(frame: ResultFrame, profile: Profile, asked: _Request) -> pd.DataFrame:
    return evaluate_formulas(profile, frame.selection, asked.by, asked.formulas).to_frame()


def _filter_and_sort(
    rows: pd.DataFrame, by: str, columns: Sequence[ColumnView]
) -> tuple[pd.DataFrame, SortOrder | None]:
    if by == BY[0]:
        return filter_rows(rows, parse_search(), ("formula", "expression")), None
    return filter_and_sort(rows, columns, "-weight", ("name", "module"))
