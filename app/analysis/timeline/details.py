"""Details of one item of a timeline: a slice with everything that belongs to it, the samples in a box, instants,
steps."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...domain.arrays import Array
from ...domain.profile import Profile
from ...domain.tables import (
    DEVICE_TIME,
    HOST_TIME,
    NO_ID,
    NUMERIC_ARGUMENTS,
    DeviceWorkKind,
    FlowKind,
    get_column,
    get_strings,
)
from ...domain.text import shorten
from ..core.functions import functions_of
from ..core.measurements import weight_unit
from ..core.memo import memoize
from ..core.sample_selection import event_names, samples_of, sum_by_index, threads_of
from ..ml.launches import launch_waits_of
from .mipmap import MipmapItems
from .model import KINDS, NO_CODE, Timeline, code_names

MAX_LAUNCHED = 50
MAX_FLOWS = 50
MAX_FUNCTIONS = 20
MAX_THREADS = 4
MAX_CHARACTERS = 20_000
MAX_NS = 1 << 62


@dataclass(frozen=True)
class SliceSummary:
    """Summary of a slice: position and name."""

    slice: int
    name: str
    track: str
    depth: int
    start_ns: int
    duration_ns: int


def summarize_slice(profile: Profile, row: int) -> SliceSummary:
    """The summary of a slice."""
    found = profile.slices.slice(row, 1).to_pylist()[0]
    return SliceSummary(
        slice=row,
        name=functions_of(profile).name_of(found["function"]),
        track=f"t{found['thread']}",
        depth=found["depth"],
        start_ns=found["start_ns"],
        duration_ns=found["duration_ns"],
    )


def find_slice(timeline: Timeline, thread: int, depth: int, start_ns: int, end_ns: int) -> int | None:
    """The longest slice of a row in a window; None without any."""
    items = _finest(timeline.find_slices(thread, depth, start_ns, end_ns, 0, MAX_NS))
    if items is None:
        return None
    return int(items.event_row[int(np.argmax(items.end - items.start))])


def slice_details(profile: Profile, timeline: Timeline, row: int) -> dict[str, Any]:
    """All details of a slice, as plain data: times in ns from the profile's zero."""
    found = profile.slices.slice(row, 1).to_pylist()[0]
    thread, threads = found["thread"], threads_of(profile)
    category = profile.categories.slice(found["category"], 1).to_pylist()[0]
    rank = int(threads.rank[thread])
    parent = found["parent"]
    before, after = _find_neighbors(timeline, thread, found["depth"], found["start_ns"], row)
    code = timeline.find_slices(thread, found["depth"], found["start_ns"], found["start_ns"] + 1, 0, MAX_NS)
    inner = row + 1 if found["end"] > row + 1 else None
    numbers, text, call_stack = _arguments(profile, row, found["arguments"])
    return {
        "what": "slice",
        **_to_dict(summarize_slice(profile, row)),
        "function": int(functions_of(profile).canonical[found["function"]]),
        "kind": _kind(code, row),
        "category": category["name"],
        "self_ns": found["self_ns"],
        "thread": threads.key[thread],
        "thread_name": threads.name[thread] or threads.process[thread],
        "rank": None if rank < 0 else rank,
        "arguments": {**text, **numbers},
        "call_stack": call_stack,
        "stack": stack_names(profile, found["stack"]),
        "parent": None if parent == NO_ID else parent,
        "child": inner,
        "previous": before,
        "next": after,
        "steps": _steps_of(profile, rank, found["start_ns"]),
        "work": _work(profile, row),
        "launched": _launched_work(profile, row, found["end"]),
        "flows": _flows(profile, row),
    }


