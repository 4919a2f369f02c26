"""/results/<id>/matrix: functions by rank, process, thread or host, computing and waiting."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from flask import Blueprint
from werkzeug.wrappers import Response

from ....analysis.core.flame_groups import FlameGroup, groups_of
from ....analysis.core.measurements import find_share_only_events
from ....analysis.core.sample_selection import event_id, hosts_of, ranks_of
from ....analysis.matrix.balance import find_balances, format_balance
from ....analysis.matrix.formula_cells import FormulaMatrix, build_formula_matrix
from ....analysis.matrix.groups import BY, default_by, matrix_groups
from ....analysis.matrix.matrix import Matrix, build_matrix
from ....analysis.matrix.rows import COMPUTING, WAITING
from ....analysis.tables import TABLES
from ....domain.profile import Profile
from ....domain.selection import Selection
from ....domain.tables import NO_ID
from ...parameters import parse_choice
from ...rendering import Page, render
from ..results.missing_data import explain_flat_stacks, explain_no_samples, explain_one_group
from ..results.result_frame import PageLink, ResultFrame, open_result_frame
from ..results.sheets import Sheet
from ..results.tables import FILE_RULE, Pager, current_url_with, table_file_response, table_file_url
from .matrix_sheet import (
    ALL,
    NUMBER,
    ORDERS,
    SHADES,
    SHOWN,
    VALUE,
    VALUES,
    MatrixChoice,
    build_matrix_sheet,
    focus_on,
    select_group,
)

blueprint = Blueprint("matrix", __name__)
NOUNS = {"rank": "Ranks", "process": "Processes", "thread": "Threads", "host": "Hosts"}


@dataclass(frozen=True)
class Finding:
    """The finding in a sentence or two. outlier: whether there is one. links: pages that show it."""

    text: str
    outlier: bool
    links: tuple[PageLink, ...]


@dataclass(frozen=True)
class MatrixPage(Page):
    """`/results/<id>/matrix`. notes: what limits it. switches: (label, links) of its parameters. groups: the position
    in the columns. has_waiting: whether any sample waits."""

    template: ClassVar[str] = "results/matrix.html"
    frame: ResultFrame
    finding: Finding | None
    notes: tuple[str, ...]
    switches: tuple[tuple[str, tuple[PageLink, ...]], ...]
    sheet: Sheet
    groups: Pager
    has_waiting: bool
    shade_by_row: bool
    empty_text: str
    csv: str
    cells: str


@blueprint.get("/results/<id>/matrix")
def show(id: str) -> Response:
    """A page of functions, for some of the groups."""
    frame, profile = open_result_frame(id, "matrix")
    event, choice = event_id(profile, frame.lead_event or None), _parse_choice(profile, frame)
    matrix: Matrix | FormulaMatrix = (
        build_matrix(profile, frame.selection, event, choice.by)
        if frame.formula is None
        else build_formula_matrix(profile, frame.selection, frame.formula, choice.by)
    )
    sheet, groups = build_matrix_sheet(frame, profile, event, matrix, choice)
    return render(
        MatrixPage(
            frame=frame,
            finding=None if choice.is_formula else _find(frame, profile, event, choice.by),
            notes=_notes(profile, frame.selection, choice.by),
            switches=_switches(profile, choice),
            sheet=sheet,
            groups=groups,
            has_waiting=bool(matrix.cells.totals.waiting_count.any()),
            shade_by_row=choice.shade == SHADES[1],
            empty_text=explain_no_samples(profile, frame.event),
            csv=table_file_url("matrix.csv"),
            cells=table_file_url("matrix-cells.csv"),
        )
    )


@blueprint.get(f"/results/<id>/matrix.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All functions with their statistics; columns as in `perfloom report`."""
    return _download(id, file_format, "matrix")


@blueprint.get(f"/results/<id>/matrix-cells.{FILE_RULE}")
def download_cells(id: str, file_format: str) -> Response:
    """All cells; columns as in `perfloom report`."""
    return _download(id, file_format, "matrix-cells")


