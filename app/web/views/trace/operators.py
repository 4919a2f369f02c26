"""/results/<id>/operators: operators and annotations, and with `name` one of them by itself."""

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.core.schema import records
from ....analysis.core.told import by_pytorch
from ....analysis.ml.details import operator_detail
from ....analysis.ml.kernel_names import short_kernel_name
from ....analysis.ml.operator_parts import NONE, PARTS, parts_of
from ....analysis.ml.operators import BY, operators
from ....analysis.ml.tensor_cores import tensor_cores_there
from ....domain.errors import InvalidRequest, NotFound
from ....domain.profile import Profile
from ...rendering import Page, render
from ..results.detail import (
    NS_PER_US,
    Chart,
    DetailPage,
    Figure,
    charts_of,
    detail_url,
    distribution_chart,
    each_rank,
    figure,
    flamegraph_url,
    part,
    rank_links,
    several_ranks,
)
from ..results.frame import Frame, Link, open_frame
from ..results.sheets import Sheet, Shown, asked, sheet
from ..results.tables import FILE, here, table_file

blueprint = Blueprint("operators", __name__)
LABELS = {
    "name": "By name",
    "shapes": "By name and input shapes",
    "stack": "By name and call stack",
    "kind": "By kind",
    "tensor": "By tensor",
    "layer": "By layer",
    "device": "By device",
}
KINDS = ("operator", "annotation")
FOLDERS = re.compile(r"^[^()]*/(?=[^/()]+\.py\()")
MISSING = {
    "shapes": "No shapes of inputs were recorded. Record with record_shapes=True to tell calls apart by them.",
    "stack": "No call stacks were recorded. Record with with_stack=True to see what called each operator.",
}

_TIMES = (
    Shown("device_self_us", "Device self", "time", "Kernels, copies and sets that it launched itself", "device"),
    Shown("device_self_percent", "%", "percent", "Device self as a share of all that was launched"),
    Shown("device_total_us", "Device total", "time", "All that was launched while it ran", "device"),
    Shown("host_self_us", "Host self", "time", "In it, and in no operator or runtime call inside", "host"),
    Shown("host_self_percent", "%", "percent", "Host self as a share of all operators and annotations"),
    Shown("host_total_us", "Host total", "time", "In it", "host"),
    Shown("host_mean_us", "Mean", "time", "Host total of a call", "call"),
    Shown("host_min_us", "Min", "time", "The shortest call", "call"),
    Shown("host_max_us", "Max", "time", "The longest call", "call"),
)
_CORES = (
    Shown("tensor_core_eligible", "Tensor cores", "flag", "Whether tensor cores could run it"),
    Shown("tensor_core_self_percent", "Used, self", "percent", "Kernels on tensor cores as a share of device self"),
    Shown("tensor_core_total_percent", "Used, total", "percent", "Kernels on tensor cores as a share of device total"),
)


@dataclass(frozen=True)
class OperatorsPage(Page):
    """kinds, choices, ranks: what to switch between; ranks empty where there is one. charts, totals: by self time and
    by total time. missing: what was not recorded."""

    template: ClassVar[str] = "results/operators.html"
    frame: Frame
    choices: tuple[Link, ...]
    kinds: tuple[Link, ...]
    ranks: tuple[Link, ...]
    charts: tuple[Chart, ...]
    totals: tuple[Chart, ...]
    sheet: Sheet
    missing: str
    csv: str
    devices: bool
    by_pytorch: bool


@blueprint.get("/results/<id>/operators")
def show(id: str) -> Response:
    """The table, or with `name` one operator."""
    frame, profile = open_frame(id, "operators")
    name = request.args.get("name")
    return _one(frame, profile, name) if name else _all(frame, profile)


@blueprint.get(f"/results/<id>/operators.{FILE}")
def as_file(id: str, form: str) -> Response:
    """All rows that kind and search leave, in the order of the page; columns as `perfloom report` names them."""
    frame, profile = open_frame(id, "operators")
    rows = _rows(frame, profile)
    found, _ = asked(
        rows, _columns(_by(), _devices(rows), True, True), _default(rows), ("name", "input_shapes", "call_stack")
    )
    return table_file(f"{frame.name} operators", form, found)


