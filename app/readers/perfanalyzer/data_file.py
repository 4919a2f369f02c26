"""A data file: collapsed call stacks of one event and process, in time slices.

start-time;1234.5                       not in old files
t=0.50                                  start of a slice, in s
dd-0/0;read;[unknown] 20                command-process/thread;outermost;…;innermost, and a weight
t=7.36                                  the last: end of the execution
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from ...domain.arrays import Int64Array
from ...domain.builder import IMPOSSIBLE_STACK_WEIGHT, ProfileBuilder
from ...domain.tables import ROOT
from ...domain.units import NS_PER_S
from ...ingest.collapsed_stacks import CollapsedStacks
from ...ingest.losses import UNRECOGNIZED_LINE
from ...ingest.parse_quality import MAX_SHARE_COMPLETE, MAX_SHARE_READABLE
from ...ingest.perf_text.grammar import decode_text, format_example
from ...ingest.text_lines import MAX_WEIGHT, is_binary, iterate_blocks
from .format import NO_LAST_TIME, TIME_BACK

_TIME = re.compile(rb"t=(\d{1,9})(?:\.(\d{1,9}))?")
_START = re.compile(rb"start-time;-?\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d{1,3})?")
_STACK = re.compile(rb"(.*\S)[ \t]+(\d{1,19})")
_TASK = re.compile(rb"(?P<command>.*)-(?P<pid>\d{1,18}|all|\?)/(?P<tid>\d{1,18}|all)", re.DOTALL)


@dataclass(frozen=True)
class WeightScale:
    """A weight in a file means weight × factor ÷ divisor of the event."""

    factor: int = 1
    divisor: int = 1


@dataclass(frozen=True)
class DataTarget:
    """What the samples of a file belong to. event: its id. on_cpus: the numbers of processes are those of CPUs."""

    event: int
    scale: WeightScale
    run: int = 0
    host: str | None = None
    rank: int | None = None
    on_cpus: bool = False


@dataclass(frozen=True)
class DataSummary:
    """What was found in a file. end_ns: the last time. lines: not empty; unrecognized: of them. samples: rows added.
    ended: whether the time of the end is there."""

    end_ns: int
    lines: int
    unrecognized: int
    samples: int
    ended: bool

    @property
    def readable(self) -> bool:
        """Whether most lines were recognized."""
        return self.lines > 0 and self.unrecognized <= MAX_SHARE_READABLE * self.lines

    @property
    def complete(self) -> bool:
        """Whether nearly all lines were recognized."""
        return self.ended and self.unrecognized <= MAX_SHARE_COMPLETE * self.lines


def is_data(head: bytes) -> bool:
    """Whether a file that starts with `head` is a data file: its first line is a time, the next a stack or a time."""
    lines = [line.rstrip() for line in head.split(b"\n")[:8]]
    lines = [line for line in lines if line]
    if not lines or is_binary(head) or not (_TIME.fullmatch(lines[0]) or _START.fullmatch(lines[0])):
        return False
    lines = lines[1:]
    return not lines or _TIME.fullmatch(lines[0]) is not None or _STACK.fullmatch(lines[0]) is not None


class DataFileReader:
    """Adds data files to a builder."""

    def __init__(self, builder: ProfileBuilder) -> None:
        self._builder = builder
        self._stacks = CollapsedStacks(builder)
        self._commands: dict[tuple[object, ...], list[bytes]] = {}

    def add(self, stream: BinaryIO, name: str, target: DataTarget, begin: bytes = b"") -> DataSummary:
        """Add the samples of a file. `name` is for examples of losses. begin: what was already read of the stream."""
        parser = _DataParser(self, self._builder, name, target)
        for lines, first in iterate_blocks(stream, begin):
            parser.absorb(lines, first)
        return parser.finish()

    def intern_stacks(self, stacks: Sequence[bytes]) -> Int64Array:
        """The builder's id of each stack; empty ones are the root."""
        ids = np.full(len(stacks), ROOT, np.int64)
        full = [at for at, stack in enumerate(stacks) if stack]
        if full:
            ids[full] = self._stacks.add([stacks[at] for at in full])
        return ids

    def intern_thread(self, task: bytes, target: DataTarget) -> tuple[int, int]:
        """(thread, CPU) of the first part of a line; thread -1 for sums over threads, CPU -1 if it is not known."""
        match = _TASK.fullmatch(task)
        if match is not None and b"all" in (match["pid"], match["tid"]):
            return -1, -1
        command = task if match is None else match["command"]
        pid = None if match is None or match["pid"] == b"?" else int(match["pid"])
        tid = None if match is None else int(match["tid"])
        cpu = -1
        if target.on_cpus and pid is not None and pid < 1 << 31:
            cpu, pid = pid, None
        key = (target.run, target.host, target.rank, pid, tid)
        # PerfAnalyzer renumbers threads in each file, so that one number can mean several.
        commands = self._commands.setdefault(key, [])
        if command not in commands:
            commands.append(command)
        thread = self._builder.intern_thread(
            pid=pid,
            tid=tid,
            run=target.run,
            host=target.host,
            rank=target.rank,
            incarnation=commands.index(command),
        )
        name = decode_text(command)
        self._builder.set_thread_name(thread, 0, name)
        self._builder.set_process_name(thread, name)
        return thread, cpu


