"""Profile: the data model that every reader returns, and every analysis, page and exporter takes."""

from dataclasses import dataclass, field

import pyarrow as pa

from .meta import Meta
from .tables import SCHEMAS, empty_table

__all__ = ["Meta", "Profile"]


@dataclass(frozen=True, eq=False)
class Profile:
    """Column tables as `tables.SCHEMAS` defines them. A table without data is empty, never absent.

    Compared and hashed by identity, so that derived values can be cached by profile.
    """

    meta: Meta
    runs: pa.Table = field(default_factory=lambda: empty_table("runs"))
    ranks: pa.Table = field(default_factory=lambda: empty_table("ranks"))
    clocks: pa.Table = field(default_factory=lambda: empty_table("clocks"))
    threads: pa.Table = field(default_factory=lambda: empty_table("threads"))
    thread_names: pa.Table = field(default_factory=lambda: empty_table("thread_names"))
    functions: pa.Table = field(default_factory=lambda: empty_table("functions"))
    frames: pa.Table = field(default_factory=lambda: empty_table("frames"))
    stacks: pa.Table = field(default_factory=lambda: empty_table("stacks"))
    calls: pa.Table = field(default_factory=lambda: empty_table("calls"))
    events: pa.Table = field(default_factory=lambda: empty_table("events"))
    samples: pa.Table = field(default_factory=lambda: empty_table("samples"))
    counts: pa.Table = field(default_factory=lambda: empty_table("counts"))
    count_metrics: pa.Table = field(default_factory=lambda: empty_table("count_metrics"))
    categories: pa.Table = field(default_factory=lambda: empty_table("categories"))
    argument_sets: pa.Table = field(default_factory=lambda: empty_table("argument_sets"))
    slices: pa.Table = field(default_factory=lambda: empty_table("slices"))
    slice_numbers: pa.Table = field(default_factory=lambda: empty_table("slice_numbers"))
    instants: pa.Table = field(default_factory=lambda: empty_table("instants"))
    device_work: pa.Table = field(default_factory=lambda: empty_table("device_work"))
    configurations: pa.Table = field(default_factory=lambda: empty_table("configurations"))
    flows: pa.Table = field(default_factory=lambda: empty_table("flows"))
    devices: pa.Table = field(default_factory=lambda: empty_table("devices"))
    steps: pa.Table = field(default_factory=lambda: empty_table("steps"))
    series: pa.Table = field(default_factory=lambda: empty_table("series"))
    counters: pa.Table = field(default_factory=lambda: empty_table("counters"))
    allocations: pa.Table = field(default_factory=lambda: empty_table("allocations"))
    segments: pa.Table = field(default_factory=lambda: empty_table("segments"))
    profiled_kernels: pa.Table = field(default_factory=lambda: empty_table("profiled_kernels"))
    metrics: pa.Table = field(default_factory=lambda: empty_table("metrics"))
    metric_values: pa.Table = field(default_factory=lambda: empty_table("metric_values"))
    hints: pa.Table = field(default_factory=lambda: empty_table("hints"))
    source_lines: pa.Table = field(default_factory=lambda: empty_table("source_lines"))
    source_values: pa.Table = field(default_factory=lambda: empty_table("source_values"))
    branch_edges: pa.Table = field(default_factory=lambda: empty_table("branch_edges"))
    branches: pa.Table = field(default_factory=lambda: empty_table("branches"))
    losses: pa.Table = field(default_factory=lambda: empty_table("losses"))

    def tables(self) -> dict[str, pa.Table]:
        """Every table by name, in the order of `SCHEMAS`."""
        return {name: getattr(self, name) for name in SCHEMAS}
