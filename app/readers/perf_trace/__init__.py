"""Reader of what `perf trace` prints: system calls with how long they took, and its summary.

         0.484 ( 0.015 ms): sh/25760 newfstatat(dfd: 4, filename: 0x272f2c99, flag: 4096)              = 0
        19.478 (         ): sh/25760 wait4(upid: -1, stat_addr: 0x7ffcbc)                              ...
        19.478 (28.799 ms): sh/25760  ... [continued]: wait4())                                        = 25762 (ls)

Without calls, its summary:

     sh (25770), 174 events, 24.4%

       syscall            calls  errors  total       min       avg       max       stddev
       wait4                  4      2    41.104     0.018    10.276    28.986     66.70%
"""

from typing import BinaryIO

from ...domain.profile import Profile
from ...ingest.text_lines import iterate_chunks
from .format import FORMAT, LINE, LOSSES, SUMMARY

__all__ = ["FORMAT", "LOSSES", "read", "sniff"]


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` was printed by `perf trace`."""
    if b"\0" in head:
        return False
    lines = [line.rstrip() for line in head.split(b"\n")[:60]]
    return any(LINE.fullmatch(line) or SUMMARY.fullmatch(line) for line in lines)


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a text. `source` names it in messages. Raises UnreadableInput if it has no calls."""
    # Compiled code is imported only when a file is read.
    from .profile import PerfTraceParser, build_profile

    perf_trace_parser = PerfTraceParser()
    for number, text in iterate_chunks(stream):
        perf_trace_parser.feed(number, text)
    return build_profile(perf_trace_parser, source, getattr(stream, "defect", None))
