"""A profile put together from the events of a trace: of PyTorch's profiler, or of whatever writes such events."""

import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ...domain.arrays import Array
from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.losses import NO_LAUNCH, PHASE
from ...domain.memory import called
from ...domain.profile import Meta, Profile
from ...domain.tables import DEVICE_TIME, HOST_TIME, FlowKind, column, texts
from .. import endings
from ..trace_json.documents import CUT_OFF
from .arguments import ArgumentSets
from .device import DeviceTables, Work, device_tables, is_launch, joined, processes
from .events import MISSING, TraceEvents
from .lines import STREAM, THREAD
from .memory import add_memory, memory_events, told
from .moments import Series, add_counters, arrows_of, ends_of_arrows, flows_table, instants_of
from .phases import COUNTER, INSTANT, Phases
from .pytorch_names import ARGUMENTS, is_step
from .pytorch_recorder import WORD, number, recorded
from .samples import samples_table
from .slices import Meaning, Rows, described, possible, slices_of
from .tables import categories_table, numbers_table, slices_table, table
from .words import whole

BACKWARD_FLOWS = ("fwdbwd", "forward_backward")
NUMBERS = ("bytes", "Bytes", "Addr", "Total Allocated", "Total Reserved", "Sequence number")
"""The numbers that are looked at once those of slices are in their table, and work has found what launched it."""
NAMED = re.compile(r"thread (-?\d+) \((.+)\)", re.DOTALL)
"""How Kineto names a thread of the host: by its number, which stands beside the name here, and its own name."""
MOST_FACT = 20_000
NO_PHASE = "event that does not say what it is"
_TAKEN = frozenset({"deviceProperties", "traceEvents", WORD})


@dataclass(frozen=True)
class Dialect:
    """What a format makes of trace events. nothing: why a file has none, and what to do then: the end of a sentence
    and another. facts: what else is to be told of the file, behind what stands beside its events. more: adds what
    else was sampled, at times that count from the profile's zero, which it is given. span: when that begins and
    ends, in the file's own time."""

    format: str
    meaning: Meaning
    nothing: str
    facts: Mapping[str, str] = field(default_factory=dict)
    more: Callable[[ProfileBuilder, int], None] | None = None
    span: tuple[int, int] | None = None


class TraceBuilder(ProfileBuilder):
    """A builder whose samples are put in order together with those of slices."""

    def __init__(self, format: str) -> None:
        super().__init__(format)
        self.parts: list[tuple[Array, ...]] = []

    def samples(self, time_ns: Any, thread: Any, cpu: Any, event: Any, stack: Any, weight: Any) -> None:
        """Add many samples, as the other builder."""
        self.parts.append((time_ns, thread, cpu, event, stack, weight))


def assembled(events: TraceEvents, source: str, defect: str | None, dialect: Dialect) -> Profile:
    """The profile of these events. source: names the file in messages. defect: what is wrong with the file itself.

    Raises UnreadableInput where there is no event at all. Give the events away: they are let go when they are not
    needed any more, as everything here that is large.
    """
    if not len(events) and events.lost and dialect.span is None:
        said = "; ".join(
            f"{reason} ({count:,} times, the first at {first})" for reason, count, first in events.lost[:3]
        )
        raise UnreadableInput(
            f"There is no event in {source} that can be read: {said}. Export it again, or record again."
        )
    if not len(events) and dialect.span is None:
        raise UnreadableInput(f"There is no event in {source}: {dialect.nothing}")
    builder = TraceBuilder(dialect.format)
    for reason, count, example in events.lost:
        builder.lost(reason, example, count)
    rows = slices_of(events, Phases(events), dialect.meaning, builder)
    del events
    with ThreadPoolExecutor(1) as aside:
        numbers = aside.submit(numbers_table, rows)
        work = joined(rows)
        slice_numbers = numbers.result()
        del numbers
    rows.forget_numbers(NUMBERS)
    outline, nodes, arguments, zero = _outlined(rows, work, builder, defect, dialect)
    rows.forget_events()
    stack = nodes[rows.node]
    stretches, line = rows.stretches.with_more(work.slice, rows), rows.line
    slices = slices_table(rows, zero, stack, arguments.rows(rows.arguments))
    del rows, work
    samples = samples_table(stretches, line, zero, stack, nodes, builder, builder.parts)
    argument_sets = arguments.table(ARGUMENTS)
    return replace(outline, samples=samples, slices=slices, slice_numbers=slice_numbers, argument_sets=argument_sets)


