"""The grammar of perf script's text: one line at a time, as bytes.

Defined by perf's own printing functions (tools/perf/builtin-script.c and tools/perf/util/evsel_fprintf.c of Linux).
Fields that old versions and other field lists (`perf script -F`) omit are optional here.
"""

import re
from dataclasses import dataclass

from ...domain.tables import FrameKind
from ...domain.text import shorten
from ...domain.units import NS_PER_S, NS_PER_US
from ..losses import MAX_EXAMPLE_CHARS

MAX_WEIGHT = MAX_TIME_NS = 2**63 - 1
RECORD = b"PERF_RECORD_"
_NESTED = 16
MAX_CACHED_FRAMES = 1 << 17
"""How many lines without their addresses are cached."""

# perf writes time with 6 digits, or 9 with --ns; other tools with any number, or none, and some with a comma. The text
# before it is short (a comm has at most 15 characters); it is limited here so that no line takes quadratic time.
_TIMED = re.compile(
    rb"(?P<prefix>.{0,200}?)(?<!\S)(?P<seconds>\d{1,12})[.,](?P<fraction>\d{1,18}):"
    rb"(?:\s+(?P<period>\d+)(?=\s|$))?(?:\s+(?P<event>[^\s:]\S*?):(?=\s|$))?(?P<tail>.*)",
    re.DOTALL,
)
_WHOLE_SECONDS = re.compile(
    rb"(?P<prefix>\S(?:(?!:\s).){0,200}?(?<!\S)-?\d+(?:/-?\d+)?(?:\s+\[-?\d+\])?)\s+(?P<seconds>\d{1,12})(?P<fraction>):"
    rb"(?=\s|$)(?:\s+(?P<period>\d+)(?=\s|$))?(?:\s+(?P<event>[^\s:]\S*?):(?=\s|$))?(?P<tail>.*)",
    re.DOTALL,
)
_UNTIMED = re.compile(
    rb"(?P<prefix>(?:\S.{0,200}?)?(?<!\S)-?\d+(?:/-?\d+)?(?:\s+\[-?\d+\])?)"
    rb"(?:\s+(?P<period>\d+)(?=\s))?(?:\s+(?P<event>[^\s:\d]\S*?):(?=\s|$)(?P<tail>.*)|\s*$)",
    re.DOTALL,
)
_MAYBE_TIME = re.compile(rb"(?<!\S)([^\sA-Za-z:]+):(?=\s|$)")
_FITTING_SECONDS = 12
_PREFIX = re.compile(
    rb"(?P<comm>.*?)(?:(?:^|\s+)(?:(?P<pid>-?\d+)/)?(?P<tid>-?\d+)(?:\s+[KUHGgMESp]{1,3}(?=\s|$))?)?"
    rb"(?:\s+\[(?P<cpu>-?\d+)\](?:\s+[A-Za-z.]{1,8})?)?\s*",
    re.DOTALL,
)
_TIME_OF_DAY = re.compile(rb"(?<!\S)\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:\s+|$)")
_RECORD = re.compile(rb"(?:.{0,200}?[\d:\]]\s+|\s*)PERF_RECORD_([A-Z0-9_]+)", re.DOTALL)
_LOST = re.compile(rb"PERF_RECORD_LOST(?:_SAMPLES)?\b\D*(\d+)")
_ARROW = re.compile("(?<!operator)->")
_OFFSET = re.compile(rb"\+0x([0-9a-f]{1,16})$")
_FUNCTION_OFFSET = re.compile(rb"([^()\t]+)\+0x([0-9a-f]{1,16}) (\([^()\t]*\))\Z")
_HEX = re.compile(rb"[0-9a-fA-F]{1,16}$")
_PLACE = re.compile(rb"\s+(\S.*):(\d+)$|\s+\S.*\[[0-9a-f]+\]$")
_TRACEPOINT = re.compile(rb"[\w.-]+:[\w.-]+$")
_MODIFIERS = re.compile(rb":[ukhGHpPSDIWeb]+$")

