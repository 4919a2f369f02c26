"""Elements of the pages of traces: the parts of the time of a step and of a device, with their labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ....analysis.core.facts import has_pytorch_terms, json_fact
from ....analysis.ml.idle import IdleCause
from ....analysis.ml.steps import ALL_STEP, steps_of
from ....charts.stacked_bars import StackedValues, StackPart, draw_horizontal_bar
from ....domain.list_text import abbreviate_names
from ....domain.profile import Profile
from ....domain.selection import Selection
from ....domain.units import NS_PER_US, Quantity, choose_scale, format_quantity
from ..results.result_frame import ResultFrame

PERCENT_SCALE = choose_scale(100, "percent")
STEP_PARTS = (
    StackPart("kernel", "Computation", "A kernel other than communication kernels ran on a device."),
    StackPart("communication", "Communication", "Only kernels of a communication library ran."),
    StackPart("memcpy", "Memcpy", "No kernel ran, but a memcpy from or to a device."),
    StackPart("memset", "Memset", "No kernel or memcpy ran, but a memset on a device."),
    StackPart("call", "Calls of collectives", "Devices were idle; the host was in the call of a collective."),
    StackPart(
        "runtime", "Runtime", "Devices were idle; the host was in a runtime call, such as a launch or synchronization."
    ),
    StackPart("dataloader", "DataLoader", "Devices were idle; the host waited for the next batch."),
    StackPart("cpu", "Operators on the CPU", "Devices were idle; the host was in an operator or annotation."),
    StackPart("other", "Other", "Devices were idle; the host was in none of these: Python outside of operators."),
)
"""The time of a step. The kernel time of the table `steps` is split into computation and communication."""
CAUSE_PARTS = (
    StackPart("kernel", "Busy", "The device ran kernels, memcpy or memset."),
    StackPart("dataloader", "Waited for the host", "The work after the gap was launched during the gap: too late."),
    StackPart(
        "memset",
        "Between kernels",
        "Launched in time; the gap is shorter than 30 µs, the overhead of starting a kernel.",
    ),
    StackPart(
        "memcpy",
        "Other waits",
        "Launched in time, but waited longer: for another stream, an event or memory; or the launch is unknown.",
    ),
    StackPart("other", "At the edges", "Before the first work of the device in the selection, or after the last."),
)
OVERLAP_PARTS = (
    StackPart("kernel", "Only computation", "Compute kernels ran, but no communication kernels."),
    StackPart("both", "Both at once", "Compute and communication kernels ran at the same time."),
    StackPart("communication", "Only communication", "Communication kernels ran, but no compute kernels."),
    StackPart("other", "Neither", "No kernel ran."),
)


@dataclass(frozen=True)
class PartShare:
    """A part with its total. css: its class."""

    css: str
    name: str
    description: str
    value: Quantity
    percent: Quantity


@dataclass(frozen=True)
class HorizontalBar:
    """A bar with its label. url: of the page with only it; empty for none. svg: without script or style."""

    label: str
    url: str
    svg: Markup
    value: Quantity


def step_values(step: Mapping[str, Any]) -> tuple[float, ...]:
    """The values of STEP_PARTS, in ns, of a row of the table `steps`."""
    names = ("memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other")
    communicating = step["communication_kernel_us"]
    parts = (step["kernel_us"] - communicating, communicating, *(step[f"{name}_us"] for name in names))
    return tuple(NS_PER_US * part for part in parts)


def overlap_values(step: Mapping[str, Any]) -> tuple[float, ...]:
    """The values of OVERLAP_PARTS, in ns, of a row of the table `communication`."""
    return tuple(NS_PER_US * step[f"{name}_us"] for name in ("computing", "both", "communicating", "neither"))


def cause_values(busy_us: float, gaps: Iterable[Mapping[str, Any]]) -> tuple[float, ...]:
    """The values of CAUSE_PARTS, in ns, of a device and the rows of the table `idle` of it."""
    of_cause = {gap["cause"]: gap["idle_us"] for gap in gaps}
    return tuple(NS_PER_US * value for value in (busy_us, *(of_cause.get(cause.value, 0.0) for cause in IdleCause)))


def mean_values(rows: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """The mean of values by part; empty for no values."""
    return tuple(sum(values) / len(rows) for values in zip(*rows, strict=True))


def list_shares(parts: Sequence[StackPart], values: Sequence[float]) -> tuple[PartShare, ...]:
    """The parts that have any value, as a legend with numbers. Without values, none."""
    whole = sum(values)
    percents = choose_scale(100, "percent")
    return tuple(
        PartShare(
            f"shares-{part.key}",
            part.name,
            part.description,
            format_quantity(value, "ns"),
            percents.format(100 * value / whole if whole else None),
        )
        for part, value in zip(parts, values, strict=bool(values))
        if value > 0
    )


def draw_horizontal_bars(parts: Sequence[StackPart], bars: Sequence[StackedValues]) -> tuple[HorizontalBar, ...]:
    """Bars of times; the longest has the full length."""
    whole = max((sum(bar.values) for bar in bars), default=0.0)
    return tuple(
        # `draw_horizontal_bar` escapes every text and uses neither script nor style; tests hold it to that.
        HorizontalBar(
            bar.label,
            bar.url,
            Markup(draw_horizontal_bar(parts, bar, "ns", whole)),
            format_quantity(sum(bar.values), "ns"),
        )
        for bar in bars
    )


def first_and_last(labels: Sequence[str]) -> tuple[str, str]:
    """The first and the last."""
    return (labels[0], labels[-1]) if labels else ("", "")


def format_step(name: str) -> str:
    """A label of a step: many have only a number, those of language models a word."""
    return f"step {name}" if name[:1].isdigit() else name


def format_step_with_rank(step: Mapping[str, Any], several: bool) -> str:
    """A label of a step, with its rank if there are several."""
    return format_step(step["step"]) + (f" of rank {step['rank']}" if several and step["rank"] is not None else "")


def step_url(frame: ResultFrame, step: Mapping[str, Any], several: bool) -> str:
    """The overview of one step; empty where there are no steps."""
    if step["step"] == ALL_STEP:
        return ""
    rank = step["rank"]
    only = {"ranks": ((rank, rank),)} if several and rank is not None else {}
    return frame.filtered_url("", step=step["step"], **only)


def device_label(rank: int | None, device: int | None) -> str:
    """A label of a device."""
    name = "GPU" if device is None else f"GPU {device}"
    return name if rank is None else f"rank {rank} · {name}"


def list_step_notes(profile: Profile, selection: Selection) -> tuple[str, ...]:
    """Notes on what a step is in this recording, and which ones are omitted."""
    found = []
    recorder = recorder_notes(profile)
    if recorder.get("step") and recorder["step"] != "whole run":
        counted = f" ({recorder['counted']})" if recorder.get("counted") else ""
        schedule = f", recorded by the schedule {recorder['schedule']}" if recorder.get("schedule") else ""
        found.append(f"A step is one {recorder['step']}{counted}{schedule}.")
    elif not profile.steps.num_rows:
        found.append("The recording has no steps, so it counts as one step.")
        if has_pytorch_terms(profile):
            found.append("Record with a schedule, or call the profiler's step() in each iteration, to get steps.")
    steps = steps_of(profile)
    left = [(int(steps.rank[row]), steps.name[row]) for row in (~steps.complete).nonzero()[0].tolist()]
    if left and selection.step is None:
        several = len({rank for rank, _ in left}) > 1
        names = [f"{name} of rank {rank}" if several else name for rank, name in left]
        few = abbreviate_names(names, 8)
        found.append(
            f"Not counted: step {few}. The profiler stopped before all its device work was recorded."
            if len(left) == 1
            else f"Not counted: steps {few}. The profiler stopped before all their device work was recorded."
        )
    return tuple(found)


def recorder_notes(profile: Profile) -> dict[str, str]:
    """The description of steps in the file from our recorder; empty for files of other profilers."""
    return {key: str(value)[:80] for key, value in json_fact(profile, "perfloom").items()}
