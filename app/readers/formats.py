"""The formats that can be read. The format of a file is detected from its content, never from its name."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import BinaryIO, Protocol

from ..domain.errors import UnreadableInput
from ..domain.profile import Meta, Profile
from ..ingest.jit.mode import PLAIN_LINES_BYTES, PLAIN_PROTOBUF_BYTES, PLAIN_TEXT_BYTES
from ..ingest.perf_records.losses import RECORD_LOSSES
from ..ingest.perf_text import script_header
from ..ingest.truncation import detect_truncation
from . import (
    austin,
    callgrind,
    chrome,
    collapsed,
    cpuprofile,
    ftrace,
    hpctoolkit,
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
    perfanalyzer,
    perfetto_trace,
    pprof,
    py_spy,
    pytorch,
    speedscope,
    stored_profile,
)
from .unsupported import get_advice

HEAD_BYTES = script_header.HEAD_BYTES
"""How much of a file, unpacked, is checked to detect its format."""


@dataclass(frozen=True)
class Reader:
    """A format that can be read.

    name: as in `Meta.format`. label: for people. sniff: whether a file with such a beginning has this format. read: the
    profile in a stream of decompressed bytes; it raises UnreadableInput, and parts that it could not read are in the
    profile's losses. losses: their reasons, or the prefix of a reason that ends with an example; those of truncated
    files (truncation.py) come in addition. needs_perf: it reads the output of `perf script` for the file.
    accepts_ncu_output: it also reads the output of `ncu` for the file, which contains more. read_with_time_unit: `read`
    with the unit of times, one of TIME_UNITS, which the file does not contain. uses_jit: its loops are compiled, which
    takes long the first time (see ingest/jit). plain_bytes: the size of files that plain Python reads before the
    compiler is loaded; 0: it needs the compiler. line_based: it is text of which every line ends with a line end,
    including the last.
    """

    name: str
    label: str
    sniff: Callable[[bytes], bool]
    read: Callable[[BinaryIO, str], Profile]
    losses: tuple[str, ...]
    needs_perf: bool = False
    accepts_ncu_output: bool = False
    uses_jit: bool = False
    plain_bytes: int = PLAIN_TEXT_BYTES
    read_with_time_unit: Callable[[BinaryIO, str, str], Profile] | None = None
    line_based: bool = False


class ReaderModule(Protocol):
    """A module or package that reads one format. LOSSES: see `Reader.losses`."""

    @property
    def FORMAT(self) -> str: ...
    @property
    def LOSSES(self) -> tuple[str, ...]: ...
    @property
    def sniff(self) -> Callable[[bytes], bool]: ...
    @property
    def read(self) -> Callable[[BinaryIO, str], Profile]: ...


def _fields_of(
    module: ReaderModule, label: str
) -> tuple[str, str, Callable[[bytes], bool], Callable[[BinaryIO, str], Profile], tuple[str, ...]]:
    """The first five fields of a module's Reader."""
    return module.FORMAT, label, module.sniff, module.read, module.LOSSES


