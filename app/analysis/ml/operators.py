"""Operators and annotations: number of calls, self and total time on the host and on devices.

Definitions are those of torch-tb-profiler (node.py, op_tree.py and op_agg.py of its last revision), which are
PyTorch's own (torch/autograd/profiler_util.py); docs/metrics.md has each, and where this differs.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array, Float64Array, Int32Array
from ...domain.profile import Profile
from ...domain.selection import Selection, check_choice
from ...domain.tables import NO_ID, get_column
from ...domain.units import NS_PER_US
from ..core.common_columns import OPERATOR_CALLS, OPERATOR_KIND, RANK_IF_SEVERAL
from ..core.functions import functions_of
from ..core.group_by import GroupIndex, group_by, select_groups
from ..core.memo import memoize
from ..core.patterns import unique_texts
from ..core.sample_selection import sum_by_index, threads_of
from ..core.schema import Column, Table, TableRows, build_rows, table_function
from ..core.slice_selection import (
    device_time_prefix_sums,
    device_work_of,
    prefix_sums,
    select_anchored_work,
    select_slices,
    slices_of,
)
from .operator_parts import NO_PART, OPERATOR_PARTS, operator_parts_of
from .tensor_cores import tensor_cores_of

BY = ("name", "shapes", "stack", *OPERATOR_PARTS)
ANNOTATIONS = re.compile(
    r"ProfilerStep\#\d+ | enumerate\(Data(?:Loader|Pipe)\)\# .* | Optimizer\. .*"
    r" | (?:Distributed)?DataParallel\.forward | \[pl\]\[ .*",
    re.VERBOSE | re.DOTALL,
)
"""Annotations of PyTorch itself; before 1.12 with the category of operators."""
STEP_PATTERN = re.compile(r"(ProfilerStep)#\d+")

_SHARE_HOST = "in percent of the host time of all selected operators and annotations, without counting overlaps twice."
_SHARE_DEVICE = "in percent of the device time of all work launched from the selection."
COLUMNS = (
    Column(
        "name",
        "",
        "Name of the operator or annotation; all steps together are ProfilerStep. By kind, tensor, layer or "
        "device: its value, or (none) for operators without one.",
    ),
    OPERATOR_CALLS,
    Column("host_self_us", "µs", "Time in it, without operators, annotations and runtime calls inside it.", "float64"),
    Column("host_total_us", "µs", "Time in it.", "float64"),
    Column(
        "device_self_us",
        "µs",
        "Time of the kernels, memcpy and memset that it launched, without operators inside it; missing if no "
        "device was used.",
        "Float64",
    ),
    Column("device_total_us", "µs", "Time of all device work launched while it ran, on its thread.", "Float64"),
    Column(
        "tensor_core_eligible",
        "",
        "Whether tensor cores could run it or an operator inside it; missing for annotations.",
        "boolean",
    ),
    Column("tensor_core_self_percent", "%", "Kernels on tensor cores in percent of device_self_us.", "Float64"),
    Column("tensor_core_total_percent", "%", "Kernels on tensor cores in percent of device_total_us.", "Float64"),
    OPERATOR_KIND,
    RANK_IF_SEVERAL,
    Column("input_shapes", "", "The shapes of its inputs as recorded; only by=shapes."),
    Column("call_stack", "", "Its callers, from the outermost, separated by semicolons; only by=stack."),
    Column("host_self_percent", "%", f"host_self_us {_SHARE_HOST}", "float64"),
    Column("host_total_percent", "%", f"host_total_us {_SHARE_HOST}", "float64"),
    Column("device_self_percent", "%", f"device_self_us {_SHARE_DEVICE}", "Float64"),
    Column("device_total_percent", "%", f"device_total_us {_SHARE_DEVICE}", "Float64"),
    Column("host_mean_us", "µs", "host_total_us ÷ calls.", "float64"),
    Column("host_min_us", "µs", "The shortest call.", "float64"),
    Column("host_max_us", "µs", "The longest call.", "float64"),
    Column("device_mean_us", "µs", "device_total_us ÷ calls.", "Float64"),
    Column(
        "kernels", "", "Number of kernels, memcpy and memset that it launched, including operators inside it.", "int64"
    ),
)


@dataclass(frozen=True, eq=False)
class OperatorCalls:
    """Calls of operators and annotations, in the order of the slices, without those that only repeat the enclosing
    call.

    row: of `slices`. label: a row of `functions` with its displayed name. annotation: whether it is one. Times in ns.
    work_count: total device work. eligible: for tensor cores. operator_of_work: for each row of `device_work` the index
    of the operator that launched it; annotation_of_work: of the annotation, if no operator inside it did; -1 none.
    has_device_work: whether any device has work.
    """

    row: Array
    label: Array
    annotation: Array
    rank: Array
    host_self: Array
    device_total: Array
    tensor_total: Array
    work_count: Array
    eligible: Array
    operator_of_work: Array
    annotation_of_work: Array
    has_device_work: bool

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, eq=False)
class OperatorSums:
    """Groups of selected calls with their sums, in ns. first: a call of each."""

    first: Array
    calls: Array
    host_self: Array
    host_total: Array
    host_min: Array
    host_max: Array
    device_self: Array
    device_total: Array
    tensor_self: Array
    tensor_total: Array
    launches: Array
    eligible: Array


def operator_calls_of(profile: Profile) -> OperatorCalls:
    """The calls of a profile; built once."""
    return memoize(profile, "operator calls", lambda: _calls(profile))


@table_function
def compute_operators(
    profile: Profile, selection: Selection, by: str = "name", *, by_rank: bool = True, name: str | None = None
) -> TableRows:
    """One row for each operator and annotation; sorted by device self time, then host self time, descending.

    by "shapes": one for each name and shapes of inputs; "stack": for each name and call stack; one of PARTS: for each
    kind, tensor, layer or device of operators, and for each annotation by its name. by_rank: one for each
    rank if there are several, else their sum. name: only calls of this name.
    """
    sums = sum_operators(profile, selection, by, by_rank, name)
    calls, firsts = operator_calls_of(profile), sums.first
    values = _values(profile, calls, sums)
    host, device = total_host_time(profile, selection), total_device_time(profile, selection)
    for word, whole in (("host", host), ("device", device)):
        for part in ("self", "total"):
            values[f"{word}_{part}_percent"] = to_percent(values[f"{word}_{part}_us"], whole / NS_PER_US)
    nothing = [None] * len(firsts)
    if by in OPERATOR_PARTS:
        values["name"] = _part_names(profile, by, firsts, values["name"])
    values |= {
        "rank": rank_column(profile, calls.rank[firsts]) if by_rank else nothing,
        "input_shapes": input_shapes(profile, firsts) if by == "shapes" else nothing,
        "call_stack": call_stacks(profile, firsts) if by == "stack" else nothing,
    }
    rows = build_rows(COLUMNS, values)
    return rows.sort("-device_self_us", "-host_self_us", "name")


def select_operator_calls(profile: Profile, selection: Selection, name: str | None = None) -> Array | None:
    """Which calls are selected, as bools; None for all of them. name: only calls of this name."""
    calls = operator_calls_of(profile)
    mask = select_slices(profile, selection)
    operator_calls = None if mask is None else mask[calls.row]
    if name is None:
        return operator_calls
    labels = np.unique(calls.label)
    texts = [strip_step_number(text) for text in functions_of(profile).names_of(labels)]
    named = np.isin(calls.label, labels[[text == name for text in texts]])
    return named if operator_calls is None else operator_calls & named


def group_operator_calls(profile: Profile, by: str = "name", by_rank: bool = False) -> GroupIndex:
    """The calls grouped by name, by name and shapes of inputs or call stack, or by a part. Raises InvalidRequest."""
    check_choice("by", by, BY)

    def build() -> GroupIndex:
        calls = operator_calls_of(profile)
        codes = [calls.label * 2 + calls.annotation]
        if by in OPERATOR_PARTS:
            # Annotations have none, and are unchanged.
            codes = [np.where(calls.annotation, calls.label, NO_ID), _part_codes(profile, by, calls.row)]
        if by == "shapes":
            codes.append(_texts_of(profile, "shapes", calls.row)[1])
        if by == "stack":
            codes.append(_stack_codes(profile, calls.row))
        if by_rank:
            codes.append(calls.rank)
        return group_by(*codes)

    return memoize(profile, ("operator groups", by, by_rank), build)


def _part_codes(profile: Profile, part: str, rows: Array) -> Array:
    """The index of the value of each of these slices, -1 for none."""
    parts = operator_parts_of(profile)
    return parts[part][1][slices_of(profile).arguments[rows]] if part in parts else np.full(len(rows), NO_ID)


def _part_names(profile: Profile, part: str, places: Array, names: list[str]) -> list[str]:
    """The labels of groups by a part. places: a call of each; names: of the calls, used for annotations."""
    calls, known = operator_calls_of(profile), operator_parts_of(profile).get(part, ([], None))[0]
    codes = _part_codes(profile, part, calls.row[places]).tolist()
    noted = calls.annotation[places].tolist()
    parts = zip(names, codes, noted, strict=True)
    return [name if of else known[code] if code >= 0 else NO_PART for name, code, of in parts]


def call_names(profile: Profile, places: Array) -> list[str]:
    """The displayed names of calls: one for all steps."""
    return [
        strip_step_number(name) for name in functions_of(profile).names_of(operator_calls_of(profile).label[places])
    ]


def strip_step_number(name: str) -> str:
    """The name of a step without its number; any other name as it is."""
    match = STEP_PATTERN.fullmatch(name)
    return match[1] if match else name


def input_shapes(profile: Profile, places: Array) -> list[str | None]:
    """The shapes of the inputs of calls, as recorded."""
    texts, codes = _texts_of(profile, "shapes", operator_calls_of(profile).row[places])
    return [texts[code] if code >= 0 else None for code in codes.tolist()]


def call_stacks(profile: Profile, places: Array) -> list[str | None]:
    """The callers of these calls: the recorded Python stack, else the enclosing slices, outermost first."""
    rows = operator_calls_of(profile).row[places]
    texts, codes = _texts_of(profile, "call_stack", rows)
    if texts:
        return [";".join(reversed(texts[code].split(";"))) if code >= 0 else None for code in codes.tolist()]
    parent, function = get_column(profile.calls, "parent"), get_column(profile.calls, "function")
    names = functions_of(profile)
    found: list[str | None] = []
    for node in _stack_codes(profile, rows).tolist():
        path: list[str] = []
        while node > 0:
            path.append(names.name_of(function[node]))
            node = int(parent[node])
        found.append(";".join(reversed(path)) or None)
    return found


def rank_column(profile: Profile, rank: Array) -> list[int | None]:
    """The column of ranks if there are several, else missing values."""
    several = len(set(threads_of(profile).rank.tolist())) > 1
    return [int(r) if several and r >= 0 else None for r in rank.tolist()]


def total_host_time(profile: Profile, selection: Selection) -> int:
    """The host time of the selected calls, without counting overlaps on a thread twice: ns."""

    def build() -> int:
        calls, slices = operator_calls_of(profile), slices_of(profile)
        mask = select_operator_calls(profile, selection)
        rows = calls.row if mask is None else calls.row[mask]
        # In preorder, a slice that begins before the end of an earlier one is inside it.
        reach = np.maximum.accumulate(slices.end[rows]) if len(rows) else rows
        outer = np.ones(len(rows), bool)
        outer[1:] = rows[1:] >= reach[:-1]
        return int(slices.duration[rows[outer]].sum())

    return memoize(profile, ("host time of calls", selection), build)


def total_device_time(profile: Profile, selection: Selection) -> int:
    """The time of the device work attributed to the selection: ns."""

    def build() -> int:
        mask, duration = select_anchored_work(profile, selection), device_work_of(profile).duration
        return int((duration if mask is None else duration[mask]).sum())

    return memoize(profile, ("device time of calls", selection), build)


def to_percent(value: Array, total: float) -> Float64Array:
    """`part` as percentages of `whole`; 0 where that is."""
    return value * (100.0 / total) if total else value * 0.0


def to_us(ns: Array) -> Array:
    """ns as µs."""
    found: Float64Array = ns / NS_PER_US
    return found


def sum_operators(
    profile: Profile, selection: Selection, by: str = "name", by_rank: bool = False, name: str | None = None
) -> OperatorSums:
    """The sums of calls by group; see `operators`. Raises InvalidRequest."""
    groups = group_operator_calls(profile, by, by_rank)

    def build() -> OperatorSums:
        calls, slices, work = operator_calls_of(profile), slices_of(profile), device_work_of(profile)
        mask = select_operator_calls(profile, selection, name)
        some = select_groups(groups, mask)
        duration = slices.duration[calls.row]
        # By work and not by call: most calls launch nothing themselves.
        code = np.full(len(groups) + 1, NO_ID, np.int64)
        code[some.groups] = np.arange(len(some))
        tensor = tensor_cores_of(profile).uses
        device_self, tensor_self = np.zeros(len(some), np.int64), np.zeros(len(some), np.int64)
        for of_work in (calls.operator_of_work, calls.annotation_of_work):
            hung = np.flatnonzero(of_work >= 0)
            if mask is not None:
                hung = hung[mask[of_work[hung]]]
            group, took = code[groups.code[of_work[hung]]], work.duration[hung]
            device_self += sum_by_index(group, took, len(some))
            tensor_self += sum_by_index(group, np.where(tensor[work.function[hung]], took, 0), len(some))
        return OperatorSums(
            first=groups.first[some.groups],
            calls=some.count(),
            host_self=some.sum(calls.host_self),
            host_total=some.sum(duration),
            host_min=some.min(duration),
            host_max=some.max(duration),
            device_self=device_self,
            device_total=some.sum(calls.device_total),
            tensor_self=tensor_self,
            tensor_total=some.sum(calls.tensor_total),
            launches=some.sum(calls.work_count),
            eligible=some.any(calls.eligible),
        )

    return memoize(profile, ("operator sums", selection, by, by_rank, name), build)


def _values(profile: Profile, calls: OperatorCalls, sums: OperatorSums) -> dict[str, Any]:
    on_devices = {
        "device_self_us": to_us(sums.device_self),
        "device_total_us": to_us(sums.device_total),
        "device_mean_us": to_us(sums.device_total) / sums.calls,
        "tensor_core_self_percent": _ratio(sums.tensor_self, sums.device_self),
        "tensor_core_total_percent": _ratio(sums.tensor_total, sums.device_total),
    }
    if not calls.has_device_work:
        on_devices = {name: np.full(len(sums.first), np.nan) for name in on_devices}
    noted = calls.annotation[sums.first].tolist()
    return {
        "name": call_names(profile, sums.first),
        "kind": ["annotation" if of else "operator" for of in noted],
        "calls": sums.calls,
        "host_self_us": to_us(sums.host_self),
        "host_total_us": to_us(sums.host_total),
        "host_mean_us": to_us(sums.host_total) / sums.calls,
        "host_min_us": to_us(sums.host_min),
        "host_max_us": to_us(sums.host_max),
        "tensor_core_eligible": [None if of else may for of, may in zip(noted, sums.eligible.tolist(), strict=True)],
        "kernels": sums.launches,
        **on_devices,
    }


def _ratio(part: Array, whole: Array) -> Array:
    ratio: Float64Array = 100.0 * part / np.maximum(whole, 1)
    return ratio


def _calls(profile: Profile) -> OperatorCalls:
    slices, work = slices_of(profile), device_work_of(profile)
    count = len(slices)
    label, noted = _labels(profile)
    annotation = slices.is_kind("annotation") | (slices.is_kind("operator") & noted[slices.function])
    operator = slices.is_kind("operator") & ~annotation
    called = annotation | operator
    counted = called | slices.is_kind("runtime")
    rows = np.flatnonzero(counted)
    above = innermost_slices(slices.parent, counted, slices.parent[rows])
    # Slices inside a runtime call are part of its time.
    above[~called[above] | (above < 0)] = NO_ID
    among = called[rows]
    holder = _holders(rows[among], above[among], operator, label[slices.function], count)
    held = holder[rows]
    kept = rows[held == rows]
    place = np.full(count + 1, NO_ID, np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    inside = np.flatnonzero((above >= 0) & ((held == rows) | (held < 0)))
    spent = sum_by_index(place[holder[above[inside]]], slices.duration[rows[inside]], len(kept))
    anchor = work.anchor
    uses = tensor_cores_of(profile).uses[work.function]
    hung = np.flatnonzero(anchor >= 0)
    above_work, beside = np.full((2, len(work)), NO_ID, np.int32)
    above_work[hung] = place[holder[innermost_slices(slices.parent, operator, anchor[hung])]]
    noting = innermost_slices(slices.parent, called, anchor[hung])
    beside[hung] = place[np.where((noting >= 0) & annotation[noting], noting, NO_ID)]

    end = slices.end[kept]

    def within(rows: Array, values: Array | None = None) -> Array:
        """Sum of values (or number) of these rows of `slices` inside each call."""
        running = prefix_sums(rows, values, count)
        total: Array = running[end] - running[kept]
        return total

    on_cores = np.flatnonzero((anchor >= 0) & uses)
    tensor_total, device = within(anchor[on_cores], work.duration[on_cores]), device_time_prefix_sums(profile)
    may = np.flatnonzero(tensor_cores_of(profile).eligible[slices.function] & operator)
    return OperatorCalls(
        row=kept.astype(np.int32),
        label=label[slices.function[kept]].astype(np.int32),
        annotation=annotation[kept],
        rank=threads_of(profile).rank[slices.thread[kept]].astype(np.int32),
        host_self=np.maximum(0, slices.duration[kept] - spent),
        device_total=device[end] - device[kept],
        tensor_total=tensor_total,
        work_count=within(anchor[hung]),
        eligible=(within(may) > 0) | (tensor_total > 0),
        operator_of_work=above_work,
        annotation_of_work=beside,
        has_device_work=bool(len(work)),
    )


def _holders(rows: Array, above: Array, operator: Array, label: Array, count: int) -> Int32Array:
    """For each slice the call that its time counts for: itself, or the enclosing call if it only repeats that; -1 for
    other slices, and as the last entry.

    As in PyTorch (_remove_dup_nodes): an operator repeats the enclosing one if both have the same name and it is the
    only call inside.
    """
    holder = np.full(count + 1, NO_ID, np.int32)
    holder[rows] = rows
    inside = np.flatnonzero(above >= 0)
    row, outer = rows[inside], above[inside]
    alike = np.flatnonzero(label[row] == label[outer])
    row, outer = row[alike], outer[alike]
    inner = np.bincount(above[inside], minlength=count)
    repeats = (inner[outer] == 1) & operator[row] & operator[outer]
    again = row[repeats]
    holder[again] = outer[repeats]
    # A call repeated twice leads to the outermost one.
    while (holder[holder[again]] != holder[again]).any():
        holder[again] = holder[holder[again]]
    return holder


def innermost_slices(parent: Array, mask: Array, rows: Array) -> Array:
    """For each of these slices the innermost one that is kept, itself included, -1 for none: int32."""
    found = rows.astype(np.int32)
    if len(rows) * 8 > len(parent):
        # Most are needed, so compute all at once by pointer doubling.
        jump = np.append(np.where(mask, np.arange(len(parent), dtype=np.int32), parent), np.int32(NO_ID))
        stop = np.append(mask, True)
        while not stop[jump].all():
            jump = jump[jump]
        return np.asarray(jump[found], np.int32)
    while len(left := np.flatnonzero((found >= 0) & ~mask[found])):
        found[left] = parent[found[left]]
    return found


def _labels(profile: Profile) -> tuple[Array, Array]:
    """By row of `functions`: the row with its label (of steps the same), and whether PyTorch annotates so."""
    functions = functions_of(profile)
    label = functions.canonical.copy()
    noted = np.array([ANNOTATIONS.fullmatch(name) is not None for name in functions.names] + [False], bool)
    steps = np.array([STEP_PATTERN.fullmatch(name) is not None for name in functions.names] + [False], bool)[
        functions.name
    ]
    if steps.any():
        label[steps] = label[steps].min()
    return label, noted[functions.name]


def _texts_of(profile: Profile, name: str, rows: Array) -> tuple[list[str], Array]:
    """The distinct texts of a column of `argument_sets` and which one each of these slices has, -1 for none."""

    def build() -> tuple[list[str], Array]:
        texts, codes = unique_texts(profile.argument_sets.column(name))
        return texts, np.append(codes, NO_ID).astype(np.int32)

    texts, codes = memoize(profile, ("arguments", name), build)
    return texts, codes[slices_of(profile).arguments[rows]]


def _stack_codes(profile: Profile, rows: Array) -> Array:
    """For each of these slices its caller: the number of the recorded stack, else the parent of its node of `calls`; -1
    for none."""
    texts, codes = _texts_of(profile, "call_stack", rows)
    if texts:
        return codes
    node = get_column(profile.stacks, "call")[slices_of(profile).stack[rows]]
    return np.asarray(get_column(profile.calls, "parent")[node])


TABLES = (Table("operators", "Operators", COLUMNS, compute_operators, by=BY),)
"""The tables of this module."""
