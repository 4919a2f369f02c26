"""/results/<id>/tree: the call tree, top-down or bottom-up, or callers and callees of a function, with all events."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.core.functions import KIND_NAMES, base_name, functions_of
from ....analysis.core.measurements import absolute_totals, find_share_only_events
from ....analysis.core.sample_rollup import sum_call_weights
from ....analysis.core.sample_selection import event_id, event_names
from ....analysis.formulas.measures import display_unit, evaluate_weights, list_sampled_formulas
from ....analysis.formulas.resolution import ResolvedFormula
from ....analysis.source.code_index import find_places, has_addresses
from ....analysis.stacks.flamegraph import FlameTree
from ....analysis.stacks.tree_table import (
    EventWeights,
    TreeBranch,
    compute_tree,
    find_weights,
    select_branches,
    select_tree,
)
from ....domain.arrays import Array
from ....domain.errors import InvalidRequest
from ....domain.profile import Profile
from ....domain.symbols.short_names import shorten_distinct
from ....domain.tables import ROOT
from ....domain.units import Quantity, Scale, choose_scale, format_quantity
from ...rendering import Page, render
from ...services import current_services
from ..results.column_choice import ColumnChoice, ColumnOption, build_choice, parse_columns
from ..results.functions import MAX_URL, has_modules, place_of
from ..results.missing_data import explain_flat_stacks, explain_no_samples
from ..results.result_frame import PageLink, ResultFrame, open_result_frame
from ..results.tables import FILE_RULE, current_url_with, table_file_response, table_file_url

blueprint = Blueprint("tree", __name__)
MIN_SHARE = 0.0002
"""Narrower frames are left out on the page, not in its files."""
MIN_HOT_SHARE = 0.1
"""The heaviest path is expanded initially, down to this share."""
ROWS_STEP, MAX_ROWS = 300, 3_000
MAX_TOGGLES = 200
"""More would make the address too long."""
MAX_INDENT = 40
MAX_FORMULAS = 8
"""With columns, without that of the page."""
DEFAULT_COLUMNS = 4
"""So many events and formulas have columns if none are chosen: more do not fit a window of 1400 px."""
MAIN = "main"
"""The columns of the page's event, which are always shown."""
STATE_PARAMETERS = ("toggle", "expand", "rows")


@dataclass(frozen=True)
class TreeState:
    """Which rows are expanded. toggled: rows whose state differs from the initial one. expanded: rows expanded with all
    rows below. Keys of rows: the branch's prefix and the frame's id. tag: identifies the trees in which ids are valid.
    """

    tag: str
    toggled: frozenset[str]
    expanded: frozenset[str]

    def toggle_url(self, key: str) -> str:
        """This page with a row expanded or collapsed."""
        return current_url_with(("toggle", self._text(self.toggled ^ {key})))

    def expand_url(self, key: str) -> str:
        """This page with a row and all below it expanded."""
        return current_url_with(("toggle", None), ("expand", self._text(self.expanded | {key})))

    def _text(self, keys: frozenset[str]) -> str | None:
        return ".".join((self.tag, *sorted(keys)[:MAX_TOGGLES])) if keys else None


@dataclass(frozen=True)
class EventColumn:
    """The weights of an event, or the values of a formula on its sums. url: of the page with this as its event, None
    for the event whose weights order the rows."""

    event: str
    unit: str
    url: str | None
    title: str


@dataclass(frozen=True)
class TreeRow:
    """A frame. key: see `TreeState`. parent: the key of its parent, empty at the top. toggle: address with the row
    expanded or collapsed, empty without children; expand: with all below. name, module: complete. url: callers and
    callees. bars: self and total in percent. cells: total, total in percent, self, self in percent of the page's event,
    then total and self of each other event and formula."""

    key: str
    parent: str
    level: int
    indent: int
    is_expanded: bool | None
    toggle: str
    expand: str
    name: str
    name_short: str
    module: str
    module_short: str
    title: str
    kind: str
    url: str
    self_bar: float
    total_bar: float
    cells: tuple[Quantity, ...]


@dataclass(frozen=True)
class TreeSection:
    """A tree. more: whether visible rows are not in the page; pruned: how many frames are too narrow."""

    title: str
    rows: tuple[TreeRow, ...]
    more: bool
    pruned: int


