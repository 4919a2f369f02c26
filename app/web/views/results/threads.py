"""/results/<id>/threads: the weight of each thread, with links to select it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from urllib.parse import quote_plus

import pandas as pd
from flask import Blueprint, flash, redirect, request
from markupsafe import Markup
from werkzeug.wrappers import Response

from ....analysis.core.flame_groups import rank_label
from ....analysis.core.measurements import (
    Measurement,
    find_counted_events,
    find_share_only_events,
    measure_counts,
    running_percent,
)
from ....analysis.core.memo import memoize
from ....analysis.core.sample_selection import event_id, ranks_of
from ....analysis.core.schema import records
from ....analysis.core.waiting_functions import waiting_pattern
from ....analysis.counts.thread_tree import ThreadNode, build_thread_tree, list_levels, select_nodes
from ....analysis.formulas.measures import evaluate_groups, measure_parts, name_table, selected_formula
from ....analysis.matrix.cells import sum_groups
from ....analysis.matrix.groups import matrix_groups
from ....analysis.tables import TABLES
from ....charts.rank_columns import RankValue, draw_rank_columns, list_legend, measure_balance
from ....domain.errors import InvalidRequest
from ....domain.profile import Profile
from ....domain.selection import UNKNOWN_THREAD, Selection
from ....domain.tables import NO_ID
from ....domain.units import Quantity, format_caveat, format_percent, format_quantity
from ...pages import Pairs
from ...parameters import parse_choice
from ...rendering import Page, render
from ...services import current_services
from .functions import MAX_URL
from .result_frame import PageLink, ResultFrame, open_result_frame
from .sheets import (
    PLACES,
    ColumnView,
    Sheet,
    build_sheet,
    filter_and_sort,
    inherit_descriptions,
    largest_bar,
    places_of,
)
from .tables import FILE_RULE, SortOrder, current_url_with, table_file_response, table_file_url
from .thread_groups import GroupPair, list_group_pairs

blueprint = Blueprint("threads", __name__)
NOISE = ("0", "0.1", "0.5", "1", "5")
"""Thresholds of the tree, in percent of the total; the second is the default."""
NOUNS = {"process": "processes"}
UNEVEN = 1.1
"""From this ratio, the maximum by rank is reported as above the mean."""


@dataclass(frozen=True)
class RankChart:
    """The load balance of ranks. svg: without script or style. uneven: whether the maximum is more than a tenth above
    the mean. measure: what of the event, empty for all. matrix: the page with its functions.

    table: URL of the numbers as CSV.
    """

    event: str
    measure: str
    summary: str
    max: str
    max_url: str
    over_mean: str
    uneven: bool
    svg: Markup
    legend: tuple[tuple[str, str], ...]
    table: str
    matrix: str


@dataclass(frozen=True)
class ThreadTreeRow:
    """A node of the tree. text: its label, or how many small nodes it is the sum of. disabled: whether a node above
    includes it. reference: the page that compares all others of its level with it; empty for none."""

    node: ThreadNode
    text: str
    value: Quantity
    percent: str
    checked: bool
    disabled: bool
    reference: str


@dataclass(frozen=True)
class ThreadTree:
    """Threads by host, rank and process, to select from.

    share_of: the event whose shares it has, empty for that of the page. action: of the form; fields: what it keeps.
    noise: the choices of the threshold. levels: what its rows are. opened: whether it was used. all, none: the page
    with all, or no, check boxes checked.
    """

    rows: tuple[ThreadTreeRow, ...]
    share_of: str
    action: str
    fields: Pairs
    noise: tuple[PageLink, ...]
    levels: str
    opened: bool
    all: str
    none: str


@dataclass(frozen=True)
class ThreadsPage(Page):
    """`/results/<id>/threads`. ranks: None without ranks to compare. pairs: groups that are often compared;
    save_pair: where the form that saves them leads. all_zero: whether the value of every thread is 0."""

    template: ClassVar[str] = "results/threads.html"
    frame: ResultFrame
    ranks: RankChart | None
    pairs: tuple[GroupPair, ...]
    save_pair: str
    tree: ThreadTree
    all_zero: bool
    sheet: Sheet
    csv: str


@blueprint.get("/results/<id>/threads")
def show(id: str) -> Response:
    """A page of the table, for the event selected."""
    frame, profile = open_result_frame(id, "threads")
    every = _rows(frame, profile)
    rows, order = _filter_and_sort(frame, every)
    return render(
        ThreadsPage(
            frame=frame,
            ranks=_rank_chart(frame, profile),
            pairs=_pairs(frame, profile),
            save_pair=frame.url("threads/groups", None, *frame.page_params),
            tree=_tree(frame, profile),
            all_zero=bool(len(every)) and not every["value"].any(),
            sheet=build_sheet(
                "Threads",
                rows,
                _columns(frame, places_of(rows)),
                order,
                noun="thread",
                total_rows=len(every),
                url=lambda row: frame.filtered_url("hotspots", threads=(row["key"],)) if row["key"] else "",
                bar=largest_bar(rows, "value"),
                bar_label="Relative to the largest",
                wide=False,
            ),
            csv=table_file_url("threads.csv"),
        )
    )


@blueprint.get("/results/<id>/threads/select")
def select(id: str) -> Response:
    """Selects the threads of the nodes of the tree that are checked, and returns to the page."""
    frame, profile = open_result_frame(id, "threads")
    changes = select_nodes(profile, request.args.getlist("node"))
    kept = [pair for pair in frame.page_params if pair[0] not in ("node", "checked")]
    address = frame.url(None, frame.selection.replace(**changes), *kept)
    if len(address) > MAX_URL:
        raise InvalidRequest(
            "These threads are too many for an address. Choose whole ranks, processes or hosts, or fewer threads.",
            "node",
        )
    return redirect(address, 303)


@blueprint.post("/results/<id>/threads/groups")
def save_groups(id: str) -> Response:
    """Saves both groups of a `pair` as selections under their names, and returns to the page."""
    frame, profile = open_result_frame(id, "threads")
    key = request.form.get("pair", "")
    pair = next((pair for pair in _pairs(frame, profile) if pair.key == key), None)
    if pair is None:
        raise InvalidRequest(f"This result has no groups {key[:40]!r}; choose them on the threads page.", "pair")
    try:
        for group in pair.groups:
            current_services().store.selections.save(id, group.name, group.selection)
    except InvalidRequest as error:
        flash(error.message, "bad")
    else:
        flash("Saved the selections " + " and ".join(f"“{group.name}”" for group in pair.groups) + ".", "good")
    return redirect(frame.url(None, None, *frame.page_params), 303)


@blueprint.get(f"/results/<id>/threads.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All rows that the search leaves; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "threads")
    rows, _ = _filter_and_sort(frame, _rows(frame, profile))
    return table_file_response(f"{frame.name} threads", file_format, rows, profile)


@blueprint.get(f"/results/<id>/ranks.{FILE_RULE}")
def download_ranks(id: str, file_format: str) -> Response:
    """What each rank measured; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "threads")
    return table_file_response(
        f"{frame.name} ranks", file_format, TABLES["ranks"].frame(profile, frame.selection), profile
    )