def _outlined(
    rows: Rows, work: Work, builder: TraceBuilder, defect: str | None, dialect: Dialect
) -> tuple[Profile, Array, ArgumentSets, int]:
    """The profile without its largest tables; the row of `stacks` by node; the arguments; and the profile's zero in the
    file's own time."""
    events, phases, top = rows.events, rows.phases, rows.events.top
    rank, host = _rank(top), _text_of(top, "hostname", "host_name")
    if (work.launch < 0).any():
        alone = work.slice[work.launch < 0]
        builder.lost(NO_LAUNCH, described(events, int(rows.event[alone[0]])), len(alone))
    allocator, moments = memory_events(events, possible(events, phases, phases.of(INSTANT), builder))
    moments = moments[np.argsort(events.time_ns[moments], kind="stable")]
    counters = possible(events, phases, phases.of(COUNTER), builder)
    said = told(events, allocator, builder)
    zero, last = _span(rows, events, (moments, counters, said.event), dialect.span)
    arguments = ArgumentSets(events, np.concatenate((rows.arguments, events.arguments[moments])))
    devices = device_tables(rows, work, arguments, top.get("deviceProperties"), rank, said.devices)
    rows.numbers.clear()
    _threads(rows, work, devices, rank, builder, host)
    builder.run(host=host)
    _add_stacks(rows, work)
    if rows.stretches.count:
        builder.event(HOST_TIME, "ns")
    if len(work.slice):
        builder.event(DEVICE_TIME, "ns")
    series = Series.none()
    add_counters(events, counters, zero, rank, series, builder)
    labels = dict(enumerate(called(one) for one in texts(devices.devices, "properties")))
    allocations = add_memory(rows, said, devices.places, labels, zero, rank, series, builder)
    instants = instants_of(rows, moments, dialect.meaning, zero, arguments, builder)
    flows = _flows(rows, builder)
    for letter, count, first in phases.others():
        reason = f"{PHASE}{chr(letter)!r}, which is not shown" if letter else NO_PHASE
        builder.lost(reason, described(events, first), count)
    builder.stacks(rows.tree.parent[1 : rows.tree.nodes] - 1, rows.tree.frame[1 : rows.tree.nodes])
    if dialect.more is not None:
        dialect.more(builder, zero)
    outline, place = builder.outline(_meta(events, zero, last, defect, dialect), zero)
    nodes = place.astype(np.int32)
    of_allocations = allocations.schema.get_field_index("stack")
    series_table, counters_table = series.tables()
    outline = replace(
        outline,
        categories=categories_table(rows, instants.categories),
        instants=instants.table,
        device_work=devices.device_work,
        configurations=devices.configurations,
        devices=devices.devices,
        steps=_steps(rows, zero, rank),
        flows=flows,
        series=series_table,
        counters=counters_table,
        allocations=allocations.set_column(of_allocations, "stack", pa.array(nodes[column(allocations, "stack")])),
    )
    return outline, nodes, arguments, zero


def _flows(rows: Rows, builder: ProfileBuilder) -> pa.Table:
    """The table `flows`. Launches are none: they are joined by number."""
    events, found = rows.events, ends_of_arrows(rows, builder)
    arrows = arrows_of(events, found[~is_launch(events, found)], builder)
    categories = [at for at in np.unique(events.category[arrows.source]).tolist() if at >= 0]
    backward = np.isin(
        events.category[arrows.source], [at for at in categories if events.texts[at].lower() in BACKWARD_FLOWS]
    )
    kinds = np.where(backward, int(FlowKind.FORWARD_BACKWARD), int(FlowKind.OTHER))
    return flows_table(rows, arrows, kinds, rows.number("Sequence number") != MISSING, builder)


def _rank(top: dict[str, Any]) -> int | None:
    info = top.get("distributedInfo")
    rank = number(info.get("rank")) if isinstance(info, dict) else None
    return recorded(top).rank if rank is None else rank


def _text_of(top: dict[str, Any], *names: str) -> str | None:
    return next((str(top[name]) for name in names if isinstance(top.get(name), str) and top[name]), None)


def _span(
    rows: Rows, events: TraceEvents, others: tuple[Array, ...], sampled: tuple[int, int] | None
) -> tuple[int, int]:
    """When the first thing was and when the last was over, in the file's own time."""
    times = [events.time_ns[found] for found in others]
    begun = [int(values.min()) for values in (rows.start_ns, *times) if len(values)]
    ended = [int(values.max()) for values in (rows.stop_ns, *times) if len(values)]
    if sampled is not None:
        begun.append(sampled[0])
        ended.append(sampled[1])
    return (min(begun), max(ended)) if begun else (0, 0)


