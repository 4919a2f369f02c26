"""Launches that Nsight Compute measured, from any input: their metrics, hints and source lines."""

import math
from array import array
from dataclasses import dataclass, field
from typing import Any

from ...ingest.losses import MAX_LONG_EXAMPLE_CHARS
from ...ingest.nsight.summary_metrics import SummaryMetric, find_summary_metric
from .csv_tables import PageKind


@dataclass
class Launch:
    """A launch as read. identity: the cells of the columns that identify it. summary_values: value, unit and priority
    of the metrics of a summary."""

    number: int
    name: str
    identity: dict[str, str]
    ranges: tuple[str, ...] = ()
    metrics: "array[int]" = field(default_factory=lambda: array("i"))
    values: "array[float]" = field(default_factory=lambda: array("d"))
    texts: dict[int, str] = field(default_factory=dict)
    summary_values: dict[str, tuple[int, float | None, str, str]] = field(default_factory=dict)
    hints: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class SourceLine:
    """A source line as read. values: of metrics, as a number or a text."""

    block: int
    kernel: str
    file: str | None
    line: int | None
    address: int | None
    text: str
    values: list[tuple[int, float | None, str | None]]


class MeasurementCollector:
    """The measured values. metrics: the distinct ones, as rows of the table. launch_of: for each kernel with source
    lines the index of its launch."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.sources: list[SourceLine] = []
        self.metrics: dict[tuple[str | None, ...], int] = {}
        self.summary_metrics: list[tuple[SummaryMetric, int] | None] = []
        self.losses: dict[str, tuple[int, str]] = {}
        self.kinds: set[PageKind] = set()
        self.launch_of: dict[int, int] = {}

    def intern_metric(
        self, name: str | None, label: str | None, section: str | None, part: str | None, unit: str
    ) -> int:
        """The id of a metric, which is added on first use."""
        key = (name, label, section, part, unit)
        if key not in self.metrics:
            self.summary_metrics.append(find_summary_metric(name or "", label or "", unit))
        return self.metrics.setdefault(key, len(self.metrics))

    def add_loss(self, reason: str, place: str, said: str) -> None:
        """Add a loss. place: its position in the file, the example of the loss."""
        before, first = self.losses.get(reason, (0, f"{place}: {said[:MAX_LONG_EXAMPLE_CHARS]}" if said else place))
        self.losses[reason] = (before + 1, first)

    def add_value(self, launch: Launch, metric: int, value: float | None, text: str | None, unit: str) -> None:
        """Set the value of a metric of a launch: a number, a text, or a number in a text."""
        if text is not None:
            launch.texts[len(launch.metrics)] = text
        launch.metrics.append(metric)
        launch.values.append(math.nan if value is None else value)
        summary_metric = self.summary_metrics[metric]
        if summary_metric is not None:
            before = launch.summary_values.get(summary_metric[0].key)
            if before is None or summary_metric[1] < before[0]:
                launch.summary_values[summary_metric[0].key] = (summary_metric[1], value, text or "", unit)
