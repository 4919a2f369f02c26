"""Builds a profile from trace events: of the PyTorch profiler, or another writer."""

import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ...domain.arrays import MISSING, Array, sort_distinct
from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.losses import NO_LAUNCH, UNKNOWN_PHASE
from ...domain.memory import get_device_name
from ...domain.profile import Meta, Profile
from ...domain.tables import DEVICE_TIME, HOST_TIME, FlowKind, get_column, get_strings
from ...domain.text import shorten
from .. import truncation
from .argument_values import to_int
from .arguments import ArgumentSets
from .device import (
    DeviceTables,
    DeviceWork,
    build_device_tables,
    infer_processes,
    is_launch_flow,
    link_launches,
)
from .events import TraceEvents
from .losses import CUT_OFF, NO_PHASE
from .memory import add_memory, read_allocator_events, split_memory_events
from .phases import COUNTER, INSTANT, PhaseIndex
from .point_events import (
    CounterSeries,
    add_counters,
    build_flows_table,
    build_instants,
    find_flow_events,
    match_flows,
)
from .pytorch_names import ARGUMENTS, is_step
from .pytorch_recorder import TOP_LEVEL_KEY, parse_recorder_info, to_count
from .samples import build_samples_table
from .slices import SliceClassifier, SliceTable, build_slices, describe_event, drop_impossible
from .tables import (
    build_categories_table,
    build_slice_numbers_table,
    build_slices_table,
    build_table,
)
from .tracks import STREAM, THREAD

BACKWARD_FLOWS = ("fwdbwd", "forward_backward")
NUMBERS = ("bytes", "Bytes", "Addr", "Total Allocated", "Total Reserved", "Sequence number")
"""The numbers that are checked after those of slices are in their table, and work is joined with its launches."""
KINETO_THREAD_NAME = re.compile(r"thread (-?\d+) \((.+)\)", re.DOTALL)
"""Kineto's name of a host thread: its number, which is next to the name here, and its own name."""
MAX_FACT_CHARS = 20_000
_TAKEN = frozenset({"deviceProperties", "traceEvents", TOP_LEVEL_KEY})


@dataclass(frozen=True)
class Dialect:
    """How a format interprets trace events. empty_advice: why a file has none, and what to do then: the end of a
    sentence and another. facts: further facts of the file, after those next to its events. add_more: adds further
    samples, at times that count from the profile's zero, which it is given. span: when these begin and end, in the
    file's own time. capabilities: as in Meta."""

    format: str
    classifier: SliceClassifier
    empty_advice: str
    facts: Mapping[str, str] = field(default_factory=dict)
    add_more: Callable[[ProfileBuilder, int], None] | None = None
    span: tuple[int, int] | None = None
    capabilities: tuple[str, ...] = ()


class TraceProfileBuilder(ProfileBuilder):
    """A builder that sorts its samples together with those of slices."""

    def __init__(self, format: str) -> None:
        super().__init__(format)
        self.parts: list[tuple[Array, ...]] = []

    def add_samples(self, time_ns: Any, thread: Any, cpu: Any, event: Any, stack: Any, weight: Any) -> None:
        """Add many samples, like the other builder."""
        self.parts.append((time_ns, thread, cpu, event, stack, weight))


def build_profile(events: TraceEvents, source: str, defect: str | None, dialect: Dialect) -> Profile:
    """The profile of these events. source: names the file in messages. defect: what is wrong with the file itself.

    Raises UnreadableInput if there is no event at all. Keep no reference to the events: they, and all other large data,
    are released as soon as they are not needed.
    """
    if not len(events) and events.lost and dialect.span is None:
        said = "; ".join(
            f"{reason} ({count:,} times, the first at {first})" for reason, count, first in events.lost[:3]
        )
        raise UnreadableInput(f"{source} has no readable event: {said}. Export it again, or record again.")
    if not len(events) and dialect.span is None:
        raise UnreadableInput(f"{source} has no event: {dialect.empty_advice}")
    builder = TraceProfileBuilder(dialect.format)
    for reason, count, example in events.lost:
        builder.add_loss(reason, example, count)
    rows = build_slices(events, PhaseIndex(events), dialect.classifier, builder)
    del events
    with ThreadPoolExecutor(1) as aside:
        numbers = aside.submit(build_slice_numbers_table, rows)
        work = link_launches(rows)
        slice_numbers = numbers.result()
        del numbers
    rows.free_numbers(NUMBERS)
    outline, nodes, arguments, zero = _build_outline(rows, work, builder, defect, dialect)
    rows.free_events()
    stack = nodes[rows.node]
    stretches, line = rows.self_times.append_slices(work.slice, rows), rows.track
    slices = build_slices_table(rows, zero, stack, arguments.get_rows(rows.arguments))
    del rows, work
    samples = build_samples_table(stretches, line, zero, stack, nodes, builder, builder.parts)
    argument_sets = arguments.to_table(ARGUMENTS)
    return replace(outline, samples=samples, slices=slices, slice_numbers=slice_numbers, argument_sets=argument_sets)


