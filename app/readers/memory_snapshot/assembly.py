"""Builds a Profile from a snapshot: allocations, segments, curves, failures, and samples of block sizes."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ...domain.arrays import MISSING, Array
from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.memory import (
    ACTIVE,
    ALLOCATED,
    INACTIVE_SPLIT,
    INACTIVE_SPLIT_BLOCKS,
    LARGEST_FREE,
    OUT_OF_MEMORY,
    RESERVED,
    RETRY,
    ROUNDING,
    AllocationColumns,
    MemoryDevice,
    add_samples,
    find_peak,
)
from ...domain.meta import PYTORCH_PROFILE
from ...domain.profile import Meta, Profile
from ...domain.tables import NO_ID, SCHEMAS
from ...ingest.trace.allocator import (
    OOM,
    SNAPSHOT,
    AllocatorBlocks,
    AllocatorHistory,
    AllocatorState,
    Segment,
    compute_active_curve,
    compute_blocks,
    compute_curve,
    compute_fragmentation,
    compute_segments,
    find_retries,
)
from ...ingest.trace.tables import build_table, to_nullable
from . import pickle_machine as machine
from .format import ANNOTATIONS, FORMAT
from .pickle_tape import Tape
from .rows import DeviceEvents, SegmentBlocks, extract_snapshot
from .stacks import Stacks

CUT_OFF = "The file is truncated: the snapshot is incomplete."
CATEGORY = "allocator"
MAX_FACT_CHARS = 1000
KEYS = ("segments", "device_traces", "allocator_settings", "external_annotations")


def build_profile(tape: Tape, source: str, defect: str | None) -> Profile:
    """The profile of a tape. defect: of the file, as a sentence. Raises UnreadableInput."""
    segments, traces, settings, annotations = _find_parts(tape, source)
    snapshot = extract_snapshot(tape, segments, traces)
    if not snapshot.events and not snapshot.held:
        raise UnreadableInput(
            f"{source} is a memory snapshot without data: no device has events or segments. Call "
            "torch.cuda.memory._record_memory_history() before the part to record, and _dump_snapshot() after it."
        )
    builder = ProfileBuilder(FORMAT)
    builder.add_run()
    stacks = Stacks(tape, snapshot.lists(), builder, snapshot.add_loss)
    tables = _TableBuilder(builder, snapshot.timed)
    for device in sorted({*snapshot.events, *snapshot.held}):
        tables.device(device, snapshot.events.get(device), snapshot.held.get(device), stacks)
    if annotations >= 0 and (count := len(tape.get_members(annotations))):
        snapshot.add_loss(ANNOTATIONS, count, "the first of them")
    for reason, (count, example) in {**snapshot.lost, **tables.lost}.items():
        builder.add_loss(reason, example, count)
    reasons = [reason for reason in (defect, None if tape.complete or defect else CUT_OFF) if reason]
    meta = Meta(
        FORMAT,
        capabilities=(PYTORCH_PROFILE,),
        duration_ns=tables.last_ns if snapshot.timed and tables.last_ns else None,
        start_epoch_ns=snapshot.first_ns if snapshot.timed and snapshot.first_ns > 10**17 else None,
        complete=not reasons,
        reasons=tuple(reasons),
        facts=_read_facts(tape, settings),
    )
    return tables.profile(meta, tape.get_words())


def _find_parts(tape: Tape, source: str) -> tuple[int, int, int, int]:
    """The parts of a snapshot on the tape, -1 for missing ones."""
    root = -1 if tape.root is None else tape.root
    if root >= 0 and tape.kind[root] == machine.DICT:
        found = tape.get_dict_values(np.array([root]), KEYS)
        parts = [int(found[key][0]) for key in KEYS]
        if parts[0] >= 0 or parts[1] >= 0:
            return parts[0], parts[1], parts[2], parts[3]
    elif root >= 0 and tape.kind[root] == machine.LIST:
        # torch.cuda.memory_snapshot() returns only the segments.
        first = tape.get_members(root)[:1].astype(np.int64)
        if len(first) and tape.get_dict_values(first, ("blocks",))["blocks"][0] >= 0:
            return root, -1, -1, -1
    raise UnreadableInput(
        f"{source} is a pickle, but not a memory snapshot: it has no segments and no device_traces. Write it with "
        "torch.cuda.memory._dump_snapshot."
    )


def _read_facts(tape: Tape, settings: int) -> dict[str, str]:
    """The settings of the allocator."""
    members = tape.get_members(settings) if settings >= 0 else np.zeros(0, np.int64)
    words = tape.get_words()
    facts = {}
    for key, value in zip(members[::2].tolist(), members[1::2].tolist(), strict=False):
        name, kind = tape.code_of(np.array([key]))[0], int(tape.kind[value])
        if name < 0 or kind in (machine.LIST, machine.TUPLE, machine.DICT):
            continue
        if kind == machine.TEXT:
            word = words[int(tape.code_of(np.array([value]))[0])]
        elif kind == machine.FLOAT:
            word = f"{float(np.array([tape.value[value]]).view(np.float64)[0]):g}"
        elif kind in (machine.TRUE, machine.FALSE):
            word = "true" if kind == machine.TRUE else "false"
        else:
            word = str(int(tape.value[value])) if kind == machine.INT else ""
        if word:
            facts[f"allocator: {words[int(name)][:MAX_FACT_CHARS]}"] = word[:MAX_FACT_CHARS]
    return facts


class _TableBuilder:
    """The tables of a snapshot, device by device. lost: as `Snapshot.lost`. last_ns: of the last event of all."""

    def __init__(self, builder: ProfileBuilder, timed: bool) -> None:
        self.lost: dict[str, tuple[int, str]] = {}
        self.last_ns = 0
        self._builder = builder
        self._timed = timed
        self._devices: list[int] = []
        self._series: list[tuple[str, str, int]] = []
        self._counters: list[tuple[Array, Array]] = []
        self._blocks: list[tuple[AllocatorBlocks, Array]] = []
        self._segments: list[tuple[int, Segment]] = []
        self._instants: list[tuple[int, int, str, str]] = []
        self._threads: list[int] = []

    def device(self, number: int, events: DeviceEvents | None, held: SegmentBlocks | None, stacks: Stacks) -> None:
        """Add a device."""
        none = np.zeros(0, np.int64)
        history = events.history(stacks) if events else AllocatorHistory(none, none, none, none, none, none)
        state = held.state(stacks) if held else None
        last = int(history.time_ns[-1]) if len(history.time_ns) else 0
        place = len(self._devices)
        self._devices.append(number)
        thread = self._builder.intern_thread(tid=number, kind="track")
        self._builder.set_thread_name(thread, 0, f"GPU {number}")
        self._threads.append(thread)
        self.last_ns = max(self.last_ns, last)
        blocks = compute_blocks(history, state, last)
        for reason, (count, address) in blocks.lost.items():
            before, example = self.lost.get(reason, (0, f"device {number}, address 0x{address & (1 << 64) - 1:x}"))
            self.lost[reason] = before + count, example
        word = np.full(len(blocks.alloc_event), -1)
        if events:
            word = np.where(blocks.alloc_event >= 0, events.word[blocks.alloc_event], -1)
        self._blocks.append((blocks, word))
        segments = compute_segments(history, state)
        self._segments += [(place, segment) for segment in segments]
        self._add_curves(place, history, state, blocks, segments, last)
        self._note(place, history)

    def _add_curves(
        self,
        place: int,
        history: AllocatorHistory,
        state: AllocatorState | None,
        blocks: AllocatorBlocks,
        segments: list[Segment],
        last: int,
    ) -> None:
        began = int(history.time_ns[0]) if len(history.time_ns) else 0
        self._add(ALLOCATED, "bytes", place, *compute_curve(blocks.start_ns, blocks.end_ns, blocks.bytes, began))
        starts, ends = (
            np.array([MISSING if time is None else time for time in times], np.int64)
            for times in ([segment.start_ns for segment in segments], [segment.end_ns for segment in segments])
        )
        size = np.array([segment.size for segment in segments], np.int64)
        if len(size):
            self._add(RESERVED, "bytes", place, *compute_curve(starts, ends, size, began))
        if state is None:
            return
        self._add(ACTIVE, "bytes", place, *compute_active_curve(history, state, began))
        fragmentation = compute_fragmentation(state)
        for name, unit, value in (
            (LARGEST_FREE, "bytes", fragmentation.largest_free),
            (INACTIVE_SPLIT, "bytes", fragmentation.inactive_split),
            (INACTIVE_SPLIT_BLOCKS, "count", fragmentation.inactive_split_blocks),
            (ROUNDING, "bytes", fragmentation.rounding),
        ):
            self._add(name, unit, place, np.array([last]), np.array([value]))

    def _add(self, name: str, unit: str, place: int, time_ns: Array, value: Array) -> None:
        self._series.append((name, unit, place))
        self._counters.append((time_ns, value))

    def _note(self, place: int, history: AllocatorHistory) -> None:
        """Failures, and the times of snapshots."""
        number = self._devices[place]
        for name, rows in (
            (RETRY, find_retries(history)),
            (OUT_OF_MEMORY, history.select(OOM)),
            ("snapshot", history.select(SNAPSHOT)),
        ):
            for row in rows.tolist():
                arguments = {"device": number}
                if name != "snapshot":
                    arguments["bytes"] = int(history.size[row])
                if name == OUT_OF_MEMORY:
                    arguments["device_free_bytes"] = int(history.address[row])
                self._instants.append((int(history.time_ns[row]), place, name, json.dumps(arguments)))

    def profile(self, meta: Meta, words: list[str]) -> Profile:
        """The finished profile. words: the texts that `DeviceEvents.word` refers to."""
        builder = self._builder
        count = len(self._devices)
        each = [len(blocks.bytes) for blocks, _ in self._blocks]
        start, end, size, address, stack = (
            np.concatenate([getattr(blocks, name) for blocks, _ in self._blocks])
            for name in ("start_ns", "end_ns", "bytes", "address", "stack")
        )
        device = np.repeat(np.arange(count), each)
        thread = np.array(self._threads, np.int64)[device]
        peaks = {at: find_peak(*self._counters[n]) for n, (name, _, at) in enumerate(self._series) if name == ALLOCATED}
        devices = {at: MemoryDevice("gpu", peaks[at], self._threads[at]) for at in range(count)}
        names = add_samples(builder, AllocationColumns(start, end, size, device, thread, stack), devices, 0)
        functions = [builder.intern_function(name) for _, _, name, _ in self._instants]
        profile, place = builder.finish_with_stack_rows(replace(meta, main_event=names[0] if names else None), 0)
        order = np.argsort(start, kind="stable")
        said = np.concatenate([words for _, words in self._blocks])[order]
        allocations = build_table(
            "allocations",
            start_ns=to_nullable(start[order]),
            end_ns=to_nullable(end[order]),
            bytes=size[order],
            device=device[order],
            address=address[order],
            thread=thread[order],
            slice=np.full(len(order), NO_ID),
            end_slice=np.full(len(order), NO_ID),
            stack=place[stack[order]],
            category=pa.array(words, pa.string()).take(pa.array(said, mask=said < 0)),
        )
        moments, arguments, category_rows = self._add_instants(functions)
        return replace(
            profile,
            devices=build_table(
                "devices",
                **{name: [None] * count for name in SCHEMAS["devices"].names}
                | {"kind": ["gpu"] * count, "device": self._devices},
            ),
            series=build_table(
                "series",
                name=[name for name, _, _ in self._series],
                unit=[unit for _, unit, _ in self._series],
                rank=[None] * len(self._series),
                pid=[None] * len(self._series),
                process=[None] * len(self._series),
                device=[at for _, _, at in self._series],
            ),
            counters=build_table(
                "counters",
                series=np.repeat(np.arange(len(self._series)), [len(times) for times, _ in self._counters]),
                time_ns=np.concatenate([times for times, _ in self._counters]),
                value=np.concatenate([value for _, value in self._counters]).astype(np.float64),
            ),
            allocations=allocations,
            segments=self._build_segment_table(place),
            instants=moments,
            argument_sets=arguments,
            categories=category_rows,
        )

    def _build_segment_table(self, place: Array) -> pa.Table:
        rows = [row for _, row in self._segments]
        return build_table(
            "segments",
            start_ns=[row.start_ns for row in rows],
            end_ns=[row.end_ns for row in rows],
            bytes=[row.size for row in rows],
            device=[at for at, _ in self._segments],
            address=[row.address for row in rows],
            stream=[row.stream for row in rows],
            kind=[row.kind for row in rows],
            stack=place[np.array([row.stack for row in rows], np.int64)],
        )

    def _add_instants(self, functions: list[int]) -> tuple[pa.Table, pa.Table, pa.Table]:
        """The tables of instants."""
        order = sorted(range(len(self._instants)), key=lambda n: self._instants[n][0])
        texts = list(dict.fromkeys(text for _, _, _, text in self._instants))
        instants = build_table(
            "instants",
            time_ns=[self._instants[n][0] for n in order],
            thread=[self._threads[self._instants[n][1]] for n in order],
            function=[functions[n] for n in order],
            category=[0] * len(order),
            arguments=[texts.index(self._instants[n][3]) for n in order],
        )
        none = [None] * len(texts)
        arguments = build_table(
            "argument_sets", text=texts, shapes=none, types=none, strides=none, values=none, call_stack=none
        )
        categories = build_table("categories", name=[CATEGORY][: len(order)], kind=["other"][: len(order)])
        return instants, arguments, categories
