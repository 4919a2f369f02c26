"""The heat map of samples: one column per second or other width, and rows for the offset within it.

After Brendan Gregg's subsecond-offset heat maps and FlameScope. A sample is in the cell of its time, with its whole
weight. The weight of a sample that lasts (time of slices) is spread over the cells that it covers. Samples are sorted
by time and cells are numbered in order of time, so that a binary search for the edge of each cell finds its samples.
"""

from dataclasses import dataclass

import numpy as np

from ...domain.arrays import Array, Int64Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import DEVICE_TIME, HOST_TIME, NO_ID
from ...domain.timed_events import IN_ORDER
from ...domain.units import NS_PER_MS, NS_PER_S
from ..core.common_columns import EVENT, SAMPLES
from ..core.measurements import absolute_totals
from ..core.memo import memoize
from ..core.sample_selection import (
    Rows,
    clip_weights,
    event_names,
    filter_samples,
    samples_of,
    select_events,
    sum_by_index,
    threads_of,
)
from ..core.schema import Column, Table, TableRows, build_rows, concatenate_rows, memoize_table, table_function
from ..core.slice_selection import has_times
from ..core.windows import find_duration_events, resolve_step, step_windows

ROW_COUNTS = (10, 20, 50, 100)
DEFAULT_ROWS = 50
MAX_COLUMNS = 600
MIN_COLUMNS = 10
"""A recording shorter than `SHORT_NS` gets columns below a second, at least this many."""
SHORT_NS = 2 * NS_PER_S
_SHORT_WIDTHS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
"""1 µs to 100 ms. Like every width, a multiple of each of `ROW_COUNTS` ns: all cells have the same whole length."""
_LONG_WIDTHS = tuple(
    n * unit
    for unit, numbers in (
        (NS_PER_S, (1, 2, 5, 10, 20, 30)),
        (60 * NS_PER_S, (1, 2, 5, 10, 20, 30)),
        (3600 * NS_PER_S, (1, 2, 3, 6, 12, 24)),
    )
    for n in numbers
)
_OFFERED_WIDTHS = (*_SHORT_WIDTHS, *(NS_PER_S * n for n in (1, 10, 60, 600, 3600, 86400)))

COLUMNS = (
    EVENT,
    Column("unit", "", "The unit of value: count, ns or bytes."),
    Column("column_ms", "ms", "Start of the column, as accepted by --start-ms.", "float64"),
    Column("offset_ms", "ms", "Start of the cell within its column.", "float64"),
    Column("cell_ms", "ms", "Length of the cell.", "float64"),
    Column(
        "value",
        "event",
        "Weight of the samples in the cell; missing for an event that was sampled, not counted.",
        "Int64",
    ),
    Column("percent", "%", "Weight of the samples in percent of the whole selection of this event.", "float64"),
    SAMPLES,
)


@dataclass(frozen=True)
class HeatMapGrid:
    """The cells of a heat map. first_ns: where the first column starts. column_ns: width of a column, a multiple of
    `rows` ns. columns, rows: how many.

    Cell n is in column n // rows, and in row n % rows of it; it starts at first_ns + n * cell_ns.
    """

    first_ns: int
    column_ns: int
    columns: int
    rows: int

    @property
    def cell_ns(self) -> int:
        """The length of a cell."""
        return self.column_ns // self.rows

    @property
    def end_ns(self) -> int:
        """The end of the last column."""
        return self.first_ns + self.columns * self.column_ns

    def start_of(self, cell: int) -> int:
        """When a cell starts (ns)."""
        return self.first_ns + cell * self.cell_ns


@dataclass(frozen=True, eq=False)
class HeatMap:
    """The cells with samples or weight, in order of time. cell: their numbers in the grid. weight: the sum of the
    weights of the samples, in the unit of the event. samples: their number. All int64."""

    grid: HeatMapGrid
    cell: Array
    weight: Array
    samples: Array


def has_heat_map(profile: Profile) -> bool:
    """Whether samples have times."""
    return bool(profile.samples.num_rows) and has_times(profile) and profile.meta.clock != IN_ORDER


