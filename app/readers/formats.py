"""The formats that can be read, and telling of which one a file is: by its content, never by its name."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import BinaryIO

from ..domain.errors import UnreadableInput
from ..domain.profile import Profile
from ..ingest.truncation import detect_truncation
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
    stored_profile,
)
from .unsupported import get_advice

HEAD_BYTES = 256 << 10
"""How much of a file, unpacked, is looked at to tell its format."""


@dataclass(frozen=True)
class Reader:
    """A format that can be read.

    name: as in `Meta.format`. label: for people. sniff: whether a file with such a beginning is of this format.
    read: the profile in a stream of unpacked bytes; it raises UnreadableInput, and what else it could not read
    stands in the profile's losses. needs_perf: it reads what `perf script` prints of the file. accepts_ncu_output: it
    reads what `ncu` prints of the file, too, and that holds more. read_with_time_unit: `read` for who knows the unit of
    its times, one of TIME_UNITS, which the file does not say.
    uses_jit: its loops are compiled, which takes long the first time (see compiling.py). line_based: it is text of
    which every line ends with a line end, the last one too.
    """

    name: str
    label: str
    sniff: Callable[[bytes], bool]
    read: Callable[[BinaryIO, str], Profile]
    needs_perf: bool = False
    accepts_ncu_output: bool = False
    uses_jit: bool = False
    read_with_time_unit: Callable[[BinaryIO, str, str], Profile] | None = None
    line_based: bool = False


READERS: dict[str, Reader] = {
    reader.name: replace(
        reader,
        read=detect_truncation(reader.read, reader.line_based),
        read_with_time_unit=detect_truncation(reader.read_with_time_unit, reader.line_based)
        if reader.read_with_time_unit
        else None,
    )
    for reader in (
        Reader(stored_profile.FORMAT, "a profile that Perfloom exported", stored_profile.sniff, stored_profile.read),
        Reader(perf_data.FORMAT, "perf.data", perf_data.sniff, perf_data.read, needs_perf=True),
        Reader(ftrace.FORMAT, "text of ftrace", ftrace.sniff, ftrace.read, uses_jit=True, line_based=True),
        Reader(
            perf_sched.FORMAT, "text of perf sched", perf_sched.sniff, perf_sched.read, uses_jit=True, line_based=True
        ),
        Reader(perf_lock.FORMAT, "waits of perf lock", perf_lock.sniff, perf_lock.read, line_based=True),
        Reader(perf_script.FORMAT, "perf script text", perf_script.sniff, perf_script.read, line_based=True),
        Reader(
            *(nsight_compute.FORMAT, "a report of Nsight Compute", nsight_compute.sniff_report),
            nsight_compute.read_report,
            accepts_ncu_output=True,
        ),
        Reader(
            nsight_compute.CSV_FORMAT,
            "CSV of Nsight Compute",
            nsight_compute.sniff,
            nsight_compute.read,
            line_based=True,
        ),
        Reader(
            perf_trace.FORMAT, "output of perf trace", perf_trace.sniff, perf_trace.read, uses_jit=True, line_based=True
        ),
        Reader(perf_stat.FORMAT, "perf stat output", perf_stat.sniff, perf_stat.read, line_based=True),
        Reader(
            *(pytorch.FORMAT, "a trace of PyTorch's profiler", pytorch.sniff, pytorch.read),
            uses_jit=True,
        ),
        Reader(
            *(memory_snapshot.FORMAT, "a memory snapshot of PyTorch", memory_snapshot.sniff, memory_snapshot.read),
            uses_jit=True,
        ),
        Reader(
            *(memory_timeline.FORMAT, "a memory timeline of PyTorch", memory_timeline.sniff, memory_timeline.read),
        ),
        Reader(speedscope.FORMAT, "a file of speedscope", speedscope.sniff, speedscope.read, uses_jit=True),
        Reader(mllm.FORMAT, "perf.json of mllm", mllm.sniff, mllm.read, uses_jit=True, read_with_time_unit=mllm.read),
        Reader(chrome.FORMAT, "a trace in Chrome's JSON", chrome.sniff, chrome.read, uses_jit=True),
        Reader(
            llama_trace.FORMAT,
            "a text trace of llama.cpp",
            llama_trace.sniff,
            llama_trace.read,
            uses_jit=True,
            line_based=True,
        ),
        Reader(cpuprofile.FORMAT, "a .cpuprofile of Node or Chrome", cpuprofile.sniff, cpuprofile.read),
        Reader(
            *(perfetto_trace.FORMAT, "a trace of Perfetto", perfetto_trace.sniff, perfetto_trace.read), uses_jit=True
        ),
        Reader(pprof.FORMAT, "a profile of pprof", pprof.sniff, pprof.read, uses_jit=True),
        Reader(
            callgrind.FORMAT, "a file of callgrind", callgrind.sniff, callgrind.read, uses_jit=True, line_based=True
        ),
        Reader(austin.FORMAT, "samples of austin", austin.sniff, austin.read),
        Reader(py_spy.FORMAT, "stacks of py-spy", py_spy.sniff, py_spy.read, line_based=True),
        Reader(memray_csv.FORMAT, "a table of memray", memray_csv.sniff, memray_csv.read, line_based=True),
        Reader(collapsed.FORMAT, "collapsed stacks", collapsed.sniff, collapsed.read, line_based=True),
    )
}


def describe_formats() -> str:
    """The formats that can be read, as part of a sentence."""
    labels = [reader.label for reader in READERS.values()]
    return f"{', '.join(labels[:-1])} or {labels[-1]}; each also packed as .gz, .zst or .xz"


def detect_format(head: bytes, source: str = "this file") -> Reader:
    """The reader of the file that starts with `head` (HEAD_BYTES of it, unpacked). `source` names it in messages.

    Raises UnreadableInput, saying what is known.
    """
    if not head:
        raise UnreadableInput(f"{source} is empty. Give {describe_formats()}.")
    if not head.strip(b"\0"):
        raise UnreadableInput(f"{source} begins with nothing but zero bytes. Copy or record it again.")
    for reader in READERS.values():
        if reader.sniff(head):
            return reader
    if said := get_advice(head):
        raise UnreadableInput(f"{source} {said}")
    raise UnreadableInput(f"The format of {source} is not known. Give {describe_formats()}.")
