"""Trace events in JSON, as Perfetto and Chrome's trace viewer open them. Format: Google's "Trace Event Format".

What a profile has in time is there: slices with their arguments, arrows between them, instants, counters, steps. Of
what was sampled each sample is an instant, with its call stack as an argument, unless the profile has slices: then its
samples are what those slices did themselves, and nothing to be told twice.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..domain.profile import Profile
from ..domain.selection import Selection
from ..domain.tables import NO_ID, NUMBERED, ROOT, FlowKind, column, texts
from .narrowing import narrowed

Array = np.ndarray[Any, Any]
OPTIONS: Mapping[str, str] = {}
BLOCK_ROWS = 20_000
PROCESS = 1
"""The number of a process of which none is known."""
FLOWS = {FlowKind.FORWARD_BACKWARD: "fwdbwd", FlowKind.ASYNC: "async", FlowKind.OTHER: "flow"}
LAUNCH = "ac2g"
"""PyTorch's word for the arrow from a launch to what was launched."""


@dataclass(frozen=True)
class _Places:
    """What each thread is in the file. pid, tid: numbers that no other thread has together, as JSON."""

    pid: list[str]
    tid: list[str]


@dataclass(frozen=True)
class _Words:
    """Names of functions and of categories, as JSON; the members of each set of arguments, as JSON without braces."""

    names: list[str]
    categories: list[str]
    arguments: list[str]


def write(profile: Profile, selection: Selection, options: Mapping[str, bool]) -> Iterator[bytes]:
    """The file. Raises InvalidRequest for what the profile does not have."""
    shown = narrowed(profile, selection)
    top = {"displayTimeUnit": "ns", **_about(shown)}
    yield (json.dumps(top)[:-1] + ',"traceEvents":[\n').encode()
    first = True
    for lines in _blocks(shown):
        if lines:
            yield ("" if first else ",\n").encode() + ",\n".join(lines).encode()
            first = False
    yield b"\n]}\n"


def _about(profile: Profile) -> dict[str, Any]:
    """What stands beside the events. That of PyTorch's traces stays what it was, so that its readers know it."""
    meta = profile.meta
    found: dict[str, Any] = {"otherData": {"exporter": "Perfloom", "format": meta.format}}
    if meta.start_epoch_ns is not None:
        found["baseTimeNanoseconds"] = meta.start_epoch_ns
    if meta.format != "pytorch":
        return found
    found["schemaVersion"] = 1
    properties = [text for text in profile.devices.column("properties").to_pylist() if text]
    found["deviceProperties"] = [json.loads(text) for text in properties]
    ranks = {rank for rank in profile.threads.column("rank").to_pylist() if rank is not None}
    if len(ranks) == 1:
        found["distributedInfo"] = {"rank": ranks.pop()}
    return found


def _blocks(profile: Profile) -> Iterator[list[str]]:
    places = _places(profile)
    words = _Words(
        _quoted(texts(profile.functions, "name")), _quoted(texts(profile.categories, "name")), _members(profile)
    )
    yield _named(profile, places)
    yield from _slices(profile, places, words)
    yield from _arrows(profile, places)
    yield from _instants(profile, places, words)
    yield from _counters(profile)
    if not profile.slices.num_rows:
        yield from _samples(profile, places)


def _places(profile: Profile) -> _Places:
    """Numbers for processes and threads: their own where these tell them apart, else the next that is free."""
    rows = profile.threads.to_pylist()
    processes: dict[tuple[Any, ...], int] = {}
    taken = set()
    for row in rows:
        key = (row["run"], row["host"], row["rank"], row["pid"])
        if key not in processes:
            number = row["pid"] if row["pid"] is not None else PROCESS
            while number in taken:
                number += 1
            taken.add(number)
            processes[key] = number
    pids, tids, used = [], [], set()
    for place, row in enumerate(rows):
        pid = processes[row["run"], row["host"], row["rank"], row["pid"]]
        tid = row["tid"] if row["tid"] is not None else place
        while (pid, tid) in used:
            tid += 1
        used.add((pid, tid))
        pids.append(str(pid))
        tids.append(str(tid))
    return _Places(pids, tids)


