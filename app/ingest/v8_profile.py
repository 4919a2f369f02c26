"""Sampled JavaScript: profiles of V8, in separate files (.cpuprofile of Node and of Chrome's developer tools) and in
traces of Chrome (`Profile` and `ProfileChunk`); and samples next to the events of a trace (`samples` with
`stackFrames`, of Google's "Trace Event Format").

In V8 a sample holds until the next, as in the developer tools; the last one until the profile ends.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..domain.arrays import MISSING
from ..domain.builder import ProfileBuilder
from ..domain.tables import NO_ID, FrameKind
from ..domain.timed_events import IDLE, IDLE_FUNCTION, SAMPLED_JAVASCRIPT
from ..domain.units import NS_PER_US
from .json_text import parse_json

if TYPE_CHECKING:
    from .trace.events import TraceEvents

EVENT = SAMPLED_JAVASCRIPT
MAX_TIME_NS = 1 << 60
BAD_NODE = "invalid node of a V8 profile"
BAD_SAMPLE = "sample of a profile with an unknown stack or time"
NO_PROFILE = "unreadable part of a V8 profile"
OVERLAPPING_PROFILE = "second profile of a thread for the same time"
NO_START = "V8 profile without its start: the times are inferred"
V8_LOSSES = (BAD_NODE, BAD_SAMPLE, NO_PROFILE, NO_START, OVERLAPPING_PROFILE)
_CATEGORY = "cpu_profiler"


@dataclass
class V8Profile:
    """The samples of one thread. frames: of each node (function, file, line from 1 or None). parent: the index of each
    node's caller, NO_ID below the root. Of each sample: time (ns), node and weight."""

    pid: int | None = None
    tid: int | None = None
    thread: str = ""
    frames: list[tuple[str, str, int | None]] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    time_ns: list[int] = field(default_factory=list)
    node: list[int] = field(default_factory=list)
    weight: list[int] = field(default_factory=list)
    event: list[tuple[str, str]] = field(default_factory=list)
    lost: list[tuple[str, str]] = field(default_factory=list)

    def span(self) -> tuple[int, int]:
        """The time of the first sample, and the end of the last."""
        lasts = [w if unit == "ns" else 0 for w, (_, unit) in zip(self.weight, self.event, strict=True)]
        return min(self.time_ns), max(t + w for t, w in zip(self.time_ns, lasts, strict=True))


def find_problems(profiles: Sequence[V8Profile]) -> tuple[str, ...]:
    """Why the samples are incomplete, a sentence for each kind of loss. A second profile of the same thread is no
    reason: its time already counts."""
    lost = [each for profile in profiles for each in profile.lost if each[0] != OVERLAPPING_PROFILE]
    counts, first = Counter(reason for reason, _ in lost), dict(reversed(lost))
    return tuple(
        f"{reason[0].upper()}{reason[1:]}: {count:,}, the first is {first[reason]}." for reason, count in counts.items()
    )


def add_profiles(profiles: Sequence[V8Profile], builder: ProfileBuilder, zero: int) -> None:
    """Add the samples to a profile whose zero is at `zero` ns."""
    for profile in profiles:
        for reason, example in profile.lost:
            builder.add_loss(reason, example)
        if not profile.time_ns:
            continue
        known = builder.get_threads("thread").get(profile.tid) if profile.tid is not None else None
        thread = builder.intern_thread(pid=profile.pid, tid=profile.tid) if known is None else known
        if profile.thread and known is None:
            builder.set_thread_name(thread, 0, profile.thread)
        frames = [
            builder.intern_frame(builder.intern_function(name, "", file or None), kind=FrameKind.USER, line=line)
            for name, file, line in profile.frames
        ]
        first = builder.add_stack_tree(np.array(profile.parent, np.int64), np.array(frames, np.int64)) if frames else 0
        events = [builder.intern_event(name, unit) for name, unit in profile.event]
        node = np.array(profile.node, np.int64)
        count = len(node)
        builder.add_samples(
            np.array(profile.time_ns, np.int64) - zero,
            np.full(count, thread, np.int64),
            np.full(count, NO_ID, np.int64),
            np.array(events, np.int64),
            np.where(node < 0, 0, node + first),
            np.array(profile.weight, np.int64),
        )


