"""Writes the traces here with Perfetto's own Python classes: pip install perfetto, then run this. Not run in tests."""

import zlib
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos  # type: ignore[import-not-found]

HERE = Path(__file__).parent
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
BOOTTIME, REALTIME, COUNTED = 6, 1, 64
THREAD, OTHER, REQUEST, MEMORY, SPEED = (1 << 63) + 5, 102, 103, 104, 105
START = 10**12


def packet(trace: Any, sequence: int = 7, flags: int = 2, **fields: Any) -> Any:
    """A packet of a sequence."""
    found = trace.packet.add(trusted_packet_sequence_id=sequence, sequence_flags=flags, **fields)
    found.trusted_uid = 1000
    return found


def app() -> Any:
    """What the SDK writes: threads, an asynchronous track, counters, names by number, a clock that counts in µs."""
    trace = protos.Trace()
    first = packet(trace, flags=1)
    for clock, time, unit, counts in ((BOOTTIME, START, 1, False), (REALTIME, 17 * 10**17, 1, False)):
        first.clock_snapshot.clocks.add(clock_id=clock, timestamp=time)
    first.clock_snapshot.clocks.add(
        clock_id=COUNTED, timestamp=START // 1000, unit_multiplier_ns=1000, is_incremental=True
    )
    first.trace_packet_defaults.timestamp_clock_id = COUNTED
    first.trace_packet_defaults.track_event_defaults.track_uuid = THREAD
    for uuid, name, tid in ((THREAD, "main", 41), (OTHER, "loader", 42)):
        one = packet(trace).track_descriptor
        one.uuid, one.parent_uuid = uuid, 101
        one.thread.pid, one.thread.tid, one.thread.thread_name = 41, tid, name
    one = packet(trace).track_descriptor
    one.uuid, one.process.pid, one.process.process_name = 101, 41, "viewer"
    packet(trace).track_descriptor.MergeFrom(protos.TrackDescriptor(uuid=REQUEST, parent_uuid=101, name="requests"))
    for uuid, name in ((MEMORY, "memory"), (SPEED, "speed")):
        one = packet(trace).track_descriptor
        one.uuid, one.parent_uuid, one.name = uuid, 101, name
        one.counter.unit = 3 if uuid == MEMORY else 0
        one.counter.is_incremental = uuid == MEMORY
    # 10 µs later: names by number, and arguments of every sort.
    one = packet(trace, timestamp=10)
    one.interned_data.event_names.add(iid=1, name="draw")
    one.interned_data.event_categories.add(iid=1, name="gfx")
    one.interned_data.debug_annotation_names.add(iid=1, name="frame")
    one.interned_data.debug_annotation_string_values.add(iid=1, str=b"first")
    one.interned_data.source_locations.add(iid=1, file_name="view.cc", function_name="Draw")
    event = one.track_event
    event.type, event.name_iid, event.source_location_iid = BEGIN, 1, 1
    event.category_iids.append(1)
    event.flow_ids.append(900)
    event.debug_annotations.add(name_iid=1, uint_value=3)
    event.debug_annotations.add(name="half", double_value=0.5)
    event.debug_annotations.add(name="word", string_value_iid=1)
    event.debug_annotations.add(name="at", pointer_value=255)
    event.debug_annotations.add(name="less", int_value=-4)
    event.debug_annotations.add(name="good", bool_value=True)
    nested = event.debug_annotations.add(name="size")
    nested.dict_entries.add(name="w", int_value=640)
    nested.dict_entries.add(name="tags").array_values.add(string_value="a")
    # 5 µs later an inner one, by its name; it ends after 20 µs, the outer one after another 5.
    event = packet(trace, timestamp=5).track_event
    event.type, event.name = BEGIN, "layout"
    event.categories.append("gfx")
    packet(trace, timestamp=20).track_event.type = END
    packet(trace, timestamp=5).track_event.type = END
    # Packed: the other thread, at times of the trace's clock, and a request that overlaps another.
    inner = protos.Trace()
    at: dict[str, Any] = {"timestamp_clock_id": BOOTTIME, "flags": 0}
    for time, uuid, kind, name in (
        (12_000, OTHER, BEGIN, "load"),
        (30_000, OTHER, END, ""),
        (15_000, REQUEST, BEGIN, "GET /"),
        (25_000, REQUEST, END, ""),
        (31_000, OTHER, INSTANT, "loaded"),
    ):
        event = packet(inner, timestamp=START + time, **at).track_event
        event.track_uuid, event.type = uuid, kind
        if name:
            event.name = name
        if name == "load":
            event.terminating_flow_ids.append(900)
    trace.packet.add().compressed_packets = zlib.compress(inner.SerializeToString())
    for time, uuid, value in ((11_000, MEMORY, 1024), (21_000, MEMORY, 512), (20_000, SPEED, 0.25)):
        event = packet(trace, timestamp=START + time, **at).track_event
        event.track_uuid, event.type = uuid, COUNTER
        if uuid == MEMORY:
            event.counter_value = value
        else:
            event.double_counter_value = value
    # Packets that refer to undefined interned names, and packets that are not used.
    lost = packet(trace, sequence=8, timestamp=START).track_event
    lost.type, lost.name_iid, lost.track_uuid = BEGIN, 1, THREAD
    packet(trace, timestamp=START, timestamp_clock_id=BOOTTIME).battery.current_ua = 1
    sampled(trace)
    return trace


