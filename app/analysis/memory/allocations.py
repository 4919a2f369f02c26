"""Memory: peaks, blocks and unfreed blocks by device; growth and allocation by operator; live blocks at a time.

Growth and allocation by operator are those of torch-tb-profiler (memory_parser.py of its last revision): allocations
and frees count for the operator in which they occur, on its thread. docs/metrics.md has each definition.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import MISSING, Array
from ...domain.memory import (
    ALLOCATED,
    INACTIVE_SPLIT,
    INACTIVE_SPLIT_BLOCKS,
    LARGEST_FREE,
    OUT_OF_MEMORY,
    RESERVED,
    RETRY,
    ROUNDING,
)
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, get_column, get_strings
from ...domain.units import NS_PER_US
from ..core.common_columns import DEVICE_MEMORY, DEVICE_NAME, OPERATOR_CALLS, OPERATOR_KIND, RANK
from ..core.functions import functions_of
from ..core.memo import memoize
from ..core.sample_selection import (
    filter_calls,
    match_places,
    select_threads,
    sum_by_index,
    threads_of,
)
from ..core.schema import Column, Table, TableRows, build_rows, concatenate_rows, table_function
from ..core.slice_selection import slices_of
from ..ml.operators import call_names, innermost_slices, operator_calls_of, select_operator_calls, strip_step_number
from .blocks import (
    block_categories,
    block_operators,
    block_sources,
    blocks_of,
    find_block_peak,
    has_blocks,
    has_paired_frees,
    live_blocks,
    select_blocks,
    unfreed_blocks,
)
from .curves import (
    DeviceMemory,
    categories_of,
    find_peak,
    in_windows,
    last_value,
    load_curve,
    select_device_memories,
    selected_windows,
    unused_curve,
    values_at,
)

KINETO_OUT_OF_MEMORY = "[OutOfMemory]"
BY = ("operator", "source", "category")
UNKNOWN = "(not known)"

MEMORY = (
    DEVICE_NAME,
    Column(
        "peak_bytes",
        "bytes",
        "Maximum of allocated memory; missing if no totals were recorded.",
        "Int64",
    ),
    Column("allocations", "", "Number of allocated blocks; missing if only sizes were recorded.", "Int64"),
    Column("frees", "", "Number of freed blocks, including those allocated before the recording.", "Int64"),
    Column(
        "unfreed",
        "",
        "Number of allocated blocks not freed by the end; missing if the file has no addresses.",
        "Int64",
    ),
    Column("unfreed_bytes", "bytes", "Total size of these.", "Int64"),
    RANK,
    Column("peak_us", "µs", "Time of the maximum of allocated memory, the first if there are several.", "Float64"),
    Column("allocated_bytes", "bytes", "Total size of all allocated blocks.", "Int64"),
    Column("peak_reserved_bytes", "bytes", "Maximum of reserved memory.", "Int64"),
    Column("unused_bytes", "bytes", "Maximum of memory that was reserved and not allocated.", "Int64"),
    Column(
        "unused_at_peak_bytes",
        "bytes",
        "Memory that was reserved and not allocated at the maximum of allocated memory.",
        "Int64",
    ),
    Column("largest_free_bytes", "bytes", "At the end of a snapshot: size of the largest free block.", "Int64"),
    Column(
        "inactive_split_bytes",
        "bytes",
        "At the end of a snapshot: free blocks in partly used segments.",
        "Int64",
    ),
    Column("inactive_split_blocks", "", "Number of these blocks.", "Int64"),
    Column(
        "rounding_bytes",
        "bytes",
        "At the end of a snapshot: allocated minus requested bytes.",
        "Int64",
    ),
    Column("retries", "", "How often the allocator had to free its cache.", "int64"),
    Column("out_of_memory", "", "Number of failed allocations.", "int64"),
    DEVICE_MEMORY,
    Column("name", "", "Model of the device."),
)
OPERATORS = (
    Column("name", "", "Name of the operator or annotation; all steps together are ProfilerStep."),
    DEVICE_NAME,
    OPERATOR_CALLS,
    Column(
        "self_growth_bytes",
        "bytes",
        "Allocated minus freed bytes in it, without operators inside it.",
        "int64",
    ),
    Column("growth_bytes", "bytes", "Allocated minus freed bytes while it ran, on its thread.", "int64"),
    Column("self_allocations", "", "Number of blocks allocated in it, without operators inside it.", "int64"),
    Column("allocations", "", "Number of blocks allocated while it ran, on its thread.", "int64"),
    Column(
        "self_allocated_bytes",
        "bytes",
        "Total size of the blocks allocated in it, without operators inside it.",
        "int64",
    ),
    Column("allocated_bytes", "bytes", "Total size of the blocks allocated while it ran.", "int64"),
    RANK,
    OPERATOR_KIND,
)
LIVE = (
    Column(
        "name",
        "",
        "What allocated the blocks: the operator, the Python function or the category, according to the grouping.",
    ),
    DEVICE_NAME,
    Column(
        "blocks",
        "",
        "Number of its blocks live at the peak of the device in the window; missing if only sizes were recorded.",
        "Int64",
    ),
    Column("bytes", "bytes", "Total size of its blocks.", "int64"),
    Column("percent", "%", "bytes in percent of the memory allocated at the peak.", "Float64"),
    RANK,
)
EVENTS = (
    Column("time_us", "µs", "Time of the event.", "float64"),
    DEVICE_NAME,
    Column("event", "", "out of memory or allocator retry."),
    Column("bytes", "bytes", "Requested size.", "Int64"),
    Column("device_free_bytes", "bytes", "Free memory of the device.", "Int64"),
    RANK,
)


def has_memory(profile: Profile) -> bool:
    """Whether memory was recorded."""
    return bool(profile.allocations.num_rows) or ALLOCATED in profile.series.column("name").to_pylist()


@table_function
def compute_memory(profile: Profile, selection: Selection) -> TableRows:
    """One row for each known memory: GPUs first."""
    device_memories = select_device_memories(profile, selection)
    values: dict[str, list[Any]] = {c.name: [] for c in MEMORY}
    for device_memory in device_memories:
        for name, value in _memory(profile, selection, device_memory).items():
            values[name].append(value)
    return build_rows(MEMORY, values)


def _memory(profile: Profile, selection: Selection, device_memory: DeviceMemory) -> dict[str, Any]:
    stretches = selected_windows(profile, selection, device_memory.rank)
    blocks, rows = blocks_of(profile), select_blocks(profile, selection, device_memory)
    made = rows[blocks.start[rows] != MISSING]
    left = unfreed_blocks(profile, selection, device_memory)
    known, paired = has_blocks(profile, device_memory), has_paired_frees(profile, device_memory)
    most = find_block_peak(profile, selection, device_memory)
    reserved, idle = (
        find_peak(load_curve(profile, device_memory, RESERVED), stretches),
        unused_curve(profile, device_memory),
    )
    idle_most = find_peak(idle, stretches)
    events = [
        memory_event["event"]
        for memory_event in _memory_events(profile, selection)
        if memory_event["place"] == device_memory
    ]
    return {
        "device": device_memory.label,
        "rank": device_memory.rank,
        "peak_bytes": most.value if most else None,
        "peak_us": most.time_ns / NS_PER_US if most else None,
        "allocations": len(made) if known else None,
        "allocated_bytes": int(blocks.bytes[made].sum()) if known else None,
        "frees": len(select_freed_blocks(profile, selection, device_memory)) if known else None,
        "unfreed": len(left) if paired else None,
        "unfreed_bytes": int(blocks.bytes[left].sum()) if paired else None,
        "peak_reserved_bytes": reserved.value if reserved else None,
        "unused_bytes": idle_most.value if idle_most else None,
        "unused_at_peak_bytes": int(values_at(idle, np.array([most.time_ns]))[0]) if idle and most else None,
        "largest_free_bytes": last_value(profile, device_memory, LARGEST_FREE),
        "inactive_split_bytes": last_value(profile, device_memory, INACTIVE_SPLIT),
        "inactive_split_blocks": last_value(profile, device_memory, INACTIVE_SPLIT_BLOCKS, "count"),
        "rounding_bytes": last_value(profile, device_memory, ROUNDING),
        "retries": events.count(RETRY),
        "out_of_memory": events.count(OUT_OF_MEMORY),
        "memory_bytes": device_memory.capacity,
        "name": device_memory.name or None,
    }


def select_freed_blocks(profile: Profile, selection: Selection, device_memory: DeviceMemory) -> Array:
    """The rows of the blocks of a memory that were freed in the window, wherever they were allocated."""
    blocks = blocks_of(profile)
    rows = np.flatnonzero((blocks.device == device_memory.row) & (blocks.end != MISSING))
    mask = in_windows(blocks.end[rows], selected_windows(profile, selection, device_memory.rank))
    return _on_stacks(profile, selection, rows[mask])


def _on_stacks(profile: Profile, selection: Selection, rows: Array) -> Array:
    """The blocks of the selected threads and stacks."""
    blocks = blocks_of(profile)
    threads = (
        select_threads(profile, selection.replace(ranks=(), hosts=(), step=None)) if selection.divides_ranks else None
    )
    if threads is not None:
        rows = rows[np.append(threads, False)[blocks.thread[rows]]]
    kept = filter_calls(profile, selection)
    if kept is not None:
        rows = rows[kept[get_column(profile.stacks, "call")[blocks.stack[rows]]]]
    return rows


@dataclass(frozen=True, eq=False)
class _OperatorAllocations:
    """Allocations and frees in operators. call: index into `operator_calls_of`, ascending; bytes: negative for frees;
    device: row of `devices`."""

    call: Array
    slice: Array
    time_ns: Array
    bytes: Array
    device: Array


def _moves(profile: Profile) -> _OperatorAllocations:
    def build() -> _OperatorAllocations:
        blocks, slices, calls = blocks_of(profile), slices_of(profile), operator_calls_of(profile)
        rows = np.flatnonzero((blocks.slice >= 0) & (blocks.start != MISSING))
        gone = np.flatnonzero((blocks.end_slice >= 0) & (blocks.end != MISSING))
        of = np.concatenate([blocks.slice[rows], blocks.end_slice[gone]])
        called = np.zeros(len(slices), bool)
        called[calls.row] = True
        # Calls do not include those that only repeat another: their allocations belong to the outer one.
        inner = innermost_slices(slices.parent, called, of)
        call = np.searchsorted(calls.row, np.maximum(inner, 0))
        order = np.argsort(inner, kind="stable")
        order = order[inner[order] >= 0]
        return _OperatorAllocations(
            call[order],
            inner[order],
            np.concatenate([blocks.start[rows], blocks.end[gone]])[order],
            np.concatenate([blocks.bytes[rows], -blocks.bytes[gone]])[order],
            np.concatenate([blocks.device[rows], blocks.device[gone]])[order],
        )

    return memoize(profile, "memory moves", build)


def has_operator_allocations(profile: Profile, device_memory: DeviceMemory) -> bool:
    """Whether anything was allocated or freed on that device in a call of an operator or annotation."""
    return bool((_moves(profile).device == device_memory.row).any())


@table_function
def compute_memory_operators(profile: Profile, selection: Selection) -> TableRows:
    """One row for each operator or annotation, device and rank with allocations or frees in it; sorted by self
    growth, descending."""
    calls, slices, moves = operator_calls_of(profile), slices_of(profile), _moves(profile)
    device_memories = select_device_memories(profile, selection)
    values: dict[str, list[Any]] = {c.name: [] for c in OPERATORS}
    if not len(moves.call):
        return build_rows(OPERATORS, values)
    kept = _moves_kept(profile, selection, moves)
    group = calls.label.astype(np.int64) * 2 + calls.annotation
    distinct, code = np.unique(group, return_inverse=True)
    mask = select_operator_calls(profile, selection)
    for device_memory in device_memories:
        mine = np.flatnonzero(kept & (moves.device == device_memory.row))
        mine = mine[in_windows(moves.time_ns[mine], selected_windows(profile, selection, device_memory.rank))]
        if not len(mine):
            continue
        size = moves.bytes[mine]
        own = [size, (size > 0).astype(np.int64), np.maximum(size, 0)]
        itself = [sum_by_index(code[moves.call[mine]], value, len(distinct)) for value in own]
        # Moves are in the order of slices, so those inside a call are one run.
        low, high = (np.searchsorted(moves.slice[mine], edge) for edge in (calls.row, slices.end[calls.row]))
        some = np.flatnonzero(high > low)
        sums = [np.concatenate([[0], np.cumsum(value)]) for value in own]
        total = [sum_by_index(code[some], of[high[some]] - of[low[some]], len(distinct)) for of in sums]
        of_rank = np.ones(len(calls), bool) if device_memory.rank is None else calls.rank == device_memory.rank
        number = np.bincount(code[of_rank if mask is None else of_rank & mask], minlength=len(distinct))
        first = np.full(len(distinct), NO_ID)
        first[code[some][::-1]] = some[::-1]
        shown = np.flatnonzero(first >= 0)
        count = len(shown)
        values["name"] += [strip_step_number(name) for name in call_names(profile, first[shown])]
        values["kind"] += ["annotation" if noted else "operator" for noted in calls.annotation[first[shown]].tolist()]
        values["device"] += [device_memory.label] * count
        values["rank"] += [device_memory.rank] * count
        values["calls"] += number[shown].tolist()
        for word, parts in (("self_", itself), ("", total)):
            for name, part in zip(("growth_bytes", "allocations", "allocated_bytes"), parts, strict=True):
                values[word + name] += part[shown].tolist()
    rows = build_rows(OPERATORS, values)
    return rows.sort("-self_growth_bytes", "-growth_bytes", "name")


def _moves_kept(profile: Profile, selection: Selection, moves: _OperatorAllocations) -> Array:
    """Which moves are on selected threads and call stacks, as bools."""
    slices = slices_of(profile)
    found = np.ones(len(moves.call), bool)
    threads = select_threads(profile, selection)
    if threads is not None:
        found &= threads[slices.thread[moves.slice]]
    kept = filter_calls(profile, selection)
    if kept is not None:
        found &= kept[get_column(profile.stacks, "call")[slices.stack[moves.slice]]]
    return found


@table_function
def compute_memory_live(profile: Profile, selection: Selection, by: str = "operator") -> TableRows:
    """Live blocks at the peak in the window, by allocation site; sorted by size, descending."""
    parts = [
        group_live_blocks.rows(profile, selection, device_memory, most.time_ns, by)
        for device_memory in select_device_memories(profile, selection)
        if (most := find_block_peak(profile, selection, device_memory)) is not None
    ]
    return concatenate_rows(LIVE, parts)


@table_function
def group_live_blocks(
    profile: Profile, selection: Selection, device_memory: DeviceMemory, time_ns: int, by: str
) -> TableRows:
    """Live blocks of a memory at a time, by operator, source or category; sorted by size, descending. Allocated memory
    without a known block has its own row."""
    categories = (
        categories_of(profile, device_memory)
        if by == "category" and not has_paired_frees(profile, device_memory)
        else []
    )
    if categories:
        return _live_in_curves(profile, device_memory, time_ns, categories)
    labels = {"operator": block_operators, "source": block_sources, "category": block_categories}[by](profile)
    rows = live_blocks(profile, selection, device_memory, time_ns)
    code, size = labels.code[rows] + 1, blocks_of(profile).bytes[rows]
    whole = len(labels.names) + 1
    number, bytes_ = np.bincount(code, minlength=whole), sum_by_index(code, size, whole)
    curve = load_curve(profile, device_memory, ALLOCATED)
    everything = int(values_at(curve, np.array([time_ns]))[0]) if curve else None
    if everything is not None and not (selection.divides_ranks or selection.has_patterns):
        bytes_[0] += max(0, everything - int(size.sum()))
    names = [UNKNOWN, *labels.names]
    shown = np.flatnonzero(bytes_ > 0)
    shown = shown[np.argsort(-bytes_[shown], kind="stable")]
    return build_rows(
        LIVE,
        {
            "name": [names[n] for n in shown.tolist()],
            "device": [device_memory.label] * len(shown),
            "blocks": [count if has_paired_frees(profile, device_memory) else None for count in number[shown].tolist()],
            "bytes": bytes_[shown],
            "percent": [100.0 * b / everything if everything else None for b in bytes_[shown].tolist()],
            "rank": [device_memory.rank] * len(shown),
        },
    )


def _live_in_curves(profile: Profile, device_memory: DeviceMemory, time_ns: int, names: list[str]) -> TableRows:
    """The size of a memory at a time by category, if only sizes were recorded."""
    moment = np.array([time_ns])
    found = [
        (int(values_at(one, moment)[0]), name)
        for name in names
        if (one := load_curve(profile, device_memory, name)) is not None
    ]
    found = sorted((one for one in found if one[0] > 0), key=lambda one: -one[0])
    whole = sum(size for size, _ in found)
    return build_rows(
        LIVE,
        {
            "name": [name for _, name in found],
            "device": [device_memory.label] * len(found),
            "blocks": [None] * len(found),
            "bytes": [size for size, _ in found],
            "percent": [100.0 * size / whole for size, _ in found],
            "rank": [device_memory.rank] * len(found),
        },
    )


@table_function
def compute_memory_events(profile: Profile, selection: Selection) -> TableRows:
    """Failed allocations, and those for which the allocator released its cache."""
    rows = _memory_events(profile, selection)
    values = {c.name: [row.get(c.name) for row in rows] for c in EVENTS}
    values["time_us"] = [row["time_ns"] / NS_PER_US for row in rows]
    values["device"] = [row["place"].label if row["place"] else None for row in rows]
    return build_rows(EVENTS, values)


def _memory_events(profile: Profile, selection: Selection) -> list[dict[str, Any]]:
    """Failures and retries in the window, by time: event, time_ns, device, rank and numbers."""
    found = memoize(profile, "memory troubles", lambda: _all_troubles(profile))
    device_memories = select_device_memories(profile, selection)
    result = []
    for one in found:
        rank = one["rank"]
        known = rank is None or bool(match_places(profile, selection, np.array([rank]))[0])
        if known and in_windows(np.array([one["time_ns"]]), selected_windows(profile, selection, rank))[0]:
            device_memory = next(
                (p for p in device_memories if (p.kind, p.index, p.rank) == (*one["device"], rank)), None
            )
            result.append(one | {"place": device_memory})
    return result


def _all_troubles(profile: Profile) -> list[dict[str, Any]]:
    names = get_strings(profile.functions, "name")
    words = {OUT_OF_MEMORY: OUT_OF_MEMORY, KINETO_OUT_OF_MEMORY: OUT_OF_MEMORY, RETRY: RETRY}
    meant = np.array([name in words for name in names] or [False], bool)
    table = profile.instants
    ranks = threads_of(profile).rank
    texts = get_strings(profile.argument_sets, "text")
    result = []
    for row in np.flatnonzero(meant[get_column(table, "function")]).tolist() if table.num_rows else []:
        arguments, thread = int(get_column(table, "arguments")[row]), int(get_column(table, "thread")[row])
        try:
            said = json.loads(texts[arguments]) if arguments >= 0 else {}
        except ValueError:
            said = {}
        said = said if isinstance(said, dict) else {}
        index = said.get("device", said.get("Device Id"))
        kind = "cpu" if said.get("Device Type") == 0 else "gpu"
        rank = int(ranks[thread]) if thread >= 0 and ranks[thread] >= 0 else None
        result.append(
            {
                "event": words[functions_of(profile).name_of(int(get_column(table, "function")[row]))],
                "time_ns": int(get_column(table, "time_ns")[row]),
                "device": (kind, index if isinstance(index, int) else 0),
                "rank": rank,
                "bytes": _parse_int(said.get("bytes", said.get("Bytes"))),
                "device_free_bytes": _parse_int(said.get("device_free_bytes")),
            }
        )
    return result


def _parse_int(value: Any) -> int | None:
    return abs(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 else None


TABLES = (
    Table("memory", "Memory", MEMORY, compute_memory),
    Table("memory-operators", "Memory by operator", OPERATORS, compute_memory_operators),
    Table(
        "memory-live",
        "Memory live at the peak",
        LIVE,
        compute_memory_live,
        by=BY,
    ),
    Table("memory-events", "Failed allocations and retries", EVENTS, compute_memory_events),
)
"""The tables of this module."""
