"""A profile put together from the events of a trace of PyTorch's profiler."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ..domain.builder import ProfileBuilder
from ..domain.errors import UnreadableInput
from ..domain.profile import Meta, Profile
from ..domain.tables import DEVICE_TIME, HOST_TIME, NO_ID
from .hashing import numbered
from .pytorch_device import DeviceTables, Work, device_tables, joined
from .pytorch_names import ARGUMENTS, MEMORY, is_step, meaning
from .trace_events import MISSING, TraceEvents
from .trace_lines import STREAM, THREAD
from .trace_slices import Meaning, Rows, described, slices_of
from .trace_tables import (
    ArgumentSets,
    categories_table,
    numbers_table,
    samples_table,
    slices_table,
    table,
)

Array = np.ndarray[Any, Any]
FORMAT = "pytorch"
TRACKS = frozenset({"-1", "Spans", "Traces", ""})
"""Processes that are none: Kineto puts its own overhead and the spans of the profiler there."""
INSTANTS = (ord("i"), ord("I"), ord("R"), ord("n"))
MOST_FACT = 20_000
NO_LAUNCH = "device work that no call on the host is known of"
_TAKEN = frozenset({"deviceProperties", "traceEvents"})


def assembled(events: TraceEvents, source: str, defect: str | None) -> Profile:
    """The profile of these events. source: names the file in messages. defect: what is wrong with the file itself.

    Raises UnreadableInput where there is no event at all.
    """
    builder = ProfileBuilder(FORMAT)
    for reason, count, example in events.lost:
        builder.lost(reason, example, count)
    if not len(events):
        raise UnreadableInput(
            f"There is no event in {source}: its list traceEvents is empty. Record again, with at least one step "
            "while the profiler is active."
        )
    rank = _rank(events.top)
    rows = slices_of(events, Meaning(meaning, TRACKS), builder)
    work = joined(rows)
    moments = _moments(events)
    zero = _zero(rows, events, moments)
    arguments = ArgumentSets(events, np.concatenate((rows.event, moments)))
    devices = device_tables(rows, work, arguments, events.top.get("deviceProperties"), rank, [])
    if (work.launch < 0).any():
        alone = work.slice[work.launch < 0]
        builder.lost(NO_LAUNCH, described(events, int(rows.event[alone[0]])), len(alone))
    _threads(rows, work, devices, rank, builder, _text_of(events.top, "hostname", "host_name"))
    node = _stacks(rows, work)
    builder.run(host=_text_of(events.top, "hostname", "host_name"))
    builder.stacks(rows.tree.parent[1 : rows.tree.nodes] - 1, rows.tree.frame[1 : rows.tree.nodes])
    instants = _instants(rows, events, moments, zero, arguments, builder)
    return _closed(rows, work, devices, builder, zero, node, arguments, instants, rank, defect)


def _closed(
    rows: Rows,
    work: Work,
    devices: DeviceTables,
    builder: ProfileBuilder,
    zero: int,
    node: Array,
    arguments: ArgumentSets,
    instants: tuple[pa.Table, list[tuple[str, str]]],
    rank: int | None,
    defect: str | None,
) -> Profile:
    # The events come first, so that the main one is known.
    stretches = len(rows.stretches[0])
    if stretches:
        builder.event(HOST_TIME, "ns")
    if len(work.slice):
        builder.event(DEVICE_TIME, "ns")
    last = max(int(rows.stop_ns.max()) if len(rows) else zero, zero)
    if instants[0].num_rows:
        last = max(last, zero + int(instants[0].column("time_ns")[-1].as_py()))
    outline, place = builder.outline(_meta(rows.events, zero, last, defect), zero)
    stack = place[node].astype(np.int32) if len(node) else np.zeros(0, np.int32)
    return replace(
        outline,
        samples=samples_table(rows, zero, stack, work.slice, builder),
        categories=categories_table(rows, instants[1]),
        argument_sets=arguments.table(ARGUMENTS),
        slices=slices_table(rows, zero, stack, arguments),
        slice_numbers=numbers_table(rows),
        instants=instants[0],
        device_work=devices.device_work,
        configurations=devices.configurations,
        devices=devices.devices,
        steps=_steps(rows, zero, rank),
    )


def _rank(top: dict[str, Any]) -> int | None:
    info = top.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    return rank if isinstance(rank, int) and 0 <= rank < 1 << 31 else None


def _text_of(top: dict[str, Any], *names: str) -> str | None:
    return next((str(top[name]) for name in names if isinstance(top.get(name), str) and top[name]), None)


def _zero(rows: Rows, events: TraceEvents, moments: Array) -> int:
    """When the first event was, in the file's own time."""
    times = [values.min() for values in (rows.start_ns, events.time_ns[moments]) if len(values)]
    return int(min(times)) if times else 0


def _moments(events: TraceEvents) -> Array:
    """The events that are instants, those of memory aside, in order of time."""
    found = np.flatnonzero(np.isin(events.phase, INSTANTS) & (events.time_ns != MISSING))
    names = [at for at in np.unique(events.name[found]).tolist() if at >= 0 and events.texts[at] == MEMORY]
    found = found[~np.isin(events.name[found], names)]
    return found[np.argsort(events.time_ns[found], kind="stable")]


