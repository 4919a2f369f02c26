"""CUDA graphs: launches, their device work, and the delays of replays.

docs/metrics.md has the definitions.
"""

import numpy as np

from ...domain.arrays import Array, Int64Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID
from ..core.common_columns import RANK_IF_SEVERAL
from ..core.functions import functions_of
from ..core.group_by import group_by, select_groups
from ..core.memo import memoize
from ..core.sample_selection import threads_of
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..core.slice_selection import device_work_of, select_device_work, select_slices, slices_of
from .devices import devices_of
from .idle import IDLE_CAUSES, IdleCause, device_gaps
from .launch_groups import GRAPH_NODE_ID, launch_groups_of, numeric_arguments
from .operators import rank_column, to_us

QUANTILES = (0.5, 0.9)
GRAPHS = (
    Column("graph_id", "", "Id of the graph, as recorded by the profiler; missing if it was not.", "Int64"),
    Column("name", "", "The runtime function that launched it."),
    Column("launches", "", "Number of launches.", "int64"),
    Column("works_mean", "", "Average number of kernels, memcpy and memset per launch.", "float64"),
    Column("nodes", "", "Number of different nodes that ran; missing if they have no ids.", "Int64"),
    Column("streams", "", "Number of streams.", "int64"),
    Column("total_us", "µs", "Time on the device in which any of its nodes ran, for all launches.", "float64"),
    Column("mean_us", "µs", "total_us ÷ launches.", "float64"),
    Column("min_us", "µs", "Shortest launch on the device, without gaps.", "float64"),
    Column("max_us", "µs", "Longest launch on the device, without gaps.", "float64"),
    Column("gap_mean_us", "µs", "Average time within a launch in which none of its nodes ran.", "float64"),
    Column("host_mean_us", "µs", "Average time of the host in the launching call.", "Float64"),
    Column("delay_mean_us", "µs", "Average delay from the start of the call until the first node began.", "Float64"),
    Column("delay_median_us", "µs", "Median of these delays.", "Float64"),
    Column("delay_p90_us", "µs", "90th percentile of these delays.", "Float64"),
    Column("delay_max_us", "µs", "The longest of these delays.", "Float64"),
    Column(
        "waited_us",
        "µs",
        "Time in which the device was idle because the host had not yet launched the graph.",
        "float64",
    ),
    Column("percent", "%", "total_us in percent of the device time of all selected launches.", "float64"),
    RANK_IF_SEVERAL,
)


def has_graphs(profile: Profile) -> bool:
    """Whether any device work was launched as part of a graph."""
    return bool(launch_groups_of(profile).is_graph.any())


@table_function
def compute_graphs(profile: Profile, selection: Selection) -> TableRows:
    """One row for each graph, function that launched it and rank; sorted by device time, descending."""
    work, slices, launched = device_work_of(profile), slices_of(profile), launch_groups_of(profile)
    graph_launches = select_graph_launches(profile, selection)
    row = np.flatnonzero(launched.is_graph if graph_launches is None else launched.is_graph & graph_launches)
    first, call = launched.first[row], launched.call[row]
    known = call >= 0
    function = np.where(known, functions_of(profile).canonical[slices.function[call]], NO_ID)
    rank = threads_of(profile).rank[work.thread[first]]
    groups = select_groups(group_by(launched.graph_id[row], function, rank), None)
    at = groups.min(np.arange(len(row)))
    delay = np.maximum(0, launched.start[row] - slices.start[call])
    host = slices.duration[call].astype(np.int64)
    # The delay is known only if the call is.
    timed = select_groups(group_by(groups.code), known)
    median, ninety = timed.quantiles(delay, QUANTILES)

    def where_called(values: Array) -> Array:
        found = np.full(len(groups), np.nan)
        found[timed.groups] = values
        return found

    busy = launched.busy[row]
    everything = launched.busy if graph_launches is None else launched.busy[graph_launches]
    whole = int(everything.sum())
    ids, names = launched.graph_id[row][at], function[at]
    nodes, streams = _distinct(profile, row, groups.code, len(groups))
    return build_rows(
        GRAPHS,
        {
            "graph_id": [None if of < 0 else of for of in ids.tolist()],
            "name": [functions_of(profile).name_of(of) if of >= 0 else None for of in names.tolist()],
            "launches": groups.count(),
            "works_mean": groups.mean(launched.work_count[row]),
            "nodes": [of or None for of in nodes.tolist()],
            "streams": streams,
            "total_us": to_us(groups.sum(busy)),
            "mean_us": to_us(groups.mean(busy)),
            "min_us": to_us(groups.min(busy)),
            "max_us": to_us(groups.max(busy)),
            "gap_mean_us": to_us(groups.mean(launched.end[row] - launched.start[row] - busy)),
            "host_mean_us": where_called(to_us(timed.mean(host))),
            "delay_mean_us": where_called(to_us(timed.mean(delay))),
            "delay_median_us": where_called(to_us(median)),
            "delay_p90_us": where_called(to_us(ninety)),
            "delay_max_us": where_called(to_us(timed.max(delay))),
            "waited_us": to_us(groups.sum(host_wait_before_launch(profile)[row])),
            "percent": groups.sum(busy) * (100.0 / max(1, whole)),
            "rank": rank_column(profile, rank[at]),
        },
    ).sort("-total_us", "graph_id")


