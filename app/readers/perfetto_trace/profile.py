"""Builds a Profile from the bytes of a Perfetto trace."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...domain.arrays import MISSING
from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.losses import PACKET
from ...domain.profile import Meta, Profile
from ...ingest.trace.atrace import AtraceMarkers
from ...ingest.trace.event_builder import TraceEventBuilder
from ...ingest.trace.profile import Dialect
from ...ingest.trace.profile import build_profile as of_events
from ...ingest.trace.scheduler import SchedulerTimeline
from ...ingest.trace.scheduler import classify as of_scheduling
from ...ingest.trace.slices import PLAIN_SLICE, SliceClassifier
from .clocks import compute_times, read_clocks
from .events import TrackEvents
from .format import FORMAT
from .kernel import KernelEvents
from .packets import CUT_OFF, Packets, read_packets
from .samples import CpuSamples
from .tracks import TrackNames, read_names

EMPTY_ADVICE = "Record again with data sources that have times: track_event, or linux.ftrace with sched/sched_switch."
UNSUPPORTED_PACKETS = {
    4: "inode_file_map",
    5: "chrome_events",
    7: "sys_stats",
    9: "process_stats",
    37: "profile_packet",
    38: "battery",
    39: "android_log",
    40: "power_rails",
    43: "process_descriptor",
    49: "perfetto_metatrace",
    51: "chrome_metadata",
    52: "gpu_counter_event",
    53: "gpu_render_stage_event",
    54: "streaming_profile_packet",
    57: "graphics_frame_event",
    61: "module_symbols",
    62: "vulkan_memory_event",
    65: "vulkan_api_event",
    68: "smaps_packet",
    71: "gpu_mem_total_event",
    73: "memory_tracker_snapshot",
    74: "streaming_allocation",
    75: "streaming_free",
    84: "statsd_atom",
    95: "etw_events",
    135: "stack_sample",
}
"""Packets that are not used, by the name of their field."""
METADATA_PACKETS = frozenset(
    {3, 33, 34, 35, 36, 46, 47, 67, 69, 70, 72, 78, 79, 82, 86, 87, 89, 90, 98, 109, 113, 123, 124, 126}
)
"""Fields that describe the recording and the machine."""


class _TraceLosses:
    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def note(self, reason: str, example: str, count: int) -> None:
        before, first = self._found.get(reason, (0, example))
        self._found[reason] = (before + count, first)

    def to_list(self) -> list[tuple[str, int, str]]:
        return [(reason, count, first) for reason, (count, first) in self._found.items()]


def build_profile(data: bytes, source: str, defect: str | None) -> Profile:
    """The profile of a trace. Raises UnreadableInput if it has nothing to show."""
    losses = _TraceLosses()
    packets, is_complete = read_packets(data, losses.note)
    del data
    clocks = read_clocks(packets)
    times = compute_times(packets, clocks, losses.note)
    names = read_names(packets, losses.note)
    trace_event_builder = TraceEventBuilder()
    scheduling = SchedulerTimeline(comms=dict(names.threads), processes=names.process_of_thread)
    markers = AtraceMarkers(trace_event_builder, names.process_of_thread)
    kernel = KernelEvents(packets, names, trace_event_builder, scheduling, markers, losses.note)
    kernel.add()
    markers.finish(scheduling.get_process)
    TrackEvents(packets, names, times, trace_event_builder, losses.note).add()
    samples = CpuSamples(packets, names, times, losses.note)
    states: Callable[[ProfileBuilder, int], None] | None = None
    if scheduling:
        known = times[times != MISSING]
        last = max(kernel.last_ns, int(known.max()) if len(known) and not kernel.last_ns else 0)
        states = scheduling.add_slices(trace_event_builder, last, losses.note)
    _tell_names(trace_event_builder, names, scheduling, markers)
    _tell_others(packets, losses)
    if not trace_event_builder.has_timed_events() and len(samples):
        return _build_sampled(samples, names, losses, defect or (None if is_complete else CUT_OFF))
    if not trace_event_builder.has_timed_events():
        raise UnreadableInput(f"{source} has no data that Perfloom shows. {EMPTY_ADVICE}")

    more_samples = samples.add if len(samples) else None
    # They are many, and not needed any more.
    del packets, kernel, times, samples

    def more(builder: ProfileBuilder, zero: int) -> None:
        if states is not None:
            states(builder, zero)
        if more_samples is not None:
            more_samples(builder, zero)

    dialect = Dialect(
        FORMAT,
        SliceClassifier(lambda category, name: of_scheduling(category, name) or PLAIN_SLICE),
        EMPTY_ADVICE,
        names.facts,
        more,
    )
    top: dict[str, Any] = {} if clocks.epoch is None else {"baseTimeNanoseconds": clocks.epoch}
    events = trace_event_builder.finish(losses.to_list(), **top)
    return of_events(events, source, defect or (None if is_complete else CUT_OFF), dialect)


def _build_sampled(samples: CpuSamples, names: TrackNames, losses: _TraceLosses, defect: str | None) -> Profile:
    """The profile of a trace that has only samples."""
    builder = ProfileBuilder(FORMAT)
    for reason, count, first in losses.to_list():
        builder.add_loss(reason, first, count)
    samples.add(builder, 0)
    builder.add_run()
    reasons = (defect,) if defect else ()
    return builder.finish(Meta(FORMAT, complete=not reasons, reasons=reasons, facts=names.facts))


def _tell_names(
    trace_event_builder: TraceEventBuilder, names: TrackNames, scheduling: SchedulerTimeline, markers: AtraceMarkers
) -> None:
    """The names of processes and threads, as metadata."""
    for pid, name in names.processes.items():
        trace_event_builder.add_metadata("process_name", str(pid), str(pid), name=name)
    for tid in {*names.threads, *markers.threads}:
        if thread := names.threads.get(tid) or scheduling.comms.get(tid):
            trace_event_builder.add_metadata("thread_name", str(tid), scheduling.get_process(tid), name=thread)


def _tell_others(packets: Packets, losses: _TraceLosses) -> None:
    """Record unused packets, kind by kind."""
    rows = np.flatnonzero(packets.all.other)
    sorts, first, counts = np.unique(packets.all.other[rows], return_index=True, return_counts=True)
    for sort, at, count in zip(sorts.tolist(), rows[first].tolist(), counts.tolist(), strict=True):
        if sort not in METADATA_PACKETS:
            called = UNSUPPORTED_PACKETS.get(sort)
            name = f"field {sort} ({called})" if called else f"field {sort}"
            losses.note(f"{PACKET}{name}", f"packet {at + 1}", count)
