"""speedscope: files for https://www.speedscope.app. Format: its file-format-schema.json.

One profile for each thread and event: traces with start and end of each call, samples with weights.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ..analysis.core.measurements import event_title
from ..analysis.core.sample_selection import clip_weights, filter_samples, samples_of, threads_of
from ..domain.arrays import Array, Int64Array
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.tables import DEVICE_TIME, HOST_TIME, ROOT, get_column, get_strings
from . import text_columns
from .errors import no_samples_error
from .stack_weights import select_exported_events, stack_frames

OPTIONS: Mapping[str, str] = {}
TITLE = "speedscope"
SCHEMA = "https://www.speedscope.app/file-format-schema.json"
UNITS = {"ns": "nanoseconds", "bytes": "bytes"}
"""speedscope's words for units; for others it has none."""


def write(profile: Profile, selection: Selection, options: Mapping[str, bool]) -> Iterator[bytes]:
    """The file, of the selected event or of all that have samples. Raises InvalidRequest, also
    for a selection without samples: speedscope rejects a file without profiles."""
    samples, events = samples_of(profile), select_exported_events(profile, selection)
    tree = _Stacks(profile, selection)
    frames = json.dumps(_frames(profile))
    about = {"$schema": SCHEMA, "exporter": "Perfloom", "name": profile.meta.command or profile.meta.format}
    head = f'{json.dumps(about)[:-1]},"shared":{{"frames":{frames}}},"profiles":['.encode()
    names, main = get_strings(profile.events, "name"), profile.meta.main_event
    first, active, place = True, 0, 0
    heaviest = -1
    for event in events:
        rows = filter_samples(profile, selection, event)
        thread, weight = samples.thread[rows], clip_weights(profile, selection, rows)
        time, stack = samples.time_ns[rows], tree.shown[samples.stack[rows]]
        if selection.start_ns is not None:
            time = np.maximum(time, selection.start_ns)
        # By thread, then by time: sorted once for all threads.
        order = np.argsort(thread, kind="stable")
        each_of, begin = np.unique(thread[order], return_index=True)
        for each, part in zip(each_of.tolist(), np.split(order, begin[1:]), strict=False):
            yield head if first else b","
            yield from _profile(profile, tree, event, each, time[part], weight[part], stack[part])
            total = int(weight[part].sum())
            if names[event] == main and total > heaviest:
                heaviest, active = total, place
            first, place = False, place + 1
    if first:
        raise no_samples_error(profile, selection, TITLE)
    yield f'],"activeProfileIndex":{active}}}\n'.encode()


def _frames(profile: Profile) -> list[dict[str, Any]]:
    """A frame for each of the profile's, by the same number."""
    functions = profile.functions.to_pylist()
    found = []
    for function, line in zip(*(profile.frames.column(name).to_pylist() for name in ("function", "line")), strict=True):
        row = functions[function]
        frame: dict[str, Any] = {"name": row["display"] or "[unknown]"}
        if row["file"] or row["module"]:
            frame["file"] = row["file"] or row["module"]
        if line:
            frame["line"] = line
        found.append(frame)
    return found


class _Stacks:
    """The call stacks. shown: for each node the one that represents it. frame: of each node. depth: how many frames."""

    def __init__(self, profile: Profile, selection: Selection) -> None:
        self.shown, self._parent = stack_frames(profile, selection)
        self.frame = get_column(profile.stacks, "frame")
        depth = [0] * len(self._parent)
        for node, parent in enumerate(self._parent.tolist()):
            # Callers come before callees.
            depth[node] = depth[parent] + 1 if node != ROOT else 0
        self.depth = np.array(depth, np.int64)

    def path(self, node: int) -> list[int]:
        """The frames of a stack, the outermost first."""
        found = []
        while node != ROOT:
            found.append(int(self.frame[node]))
            node = int(self._parent[node])
        return found[::-1]

    def common(self, one: Array, other: Array) -> Array:
        """The number of common outermost frames of each pair of stacks."""
        one, other = one.copy(), other.copy()
        apart = np.flatnonzero(one != other)
        while len(apart):
            left, right = one[apart], other[apart]
            higher, lower = self.depth[left], self.depth[right]
            one[apart] = np.where(higher >= lower, self._parent[left], left)
            other[apart] = np.where(lower >= higher, self._parent[right], right)
            apart = apart[one[apart] != other[apart]]
        found: Int64Array = self.depth[one]
        return found

    def innermost(self, nodes: Array, count: Array, at: Array, step: int, out: Array) -> None:
        """Write the `count` innermost frames of each stack into `out`, from `at` on, at distances of `step`."""
        nodes, at, left = nodes.copy(), at.copy(), np.flatnonzero(count)
        for taken in range(1, int(count.max(initial=0)) + 1):
            out[at[left]] = self.frame[nodes[left]]
            nodes[left] = self._parent[nodes[left]]
            at[left] += step
            left = left[count[left] > taken]


