"""What the running recordings of a job on this machine have written: samples and their rate, by the records of the
growing files.

Each update reads only what is new, and uses at most 1 % of the time since the last one. perf writes when a buffer is
half full, so numbers change with each write.
"""

import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from perfloom.domain.rank_state import HOST_FOLDER_PREFIX
from perfloom.domain.units import NO_BREAK_SPACE, format_bytes
from perfloom.recording.samples_so_far import (
    NOTHING_WRITTEN,
    Point,
    add_point,
    describe_ranks,
    format_number,
    format_rate,
)

from .sample_count import MAX_COUNTERS, count_file

STATE_FILE = "samples.json"
MIN_INTERVAL_S = 1.0
RATE_WINDOW_S = 5.0
CPU_SHARE = 0.01
MAX_STATE_BYTES = 4 << 20
_KEY = re.compile(r"[0-9]{1,6}/[\w.-]+", re.ASCII)


@dataclass(frozen=True)
class RecordedFile:
    """A recording. inode: of its file. size: in bytes. count: samples found in it so far. countable: whether samples in
    it can be counted. behind: whether more of them are written than counted."""

    inode: int = 0
    size: int = 0
    count: int = 0
    countable: bool = True
    behind: bool = False


@dataclass(frozen=True)
class SampleProgress:
    """The recordings of a job after an update. updated: when, in seconds since the epoch. files: by run and rank, as in
    "0/3". counts, sizes: (time, sum) of the updates at which something was new, the last ones."""

    updated: float
    files: Mapping[str, RecordedFile] = field(default_factory=dict)
    counts: tuple[Point, ...] = ()
    sizes: tuple[Point, ...] = ()

    @property
    def count(self) -> int:
        """The samples counted so far."""
        return sum(file.count for file in self.files.values())

    @property
    def size(self) -> int:
        """The bytes written so far."""
        return sum(file.size for file in self.files.values())

    @property
    def countable(self) -> bool:
        """Whether the samples of all files can be counted."""
        return all(file.countable for file in self.files.values())

    @property
    def behind(self) -> bool:
        """Whether more samples are written than counted."""
        return any(file.behind for file in self.files.values())

    @property
    def text(self) -> str:
        """For the page of the job."""
        if not self.size or (self.countable and not self.count):
            return NOTHING_WRITTEN
        if self.countable:
            number = "more than " * self.behind + f"{self.count:,} sample{'s' * (self.count != 1)} so far"
            rate = "" if self.behind else format_rate(self.counts, self.updated, RATE_WINDOW_S, format_number)
            ranks = describe_ranks({name: file.count for name, file in self._last_run()}, format_number)
            return " · ".join(part for part in (number, rate, ranks, format_bytes(self.size)) if part)
        rate = format_rate(self.sizes, self.updated, RATE_WINDOW_S, format_bytes)
        ranks = describe_ranks({name: file.size for name, file in self._last_run()}, format_bytes)
        return " · ".join(part for part in (f"{format_bytes(self.size)} of samples so far", rate, ranks) if part)

    def _last_run(self) -> list[tuple[str, RecordedFile]]:
        """The recordings of the last run, by the name of the rank."""
        last = max(int(key.partition("/")[0]) for key in self.files)
        keys = ((key.partition("/"), file) for key, file in self.files.items())
        return [
            (f"rank{NO_BREAK_SPACE}{place}" if place.isdigit() else place.removeprefix(HOST_FOLDER_PREFIX), file)
            for (run, _, place), file in keys
            if int(run) == last
        ]


def update_progress(run: Path, files: Mapping[str, Path], now: float | None = None) -> SampleProgress:
    """Count what was written to `files` since the last update, at most once per second. run: where its state is. files:
    perf.data of each rank, by run and rank. Files that are no longer there keep their numbers."""
    now = time.time() if now is None else now
    before = _load(run / STATE_FILE)
    if before is not None and 0 <= now - before.updated < MIN_INTERVAL_S:
        return before
    known = before or SampleProgress(now)
    end = time.thread_time() + CPU_SHARE * min(max(MIN_INTERVAL_S, now - known.updated), 10.0)
    found = dict(known.files)
    for number, (name, path) in enumerate(files.items()):
        last = found.get(name, RecordedFile())
        budget_s = max(0.0, end - time.thread_time()) / (len(files) - number)
        found[name] = _update_file(path, last, budget_s, countable=len(files) <= MAX_COUNTERS)
    bare = SampleProgress(now, found)
    updated = replace(
        bare, counts=add_point(known.counts, now, bare.count), sizes=add_point(known.sizes, now, bare.size)
    )
    _save(run / STATE_FILE, updated)
    return updated


def _update_file(path: Path, last: RecordedFile, budget_s: float, *, countable: bool) -> RecordedFile:
    if not countable:
        with suppress(OSError):
            return replace(last, size=path.lstat().st_size, countable=False)
        return last
    counted = count_file(path, budget_s)
    if counted is None:
        return last
    size, counter = counted
    if not counter.countable:
        return RecordedFile(counter.inode, size, countable=False)
    # A worker that was restarted counts from the beginning.
    least = last.count if last.inode == counter.inode else 0
    behind = counter.behind or counter.count < least
    return RecordedFile(counter.inode, size, max(least, counter.count), behind=behind)


def _load(path: Path) -> SampleProgress | None:
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        if path.stat().st_size > MAX_STATE_BYTES:
            return None
        data = json.loads(path.read_bytes())
        files = {key: _parse_file(file) for key, file in data["files"].items() if _KEY.fullmatch(key)}
        counts, sizes = (tuple((float(at), int(value)) for at, value in data[key]) for key in ("counts", "sizes"))
        return SampleProgress(float(data["updated"]), files, counts, sizes)
    return None


def _parse_file(data: Mapping[str, Any]) -> RecordedFile:
    inode, size, count = (int(data[name]) for name in ("inode", "size", "count"))
    return RecordedFile(inode, size, count, data["countable"] is True, data["behind"] is True)


def _save(path: Path, progress: SampleProgress) -> None:
    """Without flushing: after a crash it is counted again."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        temporary.write_text(json.dumps(asdict(progress)))
        temporary.replace(path)