def _all(frame: Frame, profile: Profile) -> Response:
    by, rows = _by(), _rows(frame, profile)
    devices, each = _devices(rows), several_ranks(rows)
    shown = _columns(by, devices, each, tensor_cores_there(profile) is not False)
    found, order = asked(rows, shown, _default(rows), ("name", "input_shapes", "call_stack"))
    kind = _kind()
    # Annotations are around operators: beside them, their time would count twice.
    alike = found if kind == "annotation" else found[found["kind"] == "operator"]
    words = ("device", "host") if devices else ("host",)

    def charts(part: str) -> tuple[Chart, ...]:
        return charts_of(
            alike,
            [(f"{word}_{part}_us", f"{word}_{part}_percent", f"{word.capitalize()} {part} time") for word in words],
        )

    return render(
        OperatorsPage(
            frame=frame,
            choices=tuple(
                Link(word, LABELS[word], here(("by", None if word == "name" else word), ("page", None)), word == by)
                for word in _choices(profile, by)
            ),
            kinds=(
                Link("", "All", here(("kind", None), ("page", None)), kind is None),
                *(Link(w, f"{w.capitalize()}s", here(("kind", w), ("page", None)), w == kind) for w in KINDS),
            )
            if kind or rows["kind"].nunique() > 1
            else (),
            ranks=rank_links(profile),
            charts=charts("self"),
            totals=charts("total"),
            sheet=sheet(
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
                everything=len(rows),
            ),
            missing=_missing(by, rows) if by_pytorch(profile) else "",
            by_pytorch=by_pytorch(profile),
            csv=here(("page", None)).replace(f"/results/{frame.id}/operators", f"/results/{frame.id}/operators.csv", 1),
            devices=devices,
        )
    )


def _one(frame: Frame, profile: Profile, name: str) -> Response:
    rows = operators(profile, frame.selection, by_rank=False, name=name)
    if not len(rows):
        raise NotFound(f"No operator or annotation {name[:80]!r} is in this result, or none is left by the selection.")
    row = records(rows)[0]
    told = operator_detail(profile, frame.selection, name)
    devices = row["device_self_us"] is not None
    figures = [figure("Calls", row["calls"], "count")]
    for label, column in (
        ("Host total", "host_total_us"),
        ("Host self", "host_self_us"),
        ("Device total", "device_total_us"),
        ("Device self", "device_self_us"),
    ):
        if row[column] is not None:
            figures.append(figure(label, row[column] * NS_PER_US, "ns"))
    figures += [
        figure("Mean of a call", row["host_mean_us"] * NS_PER_US, "ns"),
        figure("Shortest", row["host_min_us"] * NS_PER_US, "ns"),
    ]
    figures.append(figure("Longest", row["host_max_us"] * NS_PER_US, "ns"))
    if devices and row["tensor_core_eligible"] is not None and tensor_cores_there(profile) is not False:
        figures.append(Figure("Could use tensor cores", "yes" if row["tensor_core_eligible"] else "no", ""))
        figures.append(figure("Of its device time on them", row["tensor_core_total_percent"], "percent"))

    def link(key: str) -> Any:
        return lambda found: "" if found["name"].startswith("(") else detail_url(frame, key, found["name"])

    calls = (
        Shown("calls", "Calls"),
        Shown("host_us", "Host", "time"),
        *((Shown("device_us", "Device", "time"),) if devices else ()),
    )
    parts = []
    if devices:
        columns = (
            Shown("name", "Kernel, copy or set", "name", short=short_kernel_name),
            Shown("place", "Launched by", "text"),
            Shown("calls", "Calls"),
            Shown("total_us", "Time", "time"),
        )
        parts.append(
            part("Kernels", told.kernels, columns, url=link("kernels"), note="Itself: not by an operator inside of it.")
        )
    for by, title in (("shapes", "Input shapes"), ("stack", "Call stacks")):
        alone = operators(profile, frame.selection, by, by_rank=False, name=name)
        column = "input_shapes" if by == "shapes" else "call_stack"
        known = alone[alone[column].notna()]
        columns = (
            Shown(column, title, "name", short=inside_out if by == "stack" else None),
            Shown("calls", "Calls"),
            Shown("host_total_us", "Host total", "time", scale="t"),
            Shown("host_mean_us", "Mean", "time"),
            *((Shown("device_total_us", "Device total", "time"),) if devices else ()),
        )
        if len(known) or by_pytorch(profile):
            parts.append(part(title, known, columns, note="" if len(known) else MISSING[by]))
    name_column = Shown("name", "Operator or annotation", "name")
    parts.append(part("Called from", told.callers, (name_column, *calls), url=link("operators")))
    parts.append(part("Calls inside", told.callees, (name_column, *calls), url=link("operators")))
    if len(told.steps):
        parts.append(part("Steps", told.steps, (Shown("name", "Step", "name"), *calls)))
    parts.append(part("Threads", told.threads, (Shown("name", "Thread", "name"), *calls)))
    charts = distribution_chart("Host time of a call", told.host, "call")
    if devices and told.device.any():
        charts += distribution_chart("Device time of a call", told.device, "call")
    return render(
        DetailPage(
            frame=frame,
            what="Annotation" if row["kind"] == "annotation" else "Operator",
            name=name,
            full="",
            back=frame.url("operators"),
            flamegraph=flamegraph_url(frame, name),
            figures=tuple(figures),
            charts=charts,
            parts=tuple(parts),
        )
    )


