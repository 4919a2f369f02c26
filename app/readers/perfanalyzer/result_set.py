"""A result set: all data files that a .results file lists, as one profile."""

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, BinaryIO

from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.event_names import CLOCK_EVENTS, choose_main_event, get_unit, strip_modifiers
from ...domain.list_text import abbreviate_names
from ...domain.losses import SUMS_OF_FILES
from ...domain.profile import Meta, Profile
from ...domain.units import NS_PER_S
from .data_file import DataFileReader, DataTarget, WeightScale
from .format import (
    FORMAT,
    MAX_SETTINGS_BYTES,
    MISSING_FILE,
    NO_COUNTER,
    TEXT,
    TRACE_FILE,
    UNLISTED_FILE,
    UNREADABLE_FILE,
    UNREADABLE_SETTINGS,
)
from .index import DataFile, EventCounter, read_index

MAX_FREQUENCY_HZ = 100_000
"""A counter of a clock event below this is a frequency, from this on a period in ns. The kernel's default limit
(kernel.perf_event_max_sample_rate)."""
MAX_NAMED = 6
_SUM_MARKS = ("-plus-", "-divide-")


class ResultSetReader:
    """Reads a result set, one file after the other. Not for use after `finish`."""

    def __init__(self, index: BinaryIO, source: str) -> None:
        """index: the .results file. `source` names it in messages. Raises UnreadableInput if it lists no data file."""
        self._source = source
        self._index = read_index(index, source)
        self._builder = ProfileBuilder(FORMAT)
        self._files = DataFileReader(self._builder)
        self._pending = {file.name: file for file in self._index.files}
        self._reasons: list[str] = [defect] if (defect := getattr(index, "defect", None)) else []
        self._runs: dict[int | None, int] = {}
        self._ends: dict[int, int] = defaultdict(int)
        self._events: dict[str, bool] = {}
        self._command: str | None = None
        self._read_files = 0
        if not self._index.files:
            raise UnreadableInput(f"{source} lists no data files. Check whether it was copied completely.")
        for reason, example in self._index.losses:
            self._builder.add_loss(reason, example)
        for run in sorted({counter.run for counter in self._index.counters.values()}):
            self._add_run(run)
        for event, counter in self._index.counters.items():
            if not _is_other_kind(event):
                self._intern_event(event, counter)
        processes = {file.process for file in self._index.files if file.process is not None}
        self._ranked = len(processes) > 1 and not self._index.system_wide

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the data files to add."""
        return tuple(self._pending)

    def add_settings(self, stream: BinaryIO, name: str) -> None:
        """Take the command from the .settings file of the set."""
        try:
            settings = json.loads(stream.read(MAX_SETTINGS_BYTES))
        except (ValueError, RecursionError):
            settings = None
        if not isinstance(settings, dict):
            self._builder.add_loss(UNREADABLE_SETTINGS, name)
            return
        self._command = " ".join(_texts(settings, ("executable", "arguments"))) or None

    def add_file(self, name: str, stream: BinaryIO) -> None:
        """Add a listed data file. name: as listed."""
        file = self._pending.pop(name)
        self._read_files += 1
        if reason := _find_other_kind(file):
            self._builder.add_loss(reason, name)
            return
        counter = self._index.counters.get(file.event)
        if counter is None:
            self._builder.add_loss(NO_COUNTER, name)
        target = DataTarget(
            event=self._intern_event(file.event, counter),
            scale=compute_scale(file.event, counter),
            run=self._add_run(None if counter is None else counter.run),
            host=None if file.host is None else f"host {file.host}",
            rank=file.process if self._ranked else None,
            on_cpus=self._index.system_wide,
        )
        found = self._files.add(stream, name, target)
        self._ends[target.run] = max(self._ends[target.run], found.end_ns)
        self._events[file.event] |= found.samples > 0
        if defect := getattr(stream, "defect", None):
            self._reasons.append(f"{name}: {defect}")
        if not found.lines:
            self._builder.add_loss(UNREADABLE_FILE, f"{name} is empty")
            self._reasons.append(f"{name} is empty. Copy it again.")
        elif not found.readable:
            self._builder.add_loss(UNREADABLE_FILE, f"{name} is not {TEXT}")
            self._reasons.append(f"{name} is not {TEXT}: {found.unrecognized:,} of {found.lines:,} lines are not.")
        elif not found.ended:
            self._reasons.append(f"{name} is truncated: the time at its end is missing. Copy it again.")
        elif not found.complete:
            self._reasons.append(f"{found.unrecognized:,} of {found.lines:,} lines of {name} cannot be read.")

    def add_failure(self, name: str, why: str) -> None:
        """Record that a listed data file cannot be read. why: a sentence."""
        self._pending.pop(name)
        self._builder.add_loss(UNREADABLE_FILE, why)
        self._reasons.append(why)

    def add_unlisted(self, names: Iterable[str]) -> None:
        """Record files that were given but are not listed."""
        for name in names:
            self._builder.add_loss(UNLISTED_FILE, name)

    def finish(self) -> Profile:
        """The profile. Raises UnreadableInput if no data file was added."""
        missing = [name for name, file in self._pending.items() if not _find_other_kind(file)]
        if not self._read_files:
            raise UnreadableInput(
                f"{self._source} lists {len(self._index.files):,} data files, and none of them was given: "
                f"{abbreviate_names([file.name for file in self._index.files], MAX_NAMED)}. Import it together with "
                "them, in one import."
            )
        for name in missing:
            self._builder.add_loss(MISSING_FILE, name)
        if missing:
            self._reasons.append(
                f"{len(missing):,} of {len(self._index.files):,} data files were not given: "
                f"{abbreviate_names(missing, MAX_NAMED)}. Import all files of the set together."
            )
        for run in self._runs.values():
            self._builder.update_run(run, command=self._command, duration_ns=self._ends.get(run) or None)
        filled = [event for event, has_samples in self._events.items() if has_samples]
        meta = Meta(
            FORMAT,
            duration_ns=max(self._ends.values(), default=0) or None,
            main_event=choose_main_event(filled or [*self._events]),
            command=self._command,
            complete=not self._reasons,
            reasons=tuple(self._reasons),
            facts=self._collect_facts(missing),
        )
        # Times are already those from the start of an execution.
        return self._builder.finish_with_stack_rows(meta, zero=0)[0]

    def _collect_facts(self, missing: list[str]) -> dict[str, str]:
        absent = {self._index_event(name) for name in missing}
        empty = [event for event, has_samples in self._events.items() if not has_samples and event not in absent]
        interval_ns = self._index.interval_ns
        facts = {
            "events without samples": ", ".join(empty),
            "time slices": f"{interval_ns / NS_PER_S:g} s" if interval_ns else "",
            "event list": self._index.cpu,
            "system-wide": "yes" if self._index.system_wide else "",
        }
        return {name: value for name, value in facts.items() if value}

    def _index_event(self, name: str) -> str:
        return self._pending[name].event

    def _add_run(self, number: int | None) -> int:
        if number not in self._runs:
            self._runs[number] = self._builder.add_run(event_group=number)
        return self._runs[number]

    def _intern_event(self, event: str, counter: EventCounter | None) -> int:
        self._events.setdefault(event, False)
        known = counter is not None
        frequency = _is_frequency(event, counter)
        rate = counter.counter if counter is not None and counter.counter > 1 else None
        return self._builder.intern_event(
            event,
            get_unit(event, known),
            weighted=known,
            sampling=None if rate is None else "frequency" if frequency else "period",
            rate=rate,
        )


def compute_scale(event: str, counter: EventCounter | None) -> WeightScale:
    """What a weight in the data files of an event means.

    Old versions of PerfAnalyzer store numbers of samples and the events per sample; newer ones store events, and 1. Of
    the kernel's clocks, which old versions sample at a frequency, a sample counts its share of a second in ns.
    """
    if counter is None:
        return WeightScale()
    return (
        WeightScale(NS_PER_S, counter.counter)
        if _is_frequency(event, counter)
        else WeightScale(max(1, counter.counter))
    )


def _is_frequency(event: str, counter: EventCounter | None) -> bool:
    is_clock = strip_modifiers(event) in CLOCK_EVENTS
    return is_clock and counter is not None and 1 < counter.counter < MAX_FREQUENCY_HZ


def _find_other_kind(file: DataFile) -> str | None:
    """The loss of a file that has no samples of an event of one process; None for others."""
    if file.process is None:
        return SUMS_OF_FILES
    return _is_other_kind(file.event)


def _is_other_kind(event: str) -> str | None:
    if event.startswith("trace-"):
        return TRACE_FILE
    return SUMS_OF_FILES if any(mark in event for mark in _SUM_MARKS) else None


def _texts(settings: dict[str, Any], names: Iterable[str]) -> list[str]:
    return [text for name in names if isinstance(text := settings.get(name), str) and text]
