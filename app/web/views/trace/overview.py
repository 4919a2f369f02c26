"""What the overview says of a trace: devices, steps, idle time, ranks, operators and kernels, and what was recorded."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ....analysis.core.schema import records
from ....analysis.core.slices import has_clock
from ....analysis.core.told import by_pytorch
from ....analysis.distributed.leaders import kernel_leaders, operator_leaders
from ....analysis.ml.idle import Cause
from ....analysis.ml.operator_parts import parts_of
from ....analysis.ml.tokens import kind_of
from ....analysis.tables import TABLES
from ....charts.shares import Made, columns
from ....charts.strips import Cell, area, strip
from ....domain.profile import Profile
from ....domain.selection import NS_PER_MS
from ....domain.tables import texts
from ....domain.units import Quantity, percent, quantity, scale_for, size
from ..results.detail import detail_url
from ..results.frame import Frame
from .parts import (
    CAUSE_PARTS,
    NS_PER_US,
    STEP_PARTS,
    Lying,
    Share,
    cause_values,
    ends,
    lying,
    mean,
    recorder_said,
    shares,
    step_notes,
    step_text,
    step_values,
    where,
)

AREAS = 4
"""So many devices have an area over time each; more of them have strips."""
MOST_ROWS = 16
TOP = 6
PERCENTS = scale_for(100, "percent")
SHARES = {
    "utilization_percent": (
        "GPU utilization",
        "Share of the time from the first step to the last in which a kernel ran.",
    ),
    "sm_efficiency_percent": (
        "SM efficiency",
        "Estimated: share of that time in which a multiprocessor had a block of a kernel to run, from how many blocks "
        "each kernel has.",
    ),
    "occupancy_percent": (
        "Occupancy",
        "Estimated achieved occupancy: how many warps of those a multiprocessor could hold it held while a kernel ran, "
        "weighted by how long each kernel ran.",
    ),
    "tensor_core_time_percent": (
        "Tensor cores",
        "Share of the time of kernels that belongs to kernels which use tensor cores, as their names tell.",
    ),
}


@dataclass(frozen=True)
class Card:
    """A model of device. devices: which ones are of it. facts: words and numbers."""

    name: str
    devices: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Figure:
    """A number of the whole with what it means. text: of several devices from the least to the greatest."""

    label: str
    text: str
    exact: str
    description: str


@dataclass(frozen=True)
class Busy:
    """A device over time. svg: without script or style of its own."""

    label: str
    svg: Markup
    utilization: Quantity


@dataclass(frozen=True)
class Gap:
    """A cause of idle time on all devices. css: its color."""

    css: str
    name: str
    description: str
    gaps: Quantity
    idle: Quantity
    percent: Quantity
    longest: Quantity


@dataclass(frozen=True)
class Top:
    """The first rows of the page `key`. rows: name, where it leads, value, share."""

    key: str
    title: str
    url: str
    more: str
    rows: tuple[tuple[str, str, Quantity, Quantity], ...]


@dataclass(frozen=True)
class Recorded:
    """Something that may be recorded. how: how to get it, where it was not."""

    name: str
    there: bool
    how: str


@dataclass(frozen=True)
class Ranked:
    """A rank in comparison: its mean step and its device."""

    rank: str
    url: str
    svg: Markup
    step: Quantity
    utilization: Quantity


@dataclass(frozen=True)
class TraceOverview:
    """Everything of a trace. area: whether devices are drawn as areas. over: of what time. left_out: devices that are
    not drawn. step_chart: the parts of each step; several ranks averaged."""

    figures: tuple[Figure, ...]
    cards: tuple[Card, ...]
    busy: tuple[Busy, ...]
    area: bool
    efficiency: bool
    over: tuple[str, str]
    left_out: int
    step_chart: Markup
    step_ends: tuple[str, str]
    longest: Quantity
    step_shares: tuple[Share, ...]
    step_bar: tuple[Lying, ...]
    step_url: str
    notes: tuple[str, ...]
    idle: tuple[Lying, ...]
    gaps: tuple[Gap, ...]
    ranks: tuple[Ranked, ...]
    ranks_left_out: int
    communication_url: str
    tops: tuple[Top, ...]
    recorded: tuple[Recorded, ...]


def trace_overview(frame: Frame, profile: Profile) -> TraceOverview | None:
    """What there is to say of a trace; None for a profile without slices, or whose slices have no clock."""
    if not has_clock(profile):
        return None
    every = records(TABLES["steps"].rows(profile, frame.selection))
    # Who cannot record steps or devices is not told of the one step that all would be.
    steps = every if by_pytorch(profile) or profile.steps.num_rows or profile.device_work.num_rows else []
    devices = records(TABLES["devices"].rows(profile, frame.selection))
    worked = [device for device in devices if device["work"]]
    idle = [row for row in records(TABLES["idle"].rows(profile, frame.selection)) if row["stream"] is None]
    busy, over, efficiency = _busy(frame, profile, worked)
    made = _made_steps(frame, steps)
    average = mean([step_values(step) for step in steps])
    tabs = {tab.key for tab in frame.tabs}
    ranks = _ranks(frame, steps, worked)
    return TraceOverview(
        figures=_figures(steps, worked),
        cards=_cards(devices),
        busy=busy,
        area=len(worked) <= AREAS,
        efficiency=efficiency,
        over=over,
        left_out=max(0, len(worked) - MOST_ROWS),
        # `columns` escapes every text and uses neither script nor style; tests hold it to that.
        step_chart=Markup(columns("The time of each step", STEP_PARTS, made, "ns")) if len(made) > 1 else Markup(),
        step_ends=ends([step_text(step["step"]) for step in steps]),
        longest=quantity(max((sum(one.values) for one in made), default=None), "ns"),
        step_shares=shares(STEP_PARTS, average) if steps else (),
        step_bar=lying(STEP_PARTS, [Made("average step", average)]) if steps else (),
        step_url=frame.url("steps"),
        notes=step_notes(profile, frame.selection),
        idle=_idle_bars(worked, idle),
        gaps=_gaps(worked, idle),
        ranks=ranks[:MOST_ROWS] if len(ranks) > 1 else (),
        ranks_left_out=max(0, len(ranks) - MOST_ROWS),
        communication_url=frame.url("communication") if "communication" in tabs else "",
        tops=_tops(frame, profile, tabs),
        recorded=_recorded(profile),
    )


def _figures(steps: list[dict[str, Any]], devices: list[dict[str, Any]]) -> tuple[Figure, ...]:
    found = []
    if steps:
        count = len({step["step"] for step in steps})
        found.append(Figure("Steps", f"{count:,}", f"{count:,}", "Steps that were recorded whole."))
        took = NS_PER_US * sum(step["total_us"] for step in steps) / len(steps)
        told = quantity(took, "ns")
    # Evaluating a prompt and a token are too different for a mean of them.
    if steps and not any(kind_of(step["step"]) for step in steps):
        found.append(Figure("Mean step", told.text, told.exact, "From its start to its end on host and devices."))
    for name, (label, description) in SHARES.items():
        values = [device[name] for device in devices if device[name] is not None]
        if values:
            low, high = min(values), max(values)
            text = percent(low) if low == high else _range(low, high)
            found.append(Figure(label, text, f"{low:.6f} to {high:.6f}\u00a0%" if low < high else text, description))
    return tuple(found)


def _range(low: float, high: float) -> str:
    return f"{low:.0f} – {high:.0f}\u00a0%" if high >= 10 else f"{low:.1f} – {high:.1f}\u00a0%"


def _cards(devices: list[dict[str, Any]]) -> tuple[Card, ...]:
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for device in devices:
        alike[device["name"], device["memory_bytes"], device["compute"], device["sms"]].append(device)
    found = []
    for (name, memory, compute, sms), same in alike.items():
        if name and not (memory or compute or sms or any(one["work"] for one in same)):
            # Nothing is known but what it is called.
            continue
        listed = [where(device["rank"], device["device"]) for device in same]
        found.append(
            Card(
                name=name or "GPU",
                devices=", ".join(listed[:4]) + (f" and {len(listed) - 4:,} more" if len(listed) > 4 else ""),
                facts=tuple(
                    (label, text)
                    for label, text in (
                        ("Memory", size(memory) if memory else ""),
                        ("Compute capability", compute or ""),
                        ("Multiprocessors", f"{sms:,}" if sms else ""),
                    )
                    if text
                ),
            )
        )
    return tuple(found)


def _busy(
    frame: Frame, profile: Profile, devices: list[dict[str, Any]]
) -> tuple[tuple[Busy, ...], tuple[str, str], bool]:
    """(devices over time, from when to when, whether there is an SM efficiency)."""
    parts: dict[tuple[Any, Any], list[dict[str, Any]]] = defaultdict(list)
    every = records(TABLES["utilization"].rows(profile, frame.selection)) if devices else []
    for part in every:
        parts[part["rank"], part["device"]].append(part)
    if not every:
        return (), ("", ""), False
    start, end = min(part["start_ms"] for part in every), max(part["end_ms"] for part in every)
    draw = area if len(devices) <= AREAS else strip
    found = []
    for device in devices[:MOST_ROWS]:
        label = where(device["rank"], device["device"])
        cells = [_cell(frame, part) for part in parts[device["rank"], device["device"]]]
        svg = Markup(draw(f"Utilization of {label} over time", cells, start, end))
        found.append(Busy(label, svg, PERCENTS.quantity(device["utilization_percent"])))
    told = any(part["sm_efficiency_percent"] is not None for part in every)
    return tuple(found), ends([quantity(ms * NS_PER_MS, "ns").text for ms in (start, end)]), told


def _cell(frame: Frame, part: dict[str, Any]) -> Cell:
    start, end = (quantity(part[name] * NS_PER_MS, "ns").text for name in ("start_ms", "end_ms"))
    busy, used = part["utilization_percent"], part["sm_efficiency_percent"]
    words = f"{start} – {end}\nutilisation {percent(busy)}"
    first, last = (round(part[name] * NS_PER_MS) for name in ("start_ms", "end_ms"))
    return Cell(
        start=part["start_ms"],
        end=part["end_ms"],
        share=None if busy is None else busy / 100,
        second=None if used is None else used / 100,
        words=words if used is None else f"{words}\nSM efficiency {percent(used)}",
        url=frame.narrowed(None, start_ns=first, end_ns=last) if last > first else "",
    )


def _made_steps(frame: Frame, steps: list[dict[str, Any]]) -> list[Made]:
    """A column for each step, ranks averaged."""
    alike: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for step in steps:
        alike[step["step"]].append(step_values(step))
    several = len({step["rank"] for step in steps}) > 1
    return [
        Made(
            step_text(name) + (", mean of ranks" if several else ""),
            mean(values),
            frame.narrowed(None, step=name) if len(alike) > 1 else "",
        )
        for name, values in alike.items()
    ]


def _idle_bars(devices: list[dict[str, Any]], idle: list[dict[str, Any]]) -> tuple[Lying, ...]:
    made = []
    for device in devices[:MOST_ROWS]:
        gaps = [row for row in idle if (row["rank"], row["device"]) == (device["rank"], device["device"])]
        values = cause_values(device["busy_us"], gaps)
        made.append(Made(where(device["rank"], device["device"]), values))
    return lying(CAUSE_PARTS, made)


def _gaps(devices: list[dict[str, Any]], idle: list[dict[str, Any]]) -> tuple[Gap, ...]:
    observed = sum(device["observed_us"] for device in devices)
    found = []
    for part, cause in zip(CAUSE_PARTS[1:], Cause, strict=True):
        rows = [row for row in idle if row["cause"] == cause.value]
        length = sum(row["idle_us"] for row in rows)
        if length:
            found.append(
                Gap(
                    css=f"shares-{part.key}",
                    name=part.name,
                    description=part.description,
                    gaps=quantity(sum(row["gaps"] for row in rows), "count"),
                    idle=quantity(length * NS_PER_US, "ns"),
                    percent=PERCENTS.quantity(100 * length / observed if observed else None),
                    longest=quantity(max(row["longest_us"] for row in rows) * NS_PER_US, "ns"),
                )
            )
    return tuple(found)


def _ranks(frame: Frame, steps: list[dict[str, Any]], devices: list[dict[str, Any]]) -> tuple[Ranked, ...]:
    alike: dict[int, list[tuple[float, ...]]] = defaultdict(list)
    for step in steps:
        if step["rank"] is not None:
            alike[step["rank"]].append(step_values(step))
    made = [
        Made(f"rank {rank}, mean step", mean(values), frame.narrowed(None, ranks=((rank, rank),)))
        for rank, values in sorted(alike.items())
    ]
    busy: dict[int, list[float]] = defaultdict(list)
    for device in devices:
        if device["rank"] is not None and device["utilization_percent"] is not None:
            busy[device["rank"]].append(device["utilization_percent"])
    return tuple(
        Ranked(
            rank=str(rank),
            url=bar.url,
            svg=bar.svg,
            step=bar.value,
            utilization=PERCENTS.quantity(sum(busy[rank]) / len(busy[rank]) if busy[rank] else None),
        )
        for rank, bar in zip(sorted(alike), lying(STEP_PARTS, made), strict=True)
    )


def _tops(frame: Frame, profile: Profile, tabs: set[str]) -> tuple[Top, ...]:
    """The operators and kernels that took most, each with its page."""
    found = []
    if profile.device_work.num_rows:
        for key, title, leaders in (
            ("operators", "Operators, by what they launched", operator_leaders),
            ("kernels", "Kernels", kernel_leaders),
        ):
            told = leaders(profile, frame.selection, TOP)
            found.append(_top(frame, key, title, told.first, told.count, told.whole_ns))
    elif "operators" in tabs:
        by_kind = "kind" in parts_of(profile)
        rows = TABLES["operators"].rows(profile, frame.selection, "kind" if by_kind else None)
        if by_kind:
            # What is marked around operators would stand before all of them.
            rows = rows[rows["kind"] == "operator"]
        sums = (rows.groupby("name")["host_self_us"].sum() * NS_PER_US).sort_values(ascending=False, kind="stable")
        first = tuple((str(name), float(took)) for name, took in sums.head(TOP).items())
        title, words = ("Operators by kind", [("by", "kind")]) if by_kind else ("Operators", [])
        found.append(_top(frame, "operators", title, first, len(sums), float(sums.sum()), words))
    return tuple(top for top in found if top.rows and top.key in tabs)


def _top(
    frame: Frame,
    key: str,
    title: str,
    first: Sequence[tuple[str, float]],
    count: int,
    whole: float,
    words: Sequence[tuple[str, str]] = (),
) -> Top:
    """words: of the page's address, where rows are groups that are looked for there."""
    return Top(
        key=key,
        title=title,
        url=frame.url(key, None, *words),
        more=f"All {count:,}",
        rows=tuple(
            (
                name,
                frame.url(key, None, ("search", name)) if words else detail_url(frame, key, name),
                quantity(took, "ns"),
                PERCENTS.quantity(100 * took / whole if whole else None),
            )
            for name, took in first
        ),
    )