def _tree(frame: ResultFrame, profile: Profile) -> ThreadTree:
    noise = parse_choice("noise", NOISE, NOISE[1])
    checked = parse_choice("checked", ("", "all", "none"), "")
    selection = frame.selection.replace(event=frame.event or None)
    nodes = build_thread_tree(profile, selection, float(noise)) if frame.event else ()
    is_share = _has_only_shares(frame, profile)

    # Made once, because there are hundreds of rows.
    compared: dict[str, str] = {
        level: frame.url("counts", selection, ("by", level), ("values", "percent")) for level in list_levels(profile)
    }

    def reference(node: ThreadNode) -> str:
        address = f"{compared[node.level]}&reference={quote_plus(node.label, errors='replace')}"
        return address if node.value and not node.folded and not is_share and len(address) <= MAX_URL else ""

    def text(node: ThreadNode) -> str:
        below = f" below {noise} %" if float(noise) and node.percent / node.folded < float(noise) else ""
        noun = node.level if node.folded == 1 else NOUNS.get(node.level, f"{node.level}s")
        return f"{node.folded:,} {noun}{below}"

    return ThreadTree(
        rows=tuple(
            ThreadTreeRow(
                node=node,
                text=text(node) if node.folded else node.label,
                value=format_quantity(None if is_share else node.value, frame.unit),
                percent=format_percent(node.percent),
                checked=checked == "all" or (checked != "none" and node.checked),
                disabled=node.depth > 0 if checked == "all" else checked != "none" and node.covered,
                reference=reference(node),
            )
            for node in nodes
        ),
        share_of=frame.lead,
        action=f"/results/{frame.id}/threads/select",
        fields=frame.selection.without_places().to_query()
        + [pair for pair in frame.page_params if pair[0] != "checked"],
        noise=tuple(
            PageLink(
                word,
                f"{word} %",
                current_url_with(("noise", None if word == NOISE[1] else word)),
                word == noise,
            )
            for word in NOISE
        ),
        levels=", ".join(list_levels(profile)).capitalize(),
        opened=bool({"noise", "checked"} & set(request.args)),
        all=current_url_with(("checked", "all")),
        none=current_url_with(("checked", "none")),
    )


