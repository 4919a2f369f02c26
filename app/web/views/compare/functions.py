"""/compare: differences of two results by function, as a table and as a differential flame graph."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from flask import Blueprint, redirect, request
from werkzeug.wrappers import Response

from ....analysis.compare.counts import has_counts, is_counts_only
from ....analysis.compare.functions import BY, COLUMNS, STATUSES, diff_functions, unknown_columns
from ....analysis.compare.matching import list_common_formulas, main_event_pair, pair_events, pair_formulas
from ....analysis.compare.tables import COMPARED_TABLES, has_table
from ....analysis.core.functions import base_name
from ....analysis.core.sample_selection import event_names
from ....analysis.core.schema import TableRows
from ....analysis.formulas.measures import display_unit, use_lead_event
from ....analysis.formulas.resolution import ResolvedFormula
from ....analysis.nsight.matching import pair_trace_with_report
from ....domain.profile import Profile
from ....domain.selection import Selection, parse_flag
from ....domain.symbols.short_names import shorten_distinct
from ....domain.tables import get_strings
from ....domain.units import TIME_UNIT_PARAMETER, Quantity, format_percent, format_quantity
from ....store import Result
from ...pages import Chip, Pairs, result_url, selection_chips, with_query
from ...parameters import parse_choice
from ...rendering import Page, render
from ...services import current_services
from ..results.flame_controls import PAGE_POLICY
from ..results.result_frame import (
    PageLink,
    formula_links,
    measure_text,
    page_params,
    request_selection,
    time_unit_links,
)
from ..results.sheets import ColumnView, Sheet, build_sheet, filter_and_sort, inherit_descriptions
from ..results.tables import (
    FILE_RULE,
    SortOrder,
    current_url_with,
    filter_table,
    parse_search,
    table_file_response,
    table_file_url,
    table_response,
)
from .choice import find_pair, render_choice
from .columns import change_bar, change_tone, status_column, status_links
from .flamegraph import DifferenceView, difference
from .name_choice import PARAMETER, NameChoice, build_name_choice, open_compared

blueprint = Blueprint("compare", __name__)
MEASURES = ("self", "total")
SCALES = (("", "Normalized"), ("0", "Absolute"))
MAX_STACK_FRAMES = 8
SEARCHED_COLUMNS = ("name", "module")


@dataclass(frozen=True)
class ComparedResult:
    """One of the two."""

    title: str
    id: str
    name: str
    url: str
    change: str
    total: Quantity
    complete: bool


@dataclass(frozen=True)
class SelectionBar:
    """The bar of the selection, which applies to both: see results/_selection.html."""

    selection: Selection
    event: str
    unit: str
    measure: str
    events: tuple[PageLink, ...]
    time_units: tuple[PageLink, ...]
    chips: tuple[Chip, ...]
    reset: str
    page_params: Pairs
    kept_params: Pairs
    formulas: tuple[PageLink, ...] = ()


@dataclass(frozen=True)
class ComparePage(Page):
    """`/compare?base=&other=`."""

    template: ClassVar[str] = "compare/compare.html"
    base: ComparedResult
    other: ComparedResult
    swap: str
    bar: SelectionBar
    difference: DifferenceView
    names: NameChoice
    normalize: bool
    by: str
    summary: str
    tabs: tuple[PageLink, ...]
    scales: tuple[PageLink, ...]
    measures: tuple[PageLink, ...]
    kinds: tuple[PageLink, ...]
    statuses: tuple[PageLink, ...]
    status: str
    sheet: Sheet
    csv: str


@dataclass(frozen=True)
class _FunctionsQuery:
    """What is compared, and how. `_parse_query` raises for invalid parameters. formula: that of the table; the graph
    shows its first event."""

    base: Result
    other: Result
    base_profile: Profile
    other_profile: Profile
    selection: Selection
    event: int
    base_event: int
    by: str
    measure: str
    normalize: bool
    status: str
    has_estimates: bool
    formula: ResolvedFormula | None

    @property
    def profiles(self) -> tuple[Profile, Profile]:
        return self.base_profile, self.other_profile

    @property
    def by_share(self) -> bool:
        """Whether the table has shares."""
        return self.normalize and self.formula is None

    @property
    def delta(self) -> str:
        return f"delta_{self.measure}_percent" if self.has_estimates else f"delta_{self.measure}"


@blueprint.get("/compare")
def show() -> Response:
    """The comparison, or the choice of what to compare."""
    pair = find_pair()
    if pair is not None:
        rest = [(k, v) for k, v in request.args.items(multi=True) if k not in ("result", "base", "other")]
        return redirect(with_query("/compare", [("base", pair[0]), ("other", pair[1]), *rest]), 303)
    if not (request.args.get("base") and request.args.get("other")):
        return render_choice()
    profiles = [current_services().store.results.open(request.args[word]) for word in ("base", "other")]
    if any(is_counts_only(profile) for profile in profiles):
        # Counts have no functions.
        words = [(k, v) for k, v in request.args.items(multi=True) if k in _shared_parameters()]
        return redirect(with_query("/compare/counts", words), 303)
    query = _parse_query()
    found = _compute(query)
    everything = _shown_columns(query, found)
    rows, order = _filter_and_sort(query, everything)

    def complete(part: pd.DataFrame, _: slice) -> pd.DataFrame:
        return part.assign(**{name: [found.values[name][row] for row in part.index] for name in SEARCHED_COLUMNS})

    unit = get_strings(query.other_profile.events, "unit")[query.event] if query.event >= 0 else "count"
    totals = [
        _total(profile, result, event)
        for profile, result, event in (
            (query.base_profile, query.base, query.base_event),
            (query.other_profile, query.other, query.event),
        )
    ]
    response = render(
        ComparePage(
            base=compared_result("Base", "base", query.base, format_quantity(totals[0], unit)),
            other=compared_result("Other", "other", query.other, format_quantity(totals[1], unit)),
            swap=current_url_with(("base", query.other.id), ("other", query.base.id), ("page", None)),
            bar=_bar(query, unit),
            difference=difference(),
            names=build_name_choice((query.base.id, query.other.id), current_services().store.results),
            normalize=query.normalize,
            by=query.by,
            summary=_summary(query, totals),
            tabs=comparison_tabs((query.base_profile, query.other_profile), ""),
            scales=_links("normalise", SCALES[: 1 if query.has_estimates else 2], "" if query.normalize else "0"),
            measures=_links("of", (("", "Self"), ("total", "Total")), query.measure if query.measure != "self" else ""),
            kinds=_links(
                "by", (("", "By function"), ("stack", "By stack")), query.by if query.by != "function" else ""
            ),
            statuses=status_links(everything, query.status),
            status=query.status,
            sheet=build_sheet(
                "Differences",
                rows,
                _columns(query, unit),
                order,
                noun=query.by,
                total_rows=len(everything),
                bar=change_bar(rows, query.delta),
                bar_label="Relative to the largest change",
                wide=False,
                complete=complete,
            ),
            csv=table_file_url("compare.csv"),
        )
    )
    response.headers["Content-Security-Policy"] = PAGE_POLICY
    return response


@blueprint.get(f"/compare.{FILE_RULE}")
def download_table(file_format: str) -> Response:
    """All rows that status and search leave, in the order of the page; columns as `perfloom diff` names them, the
    status that of the measure shown."""
    query = _parse_query()
    rows, _ = _filter_and_sort(query, _compute(query).to_frame())
    return table_file_response(
        f"{query.base.name} to {query.other.name}", file_format, rows, *query.profiles, columns=COLUMNS
    )


@blueprint.get("/api/v1/compare")
def get_json() -> Response:
    """The table as a list of objects. base, other: ids; by=function|stack; `normalise=1|0`; parameters of a
    selection. format=csv|parquet: as a file."""
    query = _parse_query()
    rows = filter_table(_keep_status(query, _compute(query)), parse_search(), SEARCHED_COLUMNS)
    return table_response(f"{query.base.name} to {query.other.name}", rows, *query.profiles, columns=COLUMNS)


def _parse_query() -> _FunctionsQuery:
    results = current_services().store.results
    base, other = (results.get(request.args.get(word, "")) for word in ("base", "other"))
    base_profile, other_profile = open_compared(results, base.id), open_compared(results, other.id)
    selection = request_selection()
    by, measure = parse_choice("by", BY, "function"), parse_choice("of", MEASURES, "self")
    status = parse_choice("status", STATUSES)
    formulas = pair_formulas(base_profile, other_profile, selection, selection)
    shown = use_lead_event(other_profile, selection)
    if formulas is None:
        before, after = main_event_pair(base_profile, other_profile, shown, shown)
    else:
        before, after = formulas[0].lead, formulas[1].lead
    guessed = bool(unknown_columns(base_profile, other_profile, before, after))
    return _FunctionsQuery(
        base=base,
        other=other,
        base_profile=base_profile,
        other_profile=other_profile,
        selection=selection,
        event=after,
        base_event=before,
        by=by,
        measure=measure,
        normalize=parse_flag("normalise", request.args.get("normalise") or "1") or guessed,
        status=status,
        has_estimates=guessed and formulas is None,
        formula=formulas[1] if formulas else None,
    )


def _shown_columns(asked: _FunctionsQuery, found: TableRows) -> pd.DataFrame:
    """The rows with the columns of the page. Texts are long, above all names of stacks: where they decide nothing, only
    those of the page are made."""
    names = [*(column.column for column in _columns(asked, "")), asked.delta, *_sort_columns(asked).values()]
    is_read = bool(parse_search()) or request.args.get("sort", "").removeprefix("-") in SEARCHED_COLUMNS
    texts = {} if is_read else dict.fromkeys(SEARCHED_COLUMNS, [""] * len(found))
    return replace(found, values={**found.values, **texts}).select(list(dict.fromkeys(names))).to_frame()


def _compute(asked: _FunctionsQuery) -> TableRows:
    selection = asked.selection
    if asked.event >= 0 and asked.formula is None:
        selection = selection.replace(event=event_names(asked.other_profile)[asked.event])
    return diff_functions.rows(
        asked.base_profile, asked.other_profile, selection, selection, asked.by, asked.normalize, asked.measure
    )


def _with_status(asked: _FunctionsQuery, rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["status"] == asked.status] if asked.status else rows


def _keep_status(asked: _FunctionsQuery, rows: TableRows) -> TableRows:
    return rows.take(np.flatnonzero(rows.values["status"] == asked.status)) if asked.status else rows


def _sort_columns(asked: _FunctionsQuery) -> dict[str, str]:
    """The columns with the values that each word of `sort` sorts by."""
    sides = {"change": "delta", "base": "base", "other": "other"}
    columns = {word: asked.delta.replace("delta", side, 1) for word, side in sides.items()}
    return columns | {"ratio": f"ratio_{asked.measure}"}


def _filter_and_sort(asked: _FunctionsQuery, rows: pd.DataFrame) -> tuple[pd.DataFrame, SortOrder]:
    return filter_and_sort(
        _with_status(asked, rows),
        _columns(asked, ""),
        # Small functions have the most extreme values of a formula.
        "" if asked.formula else "-change",
        SEARCHED_COLUMNS,
        sort_columns=_sort_columns(asked),
        magnitudes=("change",),
    )


def _columns(asked: _FunctionsQuery, unit: str) -> tuple[ColumnView, ...]:
    suffix = f"{asked.measure}_percent" if asked.by_share else asked.measure
    what = asked.formula.name if asked.formula else "Share of the total" if asked.by_share else "Weight"
    unit = display_unit(asked.formula) if asked.formula else "percent" if asked.by_share else unit
    found = (
        ColumnView("name", "Function", "name", shorten_page=shorten_distinct)
        if asked.by == "function"
        else ColumnView("name", "Stack", "name", shorten=_innermost, unit_label="innermost first"),
        ColumnView("module", "Module", "text", shorten=base_name),
        status_column(),
        ColumnView(f"base_{suffix}", "Base", "value", f"{what} in the base", "weight", unit=unit, sort="base"),
        ColumnView(f"other_{suffix}", "Other", "value", f"{what} in the other", "weight", unit=unit, sort="other"),
        ColumnView(
            f"delta_{suffix}",
            "Change",
            "value",
            "Other minus base; sorted by absolute value",
            "weight",
            unit=unit,
            unit_label="points" if asked.by_share else None,
            sort="change",
            signed=True,
            tone=change_tone(asked.delta),
        ),
        ColumnView(f"ratio_{asked.measure}", "Ratio", "ratio", sort="ratio", extra=asked.formula is None),
    )
    return inherit_descriptions(COLUMNS, found)


def _innermost(stack: str) -> str:
    """The innermost functions of a stack, innermost first, because they distinguish stacks, and long names are cut at
    the end."""
    frames = stack.split(";")[::-1]
    return " ← ".join([*frames[:MAX_STACK_FRAMES], *["…"][: len(frames) > MAX_STACK_FRAMES]])


def _shared_parameters() -> set[str]:
    """The parameters that every page of a comparison takes."""
    return {
        "base",
        "other",
        PARAMETER,
        TIME_UNIT_PARAMETER,
        *(word for word, _ in request_selection().replace(event=None).to_query()),
    }


def comparison_tabs(profiles: tuple[Profile, Profile], current: str) -> tuple[PageLink, ...]:
    """The pages of a comparison that both profiles have rows for; `now` "" is that of functions."""
    keep = [(k, v) for k, v in request.args.items(multi=True) if k in _shared_parameters()]
    # Functions and counts have the same part of both sides.
    parts = [(k, v) for k, v in request.args.items(multi=True) if k.startswith(("base.", "other."))]
    page_links = (
        []
        if any(is_counts_only(p) for p in profiles)
        else [
            PageLink("", "Functions", with_query("/compare", keep), not current),
            PageLink("runs", "Verdicts", with_query("/compare/runs", keep + parts), current == "runs"),
        ]
    )
    if any(has_counts(profile) for profile in profiles):
        page_links.append(PageLink("counts", "Counts", with_query("/compare/counts", keep), current == "counts"))
    for name, compared in COMPARED_TABLES.items():
        if name == current or all(has_table(profile, name) for profile in profiles):
            page_links.append(
                PageLink(name, compared.title, with_query(f"/compare/{name}", keep + parts), name == current)
            )
    if pair_trace_with_report(*profiles) is not None:
        page_links.append(
            PageLink("nsight", "Nsight Compute", with_query("/compare/nsight", keep), current == "nsight")
        )
    return tuple(page_links) if len(page_links) > 1 else ()


def compared_result(title: str, side: str, result: Result, total: Quantity) -> ComparedResult:
    """One of the two results. side: base or other, as in the URL."""
    return ComparedResult(
        title=title,
        id=result.id,
        name=result.name,
        url=result_url(result.id, selection=request_selection()),
        change=with_query("/compare", [(k, v) for k, v in request.args.items(multi=True) if k not in (side, "page")]),
        total=total,
        complete=result.complete,
    )


def _total(profile: Profile, result: Result, event: int) -> int | float | None:
    """The total of the event in a result, independent of the selection."""
    if event < 0:
        return None
    name = event_names(profile)[event]
    return next((total.total for total in result.events if total.name == name), None)


def _summary(asked: _FunctionsQuery, totals: list[int | float | None]) -> str:
    before, after = totals
    if not before or after is None:
        return ""
    change = 100.0 * (after - before) / before
    name = event_names(asked.other_profile)[asked.event]
    if not change:
        return f"Both have the same total of {name}."
    # This wording fits counts and measured values.
    return (
        f"Total {name} of the other: {format_percent(abs(change))} {'more' if change > 0 else 'less'} than of the base."
    )


def _links(word: str, choices: tuple[tuple[str, str], ...], now: str) -> tuple[PageLink, ...]:
    return tuple(
        PageLink(value, label, current_url_with((word, value or None), ("page", None)), value == now)
        for value, label in choices
    )


def _bar(asked: _FunctionsQuery, unit: str) -> SelectionBar:
    own, names = page_params(), event_names(asked.other_profile)
    event = names[asked.event] if asked.event >= 0 else ""

    def url(selection: Selection) -> str:
        return with_query("/compare", selection.to_query() + own)

    every = asked.selection.replace(event=None)
    common = [names[after] for _, after in pair_events(*asked.profiles, every, every)]
    return SelectionBar(
        selection=asked.selection,
        event=event,
        unit=unit,
        measure=asked.formula.formula.expression + "; the graph shows its first event"
        if asked.formula
        else measure_text(asked.other_profile, event),
        events=tuple(
            PageLink(name, name, url(every.replace(event=name)), name == event and asked.formula is None)
            for name in common
        ),
        formulas=formula_links([one for _, one in list_common_formulas(*asked.profiles, True)], asked.selection, url),
        time_units=time_unit_links(asked.other_profile),
        chips=selection_chips(asked.selection, url),
        reset=url(Selection(event=asked.selection.event)),
        page_params=own,
        kept_params=every.to_query() + own,
    )