def summarize_samples(
    profile: Profile, timeline: Timeline, event: int, thread: int, start_ns: int, end_ns: int, row: int | None = None
) -> dict[str, Any]:
    """The functions of the samples of a lane in a window, by weight, descending. row: of stack rows; `name` is then the
    function there, of the first sample."""
    threads = threads_of(profile)
    items = _finest(timeline.find_samples(event, thread, start_ns, end_ns, 0, MAX_NS))
    of_thread = {
        "track": f"t{thread}",
        "thread": threads.key[thread],
        "thread_name": threads.name[thread] or threads.process[thread],
    }
    if row is not None and items is not None:
        names = stack_names(profile, int(samples_of(profile).stack[items.event_row[0]]))
        of_thread["name"] = names[row] if 0 <= row < len(names) else ""
    return of_thread | _summarize_items(profile, items, event, start_ns, end_ns)


def summarize_cpu_samples(
    profile: Profile, timeline: Timeline, event: int, place: int, start_ns: int, end_ns: int
) -> dict[str, Any]:
    """The same of a CPU at a place of `Timeline.cpu_rows`, with the threads that ran there, most samples first."""
    items = _finest(timeline.find_cpu_samples(event, place, start_ns, end_ns, 0, MAX_NS))
    threads = threads_of(profile)
    ran = np.zeros(0, np.int64) if items is None else samples_of(profile).thread[items.event_row]
    counts = np.bincount(ran, minlength=len(threads.key))
    often = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)].tolist()
    names = [f"{threads.name[t] or threads.process[t]} {threads.key[t].rpartition('/')[2]}" for t in often]
    shown = ", ".join(names[:MAX_THREADS]) + (f" and {len(names) - MAX_THREADS} more" if names[MAX_THREADS:] else "")
    of_cpu = {"track": f"x{place}", "thread": "", "thread_name": shown}
    return of_cpu | _summarize_items(profile, items, event, start_ns, end_ns)


def _summarize_items(
    profile: Profile, items: MipmapItems | None, event: int, start_ns: int, end_ns: int
) -> dict[str, Any]:
    stack = weight = codes = np.zeros(0, np.int64)
    if items is not None:
        stack, codes, weight = samples_of(profile).stack[items.event_row], items.code, items.weight
        if event_names(profile)[event] in (HOST_TIME, DEVICE_TIME):
            over = np.minimum(items.start + weight, end_ns)
            weight = np.maximum(over - np.maximum(items.start, start_ns), 0)
    total = int(weight.sum())
    distinct, which = np.unique(codes, return_inverse=True)
    sums = sum_by_index(which, weight, len(distinct))
    number = np.bincount(which, minlength=len(distinct))
    best = np.argsort(-sums, kind="stable")[:MAX_FUNCTIONS]
    heaviest = None
    if len(stack):
        stacks, of = np.unique(stack, return_inverse=True)
        heaviest = int(stacks[int(np.argmax(np.bincount(of, weight)))])
    return {
        "what": "samples",
        "event": event_names(profile)[event],
        "unit": weight_unit(profile, event),
        "start_ns": start_ns,
        "end_ns": end_ns,
        "samples": len(codes),
        "weight": total,
        "functions": [
            _function(profile, int(distinct[n])) | {"samples": int(number[n]), "weight": int(sums[n])}
            for n in best.tolist()
        ],
        "left_out": max(0, len(distinct) - MAX_FUNCTIONS),
        "stack": [] if heaviest is None else stack_names(profile, heaviest),
    }


def list_instants(profile: Profile, timeline: Timeline, thread: int, start_ns: int, end_ns: int) -> dict[str, Any]:
    """The instants in a window."""
    items = _finest(timeline.find_instants(thread, start_ns, end_ns, 0, MAX_NS))
    rows = [] if items is None else items.event_row[:MAX_FUNCTIONS].tolist()
    functions = functions_of(profile)
    found = []
    for row in profile.instants.take(rows).to_pylist() if rows else []:
        _, text, _ = _arguments(profile, None, row["arguments"])
        name = functions.name_of(row["function"])
        found.append({"name": name, "time_ns": row["time_ns"], "arguments": text})
    count = 0 if items is None else len(items)
    return {"what": "instants", "track": f"t{thread}", "count": count, "instants": found}


