"""/compare/<table>: what changed between two results in operators, kernels, modules, memory, the parts of a step, or
threads, which are matched by role."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.compare.group_tables import (
    GROUP_COLUMNS,
    NO_EVIDENCE,
    UNTESTED,
    describe_evidence,
    diff_table_groups,
)
from ....analysis.compare.matching import pair_events
from ....analysis.compare.runs import MAX_RUNS, find_event
from ....analysis.compare.tables import (
    COLUMNS,
    COMPARED_TABLES,
    STATUSES,
    THREAD_COLUMNS,
    ComparedTable,
    Measure,
    diff_table,
    has_table,
    list_groupings,
    list_measures,
    resolve_grouping,
    resolve_measure,
)
from ....analysis.core.sample_selection import event_names
from ....analysis.core.schema import TableRows
from ....domain.errors import InvalidRequest, NotFound
from ....domain.profile import Profile
from ....domain.selection import Selection, parse_flag
from ....domain.units import NS_PER_US, format_quantity
from ....store import Result
from ...pages import Chip, selection_chips, with_query
from ...parameters import parse_choice
from ...rendering import Page, render
from ...services import current_services
from ..results.result_frame import PageLink, page_params, request_selection, time_unit_links
from ..results.sheets import ColumnView, Sheet, build_sheet, filter_and_sort, inherit_descriptions
from ..results.tables import (
    FILE_RULE,
    current_url_with,
    filter_rows,
    parse_search,
    table_file_response,
    table_file_url,
    table_response,
)
from ..trace.operators import GROUPING_LABELS
from .columns import change_bar, change_tone, status_column, status_links
from .functions import ComparedResult, SelectionBar, compared_result, comparison_tabs
from .name_choice import NameChoice, build_name_choice, open_compared
from .runs import SIDES, side_chips, side_selection, swap_url

blueprint = Blueprint("compare_tables", __name__)
FACTORS = {"time": NS_PER_US}
"""Factors from the numbers of a measure to display units: times are in µs and shown from ns."""
MAGNITUDES = frozenset({"delta", "delta_percent"})
"""Columns that sort by absolute value."""
UNITS = {"time": "ns", "bytes": "bytes", "count": "count"}
THREADS = "threads"
ROW_LABELS = {"name": "By role", "rank": "By rank"}
"""What a row of the table of threads is."""
NAMED_TABLES = ("operators", "kernels", "modules")
"""Tables whose rows have names of functions, so that rules for names apply. Roles are of the functions that threads
run."""


@dataclass(frozen=True)
class CompareTablePage(Page):
    """`/compare/<table>?base=&other=`. choices: what a row is. parts: what is selected of one side alone, by side."""

    template: ClassVar[str] = "compare/table.html"
    base: ComparedResult
    other: ComparedResult
    swap: str
    bar: SelectionBar
    tabs: tuple[PageLink, ...]
    noun: str
    choices: tuple[PageLink, ...]
    parts: tuple[tuple[str, tuple[Chip, ...]], ...]
    measures: tuple[PageLink, ...]
    scales: tuple[PageLink, ...]
    statuses: tuple[PageLink, ...]
    status: str
    sentence: str
    names: NameChoice | None
    sheet: Sheet
    csv: str


@dataclass(frozen=True)
class _TableQuery:
    """profiles: of both sides, one after the other. bases, others: the results of each side."""

    bases: tuple[Result, ...]
    others: tuple[Result, ...]
    profiles: tuple[Profile, ...]
    selection: Selection
    side_selections: tuple[Selection, Selection]
    compared: ComparedTable
    measure: Measure
    each_step: bool
    status: str
    by: str

    @property
    def is_grouped(self) -> bool:
        """Whether a side has several results."""
        return len(self.profiles) > 2

    @property
    def name(self) -> str:
        return f"{self.bases[0].name} to {self.others[0].name} {self.compared.name}"


@blueprint.get("/compare/<table>")
def show(table: str) -> Response:
    """The comparison as a table."""
    query = _parse_query(table)
    found = _rows(query)
    everything = found.to_frame()
    by = query.by or "name"
    noun = query.compared.noun if by == "name" else by
    columns = _columns(query, noun.capitalize(), everything)
    rows, order = filter_and_sort(_with_status(query, everything), columns, "-delta", ("name",), magnitudes=MAGNITUDES)
    measured = query.measure.label.lower() + (" per step" if query.each_step and query.measure.additive else "")
    both = all(profile.steps.num_rows for profile in query.profiles) and table != "steps"
    return render(
        CompareTablePage(
            base=describe_side("Base", "base", query.bases),
            other=describe_side("Other", "other", query.others),
            swap=swap_url(),
            bar=_selection_bar(query),
            tabs=comparison_tabs((query.profiles[0], query.profiles[-1]), table),
            noun=noun,
            choices=tuple(
                PageLink(
                    word,
                    (ROW_LABELS if table == THREADS else GROUPING_LABELS)[word],
                    current_url_with(("by", None if word == "name" else word), ("page", None)),
                    word == by,
                )
                for word in list_groupings(query.profiles[0], query.profiles[-1], table)
            ),
            parts=tuple((SIDES[side], chips) for side in SIDES if (chips := side_chips(side))),
            measures=tuple(
                PageLink(
                    measure.column,
                    measure.label,
                    current_url_with(("of", measure.column), ("page", None)),
                    measure is query.measure,
                )
                for measure in list_measures(query.compared, *query.profiles)
            ),
            scales=(
                PageLink("step", "Per step", current_url_with(("each-step", None), ("page", None)), query.each_step),
                PageLink(
                    "whole",
                    "Whole recordings",
                    current_url_with(("each-step", "0"), ("page", None)),
                    not query.each_step,
                ),
            )
            if both
            else (),
            statuses=status_links(everything, query.status),
            status=query.status,
            sentence=describe_evidence(found) if query.is_grouped else "",
            names=build_name_choice([one.id for one in (*query.bases, *query.others)], current_services().store.results)
            if table == THREADS or (table in NAMED_TABLES and by == "name")
            else None,
            sheet=build_sheet(
                f"Differences: {measured}",
                rows,
                columns,
                order,
                noun="row",
                total_rows=len(everything),
                bar=change_bar(rows, "delta"),
                bar_label="Relative to the largest change",
                wide=False,
            ),
            csv=table_file_url(f"{table}.csv"),
        )
    )


def _columns(asked: _TableQuery, label: str, rows: pd.DataFrame) -> tuple[ColumnView, ...]:
    unit, factor = UNITS.get(asked.measure.kind, "count"), FACTORS.get(asked.measure.kind, 1)
    if asked.measure.kind == "event" and len(rows):
        unit = "percent" if rows["unit"].iloc[0] == "%" else rows["unit"].iloc[0]
    found: tuple[ColumnView, ...] = (
        ColumnView("name", label, "name"),
        status_column(),
        ColumnView("base", "Base", "value", scale="value", unit=unit, times=factor),
        ColumnView("other", "Other", "value", scale="value", unit=unit, times=factor),
        ColumnView(
            "delta",
            "Change",
            "value",
            "Other minus base",
            "value",
            unit=unit,
            times=factor,
            signed=True,
            tone=_tone if asked.is_grouped else change_tone("delta"),
        ),
        ColumnView("delta_percent", "%", "percent", "Change as a share of the base", signed=True),
        ColumnView("ratio", "Ratio", "ratio", extra=True),
    )
    declared = (*(GROUP_COLUMNS if asked.is_grouped else COLUMNS), *THREAD_COLUMNS)
    verdict: tuple[ColumnView, ...] = (
        ColumnView("verdict", "Verdict", "word"),
        ColumnView("low_percent", "From", "percent", signed=True),
        ColumnView("high_percent", "To", "percent", signed=True),
        ColumnView("q", "q", "ratio", extra=True),
        ColumnView("detectable_percent", "Detectable", "percent", extra=True),
    )
    threads: tuple[ColumnView, ...] = (
        ColumnView("base_threads", "In base", "text"),
        ColumnView("other_threads", "In other", "text"),
        ColumnView("match", "Matched by", "word"),
        ColumnView("overlap", "Overlap", "ratio"),
    )
    return inherit_descriptions(
        declared,
        (*found, *(verdict if asked.is_grouped else ()), *(threads if asked.compared.name == THREADS else ())),
    )


def _tone(row: dict[str, Any]) -> str:
    """The CSS class of a change of groups: only of those with evidence."""
    return "faint" if row["verdict"] in (NO_EVIDENCE, UNTESTED) else change_tone("delta")(row)


@blueprint.get(f"/compare/<table>.{FILE_RULE}")
def download_table(table: str, file_format: str) -> Response:
    """All rows that status and search leave."""
    query = _parse_query(table)
    return table_file_response(query.name, file_format, _filtered_rows(query), *query.profiles)


@blueprint.get("/api/v1/compare/<table>")
def get_json(table: str) -> Response:
    """The table as a list of objects; format=csv|parquet: as a file."""
    query = _parse_query(table)
    return table_response(query.name, _filtered_rows(query), *query.profiles)


def _parse_query(table: str) -> _TableQuery:
    if table not in COMPARED_TABLES:
        raise NotFound(f"No comparison of {table[:40]!r}; choose one of {', '.join(COMPARED_TABLES)}.")
    if not (request.args.get("base") and request.args.get("other")):
        raise InvalidRequest("A comparison needs two results. Choose them on the page Compare.", "base")
    bases, others, profiles = parse_sides()
    if not any(has_table(profile, table) for profile in profiles):
        raise NotFound(f"Neither of these results has {COMPARED_TABLES[table].title.lower()}. Compare their functions.")
    status = parse_choice("status", STATUSES)
    compared, by = COMPARED_TABLES[table], _resolve_grouping(profiles, table)
    sides = [side_selection(side) for side in SIDES]
    # Other rows have no events.
    sides = sides if table == THREADS else [one.replace(event=None) for one in sides]
    flag = parse_flag("each-step", request.args.get("each-step") or "1")
    return _TableQuery(
        bases=bases,
        others=others,
        profiles=profiles,
        selection=request_selection() if table == THREADS else request_selection().replace(event=None),
        side_selections=(sides[0], sides[1]),
        compared=compared,
        measure=resolve_measure(list_measures(compared, *profiles), request.args.get("of", "")),
        each_step=flag and all(profile.steps.num_rows for profile in profiles),
        status=status,
        by=by,
    )


def parse_sides() -> tuple[tuple[Result, ...], tuple[Result, ...], tuple[Profile, ...]]:
    """(results of the base, those of the other, the profiles of all) of the request. Raises NotFound,
    InvalidRequest."""
    results = current_services().store.results
    sides = []
    for word in ("base", "other"):
        ids = list(dict.fromkeys(id for id in request.args.getlist(word) if id))
        if len(ids) > MAX_RUNS:
            raise InvalidRequest(f"Choose at most {MAX_RUNS} results on each side, not {len(ids)}.", word)
        sides.append(tuple(results.get(id) for id in ids))
    return sides[0], sides[1], tuple(open_compared(results, one.id) for side in sides for one in side)


def _resolve_grouping(profiles: Sequence[Profile], table: str) -> str:
    """The selected grouping, which all of them support."""
    word = request.args.get("by", "")
    for other in profiles[1:]:
        by = resolve_grouping(profiles[0], other, table, word)
    return by


def describe_side(title: str, side: str, results: tuple[Result, ...]) -> ComparedResult:
    """A side, by its first result."""
    first = compared_result(title, side, results[0], format_quantity(results[0].duration_ns, "ns"))
    if len(results) == 1:
        return first
    return replace(
        first,
        name=f"{first.name} and {len(results) - 1} more",
        total=format_quantity(None, "ns"),
        complete=all(result.complete for result in results),
    )


def _rows(asked: _TableQuery) -> TableRows:
    base, other = asked.side_selections
    how = (base, asked.compared.name, asked.measure.column, asked.each_step, asked.by, other)
    if not asked.is_grouped:
        return diff_table.rows(asked.profiles[0], asked.profiles[1], *how)
    count = len(asked.bases)
    return diff_table_groups.rows(asked.profiles[:count], asked.profiles[count:], *how)


def _with_status(asked: _TableQuery, rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["status"] == asked.status] if asked.status else rows


def _filtered_rows(asked: _TableQuery) -> pd.DataFrame:
    """The rows that status and search leave, in the order of the table."""
    return filter_rows(_with_status(asked, _rows(asked).to_frame()), parse_search(), ("name",))


def _selection_bar(asked: _TableQuery) -> SelectionBar:
    bar, selection = selection_bar(asked.selection, asked.profiles[-1]), asked.selection
    if asked.compared.name != THREADS:
        return bar
    base, other = asked.profiles[0], asked.profiles[-1]
    count, every = len(asked.bases), selection.replace(event=None)
    event = find_event(asked.profiles[:count], asked.profiles[count:], *asked.side_selections)
    names = event_names(other)
    links = tuple(
        PageLink(
            names[after],
            names[after],
            with_query(request.path, selection.replace(event=names[after]).to_query() + bar.page_params),
            names[after] == event,
        )
        for _, after in pair_events(base, other, every, every)
    )
    reset = with_query(request.path, Selection(event=selection.event).to_query() + bar.page_params)
    return replace(bar, event=event, events=links, reset=reset)


def selection_bar(selection: Selection, profile: Profile) -> SelectionBar:
    """The bar of a selection without an event. profile: one of those compared."""
    own = page_params()

    def url(selection: Selection) -> str:
        return with_query(request.path, selection.to_query() + own)

    return SelectionBar(
        selection=selection,
        event="",
        unit="",
        measure="",
        events=(),
        time_units=time_unit_links(profile),
        chips=selection_chips(selection, url),
        reset=url(Selection()),
        page_params=own,
        kept_params=selection.to_query() + own,
    )
