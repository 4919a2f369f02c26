"""The overview of a trace: devices, steps, idle time, ranks, operators, kernels, and recorded data."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ....analysis.core.facts import has_pytorch_terms
from ....analysis.core.schema import records
from ....analysis.core.slice_selection import has_clock
from ....analysis.distributed.top_lists import top_kernels, top_operators
from ....analysis.ml.idle import IdleCause
from ....analysis.ml.kernel_names import shorten_kernel_name
from ....analysis.ml.operator_parts import operator_parts_of
from ....analysis.ml.tokens import parse_step_kind
from ....analysis.tables import TABLES
from ....charts.heatmap_strips import HeatmapCell, draw_area, draw_heatmap_strip
from ....charts.stacked_bars import PANEL_SIZES, StackedValues, draw_columns
from ....domain.profile import Profile
from ....domain.tables import get_strings
from ....domain.units import NS_PER_MS, NS_PER_US, Quantity, format_bytes, format_percent, format_quantity
from ..results.detail import detail_url
from ..results.result_frame import ResultFrame
from .time_parts import (
    CAUSE_PARTS,
    PERCENT_SCALE,
    STEP_PARTS,
    HorizontalBar,
    PartShare,
    cause_values,
    device_label,
    draw_horizontal_bars,
    first_and_last,
    format_step,
    list_shares,
    list_step_notes,
    mean_values,
    recorder_notes,
    step_values,
)

MAX_AREAS = 4
"""Up to this number, devices are drawn as areas over time; more as strips."""
MAX_ROWS = 16
TOP_ROWS = 6
SHARES = {
    "utilization_percent": (
        "GPU utilization",
        "Share of the time from the first step to the last in which a kernel ran.",
    ),
    "sm_efficiency_percent": (
        "SM efficiency",
        "Estimated: share of that time in which an SM had a thread block to run, from the number of blocks of each "
        "kernel.",
    ),
    "occupancy_percent": (
        "Occupancy",
        "Estimated achieved occupancy: active warps as a share of the maximum per SM, weighted by the duration of each "
        "kernel.",
    ),
    "tensor_core_time_percent": (
        "Tensor cores",
        "Share of the kernel time in kernels that use tensor cores, by their names.",
    ),
}


@dataclass(frozen=True)
class DeviceCard:
    """A device model. devices: its devices. facts: labels and values."""

    name: str
    devices: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TraceFigure:
    """A key figure with description. text: for several devices, the range."""

    label: str
    text: str
    exact: str
    description: str


@dataclass(frozen=True)
class DeviceActivity:
    """A device over time. svg: without script or style."""

    label: str
    svg: Markup
    utilization: Quantity


@dataclass(frozen=True)
class IdleCauseRow:
    """A cause of idle time on all devices. css: its color."""

    css: str
    name: str
    description: str
    gaps: Quantity
    idle: Quantity
    percent: Quantity
    longest: Quantity


@dataclass(frozen=True)
class TopList:
    """The first rows of the page `key`. rows: short name, name, URL, value, share."""

    key: str
    title: str
    url: str
    more: str
    rows: tuple[tuple[str, str, str, Quantity, Quantity], ...]


@dataclass(frozen=True)
class RecordedItem:
    """Optional data. how_to_record: the option to record it, if it was not."""

    name: str
    is_recorded: bool
    how_to_record: str


@dataclass(frozen=True)
class RankSummary:
    """A rank in comparison: its mean step and its device."""

    rank: str
    url: str
    svg: Markup
    step: Quantity
    utilization: Quantity


@dataclass(frozen=True)
class TraceOverview:
    """The overview of a trace. uses_areas: whether devices are drawn as areas. time_range: of the charts. left_out:
    number of omitted devices. step_chart: the parts of each step, averaged over ranks."""

    figures: tuple[TraceFigure, ...]
    cards: tuple[DeviceCard, ...]
    activity: tuple[DeviceActivity, ...]
    uses_areas: bool
    efficiency: bool
    time_range: tuple[str, str]
    left_out: int
    step_chart: Markup
    step_shares: tuple[PartShare, ...]
    step_bar: tuple[HorizontalBar, ...]
    step_url: str
    notes: tuple[str, ...]
    idle: tuple[HorizontalBar, ...]
    gaps: tuple[IdleCauseRow, ...]
    ranks: tuple[RankSummary, ...]
    ranks_left_out: int
    communication_url: str
    top_lists: tuple[TopList, ...]
    recorded: tuple[RecordedItem, ...]


def build_trace_overview(frame: ResultFrame, profile: Profile) -> TraceOverview | None:
    """The overview; None for a profile without slices, or whose slices have no times."""
    if not has_clock(profile):
        return None
    every = records(TABLES["steps"].rows(profile, frame.selection))
    # Without steps or devices, the whole recording would be one step, which is not shown.
    steps = every if has_pytorch_terms(profile) or profile.steps.num_rows or profile.device_work.num_rows else []
    devices = records(TABLES["devices"].rows(profile, frame.selection))
    worked = [device for device in devices if device["work"]]
    idle = [row for row in records(TABLES["idle"].rows(profile, frame.selection)) if row["stream"] is None]
    busy, over, efficiency = _busy(frame, profile, worked)
    made_steps = _made_steps(frame, steps)
    average = mean_values([step_values(step) for step in steps])
    tabs = {tab.key for tab in frame.tabs}
    ranks = _ranks(frame, steps, worked)
    return TraceOverview(
        figures=_figures(steps, worked),
        cards=_cards(devices),
        activity=busy,
        uses_areas=len(worked) <= MAX_AREAS,
        efficiency=efficiency,
        time_range=over,
        left_out=max(0, len(worked) - MAX_ROWS),
        # `draw_columns` escapes every text and uses neither script nor style; tests hold it to that.
        step_chart=Markup(draw_columns("Time by step", STEP_PARTS, made_steps, "ns", "Step", PANEL_SIZES))
        if len(made_steps) > 1
        else Markup(),
        step_shares=list_shares(STEP_PARTS, average) if steps else (),
        step_bar=draw_horizontal_bars(STEP_PARTS, [StackedValues("average step", average)]) if steps else (),
        step_url=frame.url("steps"),
        notes=list_step_notes(profile, frame.selection),
        idle=_idle_bars(worked, idle),
        gaps=_gaps(worked, idle),
        ranks=ranks[:MAX_ROWS] if len(ranks) > 1 else (),
        ranks_left_out=max(0, len(ranks) - MAX_ROWS),
        communication_url=frame.url("communication") if "communication" in tabs else "",
        top_lists=_tops(frame, profile, tabs),
        recorded=_list_recorded(profile),
    )


def _figures(steps: list[dict[str, Any]], devices: list[dict[str, Any]]) -> tuple[TraceFigure, ...]:
    trace_figures = []
    if steps:
        count = len({step["step"] for step in steps})
        trace_figures.append(TraceFigure("Steps", f"{count:,}", f"{count:,}", "Completely recorded steps."))
        took = NS_PER_US * sum(step["total_us"] for step in steps) / len(steps)
        mean = format_quantity(took, "ns")
    # Steps that evaluate a prompt or a token are too different for a common mean.
    if steps and not any(parse_step_kind(step["step"]) for step in steps):
        trace_figures.append(
            TraceFigure("Mean step", mean.text, mean.exact, "From its start to its end on host and devices.")
        )
    for name, (label, description) in SHARES.items():
        values = [device[name] for device in devices if device[name] is not None]
        if values:
            low, high = min(values), max(values)
            text = format_percent(low) if low == high else _range(low, high)
            trace_figures.append(
                TraceFigure(label, text, f"{low:.6f} to {high:.6f}\u00a0%" if low < high else text, description)
            )
    return tuple(trace_figures)


def _range(low: float, high: float) -> str:
    return f"{low:.0f} – {high:.0f}\u00a0%" if high >= 10 else f"{low:.1f} – {high:.1f}\u00a0%"


def _cards(devices: list[dict[str, Any]]) -> tuple[DeviceCard, ...]:
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for device in devices:
        alike[device["name"], device["memory_bytes"], device["compute"], device["sms"]].append(device)
    device_cards = []
    for (name, memory, compute, sms), same in alike.items():
        if name and not (memory or compute or sms or any(one["work"] for one in same)):
            # Only the name is known.
            continue
        device_labels = [device_label(device["rank"], device["device"]) for device in same]
        device_cards.append(
            DeviceCard(
                name=name or "GPU",
                devices=", ".join(device_labels[:4])
                + (f" and {len(device_labels) - 4:,} more" if len(device_labels) > 4 else ""),
                facts=tuple(
                    (label, text)
                    for label, text in (
                        ("Memory", format_bytes(memory) if memory else ""),
                        ("Compute capability", compute or ""),
                        ("Multiprocessors", f"{sms:,}" if sms else ""),
                    )
                    if text
                ),
            )
        )
    return tuple(device_cards)


def _busy(
    frame: ResultFrame, profile: Profile, devices: list[dict[str, Any]]
) -> tuple[tuple[DeviceActivity, ...], tuple[str, str], bool]:
    """(devices over time, time range, whether there is an SM efficiency)."""
    parts: dict[tuple[Any, Any], list[dict[str, Any]]] = defaultdict(list)
    every = records(TABLES["utilization"].rows(profile, frame.selection)) if devices else []
    for part in every:
        parts[part["rank"], part["device"]].append(part)
    if not every:
        return (), ("", ""), False
    start, end = min(part["start_ms"] for part in every), max(part["end_ms"] for part in every)
    draw = draw_area if len(devices) <= MAX_AREAS else draw_heatmap_strip
    device_activities = []
    for device in devices[:MAX_ROWS]:
        label = device_label(device["rank"], device["device"])
        cells = [_cell(frame, part) for part in parts[device["rank"], device["device"]]]
        svg = Markup(draw(f"Utilization of {label} over time", cells, start, end))
        device_activities.append(DeviceActivity(label, svg, PERCENT_SCALE.format(device["utilization_percent"])))
    has_efficiency = any(part["sm_efficiency_percent"] is not None for part in every)
    return (
        tuple(device_activities),
        first_and_last([format_quantity(ms * NS_PER_MS, "ns").text for ms in (start, end)]),
        has_efficiency,
    )


def _cell(frame: ResultFrame, part: dict[str, Any]) -> HeatmapCell:
    start, end = (format_quantity(part[name] * NS_PER_MS, "ns").text for name in ("start_ms", "end_ms"))
    busy, used = part["utilization_percent"], part["sm_efficiency_percent"]
    words = f"{start} – {end}\nutilization {format_percent(busy)}"
    first, last = (round(part[name] * NS_PER_MS) for name in ("start_ms", "end_ms"))
    return HeatmapCell(
        start=part["start_ms"],
        end=part["end_ms"],
        share=None if busy is None else busy / 100,
        second_share=None if used is None else used / 100,
        title=words if used is None else f"{words}\nSM efficiency {format_percent(used)}",
        url=frame.filtered_url(None, start_ns=first, end_ns=last) if last > first else "",
    )


def _made_steps(frame: ResultFrame, steps: list[dict[str, Any]]) -> list[StackedValues]:
    """A column for each step, ranks averaged."""
    alike: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for step in steps:
        alike[step["step"]].append(step_values(step))
    several = len({step["rank"] for step in steps}) > 1
    return [
        StackedValues(
            format_step(name) + (", mean over ranks" if several else ""),
            mean_values(values),
            frame.filtered_url(None, step=name) if len(alike) > 1 else "",
            name,
        )
        for name, values in alike.items()
    ]


def _idle_bars(devices: list[dict[str, Any]], idle: list[dict[str, Any]]) -> tuple[HorizontalBar, ...]:
    made = []
    for device in devices[:MAX_ROWS]:
        gaps = [row for row in idle if (row["rank"], row["device"]) == (device["rank"], device["device"])]
        values = cause_values(device["busy_us"], gaps)
        made.append(StackedValues(device_label(device["rank"], device["device"]), values))
    return draw_horizontal_bars(CAUSE_PARTS, made)


def _gaps(devices: list[dict[str, Any]], idle: list[dict[str, Any]]) -> tuple[IdleCauseRow, ...]:
    observed = sum(device["observed_us"] for device in devices)
    idle_cause_rows = []
    for part, cause in zip(CAUSE_PARTS[1:], IdleCause, strict=True):
        rows = [row for row in idle if row["cause"] == cause.value]
        length = sum(row["idle_us"] for row in rows)
        if length:
            idle_cause_rows.append(
                IdleCauseRow(
                    css=f"shares-{part.key}",
                    name=part.name,
                    description=part.description,
                    gaps=format_quantity(sum(row["gaps"] for row in rows), "count"),
                    idle=format_quantity(length * NS_PER_US, "ns"),
                    percent=PERCENT_SCALE.format(100 * length / observed if observed else None),
                    longest=format_quantity(max(row["longest_us"] for row in rows) * NS_PER_US, "ns"),
                )
            )
    return tuple(idle_cause_rows)


def _ranks(frame: ResultFrame, steps: list[dict[str, Any]], devices: list[dict[str, Any]]) -> tuple[RankSummary, ...]:
    alike: dict[int, list[tuple[float, ...]]] = defaultdict(list)
    for step in steps:
        if step["rank"] is not None:
            alike[step["rank"]].append(step_values(step))
    made = [
        StackedValues(f"rank {rank}, mean step", mean_values(values), frame.filtered_url(None, ranks=((rank, rank),)))
        for rank, values in sorted(alike.items())
    ]
    busy: dict[int, list[float]] = defaultdict(list)
    for device in devices:
        if device["rank"] is not None and device["utilization_percent"] is not None:
            busy[device["rank"]].append(device["utilization_percent"])
    return tuple(
        RankSummary(
            rank=str(rank),
            url=bar.url,
            svg=bar.svg,
            step=bar.value,
            utilization=PERCENT_SCALE.format(sum(busy[rank]) / len(busy[rank]) if busy[rank] else None),
        )
        for rank, bar in zip(sorted(alike), draw_horizontal_bars(STEP_PARTS, made), strict=True)
    )


def _tops(frame: ResultFrame, profile: Profile, tabs: set[str]) -> tuple[TopList, ...]:
    """The operators and kernels with the most time, each with its page."""
    tops = []
    if profile.device_work.num_rows:
        for key, title, leaders in (
            ("operators", "Operators by device time", top_operators),
            ("kernels", "Kernels", top_kernels),
        ):
            top = leaders(profile, frame.selection, TOP_ROWS)
            tops.append(_top(frame, key, title, top.entries, top.count, top.total_ns))
    elif "operators" in tabs:
        by_kind = "kind" in operator_parts_of(profile)
        rows = TABLES["operators"].frame(profile, frame.selection, "kind" if by_kind else None)
        if by_kind:
            # Annotations around operators would come before all of them.
            rows = rows[rows["kind"] == "operator"]
        sums = (rows.groupby("name")["host_self_us"].sum() * NS_PER_US).sort_values(ascending=False, kind="stable")
        first = tuple((str(name), float(took)) for name, took in sums.head(TOP_ROWS).items())
        title, words = ("Operators by kind", [("by", "kind")]) if by_kind else ("Operators", [])
        tops.append(_top(frame, "operators", title, first, len(sums), float(sums.sum()), words))
    return tuple(top for top in tops if top.rows and top.key in tabs)


def _top(
    frame: ResultFrame,
    key: str,
    title: str,
    first: Sequence[tuple[str, float]],
    count: int,
    whole: float,
    words: Sequence[tuple[str, str]] = (),
) -> TopList:
    """words: parameters of the page, if rows are groups to search for."""
    return TopList(
        key=key,
        title=title,
        url=frame.url(key, None, *words),
        more=f"All {count:,}",
        rows=tuple(
            (
                shorten_kernel_name(name) if key == "kernels" else name,
                name,
                frame.url(key, None, ("search", name)) if words else detail_url(frame, key, name),
                format_quantity(took, "ns"),
                PERCENT_SCALE.format(100 * took / whole if whole else None),
            )
            for name, took in first
        ),
    )


_WORDS = (
    ("Device work", "activities with ProfilerActivity.CUDA", "a PyTorch that detects the GPU"),
    ("Steps", "schedule=…, and step() in each iteration", "--torch-steps"),
    ("Input shapes", "record_shapes=True", "--torch-shapes"),
    ("Python call stacks", "with_stack=True", "--torch-stacks"),
    ("Memory", "profile_memory=True", "--torch-memory"),
    ("Modules", "with_stack=True and with_modules=True", "--torch-stacks"),
)
"""Optional data of a trace, with the options for it: in a script, and of our recorder."""


def _list_recorded(profile: Profile) -> tuple[RecordedItem, ...]:
    if not has_pytorch_terms(profile):
        return ()
    sets, kinds = profile.argument_sets, set(get_strings(profile.categories, "kind"))

    def some(name: str) -> bool:
        return bool(sets.column(name).null_count < sets.num_rows)

    there = {
        "Device work": bool(profile.device_work.num_rows),
        "Steps": bool(profile.steps.num_rows),
        "Input shapes": some("shapes"),
        "Python call stacks": some("call_stack") or "python" in kinds,
        "Memory": bool(profile.allocations.num_rows or profile.counters.num_rows),
        "Modules": "module" in kinds,
    }
    by_option = bool(recorder_notes(profile))
    return tuple(RecordedItem(name, there[name], option if by_option else word) for name, word, option in _WORDS)