def _build_outline(
    rows: SliceTable, work: DeviceWork, builder: TraceProfileBuilder, defect: str | None, dialect: Dialect
) -> tuple[Profile, Array, ArgumentSets, int]:
    """The profile without its largest tables; the row of `stacks` by node; the arguments; and the profile's zero in the
    file's own time."""
    events, phases, top = rows.events, rows.phases, rows.events.top
    rank, host = _rank(top), _text_of(top, "hostname", "host_name")
    if (work.launch < 0).any():
        alone = work.slice[work.launch < 0]
        builder.add_loss(NO_LAUNCH, describe_event(events, int(rows.event[alone[0]])), len(alone))
    allocator, moments = split_memory_events(events, drop_impossible(events, phases, phases.select(INSTANT), builder))
    moments = moments[np.argsort(events.time_ns[moments], kind="stable")]
    counters = drop_impossible(events, phases, phases.select(COUNTER), builder)
    allocator_events = read_allocator_events(events, allocator, builder)
    zero, last = _find_span(rows, events, (moments, counters, allocator_events.event), dialect.span)
    arguments = ArgumentSets(events, np.concatenate((rows.arguments, events.arguments[moments])))
    devices = build_device_tables(rows, work, arguments, top.get("deviceProperties"), rank, allocator_events.devices)
    rows.numbers.clear()
    _add_threads(rows, work, devices, rank, builder, host)
    builder.add_run(host=host)
    _add_stacks(rows, work)
    if rows.self_times.count:
        builder.intern_event(HOST_TIME, "ns")
    if len(work.slice):
        builder.intern_event(DEVICE_TIME, "ns")
    series = CounterSeries.make_empty()
    add_counters(events, counters, zero, rank, series, builder)
    labels = dict(enumerate(get_device_name(one) for one in get_strings(devices.devices, "properties")))
    allocations = add_memory(rows, allocator_events, devices.places, labels, zero, rank, series, builder)
    instants = build_instants(rows, moments, dialect.classifier, zero, arguments, builder)
    flows = _build_flows(rows, builder)
    for letter, count, first in phases.iterate_unknown():
        reason = f"{UNKNOWN_PHASE}{chr(letter)!r}, which is not shown" if letter else NO_PHASE
        builder.add_loss(reason, describe_event(events, first), count)
    builder.add_stack_tree(rows.tree.parent[1 : rows.tree.nodes] - 1, rows.tree.frame[1 : rows.tree.nodes])
    if dialect.add_more is not None:
        dialect.add_more(builder, zero)
    outline, place = builder.finish_without_samples(_build_meta(events, zero, last, defect, dialect), zero)
    nodes = place.astype(np.int32)
    of_allocations = allocations.schema.get_field_index("stack")
    series_table, counters_table = series.to_tables()
    outline = replace(
        outline,
        categories=build_categories_table(rows, instants.categories),
        instants=instants.table,
        device_work=devices.device_work,
        configurations=devices.configurations,
        devices=devices.devices,
        steps=_build_steps(rows, zero, rank),
        flows=flows,
        series=series_table,
        counters=counters_table,
        allocations=allocations.set_column(of_allocations, "stack", pa.array(nodes[get_column(allocations, "stack")])),
    )
    return outline, nodes, arguments, zero


def _build_flows(rows: SliceTable, builder: ProfileBuilder) -> pa.Table:
    """The table `flows`, without launches, which are joined by number."""
    events, found = rows.events, find_flow_events(rows, builder)
    arrows = match_flows(events, found[~is_launch_flow(events, found)], builder)
    categories = [at for at in sort_distinct(events.category[arrows.source]).tolist() if at >= 0]
    backward = np.isin(
        events.category[arrows.source], [at for at in categories if events.texts[at].lower() in BACKWARD_FLOWS]
    )
    kinds = np.where(backward, int(FlowKind.FORWARD_BACKWARD), int(FlowKind.OTHER))
    return build_flows_table(rows, arrows, kinds, rows.get_number("Sequence number") != MISSING, builder)


def _rank(top: dict[str, Any]) -> int | None:
    info = top.get("distributedInfo")
    rank = to_count(info.get("rank")) if isinstance(info, dict) else None
    return parse_recorder_info(top).rank if rank is None else rank


def _text_of(top: dict[str, Any], *names: str) -> str | None:
    return next((str(top[name]) for name in names if isinstance(top.get(name), str) and top[name]), None)


def _find_span(
    rows: SliceTable, events: TraceEvents, others: tuple[Array, ...], sampled: tuple[int, int] | None
) -> tuple[int, int]:
    """The earliest start and the latest end, in the file's own time."""
    times = [events.time_ns[found] for found in others]
    begun = [int(values.min()) for values in (rows.start_ns, *times) if len(values)]
    ended = [int(values.max()) for values in (rows.stop_ns, *times) if len(values)]
    if sampled is not None:
        begun.append(sampled[0])
        ended.append(sampled[1])
    return (min(begun), max(ended)) if begun else (0, 0)