def _threads(
    rows: Rows, work: Work, devices: DeviceTables, rank: int | None, builder: ProfileBuilder, host: str | None
) -> None:
    """Make the threads, in the order of the lines."""
    hosts = {line.pid for line in rows.lines if line.what == THREAD} - {None}
    only = hosts.pop() if len(hosts) == 1 else None
    pids = [rows.events.texts[at] if at >= 0 else None for at in processes(rows, work.slice, work.launch).tolist()]
    several = len({device for device, _ in devices.of_line.values() if device is not None}) > 1
    for at, line in enumerate(rows.lines):
        pid, tid, name = line.pid, line.tid, line.name
        if line.what == STREAM:
            device, stream = devices.of_line.get(at, (None, None))
            tid = tid if stream is None else stream
            pid = next((number for number in (whole(pids[at]), only, pid) if number is not None), None)
            name = name or (f"stream {tid}" if tid is not None else line.thread)
            if several and device is not None:
                name = f"GPU {device} {name}"
        elif (told := NAMED.fullmatch(name or "")) and whole(told[1]) == tid:
            name = told[2]
        kind = ("thread", "gpu_stream", "track")[line.what]
        thread = builder.thread(pid=pid, tid=tid, rank=rank, host=host, kind=kind, incarnation=at)
        name = name or (f"thread {tid}" if tid is not None else line.thread)
        if name:
            builder.named(thread, 0, name)
        process = line.process_name or (line.process if line.pid is None else None)
        if process:
            builder.process(thread, process)


def _add_stacks(rows: Rows, work: Work) -> None:
    """Give those slices a call stack that are on no thread: device work below what launched it."""
    node = rows.node
    alone = np.flatnonzero(
        np.repeat(np.array([line.what != THREAD for line in rows.lines], bool), np.diff(rows.bounds))
    )
    node[alone] = 0
    above = np.zeros(len(node), np.int32)
    source = np.where(work.launch >= 0, work.launch, work.operator)
    above[work.slice] = np.where(source >= 0, node[source], 0)
    # Where the operator is another one than the call lies in, that one is not what launched it.
    inside = (work.operator <= work.launch) & (work.launch < rows.end[work.operator])
    other = np.flatnonzero((work.launch >= 0) & (work.operator >= 0) & ~inside)
    frame = rows.codes.frame[rows.code[work.launch[other]]]
    above[work.slice[other]] = rows.tree.below(node[work.operator[other]], frame)
    if len(alone):
        node[alone] = rows.tree.below(above[alone], rows.codes.frame[rows.code[alone]])


def _steps(rows: Rows, zero: int, rank: int | None) -> pa.Table:
    """The table `steps`: what the profiler's schedule counted on the host, but for one that was cut short."""
    said = recorded(rows.events.top)
    steps = np.array([is_step(name) and not said.cut_short(name) for name in rows.codes.name] or [False], bool)
    steps &= rows.codes.of_kind("annotation")
    found = np.flatnonzero(steps[rows.code])
    found = found[np.argsort(rows.start_ns[found], kind="stable")]
    return table(
        "steps",
        rank=[rank] * len(found),
        name=[rows.codes.name[code] for code in rows.code[found].tolist()],
        start_ns=rows.start_ns[found] - zero,
        end_ns=rows.stop_ns[found] - zero,
        thread=rows.line[found],
    )


def _meta(events: TraceEvents, zero: int, last: int, defect: str | None, dialect: Dialect) -> Meta:
    facts: dict[str, str] = {}
    for name, value in events.top.items():
        if name not in _TAKEN:
            shown = value if isinstance(value, str) else json.dumps(value)
            facts[name] = shown if len(shown) <= MOST_FACT else shown[:MOST_FACT] + "…"
    said = recorded(events.top)
    facts |= {WORD: said.fact} if said.fact else {}
    cut = next((endings.UNENDED_JSON for reason, _, _ in events.lost if reason == CUT_OFF), None)
    reasons = tuple(filter(None, (defect or cut, said.reason)))
    base = events.top.get("baseTimeNanoseconds")
    start = zero + (base if isinstance(base, int) and not isinstance(base, bool) else 0)
    return Meta(
        dialect.format,
        duration_ns=last - zero,
        # A clock that was not set tells nothing.
        start_epoch_ns=start if 10**17 < start < 1 << 63 else None,
        complete=not reasons,
        reasons=reasons,
        facts=facts | dict(dialect.facts),
    )