def _profile(
    profile: Profile, tree: _Stacks, event: int, thread: int, time: Array, weight: Array, stack: Array
) -> Iterator[bytes]:
    threads = threads_of(profile)
    names, units = get_strings(profile.events, "name"), get_strings(profile.events, "unit")
    of_thread = threads.name[thread] or threads.process[thread] or "all"
    rank = f"rank {threads.rank[thread]} · " if threads.rank[thread] >= 0 else ""
    number = (
        f" {threads.tid[thread]}"
        if threads.tid[thread] is not None and str(threads.tid[thread]) not in of_thread
        else ""
    )
    name = json.dumps(f"{rank}{of_thread}{number} · {event_title(profile, event)}")
    lasting = names[event] in (HOST_TIME, DEVICE_TIME)
    # Overlapping frames cannot be written as begins and ends.
    if lasting and (time[1:] >= (time + weight)[:-1]).all():
        yield (
            f'{{"type":"evented","name":{name},"unit":"nanoseconds","startValue":{int(time[0])},'
            f'"endValue":{int((time + weight)[-1])},"events":['
        ).encode()
        yield from _write_events(tree, time, weight, stack)
        yield b"]}"
        return
    unit = UNITS.get(units[event], "none")
    end = int(weight.sum())
    yield f'{{"type":"sampled","name":{name},"unit":"{unit}","startValue":0,"endValue":{end},"samples":['.encode()
    nodes, of = np.unique(stack, return_inverse=True)
    paths = ["," + json.dumps(tree.path(node), separators=(",", ":")) for node in nodes.tolist()]
    yield from _join_blocks(text_columns.take_texts(paths, of[rows]) for rows in text_columns.split_blocks(len(of)))
    yield b'],"weights":['
    yield from _join_blocks(
        text_columns.concat_columns(",", text_columns.format_integers(weight[rows]))
        for rows in text_columns.split_blocks(len(weight))
    )
    yield b"]}"


def _write_events(tree: _Stacks, time: Array, weight: Array, stack: Array) -> Iterator[bytes]:
    """The begin and end events between consecutive call stacks."""
    end = time + weight
    # Before the first and after the last, the stack is empty.
    before, after = np.append(ROOT, stack), np.append(stack, ROOT)
    same = tree.common(before, after)
    same[1:-1][time[1:] != end[:-1]] = 0
    closed, opened = tree.depth[before] - same, tree.depth[after] - same
    each = closed + opened
    first = np.cumsum(each) - each
    frame = np.empty(int(each.sum()), np.int64)
    tree.innermost(before, closed, first, 1, frame)
    tree.innermost(after, opened, first + each - 1, -1, frame)
    counts = np.column_stack((closed, opened)).ravel()
    is_open = np.repeat(np.tile([False, True], len(each)), counts)
    at = np.repeat(np.column_stack((np.append(time[0], end), np.append(time, end[-1]))).ravel(), counts)
    begins = [',{"type":"C","frame":', ',{"type":"O","frame":']
    yield from _join_blocks(
        text_columns.concat_columns(
            text_columns.take_texts(begins, is_open[rows]),
            text_columns.format_integers(frame[rows]),
            ',"at":',
            text_columns.format_integers(at[rows]),
            "}",
        )
        for rows in text_columns.split_blocks(len(frame))
    )


def _join_blocks(blocks: Iterable[pa.Array]) -> Iterator[bytes]:
    """The rows of blocks, without the leading comma of the first."""
    for number, rows in enumerate(blocks):
        yield text_columns.join_rows(rows)[not number :]
