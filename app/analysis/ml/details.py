"""Details of one operator or kernel: its calls, callers and callees, threads and steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...domain.arrays import Array, Int32Array
from ...domain.profile import Profile
from ...domain.selection import Selection
from ...domain.tables import NO_ID, get_column, get_strings
from ..core.functions import functions_of
from ..core.group_by import group_by, select_groups
from ..core.memo import memoize
from ..core.sample_selection import threads_of
from ..core.slice_selection import device_work_of, slices_of
from .kernels import operator_labels, select_kernels
from .launches import launch_waits_of
from .operators import innermost_slices, operator_calls_of, select_operator_calls, strip_step_number, to_us

NOTHING = "(nothing)"
"""The name of the caller of a call without one."""


@dataclass(frozen=True, eq=False)
class OperatorDetail:
    """host, device: ns of each call. Tables, each with calls, host_us and device_us or total_us: kernels (name, place:
    "itself" or "inside"), callers, callees, steps, threads.
    """

    host: Array
    device: Array
    kernels: pd.DataFrame
    callers: pd.DataFrame
    callees: pd.DataFrame
    steps: pd.DataFrame
    threads: pd.DataFrame


@dataclass(frozen=True, eq=False)
class KernelDetail:
    """duration: ns of each run; delay: of runs with a known launch; queue: launches queued before them. Tables, each
    with name, calls and total_us: operators, steps, streams.
    """

    duration: Array
    delay: Array
    queue: Array
    operators: pd.DataFrame
    steps: pd.DataFrame
    streams: pd.DataFrame


def operator_detail(profile: Profile, selection: Selection, name: str) -> OperatorDetail:
    """Details of the selected calls of the operator or annotation of that name."""
    calls, slices, work = operator_calls_of(profile), slices_of(profile), device_work_of(profile)
    mask = select_operator_calls(profile, selection, name)
    places = np.arange(len(calls)) if mask is None else np.flatnonzero(mask)
    chosen = np.zeros(len(calls) + 1, bool)
    chosen[places] = True
    parents = _parents(profile)
    children = np.flatnonzero(chosen[parents])
    rows = calls.row[places]
    hung = _inside(rows, slices.end[rows], work.anchor)
    itself = chosen[calls.operator_of_work[hung]]
    if len(places) and calls.annotation[places[0]]:
        # Work of an annotation is what no operator inside it launched.
        itself = calls.operator_of_work[hung] < 0
    steps, step_names = _steps(profile, slices.start[rows], calls.rank[places])
    threads = slices.thread[rows]

    host = slices.duration[calls.row].astype(np.int64)

    def of_calls(keys: Array, names: Sequence[str], of: Array, *, in_order: bool = False) -> pd.DataFrame:
        return _table(keys, names, in_order=in_order, host_us=host[of], device_us=calls.device_total[of])

    functions = functions_of(profile)
    kernels = []
    for place, part in (("itself", hung[itself]), ("inside", hung[~itself])):
        code = functions.canonical[work.function[part]]
        ids, keys = np.unique(code, return_inverse=True)
        table = _table(keys, functions.names_of(ids), total_us=work.duration[part])
        kernels.append(table.assign(place=place))
    label, label_names = _labels_of(profile, parents[places])
    inner, inner_names = _labels_of(profile, children)
    return OperatorDetail(
        host=host[places],
        device=calls.device_total[places],
        kernels=pd.concat(kernels, ignore_index=True),
        callers=of_calls(label, label_names, places),
        callees=of_calls(inner, inner_names, children),
        steps=of_calls(steps, step_names, places, in_order=True),
        threads=of_calls(threads, thread_names(profile), places),
    )


def kernel_detail(profile: Profile, selection: Selection, name: str) -> KernelDetail:
    """Details of the selected runs of the kernel, memcpy or memset of that name."""
    work, waits, slices = device_work_of(profile), launch_waits_of(profile), slices_of(profile)
    mask = select_kernels(profile, selection, name)
    rows = np.arange(len(work)) if mask is None else np.flatnonzero(mask)
    row = rows[waits.has_launch[rows]]
    labels = operator_labels(profile)[rows]
    ids, keys = np.unique(labels, return_inverse=True)
    names = [
        strip_step_number(text) if of >= 0 else NOTHING for of, text in zip(ids, _names(profile, ids), strict=True)
    ]
    anchored = work.anchor[rows] >= 0
    began = np.where(anchored, slices.start[work.anchor[rows]], work.start[rows]) if len(slices) else work.start[rows]
    rank = threads_of(profile).rank[work.thread[rows]]
    steps, step_names = _steps(profile, began, rank)
    duration = work.duration[rows].astype(np.int64)
    return KernelDetail(
        duration=duration,
        delay=waits.delay[row],
        queue=waits.queue[row],
        operators=_table(keys, names, total_us=duration),
        steps=_table(steps, step_names, in_order=True, total_us=duration),
        streams=_table(work.thread[rows], thread_names(profile), total_us=duration),
    )


def thread_names(profile: Profile) -> list[str]:
    """The name of each thread or stream, with its rank if it has one."""
    threads = threads_of(profile)
    return [
        of_rank + (name or key)
        for of_rank, name, key in zip(_rank_prefixes(threads.rank), threads.name, threads.key, strict=True)
    ]


def _rank_prefixes(rank: Array) -> list[str]:
    """The prefix of names of these ranks; "" if there is only one."""
    several = len(set(rank.tolist())) > 1
    return [f"rank {of}, " if several and of >= 0 else "" for of in rank.tolist()]


def _table(keys: Array, names: Sequence[str], *, in_order: bool = False, **values: Array) -> pd.DataFrame:
    """name, calls and the sums of values (ns) in µs, by key; sorted by the first value, descending. -1 is omitted.

    in_order: sorted by key instead.
    """
    groups = group_by(keys)
    some = select_groups(groups, keys >= 0)
    table = pd.DataFrame(
        {
            "name": pd.Series([names[n] for n in keys[groups.first[some.groups]].tolist()], dtype="str"),
            "calls": some.count(),
            **{word: to_us(some.sum(of.astype(np.int64))) for word, of in values.items()},
        }
    )
    if in_order:
        return table
    return table.sort_values(next(iter(values)), ascending=False, kind="stable", ignore_index=True)


def _labels_of(profile: Profile, places: Array) -> tuple[Array, list[str]]:
    """(a number for each of these calls, the names by number); -1: none."""
    calls = operator_calls_of(profile)
    label = np.append(calls.label, NO_ID)[places]
    ids, keys = np.unique(label, return_inverse=True)
    names = _names(profile, ids)
    return keys, [NOTHING if of < 0 else strip_step_number(text) for of, text in zip(ids, names, strict=True)]


def _names(profile: Profile, ids: Array) -> list[str]:
    return functions_of(profile).names_of(np.maximum(ids, 0)) if profile.functions.num_rows else [""] * len(ids)


def _parents(profile: Profile) -> Array:
    """For each call the index of the enclosing call, -1 for none."""

    def build() -> Array:
        calls, slices = operator_calls_of(profile), slices_of(profile)
        place = np.full(len(slices) + 1, NO_ID, np.int32)
        place[calls.row] = np.arange(len(calls))
        above: Int32Array = place[innermost_slices(slices.parent, place[:-1] >= 0, slices.parent[calls.row])]
        return above

    return memoize(profile, "parents of calls", build)


def _inside(rows: Array, ends: Array, anchor: Array) -> Array:
    """Which device work, by row, is attributed to these slices (ascending) or their descendants."""
    if not len(rows):
        return np.zeros(0, np.int64)
    reach = np.maximum.accumulate(ends)
    before = np.searchsorted(rows, anchor, "right") - 1
    return np.flatnonzero((before >= 0) & (reach[np.maximum(before, 0)] > anchor))


def _steps(profile: Profile, start: Array, rank: Array) -> tuple[Array, list[str]]:
    """(the row of `steps` at each time of a rank, -1 for none; the names of those rows)."""
    table = profile.steps
    begins, ends = get_column(table, "start_ns"), get_column(table, "end_ns")
    of_rank = np.array([-1 if of is None else of for of in table.column("rank").to_pylist()], np.int64)
    found = np.full(len(start), NO_ID, np.int64)
    for one in np.unique(of_rank).tolist():
        rows = np.flatnonzero(of_rank == one)
        rows = rows[np.argsort(begins[rows], kind="stable")]
        mine = np.arange(len(start)) if one < 0 else np.flatnonzero(rank == one)
        at = np.searchsorted(begins[rows], start[mine], "right") - 1
        inside = (at >= 0) & (start[mine] < ends[rows[np.maximum(at, 0)]])
        found[mine[inside]] = rows[at[inside]]
    names = get_strings(table, "name")
    return found, [(f"rank {of}, " if of >= 0 else "") + name for of, name in zip(of_rank.tolist(), names, strict=True)]