_JIT_MAP = re.compile(r"(?:^|/)perf-[0-9]+\.map$|(?:^|/)jitted-[0-9]+-[0-9]+\.so$|^\[JIT\]|(?:^|/)jit-[0-9]+\.dump$")
_NOT_KERNEL = re.compile(r"^\[(?:unknown|vdso\w*|vvar\w*|vsyscall|heap|stack|anon|uprobes|guest/|JIT)|^\[vectors\]")
_KERNEL_FILE = re.compile(
    r"(?:^|/)(?:vmlinux[^/]*|kcore|bzImage[^/]*)$|\.ko(?:\.(?:gz|xz|zst|bz2))?$|^bpf_prog_|^bpf_tramp"
)
UNKNOWN_SYMBOL = "[unknown]"


@dataclass(frozen=True)
class SampleHeader:
    """The first line of a sample. prefix: the text before the time (see `task`).

    time_ns None: not printed. weight None: no period printed. event "": no event printed. tail: what follows the
    event on the same line. certain: there is a time or an event; without either, it is a header only if frames follow.
    """

    prefix: bytes
    time_ns: int | None
    weight: int | None
    event: bytes
    tail: bytes
    certain: bool


@dataclass(frozen=True)
class Task:
    """The thread: comm is None if not printed; a comm such as ":123" represents a name that perf did not know."""

    comm: str | None
    pid: int | None
    tid: int | None
    cpu: int


@dataclass(frozen=True)
class ScriptFrame:
    """One line of a stack. symbol and module: the raw text, without the offset. module "inlined": see `is_inlined`."""

    address: int | None
    symbol: str
    offset: int | None
    module: str