@dataclass(frozen=True)
class TreePage(Page):
    """`/results/<id>/tree`. function: whose callers and callees are shown, or empty. flame_graph: the same as one.
    others: the formulas and the other events that have columns. columns: their chooser. more: the page with more rows.
    expand_all: with all rows expanded; reset: with the heaviest path."""

    template: ClassVar[str] = "results/tree.html"
    frame: ResultFrame
    function: str
    flame_graph: str
    code: str
    directions: tuple[PageLink, ...]
    sections: tuple[TreeSection, ...]
    main: EventColumn
    others: tuple[EventColumn, ...]
    columns: ColumnChoice
    with_modules: bool
    more: str
    expand_all: str
    reset: str
    notes: tuple[str, ...]
    empty_text: str
    csv: str


@blueprint.get("/results/<id>/tree")
def show(id: str) -> Response:
    """A page of the tree."""
    frame, profile = open_result_frame(id, "tree")
    function = request.args.get("function", "")
    state, limit = _parse_state(frame, function), _parse_rows()
    sections: tuple[TreeSection, ...] = ()
    main, others = EventColumn(frame.event, "", None, ""), tuple[EventColumn, ...]()
    columns = build_choice((), "")
    if frame.event and profile.samples.num_rows:
        branches = _branches(frame, profile, function)
        table = _RowMaker(frame, profile, state)
        sections = tuple(table.section(title, prefix, branch, limit) for title, prefix, branch in branches)
        main, others, columns = table.main, table.others, table.columns
    more = any(section.more for section in sections) and limit < MAX_ROWS
    return render(
        TreePage(
            frame=frame,
            function=function,
            code=frame.url("source", None, ("function", function)) if function and has_addresses(profile) else "",
            flame_graph=frame.url("flamegraph", None, *((("function", function),) if function else ())),
            directions=_directions(frame, function),
            sections=sections if any(section.rows for section in sections) else (),
            main=main,
            others=others,
            columns=columns,
            with_modules=has_modules(profile),
            more=current_url_with(("rows", str(min(limit + ROWS_STEP, MAX_ROWS)))) if more else "",
            expand_all=state.expand_url("0"),
            reset=current_url_with(*((word, None) for word in STATE_PARAMETERS)),
            notes=explain_flat_stacks(profile),
            empty_text=explain_no_samples(profile, frame.event),
            csv="" if function else table_file_url("tree.csv"),
        )
    )


