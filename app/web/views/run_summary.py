"""The run summary of the overview: how each event was sampled, and the conditions of the recording."""

from dataclasses import dataclass
from typing import Any

from ...analysis.core.slice_selection import has_times
from ...analysis.counts.run_summary import BY_HEADER, NO_MULTIPLEXING
from ...analysis.tables import TABLES, records
from ...domain.event_names import uses_counter
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.timed_events import SCHEDULER_EVENTS
from ...domain.units import NS_PER_MS, Quantity, format_quantity

MAX_EVENTS = 50
UNKNOWN = "unknown"
STACKS = {"none": "none", "dwarf": "DWARF", "lbr": "LBR", "frame pointers": "frame pointers"}
TITLES = {
    "command": "Command",
    "host": "Host",
    "recorder": "Recorder",
    "kernel": "Kernel",
    "memory": "Memory",
    "frequency governor": "Frequency governor",
    "throttling": "Throttling",
    "lost samples": "Lost samples",
    "overhead of recording": "Overhead of recording",
}
"""Names of conditions as headings, where they differ."""
SHOWN_ELSEWHERE = ("command", "recorder")
"""Conditions that the overview shows in another place."""


@dataclass(frozen=True)
class SamplingRow:
    """How an event was sampled. where: user space, kernel or both. counter: share of the time in which it had a
    hardware counter."""

    name: str
    sampling: str
    where: str
    precise: str
    stacks: str
    samples: Quantity
    duration: Quantity
    counter: str


@dataclass(frozen=True)
class ConditionRow:
    """A condition. value: empty if it is not known; note: then how to get it, else what it means."""

    name: str
    value: str
    note: str


@dataclass(frozen=True)
class RunSummary:
    """events: the first ones. more_events: number of the others. with_attributes, with_counter: whether something is
    known about where events were measured, and about counters. known, unknown: conditions."""

    events: tuple[SamplingRow, ...]
    more_events: int
    with_attributes: bool
    with_counter: bool
    known: tuple[ConditionRow, ...]
    unknown: tuple[ConditionRow, ...]


def build_run_summary(profile: Profile) -> RunSummary | None:
    """The run summary of a whole profile; None if it has no events that were sampled or counted."""
    if profile.slices.num_rows or not (profile.samples.num_rows or profile.counts.num_rows):
        return None
    rows = records(TABLES["sampling"].rows(profile, Selection()))
    conditions = [
        ConditionRow(TITLES.get(row["condition"], row["condition"]), row["value"] or "", row["note"] or "")
        for row in records(TABLES["conditions"].rows(profile, Selection()))
        if row["condition"] not in SHOWN_ELSEWHERE
    ]
    events = tuple(_sampling_row(profile, row) for row in rows[:MAX_EVENTS])
    with_attributes = any(UNKNOWN not in (row.where, row.stacks) for row in events)
    with_counter = any(row.counter not in (UNKNOWN, "–") for row in events)
    if not with_attributes:
        conditions.append(ConditionRow("Attributes of events", "", BY_HEADER))
    if not with_counter and any(row.counter == UNKNOWN for row in events):
        conditions.append(ConditionRow("Multiplexing", "", NO_MULTIPLEXING))
    return RunSummary(
        events=events,
        more_events=max(0, len(rows) - MAX_EVENTS),
        with_attributes=with_attributes,
        with_counter=with_counter,
        known=tuple(row for row in conditions if row.value),
        unknown=tuple(row for row in conditions if not row.value),
    )


def describe_sampling(profile: Profile, row: dict[str, Any]) -> str:
    """How an event was measured, by its row of the table `events` or `sampling`."""
    rate, unit = row["rate"], row["unit"]
    if row["sampling"] == "frequency" and rate is not None:
        words = f"{rate:,.0f} samples per second"
    elif row["sampling"] == "period" and rate is not None:
        words = "every event" if rate == 1 else f"every {rate:,.0f}th"
        words = f"every {format_quantity(rate, unit).text}" if unit in ("ns", "bytes") else words
    elif not row["samples"]:
        return "counted"
    elif not row.get("weighted", True):
        words = "sampled, each with weight 1"
    elif unit == "bytes" and profile.allocations.num_rows:
        words = "from allocations"
    elif row["event"] in SCHEDULER_EVENTS:
        words = "from context switches"
    elif profile.slices.num_rows:
        words = "from slices"
    else:
        words = "sampled" if has_times(profile) else "summed by call stack"
    return words


def _sampling_row(profile: Profile, row: dict[str, Any]) -> SamplingRow:
    milliseconds = row["duration_ms"]
    percent = row["running_percent"]
    sampled, has_counter = row["sampling"] != "counted", uses_counter(row["event"])
    return SamplingRow(
        name=row["event"],
        sampling=describe_sampling(profile, row),
        where=_where(row["user"], row["kernel"]),
        precise=UNKNOWN if row["precise_level"] is None and sampled else _number(row["precise_level"]),
        stacks=STACKS.get(row["call_stacks"] or "", UNKNOWN if sampled else "–"),
        samples=format_quantity(row["samples"], "count"),
        duration=format_quantity(None if milliseconds is None else milliseconds * NS_PER_MS, "ns"),
        counter=format_quantity(percent, "percent").text if percent is not None else UNKNOWN if has_counter else "–",
    )


def _where(user: bool | None, kernel: bool | None) -> str:
    if user is None or kernel is None:
        return UNKNOWN
    return {(True, True): "user, kernel", (True, False): "user", (False, True): "kernel"}.get((user, kernel), "neither")


def _number(value: int | None) -> str:
    return "–" if value is None else str(value)