class V8ProfileParser:
    """Combines the parts of one V8 profile: a file is one part, a trace has many."""

    def __init__(self) -> None:
        self._found = V8Profile()
        self._place: dict[int, int] = {}
        self._now_us: int | None = None
        self._end_us = 0
        self._ends = True
        """Whether the end and the samples have the same clock."""
        self._ids: list[int | None] = []
        self._times: list[int] = []
        self._children: dict[int, int] = {}

    def feed(self, data: Mapping[str, Any], written_us: int | None = None) -> None:
        """Add `args.data` of an event. The start must come before any samples. written_us: the time at which V8 wrote
        the event, which is after the last of its samples."""
        for word in ("startTime", "endTime"):
            if (value := _parse_int(data.get(word))) is not None and abs(value) <= MAX_TIME_NS // NS_PER_US:
                if word == "startTime":
                    self._now_us = value
                else:
                    self._end_us = value
        profile = data.get("cpuProfile")
        if not isinstance(profile, dict):
            return
        for node in _list(profile.get("nodes")):
            self._get_node(node)
        samples, deltas = _list(profile.get("samples")), _list(data.get("timeDeltas") or profile.get("timeDeltas"))
        if len(samples) != len(deltas):
            self._found.lost.append((NO_PROFILE, f"{len(samples):,} samples with {len(deltas):,} times"))
        if self._now_us is None and (samples or deltas):
            self._now_us = self._infer_start(deltas, written_us)
        for at, delta in enumerate(deltas):
            self._add_sample(samples[at] if at < len(samples) else None, delta, at < len(samples))
        if len(samples) > len(deltas):
            # The duration of the last sample with a time is unknown.
            self._add_sampled_node(None)

    def _infer_start(self, deltas: Sequence[Any], written_us: int | None) -> int:
        """A start for a profile without one, such that its first part ends when it was written."""
        example = "no event Profile" if written_us is not None else "no startTime"
        self._found.lost.append((NO_START, example))
        start = (written_us or 0) - sum(_parse_int(delta) or 0 for delta in deltas)
        if written_us is not None and abs(start) <= MAX_TIME_NS // NS_PER_US:
            return start
        self._ends = False
        return 0

    def _add_sample(self, id: Any, delta: Any, given: bool) -> None:
        """Add a time and the sample at it; without a sample, it is missing and counted as lost already."""
        step = _parse_int(delta)
        assert self._now_us is not None
        fits = step is not None and abs(self._now_us + step) <= MAX_TIME_NS // NS_PER_US
        if given and (not fits or not isinstance(id, int)):
            self._found.lost.append((BAD_SAMPLE, f"{id!r} after {delta!r} µs"[:100]))
        if step is not None and fits:
            self._now_us += step
            self._add_sampled_node(id if isinstance(id, int) else None)

    def _add_sampled_node(self, id: int | None) -> None:
        """Node `id` was sampled now; None: the previous sample ends, and the next is unknown."""
        assert self._now_us is not None
        self._ids.append(id)
        self._times.append(self._now_us * NS_PER_US)

    def _get_node(self, node: Any) -> None:
        frame = node.get("callFrame") if isinstance(node, dict) else None
        id = node.get("id") if isinstance(node, dict) else None
        if not isinstance(frame, dict) or not isinstance(id, int) or id in self._place:
            self._found.lost.append((BAD_NODE, str(node)[:100]))
            return
        parent = node.get("parent")
        # A node that names itself, or a later one, would close a cycle.
        above = self._place.get(parent, NO_ID) if isinstance(parent, int) else NO_ID
        if above == NO_ID and parent is not None:
            self._found.lost.append((BAD_NODE, f"node {id} refers to node {parent}, which is not before it"[:100]))
        place = self._place[id] = len(self._found.frames)
        line, name = _parse_int(frame.get("lineNumber")), frame.get("functionName")
        # Lines count from 0 here.
        at = line + 1 if line is not None and 0 <= line < 1 << 31 else None
        self._found.frames.append((str(name or "(anonymous)"), str(frame.get("url") or ""), at))
        self._found.parent.append(above)
        for child in _list(node.get("children")):
            # In a file a node names its children, which come later.
            if isinstance(child, int) and self._children.setdefault(child, place) != place:
                self._found.lost.append((BAD_NODE, f"node {child} has two parents, {id} is the second"))

    def finish(self) -> V8Profile:
        """The samples in order of time, each until the next."""
        found = self._found
        for id, place in self._place.items():
            above = self._children.get(id, NO_ID)
            if above >= place:
                found.lost.append((BAD_NODE, f"node {id} is before its caller"))
            elif found.parent[place] == NO_ID and above < place:
                found.parent[place] = above
        # The root represents the thread.
        root = next((at for at, (name, _, _) in enumerate(found.frames) if name == "(root)"), NO_ID)
        if root == 0:
            del found.frames[0], found.parent[0]
            found.parent = [above - 1 if above > 0 else NO_ID for above in found.parent]
            self._place = {id: place - 1 for id, place in self._place.items()}
        order = sorted(range(len(self._times)), key=self._times.__getitem__)
        times = [self._times[at] for at in order]
        ends = times[1:] + [max(self._end_us * NS_PER_US * self._ends, last) for last in times[-1:]]
        for at, until in zip(order, ends, strict=True):
            known = self._ids[at]
            if known is None:
                continue
            node = self._place.get(known)
            if node is None:
                found.lost.append((BAD_SAMPLE, f"node {known} does not exist"))
                continue
            idle = node >= 0 and found.frames[node][0] == IDLE_FUNCTION
            if idle and at == order[-1] and until == self._times[at]:
                # It only ends the previous sample.
                continue
            found.time_ns.append(self._times[at])
            found.node.append(node)
            found.weight.append(until - self._times[at])
            found.event.append((IDLE if idle else EVENT, "ns"))
        return found


