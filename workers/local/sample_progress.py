"""How much a running recording has written: samples and their rate, by the records of the growing perf.data.

Each update reads only what is new, and uses at most 1 % of the time since the last one. perf writes when a buffer is
half full, so numbers change with each write.
"""

import json
import math
import os
import stat
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from perfloom.domain.units import format_bytes

STATE_FILE = "samples.json"
MIN_INTERVAL_S = 1.0
RATE_WINDOW_S = 5.0
CPU_SHARE = 0.01
MAGIC = b"PERFILE2"
_DATA_OFFSET_AT = 40
_HEADER = struct.Struct("<IHH")
_NUMBER = struct.Struct("<Q")
_SAMPLE, _AUXTRACE = 9, 71
_COMPRESSED = (81, 83)
_CHUNK_BYTES = 64 << 10
_MAX_POINTS = 32
_TAIL_BYTES = 16 << 10
MAX_VALUES = 3


@dataclass(frozen=True)
class SampleProgress:
    """What is known after an update. updated: when, in seconds since the epoch. size: bytes of the recorded files.
    inode: of the perf.data. offset: where its next record begins. count: samples before it. countable: whether its
    samples can be counted; not if it is compressed. behind: whether records after `offset` are not counted yet. points:
    (time, count, size) of the updates at which something was new, the last ones.
    """

    updated: float
    size: int = 0
    inode: int = 0
    offset: int = 0
    count: int = 0
    countable: bool = False
    behind: bool = False
    points: tuple[tuple[float, int, int], ...] = ()

    @property
    def text(self) -> str:
        """For the page of the job."""
        if self.countable and self.count:
            number = "more than " * self.behind + f"{self.count:,} sample{'s' * (self.count != 1)} so far"
            rate = "" if self.behind else self._rate(1, lambda value: f"{value:,.0f} per second")
            return " · ".join(part for part in (number, rate, format_bytes(self.size)) if part)
        if self.countable or not self.size:
            return "no samples written yet: perf writes them when a buffer is half full"
        rate = self._rate(2, lambda value: f"{format_bytes(value)} per second")
        return " · ".join(part for part in (f"{format_bytes(self.size)} of compressed samples so far", rate) if part)

    def _rate(self, column: int, form: Any) -> str:
        """The rate of the last seconds; of the last two writes if these are further apart."""
        if len(self.points) < 2:
            return ""
        last = self.points[-1]
        recent = [point for point in self.points if last[0] - point[0] <= RATE_WINDOW_S]
        first = recent[0] if len(recent) > 1 else self.points[-2]
        seconds = last[0] - first[0]
        if seconds <= 0 or self.updated - last[0] > max(RATE_WINDOW_S, 2 * seconds):
            # Nothing was written for longer than between two writes.
            return ""
        return f"{form((last[column] - first[column]) / seconds)} (last {max(1, round(seconds))} s)"


def update_progress(run: Path, files: Sequence[Path], now: float | None = None) -> SampleProgress:
    """Count what was written to `files` since the last update, at most once per second. run: where its state is."""
    now = time.time() if now is None else now
    before = _load(run / STATE_FILE)
    if before is not None and 0 <= now - before.updated < MIN_INTERVAL_S:
        return before
    known = before or SampleProgress(now)
    budget_s = CPU_SHARE * min(max(MIN_INTERVAL_S, now - known.updated), 10.0)
    size = 0
    counted: SampleProgress | None = None
    for path in files:
        with suppress(OSError):
            # The program's user can write there.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                about = os.fstat(descriptor)
                size += about.st_size
                if counted is None and stat.S_ISREG(about.st_mode) and os.pread(descriptor, 8, 0) == MAGIC:
                    same = known.inode == about.st_ino and known.offset <= about.st_size
                    start = known if same else SampleProgress(now, inode=about.st_ino, countable=True)
                    counted = count_samples(descriptor, about.st_size, start, budget_s)
            finally:
                os.close(descriptor)
    found = replace(counted or replace(known, countable=False), updated=now, size=size)
    point = (now, found.count, size)
    if not found.points or found.points[-1][1:] != point[1:]:
        found = replace(found, points=(*found.points, point)[-_MAX_POINTS:])
    _save(run / STATE_FILE, found)
    return found