_WORDS = (
    ("Work of devices", "activities with ProfilerActivity.CUDA", "a PyTorch that finds the GPU"),
    ("Steps", "schedule=…, and step() in each iteration", "--torch-steps"),
    ("Shapes of inputs", "record_shapes=True", "--torch-shapes"),
    ("Call stacks of Python", "with_stack=True", "--torch-stacks"),
    ("Memory", "profile_memory=True", "--torch-memory"),
    ("Modules", "with_stack=True and with_modules=True", "--torch-stacks"),
)
"""What a trace may hold, and how it is asked for: in a script, and of our recorder."""


def _recorded(profile: Profile) -> tuple[Recorded, ...]:
    if not by_pytorch(profile):
        return ()
    sets, kinds = profile.argument_sets, set(texts(profile.categories, "kind"))

    def some(name: str) -> bool:
        return bool(sets.column(name).null_count < sets.num_rows)

    there = {
        "Work of devices": bool(profile.device_work.num_rows),
        "Steps": bool(profile.steps.num_rows),
        "Shapes of inputs": some("shapes"),
        "Call stacks of Python": some("call_stack") or "python" in kinds,
        "Memory": bool(profile.allocations.num_rows or profile.counters.num_rows),
        "Modules": "module" in kinds,
    }
    by_option = bool(recorder_said(profile))
    return tuple(Recorded(name, there[name], option if by_option else word) for name, word, option in _WORDS)