def extract_profiles(events: TraceEvents) -> tuple[TraceEvents, list[V8Profile]]:
    """The events of a trace without the parts of profiles, and the samples of the profiles."""
    profiles: dict[tuple[int, int], V8ProfileParser] = {}
    threads: dict[tuple[int, int], tuple[int, int]] = {}
    names = {events.texts.index(name): name for name in ("Profile", "ProfileChunk") if name in events.texts}
    rows = np.flatnonzero(np.isin(events.name, list(names)) & (events.phase == ord("P")))
    # The events of a trace may be in any order: starts first, then parts by time.
    is_part = np.array([names.get(name) != "Profile" for name in events.name[rows].tolist()], bool)
    rows = rows[np.lexsort((events.time_ns[rows], is_part))]
    phase = events.phase.copy()
    for row in rows.tolist():
        if _CATEGORY not in (events.texts[events.category[row]] if events.category[row] >= 0 else ""):
            continue
        key = (int(events.process[row]), int(events.id[row]))
        parts = profiles.setdefault(key, V8ProfileParser())
        # Like a frame without details.
        phase[row] = ord("M")
        if names[int(events.name[row])] == "Profile":
            # Its parts come from the sampling thread.
            threads[key] = (int(events.process[row]), int(events.thread[row]))
        try:
            data = parse_json(events.texts[events.arguments[row]]).get("data") if events.arguments[row] >= 0 else {}
        except ValueError:
            data = None
        written_us = int(events.time_ns[row]) // NS_PER_US if events.time_ns[row] != MISSING else None
        parts.feed(data if isinstance(data, dict) else {"cpuProfile": {"nodes": [None]}}, written_us)
    found = []
    for key, parts in profiles.items():
        sampled = parts.finish()
        process, thread = threads.get(key, (key[0], -1))
        sampled.pid, sampled.tid = (_parse_int_text(events.texts[at]) if at >= 0 else None for at in (process, thread))
        found.append(sampled)
    found = _select_largest(found)
    top = dict(events.top)
    found += _extract_samples(top)
    _name_threads(events, found)
    return replace(events, phase=phase, top=top), [one for one in found if one.time_ns or one.lost]


