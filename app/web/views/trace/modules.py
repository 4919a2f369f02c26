"""/results/<id>/modules: the tree of a network's modules, with time on the host and on devices; and by class."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.core.schema import records
from ....analysis.ml.modules import BY, compute_modules
from ....analysis.tables import TABLES
from ....domain.errors import InvalidRequest
from ...parameters import parse_choice
from ...rendering import Page, render
from ..results.detail import TopChart, build_top_charts, has_several_ranks
from ..results.result_frame import PageLink, ResultFrame, open_result_frame
from ..results.sheets import (
    ColumnView,
    Sheet,
    SheetRow,
    build_headings,
    build_rows,
    build_sheet,
    column_scales,
    filter_and_sort,
    inherit_descriptions,
)
from ..results.tables import FILE_RULE, ColumnHeading, current_url_with, table_file_response, table_file_url

blueprint = Blueprint("modules", __name__)
GROUPING_LABELS = {"place": "Tree", "type": "By class"}
MAX_ROWS = 150
"""With more modules than this, deeper levels of the tree are hidden."""
MAX_DEPTH = 60

_COLUMNS = (
    ColumnView("calls", "Calls"),
    ColumnView("host_total_us", "Host total", "time", scale="host"),
    ColumnView("host_percent", "%", "percent"),
    ColumnView("host_self_us", "Host self", "time", scale="host"),
    ColumnView("host_mean_us", "Mean", "time", scale="call"),
    ColumnView("device_total_us", "Device total", "time", scale="device"),
    ColumnView("device_percent", "%", "percent"),
    ColumnView("device_self_us", "Device self", "time", scale="device"),
    ColumnView("backward_host_us", "Backward, host", "time", scale="host"),
    ColumnView("backward_device_us", "Backward, device", "time", scale="device"),
    ColumnView("operators", "Operators"),
)
_DEVICE = frozenset({"device_total_us", "device_percent", "device_self_us", "backward_device_us"})


@dataclass(frozen=True)
class ModuleRow:
    """A row of the tree. depth: below the first row of the page. url: of the tree from this module, empty without
    modules inside. hidden: number of modules inside it that are not shown. host, device: bars, in percent."""

    name: str
    title: str
    type: str
    depth: int
    url: str
    hidden: int
    row: SheetRow
    host: float
    device: float | None


@dataclass(frozen=True)
class ModulesPage(Page):
    """choices: tree or by class. levels: depths of the tree. breadcrumbs: the modules above the first one."""

    template: ClassVar[str] = "results/modules.html"
    frame: ResultFrame
    choices: tuple[PageLink, ...]
    levels: tuple[PageLink, ...]
    breadcrumbs: tuple[PageLink, ...]
    charts: tuple[TopChart, ...]
    headings: tuple[ColumnHeading, ...]
    nodes: tuple[ModuleRow, ...]
    sheet: Sheet | None
    devices: bool
    csv: str


@blueprint.get("/results/<id>/modules")
def show(id: str) -> Response:
    """The tree, from `at` on and `levels` deep, or the classes."""
    frame, profile = open_result_frame(id, "modules")
    by = _by()
    rows = compute_modules(profile, frame.selection, by)
    devices = bool(rows["device_total_us"].notna().any())
    shown = _visible_columns(rows, devices)
    nodes: tuple[ModuleRow, ...] = ()
    levels: tuple[PageLink, ...] = ()
    trail: tuple[PageLink, ...] = ()
    table: Sheet | None = None
    if by == "type":
        columns = (ColumnView("module", "Class", "name"), ColumnView("modules", "Modules"), *shown)
        found, order = filter_and_sort(rows, columns, "-device_total_us" if devices else "-host_total_us", ("module",))
        bar = ("host_percent", "host_percent")
        table = build_sheet("Classes", found, columns, order, noun="row", bar=bar, total_rows=len(rows))
    else:
        nodes, levels, trail = _tree(frame, rows, shown)
    wanted = [("host_self_us", "", "Host self time")]
    if devices:
        wanted.append(("device_self_us", "", "Device self time"))
    return render(
        ModulesPage(
            frame=frame,
            choices=tuple(
                PageLink(
                    word,
                    GROUPING_LABELS[word],
                    frame.url(None, None, *([("by", word)] if word != BY[0] else [])),
                    word == by,
                )
                for word in BY
            ),
            levels=levels,
            breadcrumbs=trail,
            charts=build_top_charts(rows.assign(name=rows["module"]), wanted) if by == "type" else (),
            headings=build_headings(shown, column_scales(rows, shown), None),
            nodes=nodes,
            sheet=table,
            devices=devices,
            csv=table_file_url("modules.csv"),
        )
    )


@blueprint.get(f"/results/<id>/modules.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All rows; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "modules")
    return table_file_response(
        f"{frame.name} modules", file_format, compute_modules(profile, frame.selection, _by()), profile
    )


def _tree(
    frame: ResultFrame, rows: pd.DataFrame, column_views: tuple[ColumnView, ...]
) -> tuple[tuple[ModuleRow, ...], tuple[PageLink, ...], tuple[PageLink, ...]]:
    """(the rows of the tree, links to change its depth, breadcrumbs)."""
    rank, at = _parse_root()
    first = 0
    paths = rows["path"].tolist()
    if at:
        matching = rows.index[(rows["path"] == at) & (rows["rank"].isna() if rank is None else rows["rank"] == rank)]
        if not len(matching):
            raise InvalidRequest(f"No module {at[:80]!r} in this selection. Open it again from the tree.", "at")
        first = int(matching[0])
    top = int(rows["depth"].iloc[first]) if at else 0
    depths = rows["depth"].tolist()
    last = next((n for n in range(first + 1, len(depths)) if depths[n] <= top), len(depths)) if at else len(depths)
    part = rows.iloc[first:last]
    deepest = int(part["depth"].max()) - top + 1 if len(part) else 1
    levels = _levels(part["depth"] - top, deepest)
    below = _count_descendants(depths)
    visible = part[part["depth"] - top < levels]
    scales = column_scales(rows, column_views)
    cells = build_rows(visible, column_views, scales)
    nodes = []
    for place, row, cell in zip(visible.index.tolist(), records(visible), cells, strict=True):
        inside = below[place]
        cut = inside if row["depth"] - top == levels - 1 else 0
        nodes.append(
            ModuleRow(
                name=row["module"],
                title=row["path"],
                type=row["type"] or "",
                depth=min(MAX_DEPTH, row["depth"] - top),
                url=current_url_with(("at", _module_key(row)), ("levels", None))
                if inside and (place != first or not at)
                else "",
                hidden=cut,
                row=cell,
                host=row["host_percent"],
                device=row["device_percent"],
            )
        )
    links = tuple(
        PageLink(str(n), "All" if n == deepest else str(n), current_url_with(("levels", str(n))), n == levels)
        for n in sorted({1, 2, 3, 4, levels, deepest})
        if n <= deepest
    )
    trail = []
    if at:
        trail.append(PageLink("", "All modules", current_url_with(("at", None), ("levels", None)), False))
        words = paths[first].split("/")
        for count in range(1, len(words) + 1):
            place = "/".join(words[:count])
            prefix = "" if rank is None else f"{rank}:"
            trail.append(
                PageLink(
                    place,
                    words[count - 1],
                    current_url_with(("at", prefix + place), ("levels", None)),
                    count == len(words),
                )
            )
    return tuple(nodes), links if deepest > 1 else (), tuple(trail)


def _count_descendants(depths: list[int]) -> list[int]:
    """The number of descendants of each row, in preorder."""
    counts = [0] * len(depths)
    open_: list[int] = []
    for place, depth in enumerate(depths):
        while open_ and depths[open_[-1]] >= depth:
            open_.pop()
        for above in open_:
            counts[above] += 1
        open_.append(place)
    return counts


def _levels(depth: "pd.Series[Any]", deepest: int) -> int:
    text = request.args.get("levels")
    if text:
        if not text.isdecimal() or len(text) > 6 or int(text) < 1:
            raise InvalidRequest(f"levels must be a whole number from 1, not {text[:40]!r}.", "levels")
        return min(int(text), deepest)
    return next((n for n in range(deepest, 1, -1) if int((depth < n).sum()) <= MAX_ROWS), 1)


def _module_key(row: dict[str, Any]) -> str:
    return row["path"] if row["rank"] is None else f"{row['rank']}:{row['path']}"


def _parse_root() -> tuple[int | None, str]:
    """The root module of the tree: its rank, None for none, and its path, empty for all."""
    text = request.args.get("at") or ""
    rank, colon, path = text.partition(":")
    return (int(rank), path) if colon and rank.isdecimal() and len(rank) < 10 else (None, text)


def _visible_columns(rows: pd.DataFrame, devices: bool) -> tuple[ColumnView, ...]:
    rank = (ColumnView("rank", "Rank"),) if has_several_ranks(rows) else ()
    kept = [c for c in _COLUMNS if devices or c.column not in _DEVICE]
    shown = (c for c in kept if "backward" not in c.column or rows[c.column].notna().any())
    return inherit_descriptions(TABLES["modules"].columns, (*rank, *shown))


def _by() -> str:
    return parse_choice("by", BY, BY[0])
