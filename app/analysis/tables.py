"""The tables of a profile: what `perfloom report`, the API and the pages show. Rows are never cut."""

from .advice import findings
from .core.schema import Column, Table, records
from .counts import count_metrics, ranks, totals
from .distributed import communication, critical_path, skew
from .memory import allocations, blocks, curves
from .ml import devices, graphs, idle, kernels, launches, modules, operators, sequences, steps
from .nsight import reports, source
from .stacks import hotspots

__all__ = ["TABLES", "Column", "Table", "records"]

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table("summary", "Summary", totals.SUMMARY, totals.summary, single_row=True),
        Table("losses", "What could not be read", totals.LOSSES, totals.losses, uses_selection=False),
        Table("hotspots", "Hotspots", hotspots.COLUMNS, hotspots.hotspots, by=hotspots.BY),
        Table("counts", "Event counts", totals.COUNTS, totals.counts),
        Table("count-metrics", "Metrics of perf stat", count_metrics.COLUMNS, count_metrics.count_metrics),
        Table("threads", "Threads", totals.THREADS, totals.threads),
        Table("events", "Events", totals.EVENTS, totals.events),
        Table("ranks", "Ranks", ranks.RANKS, ranks.ranks),
        Table("runs", "Runs", ranks.RUNS, ranks.runs),
        Table("operators", "Operators", operators.COLUMNS, operators.operators, by=operators.BY),
        Table("kernels", "Kernels", kernels.KERNELS, kernels.kernels, by=kernels.BY),
        Table("copies", "Copies and sets of memory", kernels.COPIES, kernels.copies),
        Table("launches", "Launches", launches.LAUNCHES, launches.launches),
        Table("graphs", "CUDA graphs", graphs.GRAPHS, graphs.graphs),
        Table("sequences", "Sequences of kernels", sequences.SEQUENCES, sequences.sequences, by=sequences.BY),
        Table("modules", "Modules", modules.COLUMNS, modules.modules, by=modules.BY),
        Table("steps", "Steps", steps.STEPS, steps.steps),
        Table("devices", "Devices", devices.DEVICES, devices.devices),
        Table("utilization", "Utilization over time", devices.UTILIZATION, devices.utilization),
        Table("idle", "Idle time of devices", idle.IDLE, idle.idle),
        Table("memory", "Memory", allocations.MEMORY, allocations.memory),
        Table("memory-operators", "Memory by operator", allocations.OPERATORS, allocations.memory_operators),
        Table("memory-live", "Memory live at the peak", allocations.LIVE, allocations.memory_live, by=allocations.BY),
        Table("memory-events", "Failed allocations and retries", allocations.EVENTS, allocations.memory_events),
        Table("memory-curves", "Memory over time", curves.CURVES, curves.memory_curves),
        Table("allocations", "Allocations", blocks.ALLOCATIONS, blocks.allocations),
        Table("communication", "Communication", communication.COMMUNICATION, communication.communication),
        Table("clocks", "Clocks of ranks", skew.CLOCKS, skew.clocks),
        Table("advice", "Advice", findings.COLUMNS, findings.advice),
        Table(
            "critical-path", "Critical path", critical_path.COLUMNS, critical_path.critical_path, by=critical_path.BY
        ),
        Table("collectives", "Collectives", communication.COLLECTIVES, communication.collectives),
        Table("nsight", "Nsight Compute", reports.LAUNCHES, reports.nsight, uses_selection=False),
        Table(
            "nsight-metrics", "Metrics of Nsight Compute", reports.METRICS, reports.nsight_metrics, uses_selection=False
        ),
        Table("nsight-hints", "Hints of Nsight Compute", reports.HINTS, reports.nsight_hints, uses_selection=False),
        Table(
            "nsight-source",
            "Instructions by Nsight Compute",
            source.SOURCE,
            source.nsight_source,
            uses_selection=False,
        ),
        Table("stragglers", "Stragglers", communication.STRAGGLERS, communication.stragglers),
    )
}
"""Every table by its name on the command line and in URLs."""