def find_step(profile: Profile, timeline: Timeline, place: int, start_ns: int, end_ns: int) -> dict[str, Any] | None:
    """The longest step of a rank in a window."""
    items = _finest(timeline.find_steps(place, start_ns, end_ns, 0, MAX_NS))
    if items is None:
        return None
    row = profile.steps.slice(int(items.event_row[int(np.argmax(items.end - items.start))]), 1).to_pylist()[0]
    return {
        "what": "step",
        "track": f"s{place}",
        "name": row["name"],
        "rank": row["rank"],
        "start_ns": row["start_ns"],
        "duration_ns": row["end_ns"] - row["start_ns"],
    }


def stack_names(profile: Profile, stack: int) -> list[str]:
    """The names of a call stack, outermost first."""
    parent, frame = get_column(profile.stacks, "parent"), get_column(profile.stacks, "frame")
    function = get_column(profile.frames, "function")
    path = []
    while stack > 0:
        path.append(int(function[frame[stack]]))
        stack = int(parent[stack])
    return functions_of(profile).names_of(np.array(path[::-1], np.int64))


def _finest(found: Any) -> MipmapItems | None:
    return found.read() if found is not None and len(found) else None


def _kind(found: Any, row: int) -> str:
    items = _finest(found)
    if items is None or not (items.event_row == row).any():
        return "unknown"
    return KINDS[int(code_names(items.code[items.event_row == row])[1][0])]


def _function(profile: Profile, code: int) -> dict[str, Any]:
    if code == NO_CODE:
        return {"function": None, "name": "no stack", "module": "", "kind": "unknown"}
    function, kind = divmod(code, len(KINDS))
    functions = functions_of(profile)
    return {
        "function": function,
        "name": functions.name_of(function),
        "module": functions.module_of(function),
        "kind": KINDS[kind],
    }


def _to_dict(place: SliceSummary) -> dict[str, Any]:
    return dict(vars(place))


def _find_neighbors(
    timeline: Timeline, thread: int, depth: int, start_ns: int, row: int
) -> tuple[int | None, int | None]:
    """The slices before and after one in its row."""
    slices = timeline.find_slices(thread, depth, start_ns, start_ns + 1, 0, MAX_NS)
    if slices is None:
        return None, None
    level, at = slices.level, np.flatnonzero(slices.read().event_row == row)
    if not len(at):
        return None, None
    place = slices.rows.start + int(at[0])
    which = int(np.searchsorted(level.bounds, place, "right"))
    low, high = int(level.bounds[which - 1]), int(level.bounds[which])
    before, after = (
        int(level.read(slice(n, n + 1)).event_row[0]) if low <= n < high else None for n in (place - 1, place + 1)
    )
    return before, after


def _arguments(profile: Profile, row: int | None, arguments: int) -> tuple[dict[str, int], dict[str, Any], str | None]:
    """(numeric arguments, other arguments, the call stack if it is an argument)."""
    numbers: dict[str, int] = {}
    if row is not None and profile.slice_numbers.num_rows:
        of = get_column(profile.slice_numbers, "slice")
        low, high = (int(n) for n in np.searchsorted(of, np.array([row, row + 1], of.dtype)))
        for pair in profile.slice_numbers.slice(low, high - low).to_pylist():
            numbers[NUMERIC_ARGUMENTS[pair["key"]]] = pair["value"]
    if arguments == NO_ID:
        return numbers, {}, None
    found = profile.argument_sets.slice(arguments, 1).to_pylist()[0]
    try:
        text = json.loads(found["text"] or "{}")
    except ValueError:
        text = {"arguments": found["text"]}
    if not isinstance(text, Mapping):
        text = {"arguments": text}
    shown = {str(key): _shorten_value(value) for key, value in text.items()}
    if found["call_stack"]:
        # It is shown separately.
        shown.pop("Call stack", None)
    return numbers, shown, found["call_stack"]


def _shorten_value(value: Any) -> Any:
    """The value, shortened if it is too long to display."""
    if isinstance(value, str):
        return shorten(value, MAX_CHARACTERS)
    if isinstance(value, bool | int | float) or value is None:
        return value
    whole = json.dumps(value)
    return value if len(whole) <= MAX_CHARACTERS else shorten(whole, MAX_CHARACTERS)


