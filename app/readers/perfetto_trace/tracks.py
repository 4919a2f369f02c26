"""The tracks of a Perfetto trace: kind, parent, and the names of processes and threads."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...ingest.protobuf_wire import BYTES, MalformedMessage, to_signed
from ...ingest.protobuf_wire import iterate_fields as wire_fields
from .format import BAD_TRACK
from .packets import SYSTEM, THREAD, TRACK, TREE, LossCallback, Packets

MAX_DEPTH = 50
MAX_NAME_BYTES, MAX_FACTS = 1 << 12, 1 << 16
"""The maximum length, and number, of messages whose fields are cached."""
UNITS = {1: "ns", 2: "count", 3: "bytes"}


@dataclass
class PerfettoTrack:
    """The description of a track. counter: whether it is one; its unit, factor and whether values are increments."""

    name: str = ""
    parent: int = 0
    pid: int | None = None
    tid: int | None = None
    counter: bool = False
    unit: str = ""
    factor: int = 1
    incremental: bool = False


@dataclass(frozen=True)
class Lane:
    """Where a track's slices go: on the thread `thread` of the process, or else into a lane called `name`."""

    process: str | None
    thread: str | None
    name: str


@dataclass
class TrackNames:
    """Tracks, and the names of processes and threads; the process of each thread."""

    tracks: dict[int, PerfettoTrack] = field(default_factory=dict)
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[int, str] = field(default_factory=dict)
    process_of_thread: dict[int, int] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)

    def iterate_ancestors(self, uuid: int) -> Iterator[PerfettoTrack]:
        """A track and its ancestors."""
        uuids: set[int] = set()
        while uuid in self.tracks and uuid not in uuids and len(uuids) < MAX_DEPTH:
            uuids.add(uuid)
            yield self.tracks[uuid]
            uuid = self.tracks[uuid].parent

    def get_lane(self, uuid: int) -> Lane:
        """Where slices of a track go."""
        chain = list(self.iterate_ancestors(uuid))
        if not chain:
            return Lane(None, None, f"track {uuid}" if uuid else "global")
        pid = next((track.pid for track in chain if track.pid is not None), None)
        tid = next((track.tid for track in chain if track.tid is not None), None)
        process = str(pid) if pid is not None else None
        if chain[0].tid is not None:
            return Lane(process, str(tid), "")
        words = []
        for track in chain:
            if track.tid is not None:
                words.append(self.threads.get(track.tid) or f"thread {track.tid}")
            elif track.pid is None:
                words.append(track.name)
            elif not words:
                words.append(track.name or self.processes.get(track.pid) or f"process {pid}")
            if track.tid is not None or track.pid is not None:
                break
        return Lane(process, None, ": ".join(filter(None, reversed(words))) or f"track {uuid}")


def read_names(packets: Packets, loss_callback: LossCallback) -> TrackNames:
    """Tracks, processes and threads described by the packets; the last one applies where they differ."""
    names = TrackNames()
    fields = _MessageFieldCache()
    for kind, take in ((TREE, _read_tree), (THREAD, _read_thread), (TRACK, _read_track), (SYSTEM, _read_system)):
        rows, spans = packets.all.get_spans(kind)
        for row, begin, end in zip(rows.tolist(), *spans.tolist(), strict=True):
            try:
                take(names, fields, packets.data[begin:end])
            except (MalformedMessage, TypeError):
                loss_callback(BAD_TRACK, f"packet {row + 1}", 1)
    return names