def _select_largest(v8_profiles: Sequence[V8Profile]) -> list[V8Profile]:
    """Of profiles that sampled one thread at the same time the one with most samples, so that nothing counts twice."""
    kept: list[V8Profile] = []
    for sampled in sorted(v8_profiles, key=lambda one: -len(one.time_ns)):
        if sampled.time_ns:
            begin, end = sampled.span()
            same = (one for one in kept if one.time_ns and (one.pid, one.tid) == (sampled.pid, sampled.tid))
            if any(one.span()[0] < end and begin < one.span()[1] for one in same):
                kept.append(
                    V8Profile(lost=[(OVERLAPPING_PROFILE, f"{len(sampled.time_ns):,} samples of thread {sampled.tid}")])
                )
                continue
        kept.append(sampled)
    return kept


def _extract_samples(top: dict[str, Any]) -> list[V8Profile]:
    """`samples` and `stackFrames` of the file by thread; removed from the document."""
    if not isinstance(top.get("samples"), list) or not isinstance(top.get("stackFrames"), dict):
        return []
    samples, stack_frames = top.pop("samples"), top.pop("stackFrames")
    by_thread: dict[int | None, tuple[V8Profile, Callable[[Any], int | None]]] = {}
    for sample in samples:
        if not isinstance(sample, dict):
            sample = {}
        tid = _parse_int(sample.get("tid"))
        if tid not in by_thread:
            v8_profile = V8Profile(tid=tid, pid=_parse_int(sample.get("pid")))
            by_thread[tid] = v8_profile, _Frames(stack_frames, v8_profile).place
        v8_profile, place = by_thread[tid]
        ts: Any = sample.get("ts")
        weight = _parse_int(sample.get("weight", 1))
        time_ns = round(ts * NS_PER_US) if _parse_int(ts) is not None and abs(ts) < MAX_TIME_NS // NS_PER_US else None
        node = place(sample.get("sf")) if "sf" in sample else NO_ID
        if time_ns is None or weight is None or not 0 <= weight < 1 << 40 or node is None:
            v8_profile.lost.append((BAD_SAMPLE, str(sample)[:100]))
            continue
        v8_profile.time_ns.append(time_ns)
        v8_profile.node.append(node)
        v8_profile.weight.append(weight)
        v8_profile.event.append((str(sample.get("name") or "samples")[:200], "count"))
    return [v8_profile for v8_profile, _ in by_thread.values()]


class _Frames:
    """Frames that name their caller, by their id in the file."""

    def __init__(self, stack_frames: Mapping[str, Any], sampled: V8Profile) -> None:
        self._stack_frames, self._sampled = stack_frames, sampled
        self._place: dict[str, int] = {}

    def place(self, name: Any) -> int | None:
        """The node of a frame; None if it, or one that it names, is missing."""
        todo: list[str] = []
        above, at = NO_ID, str(name)
        while at not in self._place:
            frame = self._stack_frames.get(at)
            if not isinstance(frame, dict) or at in todo[-1000:] or len(todo) > 10_000:
                return None
            todo.append(at)
            if frame.get("parent") is None:
                break
            at = str(frame["parent"])
        else:
            above = self._place[at]
        for one in reversed(todo):
            frame = self._stack_frames[one]
            self._sampled.frames.append(
                (str(frame.get("name") or "(anonymous)"), str(frame.get("category") or ""), None)
            )
            self._sampled.parent.append(above)
            above = self._place[one] = len(self._sampled.frames) - 1
        return above


def _name_threads(events: TraceEvents, v8_profiles: Sequence[V8Profile]) -> None:
    """Set the names of threads from metadata."""
    if "thread_name" not in events.texts or not v8_profiles:
        return
    rows = np.flatnonzero((events.name == events.texts.index("thread_name")) & (events.phase == ord("M")))
    for row in rows.tolist():
        tid = _parse_int_text(events.texts[events.thread[row]]) if events.thread[row] >= 0 else None
        if events.arguments[row] >= 0:
            try:
                thread_name = parse_json(events.texts[events.arguments[row]]).get("name")
            except ValueError:
                continue
            for sampled in v8_profiles:
                if sampled.tid == tid and isinstance(thread_name, str):
                    sampled.thread = thread_name


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _parse_int(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) > MAX_TIME_NS:
        return None
    return round(value)


def _parse_int_text(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,15}", text, re.ASCII) else None