def _download(id: str, file_format: str, table: str) -> Response:
    frame, profile = open_result_frame(id, "matrix")
    selection = frame.selection.replace(event=frame.event or None)
    rows = TABLES[table].frame(profile, selection, _parse_choice(profile, frame).by)
    return table_file_response(f"{frame.name} {table.replace('-', ' ')}", file_format, rows, profile)


def _parse_choice(profile: Profile, frame: ResultFrame) -> MatrixChoice:
    is_formula = frame.formula is not None
    shares = not is_formula and event_id(profile, frame.event or None) in find_share_only_events(profile)
    return MatrixChoice(
        by=parse_choice("by", BY) or default_by(profile),
        shown=parse_choice("state", SHOWN, ALL),
        value="percent" if shares else VALUE if is_formula else parse_choice("cells", VALUES, VALUE),
        shade=parse_choice("shade", SHADES, SHADES[0]),
        order=parse_choice("order", ORDERS, NUMBER),
        shares_only=shares,
        is_formula=is_formula,
    )


def _find(frame: ResultFrame, profile: Profile, event: int, by: str) -> Finding | None:
    """The finding of the page: about the role that computes most."""
    balances = find_balances(profile, frame.selection, event, by) if event != NO_ID else ()
    if not balances:
        return None
    # A role with an outlier, else the one that computes most.
    balance = next((one for one in balances if one.outlier), balances[0])
    links = []
    if balance.outlier:
        group = balance.groups.labels[balance.most]
        chosen = frame.selection.replace(**select_group(profile, balance.groups, balance.most) or {})
        if chosen != frame.selection:
            links.append(PageLink("flamegraph", f"Flame graph of {group}", frame.url("flamegraph", chosen), False))
        pattern = focus_on(balance.function)
        if pattern:
            chosen = frame.selection.focus_on(pattern)
            links.append(PageLink("timeline", "Timeline of the function", frame.url("timeline", chosen), False))
        if balance.since is not None:
            since = frame.selection.replace(start_ns=balance.since.at_ns)
            links.append(PageLink("matrix", "Only since then", frame.url(None, since, *frame.page_params), False))
    return Finding(format_balance(profile, event, balance), balance.outlier, tuple(links))


def _notes(profile: Profile, selection: Selection, by: str) -> tuple[str, ...]:
    groups = matrix_groups(profile, selection, by)
    alone = explain_one_group(profile, selection, by, int(groups.sampled.sum()))
    silent = [label for label, seen in zip(groups.labels, groups.sampled.tolist(), strict=True) if not seen]
    notes = list(explain_flat_stacks(profile)) + ([alone] if alone else [])
    if silent:
        more = f" and {len(silent) - 3:,} more" if len(silent) > 3 else ""
        notes.append(f"Without samples, and not compared: {', '.join(silent[:3])}{more}.")
    return tuple(notes)


def _switches(profile: Profile, choice: MatrixChoice) -> tuple[tuple[str, tuple[PageLink, ...]], ...]:
    def links(word: str, labels: dict[str, str], now: str, usual: str) -> tuple[PageLink, ...]:
        return tuple(
            PageLink(
                value,
                label,
                current_url_with((word, None if value == usual else value), ("page", None), ("group-page", None)),
                value == now,
            )
            for value, label in labels.items()
        )

    there = {by: NOUNS[by] for by in BY if by == choice.by or _has_groups(profile, by)}
    return (
        *((("Compare", links("by", there, choice.by, default_by(profile))),) if len(there) > 1 else ()),
        (
            "Show",
            links("state", {ALL: "All", COMPUTING: "Computing", WAITING: "Waiting"}, choice.shown, ALL),
        ),
        *(
            (("Cells", links("cells", {VALUE: "Value", "percent": "%"}, choice.value, VALUE)),)
            if not (choice.shares_only or choice.is_formula)
            else ()
        ),
        ("Shade by", links("shade", {"table": "Table", "row": "Row"}, choice.shade, SHADES[0])),
        ("Order", links("order", {NUMBER: "Number", "most": "Computing"}, choice.order, NUMBER)),
    )


def _has_groups(profile: Profile, by: str) -> bool:
    if by == "rank":
        return len(ranks_of(profile)) > 1
    if by == "host":
        return len(hosts_of(profile)) > 1
    return len(np.unique(groups_of(profile, FlameGroup(by)).thread_groups)) > 1
