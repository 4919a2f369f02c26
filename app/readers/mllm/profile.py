"""Builds a Profile from the text of mllm's `perf.json`."""

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...domain.errors import UnreadableInput
from ...domain.profile import Profile
from ...domain.tables import FrameKind
from ...domain.units import NO_BREAK_SPACE, NS_PER_S, TIME_UNITS
from ...domain.units import format_bytes as shown_size
from ...ingest.losses import MAX_EXAMPLE_CHARS
from ...ingest.trace.argument_values import to_int
from ...ingest.trace.event_builder import TraceEventBuilder
from ...ingest.trace.profile import Dialect
from ...ingest.trace.profile import build_profile as of_events
from ...ingest.trace.pytorch_names import MEMORY
from ...ingest.trace.slices import SliceClassifier, SliceType
from .format import BACKWARDS, DUPLICATE_BLOCK, FORMAT, INCOMPLETE_ENTRY, UNKNOWN_PART

HOST = "CPU"
UNITS = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}
EPOCHS_NS = (978_307_200 * NS_PER_S, 4_102_444_800 * NS_PER_S)
"""From 2001 to 2100: no number is a time in this range in two of the units."""
MAX_TIME_NS = 1 << 61
MAX_SIZE = 1 << 60
CUT_OFF = "The file is truncated or damaged; the readable parts were imported."
NEVER_FREED = ", never freed"
"""The suffix of the name of such a block on the timeline."""

_OUTSIDE = re.compile(rb'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_OBJECT = re.compile(rb'\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}')
_LIST = re.compile(rb'"(memory_blobs|op_blobs)"\s*:\s*\[')
_INIT = re.compile(rb'"init_time"\s*:\s*(\d+)')
_WHAT = {"operator": SliceType("operator", FrameKind.OPERATOR), "memory": SliceType("memory", FrameKind.UNKNOWN)}


@dataclass
class _FileContent:
    """The content of a file. complete: whether all of it could be parsed."""

    init: int | None = None
    lists: dict[str, list[Any]] = field(default_factory=dict)
    complete: bool = True
    unknown: list[str] = field(default_factory=list)


def build_profile(text: bytes, source: str, defect: str | None, clock: str) -> Profile:
    """The profile in a text. clock: the unit of its times, if known."""
    found = _parse_lists(text)
    blocks, operators = (found.lists.get(name, []) for name in ("memory_blobs", "op_blobs"))
    if not blocks and not operators:
        raise UnreadableInput(
            f"{source} has no memory blocks and no operators: memory_blobs and op_blobs are empty. Run "
            "mllm with PerfGuard around the work to record."
        )
    unit, origin = (clock, "as requested") if clock else _determine_unit(found, [*blocks, *operators])
    collector = _EventCollector(TIME_UNITS[unit][1], [*blocks, *operators])
    for row in operators:
        collector.operator(row)
    collector.place()
    for row in blocks:
        collector.block(row)
    for name in found.unknown:
        collector.add_loss(UNKNOWN_PART, name)
    cut = None if found.complete else CUT_OFF
    dialect = Dialect(
        FORMAT,
        SliceClassifier(lambda category, name: _WHAT.get(category, _WHAT["memory"])),
        "none of its entries has a valid time. Check its first lines.",
        {"clock": f"{UNITS[unit]}, {origin}"},
    )
    lost = [(reason, count, first) for reason, (count, first) in collector.lost.items()]
    properties = [
        {"id": number, "name": name, "label": name} for name, number in collector.devices.items() if name != HOST
    ]
    events = collector.finish(lost, properties)
    return of_events(events, source, defect or cut, dialect)


def _parse_lists(text: bytes) -> _FileContent:
    """The file's lists. In a damaged file, entries are searched for one by one."""
    plain = _OUTSIDE.sub(lambda one: one[0] if one[0].startswith(b'"') else b" ", text.removeprefix(b"\xef\xbb\xbf"))
    try:
        whole_file = json.loads(plain)
    except (ValueError, RecursionError):
        return _recover_lists(plain)
    if not isinstance(whole_file, dict):
        return _FileContent()
    lists = {name: value for name in ("memory_blobs", "op_blobs") if isinstance(value := whole_file.get(name), list)}
    unknown = [name for name in whole_file if name not in ("init_time", *lists)]
    return _FileContent(to_int(whole_file.get("init_time")), lists, unknown=unknown)


def _recover_lists(plain: bytes) -> _FileContent:
    init = _INIT.search(plain)
    found = _FileContent(to_int(init[1].decode()) if init else None, complete=False)
    begins = [(match[1].decode(), match.end()) for match in _LIST.finditer(plain)]
    for (name, start), (_, end) in itertools.pairwise([*begins, ("", len(plain))]):
        rows = found.lists.setdefault(name, [])
        for match in _OBJECT.finditer(plain, start, end):
            try:
                rows.append(json.loads(match[0]))
            except ValueError:
                rows.append(match[0].decode("utf-8", "replace"))
    return found


def _determine_unit(found: _FileContent, rows: list[Any]) -> tuple[str, str]:
    """(the unit of times, its source)."""
    times = [found.init] + [to_int(row.get("start_time")) for row in rows[:1] if isinstance(row, Mapping)]
    for time in times:
        for unit, (_, factor) in TIME_UNITS.items():
            if time is not None and EPOCHS_NS[0] <= time * factor < EPOCHS_NS[1]:
                return unit, "from init_time, which is relative to the Unix epoch"
    return "us", "assumed, since init_time does not determine the unit"