def inside_out(stack: str) -> str:
    """A call stack with the innermost call first, which tells it from its like, and files without their folders."""
    return " ← ".join(FOLDERS.sub("", call) for call in reversed(stack.split(";")))


def _columns(by: str, devices: bool, ranks: bool, cores: bool) -> tuple[Shown, ...]:
    times = _TIMES if devices else tuple(c for c in _TIMES if not c.column.startswith("device"))
    return (
        Shown("name", by.capitalize() if by in PARTS else "Operator", "name"),
        *((Shown("rank", "Rank"),) if ranks else ()),
        *((Shown("input_shapes", "Input shapes", "code"),) if by == "shapes" else ()),
        *(
            (Shown("call_stack", "Call stack", "code", "The innermost first", short=inside_out),)
            if by == "stack"
            else ()
        ),
        Shown("calls", "Calls", description="How often it was called"),
        *times,
        *(_CORES if devices and cores else ()),
    )


def _choices(profile: Profile, by: str) -> list[str]:
    """What rows can be by here. Shapes are offered where PyTorch could have recorded them, too, to tell how."""
    offered = {"name", "stack", by, *parts_of(profile), *(("shapes",) if by_pytorch(profile) else ())}
    return [word for word in BY if word in offered]


def _url(frame: Frame, by: str, row: dict[str, Any]) -> str:
    """The operator's own page; of those of a kind or tensor their names."""
    name = row["name"] or ""
    if by not in PARTS or row["kind"] == "annotation":
        return detail_url(frame, "operators", name)
    return here(("by", None), ("search", name), ("page", None)) if by in ("kind", "tensor") and name != NONE else ""


def _rows(frame: Frame, profile: Profile) -> pd.DataFrame:
    rows = operators(profile, frame.selection, _by(), by_rank=each_rank())
    kind = _kind()
    return rows if kind is None else rows[rows["kind"] == kind]


def _devices(rows: pd.DataFrame) -> bool:
    return bool(rows["device_self_us"].notna().any())


def _default(rows: pd.DataFrame) -> str:
    return "-device_self_us" if _devices(rows) else "-host_self_us"


def _missing(by: str, rows: pd.DataFrame) -> str:
    column = {"shapes": "input_shapes", "stack": "call_stack"}.get(by)
    return MISSING[by] if column and not rows[column].notna().any() else ""


def _by() -> str:
    by = request.args.get("by") or "name"
    if by not in BY:
        raise InvalidRequest(f"by is one of {', '.join(BY)}, not {by[:40]!r}.", "by")
    return by


def _kind() -> str | None:
    kind = request.args.get("kind") or None
    if kind is not None and kind not in KINDS:
        raise InvalidRequest(f"kind is one of {', '.join(KINDS)}, not {kind[:40]!r}.", "kind")
    return kind