def _steps_of(profile: Profile, rank: int, at_ns: int) -> list[str]:
    steps = profile.steps
    start, end = get_column(steps, "start_ns"), get_column(steps, "end_ns")
    of = steps.column("rank").fill_null(NO_ID).to_numpy()
    inside = (start <= at_ns) & (end > at_ns) & ((of == rank) | (of == NO_ID))
    return get_strings(steps.take(np.flatnonzero(inside)), "name")


def _work(profile: Profile, row: int) -> dict[str, Any] | None:
    """The device work of the slice, if it is device work."""
    of = get_column(profile.device_work, "slice")
    at = int(np.searchsorted(of, np.array(row, of.dtype)))
    if at == len(of) or of[at] != row:
        return None
    found = profile.device_work.slice(at, 1).to_pylist()[0]
    configuration = found["configuration"]
    shape: dict[str, Any] = {}
    if configuration != NO_ID:
        shape = {
            k: v for k, v in profile.configurations.slice(configuration, 1).to_pylist()[0].items() if v is not None
        }
    device = profile.devices.slice(found["device"], 1).to_pylist()[0] if found["device"] != NO_ID else None
    delay = int(launch_waits_of(profile).delay[at])
    launch = None if found["launch"] == NO_ID else _to_dict(summarize_slice(profile, found["launch"]))
    return {
        "kind": DeviceWorkKind(found["kind"]).name.lower(),
        "device": None if device is None else device["device"],
        "device_name": None if device is None else device["name"],
        "stream": found["stream"],
        "bytes": found["bytes"],
        "configuration": shape,
        "launch": launch,
        # A launch waits once, however many kernels it starts: only the first of them has a delay.
        "delay_ns": delay if delay >= 0 else None,
        "operator": None if found["operator"] == NO_ID else _to_dict(summarize_slice(profile, found["operator"])),
    }


def _launched_work(profile: Profile, row: int, end: int) -> dict[str, Any] | None:
    """The device work launched by a slice and its descendants."""
    work = profile.device_work
    if not work.num_rows:
        return None

    def build() -> tuple[Array, Array]:
        launch = get_column(work, "launch")
        order = np.argsort(launch, kind="stable")
        return order, launch[order]

    order, launch = memoize(profile, "timeline launches", build)
    low, high = (int(n) for n in np.searchsorted(launch, np.array([row, end], launch.dtype)))
    if low == high:
        return None
    slices = get_column(work, "slice")[np.sort(order[low:high])]
    start, duration = get_column(profile.slices, "start_ns")[slices], get_column(profile.slices, "duration_ns")[slices]
    first = slices[np.argsort(start, kind="stable")[:MAX_LAUNCHED]]
    return {
        "count": len(slices),
        "total_ns": int(duration.sum()),
        "start_ns": int(start.min()),
        "end_ns": int((start + duration).max()),
        "first": [_to_dict(summarize_slice(profile, int(n))) for n in first],
    }


def _flows(profile: Profile, row: int) -> list[dict[str, Any]]:
    flows: list[dict[str, Any]] = []
    for mine, other, direction in (("source", "target", "to"), ("target", "source", "from")):
        order, ids = _flow_order(profile, mine)
        low, high = (int(n) for n in np.searchsorted(ids, np.array([row, row + 1], ids.dtype)))
        for at in order[low:high][:MAX_FLOWS].tolist():
            flow = profile.flows.slice(at, 1).to_pylist()[0]
            flows.append(
                {
                    "direction": direction,
                    "kind": FlowKind(flow["kind"]).name.lower(),
                    **_to_dict(summarize_slice(profile, flow[other])),
                }
            )
    return flows


def _flow_order(profile: Profile, of: str) -> tuple[Array, Array]:
    def build() -> tuple[Array, Array]:
        ids = get_column(profile.flows, of)
        order = np.argsort(ids, kind="stable")
        return order, ids[order]

    return memoize(profile, ("timeline flows", of), build)