def _instants(
    rows: Rows,
    events: TraceEvents,
    moments: Array,
    zero: int,
    arguments: ArgumentSets,
    builder: ProfileBuilder,
) -> tuple[pa.Table, list[tuple[str, str]]]:
    """The table `instants`, and the categories that only they have."""
    known = {category: row for row, category in enumerate(rows.codes.categories)}
    line = {(about.process, about.thread): at for at, about in reversed(list(enumerate(rows.lines)))}
    code, shown = numbered(events.category[moments], events.name[moments])
    where, at = numbered(events.process[moments], events.thread[moments])
    category, function = [], []
    for event in moments[shown].tolist():
        text, name = (events.texts[i] if i >= 0 else "" for i in (events.category[event], events.name[event]))
        category.append(known.setdefault((text, meaning(text, name).kind), len(known)))
        function.append(builder.function(name))
    threads = []
    for event in moments[at].tolist():
        process, thread = (events.texts[i] if i >= 0 else None for i in (events.process[event], events.thread[event]))
        threads.append(line.get((process, thread), NO_ID))
    instants = table(
        "instants",
        time_ns=events.time_ns[moments] - zero,
        thread=np.array(threads or [0], np.int32)[where],
        function=np.array(function or [0], np.int32)[code],
        category=np.array(category or [0], np.int16)[code],
        arguments=arguments.rows(events.arguments[moments]),
    )
    return instants, list(known)[len(rows.codes.categories) :]


def _threads(
    rows: Rows, work: Work, devices: DeviceTables, rank: int | None, builder: ProfileBuilder, host: str | None
) -> None:
    """Make the threads, in the order of the lines."""
    pids = _processes(rows, work)
    several = len({device for device in devices.of_line.values() if device is not None}) > 1
    for at, line in enumerate(rows.lines):
        pid, tid, name = line.pid, line.tid, line.name
        if line.what == STREAM:
            device, stream = devices.of_line.get(at), devices.stream_of_line.get(at)
            tid = tid if stream is None else stream
            pid = pids.get(at, pid)
            name = name or (f"stream {tid}" if tid is not None else line.thread)
            if several and device is not None:
                name = f"GPU {device} {name}"
        kind = ("thread", "gpu_stream", "track")[line.what]
        thread = builder.thread(pid=pid, tid=tid, rank=rank, host=host, kind=kind, incarnation=at)
        name = name or (f"thread {tid}" if tid is not None else line.thread)
        if name:
            builder.named(thread, 0, name)
        process = line.process_name or (line.process if line.pid is None else None)
        if process:
            builder.process(thread, process)


def _processes(rows: Rows, work: Work) -> dict[int, int]:
    """The process of each stream: the one that launched most of its work, else the only one there is."""
    hosts = [line.pid for line in rows.lines if line.what == THREAD and line.pid is not None]
    pids: dict[int, int] = {}
    if len(set(hosts)) == 1:
        pids = {at: hosts[0] for at, line in enumerate(rows.lines) if line.what == STREAM}
    known = work.launch >= 0
    pairs = np.stack((rows.line[work.slice[known]], rows.line[work.launch[known]]))
    distinct, count = np.unique(pairs, axis=1, return_counts=True)
    for place in np.argsort(count, kind="stable").tolist():
        stream, host = distinct[:, place].tolist()
        pid = rows.lines[host].pid
        if pid is not None:
            pids[stream] = pid
    return pids


def _stacks(rows: Rows, work: Work) -> Array:
    """The node of each slice; those that are on no thread get one here: device work below what launched it."""
    node = rows.node
    apart = np.array([line.what != THREAD for line in rows.lines] or [False], bool)[rows.line]
    alone = np.flatnonzero(apart)
    node[alone] = 0
    above = np.zeros(len(node), np.int32)
    source = np.where(work.launch >= 0, work.launch, work.operator)
    above[work.slice] = np.where(source >= 0, node[np.maximum(source, 0)] if len(node) else 0, 0)
    if len(alone):
        node[alone] = rows.tree.below(above[alone], rows.codes.frame[rows.code[alone]])
    return node


def _steps(rows: Rows, zero: int, rank: int | None) -> pa.Table:
    """The table `steps`: what the profiler's schedule counted on the host."""
    steps = np.array([is_step(name) for name in rows.codes.name] or [False], bool)
    steps &= rows.codes.of_kind("annotation") if len(rows.codes.what) else False
    found = np.flatnonzero(steps[rows.code]) if len(rows) else np.zeros(0, np.int64)
    found = found[np.argsort(rows.start_ns[found], kind="stable")]
    return table(
        "steps",
        rank=[rank] * len(found),
        name=[rows.codes.name[code] for code in rows.code[found].tolist()],
        start_ns=rows.start_ns[found] - zero,
        end_ns=rows.stop_ns[found] - zero,
        thread=rows.line[found],
    )


def _meta(events: TraceEvents, zero: int, last: int, defect: str | None) -> Meta:
    facts: dict[str, str] = {}
    for name, value in events.top.items():
        if name not in _TAKEN:
            shown = value if isinstance(value, str) else json.dumps(value)
            facts[name] = shown if len(shown) <= MOST_FACT else shown[:MOST_FACT] + "…"
    base = events.top.get("baseTimeNanoseconds")
    start = zero + (base if isinstance(base, int) and not isinstance(base, bool) else 0)
    return Meta(
        FORMAT,
        duration_ns=last - zero,
        # A clock that was not set tells nothing.
        start_epoch_ns=start if 10**17 < start < 1 << 63 else None,
        complete=defect is None,
        reasons=(defect,) if defect else (),
        facts=facts,
    )