def _named(profile: Profile, places: _Places) -> list[str]:
    """The names of processes and threads, and their order."""
    lines, known = [], set()
    for place, row in enumerate(profile.threads.to_pylist()):
        pid, tid = places.pid[place], places.tid[place]
        if pid not in known:
            known.add(pid)
            words = [f"rank {row['rank']}"] if row["rank"] is not None else []
            name = " · ".join(words + [word for word in (row["host"], row["process"]) if word])
            lines += _metadata("process_name", pid, "0", name=name) if name else []
        lines += _metadata("thread_name", pid, tid, name=row["name"]) if row["name"] else []
        lines += _metadata("thread_sort_index", pid, tid, sort_index=place)
    return lines


def _metadata(what: str, pid: str, tid: str, **arguments: Any) -> list[str]:
    return [f'{{"ph":"M","name":"{what}","pid":{pid},"tid":{tid},"args":{json.dumps(arguments)}}}']


def us(ns: int) -> str:
    """Microseconds, exactly."""
    whole, part = divmod(abs(ns), 1000)
    return f"{'-' if ns < 0 else ''}{whole}" + (f".{part:03d}" if part else "")


def _quoted(values: list[str]) -> list[str]:
    return [json.dumps(value) for value in values]


def _slices(profile: Profile, places: _Places, words: _Words) -> Iterator[list[str]]:
    table = profile.slices
    names, categories, given = words.names, words.categories, words.arguments
    numbers = _Numbers(profile)
    for first in range(0, table.num_rows, BLOCK_ROWS):
        part = table.slice(first, BLOCK_ROWS)
        columns = [
            part.column(name).to_pylist()
            for name in ("start_ns", "duration_ns", "thread", "function", "category", "arguments")
        ]
        lines = []
        for row, (start, length, thread, function, category, arguments) in enumerate(zip(*columns, strict=True), first):
            members = ",".join(filter(None, (given[arguments] if arguments >= 0 else "", numbers.of(row))))
            lines.append(
                f'{{"ph":"X","name":{names[function]},"cat":{categories[category]},"pid":{places.pid[thread]},'
                f'"tid":{places.tid[thread]},"ts":{us(start)},"dur":{us(length)}'
                + (f',"args":{{{members}}}}}' if members else "}")
            )
        yield lines


_COLUMNS = (
    ("shapes", "Input Dims"),
    ("types", "Input type"),
    ("strides", "Input Strides"),
    ("values", "Concrete Inputs"),
    ("call_stack", "Call stack"),
)


def _members(profile: Profile) -> list[str]:
    """The members of each set of arguments, as JSON without the braces."""
    found = []
    for row in profile.argument_sets.to_pylist():
        text = (row["text"] or "").strip()
        members = [text[1:-1]] if text.startswith("{") and text != "{}" else []
        for name, key in _COLUMNS:
            if row[name] is not None:
                value = json.dumps(row[name]) if name == "call_stack" else row[name]
                members.append(f"{json.dumps(key)}:{value}")
        found.append(",".join(members))
    return found


class _Numbers:
    """The arguments of slices that are numbers, asked for in the order of the slices."""

    def __init__(self, profile: Profile) -> None:
        table = profile.slice_numbers
        self._slice, self._key, self._value = (column(table, name) for name in ("slice", "key", "value"))
        self._keys = _quoted(list(NUMBERED))
        self._at = 0

    def of(self, row: int) -> str:
        first = self._at
        while self._at < len(self._slice) and self._slice[self._at] == row:
            self._at += 1
        return ",".join(f"{self._keys[self._key[at]]}:{self._value[at]}" for at in range(first, self._at))


