"""The formats that can be read. The format of a file is detected from its content, never from its name.

The module of a format is imported when a file may have it: all of them take longer to load than a small file to read.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import BinaryIO, cast

from ..domain.errors import UnreadableInput
from ..domain.profile import Meta, Profile
from ..ingest.jit.mode import PLAIN_JSON_BYTES, PLAIN_LINES_BYTES, PLAIN_PROTOBUF_BYTES, PLAIN_TEXT_BYTES
from ..ingest.perf_text import script_header
from ..ingest.truncation import detect_truncation

HEAD_BYTES = script_header.HEAD_BYTES
"""How much of a file, unpacked, is checked to detect its format."""
BLANKS = b"\xef\xbb\xbf \t\r\n"
"""What may precede the first brace of JSON."""


@dataclass(frozen=True)
class Reader:
    """A format that can be read.

    name: as in `Meta.format`. label: for people. module: of this package; it has the functions `sniff` and `read` (with
    other names: `suffix` is appended) and LOSSES. losses_of: where else the reasons of losses are, as MODULE.NAME.
    is_object: whether it is a JSON object that no other format can be. needs_perf: it reads the output of `perf script`
    for the file. accepts_ncu_output: it also reads the output of `ncu` for the file, which contains more.
    takes_time_unit: `read` takes the unit of times, one of TIME_UNITS, which the file does not contain. uses_jit: its
    loops are compiled, which takes long the first time (see ingest/jit). plain_bytes: the size of files that plain
    Python reads before the compiler is loaded; 0: it needs the compiler. line_based: it is text of which every line
    ends with a line end, including the last.
    """

    name: str
    label: str
    module: str
    suffix: str = ""
    losses_of: tuple[str, ...] = ()
    is_object: bool = False
    needs_perf: bool = False
    accepts_ncu_output: bool = False
    takes_time_unit: bool = False
    uses_jit: bool = False
    plain_bytes: int = PLAIN_TEXT_BYTES
    line_based: bool = False

    def sniff(self, head: bytes) -> bool:
        """Whether a file with such a beginning has this format."""
        found: bool = getattr(_import(self.module), f"sniff{self.suffix}")(head)
        return found

    @cached_property
    def read(self) -> Callable[[BinaryIO, str], Profile]:
        """The profile in a stream of decompressed bytes. It raises UnreadableInput; parts that it could not read are in
        the profile's losses."""
        return detect_truncation(getattr(_import(self.module), f"read{self.suffix}"), self.line_based)

    @property
    def read_with_time_unit(self) -> Callable[[BinaryIO, str, str], Profile] | None:
        """`read` with the unit of times; None if the file contains it."""
        return cast(Callable[[BinaryIO, str, str], Profile], self.read) if self.takes_time_unit else None

    @cached_property
    def losses(self) -> tuple[str, ...]:
        """The reasons of losses, or the prefix of a reason that ends with an example; those of truncated files
        (truncation.py) come in addition."""
        places = [place.split(".") for place in self.losses_of or (f"{self.module}.LOSSES",)]
        return tuple(dict.fromkeys(loss for module, name in places for loss in getattr(_import(module), name)))


def _import(module: str) -> ModuleType:
    return importlib.import_module(f".{module}", __package__)


READERS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        Reader("profile", "a Perfloom profile", "stored_profile"),
        Reader(
            *("perf-data", "perf.data", "perf_data"),
            losses_of=("perf_script.LOSSES", "perf_sched.LOSSES", "perf_lock.LOSSES", "perf_data.LOSSES"),
            needs_perf=True,
        ),
        Reader("ftrace", "ftrace text", "ftrace", uses_jit=True, line_based=True),
        Reader("perf-sched", "perf sched text", "perf_sched", uses_jit=True, line_based=True),
        Reader("perf-lock", "perf lock contentions", "perf_lock", line_based=True),
        Reader("perf-script", "perf script text", "perf_script", line_based=True),
        Reader(
            *("nsight-compute", "a report of Nsight Compute", "nsight_compute", "_report"),
            losses_of=("nsight_compute.REPORT_LOSSES",),
            accepts_ncu_output=True,
        ),
        Reader(
            *("nsight-compute-csv", "Nsight Compute CSV", "nsight_compute"),
            losses_of=("nsight_compute.CSV_LOSSES",),
            line_based=True,
        ),
        Reader("perf-trace", "perf trace output", "perf_trace", uses_jit=True, line_based=True),
        Reader("perf-stat", "perf stat output", "perf_stat", line_based=True),
        Reader(
            *("pytorch", "a PyTorch profiler trace", "pytorch"),
            is_object=True,
            uses_jit=True,
            plain_bytes=PLAIN_JSON_BYTES,
        ),
        Reader("pytorch-memory-snapshot", "a PyTorch memory snapshot", "memory_snapshot", uses_jit=True),
        Reader("pytorch-memory-timeline", "a PyTorch memory timeline", "memory_timeline"),
        Reader("speedscope", "a speedscope file", "speedscope", is_object=True, uses_jit=True),
        Reader("mllm", "perf.json of mllm", "mllm", takes_time_unit=True, uses_jit=True),
        Reader("chrome-trace", "a Chrome JSON trace", "chrome", uses_jit=True, plain_bytes=PLAIN_JSON_BYTES),
        Reader(
            *("llama-trace", "a llama.cpp text trace", "llama_trace"),
            uses_jit=True,
            plain_bytes=PLAIN_LINES_BYTES,
            line_based=True,
        ),
        Reader("cpuprofile", "a .cpuprofile of Node or Chrome", "cpuprofile"),
        Reader(
            *("perfetto-trace", "a Perfetto trace", "perfetto_trace"),
            uses_jit=True,
            plain_bytes=PLAIN_PROTOBUF_BYTES,
        ),
        Reader("pprof", "a pprof profile", "pprof", uses_jit=True, plain_bytes=PLAIN_PROTOBUF_BYTES),
        Reader(
            *("callgrind", "a callgrind file", "callgrind"),
            uses_jit=True,
            plain_bytes=PLAIN_LINES_BYTES,
            line_based=True,
        ),
        Reader("austin", "austin samples", "austin"),
        Reader("py-spy", "py-spy stacks", "py_spy", line_based=True),
        Reader("memray", "a memray table", "memray_csv", line_based=True),
        Reader("perfanalyzer", "a result set of PerfAnalyzer", "perfanalyzer"),
        Reader("hpctoolkit", "an HPCToolkit database", "hpctoolkit"),
        Reader("collapsed", "collapsed stacks", "collapsed", line_based=True),
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
    return meta.facts.get("clock", "") if reader is not None and reader.takes_time_unit else ""


def detect_format(head: bytes, source: str = "this file") -> Reader:
    """The reader of a file that starts with `head` (HEAD_BYTES of it, decompressed). `source` names it in messages.

    Raises UnreadableInput with what is known about the file.
    """
    if not head:
        raise UnreadableInput(f"{source} is empty. Use {describe_formats()}.")
    if not head.strip(b"\0"):
        raise UnreadableInput(f"{source} begins with only zero bytes. Copy or record it again.")
    is_object = head.lstrip(BLANKS).startswith(b"{")
    # These first, so that the modules of the others are not loaded for them.
    for reader in sorted(READERS.values(), key=lambda reader: not (is_object and reader.is_object)):
        if reader.sniff(head):
            return reader
    from .unsupported import get_advice

    if advice := get_advice(head):
        raise UnreadableInput(f"{source} {advice}")
    raise UnreadableInput(f"The format of {source} is unknown. Use {describe_formats()}.")
