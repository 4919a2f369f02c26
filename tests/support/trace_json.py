"""Traces for tests, as JSON, and their profiles."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfloom.domain.profile import Profile
from perfloom.domain.tables import NUMERIC_ARGUMENTS, get_column
from perfloom.domain.validation import find_error
from perfloom.readers import pytorch


def slice_(name: str, start: Any, duration: Any, **more: Any) -> dict[str, Any]:
    """A slice of an operator on thread 1 of process 1; times in µs."""
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": duration, **more}


def call(
    start: Any, duration: Any, correlation: int | None, name: str = "cudaLaunchKernel", **more: Any
) -> dict[str, Any]:
    """A call that launches work, on the same thread."""
    arguments = {"args": {"correlation": correlation}} if correlation is not None else {}
    return slice_(name, start, duration, **{"cat": "cuda_runtime", **arguments, **more})


def kernel(
    start: Any, duration: Any, correlation: int | None = None, name: str = "gemm", *, stream: int = 7, **more: Any
) -> dict[str, Any]:
    """A kernel of device 0."""
    numbers = {} if correlation is None else {"correlation": correlation}
    arguments = {"device": 0, "stream": stream, **numbers, **more.pop("args", {})}
    return slice_(name, start, duration, **{"cat": "kernel", "pid": 0, "tid": stream, "args": arguments, **more})


def event(phase: str, name: str, at: Any, **more: Any) -> dict[str, Any]:
    """An event that is no complete slice."""
    return {"ph": phase, "name": name, "pid": 1, "tid": 1, "ts": at, **more}


@dataclass(frozen=True)
class Slice:
    """A slice as it was read; times in ns from the profile's zero, its stack and parent as names."""

    row: int
    name: str
    start: int
    duration: int
    self: int
    thread: str
    depth: int
    parent: str | None
    stack: str
    category: str
    kind: str
    arguments: dict[str, Any]
    numbers: dict[str, int]


class Read:
    """A trace that was read, with lookups by name."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        assert find_error(profile) is None
        self.names = profile.functions.column("name").to_pylist()
        self.threads = profile.threads.to_pylist()
        frames = [self.names[row["function"]] for row in profile.frames.to_pylist()]
        self.stacks: list[tuple[str, ...]] = [()]
        for row in profile.stacks.to_pylist()[1:]:
            self.stacks.append((*self.stacks[row["parent"]], frames[row["frame"]]))
        self.losses = {row["reason"]: row["count"] for row in profile.losses.to_pylist()}
        self.slices = self._slices()

    def _slices(self) -> list[Slice]:
        sets = [json.loads(text) for text in self.profile.argument_sets.column("text").to_pylist()]
        categories = self.profile.categories.to_pylist()
        numbers: dict[int, dict[str, int]] = {}
        for row in self.profile.slice_numbers.to_pylist():
            numbers.setdefault(row["slice"], {})[NUMERIC_ARGUMENTS[row["key"]]] = row["value"]
        rows = self.profile.slices.to_pylist()
        return [
            Slice(
                row=i,
                name=self.names[row["function"]],
                start=row["start_ns"],
                duration=row["duration_ns"],
                self=row["self_ns"],
                thread=self.threads[row["thread"]]["name"],
                depth=row["depth"],
                parent=self.names[rows[row["parent"]]["function"]] if row["parent"] >= 0 else None,
                stack=";".join(self.stacks[row["stack"]]),
                category=categories[row["category"]]["name"],
                kind=categories[row["category"]]["kind"],
                arguments=sets[row["arguments"]] if row["arguments"] >= 0 else {},
                numbers=numbers.get(i, {}),
            )
            for i, row in enumerate(rows)
        ]

    def one(self, name: str) -> Slice:
        """The only slice of that name."""
        (found,) = (one for one in self.slices if one.name == name)
        return found

    def of(self, *fields: str) -> list[tuple[Any, ...]]:
        """These fields of all slices."""
        return [tuple(getattr(one, name) for name in fields) for one in self.slices]

    def samples(self, event: str = "host time") -> list[tuple[int, int, str]]:
        """(start, weight, stack) of the samples of an event."""
        events = self.profile.events.column("name").to_pylist()
        table = self.profile.samples.to_pylist()
        return [
            (row["time_ns"], row["weight"], ";".join(self.stacks[row["stack"]]))
            for row in table
            if events[row["event"]] == event
        ]

    def work(self) -> list[dict[str, Any]]:
        """The table `device_work`, its slices by their names."""
        return [
            row
            | {key: self.slices[row[key]].name if row[key] >= 0 else None for key in ("slice", "launch", "operator")}
            for row in self.profile.device_work.to_pylist()
        ]


def read(*events: Any, **top: Any) -> Read:
    """The profile of a trace with these events."""
    text = json.dumps({"schemaVersion": 1, **top, "traceEvents": list(events)})
    return Read(pytorch.read(io.BytesIO(text.encode())))


def covered(profile: Profile, thread: int) -> int:
    """The number of ns in which there is any slice on a thread."""
    mine = get_column(profile.slices, "thread") == thread
    start = get_column(profile.slices, "start_ns")[mine]
    stop = start + get_column(profile.slices, "duration_ns")[mine]
    reached = np.maximum.accumulate(np.concatenate(([start[0] if len(start) else 0], stop)))
    return int(np.maximum(0, stop - np.maximum(start, reached[:-1])).sum())