def _arrows(profile: Profile, places: _Places) -> Iterator[list[str]]:
    """Two events an arrow: where it begins, and where it ends."""
    start, thread = (column(profile.slices, name) for name in ("start_ns", "thread"))
    flows, work = profile.flows, profile.device_work
    launched = column(work, "launch") >= 0
    source = np.concatenate((column(flows, "source"), column(work, "launch")[launched]))
    target = np.concatenate((column(flows, "target"), column(work, "slice")[launched]))
    words = [FLOWS[FlowKind(kind)] for kind in column(flows, "kind").tolist()] + [LAUNCH] * int(launched.sum())
    for first in range(0, len(source), BLOCK_ROWS):
        lines = []
        for number in range(first, min(first + BLOCK_ROWS, len(source))):
            for letter, row in (("s", int(source[number])), ("f", int(target[number]))):
                at = int(thread[row])
                lines.append(
                    f'{{"ph":"{letter}","id":{number + 1},"cat":"{words[number]}","name":"{words[number]}",'
                    f'"pid":{places.pid[at]},"tid":{places.tid[at]},"ts":{us(int(start[row]))}'
                    + (',"bp":"e"}' if letter == "f" else "}")
                )
        yield lines


def _instants(profile: Profile, places: _Places, words: _Words) -> Iterator[list[str]]:
    table = profile.instants
    names, categories, given = words.names, words.categories, words.arguments
    for first in range(0, table.num_rows, BLOCK_ROWS):
        lines = []
        for row in table.slice(first, BLOCK_ROWS).to_pylist():
            where = (
                f'"pid":{places.pid[row["thread"]]},"tid":{places.tid[row["thread"]]},"s":"t"'
                if row["thread"] >= 0
                else f'"pid":{PROCESS},"tid":0,"s":"g"'
            )
            members = given[row["arguments"]] if row["arguments"] >= 0 else ""
            lines.append(
                f'{{"ph":"i","name":{names[row["function"]]},"cat":{categories[row["category"]]},'
                f'"ts":{us(row["time_ns"])},{where}' + (f',"args":{{{members}}}}}' if members else "}")
            )
        yield lines


def _counters(profile: Profile) -> Iterator[list[str]]:
    names = []
    for row in profile.series.to_pylist():
        device = f" {row['device']}" if row["device"] != NO_ID else ""
        rank = f" of rank {row['rank']}" if row["rank"] is not None else ""
        unit = f", {row['unit']}" if row["unit"] else ""
        names.append(
            (json.dumps(f"{row['name']}{device}{rank}{unit}"), row["pid"] if row["pid"] is not None else PROCESS)
        )
    for first in range(0, profile.counters.num_rows, BLOCK_ROWS):
        lines = []
        part = profile.counters.slice(first, BLOCK_ROWS)
        for series, time_ns, value in zip(
            *(part.column(n).to_pylist() for n in ("series", "time_ns", "value")), strict=True
        ):
            name, pid = names[series]
            shown = json.dumps(int(value) if value == int(value) else value) if np.isfinite(value) else "null"
            lines.append(f'{{"ph":"C","name":{name},"pid":{pid},"ts":{us(time_ns)},"args":{{"value":{shown}}}}}')
        yield lines


def _samples(profile: Profile, places: _Places) -> Iterator[list[str]]:
    """Samples as instants, called after the innermost function."""
    names = texts(profile.functions, "display")
    function = column(profile.frames, "function")
    frame, parent = (column(profile.stacks, name).tolist() for name in ("frame", "parent"))
    events = _quoted(texts(profile.events, "name"))
    known: dict[int, tuple[str, str]] = {ROOT: ('"[no stack]"', "[]")}
    for first in range(0, profile.samples.num_rows, BLOCK_ROWS):
        lines = []
        part = profile.samples.slice(first, BLOCK_ROWS)
        columns = (part.column(name).to_pylist() for name in ("time_ns", "thread", "event", "stack", "weight"))
        for time_ns, thread, event, stack, weight in zip(*columns, strict=True):
            if stack not in known:
                path, node = [], stack
                while node != ROOT:
                    path.append(names[function[frame[node]]])
                    node = parent[node]
                known[stack] = (json.dumps(path[0]), json.dumps(path))
            leaf, path_text = known[stack]
            lines.append(
                f'{{"ph":"i","s":"t","name":{leaf},"cat":{events[event]},"pid":{places.pid[thread]},'
                f'"tid":{places.tid[thread]},"ts":{us(time_ns)},"args":{{"stack":{path_text},"weight":{weight}}}}}'
            )
        yield lines