def sampled(trace: Any) -> None:
    """Samples of a CPU: two with a stack, one whose stack is not there, one that was skipped."""
    one = packet(trace, flags=0)
    interned = one.interned_data
    for iid, text in ((1, b"main"), (2, b"load_all"), (3, b"do_syscall_64")):
        interned.function_names.add(iid=iid, str=text)
    for iid, text in ((1, b"system"), (2, b"libapp.so"), (3, b"[kernel.kallsyms]")):
        interned.mapping_paths.add(iid=iid, str=text)
    interned.mappings.add(iid=1, path_string_ids=[1, 2])
    interned.mappings.add(iid=2, path_string_ids=[3])
    for iid, mapping in ((1, 1), (2, 1), (3, 2)):
        interned.frames.add(iid=iid, function_name_id=iid, mapping_id=mapping, rel_pc=16 * iid)
    interned.callstacks.add(iid=1, frame_ids=[1, 2, 3])
    for time, stack, skipped in ((13_000, 1, 0), (14_000, 1, 0), (15_000, 9, 0), (16_000, 0, 1)):
        sample = packet(trace, timestamp=START + time, timestamp_clock_id=BOOTTIME).perf_sample
        sample.cpu, sample.pid, sample.tid = 1, 41, 42
        if skipped:
            sample.sample_skipped_reason = skipped
        else:
            sample.callstack_iid = stack


def kernel() -> Any:
    """What a phone's kernel writes: switches and wakeups, one by one and in columns, and a program's marks."""
    trace = protos.Trace()
    tree = packet(trace, flags=0).process_tree
    tree.processes.add(pid=50, cmdline=["com.app"])
    tree.threads.add(tid=51, tgid=50, name="render")
    bundle = packet(trace, flags=0).ftrace_events
    bundle.cpu = 0

    def switch(time: int, before: tuple[int, str, int], after: tuple[int, str]) -> None:
        one = bundle.event.add(timestamp=START + time, pid=before[0]).sched_switch
        one.prev_pid, one.prev_comm, one.prev_state = before
        one.next_pid, one.next_comm = after

    switch(1_000, (0, "swapper", 0), (50, "com.app"))
    # Runs 4 µs, is preempted by the other, which sleeps after 3.
    switch(5_000, (50, "com.app", 256), (51, "render"))
    switch(8_000, (51, "render", 1), (50, "com.app"))
    bundle.event.add(timestamp=START + 9_000, pid=50).sched_waking.pid = 51
    for time, text in ((8_500, "B|50|frame"), (9_500, "E|50"), (9_600, "C|50|queue|2"), (9_700, "hello")):
        one = bundle.event.add(timestamp=START + time, pid=50)
        one.print.buf = text + "\n"
    bundle.event.add(timestamp=START + 9_800, pid=50).cpu_frequency.MergeFrom(
        protos.CpuFrequencyFtraceEvent(state=1_800_000, cpu_id=0)
    )
    bundle.event.add(timestamp=START + 9_900, pid=50).sched_blocked_reason.pid = 51
    switch(10_000, (50, "com.app", 2), (0, "swapper"))
    columns = packet(trace, flags=0).ftrace_events
    columns.cpu = 1
    compact = columns.compact_sched
    compact.intern_table.extend(["render", "swapper"])
    compact.switch_timestamp.extend([START + 11_000, 6_000])
    compact.switch_prev_state.extend([0, 1])
    compact.switch_next_pid.extend([51, 0])
    compact.switch_next_prio.extend([120, 120])
    compact.switch_next_comm_index.extend([0, 1])
    compact.waking_timestamp.append(START + 16_000)
    compact.waking_pid.append(50)
    return trace


if __name__ == "__main__":
    for name, made in (("app", app()), ("kernel", kernel())):
        (HERE / f"{name}.pftrace").write_bytes(made.SerializeToString())