def _rank_chart(frame: ResultFrame, profile: Profile) -> RankChart | None:
    """The selected event by rank, over all runs that measured it."""
    if len(ranks_of(profile)) < 2:
        return None
    selection = frame.selection.replace(event=frame.event or None)
    values, is_computing = _rank_values(profile, selection)
    balance = measure_balance(values)
    if balance is None:
        return None
    if frame.formula is not None:
        [whole] = evaluate_groups(profile, frame.formula, [measure_parts(profile, selection, frame.formula)])
        balance = replace(balance, mean=whole or 0.0, over_mean=None, together=True)
    hosts = f" on {balance.hosts:,} hosts" if balance.hosts > 1 else ""
    mean = f"{format_quantity(balance.mean, frame.unit).text} {'together' if balance.together else 'on average'}"
    caveat = "" if frame.formula else format_caveat(running_percent(measure_counts(profile, selection)))
    svg = draw_rank_columns(
        frame.event,
        frame.unit,
        values,
        balance,
        lambda rank: frame.filtered_url(None, ranks=((rank, rank),)),
    )
    return RankChart(
        event=frame.event,
        measure=", without waiting" if is_computing else "",
        summary=f"{balance.ranks:,} ranks{hosts}, {', '.join(filter(None, (mean, caveat)))}",
        max=f"rank {balance.max.rank}",
        max_url=frame.filtered_url(None, ranks=((balance.max.rank, balance.max.rank),)),
        over_mean=f"{balance.over_mean:.2f}" if balance.over_mean is not None else "",
        uneven=balance.over_mean is not None and balance.over_mean > UNEVEN,
        # `draw_rank_columns` escapes every name and uses neither script nor style; tests hold it to that.
        svg=Markup(svg),
        legend=list_legend(svg, balance.together),
        table=frame.url("ranks.csv"),
        matrix=frame.url("matrix", None, ("by", "rank")),
    )


def _pairs(frame: ResultFrame, profile: Profile) -> tuple[GroupPair, ...]:
    """The groups that are often compared; ranks by what they compute, like the chart."""
    selection = frame.selection.replace(event=frame.lead_event or None).without_places()
    totals: dict[str, int | float] | None = {}
    if not frame.event or event_id(profile, frame.lead_event) in find_share_only_events(profile):
        totals = None
    elif len(ranks_of(profile)) > 1:
        values, _ = _rank_values(profile, selection)
        totals = {rank_label(one.rank): one.value for one in values if one.value is not None}
    return list_group_pairs(frame, profile, totals)


