"""Reader of the text traces of llama.cpp's tracer, and of perfloom_trace.h, which writes the same and counters too.

    start_time: 34519553082.375
    thr: 23241, name: matmul_ffn_up-12_7, time: 34519553429.100
    thr: 23241, name: end_matmul_ffn_up-12_7, time: 34519553431.842
    thr: 23241, counter: tokens, value: 12, time: 34519553440
    end_time: 34520659278

Times are microseconds of a clock that begins when the machine does. A name is what was traced, and its own number
behind a _; the line of its end repeats both behind end_. Threads come in any order, each thread's lines in the order of
time.
"""

import re
from typing import BinaryIO

from ...domain.profile import Profile
from ...ingest.losses import UNRECOGNIZED_LINE
from ...ingest.parse_quality import check_parse_quality
from .format import FORMAT, LOSSES

__all__ = ["FORMAT", "LOSSES", "read", "sniff"]

_SNIFF = re.compile(rb"^\s*start_time: *\d+|^thr: .*, (?:name|counter): .*, time: *\d+", re.MULTILINE)


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is a trace of this format."""
    return _SNIFF.match(head.removeprefix(b"\xef\xbb\xbf")) is not None


@check_parse_quality("lines of a text trace of llama.cpp", UNRECOGNIZED_LINE)
def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a trace. `source` names it in messages. Raises UnreadableInput if it has no events."""
    # Compiled code is imported only when a file is read.
    from .assembly import build_profile
    from .lines import read_lines

    return build_profile(read_lines(stream), source, getattr(stream, "defect", None))
