"""The tables of a profile: what `perfloom report`, the API and the pages show. All rows are returned."""

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
        Table("summary", "Summary", totals.SUMMARY, totals.compute_summary, single_row=True),
        Table("losses", "What could not be read", totals.LOSSES, totals.compute_losses, uses_selection=False),
        Table("hotspots", "Hotspots", hotspots.COLUMNS, hotspots.compute_hotspots, by=hotspots.BY),
        Table("counts", "Event counts", totals.COUNTS, totals.compute_counts),
        Table("count-metrics", "Metrics of perf stat", count_metrics.COLUMNS, count_metrics.compute_count_metrics),
        Table("threads", "Threads", totals.THREADS, totals.compute_threads),
        Table("events", "Events", totals.EVENTS, totals.compute_events),
        Table("ranks", "Ranks", ranks.RANKS, ranks.compute_ranks),
        Table("runs", "Runs", ranks.RUNS, ranks.compute_runs),
        Table("operators", "Operators", operators.COLUMNS, operators.compute_operators, by=operators.BY),
        Table("kernels", "Kernels", kernels.KERNELS, kernels.compute_kernels, by=kernels.BY),
        Table("copies", "Memcpy and memset", kernels.COPIES, kernels.compute_copies),
        Table("launches", "Launches", launches.LAUNCHES, launches.compute_launches),
        Table("graphs", "CUDA graphs", graphs.GRAPHS, graphs.compute_graphs),
        Table("sequences", "Sequences of kernels", sequences.SEQUENCES, sequences.compute_sequences, by=sequences.BY),
        Table("modules", "Modules", modules.COLUMNS, modules.compute_modules, by=modules.BY),
        Table("steps", "Steps", steps.STEPS, steps.compute_steps),
        Table("devices", "Devices", devices.DEVICES, devices.compute_devices),
        Table("utilization", "Utilization over time", devices.UTILIZATION, devices.compute_utilization),
        Table("idle", "Idle time of devices", idle.IDLE, idle.compute_idle),
        Table("memory", "Memory", allocations.MEMORY, allocations.compute_memory),
        Table("memory-operators", "Memory by operator", allocations.OPERATORS, allocations.compute_memory_operators),
        Table(
            "memory-live",
            "Memory live at the peak",
            allocations.LIVE,
            allocations.compute_memory_live,
            by=allocations.BY,
        ),
        Table("memory-events", "Failed allocations and retries", allocations.EVENTS, allocations.compute_memory_events),
        Table("memory-curves", "Memory over time", curves.CURVES, curves.compute_memory_curves),
        Table("allocations", "Allocations", blocks.ALLOCATIONS, blocks.compute_allocations),
        Table("communication", "Communication", communication.COMMUNICATION, communication.compute_communication),
        Table("clocks", "Clocks of ranks", skew.CLOCKS, skew.compute_clocks),
        Table("advice", "Advice", findings.COLUMNS, findings.compute_advice),
        Table(
            "critical-path",
            "Critical path",
            critical_path.COLUMNS,
            critical_path.compute_critical_path,
            by=critical_path.BY,
        ),
        Table("collectives", "Collectives", communication.COLLECTIVES, communication.compute_collectives),
        Table("nsight", "Nsight Compute", reports.LAUNCHES, reports.compute_nsight, uses_selection=False),
        Table(
            "nsight-metrics",
            "Nsight Compute metrics",
            reports.METRICS,
            reports.compute_nsight_metrics,
            uses_selection=False,
        ),
        Table(
            "nsight-hints", "Nsight Compute hints", reports.HINTS, reports.compute_nsight_hints, uses_selection=False
        ),
        Table(
            "nsight-source",
            "Nsight Compute instructions",
            source.SOURCE,
            source.compute_nsight_source,
            uses_selection=False,
        ),
        Table("stragglers", "Stragglers", communication.STRAGGLERS, communication.compute_stragglers),
    )
}
"""Every table by its name on the command line and in URLs."""