@blueprint.get(f"/results/<id>/tree.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All frames of the event, in preorder; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "tree")
    rows = compute_tree(profile, frame.selection.replace(event=frame.event or None))
    return table_file_response(f"{frame.name} tree", file_format, rows, profile)


def _branches(frame: ResultFrame, profile: Profile, function: str) -> list[tuple[str, str, TreeBranch]]:
    """The trees of the page with their titles and the prefixes of their keys."""
    event = event_id(profile, frame.lead_event)
    if not function:
        return [("", "", select_tree(profile, frame.selection, event, MIN_SHARE))]
    callers, callees = select_branches(profile, frame.selection, event, function, MIN_SHARE)
    return [("Callers", "c", callers), ("Callees", "", callees)]


def _directions(frame: ResultFrame, function: str) -> tuple[PageLink, ...]:
    def link(key: str, label: str, invert: bool, function: str | None, current: bool) -> PageLink:
        changes = (("invert", "1" if invert else None), ("function", function))
        return PageLink(key, label, current_url_with(*((w, None) for w in STATE_PARAMETERS), *changes), current)

    invert = frame.selection.invert
    links = [
        link("top-down", "Top-down", False, None, not invert and not function),
        link("bottom-up", "Bottom-up", True, None, invert and not function),
    ]
    if function:
        links.append(link("function", "Callers and callees", invert, function, True))
    return tuple(links)


def _parse_state(frame: ResultFrame, function: str) -> TreeState:
    selection = frame.selection
    shape = repr((selection.frame_filter, selection.recursion, selection.invert and not function, function))
    tag = f"{zlib.crc32(shape.encode(errors='surrogatepass')):x}"

    def parse(word: str) -> frozenset[str]:
        found, *keys = request.args.get(word, "").split(".")
        # Ids of frames mean something else in another tree.
        return frozenset(keys[:MAX_TOGGLES]) if found == tag else frozenset()

    return TreeState(tag, parse("toggle"), parse("expand"))


def _parse_rows() -> int:
    text = request.args.get("rows") or str(ROWS_STEP)
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= MAX_ROWS:
        raise InvalidRequest(f"rows must be a number from 1 to {MAX_ROWS:,}.", "rows")
    return int(text)


class _RowMaker:
    """Makes rows of frames of trees."""

    def __init__(self, frame: ResultFrame, profile: Profile, state: TreeState) -> None:
        self._frame = frame
        self._profile = profile
        self._state = state
        self._code = current_services().store.results.open_code(frame.id)
        self._event = event_id(profile, frame.lead_event)
        self._shown, formulas = _list_formulas(frame, profile)
        others = [e for e in range(profile.events.num_rows) if e != self._event]
        names = event_names(profile)
        self.columns = _choose_columns(
            names[self._event], [(f"e{e}", names[e]) for e in others] + [(_key_of(one), one.name) for one in formulas]
        )
        chosen = {option.name for option in self.columns.options if option.shown}
        self._formulas = [one for one in formulas if _key_of(one) in chosen]
        self._others = [e for e in others if f"e{e}" in chosen]
        # A formula needs the weights of its events, also of those without columns.
        parts = {part for one in (*self._shown, *self._formulas) for part in one.parts}
        self._summed = [e for e in others if e in parts or e in self._others]
        events = (self._event, *self._summed)
        self._calls = {event: sum_call_weights(profile, frame.selection, event) for event in events}
        units = profile.events.column("unit").to_pylist()
        # The same scales for all trees of the page.
        self._scales = {event: choose_scale(int(calls.sum()), units[event]) for event, calls in self._calls.items()}
        self.main = self._column(self._event)
        self.others = (
            *(self._formula_column(formula) for formula in self._shown),
            *(self._column(event) for event in self._others),
            *(self._formula_column(formula) for formula in self._formulas),
        )

    def section(self, title: str, prefix: str, branch: TreeBranch, limit: int) -> TreeSection:
        tree = branch.tree
        expanded = list(_visible(tree, prefix, self._state, limit + 1))
        visible, more = expanded[:limit], len(expanded) > limit
        rows = np.array([row for row, _ in visible], np.int64)
        main = EventWeights(self._event, tree.self_weight[rows], tree.total_weight[rows], tree.total)
        columns = [_cells(self._profile, main, self._scales[main.event], percents=True)]
        found = {event: find_weights(event, self._calls[event], branch.shape, tree.id[rows]) for event in self._summed}
        sums = {self._event: main} | found
        columns += [_formula_cells(self._profile, formula, sums) for formula in self._shown]
        for event in self._others:
            columns.append(_cells(self._profile, found[event], self._scales[event], percents=False))
        columns += [_formula_cells(self._profile, formula, sums) for formula in self._formulas]
        functions = functions_of(self._profile)
        of = tree.function[rows]
        names, modules = functions.names_of(of), functions.modules_of(of)
        places = [place_of({"file": file, "line": line}) for file, line in find_places(self._profile, self._code, of)]
        short = shorten_distinct(names)
        made = [
            self._row(
                tree, prefix, row, is_expanded, (names[n], modules[n], places[n], short(names[n])), main, n, columns
            )
            for n, (row, is_expanded) in enumerate(visible)
        ]
        return TreeSection(title, tuple(made), more, tree.pruned)

    def _row(
        self,
        tree: FlameTree,
        prefix: str,
        row: int,
        is_expanded: bool | None,
        texts: tuple[str, str, str, str],
        main: EventWeights,
        at: int,
        columns: list[list[tuple[Quantity, ...]]],
    ) -> TreeRow:
        name, module, place, short = texts
        key, level, parent = f"{prefix}{tree.id[row]}", int(tree.depth[row]), int(tree.parent[row])
        own, total = (100.0 * int(w[at]) / main.whole if main.whole else 0.0 for w in (main.own, main.total))
        return TreeRow(
            key=key,
            parent="" if parent == ROOT else f"{prefix}{tree.id[parent]}",
            level=level,
            indent=min(level - 1, MAX_INDENT),
            is_expanded=is_expanded,
            toggle="" if is_expanded is None else self._state.toggle_url(key),
            expand="" if is_expanded is None else self._state.expand_url(key),
            name=name,
            name_short=short,
            module=module,
            module_short=base_name(module),
            title="\n".join(filter(None, (name, module, place))),
            kind=KIND_NAMES[int(tree.kind[row])],
            url=_function_url(name),
            self_bar=min(100.0, max(0.0, own)),
            total_bar=min(100.0, max(0.0, total)),
            cells=tuple(cell for column in columns for cell in column[at]),
        )

    def _formula_column(self, formula: ResolvedFormula) -> EventColumn:
        # Each value has its unit, because they differ more than weights.
        return EventColumn(
            event=formula.name,
            unit="",
            url=current_url_with(("event", formula.name)),
            title=f"{formula.formula.expression}, of the sums of each row",
        )

    def _column(self, event: int) -> EventColumn:
        name, is_main = event_names(self._profile)[event], event == self._event
        known = event not in find_share_only_events(self._profile)
        return EventColumn(
            event=name,
            unit=self._scales[event].label if known else "%",
            url=None if is_main else current_url_with(("event", name)),
            title=f"Weight of the samples of {name}" + ("" if known else ", in percent: its samples give only shares"),
        )


def _list_formulas(
    frame: ResultFrame, profile: Profile
) -> tuple[tuple[ResolvedFormula, ...], tuple[ResolvedFormula, ...]]:
    """(that of the page, others) with columns."""
    shown = () if frame.formula is None else (frame.formula,)
    names = {one.name for one in shown}
    others = [one for one in list_sampled_formulas(profile) if one.name not in names]
    return shown, tuple(others[:MAX_FORMULAS])


def _key_of(formula: ResolvedFormula) -> str:
    """The name of a formula's columns in a query, which separates names by dots."""
    return f"f{zlib.crc32(formula.name.encode(errors='surrogatepass')):x}"


def _choose_columns(main: str, others: Sequence[tuple[str, str]]) -> ColumnChoice:
    """The chooser. main: the page's event. others: the (name in a query, label) of other events and formulas."""
    chosen = parse_columns()
    if chosen is None:
        chosen = frozenset(name for name, _ in others[:DEFAULT_COLUMNS])
    about = "Total and self"
    options = [ColumnOption(name, label, about, name in chosen, fixed=False) for name, label in others]
    return build_choice([ColumnOption(MAIN, main, about, True, fixed=True), *options] if options else (), "")


def _formula_cells(
    profile: Profile, formula: ResolvedFormula, weights: Mapping[int, EventWeights]
) -> list[tuple[Quantity, ...]]:
    """The cells of each row for a formula: total and self."""
    unit = display_unit(formula)
    total, own = (
        evaluate_weights(profile, formula, sums).tolist()
        for sums in (
            {event: weights[event].total for event in formula.parts},
            {event: weights[event].own for event in formula.parts},
        )
    )
    return [tuple(format_quantity(value, unit) for value in pair) for pair in zip(total, own, strict=True)]


def _cells(profile: Profile, weights: EventWeights, scale: Scale, *, percents: bool) -> list[tuple[Quantity, ...]]:
    """The cells of each row for an event: total and self, with percents for the page's event. An event whose samples
    give only shares has percents in any case."""
    shares = choose_scale(100, "percent")
    only_shares = weights.event in find_share_only_events(profile)

    def share(value: int) -> Quantity:
        return shares.format(100.0 * value / weights.whole if weights.whole else 0.0)

    def absolute(column: Array) -> list[int | None]:
        return absolute_totals(profile, weights.event, column)

    cells: list[tuple[Quantity, ...]] = []
    for total, own, total_value, own_value in zip(
        weights.total.tolist(), weights.own.tolist(), absolute(weights.total), absolute(weights.own), strict=True
    ):
        if percents:
            cells.append((scale.format(total_value), share(total), scale.format(own_value), share(own)))
        elif only_shares:
            cells.append((share(total), share(own)))
        else:
            cells.append((scale.format(total_value), scale.format(own_value)))
    return cells


def _visible(tree: FlameTree, prefix: str, state: TreeState, limit: int) -> Iterator[tuple[int, bool | None]]:
    """(row, whether it is expanded, None without children) of the first `limit` rows below no collapsed one."""
    count = len(tree.end)
    hot = set(_hot_path(tree))
    row, given = 1, 0
    # The ends of the subtrees around the row that are expanded completely.
    whole_until = count if f"{prefix}0" in state.expanded or "0" in state.expanded else 0
    while row < count and given < limit:
        end, key = int(tree.end[row]), f"{prefix}{tree.id[row]}"
        if key in state.expanded:
            whole_until = max(whole_until, end)
        is_expanded: bool | None = None
        if end > row + 1:
            is_expanded = (row in hot or row < whole_until) != (key in state.toggled)
        yield row, is_expanded
        given += 1
        row = row + 1 if is_expanded else end


def _hot_path(tree: FlameTree) -> Iterator[int]:
    """The rows of the heaviest path."""
    row = ROOT + 1
    while row < len(tree.end) and tree.total_weight[row] >= MIN_HOT_SHARE * tree.total:
        yield row
        if int(tree.end[row]) == row + 1:
            return
        row += 1


def _function_url(name: str) -> str:
    """The callers and callees of a function; empty where the address would be too long."""
    url = current_url_with(("function", name), *((word, None) for word in STATE_PARAMETERS))
    return url if name and len(url) <= MAX_URL else ""
