"""/results/<id>/operators: operators and annotations; with `name` the details of one."""

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.core.facts import has_pytorch_terms
from ....analysis.core.schema import records
from ....analysis.ml.details import operator_detail
from ....analysis.ml.kernel_names import shorten_kernel_name
from ....analysis.ml.operator_parts import NO_PART, OPERATOR_PARTS, operator_parts_of
from ....analysis.ml.operators import BY, compute_operators
from ....analysis.ml.tensor_cores import device_has_tensor_cores
from ....analysis.tables import TABLES
from ....domain.errors import NotFound
from ....domain.profile import Profile
from ....domain.units import NS_PER_US
from ...parameters import parse_choice
from ...rendering import Page, render
from ..results.detail import (
    DetailPage,
    KeyFigure,
    TopChart,
    build_detail_table,
    build_distribution_chart,
    build_figure,
    build_rank_links,
    build_top_charts,
    detail_url,
    flamegraph_url,
    has_several_ranks,
    is_by_rank,
)
from ..results.result_frame import PageLink, ResultFrame, open_result_frame
from ..results.sheets import ColumnView, Sheet, build_sheet, filter_and_sort, inherit_descriptions
from ..results.tables import FILE_RULE, current_url_with, table_file_response, table_file_url

blueprint = Blueprint("operators", __name__)
GROUPING_LABELS = {
    "name": "By name",
    "shapes": "By name and input shapes",
    "stack": "By name and call stack",
    "kind": "By kind",
    "tensor": "By tensor",
    "layer": "By layer",
    "device": "By device",
}
KINDS = ("operator", "annotation")
FOLDER_PATTERN = re.compile(r"^[^()]*/(?=[^/()]+\.py\()")
MISSING_TEXTS = {
    "shapes": "No input shapes were recorded. Record with record_shapes=True to distinguish calls by shape.",
    "stack": "No call stacks were recorded. Record with with_stack=True to see the callers of each operator.",
}

_TIMES = (
    ColumnView("device_self_us", "Device self", "time", scale="device"),
    ColumnView("device_self_percent", "%", "percent"),
    ColumnView("device_total_us", "Device total", "time", scale="device"),
    ColumnView("host_self_us", "Host self", "time", scale="host"),
    ColumnView("host_self_percent", "%", "percent", extra=True),
    ColumnView("host_total_us", "Host total", "time", scale="host"),
    ColumnView("host_mean_us", "Mean", "time", scale="call"),
    ColumnView("host_min_us", "Min", "time", scale="call", extra=True),
    ColumnView("host_max_us", "Max", "time", scale="call"),
)
_CORES = (
    ColumnView("tensor_core_eligible", "Tensor cores", "flag", extra=True),
    ColumnView("tensor_core_self_percent", "Used, self", "percent"),
    ColumnView("tensor_core_total_percent", "Used, total", "percent", extra=True),
)


@dataclass(frozen=True)
class OperatorsPage(Page):
    """kinds, choices, ranks: links to switch; ranks empty if there is only one. charts, totals: by self time and by
    total time. missing: a note on data that was not recorded."""

    template: ClassVar[str] = "results/operators.html"
    frame: ResultFrame
    choices: tuple[PageLink, ...]
    kinds: tuple[PageLink, ...]
    ranks: tuple[PageLink, ...]
    charts: tuple[TopChart, ...]
    totals: tuple[TopChart, ...]
    sheet: Sheet
    missing: str
    csv: str
    has_devices: bool
    has_pytorch_terms: bool


@blueprint.get("/results/<id>/operators")
def show(id: str) -> Response:
    """The table, or with `name` one operator."""
    frame, profile = open_result_frame(id, "operators")
    name = request.args.get("name")
    return _render_operator(frame, profile, name) if name else _render_table(frame, profile)