def default_width(extent_ns: int) -> int:
    """The width of a column (ns) for samples over this time: one second, more for at most `MAX_COLUMNS` columns, less
    for a recording below two seconds."""
    if 0 < extent_ns < SHORT_NS:
        return next((w for w in reversed(_SHORT_WIDTHS) if extent_ns // w + 1 >= MIN_COLUMNS), _SHORT_WIDTHS[0])
    found = next((w for w in _LONG_WIDTHS if _count_columns(extent_ns, w) <= MAX_COLUMNS), None)
    if found is not None:
        return found
    width: int = _LONG_WIDTHS[-1]
    while _count_columns(extent_ns, width) > MAX_COLUMNS:
        width *= 2
    return width


def list_widths(profile: Profile) -> tuple[int, ...]:
    """The widths of a column to choose from (ns), ascending: powers of ten, 1 min, 10 min, 1 h and 1 day, as far as
    they give 2 to `MAX_COLUMNS` columns; and always the default."""
    extent = _extent(profile)
    offered = {w for w in _OFFERED_WIDTHS if 2 <= _count_columns(extent, w) <= MAX_COLUMNS}
    return tuple(sorted(offered | {default_width(extent)}))


def build_grid(profile: Profile, rows: int = DEFAULT_ROWS, column_ns: int | None = None) -> HeatMapGrid:
    """The grid over all samples of a profile, so that it is the same for every event, thread and pattern. column_ns:
    None for the default, else one of `list_widths`."""
    extent = _extent(profile)
    width = column_ns or default_width(extent)
    time_ns = samples_of(profile).time_ns
    first = int(time_ns[0]) if len(time_ns) else 0
    return HeatMapGrid(first, width, _count_columns(extent, width), rows)


def build_heat_map(profile: Profile, selection: Selection, event: int, grid: HeatMapGrid) -> HeatMap:
    """The selected samples of an event (NO_ID: none) in the cells of a grid of this profile.

    Sums are those of the selection: of samples that last, the part in the window and step counts. They are counted
    where that part begins.
    """
    chosen = selection.replace(event=None, invert=False, recursion=False)

    def build() -> HeatMap:
        if event == NO_ID:
            none: Int64Array = np.zeros(0, np.int64)
            return HeatMap(grid, none, none, none)
        return _count(profile, chosen, event, grid)

    return memoize(profile, ("heat map", chosen, event, grid), build)


def _count(profile: Profile, selection: Selection, event: int, grid: HeatMapGrid) -> HeatMap:
    rows = filter_samples(profile, selection, event)
    weight = clip_weights(profile, selection, rows)
    if len(weight) and event_names(profile)[event] in (HOST_TIME, DEVICE_TIME):
        return _spread(_clip_starts(profile, selection, rows, event) - grid.first_ns, weight, grid)
    time_ns = samples_of(profile).time_ns[rows]
    # Up to the last sample only: the end of the last column can be greater than int64.
    last = int(time_ns[-1]) if len(time_ns) else grid.first_ns
    edges = grid.first_ns + np.arange(1, (last - grid.first_ns) // grid.cell_ns + 1, dtype=np.int64) * grid.cell_ns
    bounds = np.concatenate(([0], np.searchsorted(time_ns, edges), [len(time_ns)]))
    count = np.diff(bounds)
    cell = np.flatnonzero(count)
    sums = np.add.reduceat(weight, bounds[cell], dtype=np.int64) if len(cell) else np.zeros(0, np.int64)
    return HeatMap(grid, cell.astype(np.int64), sums, count[cell].astype(np.int64))


def _spread(begin: Array, weight: Array, grid: HeatMapGrid) -> HeatMap:
    """Samples that last: the part of their time in each cell. begin: since the start of the grid."""
    end = begin + weight
    cells = max(int(begin.max()), int(end.max()) - 1) // grid.cell_ns + 1
    started, begun = _sum_until(begin, grid.cell_ns, cells)
    _, ended = _sum_until(end, grid.cell_ns, cells)
    spread = np.diff(np.concatenate(([0], begun - ended, [weight.sum()])))
    cell = np.flatnonzero(started + spread)
    return HeatMap(grid, cell.astype(np.int64), spread[cell], started[cell].astype(np.int64))


def _clip_starts(profile: Profile, selection: Selection, rows: Rows, event: int) -> Array:
    """Where the selected part of each of these samples that last begins (ns): not before the window and its step."""
    samples = samples_of(profile)
    begin: Array = samples.time_ns[rows]
    if selection.step is not None and event_names(profile)[event] == HOST_TIME:
        # Device work belongs to a step completely.
        rank = threads_of(profile).rank[samples.thread[rows]]
        for of_rank, opens, _ in step_windows(profile, resolve_step(profile, selection.step)):
            begin = np.where((rank == of_rank) | (of_rank is None), np.maximum(begin, opens), begin)
    return begin if selection.start_ns is None else np.maximum(begin, selection.start_ns)


def _sum_until(times: Array, cell_ns: int, cells: int) -> tuple[Array, Array]:
    """(how many times are in each cell, for the end of each cell except the last the sum of its distances from the
    times before it). Sums are modulo 2**64, so that a difference of two of them is exact if it is below 2**63."""
    cell = times // cell_ns
    # A time can be the end of the last cell.
    count = np.bincount(cell, minlength=cells + 1)
    offsets = sum_by_index(cell, times - cell * cell_ns, cells + 1)
    starts = np.arange(cells + 1) * cell_ns
    sums = starts[1:-1] * np.cumsum(count)[: cells - 1] - np.cumsum(count * starts + offsets)[: cells - 1]
    return count[:cells], sums


def heat_map_rows(profile: Profile, selection: Selection, events: list[int], grid: HeatMapGrid) -> TableRows:
    """The cells with samples as rows of the table: by event, in order of time."""
    names, units = event_names(profile), profile.events.column("unit").to_pylist()
    parts = []
    for event in events:
        found = build_heat_map(profile, selection, event, grid)
        column, row = np.divmod(found.cell, grid.rows)
        count = len(found.cell)
        whole = int(found.weight.sum())
        parts.append(
            build_rows(
                COLUMNS,
                {
                    "event": [names[event]] * count,
                    "unit": [units[event]] * count,
                    "column_ms": (grid.first_ns + column * grid.column_ns) / NS_PER_MS,
                    "offset_ms": row * grid.cell_ns / NS_PER_MS,
                    "cell_ms": np.full(count, grid.cell_ns / NS_PER_MS),
                    "value": absolute_totals(profile, event, found.weight),
                    "percent": 100.0 * found.weight / whole if whole else np.zeros(count),
                    "samples": found.samples,
                },
            )
        )
    return parts[0] if len(parts) == 1 else concatenate_rows(COLUMNS, parts)


@table_function
def compute_heat_map(profile: Profile, selection: Selection) -> TableRows:
    """Each cell with samples, by event and in order of time, with the default rows and columns."""

    def build() -> TableRows:
        events = select_events(profile, selection) if has_heat_map(profile) else []
        return heat_map_rows(profile, selection, events, build_grid(profile))

    return memoize_table("heatmap", profile, selection, build)


def _extent(profile: Profile) -> int:
    """The time from the first sample to the last one, or the last moment of one that lasts (ns)."""

    def build() -> int:
        time_ns = samples_of(profile).time_ns
        if not len(time_ns):
            return 0
        lasting = find_duration_events(profile)
        end = int(time_ns[-1]) if lasting is None else max(int(time_ns[-1]), int(lasting.block_end_ns.max()) - 1)
        return end - int(time_ns[0])

    return memoize(profile, "heat map extent", build)


def _count_columns(extent_ns: int, width: int) -> int:
    return extent_ns // width + 1


TABLES = (Table("heatmap", "Heat map", COLUMNS, compute_heat_map),)