def _has_only_shares(frame: ResultFrame, profile: Profile) -> bool:
    if not frame.event or frame.formula:
        return False
    return event_id(profile, frame.event) in find_share_only_events(profile)


def _rank_values(profile: Profile, selection: Selection) -> tuple[list[RankValue], bool]:
    """(the total of each rank, in order of the ranks; whether they are without waiting)."""
    name = name_table("rank values", profile, selection)
    return memoize(profile, (name, selection, waiting_pattern()), lambda: _build_rank_values(profile, selection))


def _build_rank_values(profile: Profile, selection: Selection) -> tuple[list[RankValue], bool]:
    formula, found = selected_formula(profile, selection), dict[int, RankValue]()
    for row in records(TABLES["ranks"].rows(profile, selection)):
        rank = row["rank"]
        if rank is None or row["recorded"] is False:
            continue
        before = found.get(rank, RankValue(rank, None))
        value = before.value if row["value"] is None else (before.value or 0) + row["value"]
        found[rank] = RankValue(rank, value, row["host"] or before.host, row["note"] or before.note)
    if formula is not None:
        groups: dict[int, list[Measurement]] = {rank: [] for rank in found}
        for m in measure_parts(profile, selection, formula):
            if m.rank in groups:
                groups[m.rank].append(m)
        values = evaluate_groups(profile, formula, list(groups.values()))
        of_all_runs = [replace(found[rank], value=value) for rank, value in zip(groups, values, strict=True)]
        return sorted(of_all_runs, key=lambda one: one.rank), False
    computing = _computing_by_rank(profile, selection)
    for rank, weight in computing.items():
        if rank in found and found[rank].value is not None:
            found[rank] = replace(found[rank], value=weight)
    return [found[rank] for rank in sorted(found)], bool(computing)


def _computing_by_rank(profile: Profile, selection: Selection) -> dict[int, int]:
    """The weight of the samples of each rank that do not wait: waiting ranks spin, and would look as busy as those that
    compute. Empty for counts, where waiting is unknown, and if no sample waits."""
    event = event_id(profile, selection.event)
    if event == NO_ID or event in find_counted_events(profile) or event in find_share_only_events(profile):
        return {}
    groups = matrix_groups(profile, selection, "rank")
    totals = sum_groups(profile, selection, event, groups)
    if not totals.waiting_count.any():
        return {}
    return dict(zip(groups.key, totals.computing.tolist(), strict=True))


def _rows(frame: ResultFrame, profile: Profile) -> pd.DataFrame:
    return TABLES["threads"].frame(profile, frame.selection.replace(event=frame.event or None))


def _filter_and_sort(frame: ResultFrame, rows: pd.DataFrame) -> tuple[pd.DataFrame, SortOrder]:
    places = [place for place in PLACES if place.column != "cpu"]
    return filter_and_sort(rows, _columns(frame, places), "-value", ("name", "process", "host", "key"))


def _columns(frame: ResultFrame, places: Sequence[ColumnView]) -> tuple[ColumnView, ...]:
    def flamegraph(row: dict[str, Any]) -> str:
        return frame.filtered_url("flamegraph", threads=(row["key"],)) if row["key"] and row["samples"] else ""

    def scaled(row: dict[str, Any]) -> str:
        return format_caveat(row["running_percent"])

    found = (
        ColumnView("name", "Thread", "name", unnamed=lambda row: "unknown" if row["key"] == UNKNOWN_THREAD else ""),
        ColumnView("process", "Process", "text"),
        *places,
        ColumnView("samples", "Samples"),
        ColumnView("value", frame.event or "Value", "value", unit=frame.unit, caveat=scaled),
        *(() if frame.formula else (ColumnView("percent", "%", "percent", sort=""),)),
        ColumnView("key", "Flame graph", "link", sort="", link=flamegraph),
    )
    return inherit_descriptions(TABLES["threads"].columns, found)
