"""Reader of the text traces of llama.cpp's tracer, and of perfloom_trace.h, which writes the same and counters too.

    start_time: 34519553082.375
    thr: 23241, name: matmul_ffn_up-12_7, time: 34519553429.100
    thr: 23241, name: end_matmul_ffn_up-12_7, time: 34519553431.842
    thr: 23241, counter: tokens, value: 12, time: 34519553440
    end_time: 34520659278

Times are microseconds of a clock that begins when the machine does. A name is what was traced, and a number of its own
behind a _; the line of its end repeats both behind end_. Threads come in any order, each thread's lines in the order of
time.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from ..domain.errors import UnreadableInput
from ..domain.profile import Profile

if TYPE_CHECKING:
    from .llama_assembly import Collected

FORMAT = "llama-trace"
CHUNK_BYTES = 8 << 20
MOST_NS = 1 << 61
NO_LINE = "line that is none of such a trace"
NO_TIME = "line with a time that cannot be"
NO_BEGIN = "end of something that never began"
NO_VALUE = "counter whose value is no number"
CUT_OFF = "The file ends without end_time: the program was killed, or the file is cut off."

_LINE = re.compile(
    rb"thr: *(?P<thread>.*?), (?:name: (?P<name>.*)|counter: (?P<counter>.*), value: (?P<value>\S+)), "
    rb"time: *(?P<us>\d+)(?:\.(?P<part>\d*))?\s*",
    re.DOTALL,
)
_EDGE = re.compile(rb"(start_time|end_time|lost): *(\d+)(?:\.(\d*))?\s*")
_SNIFF = re.compile(rb"^\s*start_time: *\d+|^thr: .*, (?:name|counter): .*, time: *\d+", re.MULTILINE)


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is such a trace."""
    return _SNIFF.match(head.removeprefix(b"\xef\xbb\xbf")) is not None


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a trace. `source` names it in messages. Raises UnreadableInput where nothing is traced in it."""
    # What is compiled is loaded where something is read, and nowhere else.
    from .llama_assembly import Collected, assembled

    found = Collected()
    for number, line in enumerate(_lines(stream), 1):
        if match := _LINE.fullmatch(line):
            time_ns = _ns(match["us"], match["part"])
            if time_ns is None:
                found.lost(NO_TIME, number, line)
            elif match["counter"] is not None:
                _counter(found, match, time_ns, number, line)
            else:
                name, thread = (match[word].decode("utf-8", "replace") for word in ("name", "thread"))
                if not found.takes(name, thread, time_ns):
                    found.lost(NO_BEGIN, number, line)
        elif edge := _EDGE.fullmatch(line):
            time_ns = _ns(edge[2], edge[3])
            found.edges.setdefault(edge[1].decode(), time_ns if time_ns is not None else 0)
        elif line.strip():
            found.lost(NO_LINE, number, line)
    if not found.anything:
        raise UnreadableInput(
            f"Nothing was traced in {source}. Call begin_trace and end_trace between start_tracing_session and "
            "stop_tracing_session, and run the program again."
        )
    return assembled(found, source, getattr(stream, "defect", None))


def _counter(found: "Collected", match: re.Match[bytes], time_ns: int, number: int, line: bytes) -> None:
    try:
        value = float(match["value"])
    except ValueError:
        found.lost(NO_VALUE, number, line)
        return
    found.events.counter(match["counter"].decode("utf-8", "replace"), time_ns, value)


def _ns(us: bytes, part: bytes | None) -> int | None:
    """Nanoseconds, exactly; None where no clock tells such a time."""
    if len(us) > 18:
        return None
    found = int(us) * 1000 + int((part or b"").ljust(3, b"0")[:3])
    return found if found < MOST_NS else None


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    rest = b""
    while data := stream.read(CHUNK_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
    if rest:
        yield rest
