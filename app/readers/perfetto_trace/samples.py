"""Samples of CPUs in a Perfetto trace (its data source linux.perf), with their call stacks."""

from typing import Any

import numpy as np

from ...domain.arrays import MISSING, Array
from ...domain.builder import ProfileBuilder
from ...domain.tables import FrameKind
from ...ingest.jit.protobuf_columns import read_messages
from ...ingest.number_limits import check_cpus
from ...ingest.perf_text.grammar import classify_frame
from ...ingest.protobuf_wire import MalformedMessage, decode_packed, iterate_fields
from ...ingest.trace.event_builder import NONE
from ...ingest.trace.phases import MAX_TIME_NS
from .format import NO_STACK, SKIPPED
from .interned import InternedStrings
from .packets import SAMPLE, LossCallback, Packets
from .tracks import TrackNames

EVENT = "CPU samples"
FUNCTION_NAMES, FRAMES, STACKS, PATHS, MAPPINGS = 5, 6, 7, 17, 19
"""Fields of InternedData."""
_CPU, _PID, _TID, _STACK, _SKIPPED = 1, 2, 3, 4, 18


class CpuSamples:
    """The samples of packets. times: of the packets."""

    def __init__(self, packets: Packets, names: TrackNames, times: Array, lost: LossCallback) -> None:
        self._packets, self._names = packets, names
        self._texts: dict[str, int] = {}
        rows, spans = packets.all.get_spans(SAMPLE)
        of = read_messages(packets.all.data, spans, (_CPU, _PID, _TID, _STACK, _SKIPPED), (5, 6, 7, 16, 17, 19))
        # Without a thread it is about the profiler itself.
        selected = packets.usable[rows] & of.has(_TID) & (times[rows] != MISSING)
        skipped = np.flatnonzero(selected & (of.get_number(_SKIPPED) != 0))
        if len(skipped):
            lost(SKIPPED, f"packet {int(rows[skipped[0]]) + 1}", len(skipped))
        kept = np.flatnonzero(selected & (of.get_number(_SKIPPED) == 0))
        self._packet, self._time = rows[kept], times[rows[kept]]
        self._cpu = check_cpus(of.get_number(_CPU, NONE)[kept])
        self._pid, self._tid = of.get_number(_PID, NONE)[kept], of.get_number(_TID)[kept]
        self._stack = of.get_number(_STACK, NONE)[kept]

    def __len__(self) -> int:
        return len(self._packet)

    def add(self, builder: ProfileBuilder, zero: int) -> None:
        """Add them, at times that count from zero."""
        time = self._time - zero
        good = np.flatnonzero((time >= 0) & (time < 2 * MAX_TIME_NS)) if zero else np.arange(len(time))
        known = builder.get_threads("thread")
        pairs: dict[tuple[int, int], int] = {}
        threads = []
        for pid, tid in zip(self._pid[good].tolist(), self._tid[good].tolist(), strict=True):
            if (pid, tid) not in pairs:
                pairs[pid, tid] = known[tid] if tid in known else self._intern_thread(builder, pid, tid)
            threads.append(pairs[pid, tid])
        event = builder.intern_event(EVENT, "count", weighted=False)
        same = np.ones(len(good), np.int64)
        stacks = self._intern_stacks(builder, good)
        builder.add_samples(time[good], np.array(threads, np.int64), self._cpu[good], same * event, stacks, same)

    def _intern_thread(self, builder: ProfileBuilder, pid: int, tid: int) -> int:
        thread = builder.intern_thread(pid=pid if pid >= 0 else None, tid=tid)
        name = self._names.threads.get(tid) or f"thread {tid}"
        builder.set_thread_name(thread, 0, name)
        if pid in self._names.processes:
            builder.set_process_name(thread, self._names.processes[pid])
        return thread

    def _intern_stacks(self, builder: ProfileBuilder, good: Array) -> Array:
        """The call stack of each sample."""
        frames, chains = self._intern_frames(builder), self._find_interned_messages(STACKS)
        generation = self._packets.generation[self._packet[good]]
        known: dict[tuple[int, int], int] = {}
        found, missing = [], 0
        for key in zip(generation.tolist(), self._stack[good].tolist(), strict=True):
            if key not in known:
                chain = chains.get(key)
                numbers = _read_numbers(chain, 2) if chain is not None else []
                places_ = [frames[key[0], number] for number in numbers if (key[0], number) in frames]
                known[key] = (
                    builder.intern_stack(places_) if chain is not None and len(places_) == len(numbers) else NONE
                )
            missing += known[key] == NONE
            found.append(max(known[key], 0))
        if missing:
            builder.add_loss(NO_STACK, "reference to an undefined stack", missing)
        return np.array(found, np.int64)

    def _find_interned_messages(self, kind: int) -> dict[tuple[int, int], memoryview]:
        """The messages of one kind, by generation and number."""
        entries = self._packets.interned[kind]
        number = read_messages(self._packets.all.data, entries.spans, (1,)).get_number(1)
        generation = self._packets.generation[entries.row]
        data = memoryview(self._packets.data)
        columns = (generation, number, entries.value, entries.end)
        return {
            (of, iid): data[begin:end]
            for of, iid, begin, end in zip(*(column.tolist() for column in columns), strict=True)
        }

    def _intern_frames(self, builder: ProfileBuilder) -> dict[tuple[int, int], int]:
        """The frames of stacks, by generation and number."""
        names, paths = (
            InternedStrings(self._packets, kind, lambda text: self._texts.setdefault(text, len(self._texts))).table
            for kind in (FUNCTION_NAMES, PATHS)
        )
        texts = list(self._texts)
        modules = {}
        for key, content in self._find_interned_messages(MAPPINGS).items():
            parts = [texts[paths[key[0], one]] for one in _read_numbers(content, 7) if (key[0], one) in paths]
            modules[key] = (
                "/" + "/".join(parts).lstrip("/") if parts and not parts[0].startswith("[") else "".join(parts)
            )
        frames = {}
        for key, content in self._find_interned_messages(FRAMES).items():
            of: dict[int, Any] = {}
            try:
                of = {number: value for number, _, value in iterate_fields(content) if isinstance(value, int)}
            except MalformedMessage:
                pass
            module = modules.get((key[0], of.get(3, 0)), "")
            place = names.get((key[0], of.get(2, 0)))
            symbol = texts[place] if place is not None else ""
            kind = classify_frame(symbol, module) if symbol else FrameKind.UNKNOWN
            line = of.get(6, 0)
            function = builder.intern_function(symbol or "[unknown]", module)
            address = of.get(4, 0) or None
            frames[key] = builder.intern_frame(
                function, kind=kind, address=address, line=line if 0 < line < 1 << 31 else None
            )
        return frames


def _read_numbers(content: memoryview, field: int) -> list[int]:
    """The numbers of a repeated field, packed or not, as far as they can be read."""
    numbers: list[int] = []
    try:
        for number, _, value in iterate_fields(content):
            if number == field:
                numbers += [value] if isinstance(value, int) else decode_packed(value).tolist()
    except MalformedMessage:
        pass
    return numbers
