"""Traces for tests: profiles with slices, written or generated, as a reader of traces creates them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.meta import PYTORCH_PROFILE
from perfloom.domain.profile import Meta, Profile
from perfloom.domain.tables import (
    DEVICE_TIME,
    HOST_TIME,
    NUMERIC_ARGUMENTS,
    SCHEMAS,
    DeviceWorkKind,
    FlowKind,
    FrameKind,
)

KINDS = {
    "operator": FrameKind.OPERATOR,
    "python": FrameKind.PYTHON,
    "annotation": FrameKind.ANNOTATION,
    "runtime": FrameKind.RUNTIME,
    "kernel": FrameKind.GPU_KERNEL,
    "memcpy": FrameKind.GPU_KERNEL,
}


@dataclass
class _Slice:
    """As given; launch: the launch of device work. work: more of its row of `device_work`."""

    thread: int
    start: int
    duration: int
    name: str
    kind: str
    launch: _Slice | None = None
    numbers: dict[str, int] = field(default_factory=dict)
    arguments: dict[str, Any] | None = None
    work: dict[str, Any] = field(default_factory=dict)
    row: int = -1
    depth: int = 0
    parent: _Slice | None = None
    inside: int = 0
    stack: int = 0

    @property
    def end(self) -> int:
        return self.start + self.duration


class Trace:
    """Collects a trace and builds its profile. Times are ns."""

    def __init__(self) -> None:
        self.builder = ProfileBuilder("test trace")
        self.slices: list[_Slice] = []
        self.streams: set[int] = set()
        self.steps: list[dict[str, Any]] = []
        self.instants: list[tuple[int, int, str]] = []
        self.series: list[dict[str, Any]] = []
        self.counters: list[tuple[int, int, float]] = []
        self.flows: list[tuple[_Slice, _Slice]] = []

    def thread(self, tid: int, name: str = "", rank: int | None = None, pid: int = 1, *, stream: bool = False) -> int:
        """The id of a thread, or of a stream of a device."""
        thread = self.builder.intern_thread(pid=pid, tid=tid, rank=rank, kind="gpu_stream" if stream else "thread")
        self.builder.set_thread_name(thread, 0, name or (f"stream {tid}" if stream else f"thread {tid}"))
        if stream:
            self.streams.add(thread)
        return thread

    def slice(
        self,
        thread: int,
        start: int,
        end: int,
        name: str,
        kind: str = "operator",
        launch: _Slice | None = None,
        arguments: dict[str, Any] | None = None,
        work: dict[str, Any] | None = None,
        **numbers: int,
    ) -> _Slice:
        """Add a slice; those of one host thread must be nested. arguments: as PyTorch names them, shapes, types,
        strides, values and call_stack as in the table `argument_sets`. work: columns of `device_work`, and as
        `configuration` those of `configurations`."""
        made = _Slice(thread, start, end - start, name, kind, launch, numbers, arguments, work or {})
        self.slices.append(made)
        return made

    def step(self, name: str, start: int, end: int, rank: int | None = None) -> None:
        """Add a step."""
        self.steps.append({"rank": rank, "name": name, "start_ns": start, "end_ns": end, "thread": -1})

    def values(self, name: str, unit: str, points: Sequence[tuple[int, float]], rank: int | None = None) -> None:
        """Add a series."""
        series = len(self.series)
        self.series.append({"name": name, "unit": unit, "rank": rank, "pid": 1, "process": "python", "device": -1})
        self.counters += [(series, at, value) for at, value in points]

    def finish(self) -> Profile:
        """The profile."""
        for made in self.slices:
            for name in (HOST_TIME, DEVICE_TIME):
                if (made.thread in self.streams) == (name == DEVICE_TIME):
                    self.builder.intern_event(name, "ns")
        self.slices.sort(key=lambda s: (s.thread, s.start, -s.duration))
        for row, made in enumerate(self.slices):
            made.row = row
        self._nest()
        self._lanes()
        for made in sorted(self.slices, key=lambda s: s.thread in self.streams):
            above = made.launch if made.thread in self.streams else made.parent
            made.stack = self.builder.intern_stack([*self._frames(above), self._frame(made)])
        samples = sorted(self._samples())
        last = max([s.end for s in self.slices], default=0)
        profile, place = self.builder.finish_without_samples(
            Meta("test trace", duration_ns=last, capabilities=(PYTORCH_PROFILE,)), 0
        )
        categories = list(dict.fromkeys(s.kind for s in self.slices)) or ["other"]
        functions = {name: row for row, name in enumerate(profile.functions.column("name").to_pylist())}
        sets = {json.dumps(s.arguments): None for s in self.slices if s.arguments is not None}
        texts = {text: row for row, text in enumerate(sets)}
        given = (json.dumps(s.work["configuration"]) for s in self.slices if "configuration" in s.work)
        configurations = {text: row for row, text in enumerate(dict.fromkeys(given))}
        tables: dict[str, list[dict[str, Any]]] = {
            "samples": [
                {"time_ns": t, "thread": th, "cpu": -1, "event": e, "stack": int(place[st]), "weight": w}
                for t, th, e, st, w in samples
            ],
            "categories": [{"name": name, "kind": name} for name in categories],
            "argument_sets": [{"text": text} | _typed(json.loads(text)) for text in texts],
            "configurations": [json.loads(text) for text in configurations],
            "slices": [
                {
                    "start_ns": s.start,
                    "duration_ns": s.duration,
                    "self_ns": s.duration - s.inside,
                    "thread": s.thread,
                    "function": functions[s.name],
                    "category": categories.index(s.kind),
                    "depth": s.depth,
                    "parent": s.parent.row if s.parent else -1,
                    "end": self._end(s),
                    "stack": int(place[s.stack]),
                    "arguments": -1 if s.arguments is None else texts[json.dumps(s.arguments)],
                }
                for s in self.slices
            ],
            "slice_numbers": [
                {"slice": s.row, "key": NUMERIC_ARGUMENTS.index(key), "value": value}
                for s in self.slices
                for key, value in s.numbers.items()
            ],
            "device_work": [
                {
                    "slice": s.row,
                    "kind": int(DeviceWorkKind.MEMCPY if s.kind == "memcpy" else DeviceWorkKind.COMPUTATION),
                    "device": -1,
                    "stream": s.thread,
                    "launch": s.launch.row if s.launch else -1,
                    "operator": self._operator(s.launch),
                    "configuration": -1,
                }
                | s.work
                | (
                    {"configuration": configurations[json.dumps(s.work["configuration"])]}
                    if "configuration" in s.work
                    else {}
                )
                for s in self.slices
                if s.thread in self.streams
            ],
            "flows": [
                {"source": a.row, "target": b.row, "kind": int(FlowKind.FORWARD_BACKWARD)} for a, b in self.flows
            ],
            "steps": self.steps,
            "series": self.series,
            "counters": [{"series": s, "time_ns": t, "value": v} for s, t, v in sorted(self.counters)],
            "instants": [
                {"time_ns": t, "thread": th, "function": functions.get(name, 0), "category": 0, "arguments": -1}
                for t, th, name in sorted(self.instants)
            ],
        }
        return replace(
            profile, **{name: pa.Table.from_pylist(rows, schema=SCHEMAS[name]) for name, rows in tables.items()}
        )

    def _frame(self, made: _Slice) -> int:
        return self.builder.intern_frame(
            self.builder.intern_function(made.name), kind=KINDS.get(made.kind, FrameKind.UNKNOWN)
        )

    def _frames(self, made: _Slice | None) -> list[int]:
        return [] if made is None else [*self._frames(made.parent), self._frame(made)]

    def _nest(self) -> None:
        open_: list[_Slice] = []
        for made in self.slices:
            if made.thread in self.streams:
                continue
            while open_ and (
                open_[-1].thread != made.thread or open_[-1].end < made.end or open_[-1].end == made.start
            ):
                open_.pop()
            if open_:
                made.parent, made.depth = open_[-1], open_[-1].depth + 1
                open_[-1].inside += made.duration
            open_.append(made)

    def _lanes(self) -> None:
        free: dict[int, list[int]] = {}
        for made in self.slices:
            if made.thread in self.streams:
                lanes = free.setdefault(made.thread, [])
                made.depth = next((n for n, until in enumerate(lanes) if until <= made.start), len(lanes))
                lanes[made.depth : made.depth + 1] = [made.end]

    def _end(self, made: _Slice) -> int:
        end = made.row + 1
        while end < len(self.slices) and made.thread not in self.streams and self._is_in(self.slices[end], made):
            end += 1
        return end

    @staticmethod
    def _is_in(made: _Slice | None, other: _Slice) -> bool:
        while made is not None and made is not other:
            made = made.parent
        return made is not None

    @staticmethod
    def _operator(made: _Slice | None) -> int:
        while made is not None and made.kind != "operator":
            made = made.parent
        return -1 if made is None else made.row

    def _samples(self) -> list[tuple[int, int, int, int, int]]:
        """(time, thread, event, stack, weight): for host threads their self-time intervals, for streams their work."""
        found = []
        inside: dict[int, list[_Slice]] = {}
        for made in self.slices:
            inside.setdefault(id(made.parent), []).append(made)
        for made in self.slices:
            if made.thread in self.streams:
                found.append(
                    (made.start, made.thread, self.builder.intern_event(DEVICE_TIME, "ns"), made.stack, made.duration)
                )
                continue
            at = made.start
            for other in inside.get(id(made), []):
                if other.start > at:
                    found.append(
                        (at, made.thread, self.builder.intern_event(HOST_TIME, "ns"), made.stack, other.start - at)
                    )
                at = other.end
            if made.end > at or not made.duration:
                found.append((at, made.thread, self.builder.intern_event(HOST_TIME, "ns"), made.stack, made.end - at))
        return found


def _typed(arguments: dict[str, Any]) -> dict[str, str]:
    """The arguments that have separate columns."""
    return {
        name: arguments[name] for name in ("shapes", "types", "strides", "values", "call_stack") if name in arguments
    }


NAMES = ("aten::mm", "aten::add", "cudaLaunchKernel", "train.py(3): step", "sgemm<float>", "Memcpy HtoD")


@st.composite
def traces(draw: st.DrawFn, most: int = 60) -> Profile:
    """Small traces: nested and empty slices, streams whose work overlaps, launches, steps of several ranks."""
    trace = Trace()
    ranks: list[int | None] = draw(st.sampled_from(([None], [0], [0, 1])))
    for rank in ranks:
        host: list[_Slice] = []
        for tid in range(draw(st.integers(1, 2))):
            thread = trace.thread(10 + tid, rank=rank)

            def nested(start: int, end: int, depth: int, thread: int = thread, host: list[_Slice] = host) -> None:
                cuts = sorted(draw(st.lists(st.integers(start, end), max_size=6)))
                for low, high in zip(cuts[::2], cuts[1::2], strict=False):
                    host.append(
                        trace.slice(thread, low, high, draw(st.sampled_from(NAMES)), draw(st.sampled_from(list(KINDS))))
                    )
                    if depth < 3:
                        nested(low, high, depth + 1)

            nested(0, most, 0)
        for tid in range(draw(st.integers(0, 2))):
            stream = trace.thread(90 + tid, rank=rank, stream=True)
            for _ in range(draw(st.integers(0, 6))):
                start = draw(st.integers(0, most))
                launch = draw(st.none() | st.sampled_from(host)) if host else None
                end = start + draw(st.integers(0, 30))
                trace.slice(stream, start, end, draw(st.sampled_from(NAMES)), "kernel", launch)
        cuts = sorted(draw(st.lists(st.integers(0, most), max_size=4, unique=True)))
        for number, (low, high) in enumerate(itertools.pairwise(cuts)):
            trace.step(f"ProfilerStep#{number}", low, high, rank)
    return trace.finish()