def decode_text(raw: bytes) -> str:
    """Bytes of a file as text. A byte that is not UTF-8 becomes four characters, such as "\\xff", so that different
    names remain different, and the text is valid Unicode."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode(errors="backslashreplace")


def format_example(line: bytes, number: int) -> str:
    """A line of a file with its number, as an example of a loss; shortened if it is long."""
    text = decode_text(line[: 4 * MAX_EXAMPLE_CHARS])
    return f"line {number}: {shorten(text, MAX_EXAMPLE_CHARS)}"


def parse_header(line: bytes) -> SampleHeader | None:
    """The header in `line` (no line end), or None if it is none."""
    line = strip_time_of_day(line.lstrip())
    if parse_record(line):
        return None
    match = _TIMED.match(line) or _WHOLE_SECONDS.match(line)
    if match:
        time_ns = int(match["seconds"]) * NS_PER_S + _parse_ns(match["fraction"], line[match.end("fraction") + 1 :])
        if time_ns > MAX_TIME_NS:
            return None
    else:
        match = _UNTIMED.match(line)
        if not match:
            return None
        time_ns = None
    if has_odd_time(match["prefix"]):
        return None
    tail = (match["tail"] or b"").strip()
    event, period = match["event"] or b"", match["period"]
    if not event and period is not None and is_frame_like(from_period := line[match.start("period") :].strip()):
        # Without an event's name, an address of decimal digits looks like a period.
        tail, period = from_period, None
    if tail and not is_frame_like(tail) and (not event or (time_ns is None and not is_tracepoint(event))):
        return None
    return SampleHeader(
        prefix=match["prefix"].rstrip(),
        time_ns=time_ns,
        # Longer numbers are cut: their value is too large either way.
        weight=None if period is None else int(period.lstrip(b"0")[:20] or b"0"),
        event=event,
        tail=tail,
        certain=time_ns is not None or bool(event),
    )


def has_odd_time(prefix: bytes) -> bool:
    """Whether the text before the time contains a time: one with too many digits, or with digits other than ASCII's.
    Without this check the period behind it would be parsed as the thread."""
    if b":" not in prefix:
        return False
    for match in _MAYBE_TIME.finditer(prefix + b" "):
        whole, dot, fraction = decode_text(match[1]).replace(",", ".").partition(".")
        if (whole + fraction).isdecimal() and (dot or len(whole) > _FITTING_SECONDS or not whole.isascii()):
            return True
    return False


def _parse_ns(fraction: bytes, rest: bytes) -> int:
    """The unit of the digits after the dot of a time, which precedes `rest`."""
    if len(fraction) < 6 and rest.startswith(b"\t"):
        # simpleperf of Android writes microseconds there, without leading zeros ("%d.%d:\\t\\t%d").
        return int(fraction or b"0") * NS_PER_US
    return int(fraction[:9].ljust(9, b"0"))


def strip_time_of_day(line: bytes) -> bytes:
    """A header without the date and time of day that `-F +tod` prints after the CPU."""
    return _TIME_OF_DAY.sub(b"", line, 1) if b"-" in line and b":" in line else line


def parse_task(prefix: bytes) -> Task:
    """Command, process, thread and CPU from the text before the time."""
    prefix = strip_time_of_day(prefix)
    match = _PREFIX.fullmatch(prefix.strip())
    if not match:
        return Task(decode_text(prefix.strip()), None, None, -1)
    pid, tid, cpu = (None if match[name] is None else int(match[name]) for name in ("pid", "tid", "cpu"))
    cpu = cpu if cpu is not None and 0 <= cpu < 1 << 31 else -1
    return Task(decode_text(match["comm"]) or None, _limit_id(pid), _limit_id(tid), cpu)


def _limit_id(number: int | None) -> int | None:
    return number if number is None or -(1 << 62) < number < 1 << 62 else None


def is_frame_like(line: bytes) -> bool:
    """Whether a line is an address, a symbol and a module, as perf prints a frame."""
    parts = line.split(None, 1)
    return len(parts) == 2 and bool(_HEX.match(parts[0])) and b"(" in parts[1] and parts[1].rstrip().endswith(b")")


def parse_frame(line: bytes) -> ScriptFrame | None:
    """The frame in a line of a stack (no line end), or None if it is none."""
    close = line.rfind(b")")
    if close < 0:
        return None
    # The module is in the last pair of parentheses, and may contain parentheses: "(/usr/lib/x.so (deleted))".
    if b"\t" in (bare := line.strip()):
        # Other tools put tabs between address, symbol and module.
        line = bare.replace(b"\t", b" ")
        close = line.rfind(b")")
    last = open_ = line.rfind(b" (", 0, close)
    if last < 0:
        return None
    for _ in range(_NESTED):
        if open_ < 0 or line.count(b"(", open_ + 2, close) == line.count(b")", open_ + 2, close):
            break
        open_ = line.rfind(b" (", 0, open_)
    else:
        open_ = -1
    open_ = open_ if open_ >= 0 else last
    module = line[open_ + 2 : close]
    head = line[:open_].lstrip()
    first, blank, rest = head.partition(b" ")
    if _HEX.match(first) and (blank or len(first) > 5):
        address, symbol = int(first, 16), rest.strip()
    else:
        address, symbol = None, head.rstrip()
    offset = _OFFSET.search(symbol)
    if offset:
        symbol = symbol[: offset.start()]
    return ScriptFrame(address, decode_text(symbol), int(offset[1], 16) if offset else None, decode_text(module))


def split_address(line: bytes) -> tuple[int, bytes] | None:
    """(address, the text after it) of a line of a stack as perf writes it: that text is the same for all processes that
    run the program, and yields symbol, offset and module. None if it is ambiguous."""
    if line[:1] != b"\t":
        return None
    first, _, rest = line.lstrip().partition(b" ")
    return (int(first, 16), rest) if b" (" in rest and _HEX.match(first) else None


def is_inlined(module: str) -> bool:
    """Whether a frame's module marks the function as inlined into the next outer frame."""
    return module == "inlined"