def select_graph_launches(profile: Profile, selection: Selection) -> Array | None:
    """Which launches are selected, as bools: by their calls, else by their first work. None: all."""
    mask = select_slices(profile, selection)
    if mask is None:
        return None
    launch_groups = launch_groups_of(profile)
    alone = select_device_work(profile, selection)
    return np.where(
        launch_groups.call >= 0, mask[launch_groups.call], True if alone is None else alone[launch_groups.first]
    )


def host_wait_before_launch(profile: Profile) -> Array:
    """By launch, how long the device was idle before it because the host had not launched it yet (ns)."""

    def build() -> Int64Array:
        launched, work = launch_groups_of(profile), device_work_of(profile)
        found = np.zeros(len(launched), np.int64)
        for device in devices_of(profile):
            gaps, cause = device_gaps(profile, device)
            late = np.flatnonzero(cause == IDLE_CAUSES.index(IdleCause.HOST_WAIT))
            # The work that ends a gap: the first one of the device that begins then.
            begun = work.start[device.work]
            ending = device.work[np.minimum(np.searchsorted(begun, gaps.end[late], "left"), len(begun) - 1)]
            np.add.at(found, launched.launch[ending], (gaps.end - gaps.start)[late])
        return found

    return memoize(profile, "launches waited for", build)


def graph_device_share(profile: Profile, selection: Selection, rank: int | None) -> float:
    """The share of the device time of launches that is of graphs (0 to 1). rank: None for all."""
    launched, chosen = launch_groups_of(profile), select_graph_launches(profile, selection)
    mine = np.ones(len(launched), bool) if chosen is None else chosen.copy()
    if rank is not None:
        mine &= threads_of(profile).rank[device_work_of(profile).thread[launched.first]] == rank
    whole = int(launched.busy[mine].sum())
    return int(launched.busy[mine & launched.is_graph].sum()) / whole if whole else 0.0


def _distinct(profile: Profile, row: Array, code: Array, size: int) -> tuple[Array, Array]:
    """(how many nodes, how many streams) the launches in `row` have, by their groups."""
    work, launched = device_work_of(profile), launch_groups_of(profile)
    group_of = np.full(len(launched), NO_ID, np.int64)
    group_of[row] = code
    group = group_of[launched.launch]
    rows = np.flatnonzero(group >= 0)
    node = numeric_arguments(profile, GRAPH_NODE_ID)[rows]
    with_node = node > 0
    nodes = np.unique(np.stack((group[rows][with_node], node[with_node])), axis=1)[0]
    streams = np.unique(np.stack((group[rows], work.thread[rows].astype(np.int64))), axis=1)[0]
    return np.bincount(nodes, minlength=size), np.bincount(streams, minlength=size)


TABLES = (Table("graphs", "CUDA graphs", GRAPHS, compute_graphs),)
"""The tables of this module."""