class _MessageFieldCache:
    """The fields of messages, as `wire.fields` returns them. Many messages recur: those are parsed once."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[list[tuple[int, int, Any]], MalformedMessage | None]] = {}

    def __call__(self, message: bytes | memoryview) -> Iterator[tuple[int, int, Any]]:
        if len(message) > MAX_NAME_BYTES:
            yield from wire_fields(message)
            return
        key = bytes(message)
        if key not in self._known:
            if len(self._known) == MAX_FACTS:
                self._known.clear()
            found: list[tuple[int, int, Any]] = []
            damage = None
            try:
                found.extend(wire_fields(key))
            except MalformedMessage as error:
                damage = error
            self._known[key] = found, damage
        found, damage = self._known[key]
        yield from found
        if damage is not None:
            raise damage


def _check_text(value: Any) -> str:
    """Raises TypeError for a value that is no text."""
    if isinstance(value, int):
        raise TypeError(value)
    return bytes(value).decode("utf-8", "backslashreplace")


def _parse_number(value: Any) -> int:
    """A signed number, as pids are. Raises TypeError for another value."""
    if not isinstance(value, int):
        raise TypeError(value)
    return to_signed(value)


def _to_unsigned(value: Any) -> int:
    return _parse_number(value) & 0xFFFF_FFFF_FFFF_FFFF


def _read_tree(names: TrackNames, fields: _MessageFieldCache, data: bytes) -> None:
    for number, kind, value in fields(data):
        if kind != BYTES or number not in (1, 2):
            continue
        of: dict[int, Any] = {}
        for inner, _, content in fields(value):
            of.setdefault(inner, content)
        if number == 1 and isinstance(of.get(1), int):
            pid = _parse_number(of[1])
            if 3 in of and (name := _check_text(of[3])):
                names.processes[pid] = name
            names.process_of_thread.setdefault(pid, pid)
        elif number == 2 and isinstance(of.get(1), int):
            tid = _parse_number(of[1])
            names.process_of_thread[tid] = _parse_number(of.get(3, tid))
            if 2 in of and (name := _check_text(of[2])):
                names.threads[tid] = name


def _read_thread(names: TrackNames, fields: _MessageFieldCache, data: Any) -> tuple[int | None, int | None]:
    of = {number: value for number, _, value in fields(data)}
    if not isinstance(of.get(1), int) or not isinstance(of.get(2), int):
        return None, None
    pid, tid = _parse_number(of[1]), _parse_number(of[2])
    names.process_of_thread[tid] = pid
    if 5 in of and (name := _check_text(of[5])):
        names.threads[tid] = name
    return pid, tid


def _read_process(names: TrackNames, fields: _MessageFieldCache, data: Any) -> int | None:
    pid, name, command = None, "", ""
    for number, _, value in fields(data):
        if number == 1:
            pid = _parse_number(value)
        elif number == 2:
            command = command or _check_text(value)
        elif number == 6:
            name = _check_text(value)
    if pid is None:
        return None
    if name and name != command:
        names.processes[pid] = name
    elif command:
        # Chrome sometimes names a process by its whole command line, which may be one string.
        names.processes.setdefault(pid, command.split(" -")[0].rpartition("/")[2] or command)
    return pid


def _read_track(names: TrackNames, fields: _MessageFieldCache, data: bytes) -> None:
    uuid, track = 0, PerfettoTrack()
    for number, kind, value in fields(data):
        if number == 1:
            uuid = _to_unsigned(value)
        elif number in (2, 10, 13):
            track.name = _check_text(value)
        elif number == 5:
            track.parent = _to_unsigned(value)
        elif number == 3 and kind == BYTES:
            track.pid = _read_process(names, fields, value)
        elif number == 4 and kind == BYTES:
            track.pid, track.tid = _read_thread(names, fields, value)
        elif number == 8 and kind == BYTES:
            _read_counter(track, fields, value)
    known = names.tracks.get(uuid)
    if known is not None:
        # One description may have what another one omits.
        track.name = track.name or known.name
        track.parent = track.parent or known.parent
        track.pid, track.tid = (track.pid, track.tid) if track.pid is not None else (known.pid, known.tid)
        if not track.counter and known.counter:
            track.counter, track.unit, track.factor, track.incremental = (
                True,
                known.unit,
                known.factor,
                known.incremental,
            )
    names.tracks[uuid] = track


def _read_counter(track: PerfettoTrack, fields: _MessageFieldCache, data: Any) -> None:
    track.counter = True
    for number, _, value in fields(data):
        if number == 1:
            track.name = track.name or {1: "thread time", 2: "instructions"}.get(value, "")
            track.unit = track.unit or {1: "ns"}.get(value, "")
        elif number == 3:
            track.unit = track.unit or UNITS.get(value, "")
        elif number == 6:
            track.unit = _check_text(value)
        elif number == 4:
            track.factor = to_signed(value) or 1
        elif number == 5:
            track.incremental = bool(value)


def _read_system(names: TrackNames, fields: _MessageFieldCache, data: bytes) -> None:
    for number, kind, value in fields(data):
        if number == 1 and kind == BYTES:
            of = {inner: _check_text(content) for inner, sort, content in fields(value) if sort == BYTES}
            names.facts["system"] = " ".join(filter(None, (of.get(part, "") for part in (1, 3, 4))))
        elif number == 2 and kind == BYTES:
            names.facts["build"] = _check_text(value)