def split_inlined(symbol: str, module: str) -> list[str]:
    """A symbol split where it names functions inlined into each other, outermost first: "a->b".

    Writers of perf-PID.map files do so for compiled code. In other modules an arrow also belongs to operators,
    results and expressions in C++ and Rust: there it splits only between names, outside of brackets.
    """
    if "->" not in symbol:
        return [symbol]
    if _JIT_MAP.search(module):
        parts = _ARROW.split(symbol)
    elif "operator" in symbol or " ->" in symbol or "-> " in symbol:
        return [symbol]
    else:
        parts = _split_outside(symbol)
    return parts if all(parts) else [symbol]


def _split_outside(symbol: str) -> list[str]:
    parts, depth, start, at = [], 0, 0, 0
    while at < len(symbol):
        if symbol.startswith("->", at):
            if depth == 0:
                parts.append(symbol[start:at])
                start = at + 2
            at += 2
            continue
        depth += (symbol[at] in "(<[{") - (symbol[at] in ")>]}")
        at += 1
    return [*parts, symbol[start:]]


def classify_frame(symbol: str, module: str) -> FrameKind:
    """The kind of code of a frame, by its symbol and module."""
    if is_inlined(module):
        return FrameKind.INLINED
    if symbol.startswith("py::"):
        return FrameKind.PYTHON
    bare = module.removesuffix(" (deleted)")
    if (bare.startswith("[") and not _NOT_KERNEL.match(bare)) or _KERNEL_FILE.search(bare):
        return FrameKind.KERNEL
    if symbol in (UNKNOWN_SYMBOL, ""):
        return FrameKind.UNKNOWN
    return FrameKind.JIT if _JIT_MAP.search(bare) else FrameKind.USER


_SIMPLE: dict[bytes, tuple[str, int | None, str, FrameKind] | None] = {}


def parse_simple_frame(rest: bytes) -> tuple[str, int | None, str, FrameKind] | None:
    """(symbol, offset, module, kind) of a line of a stack by the text after its address; None if that is not one frame.
    Cached across all texts that a process reads: the ranks of a program print the same."""
    if rest in _SIMPLE:
        return _SIMPLE[rest]
    simple_frame: tuple[str, int | None, str, FrameKind] | None = None
    match = _FUNCTION_OFFSET.match(rest)
    # The places in a function differ only in their offsets.
    if match and match[2] != b"0":
        if (first := parse_simple_frame(b"%b+0x0 %b" % (match[1], match[3]))) is not None:
            simple_frame = first[0], int(match[2], 16), *first[2:]
    elif (
        (frame := parse_frame(b"1 " + rest)) is not None
        and not is_inlined(frame.module)
        and len(split_inlined(frame.symbol, frame.module)) == 1
    ):
        simple_frame = frame.symbol, frame.offset, frame.module, classify_frame(frame.symbol, frame.module)
    if len(_SIMPLE) >= MAX_CACHED_FRAMES:
        _SIMPLE.clear()
    _SIMPLE[rest] = simple_frame
    return simple_frame


def parse_source_line(line: bytes) -> int | None:
    """The line number that `-F +srcline` prints below a frame ("  main.c:137"); 0 for a file without a number; None if
    the line is something else."""
    match = _PLACE.match(line)
    if not match:
        return None
    return int(match[2]) if match[2] and len(match[2]) < 9 else 0


def parse_record(line: bytes) -> tuple[str, int] | None:
    """(kind, number of lost samples) of a line for a record other than a sample."""
    match = _RECORD.match(line) if RECORD in line else None
    if not match:
        return None
    lost = _LOST.search(line)
    return match[1].decode(), int(lost[1]) if lost and len(lost[1]) < 19 else 0


def is_tracepoint(event: bytes) -> bool:
    """Whether an event's name is that of a tracepoint ("sched:sched_switch", not "cycles:u")."""
    return bool(_TRACEPOINT.match(event)) and not _MODIFIERS.search(event)