@blueprint.get(f"/results/<id>/operators.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All rows that kind and search leave, in the order of the page; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "operators")
    rows = _rows(frame, profile)
    found, _ = filter_and_sort(
        rows, _columns(_by(), _devices(rows), True, True), _default(rows), ("name", "input_shapes", "call_stack")
    )
    return table_file_response(f"{frame.name} operators", file_format, found, profile)


def _render_table(frame: ResultFrame, profile: Profile) -> Response:
    by, rows = _by(), _rows(frame, profile)
    devices, each = _devices(rows), has_several_ranks(rows)
    shown = _columns(by, devices, each, device_has_tensor_cores(profile) is not False)
    found, order = filter_and_sort(rows, shown, _default(rows), ("name", "input_shapes", "call_stack"))
    kind = _kind()
    # Annotations enclose operators, so their time would count twice.
    alike = found if kind == "annotation" else found[found["kind"] == "operator"]
    words = ("device", "host") if devices else ("host",)

    def charts(part: str) -> tuple[TopChart, ...]:
        return build_top_charts(
            alike,
            [(f"{word}_{part}_us", f"{word}_{part}_percent", f"{word.capitalize()} {part} time") for word in words],
            url=lambda row: _url(frame, by, row),
        )

    return render(
        OperatorsPage(
            frame=frame,
            choices=tuple(
                PageLink(
                    word,
                    GROUPING_LABELS[word],
                    current_url_with(("by", None if word == "name" else word), ("page", None)),
                    word == by,
                )
                for word in _choices(profile, by)
            ),
            kinds=(
                PageLink("", "All", current_url_with(("kind", None), ("page", None)), kind is None),
                *(
                    PageLink(w, f"{w.capitalize()}s", current_url_with(("kind", w), ("page", None)), w == kind)
                    for w in KINDS
                ),
            )
            if kind or rows["kind"].nunique() > 1
            else (),
            ranks=build_rank_links(profile),
            charts=charts("self"),
            totals=charts("total"),
            sheet=build_sheet(
                "Operators",
                found,
                shown,
                order,
                noun="row",
                url=lambda row: _url(frame, by, row),
                bar=("device_self_percent", "device_total_percent")
                if devices
                else ("host_self_percent", "host_total_percent"),
                mark="kind",
                total_rows=len(rows),
            ),
            missing=_missing(by, rows) if has_pytorch_terms(profile) else "",
            has_pytorch_terms=has_pytorch_terms(profile),
            csv=table_file_url("operators.csv"),
            has_devices=devices,
        )
    )


def _render_operator(frame: ResultFrame, profile: Profile, name: str) -> Response:
    rows = compute_operators(profile, frame.selection, by_rank=False, name=name)
    if not len(rows):
        raise NotFound(f"No operator or annotation {name[:80]!r} in this result or selection.")
    row = records(rows)[0]
    detail = operator_detail(profile, frame.selection, name)
    devices = row["device_self_us"] is not None
    figures = [build_figure("Calls", row["calls"], "count")]
    for label, column in (
        ("Host total", "host_total_us"),
        ("Host self", "host_self_us"),
        ("Device total", "device_total_us"),
        ("Device self", "device_self_us"),
    ):
        if row[column] is not None:
            figures.append(build_figure(label, row[column] * NS_PER_US, "ns"))
    figures += [
        build_figure("Mean", row["host_mean_us"] * NS_PER_US, "ns"),
        build_figure("Min", row["host_min_us"] * NS_PER_US, "ns"),
    ]
    figures.append(build_figure("Max", row["host_max_us"] * NS_PER_US, "ns"))
    if devices and row["tensor_core_eligible"] is not None and device_has_tensor_cores(profile) is not False:
        figures.append(KeyFigure("Could use tensor cores", "yes" if row["tensor_core_eligible"] else "no", ""))
        figures.append(build_figure("Device time on tensor cores", row["tensor_core_total_percent"], "percent"))

    def link(key: str) -> Any:
        return lambda found: "" if found["name"].startswith("(") else detail_url(frame, key, found["name"])

    calls = (
        ColumnView("calls", "Calls"),
        ColumnView("host_us", "Host", "time"),
        *((ColumnView("device_us", "Device", "time"),) if devices else ()),
    )
    parts = []
    if devices:
        columns = (
            ColumnView("name", "Kernel, memcpy or memset", "name", shorten=shorten_kernel_name),
            ColumnView("place", "Launched by", "text"),
            ColumnView("calls", "Calls"),
            ColumnView("total_us", "Time", "time"),
        )
        parts.append(
            build_detail_table(
                "Kernels",
                detail.kernels,
                columns,
                url=link("kernels"),
                note="Without kernels launched by nested operators.",
            )
        )
    for by, title in (("shapes", "Input shapes"), ("stack", "Call stacks")):
        alone = compute_operators(profile, frame.selection, by, by_rank=False, name=name)
        column = "input_shapes" if by == "shapes" else "call_stack"
        known = alone[alone[column].notna()]
        columns = (
            ColumnView(column, title, "name", shorten=innermost_first if by == "stack" else None),
            ColumnView("calls", "Calls"),
            ColumnView("host_total_us", "Host total", "time", scale="t"),
            ColumnView("host_mean_us", "Mean", "time"),
            *((ColumnView("device_total_us", "Device total", "time"),) if devices else ()),
        )
        if len(known) or has_pytorch_terms(profile):
            parts.append(build_detail_table(title, known, columns, note="" if len(known) else MISSING_TEXTS[by]))
    name_column = ColumnView("name", "Operator or annotation", "name")
    parts.append(build_detail_table("Callers", detail.callers, (name_column, *calls), url=link("operators")))
    parts.append(build_detail_table("Callees", detail.callees, (name_column, *calls), url=link("operators")))
    if len(detail.steps):
        parts.append(build_detail_table("Steps", detail.steps, (ColumnView("name", "Step", "name"), *calls)))
    parts.append(build_detail_table("Threads", detail.threads, (ColumnView("name", "Thread", "name"), *calls)))
    charts = build_distribution_chart("Host time of a call", detail.host, "call")
    if devices and detail.device.any():
        charts += build_distribution_chart("Device time of a call", detail.device, "call")
    return render(
        DetailPage(
            frame=frame,
            kind="Annotation" if row["kind"] == "annotation" else "Operator",
            name=name,
            full_name="",
            back=frame.url("operators"),
            flamegraph=flamegraph_url(frame, name),
            figures=tuple(figures),
            charts=charts,
            tables=tuple(parts),
        )
    )


def innermost_first(stack: str) -> str:
    """A call stack innermost call first, which is the most distinctive, and files without their folders."""
    return " ← ".join(FOLDER_PATTERN.sub("", call) for call in reversed(stack.split(";")))


def _columns(by: str, devices: bool, ranks: bool, cores: bool) -> tuple[ColumnView, ...]:
    # Without devices there is room for all of them.
    times = _TIMES if devices else tuple(replace(c, extra=False) for c in _TIMES if not c.column.startswith("device"))
    found = (
        ColumnView("name", by.capitalize() if by in OPERATOR_PARTS else "Operator", "name"),
        *((ColumnView("rank", "Rank", fixed=True),) if ranks else ()),
        *((ColumnView("input_shapes", "Input shapes", "code", fixed=True),) if by == "shapes" else ()),
        *(
            (
                ColumnView(
                    "call_stack", "Call stack", "code", "Innermost call first", shorten=innermost_first, fixed=True
                ),
            )
            if by == "stack"
            else ()
        ),
        ColumnView("calls", "Calls"),
        *times,
        *(_CORES if devices and cores else ()),
    )
    return inherit_descriptions(TABLES["operators"].columns, found)


def _choices(profile: Profile, by: str) -> list[str]:
    """The available groupings. Shapes are also offered where PyTorch could have recorded them, to explain how."""
    offered = {"name", "stack", by, *operator_parts_of(profile), *(("shapes",) if has_pytorch_terms(profile) else ())}
    return [word for word in BY if word in offered]


def _url(frame: ResultFrame, by: str, row: dict[str, Any]) -> str:
    """The page of the operator; for a kind or tensor, a search for it."""
    name = row["name"] or ""
    if by not in OPERATOR_PARTS or row["kind"] == "annotation":
        return detail_url(frame, "operators", name)
    return (
        current_url_with(("by", None), ("search", name), ("page", None))
        if by in ("kind", "tensor") and name != NO_PART
        else ""
    )


def _rows(frame: ResultFrame, profile: Profile) -> pd.DataFrame:
    rows = compute_operators(profile, frame.selection, _by(), by_rank=is_by_rank())
    kind = _kind()
    return rows if kind is None else rows[rows["kind"] == kind]


def _devices(rows: pd.DataFrame) -> bool:
    return bool(rows["device_self_us"].notna().any())


def _default(rows: pd.DataFrame) -> str:
    return "-device_self_us" if _devices(rows) else "-host_self_us"


def _missing(by: str, rows: pd.DataFrame) -> str:
    column = {"shapes": "input_shapes", "stack": "call_stack"}.get(by)
    return MISSING_TEXTS[by] if column and not rows[column].notna().any() else ""


def _by() -> str:
    return parse_choice("by", BY, "name")


def _kind() -> str | None:
    return parse_choice("kind", KINDS) or None
