"""/compare/runs: what changed between two groups of runs, and whether chance explains it."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.compare.formula_verdicts import compare_groups
from ....analysis.compare.matching import list_common_formulas
from ....analysis.compare.runs import MAX_RUNS
from ....analysis.compare.verdicts import COLUMNS, Comparison, Note, Verdict
from ....analysis.core.functions import base_name
from ....analysis.core.sample_selection import event_names
from ....analysis.formulas.measures import display_unit, find_formula
from ....analysis.formulas.resolution import ResolvedFormula
from ....domain.errors import InvalidRequest, NotFound
from ....domain.profile import Profile
from ....domain.selection import QUERY_PARAMETERS, Selection, parse_flag
from ....domain.symbols.short_names import shorten_distinct
from ....domain.text import shorten
from ....store import Result
from ....store.run_history import read_earlier_results
from ...pages import Chip, result_url, selection_chips, with_query
from ...parameters import parse_choice
from ...rendering import Page, render
from ...services import current_services
from ..results.result_frame import (
    PageLink,
    formula_links,
    measure_text,
    page_params,
    request_selection,
    time_unit_links,
)
from ..results.sheets import Bar as RowBar
from ..results.sheets import ColumnView, Sheet, build_sheet, filter_and_sort, inherit_descriptions
from ..results.tables import (
    FILE_RULE,
    current_url_with,
    filter_rows,
    filter_table,
    parse_search,
    table_file_response,
    table_file_url,
    table_response,
)
from .functions import SelectionBar, comparison_tabs
from .name_choice import NameChoice, build_name_choice, open_compared, request_rules
from .series import PARAMETER as SERIES_PARAMETER
from .series import SeriesLinks, build_series_links, list_series_notes
from .side_results import find_side_results

blueprint = Blueprint("compare_runs", __name__)
SIDES = {"base": "Base", "other": "Other"}
SCALES = {"": "Automatic", "absolute": "Absolute", "shares": "Shares"}
MEASURES = {"self": "Self", "total": "Total"}
SEARCHED_COLUMNS = ("name", "module")
PART_FIELDS = {
    "thread": "Thread",
    "process": "Process",
    "rank": "Rank",
    "start-ms": "From, ms",
    "end-ms": "To, ms",
    "focus": "Focus",
}
"""The parameters of a selection in the form of a side; the address accepts all."""
CHOICES = 50
"""Results that can be added, the newest."""
TONES = {
    Verdict.SLOWER: "more",
    Verdict.FASTER: "less",
    Verdict.MORE: "more",
    Verdict.LESS: "less",
    Verdict.NOISE: "",
}


@dataclass(frozen=True)
class RunLink:
    """A run of a side, or a result that can be added to it. change: the URL that removes or adds it."""

    name: str
    url: str
    about: str
    change: str


@dataclass(frozen=True)
class SideField:
    """A field that selects a part of a side. name: of the parameter, as base.thread."""

    name: str
    label: str
    value: str


@dataclass(frozen=True)
class RunSide:
    """A side. add: the URL that shows what can be added. chips: its own part of the recordings. fields: those of the
    form that selects it, with their values; hidden_fields: the rest of the address."""

    key: str
    title: str
    runs: tuple[RunLink, ...]
    add: str
    chips: tuple[Chip, ...]
    fields: tuple[SideField, ...]
    hidden_fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class RunsPage(Page):
    """`/compare/runs?base=ID&base=ID&other=ID&other=ID`. adding: the side to which a result is added, empty for
    none."""

    template: ClassVar[str] = "compare/runs.html"
    base: Result
    other: Result
    sides: tuple[RunSide, ...]
    adding: str
    choices: tuple[RunLink, ...]
    found: int
    search: str
    hidden_fields: tuple[tuple[str, str], ...]
    close: str
    swap: str
    series: SeriesLinks
    sentence: str
    bar: SelectionBar
    names: NameChoice
    tabs: tuple[PageLink, ...]
    scale: str
    scales: tuple[PageLink, ...]
    measures: tuple[PageLink, ...]
    pairs: PageLink | None
    verdicts: tuple[PageLink, ...]
    verdict: str
    sheet: Sheet
    csv: str


@dataclass(frozen=True)
class _RunsQuery:
    results: tuple[tuple[Result, ...], tuple[Result, ...]]
    notes: tuple[Note, ...]
    profiles: tuple[tuple[Profile, ...], tuple[Profile, ...]]
    selection: Selection
    side_selections: tuple[Selection, Selection]
    measure: str
    scale: str
    paired: bool
    verdict: str

    @property
    def name(self) -> str:
        return f"{self.results[0][0].name} to {self.results[1][0].name} runs"

    @property
    def formula(self) -> ResolvedFormula | None:
        """The formula that is compared instead of an event."""
        return find_formula(self.profiles[1][0], self.side_selections[1].event or self.side_selections[0].event)


@blueprint.get("/compare/runs")
def show() -> Response:
    """The verdicts on one measure of all functions."""
    query = _parse_query()
    comparison = _compare(query)
    measure = query.measure
    everything = comparison.rows.to_frame()
    columns = _columns(query, comparison)
    rows, order = filter_and_sort(
        _with_verdict(query, everything),
        columns,
        "-growth",
        SEARCHED_COLUMNS,
        sort_columns={column.word: column.column for column in columns},
        magnitudes=("growth",),
    )
    adding = parse_choice("add", SIDES)
    choices, found = _list_choices(query, adding) if adding else ((), 0)
    (base, other), (base_profile, other_profile) = (
        [side[0] for side in query.results],
        [side[0] for side in query.profiles],
    )
    return render(
        RunsPage(
            base=base,
            other=other,
            sides=tuple(_build_side(query, number) for number in (0, 1)),
            adding=adding,
            choices=choices,
            found=found,
            search=request.args.get("choose", ""),
            hidden_fields=tuple((k, v) for k, v in request.args.items(multi=True) if k != "choose"),
            close=current_url_with(("add", None), ("choose", None)),
            swap=swap_url(),
            series=build_series_links(request.args.get(SERIES_PARAMETER, ""), base, other),
            sentence=comparison.sentence(lambda name: f"“{shorten(name)}”"),
            bar=_build_bar(query, comparison),
            names=build_name_choice(
                [result.id for side in query.results for result in side], current_services().store.results
            ),
            tabs=comparison_tabs((base_profile, other_profile), "runs"),
            scale=query.scale,
            scales=() if query.formula else _links("scale", SCALES, query.scale),
            measures=_links("of", MEASURES, measure),
            pairs=_pair_link(query, comparison),
            verdicts=_verdict_links(everything[f"{measure}_verdict"], query.verdict),
            verdict=query.verdict,
            sheet=build_sheet(
                f"Verdicts on the {MEASURES[measure].lower()} of functions",
                rows,
                columns,
                order,
                noun="function",
                total_rows=len(everything),
                bar=_make_bar(rows, measure),
                bar_label="Growth relative to the largest",
                wide=False,
            ),
            csv=table_file_url("runs.csv"),
        )
    )


@blueprint.get(f"/compare/runs.{FILE_RULE}")
def download_table(file_format: str) -> Response:
    """All rows that verdict and search leave, with all columns of `perfloom diff`."""
    query = _parse_query()
    return table_file_response(query.name, file_format, _filtered_rows(query), *_flatten(query), columns=COLUMNS)


@blueprint.get("/api/v1/compare/runs")
def get_json() -> Response:
    """The table as a list of objects; base, other: ids, may be repeated; format=csv|parquet: as a file."""
    # A program sees no note.
    query = _parse_query(may_lack=False)
    rows = _compare(query).rows
    if query.verdict:
        rows = rows.take(np.flatnonzero(rows.values[f"{query.measure}_verdict"] == query.verdict))
    rows = filter_table(rows, parse_search(), SEARCHED_COLUMNS)
    return table_response(query.name, rows, *_flatten(query), columns=COLUMNS)


def _parse_query(*, may_lack: bool = True) -> _RunsQuery:
    """may_lack: whether results may be missing that were deleted; otherwise raises NotFound."""
    ids = [list(dict.fromkeys(request.args.getlist(side))) for side in SIDES]
    for side, listed in zip(SIDES, ids, strict=True):
        if not any(listed):
            raise InvalidRequest("A comparison needs a result on each side. Choose them on the page Compare.", side)
        if len(listed) > MAX_RUNS:
            raise InvalidRequest(f"Choose at most {MAX_RUNS} results on each side, not {len(listed)}.", side)
    store = current_services().store.results
    paired = parse_flag("paired", request.args.get("paired", "0"))
    found = find_side_results(*ids, paired=paired)
    if found.notes and not may_lack:
        raise NotFound(" ".join(note.text for note in found.notes))
    results = found.base, found.other
    profiles = [tuple(open_compared(store, result.id) for result in side) for side in results]
    return _RunsQuery(
        results=results,
        notes=found.notes,
        profiles=(profiles[0], profiles[1]),
        selection=request_selection(),
        side_selections=(side_selection("base"), side_selection("other")),
        measure=parse_choice("of", MEASURES, "self"),
        scale=parse_choice("scale", SCALES),
        paired=paired,
        verdict=parse_choice("verdict", list(Verdict)),
    )


def _compare(query: _RunsQuery) -> Comparison:
    found = compare_groups(
        *query.profiles,
        *query.side_selections,
        as_shares=None if query.formula else {"absolute": False, "shares": True}.get(query.scale),
        paired=query.paired,
        find_earlier=read_earlier_results(
            current_services().store.results,
            [*query.results[0], *query.results[1]],
            query.side_selections[0],
            request_rules(),
        ),
    )
    series_notes = list_series_notes(request.args.get(SERIES_PARAMETER, ""))
    return replace(found, notes=(*query.notes, *found.notes, *series_notes))


def _with_verdict(query: _RunsQuery, rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows[f"{query.measure}_verdict"] == query.verdict] if query.verdict else rows


def _filtered_rows(query: _RunsQuery) -> pd.DataFrame:
    return filter_rows(_with_verdict(query, _compare(query).rows.to_frame()), parse_search(), SEARCHED_COLUMNS)


def _flatten(query: _RunsQuery) -> tuple[Profile, ...]:
    return (*query.profiles[0], *query.profiles[1])


def _columns(query: _RunsQuery, comparison: Comparison) -> tuple[ColumnView, ...]:
    shares, measure, formula = comparison.as_shares, query.measure, query.formula

    def tone(row: dict[str, Any]) -> str:
        verdict = row[f"{measure}_verdict"]
        return TONES.get(verdict, "faint")

    suffix = f"{measure}_percent" if shares else measure
    unit = "percent" if shares else display_unit(formula) if formula else comparison.unit
    found = (
        ColumnView("name", "Function", "name", shorten_page=shorten_distinct),
        ColumnView("module", "Module", "text", shorten=base_name),
        ColumnView(f"{measure}_verdict", "Verdict", "word", sort="verdict"),
        ColumnView(f"base_{suffix}", "Base", "value", scale="weight", unit=unit, sort="base"),
        ColumnView(f"other_{suffix}", "Other", "value", scale="weight", unit=unit, sort="other"),
        ColumnView(
            f"growth_{measure}_percent",
            "Growth",
            "value",
            unit="percent",
            unit_label="points" if shares else "% of the base" if formula else "% of the base’s total",
            sort="growth",
            signed=True,
            tone=tone,
        ),
        ColumnView(f"change_{measure}_percent", "Change", "percent", sort="change", signed=True),
        ColumnView(f"low_{measure}_percent", "From", "percent", sort="low", signed=True),
        ColumnView(f"high_{measure}_percent", "To", "percent", sort="high", signed=True),
        ColumnView(f"q_{measure}", "q", "ratio", sort="q"),
        ColumnView(f"detectable_{measure}_percent", "Detectable", "percent", sort="detectable", extra=True),
    )
    return inherit_descriptions(COLUMNS, found)


def _make_bar(rows: pd.DataFrame, measure: str) -> Any:
    values = rows[f"growth_{measure}_percent"].abs()
    greatest = float(values.max()) if values.notna().any() else 0.0

    def bar(row: dict[str, Any]) -> RowBar:
        share = 100.0 * (row[f"growth_{measure}_percent"] or 0) / greatest if greatest else 0.0
        return RowBar(share, change=True, faint=row[f"{measure}_verdict"] in (Verdict.NONE, Verdict.UNTESTED))

    return bar


def _build_side(query: _RunsQuery, number: int) -> RunSide:
    key = list(SIDES)[number]
    runs = []
    for result in query.results[number]:
        rest = [one for one in query.results[number] if one is not result]
        sides = [*query.results]
        sides[number] = tuple(rest)
        runs.append(_run_link(result, _url_of(*sides) if rest else ""))
    names = [f"{key}.{word}" for word in PART_FIELDS]
    return RunSide(
        key,
        SIDES[key],
        tuple(runs),
        current_url_with(("add", key)),
        side_chips(key),
        tuple(
            SideField(name, label, request.args.get(name, ""))
            for name, label in zip(names, PART_FIELDS.values(), strict=True)
        ),
        tuple((word, value) for word, value in request.args.items(multi=True) if word not in names),
    )


def side_chips(side: str) -> tuple[Chip, ...]:
    """What is selected of this side alone, with links that remove it."""

    def url(selection: Selection) -> str:
        rest = [(word, value) for word, value in request.args.items(multi=True) if not word.startswith(f"{side}.")]
        return with_query(request.path, [*rest, *((f"{side}.{word}", value) for word, value in selection.to_query())])

    return selection_chips(Selection.from_query(own_part(side)), url)


def own_part(side: str) -> dict[str, list[str]]:
    """The parameters of a selection that apply to one side, without its prefix."""
    listed = {word: request.args.getlist(f"{side}.{word}") for word in QUERY_PARAMETERS}
    return {word: values for word, values in listed.items() if any(values)}


def side_selection(side: str) -> Selection:
    """What is selected of both sides, and of this one; its own parameters replace the common ones."""
    return Selection.from_query(request.args.to_dict(flat=False) | own_part(side))


def _run_link(result: Result, change: str) -> RunLink:
    about = " · ".join(part for part in (result.host, result.command) if part)
    return RunLink(result.name, result_url(result.id, selection=request_selection()), about, change)


def _list_choices(query: _RunsQuery, side: str) -> tuple[tuple[RunLink, ...], int]:
    """(results that can be added to a side, how many there are)."""
    number = list(SIDES).index(side)
    taken = {result.id for side_results in query.results for result in side_results}
    found, total = current_services().store.results.search(request.args.get("choose", ""), limit=CHOICES + len(taken))
    links = []
    for result in [one for one in found if one.id not in taken][:CHOICES]:
        sides = [*query.results]
        sides[number] = (*query.results[number], result)
        links.append(_run_link(result, _url_of(*sides)))
    return tuple(links), total - len([one for one in found if one.id in taken])


def _url_of(base: tuple[Result, ...], other: tuple[Result, ...]) -> str:
    """The page with these runs, everything else as now."""
    rest = [(k, v) for k, v in request.args.items(multi=True) if k not in (*SIDES, "page")]
    return with_query(
        "/compare/runs", [*(("base", one.id) for one in base), *(("other", one.id) for one in other), *rest]
    )


def swap_url() -> str:
    """This page with both sides swapped, and what is selected of each."""
    swapped = {"base": "other", "other": "base"}
    pairs = []
    for word, value in request.args.items(multi=True):
        side, dot, rest = word.partition(".")
        pairs.append((swapped.get(side, side) + dot + rest, value))
    return with_query(request.path, [(word, value) for word, value in pairs if word != "page"])


def _links(word: str, choices: dict[str, str], now: str) -> tuple[PageLink, ...]:
    default = next(iter(choices))
    return tuple(
        PageLink(key, label, current_url_with((word, None if key == default else key), ("page", None)), key == now)
        for key, label in choices.items()
    )


def _pair_link(query: _RunsQuery, comparison: Comparison) -> PageLink | None:
    """Switches pairs; None if the sides have different numbers of runs, or noise from earlier runs has no pairs."""
    if comparison.noise or comparison.base_runs != comparison.other_runs or comparison.base_runs < 2:
        return None
    url = current_url_with(("paired", None if query.paired else "1"), ("page", None))
    return PageLink("paired", "Runs were interleaved: compare pairs", url, query.paired)


def _verdict_links(verdicts: pd.Series, current: str) -> tuple[PageLink, ...]:
    counts = verdicts.value_counts()
    return tuple(
        PageLink(
            str(verdict),
            f"{verdict} {int(counts[str(verdict)]):,}",
            current_url_with(("verdict", None if verdict == current else str(verdict)), ("page", None)),
            verdict == current,
        )
        for verdict in Verdict
        if str(verdict) in counts
    )


def _build_bar(query: _RunsQuery, comparison: Comparison) -> SelectionBar:
    own, profile = page_params(), query.profiles[1][0]

    def url(selection: Selection) -> str:
        return with_query(request.path, selection.to_query() + own)

    formula, first = query.formula, query.profiles[0][0]
    event = event_names(profile)[formula.lead] if formula else comparison.event
    common = [name for name in event_names(profile) if all(name in event_names(one) for one in _flatten(query))]
    return SelectionBar(
        selection=query.selection,
        event=event,
        unit=comparison.unit,
        measure=formula.formula.expression if formula else measure_text(profile, event),
        events=tuple(
            PageLink(name, name, url(query.selection.replace(event=name)), name == comparison.event) for name in common
        ),
        formulas=formula_links([one for _, one in list_common_formulas(first, profile, True)], query.selection, url),
        time_units=time_unit_links(profile),
        chips=selection_chips(query.selection, url),
        reset=url(Selection(event=query.selection.event)),
        page_params=own,
        kept_params=query.selection.replace(event=None).to_query() + own,
    )
