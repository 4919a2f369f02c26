"""Profile: the one model. Every reader yields it; every analysis, page and exporter takes it."""

from dataclasses import dataclass, field

import pyarrow as pa

from .meta import Meta
from .tables import SCHEMAS, empty

__all__ = ["Meta", "Profile"]


@dataclass(frozen=True, eq=False)
class Profile:
    """Column tables as `tables.SCHEMAS` defines them. A table that a format has nothing for is empty, never absent.

    Compared and hashed by identity, so that what is derived from a profile can be remembered beside it.
    """

    meta: Meta
    runs: pa.Table = field(default_factory=lambda: empty("runs"))
    ranks: pa.Table = field(default_factory=lambda: empty("ranks"))
    clocks: pa.Table = field(default_factory=lambda: empty("clocks"))
    threads: pa.Table = field(default_factory=lambda: empty("threads"))
    thread_names: pa.Table = field(default_factory=lambda: empty("thread_names"))
    functions: pa.Table = field(default_factory=lambda: empty("functions"))
    frames: pa.Table = field(default_factory=lambda: empty("frames"))
    stacks: pa.Table = field(default_factory=lambda: empty("stacks"))
    calls: pa.Table = field(default_factory=lambda: empty("calls"))
    events: pa.Table = field(default_factory=lambda: empty("events"))
    samples: pa.Table = field(default_factory=lambda: empty("samples"))
    counts: pa.Table = field(default_factory=lambda: empty("counts"))
    count_metrics: pa.Table = field(default_factory=lambda: empty("count_metrics"))
    categories: pa.Table = field(default_factory=lambda: empty("categories"))
    argument_sets: pa.Table = field(default_factory=lambda: empty("argument_sets"))
    slices: pa.Table = field(default_factory=lambda: empty("slices"))
    slice_numbers: pa.Table = field(default_factory=lambda: empty("slice_numbers"))
    instants: pa.Table = field(default_factory=lambda: empty("instants"))
    device_work: pa.Table = field(default_factory=lambda: empty("device_work"))
    configurations: pa.Table = field(default_factory=lambda: empty("configurations"))
    flows: pa.Table = field(default_factory=lambda: empty("flows"))
    devices: pa.Table = field(default_factory=lambda: empty("devices"))
    steps: pa.Table = field(default_factory=lambda: empty("steps"))
    series: pa.Table = field(default_factory=lambda: empty("series"))
    counters: pa.Table = field(default_factory=lambda: empty("counters"))
    allocations: pa.Table = field(default_factory=lambda: empty("allocations"))
    segments: pa.Table = field(default_factory=lambda: empty("segments"))
    profiled_kernels: pa.Table = field(default_factory=lambda: empty("profiled_kernels"))
    metrics: pa.Table = field(default_factory=lambda: empty("metrics"))
    metric_values: pa.Table = field(default_factory=lambda: empty("metric_values"))
    hints: pa.Table = field(default_factory=lambda: empty("hints"))
    source_lines: pa.Table = field(default_factory=lambda: empty("source_lines"))
    source_values: pa.Table = field(default_factory=lambda: empty("source_values"))
    losses: pa.Table = field(default_factory=lambda: empty("losses"))

    def tables(self) -> dict[str, pa.Table]:
        """Every table by name, in the order of `SCHEMAS`."""
        return {name: getattr(self, name) for name in SCHEMAS}
