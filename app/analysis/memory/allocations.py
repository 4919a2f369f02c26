"""Memory: peaks, blocks and what is left of them by device; growth and allocation by operator; what lives at a time.

Growth and allocation by operator are those of torch-tb-profiler (memory_parser.py of its last revision): what is
allocated and freed counts for the operator in which it happens, on its thread. docs/metrics.md has each definition.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...domain.arrays import Array
from ...domain.memory import (
    ALLOCATED,
    INACTIVE_SPLIT,
    INACTIVE_SPLIT_BLOCKS,
    LARGEST_FREE,
    MISSING,
    OUT_OF_MEMORY,
    RESERVED,
    RETRY,
    ROUNDING,
)
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, column, texts
from ..core.functions import functions_of
from ..core.picking import calls_kept, in_ranks, sums_on, threads_of, threads_selected
from ..core.remember import remembered
from ..core.schema import Column, frame
from ..core.slices import slices_of
from ..ml.operators import calls_of, calls_selected, names_of, nearest, step_name
from .blocks import (
    blocks_of,
    categories,
    known_on,
    live,
    never_freed,
    operators_of,
    paired_on,
    peak,
    picked,
    sources_of,
)
from .curves import (
    NS_PER_US,
    Place,
    at,
    categories_of,
    curve,
    inside,
    last_value,
    places_selected,
    top,
    unused,
    windows,
)

KINETO_OUT_OF_MEMORY = "[OutOfMemory]"
BY = ("operator", "source", "category")
NOT_KNOWN = "(not known)"

_DEVICE = Column("device", "", "GPU and its number, or CPU; memory where the file does not tell.")
_RANK = Column("rank", "", "The rank; missing where there are none.", "Int64")
MEMORY = (
    _DEVICE,
    Column(
        "peak_bytes",
        "bytes",
        "The most that was allocated at any time; missing where no totals were recorded.",
        "Int64",
    ),
    Column("allocations", "", "How many blocks were allocated; missing where only sizes were recorded.", "Int64"),
    Column("frees", "", "How many blocks were freed, those included that were there before.", "Int64"),
    Column(
        "unfreed",
        "",
        "How many of the allocated blocks were not freed by the end; missing where the file has no addresses.",
        "Int64",
    ),
    Column("unfreed_bytes", "bytes", "How large those are together.", "Int64"),
    _RANK,
    Column("peak_us", "µs", "When most was allocated, the first time.", "Float64"),
    Column("allocated_bytes", "bytes", "How large all allocated blocks are together.", "Int64"),
    Column("peak_reserved_bytes", "bytes", "The most that was reserved at any time.", "Int64"),
    Column("unused_bytes", "bytes", "The most that was reserved and not allocated at any time.", "Int64"),
    Column("unused_at_peak_bytes", "bytes", "What was reserved and not allocated when most was allocated.", "Int64"),
    Column("largest_free_bytes", "bytes", "At the end of a snapshot: the largest block that is free.", "Int64"),
    Column(
        "inactive_split_bytes",
        "bytes",
        "At the end of a snapshot: free blocks in segments of which a part is in use.",
        "Int64",
    ),
    Column("inactive_split_blocks", "", "How many blocks those are.", "Int64"),
    Column(
        "rounding_bytes",
        "bytes",
        "At the end of a snapshot: what the allocator gave more than it was asked for.",
        "Int64",
    ),
    Column("retries", "", "How often the allocator had to give back what it had cached.", "int64"),
    Column("out_of_memory", "", "How often an allocation failed.", "int64"),
    Column("memory_bytes", "bytes", "How much memory the device has.", "Int64"),
    Column("name", "", "The device's model."),
)
OPERATORS = (
    Column("name", "", "The operator's name, or the annotation's; all steps are one: ProfilerStep."),
    _DEVICE,
    Column("calls", "", "How often it was called.", "int64"),
    Column(
        "self_growth_bytes",
        "bytes",
        "Allocated less freed in it, and in no operator inside it: by how much memory was more after it.",
        "int64",
    ),
    Column("growth_bytes", "bytes", "Allocated less freed while it ran, on its thread.", "int64"),
    Column("self_allocations", "", "How many blocks it allocated itself.", "int64"),
    Column("allocations", "", "How many blocks were allocated while it ran, on its thread.", "int64"),
    Column("self_allocated_bytes", "bytes", "How large the blocks are that it allocated itself.", "int64"),
    Column("allocated_bytes", "bytes", "How large all blocks are that were allocated while it ran.", "int64"),
    _RANK,
    Column("kind", "", "operator or annotation."),
)
LIVE = (
    Column("name", "", "What made the blocks: the operator, the function of Python, or the category, as by says."),
    _DEVICE,
    Column(
        "blocks",
        "",
        "How many of them live at the peak of the device in the window; missing where only sizes were recorded.",
        "Int64",
    ),
    Column("bytes", "bytes", "How large those are together.", "int64"),
    Column("percent", "%", "bytes as a share of what is allocated at the peak.", "Float64"),
    _RANK,
)
EVENTS = (
    Column("time_us", "µs", "When it was.", "float64"),
    _DEVICE,
    Column("event", "", "out of memory, or allocator retry."),
    Column("bytes", "bytes", "How much was asked for.", "Int64"),
    Column("device_free_bytes", "bytes", "How much the device had free.", "Int64"),
    _RANK,
)


def has_memory(profile: Profile) -> bool:
    """Whether anything of memory was recorded."""
    return bool(profile.allocations.num_rows) or ALLOCATED in profile.series.column("name").to_pylist()


def memory(profile: Profile, selection: Selection) -> pd.DataFrame:
    """One row for each memory of which something is known: GPUs first."""
    chosen = places_selected(profile, selection)
    values: dict[str, list[Any]] = {c.name: [] for c in MEMORY}
    for place in chosen:
        for name, value in _memory(profile, selection, place).items():
            values[name].append(value)
    return frame(MEMORY, values)


def _memory(profile: Profile, selection: Selection, place: Place) -> dict[str, Any]:
    stretches = windows(profile, selection, place.rank)
    blocks, rows = blocks_of(profile), picked(profile, selection, place)
    made = rows[blocks.start[rows] != MISSING]
    left = never_freed(profile, selection, place)
    known, paired = known_on(profile, place), paired_on(profile, place)
    most = peak(profile, selection, place)
    reserved, idle = top(curve(profile, place, RESERVED), stretches), unused(profile, place)
    idle_most = top(idle, stretches)
    what = [one["event"] for one in _troubles(profile, selection) if one["place"] == place]
    return {
        "device": place.label,
        "rank": place.rank,
        "peak_bytes": most.value if most else None,
        "peak_us": most.time_ns / NS_PER_US if most else None,
        "allocations": len(made) if known else None,
        "allocated_bytes": int(blocks.bytes[made].sum()) if known else None,
        "frees": len(freed(profile, selection, place)) if known else None,
        "unfreed": len(left) if paired else None,
        "unfreed_bytes": int(blocks.bytes[left].sum()) if paired else None,
        "peak_reserved_bytes": reserved.value if reserved else None,
        "unused_bytes": idle_most.value if idle_most else None,
        "unused_at_peak_bytes": int(at(idle, np.array([most.time_ns]))[0]) if idle and most else None,
        "largest_free_bytes": last_value(profile, place, LARGEST_FREE),
        "inactive_split_bytes": last_value(profile, place, INACTIVE_SPLIT),
        "inactive_split_blocks": last_value(profile, place, INACTIVE_SPLIT_BLOCKS, "count"),
        "rounding_bytes": last_value(profile, place, ROUNDING),
        "retries": what.count(RETRY),
        "out_of_memory": what.count(OUT_OF_MEMORY),
        "memory_bytes": place.capacity,
        "name": place.name or None,
    }


def freed(profile: Profile, selection: Selection, place: Place) -> Array:
    """The rows of the blocks of a memory that were freed in the window, wherever they were allocated."""
    blocks = blocks_of(profile)
    mine = np.flatnonzero((blocks.device == place.row) & (blocks.end != MISSING))
    mask = inside(blocks.end[mine], windows(profile, selection, place.rank))
    return _on_stacks(profile, selection, mine[mask])


def _on_stacks(profile: Profile, selection: Selection, rows: Array) -> Array:
    """Those of some blocks that are of the threads and stacks selected."""
    blocks = blocks_of(profile)
    chosen = threads_selected(profile, selection.only(ranks=(), step=None)) if selection.threads else None
    if chosen is not None:
        rows = rows[np.append(chosen, False)[blocks.thread[rows]]]
    kept = calls_kept(profile, selection)
    if kept is not None:
        rows = rows[kept[column(profile.stacks, "call")[blocks.stack[rows]]]]
    return rows


@dataclass(frozen=True, eq=False)
class _Moves:
    """What was allocated or freed in operators. call: place in `calls_of`, ascending; time_ns; bytes, negative for what
    was freed; device: row of `devices`."""

    call: Array
    slice: Array
    time_ns: Array
    bytes: Array
    device: Array


def _moves(profile: Profile) -> _Moves:
    def build() -> _Moves:
        blocks, slices, calls = blocks_of(profile), slices_of(profile), calls_of(profile)
        made = np.flatnonzero((blocks.slice >= 0) & (blocks.start != MISSING))
        gone = np.flatnonzero((blocks.end_slice >= 0) & (blocks.end != MISSING))
        of = np.concatenate([blocks.slice[made], blocks.end_slice[gone]])
        called = np.zeros(len(slices), bool)
        called[calls.row] = True
        # Calls leave out those that only repeat the one around: theirs is what happens in those.
        inner = nearest(slices.parent, called, of)
        call = np.searchsorted(calls.row, np.maximum(inner, 0))
        order = np.argsort(inner, kind="stable")
        order = order[inner[order] >= 0]
        return _Moves(
            call[order],
            inner[order],
            np.concatenate([blocks.start[made], blocks.end[gone]])[order],
            np.concatenate([blocks.bytes[made], -blocks.bytes[gone]])[order],
            np.concatenate([blocks.device[made], blocks.device[gone]])[order],
        )

    return remembered(profile, "memory moves", build)


def in_operators(profile: Profile, place: Place) -> bool:
    """Whether anything was allocated there or freed in a call of an operator or annotation."""
    return bool((_moves(profile).device == place.row).any())


def memory_operators(profile: Profile, selection: Selection) -> pd.DataFrame:
    """One row for each operator or annotation, device and rank with anything allocated or freed in it; what grew most
    by itself first."""
    calls, slices, moves = calls_of(profile), slices_of(profile), _moves(profile)
    chosen = places_selected(profile, selection)
    values: dict[str, list[Any]] = {c.name: [] for c in OPERATORS}
    if not len(moves.call):
        return frame(OPERATORS, values)
    kept = _moves_kept(profile, selection, moves)
    group = calls.label.astype(np.int64) * 2 + calls.annotation
    distinct, code = np.unique(group, return_inverse=True)
    mask = calls_selected(profile, selection)
    for place in chosen:
        mine = np.flatnonzero(kept & (moves.device == place.row))
        mine = mine[inside(moves.time_ns[mine], windows(profile, selection, place.rank))]
        if not len(mine):
            continue
        size = moves.bytes[mine]
        own = [size, (size > 0).astype(np.int64), np.maximum(size, 0)]
        itself = [sums_on(code[moves.call[mine]], value, len(distinct)) for value in own]
        # Moves are in the order of slices, so what is inside of a call is one run of them.
        low, high = (np.searchsorted(moves.slice[mine], edge) for edge in (calls.row, slices.end[calls.row]))
        some = np.flatnonzero(high > low)
        sums = [np.concatenate([[0], np.cumsum(value)]) for value in own]
        total = [sums_on(code[some], of[high[some]] - of[low[some]], len(distinct)) for of in sums]
        of_rank = np.ones(len(calls), bool) if place.rank is None else calls.rank == place.rank
        number = np.bincount(code[of_rank if mask is None else of_rank & mask], minlength=len(distinct))
        first = np.full(len(distinct), NO_ID)
        first[code[some][::-1]] = some[::-1]
        shown = np.flatnonzero(first >= 0)
        count = len(shown)
        values["name"] += [step_name(name) for name in names_of(profile, first[shown])]
        values["kind"] += ["annotation" if noted else "operator" for noted in calls.annotation[first[shown]].tolist()]
        values["device"] += [place.label] * count
        values["rank"] += [place.rank] * count
        values["calls"] += number[shown].tolist()
        for word, parts in (("self_", itself), ("", total)):
            for name, part in zip(("growth_bytes", "allocations", "allocated_bytes"), parts, strict=True):
                values[word + name] += part[shown].tolist()
    rows = frame(OPERATORS, values)
    order = ["self_growth_bytes", "growth_bytes", "name"]
    return rows.sort_values(order, ascending=[False, False, True], kind="stable", ignore_index=True)


def _moves_kept(profile: Profile, selection: Selection, moves: _Moves) -> Array:
    """Which moves happened on the threads and call stacks that are selected, as bools."""
    slices = slices_of(profile)
    found = np.ones(len(moves.call), bool)
    chosen = threads_selected(profile, selection)
    if chosen is not None:
        found &= chosen[slices.thread[moves.slice]]
    kept = calls_kept(profile, selection)
    if kept is not None:
        found &= kept[column(profile.stacks, "call")[slices.stack[moves.slice]]]
    return found


def memory_live(profile: Profile, selection: Selection, by: str = "operator") -> pd.DataFrame:
    """What lives when most is allocated in the window, by what made it; the largest first."""
    parts = [
        live_by(profile, selection, place, most.time_ns, by)
        for place in places_selected(profile, selection)
        if (most := peak(profile, selection, place)) is not None
    ]
    return pd.concat(parts, ignore_index=True) if parts else frame(LIVE, {c.name: [] for c in LIVE})


def live_by(profile: Profile, selection: Selection, place: Place, time_ns: int, by: str) -> pd.DataFrame:
    """What of a memory lives at a time, by operator, source or category; the largest first. What is allocated and of
    no block that is known is a row of its own."""
    told = categories_of(profile, place) if by == "category" and not paired_on(profile, place) else []
    if told:
        return _live_in_curves(profile, place, time_ns, told)
    labels = {"operator": operators_of, "source": sources_of, "category": categories}[by](profile)
    rows = live(profile, selection, place, time_ns)
    code, size = labels.code[rows] + 1, blocks_of(profile).bytes[rows]
    whole = len(labels.names) + 1
    number, bytes_ = np.bincount(code, minlength=whole), sums_on(code, size, whole)
    found = curve(profile, place, ALLOCATED)
    everything = int(at(found, np.array([time_ns]))[0]) if found else None
    if everything is not None and not (selection.threads or selection.focus or selection.ignore or selection.hide):
        bytes_[0] += max(0, everything - int(size.sum()))
    names = [NOT_KNOWN, *labels.names]
    shown = np.flatnonzero(bytes_ > 0)
    shown = shown[np.argsort(-bytes_[shown], kind="stable")]
    return frame(
        LIVE,
        {
            "name": [names[n] for n in shown.tolist()],
            "device": [place.label] * len(shown),
            "blocks": [count if paired_on(profile, place) else None for count in number[shown].tolist()],
            "bytes": bytes_[shown],
            "percent": [100.0 * b / everything if everything else None for b in bytes_[shown].tolist()],
            "rank": [place.rank] * len(shown),
        },
    )


def _live_in_curves(profile: Profile, place: Place, time_ns: int, names: list[str]) -> pd.DataFrame:
    """What of a memory there was at a time by category, where only sizes were recorded."""
    moment = np.array([time_ns])
    found = [(int(at(one, moment)[0]), name) for name in names if (one := curve(profile, place, name)) is not None]
    found = sorted((one for one in found if one[0] > 0), key=lambda one: -one[0])
    whole = sum(size for size, _ in found)
    return frame(
        LIVE,
        {
            "name": [name for _, name in found],
            "device": [place.label] * len(found),
            "blocks": [None] * len(found),
            "bytes": [size for size, _ in found],
            "percent": [100.0 * size / whole for size, _ in found],
            "rank": [place.rank] * len(found),
        },
    )


def memory_events(profile: Profile, selection: Selection) -> pd.DataFrame:
    """What went wrong: allocations that failed, and those for which the allocator gave back what it had cached."""
    rows = _troubles(profile, selection)
    values = {c.name: [row.get(c.name) for row in rows] for c in EVENTS}
    values["time_us"] = [row["time_ns"] / NS_PER_US for row in rows]
    values["device"] = [row["place"].label if row["place"] else None for row in rows]
    return frame(EVENTS, values)


def _troubles(profile: Profile, selection: Selection) -> list[dict[str, Any]]:
    """What went wrong in the window, in order of time: event, time_ns, place, rank and numbers."""
    found = remembered(profile, "memory troubles", lambda: _all_troubles(profile))
    chosen = places_selected(profile, selection)
    result = []
    for one in found:
        rank = one["rank"]
        known = rank is None or not selection.ranks or bool(in_ranks(np.array([rank]), selection)[0])
        if known and inside(np.array([one["time_ns"]]), windows(profile, selection, rank))[0]:
            place = next((p for p in chosen if (p.kind, p.index, p.rank) == (*one["device"], rank)), None)
            result.append(one | {"place": place})
    return result


def _all_troubles(profile: Profile) -> list[dict[str, Any]]:
    names = texts(profile.functions, "name")
    words = {OUT_OF_MEMORY: OUT_OF_MEMORY, KINETO_OUT_OF_MEMORY: OUT_OF_MEMORY, RETRY: RETRY}
    meant = np.array([name in words for name in names] or [False], bool)
    table = profile.instants
    ranks = threads_of(profile).rank
    told = texts(profile.argument_sets, "text")
    result = []
    for row in np.flatnonzero(meant[column(table, "function")]).tolist() if table.num_rows else []:
        arguments, thread = int(column(table, "arguments")[row]), int(column(table, "thread")[row])
        try:
            said = json.loads(told[arguments]) if arguments >= 0 else {}
        except ValueError:
            said = {}
        said = said if isinstance(said, dict) else {}
        index = said.get("device", said.get("Device Id"))
        kind = "cpu" if said.get("Device Type") == 0 else "gpu"
        rank = int(ranks[thread]) if thread >= 0 and ranks[thread] >= 0 else None
        result.append(
            {
                "event": words[functions_of(profile).name_of(int(column(table, "function")[row]))],
                "time_ns": int(column(table, "time_ns")[row]),
                "device": (kind, index if isinstance(index, int) else 0),
                "rank": rank,
                "bytes": _whole(said.get("bytes", said.get("Bytes"))),
                "device_free_bytes": _whole(said.get("device_free_bytes")),
            }
        )
    return result


def _whole(value: Any) -> int | None:
    return abs(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 else None