def _add_threads(
    rows: SliceTable,
    work: DeviceWork,
    devices: DeviceTables,
    rank: int | None,
    builder: ProfileBuilder,
    host: str | None,
) -> None:
    """Create the threads, in the order of the lines."""
    hosts = {line.pid for line in rows.tracks if line.track_kind == THREAD} - {None}
    only = hosts.pop() if len(hosts) == 1 else None
    pids = [
        rows.events.texts[at] if at >= 0 else None for at in infer_processes(rows, work.slice, work.launch).tolist()
    ]
    several = len({device for device, _ in devices.stream_by_track.values() if device is not None}) > 1
    for at, line in enumerate(rows.tracks):
        pid, tid, name = line.pid, line.tid, line.name
        if line.track_kind == STREAM:
            device, stream = devices.stream_by_track.get(at, (None, None))
            tid = tid if stream is None else stream
            pid = next((number for number in (to_int(pids[at]), only, pid) if number is not None), None)
            name = name or (f"stream {tid}" if tid is not None else line.thread)
            if several and device is not None:
                name = f"GPU {device} {name}"
        elif (match := KINETO_THREAD_NAME.fullmatch(name or "")) and to_int(match[1]) == tid:
            name = match[2]
        kind = ("thread", "gpu_stream", "track")[line.track_kind]
        thread = builder.intern_thread(pid=pid, tid=tid, rank=rank, host=host, kind=kind, incarnation=at)
        name = name or (f"thread {tid}" if tid is not None else line.thread)
        if name:
            builder.set_thread_name(thread, 0, name)
        process = line.process_name or (line.process if line.pid is None else None)
        if process:
            builder.set_process_name(thread, process)


def _add_stacks(rows: SliceTable, work: DeviceWork) -> None:
    """Set the call stacks of slices that are on no thread: device work below its launch."""
    node = rows.node
    alone = np.flatnonzero(
        np.repeat(np.array([line.track_kind != THREAD for line in rows.tracks], bool), np.diff(rows.bounds))
    )
    node[alone] = 0
    above = np.zeros(len(node), np.int32)
    source = np.where(work.launch >= 0, work.launch, work.operator)
    above[work.slice] = np.where(source >= 0, node[source], 0)
    # If the operator differs from the one around the call, the call did not launch the work.
    inside = (work.operator <= work.launch) & (work.launch < rows.end[work.operator])
    other = np.flatnonzero((work.launch >= 0) & (work.operator >= 0) & ~inside)
    frame = rows.codes.frame[rows.code[work.launch[other]]]
    above[work.slice[other]] = rows.tree.add_children(node[work.operator[other]], frame)
    if len(alone):
        node[alone] = rows.tree.add_children(above[alone], rows.codes.frame[rows.code[alone]])


def _build_steps(rows: SliceTable, zero: int, rank: int | None) -> pa.Table:
    """The table `steps`: the steps of the profiler's schedule on the host, except a truncated one."""
    recorder_info = parse_recorder_info(rows.events.top)
    steps = np.array(
        [is_step(name) and not recorder_info.is_incomplete(name) for name in rows.codes.name] or [False], bool
    )
    steps &= rows.codes.is_of_kind("annotation")
    found = np.flatnonzero(steps[rows.code])
    found = found[np.argsort(rows.start_ns[found], kind="stable")]
    return build_table(
        "steps",
        rank=[rank] * len(found),
        name=[rows.codes.name[code] for code in rows.code[found].tolist()],
        start_ns=rows.start_ns[found] - zero,
        end_ns=rows.stop_ns[found] - zero,
        thread=rows.track[found],
    )


def _build_meta(events: TraceEvents, zero: int, last: int, defect: str | None, dialect: Dialect) -> Meta:
    facts: dict[str, str] = {}
    for name, value in events.top.items():
        if name not in _TAKEN:
            shown = value if isinstance(value, str) else json.dumps(value)
            facts[name] = shorten(shown, MAX_FACT_CHARS)
    recorder_info = parse_recorder_info(events.top)
    facts |= {TOP_LEVEL_KEY: recorder_info.fact} if recorder_info.fact else {}
    cut = next((truncation.TRUNCATED_JSON for reason, _, _ in events.lost if reason == CUT_OFF), None)
    reasons = tuple(filter(None, (defect or cut, recorder_info.reason)))
    base = events.top.get("baseTimeNanoseconds")
    start = zero + (base if isinstance(base, int) and not isinstance(base, bool) else 0)
    return Meta(
        dialect.format,
        duration_ns=last - zero,
        # A clock that was not set has no meaning.
        start_epoch_ns=start if 10**17 < start < 1 << 63 else None,
        complete=not reasons,
        reasons=reasons,
        facts=facts | dict(dialect.facts),
        capabilities=dialect.capabilities,
    )