def count_samples(descriptor: int, size: int, start: SampleProgress, budget_s: float) -> SampleProgress:
    """Continue `start` over the whole records of a perf.data of `size` bytes, for up to `budget_s` of CPU time."""
    if not start.countable:
        return start
    end = time.thread_time() + budget_s
    offset, count = start.offset, start.count
    if offset == 0:
        head = os.pread(descriptor, _DATA_OFFSET_AT + _NUMBER.size, 0)
        if len(head) < _DATA_OFFSET_AT + _NUMBER.size:
            return start
        (offset,) = _NUMBER.unpack_from(head, _DATA_OFFSET_AT)
        if offset < len(head):
            return start
    behind = False
    while offset + _HEADER.size <= size:
        data = os.pread(descriptor, min(_CHUNK_BYTES, size - offset), offset)
        at, last = 0, len(data) - _HEADER.size
        is_complete = True
        while at <= last:
            kind, _, length = _HEADER.unpack_from(data, at)
            if kind in _COMPRESSED or length < _HEADER.size:
                return replace(start, offset=offset, count=0, countable=False, behind=False)
            if kind == _AUXTRACE:
                if at + _HEADER.size + _NUMBER.size > len(data):
                    break
                length += _NUMBER.unpack_from(data, at + _HEADER.size)[0]
            if offset + at + length > size:
                is_complete = False
                break
            at += length
            count += kind == _SAMPLE
        if at == 0:
            break
        offset += at
        if not is_complete:
            break
        if time.thread_time() >= end:
            behind = offset + _HEADER.size <= size
            break
    return replace(start, offset=offset, count=count, behind=behind)


def format_last_interval(path: Path) -> str:
    """The values of the last complete interval of `perf stat -I`, as JSON or with `;`, for the page of the job; empty
    without any."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            start = max(0, size - _TAIL_BYTES)
            lines = os.pread(descriptor, _TAIL_BYTES, start).decode("utf-8", "replace").split("\n")
        finally:
            os.close(descriptor)
        # The first may be cut at its beginning, the last at its end.
        values = [value for line in lines[1 if start else 0 : -1] if (value := _interval_value(line)) is not None]
        ends = list(dict.fromkeys(end for end, _ in values))
        if len(ends) > 1:
            # The next interval has begun.
            shown = [text for end, text in values if end == ends[-2]]
            more = f" and {len(shown) - MAX_VALUES} more" if len(shown) > MAX_VALUES else ""
            return f"interval until {ends[-2]:.1f} s: {', '.join(shown[:MAX_VALUES])}{more}"
    return ""


def _interval_value(line: str) -> tuple[float, str] | None:
    """(end of the interval in seconds, value and event) of a line."""
    try:
        if line.startswith("{"):
            data = json.loads(line)
            end, value, unit, event = (data[key] for key in ("interval", "counter-value", "unit", "event"))
        else:
            end, value, unit, event = line.split(";")[:4]
        end, number, event = float(end), float(value), str(event)[:60]
    except (ValueError, KeyError, TypeError):
        return None
    if not (math.isfinite(end) and math.isfinite(number)):
        return None
    return end, " ".join(
        part for part in (f"{number:,.0f}" if number >= 100 else f"{number:.3g}", str(unit)[:10], event) if part
    )


def _load(path: Path) -> SampleProgress | None:
    try:
        data = json.loads(path.read_bytes())
        return SampleProgress(**{**data, "points": tuple(tuple(point) for point in data["points"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _save(path: Path, progress: SampleProgress) -> None:
    """Without flushing: after a crash it is counted again."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        temporary.write_text(json.dumps(asdict(progress)))
        temporary.replace(path)