class _DataParser:
    def __init__(self, reader: DataFileReader, builder: ProfileBuilder, name: str, target: DataTarget) -> None:
        self._reader = reader
        self._builder = builder
        self._name = name
        self._target = target
        self._tasks: dict[bytes, tuple[int, int]] = {}
        self._time_ns = self._end_ns = 0
        self._lines = self._unrecognized = self._samples = 0
        self._ended = False

    def absorb(self, lines: Sequence[bytes], first: int) -> None:
        """Parse lines, of which the first has the number `first`."""
        times, threads, cpus, stacks, weights = [], [], [], [], []
        scale = self._target.scale
        for number, line in enumerate(lines, first):
            line = line.rstrip()
            if not line:
                continue
            self._lines += 1
            if (time := _TIME.fullmatch(line)) is not None:
                self._set_time(time, line, number)
                continue
            if _START.fullmatch(line):
                continue
            self._ended = False
            match = _STACK.fullmatch(line)
            if match is None:
                self._unrecognized += 1
                self._add_loss(UNRECOGNIZED_LINE, line, number)
                continue
            weight = (int(match[2]) * scale.factor + scale.divisor // 2) // scale.divisor
            if weight >= MAX_WEIGHT:
                self._add_loss(IMPOSSIBLE_STACK_WEIGHT, line, number)
                continue
            task, _, stack = match[1].partition(b";")
            found = self._tasks.get(task)
            if found is None:
                found = self._tasks[task] = self._reader.intern_thread(task, self._target)
            thread, cpu = found
            if thread < 0:
                continue
            times.append(self._time_ns)
            threads.append(thread)
            cpus.append(cpu)
            stacks.append(stack)
            weights.append(weight)
        if stacks:
            events = np.full(len(stacks), self._target.event, np.int64)
            ids = self._reader.intern_stacks(stacks)
            self._builder.add_samples(times, threads, cpus, events, ids, weights)
            self._samples += len(stacks)

    def finish(self) -> DataSummary:
        """The summary, after all lines."""
        if self._lines and not self._ended:
            self._builder.add_loss(NO_LAST_TIME, self._name)
        return DataSummary(self._end_ns, self._lines, self._unrecognized, self._samples, self._ended)

    def _set_time(self, match: re.Match[bytes], line: bytes, number: int) -> None:
        seconds, fraction = match[1], match[2] or b""
        time_ns = int(seconds) * NS_PER_S + int(fraction.ljust(9, b"0"))
        if time_ns < self._time_ns:
            self._add_loss(TIME_BACK, line, number)
        self._time_ns = time_ns
        self._end_ns = max(self._end_ns, time_ns)
        self._ended = True

    def _add_loss(self, reason: str, line: bytes, number: int) -> None:
        self._builder.add_loss(reason, f"{self._name}, {format_example(line, number)}")
