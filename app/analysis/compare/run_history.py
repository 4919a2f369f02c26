"""The history of a value: one row for each run, the levels, and a sentence."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.errors import NotFound
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.text import shorten
from ...domain.units import format_percent, format_utc
from ..core.common_columns import EVENT
from ..core.functions import function_id
from ..core.sample_counts import count_call_samples
from ..core.sample_selection import event_id
from ..core.schema import Column, TableRows, build_rows
from ..stacks.hotspots import function_weights
from .evidence import PSEUDO_SAMPLES
from .history import MIN_LEVEL, NEXT_RUNS, LevelChange, Levels, find_levels

MAX_RUNS = 300
"""The newest; the time for change points grows with the square of their number."""
MOST_COMPARED = 20
"""Runs of a level in a comparison: those next to the change."""
MEASURES = ("total", "self")
NORMAL_95 = 1.96
COLUMNS = (
    Column("name", "", "Name of the result."),
    Column("id", "", "Its id."),
    Column("recorded", "", "When it was recorded, else stored: UTC."),
    Column("host", "", "Where it was recorded."),
    EVENT,
    Column("unit", "", "The unit of the values: count, ns or bytes."),
    Column("value", "event", "The total of the event, or the self or total of the function.", "Float64"),
    Column("low", "event", "Lower end of the 95 % interval of the value, from sampling alone.", "Float64"),
    Column("high", "event", "Upper end of the interval.", "Float64"),
    Column("level", "event", "Geometric mean of the runs between two changes.", "Float64"),
    Column("change_percent", "%", "New ÷ old level − 1, at the first run of a level.", "Float64"),
    Column("change_low_percent", "%", "Lower end of the 95 % interval of the change.", "Float64"),
    Column("change_high_percent", "%", "Upper end of the interval.", "Float64"),
)


@dataclass(frozen=True)
class HistoryRun:
    """A run. recorded: seconds since the epoch. variance: of sampling, relative to the square of the value; 0 for
    counted values."""

    id: str
    name: str
    recorded: float
    host: str
    value: float
    variance: float


@dataclass(frozen=True, eq=False)
class RunHistory:
    """Runs with positive values in the order of recording, and their levels. left_out: sentences on runs without."""

    runs: tuple[HistoryRun, ...]
    event: str
    unit: str
    function: str
    measure: str
    levels: Levels
    left_out: tuple[str, ...] = ()

    def level_of(self, at: int) -> int:
        """The number of the level of a run."""
        return next(number for number, level in enumerate(self.levels.levels) if at < level.end)

    def compared_with(self, at: int) -> tuple[Sequence[HistoryRun], Sequence[HistoryRun]]:
        """(base, other) that tell what changed at a run: at the first one of a level both levels, else the run before
        and this one. Both are empty for the first run."""
        number = self.level_of(at)
        level = self.levels.levels[number]
        if at == level.first and number:
            before = self.levels.levels[number - 1]
            return self.runs[before.first : before.end][-MOST_COMPARED:], self.runs[at : level.end][:MOST_COMPARED]
        return (self.runs[at - 1 : at], self.runs[at : at + 1]) if at else ((), ())

    def rows(self) -> TableRows:
        """The table of the runs, the newest last."""
        value = np.array([run.value for run in self.runs], np.float64)
        low, high = self.intervals()
        changes = {change.at: change for change in self.levels.changes}
        count = len(self.runs)

        def of_changes(read: Callable[[LevelChange], float]) -> list[float | None]:
            return [100 * read(changes[at]) if at in changes else None for at in range(count)]

        values: dict[str, Any] = {
            "name": [run.name for run in self.runs],
            "id": [run.id for run in self.runs],
            "recorded": [format_utc(run.recorded) for run in self.runs],
            "host": [run.host for run in self.runs],
            "event": [self.event] * count,
            "unit": [self.unit] * count,
            "value": value,
            "low": low,
            "high": high,
            "level": [level.mean for level in self.levels.levels for _ in range(level.first, level.end)],
            "change_percent": of_changes(lambda change: change.ratio),
            "change_low_percent": of_changes(lambda change: change.low),
            "change_high_percent": of_changes(lambda change: change.high),
        }
        return build_rows(COLUMNS, values)

    def intervals(self) -> tuple[Array, Array]:
        """(low, high): the 95 % interval of each value, from sampling alone."""
        value = np.array([run.value for run in self.runs], np.float64)
        reach = np.exp(NORMAL_95 * np.sqrt([run.variance for run in self.runs]))
        return value / reach, value * reach

    def sentence(self, quote: Callable[[str], str] = shorten) -> str:
        """The result in a sentence. quote: how to write a name from a file."""
        count, changes, variation = len(self.runs), self.levels.changes, self.levels.variation
        what = f"{quote(self.function)} ({self.measure})" if self.function else quote(self.event)
        if count < 2 * MIN_LEVEL:
            runs = "1 run" if count == 1 else f"{count} runs"
            return f"{runs} of {what}: a change can be seen from {2 * MIN_LEVEL} runs on."
        vary = "" if math.isnan(variation) else f", which vary by {format_percent(100 * variation)}"
        if not changes:
            least = f" {NEXT_RUNS} more runs would show a change of {format_percent(100 * self.levels.detectable)}."
            return f"No change of {what} among {count} runs{vary}.{least}"
        change = changes[-1]
        first = self.runs[change.at]
        word = ("slower" if change.ratio > 0 else "faster") if self.unit == "ns" else ""
        word = word or ("more" if change.ratio > 0 else "less")
        ends = (change.low, change.high) if change.ratio > 0 else (-change.high, -change.low)
        interval = " to ".join(format_percent(100 * end) for end in ends)
        of = f" {what}" if self.unit != "ns" else f" in {what}" if self.function else ""
        several = f", the last of {len(changes)} changes" if len(changes) > 1 else ""
        return (
            f"{format_percent(abs(100 * change.ratio))} {word}{of} ({interval}) since {quote(first.name)} of "
            f"{format_utc(first.recorded)}{several} among {count} runs{vary}."
        )


def build_history(
    runs: Sequence[HistoryRun],
    event: str,
    unit: str,
    *,
    function: str = "",
    measure: str = MEASURES[0],
    left_out: Sequence[str] = (),
) -> RunHistory:
    """The history of runs, which are sorted by time; of more than `MAX_RUNS` the newest."""
    known = sorted((run for run in runs if run.value > 0 and math.isfinite(run.value)), key=lambda run: run.recorded)
    notes = list(left_out)
    if len(known) < len(runs):
        notes.append(f"{len(runs) - len(known)} without a value above 0 are left out.")
    if len(known) > MAX_RUNS:
        notes.append(f"Only the newest {MAX_RUNS} of {len(known):,} are shown.")
        known = known[-MAX_RUNS:]
    values = np.array([run.value for run in known], np.float64)
    return RunHistory(tuple(known), event, unit, function, measure, find_levels(values), tuple(notes))


def measure_function(profile: Profile, event: str, function: str, measure: str) -> tuple[float, float]:
    """(weight, relative variance of sampling) of a function in a recording; (0, 0) if it is not there."""
    number = event_id(profile, event)
    try:
        wanted = function_id(profile, function)
    except NotFound:
        return 0.0, 0.0
    selection = Selection()
    functions, own, total, _ = function_weights(profile, selection, number)
    inside = np.isin(functions, wanted)
    weight = float((total if measure == "total" else own)[inside].sum())
    counts = count_call_samples(profile, selection, number)
    if counts is None:
        return weight, 0.0
    _, own_samples, total_samples, _ = function_weights(profile, selection, number, calls=counts)
    samples = float((total_samples if measure == "total" else own_samples)[inside].sum())
    return weight, 1 / (samples + PSEUDO_SAMPLES)
