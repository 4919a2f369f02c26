"""Samples as profiles of V8 in trace events (`Profile`, `ProfileChunk`): the only samples in this JSON that
Perfetto reads (trace_processor, JsonTraceTokenizer::ParseV8SampleEvent; it ignores `samples` with `stackFrames`), and
which speedscope reads as well. Times are in whole µs; there are no weights: a sample lasts until the next.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..domain.arrays import Array
from ..domain.profile import Profile
from ..domain.tables import ROOT, get_column, get_strings
from ..domain.units import NS_PER_US

CATEGORY = "disabled-by-default-v8.cpu_profiler"
BATCH_SAMPLES = 20_000
"""Samples of one event of the file."""
_ROOT_ID = 1


def write_cpu_profiles(profile: Profile, event: int, pid: Sequence[str], tid: Sequence[str]) -> Iterator[str]:
    """Events of the file with the samples of an event (its id), a profile for each thread. pid, tid: of each thread, as
    JSON."""
    frames = _ProfileNodes(profile)
    of_event = get_column(profile.samples, "event") == event
    time_us = get_column(profile.samples, "time_ns")[of_event] // NS_PER_US
    thread, stack = (get_column(profile.samples, name)[of_event] for name in ("thread", "stack"))
    for one in np.unique(thread).tolist():
        rows = np.flatnonzero(thread == one)
        where = f'"cat":"{CATEGORY}","id":"{one + 1:#x}","pid":{pid[one]},"tid":{tid[one]}'
        start = int(time_us[rows[0]])
        yield f'{{"ph":"P","name":"Profile",{where},"ts":{start},"args":{{"data":{{"startTime":{start}}}}}}}'
        known: set[int] = set()
        last = start
        for first in range(0, len(rows), BATCH_SAMPLES):
            some = rows[first : first + BATCH_SAMPLES]
            times = time_us[some]
            data = {
                "cpuProfile": {"nodes": frames.new(stack[some], known), "samples": (stack[some] + _ROOT_ID).tolist()},
                "timeDeltas": np.diff(times, prepend=last).tolist(),
            }
            last = int(times[-1])
            args = json.dumps({"data": data}, separators=(",", ":"))
            yield f'{{"ph":"P","name":"ProfileChunk",{where},"ts":{int(times[0])},"args":{args}}}'


class _ProfileNodes:
    """The call stacks as nodes: that of row n of `stacks` has the id n + 1."""

    def __init__(self, profile: Profile) -> None:
        self._frame, self._parent = (get_column(profile.stacks, name).tolist() for name in ("frame", "parent"))
        self._function, self._line = (profile.frames.column(name).to_pylist() for name in ("function", "line"))
        self._names = get_strings(profile.functions, "display")
        files, modules = (profile.functions.column(name).to_pylist() for name in ("file", "module"))
        self._urls = [file or module or "" for file, module in zip(files, modules, strict=True)]

    def new(self, stacks: Array, known: set[int]) -> list[dict[str, Any]]:
        """The new nodes of some stacks and their callers, callers first."""
        nodes: list[int] = []
        for node in np.unique(stacks).tolist():
            while node not in known:
                known.add(node)
                nodes.append(node)
                if node == ROOT:
                    break
                node = self._parent[node]
        # A caller has the smaller number.
        return [self._node(node) for node in sorted(nodes)]

    def _node(self, node: int) -> dict[str, Any]:
        if node == ROOT:
            return {"id": _ROOT_ID, "callFrame": _call("(root)", "", -1)}
        frame = self._frame[node]
        function = self._function[frame]
        # Lines count from 0 here.
        call = _call(self._names[function] or "[unknown]", self._urls[function], (self._line[frame] or 0) - 1)
        return {"id": node + _ROOT_ID, "parent": self._parent[node] + _ROOT_ID, "callFrame": call}


def _call(name: str, url: str, line: int) -> dict[str, Any]:
    return {"functionName": name, "url": url, "scriptId": 0, "lineNumber": line, "columnNumber": -1}