READERS: dict[str, Reader] = {
    reader.name: replace(
        reader,
        read=detect_truncation(reader.read, reader.line_based),
        read_with_time_unit=detect_truncation(reader.read_with_time_unit, reader.line_based)
        if reader.read_with_time_unit
        else None,
    )
    for reader in (
        Reader(*_fields_of(stored_profile, "a Perfloom profile")),
        Reader(
            *(perf_data.FORMAT, "perf.data", perf_data.sniff, perf_data.read),
            tuple(dict.fromkeys((*perf_script.LOSSES, *perf_sched.LOSSES, *perf_lock.LOSSES, *RECORD_LOSSES))),
            needs_perf=True,
        ),
        Reader(*_fields_of(ftrace, "ftrace text"), uses_jit=True, line_based=True),
        Reader(*_fields_of(perf_sched, "perf sched text"), uses_jit=True, line_based=True),
        Reader(*_fields_of(perf_lock, "perf lock contentions"), line_based=True),
        Reader(*_fields_of(perf_script, "perf script text"), line_based=True),
        Reader(
            *(nsight_compute.FORMAT, "a report of Nsight Compute", nsight_compute.sniff_report),
            nsight_compute.read_report,
            nsight_compute.REPORT_LOSSES,
            accepts_ncu_output=True,
        ),
        Reader(
            nsight_compute.CSV_FORMAT,
            "Nsight Compute CSV",
            nsight_compute.sniff,
            nsight_compute.read,
            nsight_compute.CSV_LOSSES,
            line_based=True,
        ),
        Reader(*_fields_of(perf_trace, "perf trace output"), uses_jit=True, line_based=True),
        Reader(*_fields_of(perf_stat, "perf stat output"), line_based=True),
        Reader(*_fields_of(pytorch, "a PyTorch profiler trace"), uses_jit=True),
        Reader(*_fields_of(memory_snapshot, "a PyTorch memory snapshot"), uses_jit=True),
        Reader(*_fields_of(memory_timeline, "a PyTorch memory timeline")),
        Reader(*_fields_of(speedscope, "a speedscope file"), uses_jit=True),
        Reader(
            *_fields_of(mllm, "perf.json of mllm"),
            uses_jit=True,
            plain_bytes=PLAIN_TEXT_BYTES,
            read_with_time_unit=mllm.read,
        ),
        Reader(*_fields_of(chrome, "a Chrome JSON trace"), uses_jit=True),
        Reader(
            *_fields_of(llama_trace, "a llama.cpp text trace"),
            uses_jit=True,
            plain_bytes=PLAIN_LINES_BYTES,
            line_based=True,
        ),
        Reader(*_fields_of(cpuprofile, "a .cpuprofile of Node or Chrome")),
        Reader(*_fields_of(perfetto_trace, "a Perfetto trace"), uses_jit=True, plain_bytes=PLAIN_PROTOBUF_BYTES),
        Reader(*_fields_of(pprof, "a pprof profile"), uses_jit=True, plain_bytes=PLAIN_PROTOBUF_BYTES),
        Reader(
            *_fields_of(callgrind, "a callgrind file"), uses_jit=True, plain_bytes=PLAIN_LINES_BYTES, line_based=True
        ),
        Reader(*_fields_of(austin, "austin samples")),
        Reader(*_fields_of(py_spy, "py-spy stacks"), line_based=True),
        Reader(*_fields_of(memray_csv, "a memray table"), line_based=True),
        Reader(*_fields_of(perfanalyzer, "a result set of PerfAnalyzer")),
        Reader(*_fields_of(hpctoolkit, "an HPCToolkit database")),
        Reader(*_fields_of(collapsed, "collapsed stacks"), line_based=True),
    )
}


def describe_formats() -> str:
    """The formats that can be read, as part of a sentence."""
    labels = [reader.label for reader in READERS.values()]
    return f"{', '.join(labels[:-1])} or {labels[-1]}; each also compressed as .gz, .zst or .xz"


def format_title(name: str) -> str:
    """The label of a format as a heading; its name if no reader of this version has it."""
    return READERS[name].label.removeprefix("a ").removeprefix("an ") if name in READERS else name


def describe_clock(meta: Meta) -> str:
    """The unit that was assumed for the times of the file; empty if the file contains it."""
    reader = READERS.get(meta.format)
    return meta.facts.get("clock", "") if reader is not None and reader.read_with_time_unit else ""


def detect_format(head: bytes, source: str = "this file") -> Reader:
    """The reader of a file that starts with `head` (HEAD_BYTES of it, decompressed). `source` names it in messages.

    Raises UnreadableInput with what is known about the file.
    """
    if not head:
        raise UnreadableInput(f"{source} is empty. Use {describe_formats()}.")
    if not head.strip(b"\0"):
        raise UnreadableInput(f"{source} begins with only zero bytes. Copy or record it again.")
    for reader in READERS.values():
        if reader.sniff(head):
            return reader
    if advice := get_advice(head):
        raise UnreadableInput(f"{source} {advice}")
    raise UnreadableInput(f"The format of {source} is unknown. Use {describe_formats()}.")
