"""Metrics that perf stat computed from its counts: `insn per cycle`, `GHz`, top-down shares, as printed."""

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import get_column
from ...domain.units import NS_PER_MS
from ..core.common_columns import HOST, MPI_RANK, RUN
from ..core.sample_selection import event_id, event_names, match_places, select_threads, threads_of
from ..core.schema import Column, Table, TableRows, build_rows, table_function

COLUMNS = (
    Column("metric", "", "Name of the metric, as printed by perf."),
    Column("unit", "", "percent, or empty for a ratio, a rate or a unit that is part of the name (GHz)."),
    Column("event", "", "The event next to which perf printed it; missing for a line with only metrics."),
    Column("value", "event", "Value; missing if perf printed none.", "Float64"),
    Column("thread", "", "The thread, core, socket or cgroup; missing for all of them."),
    Column("cpu", "", "The CPU; missing for all of them.", "Int64"),
    HOST,
    MPI_RANK,
    RUN,
    Column("start_ms", "ms", "Start of its interval; missing for the whole run.", "Float64"),
    Column("end_ms", "ms", "End of its interval.", "Float64"),
)


@table_function
def compute_count_metrics(profile: Profile, selection: Selection) -> TableRows:
    """One row for each value of a metric, in the order in which perf printed them.

    A window selects the intervals that start in it, as for counts. A metric applies to its CPUs and interval; values
    are never added.
    """
    table = profile.count_metrics
    inside = _mask_rows(profile, selection)
    if not inside.all():
        table = table.filter(pa.array(inside))
    threads, events = threads_of(profile), event_names(profile)
    thread_names = np.array([*(name or None for name in threads.name), None], object)
    times = {name: table.column(f"{name}_ns").to_numpy() / NS_PER_MS for name in ("start", "end")}
    return build_rows(
        COLUMNS,
        {
            "metric": table.column("name").to_pylist(),
            **{name: table.column(name).to_pylist() for name in ("unit", "value", "host", "rank", "run")},
            "event": np.array([*events, None], object)[get_column(table, "event")],
            "thread": thread_names[get_column(table, "thread")],
            "cpu": _or_none(get_column(table, "cpu")),
            "start_ms": times["start"],
            "end_ms": times["end"],
        },
    )


def _or_none(numbers: Array) -> list[int | None]:
    return [number if number >= 0 else None for number in numbers.tolist()]


def _mask_rows(profile: Profile, selection: Selection) -> Array:
    """Which rows are selected, as bools."""
    table = profile.count_metrics
    inside = np.ones(table.num_rows, bool)
    if not table.num_rows:
        return inside
    if selection.event is not None:
        inside &= get_column(table, "event") == event_id(profile, selection.event)
    threads = select_threads(profile, selection)
    if threads is not None:
        rank = table.column("rank").fill_null(-1).to_numpy()
        host = table.column("host").to_pylist() if selection.hosts else None
        of_all = False if selection.divides_ranks else match_places(profile, selection, rank, host)
        thread = get_column(table, "thread")
        inside &= np.where(thread >= 0, np.append(threads, False)[thread], of_all)
    start = table.column("start_ns").fill_null(-1).to_numpy()
    if selection.start_ns is not None or selection.end_ns is not None:
        inside &= start >= 0
        inside &= start >= (selection.start_ns or 0)
        if selection.end_ns is not None:
            inside &= start < selection.end_ns
    return inside


TABLES = (Table("count-metrics", "Metrics of perf stat", COLUMNS, compute_count_metrics),)
"""The tables of this module."""
