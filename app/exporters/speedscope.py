"""speedscope: what https://www.speedscope.app opens. Format: its own file-format-schema.json.

A profile of its own for each thread and event. What a trace did is there with its times, each call as it began and
ended; what was sampled as samples with weights.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..analysis.picking import samples_kept, samples_of, threads_of, weights_in
from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.tables import DEVICE_TIME, HOST_TIME, ROOT, column, texts
from .paths import chains, events_written

Array = np.ndarray[Any, Any]
OPTIONS: Mapping[str, str] = {}
SCHEMA = "https://www.speedscope.app/file-format-schema.json"
UNITS = {"ns": "nanoseconds", "bytes": "bytes"}
"""speedscope's words for units; for others it has none."""
BLOCK_ROWS = 20_000


def write(profile: Profile, selection: Selection, options: Mapping[str, bool]) -> Iterator[bytes]:
    """The file, of the selected event or of all that have samples. Raises InvalidRequest."""
    samples, events = samples_of(profile), events_written(profile, selection)
    tree = _Stacks(profile, selection)
    frames = json.dumps(_frames(profile))
    about = {"$schema": SCHEMA, "exporter": "Perfloom", "name": profile.meta.command or profile.meta.format}
    yield f'{json.dumps(about)[:-1]},"shared":{{"frames":{frames}}},"profiles":['.encode()
    names, main = texts(profile.events, "name"), profile.meta.main_event
    first, active, place = True, 0, 0
    heaviest = -1
    for event in events:
        rows = samples_kept(profile, selection, event)
        thread, weight = samples.thread[rows], weights_in(profile, selection, rows)
        time, stack = samples.time_ns[rows], tree.shown[samples.stack[rows]]
        if selection.start_ns is not None:
            time = np.maximum(time, selection.start_ns)
        # Of each thread in order of time, as they are: sorted once, however many threads there are.
        order = np.argsort(thread, kind="stable")
        each_of, begin = np.unique(thread[order], return_index=True)
        for each, mine in zip(each_of.tolist(), np.split(order, begin[1:]), strict=False):
            yield b"" if first else b","
            yield from _profile(profile, tree, event, each, time[mine], weight[mine], stack[mine])
            total = int(weight[mine].sum())
            if names[event] == main and total > heaviest:
                heaviest, active = total, place
            first, place = False, place + 1
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
    """The call stacks as lists of frames, the outermost first. shown: of each node the one that stands for it."""

    def __init__(self, profile: Profile, selection: Selection) -> None:
        self.shown, parent = chains(profile, selection)
        self.parent = parent.tolist()
        self.frame = column(profile.stacks, "frame").tolist()

    def path(self, node: int) -> list[int]:
        """The nodes of a stack, the outermost first."""
        found = []
        while node != ROOT:
            found.append(node)
            node = self.parent[node]
        return found[::-1]


def _profile(
    profile: Profile, tree: _Stacks, event: int, thread: int, time: Array, weight: Array, stack: Array
) -> Iterator[bytes]:
    threads = threads_of(profile)
    names, units = texts(profile.events, "name"), texts(profile.events, "unit")
    of_thread = threads.name[thread] or threads.process[thread] or "all"
    rank = f"rank {threads.rank[thread]} · " if threads.rank[thread] >= 0 else ""
    number = (
        f" {threads.tid[thread]}"
        if threads.tid[thread] is not None and str(threads.tid[thread]) not in of_thread
        else ""
    )
    name = json.dumps(f"{rank}{of_thread}{number} · {names[event]}")
    lasting = names[event] in (HOST_TIME, DEVICE_TIME)
    # What overlaps cannot be told by beginnings and ends.
    if lasting and (time[1:] >= (time + weight)[:-1]).all():
        yield (
            f'{{"type":"evented","name":{name},"unit":"nanoseconds","startValue":{int(time[0])},'
            f'"endValue":{int((time + weight)[-1])},"events":['
        ).encode()
        yield from _joined(_evented(tree, time.tolist(), weight.tolist(), stack.tolist()))
        yield b"]}"
        return
    unit = UNITS.get(units[event], "none")
    end = int(weight.sum())
    yield f'{{"type":"sampled","name":{name},"unit":"{unit}","startValue":0,"endValue":{end},"samples":['.encode()
    paths: dict[int, str] = {}
    for node in np.unique(stack).tolist():
        paths[node] = json.dumps([tree.frame[each] for each in tree.path(node)], separators=(",", ":"))
    yield from _joined(paths[node] for node in stack.tolist())
    yield b'],"weights":['
    yield from _joined(map(str, weight.tolist()))
    yield b"]}"


def _evented(tree: _Stacks, time: list[int], weight: list[int], stack: list[int]) -> Iterator[str]:
    """What begins and ends between stretches in which one call stack was the innermost."""
    opened: list[int] = []
    until = time[0]
    for start, length, node in zip(time, weight, stack, strict=True):
        path = tree.path(node)
        same = 0
        if start == until:
            while same < len(path) and same < len(opened) and path[same] == opened[same]:
                same += 1
        for each in reversed(opened[same:]):
            yield f'{{"type":"C","frame":{tree.frame[each]},"at":{until}}}'
        for each in path[same:]:
            yield f'{{"type":"O","frame":{tree.frame[each]},"at":{start}}}'
        opened, until = path, start + length
    for each in reversed(opened):
        yield f'{{"type":"C","frame":{tree.frame[each]},"at":{until}}}'


def _joined(texts_of: Iterator[str]) -> Iterator[bytes]:
    held: list[str] = []
    first = True
    for text in texts_of:
        held.append(text)
        if len(held) == BLOCK_ROWS:
            yield ("" if first else ",").encode() + ",".join(held).encode()
            held, first = [], False
    if held:
        yield ("" if first else ",").encode() + ",".join(held).encode()
