"""The formats that can be read, and telling of which one a file is: by its content, never by its name."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import BinaryIO

from ..domain.errors import UnreadableInput
from ..domain.profile import Profile
from ..ingest.endings import whole
from . import (
    austin,
    callgrind,
    chrome,
    collapsed,
    cpuprofile,
    ftrace,
    llama_trace,
    memory_snapshot,
    memory_timeline,
    memray_csv,
    mllm,
    nsight_compute,
    perf_data,
    perf_lock,
    perf_sched,
    perf_script,
    perf_stat,
    perf_trace,
    perfetto_trace,
    pprof,
    py_spy,
    pytorch,
    speedscope,
    stored,
)
from .not_read import advice

HEAD_BYTES = 256 << 10
"""How much of a file, unpacked, is looked at to tell its format."""


@dataclass(frozen=True)
class Reader:
    """A format that can be read.

    name: as in `Meta.format`. label: for people. sniff: whether a file with such a beginning is of this format.
    read: the profile in a stream of unpacked bytes; it raises UnreadableInput, and what else it could not read
    stands in the profile's losses. needs_perf: it reads what `perf script` prints of the file. by_ncu: it reads what
    `ncu` prints of the file, too, and that holds more. by_clock: `read` for who knows the unit of its times, one of
    TIME_UNITS, which the file does not say.
    compiled: its loops are compiled, which takes long the first time (see compiling.py). by_lines: it is text of which
    every line ends with a line end, the last one too.
    """

    name: str
    label: str
    sniff: Callable[[bytes], bool]
    read: Callable[[BinaryIO, str], Profile]
    needs_perf: bool = False
    by_ncu: bool = False
    compiled: bool = False
    by_clock: Callable[[BinaryIO, str, str], Profile] | None = None
    by_lines: bool = False


READERS: dict[str, Reader] = {
    reader.name: replace(
        reader,
        read=whole(reader.read, reader.by_lines),
        by_clock=whole(reader.by_clock, reader.by_lines) if reader.by_clock else None,
    )
    for reader in (
        Reader(stored.FORMAT, "a profile that Perfloom exported", stored.sniff, stored.read),
        Reader(perf_data.FORMAT, "perf.data", perf_data.sniff, perf_data.read, needs_perf=True),
        Reader(ftrace.FORMAT, "text of ftrace", ftrace.sniff, ftrace.read, compiled=True, by_lines=True),
        Reader(
            perf_sched.FORMAT, "text of perf sched", perf_sched.sniff, perf_sched.read, compiled=True, by_lines=True
        ),
        Reader(perf_lock.FORMAT, "waits of perf lock", perf_lock.sniff, perf_lock.read, by_lines=True),
        Reader(perf_script.FORMAT, "perf script text", perf_script.sniff, perf_script.read, by_lines=True),
        Reader(
            *(nsight_compute.FORMAT, "a report of Nsight Compute", nsight_compute.sniff_report),
            nsight_compute.read_report,
            by_ncu=True,
        ),
        Reader(
            nsight_compute.CSV_FORMAT,
            "CSV of Nsight Compute",
            nsight_compute.sniff,
            nsight_compute.read,
            by_lines=True,
        ),
        Reader(
            perf_trace.FORMAT, "output of perf trace", perf_trace.sniff, perf_trace.read, compiled=True, by_lines=True
        ),
        Reader(perf_stat.FORMAT, "perf stat output", perf_stat.sniff, perf_stat.read, by_lines=True),
        Reader(pytorch.FORMAT, "a trace of PyTorch's profiler", pytorch.sniff, pytorch.read, compiled=True),
        Reader(
            *(memory_snapshot.FORMAT, "a memory snapshot of PyTorch", memory_snapshot.sniff, memory_snapshot.read),
            compiled=True,
        ),
        Reader(memory_timeline.FORMAT, "a memory timeline of PyTorch", memory_timeline.sniff, memory_timeline.read),
        Reader(speedscope.FORMAT, "a file of speedscope", speedscope.sniff, speedscope.read, compiled=True),
        Reader(mllm.FORMAT, "perf.json of mllm", mllm.sniff, mllm.read, compiled=True, by_clock=mllm.read),
        Reader(chrome.FORMAT, "a trace in Chrome's JSON", chrome.sniff, chrome.read, compiled=True),
        Reader(
            llama_trace.FORMAT,
            "a text trace of llama.cpp",
            llama_trace.sniff,
            llama_trace.read,
            compiled=True,
            by_lines=True,
        ),
        Reader(cpuprofile.FORMAT, "a .cpuprofile of Node or Chrome", cpuprofile.sniff, cpuprofile.read),
        Reader(
            *(perfetto_trace.FORMAT, "a trace of Perfetto", perfetto_trace.sniff, perfetto_trace.read), compiled=True
        ),
        Reader(pprof.FORMAT, "a profile of pprof", pprof.sniff, pprof.read, compiled=True),
        Reader(callgrind.FORMAT, "a file of callgrind", callgrind.sniff, callgrind.read, compiled=True, by_lines=True),
        Reader(austin.FORMAT, "samples of austin", austin.sniff, austin.read),
        Reader(py_spy.FORMAT, "stacks of py-spy", py_spy.sniff, py_spy.read, by_lines=True),
        Reader(memray_csv.FORMAT, "a table of memray", memray_csv.sniff, memray_csv.read, by_lines=True),
        Reader(collapsed.FORMAT, "collapsed stacks", collapsed.sniff, collapsed.read, by_lines=True),
    )
}


def known() -> str:
    """The formats that can be read, as part of a sentence."""
    labels = [reader.label for reader in READERS.values()]
    return f"{', '.join(labels[:-1])} or {labels[-1]}; each also packed as .gz, .zst or .xz"


def recognise(head: bytes, source: str = "this file") -> Reader:
    """The reader of the file that starts with `head` (HEAD_BYTES of it, unpacked). `source` names it in messages.

    Raises UnreadableInput, saying what is known.
    """
    if not head:
        raise UnreadableInput(f"{source} is empty. Give {known()}.")
    if not head.strip(b"\0"):
        raise UnreadableInput(f"{source} begins with nothing but zero bytes. Copy or record it again.")
    for reader in READERS.values():
        if reader.sniff(head):
            return reader
    if said := advice(head):
        raise UnreadableInput(f"{source} {said}")
    raise UnreadableInput(f"The format of {source} is not known. Give {known()}.")