class _EventCollector:
    """Blocks and operators as events of a trace."""

    def __init__(self, factor: int, rows: list[Any]) -> None:
        """factor: the unit of times in ns. rows: all rows that will be added."""
        starts = [to_int(row.get("start_time")) for row in rows if isinstance(row, Mapping)]
        # A separate case: in a selected unit, times need not be since an epoch.
        self._first = min((start for start in starts if start is not None and start >= 0), default=0)
        self._zero = self._first * factor if self._first * factor < MAX_TIME_NS else 0
        self.events = TraceEventBuilder()
        self.lost: dict[str, tuple[int, str]] = {}
        self.devices: dict[str, int] = {}
        self._factor = factor
        self._operators: list[tuple[int, int, str, str]] = []
        self._uuids: set[int] = set()
        self._blocks: list[tuple[int, int, str, int, Any]] = []

    def add_loss(self, reason: str, example: Any) -> None:
        """Record a loss."""
        count, first = self.lost.get(reason, (0, str(example)[:MAX_EXAMPLE_CHARS]))
        self.lost[reason] = (count + 1, first)

    def _parse_times(self, row: Mapping[str, Any]) -> tuple[int, int] | None:
        """Start and end in ns; the end 0 for never."""
        start, end = (to_int(row.get(name)) for name in ("start_time", "end_time"))
        if start is None or end is None or start < 0 or end < 0 or self._to_ns(max(start, end)) >= MAX_TIME_NS:
            self.add_loss(INCOMPLETE_ENTRY, dict(row))
            return None
        if end < start and end:
            self.add_loss(BACKWARDS, dict(row))
            end = start
        return self._to_ns(start), self._to_ns(end) if end else 0

    def _to_ns(self, time: int) -> int:
        # No allocation is at 0, which would mean never.
        return max(self._zero, 1) + (time - self._first) * self._factor

    def _get_device(self, row: Mapping[str, Any]) -> str:
        name = str(row.get("device_type") or HOST)[:MAX_EXAMPLE_CHARS]
        if name not in self.devices:
            self.devices[name] = sum(device != HOST for device in self.devices)
        return name

    def operator(self, row: Any) -> None:
        """Add an operator."""
        if not isinstance(row, Mapping) or not isinstance(row.get("op_name"), str):
            self.add_loss(INCOMPLETE_ENTRY, row)
        elif (times := self._parse_times(row)) is not None:
            start, end = times
            self._operators.append((start, end or start, self._get_device(row), row["op_name"]))

    def place(self) -> None:
        """Assign operators to as few tracks as possible, on which they are nested or consecutive."""
        opened: dict[str, list[list[int]]] = {}
        for start, end, device, name in sorted(self._operators, key=lambda one: (one[0], -one[1])):
            tracks = opened.setdefault(device, [])
            for index, track in enumerate(tracks):
                while track and track[-1] <= start:
                    track.pop()
                if not track or end <= track[-1]:
                    break
            else:
                index = len(tracks)
                tracks.append([])
            tracks[index].append(end)
            row = self.events.begin_slice(
                name,
                _format_track(device, index),
                start,
                category="operator",
                arguments=self.events.intern_arguments({"device": device}),
                process=self.events.intern_text(device),
            )
            self.events.end_slice(row, end)

    def block(self, row: Any) -> None:
        """Add a block of memory: as an allocation and a free, and as a slice from one to the other."""
        size = to_int(row.get("memory_usage")) if isinstance(row, Mapping) else None
        if not isinstance(row, Mapping) or size is None or not 0 <= size < MAX_SIZE:
            self.add_loss(INCOMPLETE_ENTRY, row)
            return
        if (times := self._parse_times(row)) is None:
            return
        uuid = row.get("uuid")
        if isinstance(uuid, int):
            if uuid in self._uuids:
                self.add_loss(DUPLICATE_BLOCK, dict(row))
            self._uuids.add(uuid)
        self._blocks.append((*times, self._get_device(row), size, uuid))

    def _add_block_slices(self) -> None:
        times = [block[:2] for block in self._operators] + [block[:2] for block in self._blocks]
        last = max((max(block) for block in times), default=0)
        for number, (start, end, device, size, uuid) in enumerate(self._blocks, 1):
            kind = {"Device Type": int(device != HOST), "Device Id": 0 if device == HOST else self.devices[device]}
            arguments, thread, process = (
                self.events.intern_arguments(kind),
                _format_track(device, 0),
                self.events.intern_text(device),
            )
            self.events.add_instant(
                MEMORY, thread, start, arguments=arguments, process=process, Bytes=size, Addr=number
            )
            if end:
                self.events.add_instant(
                    MEMORY, thread, end, arguments=arguments, process=process, Bytes=-size, Addr=number
                )
            argument_set = self.events.intern_arguments({"uuid": uuid, "bytes": size, "freed": bool(end)})
            name = shown_size(size).replace(NO_BREAK_SPACE, " ") + ("" if end else NEVER_FREED)
            # A block that was never freed lasts until the end.
            self.events.add_async_slice(
                name, f"memory of {device}", start, end or last, number, arguments=argument_set, process=process
            )

    def finish(self, lost: list[tuple[str, int, str]], properties: list[dict[str, Any]]) -> Any:
        """All events."""
        self._add_block_slices()
        return self.events.finish(lost, deviceProperties=properties)


def _format_track(device: str, place: int) -> str:
    return device if place == 0 else f"{device} ({place + 1})"
