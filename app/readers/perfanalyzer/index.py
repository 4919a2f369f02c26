"""The .results file: the events with their counters, and the names of the data files.

event_counter-cycles:run-5:1280000      event, the execution of the command that sampled it, events per sample
time_interval:0.5                       length of a time slice, in s
cpu_id:General                          PerfAnalyzer's list of events
system_wide                             only if all processes were sampled
DD_proc0_cycles                         a data file: job, process (and host), event
"""

import re
from dataclasses import dataclass
from typing import BinaryIO

from ...domain.errors import UnreadableInput
from ...domain.units import NS_PER_S
from ...ingest.losses import UNRECOGNIZED_LINE
from ...ingest.perf_text.grammar import decode_text, format_example
from .format import MAX_INDEX_BYTES, UNSAFE_NAME

SNIFFED_LINES = 40
_COUNTER = re.compile(r"event_counter-(?P<event>.+):run-(?P<run>[0-9]{1,9}):(?P<counter>[0-9]{1,18})", re.ASCII)
_INTERVAL = re.compile(r"time_interval:(?P<seconds>[0-9]{1,9}(?:\.[0-9]{1,9})?)", re.ASCII)
_CPU = re.compile(r"cpu_id:(?P<name>.{0,200})")
_SYSTEM_WIDE = re.compile(r"system_wide(?::.*)?")
# Of several parts that name a process, PerfAnalyzer takes the last.
_NAME = re.compile(r"(?P<job>.*)_proc(?P<process>all|[0-9]{1,9})_(?P<event>.+)", re.ASCII)
_HOST = re.compile(r"_host([0-9]{1,9})$", re.ASCII)


@dataclass(frozen=True)
class EventCounter:
    """run: number of the execution that sampled the event. counter: events per sample; for the kernel's clocks samples
    per second. 1: the data files have the events themselves."""

    run: int
    counter: int


@dataclass(frozen=True)
class DataFile:
    """A data file by its name. process: None for sums over all processes. host: its number, of recordings of hosts."""

    name: str
    process: int | None
    event: str
    host: int | None = None


@dataclass(frozen=True)
class ResultIndex:
    """The content of a .results file. losses: (reason, example)."""

    counters: dict[str, EventCounter]
    files: tuple[DataFile, ...]
    interval_ns: int | None
    cpu: str
    system_wide: bool
    losses: tuple[tuple[str, str], ...]


def is_index(head: bytes) -> bool:
    """Whether a file that starts with `head` is a .results file."""
    lines = head.decode("utf-8", "replace").splitlines()[:SNIFFED_LINES]
    if any(_COUNTER.fullmatch(line) for line in lines):
        return True
    return any(map(_INTERVAL.fullmatch, lines)) and any(map(_CPU.fullmatch, lines))


def parse_name(name: str) -> DataFile | None:
    """The data file with this name; None if it is no name of one."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    process = None if match["process"] == "all" else int(match["process"])
    host = _HOST.search(match["job"])
    return DataFile(name, process, match["event"], int(host[1]) if host else None)


def read_index(stream: BinaryIO, source: str) -> ResultIndex:
    """The index in a .results file. `source` names it in messages. Raises UnreadableInput if it is too large."""
    data = stream.read(MAX_INDEX_BYTES + 1)
    if len(data) > MAX_INDEX_BYTES:
        raise UnreadableInput(f"{source} has more than {MAX_INDEX_BYTES >> 20} MiB, too much for a .results file.")
    counters: dict[str, EventCounter] = {}
    files: dict[str, DataFile] = {}
    losses: list[tuple[str, str]] = []
    interval_ns, cpu, system_wide = None, "", False
    for number, raw in enumerate(data.split(b"\n"), 1):
        line = decode_text(raw.strip())
        if match := _COUNTER.fullmatch(line):
            counters[match["event"]] = EventCounter(int(match["run"]), int(match["counter"]))
        elif match := _INTERVAL.fullmatch(line):
            interval_ns = round(float(match["seconds"]) * NS_PER_S)
        elif match := _CPU.fullmatch(line):
            cpu = match["name"]
        elif _SYSTEM_WIDE.fullmatch(line):
            system_wide = True
        elif "/" in line or "\\" in line:
            losses.append((UNSAFE_NAME, format_example(raw, number)))
        elif (file := parse_name(line)) is not None:
            files[line] = file
        elif line:
            losses.append((UNRECOGNIZED_LINE, format_example(raw, number)))
    return ResultIndex(counters, tuple(files.values()), interval_ns, cpu, system_wide, tuple(losses))
