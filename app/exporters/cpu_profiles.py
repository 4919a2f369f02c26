"""Samples as profiles of V8 in trace events (`Profile`, `ProfileChunk`): the only samples in this JSON that
Perfetto reads (trace_processor, JsonTraceTokenizer::ParseV8SampleEvent; it ignores `samples` with `stackFrames`), and
which speedscope reads as well. Times are in whole µs; there are no weights: a sample lasts until the next. Therefore
each sample lasts for its weight, and `(idle)` follows if the next one begins later.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..analysis.core.sample_selection import samples_of
from ..analysis.core.sample_spans import SampleSpan, place_samples, spans_of
from ..domain import timed_events
from ..domain.arrays import Array, Int64Array
from ..domain.profile import Profile
from ..domain.tables import ROOT, get_column, get_strings
from ..domain.units import NS_PER_US

CATEGORY = "disabled-by-default-v8.cpu_profiler"
BATCH_SAMPLES = 20_000
"""Samples of one event of the file."""
MAX_TOTAL_US = 1 << 50
_ROOT_ID = 1


def has_duration(profile: Profile, event: int) -> bool:
    """Whether samples of an event (its id) represent a period of time, so that the timeline can show them."""
    return get_strings(profile.events, "unit")[event] == "ns" or spans_of(profile)[event] is SampleSpan.SINCE


def select_profile_samples(profile: Profile, event: int) -> Array:
    """The samples of the profile of an event (its id), as bools: for sampled JavaScript also the idle samples."""
    names = get_strings(profile.events, "name")
    same = {event}
    if names[event] == timed_events.SAMPLED_JAVASCRIPT:
        same |= {each for each, name in enumerate(names) if name == timed_events.IDLE}
    found: Array = np.isin(get_column(profile.samples, "event"), list(same))
    return found


def write_cpu_profiles(profile: Profile, event: int, pid: Sequence[str], tid: Sequence[str]) -> Iterator[str]:
    """Events of the file with the samples of an event (its id), a profile for each thread. pid, tid: of each thread, as
    JSON."""
    nodes = _ProfileNodes(profile)
    rows = np.flatnonzero(select_profile_samples(profile, event))
    thread, stack = (get_column(profile.samples, name)[rows] for name in ("thread", "stack"))
    begins, lengths = _place_in_time(profile, event, rows)
    for one in np.unique(thread).tolist():
        of = np.flatnonzero(thread == one)
        begin = _push_apart(begins[of], lengths[of])
        ids, times = _insert_idle(stack[of] + _ROOT_ID, begin, begin + lengths[of], nodes.idle)
        where = f'"cat":"{CATEGORY}","id":"{one + 1:#x}","pid":{pid[one]},"tid":{tid[one]}'
        start, end = int(times[0]), int(times[-1])
        yield f'{{"ph":"P","name":"Profile",{where},"ts":{start},"args":{{"data":{{"startTime":{start}}}}}}}'
        known: set[int] = set()
        last = start
        for first in range(0, len(ids), BATCH_SAMPLES):
            some, at = ids[first : first + BATCH_SAMPLES], times[first : first + BATCH_SAMPLES]
            data: dict[str, Any] = {
                "cpuProfile": {"nodes": nodes.new(some, known), "samples": some.tolist()},
                "timeDeltas": np.diff(at, prepend=last).tolist(),
            }
            if first + BATCH_SAMPLES >= len(ids):
                data["endTime"] = end
            last = int(at[-1])
            args = json.dumps({"data": data}, separators=(",", ":"))
            yield f'{{"ph":"P","name":"ProfileChunk",{where},"ts":{int(at[0])},"args":{args}}}'


def _place_in_time(profile: Profile, event: int, rows: Array) -> tuple[Int64Array, Int64Array]:
    """(begin, duration) of samples in µs. A weight that is not a time lasts 1 µs for each unit; the total duration of
    cycles and instructions is that of their spans in the timeline, in proportion to their weights."""
    time_ns, weight, thread, stack = (
        get_column(profile.samples, name)[rows] for name in ("time_ns", "weight", "thread", "stack")
    )
    weight, span = np.maximum(weight, 0), spans_of(profile)[event]
    divisor = NS_PER_US if get_strings(profile.events, "unit")[event] == "ns" else 1
    if span is SampleSpan.SINCE and (drawn_ns := _sum_spans(profile, rows, thread)):
        weight = np.rint(weight * (drawn_ns / max(1, int(weight.sum())))).astype(np.int64)
        divisor = NS_PER_US
    while int(weight.sum()) // divisor > MAX_TOTAL_US:
        divisor *= 1000
    length = _divide(weight, divisor, thread, stack)
    time_us = np.rint(time_ns / NS_PER_US).astype(np.int64)
    ends_at_sample = span in (SampleSpan.BEFORE, SampleSpan.SINCE)
    return np.maximum(0, time_us - length) if ends_at_sample else time_us, length


def _sum_spans(profile: Profile, rows: Array, thread: Array) -> int:
    """The total duration (ns) of the samples of one event in the timeline."""
    order = np.argsort(thread, kind="stable")
    row = thread[order]
    new = np.append(True, row[1:] != row[:-1])
    start, end = place_samples(profile, samples_of(profile), spans_of(profile), row, rows[order], new)
    return int((end - start).sum())


def _divide(weight: Array, divisor: int, thread: Array, stack: Array) -> Int64Array:
    """Weights divided by a divisor, rounded such that the sum for each stack of a thread is correct."""
    order = np.lexsort((np.arange(len(weight)), stack, thread))
    new = np.append(True, (np.diff(thread[order]) != 0) | (np.diff(stack[order]) != 0))
    total = np.cumsum(weight[order])
    before = (total - weight[order])[new][np.cumsum(new) - 1]
    rounded = (total - before + divisor // 2) // divisor
    quotients = np.empty(len(weight), np.int64)
    quotients[order] = np.diff(rounded, prepend=0)
    quotients[order[new]] = rounded[new]
    return quotients


def _push_apart(begin: Array, length: Array) -> Array:
    """Begins of the samples of a thread: as given, or the end of the previous sample if that is later."""
    before = np.cumsum(length) - length
    found: Array = np.maximum.accumulate(begin - before) + before
    return found


def _insert_idle(ids: Array, begin: Array, end: Array, idle: int) -> tuple[Array, Array]:
    """(node, time) of samples that each last until the next, with idle samples in the gaps and at the end."""
    gap = np.append(begin[1:] > end[:-1], True)
    at = np.flatnonzero(gap) + 1
    return np.insert(ids, at, idle), np.insert(begin, at, end[gap])


class _ProfileNodes:
    """The call stacks as nodes: that of row n of `stacks` has the id n + 1. idle: the id of `(idle)`."""

    def __init__(self, profile: Profile) -> None:
        self._frame, self._parent = (get_column(profile.stacks, name).tolist() for name in ("frame", "parent"))
        self._function, self._line = (profile.frames.column(name).to_pylist() for name in ("function", "line"))
        self._names = get_strings(profile.functions, "display")
        files, modules = (profile.functions.column(name).to_pylist() for name in ("file", "module"))
        self._urls = [file or module or "" for file, module in zip(files, modules, strict=True)]
        self.idle = len(self._frame) + _ROOT_ID

    def new(self, ids: Array, known: set[int]) -> list[dict[str, Any]]:
        """The new nodes among some ids and their callers, callers first."""
        nodes: list[int] = []
        for node in (np.unique(ids) - _ROOT_ID).tolist():
            while node not in known:
                known.add(node)
                nodes.append(node)
                if node == ROOT:
                    break
                node = self._parent[node] if node < len(self._parent) else ROOT
        # A caller has the smaller number.
        return [self._node(node) for node in sorted(nodes)]

    def _node(self, node: int) -> dict[str, Any]:
        if node == ROOT:
            return {"id": _ROOT_ID, "callFrame": _call("(root)", "", -1)}
        if node + _ROOT_ID == self.idle:
            return {"id": self.idle, "parent": _ROOT_ID, "callFrame": _call(timed_events.IDLE_FUNCTION, "", -1)}
        frame = self._frame[node]
        function = self._function[frame]
        # Lines count from 0 here.
        call = _call(self._names[function] or "[unknown]", self._urls[function], (self._line[frame] or 0) - 1)
        return {"id": node + _ROOT_ID, "parent": self._parent[node] + _ROOT_ID, "callFrame": call}


def _call(name: str, url: str, line: int) -> dict[str, Any]:
    return {"functionName": name, "url": url, "scriptId": 0, "lineNumber": line, "columnNumber": -1}
