"""What `perf lock contention` and `perf lock report` print: how often and how long locks were waited for.

     contended   total wait     max wait     avg wait         type   caller

             4      2.83 ms      1.09 ms    707.05 us     spinlock   ext4_read_bh+0xa2
                            0xffffffff82203efe  __pv_queued_spin_lock_slowpath+0x10e
                            0xffffffff8220319d  _raw_spin_lock_irqsave+0x4d

Each line is the sum over a caller, a thread, a lock, an owner of locks or a control group; with -v the call stack
is below it, innermost first. With -x the columns are in a comment, with the selected separator. Defined by perf's
own printing (tools/perf/builtin-lock.c of Linux).
"""

import re
from decimal import Decimal

from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.profile import Meta, Profile
from ...domain.tables import FrameKind
from ...domain.timed_events import LOCK_WAIT
from ...domain.units import NS_PER_MS, NS_PER_S, NS_PER_US
from ...ingest.losses import MAX_EXAMPLE_CHARS, UNRECOGNIZED_LINE
from .format import BAD_LOCKS, FORMAT, NO_TOTAL

MAX_LINE_BYTES = 4000
WAIT, CONTENDED, ACQUIRED = LOCK_WAIT, "contended locks", "acquired locks"
"""The events: ns waited, number of waits for a lock, and number of acquisitions."""
MAX_VALUE = 1 << 62
STACK = "stacktrace"
_NS = {"ns": 1, "us": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S, "m": 60 * NS_PER_S, "h": 3600 * NS_PER_S}
_COUNTS, _TIMES = ("contended", "acquired"), ("total wait", "max wait", "avg wait", "min wait")
_NUMBERS = "|".join((*_COUNTS, *_TIMES))
_NAMES = rf"{_NUMBERS}|type|caller|pid|comm|owner|address|symbol|cgroup"
_HEADER = re.compile(
    rf" *(?:Name +)?(?:(?:{_NUMBERS}) +)+(?:{_NUMBERS}|type +caller|pid +\w+|address +\w+|cgroup) *", re.ASCII
)
_COLUMN = re.compile(rf"{_NUMBERS}|\S+")
# Any text may separate columns; a space follows it.
_CSV = re.compile(rf"# output: ((?:{_NAMES})(.{{1,8}}? )(?:{_NAMES})(?:\2.*)?)")
_BAD = re.compile(r"(?:# debug: total=\d+.{1,8}?bad=|bad: )([1-9]\d{0,17})\b.*")
_TIME = re.compile(r"(\d{1,18}(?:\.\d{1,9})?) (ns|us|ms|s|m|h)\b *")
_FRAME = re.compile(r"\s+(0x[0-9a-f]{1,16})(?:\s+(\S.*)?)?")
_TRACED = re.compile(r"(?:^|:) ?(0x[0-9a-f]{1,16}) ([^:]*)")
_QUIET = re.compile(r"\s*|=== output for debug ?===|bad: .*|bad rate: .*|histogram of .*|\s+\w+: \d+|# .*|-+", re.ASCII)
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is a table of locks."""
    lines = head[:16384].decode("utf-8", "replace").splitlines()[:60]
    return any(_HEADER.fullmatch(line) or _CSV.fullmatch(line) for line in lines)


class LockTableParser:
    """Collects the lines of a table."""

    def __init__(self) -> None:
        self._builder = ProfileBuilder(FORMAT)
        self._columns: list[str] = []
        self._mark = ""
        self._row: tuple[dict[str, int], list[str]] | None = None
        self._frames: list[tuple[int, str]] = []
        self._traced = ""
        self._taken = 0

    def feed(self, number: int, text: bytes) -> None:
        """Parse lines, the first of which has the number `number`."""
        for at, line in enumerate(text.decode("utf-8", "backslashreplace").split("\n"), number):
            self._parse_line(at, line)

    def _parse_line(self, number: int, line: str) -> None:
        line = line[:MAX_LINE_BYTES]
        if match := _CSV.fullmatch(line):
            self._mark, self._columns = match[2], match[1].split(match[2])
        elif not self._mark and _HEADER.fullmatch(line):
            self._columns = _COLUMN.findall(line)
        elif bad := _BAD.fullmatch(line):
            self._builder.add_loss(BAD_LOCKS, f"line {number}: {line[:MAX_EXAMPLE_CHARS]}", int(bad[1]))
        elif frame := _FRAME.fullmatch(line):
            self._frames.append((int(frame[1], 16), frame[2] or "[unknown]"))
        elif row := self._parse_row(line):
            self._close(number)
            self._row = row
            self._frames += [(int(at, 16), name.strip() or "[unknown]") for at, name in _TRACED.findall(self._traced)]
        elif self._columns and not _QUIET.fullmatch(line):
            # Lines before the table are messages of perf.
            self._builder.add_loss(UNRECOGNIZED_LINE, f"line {number}: {line[:MAX_EXAMPLE_CHARS].strip()}")

    def _parse_row(self, line: str) -> tuple[dict[str, int], list[str]] | None:
        """Numbers by column name, and the remaining text; None if it is not a line of the table."""
        if self._mark:
            return self._parse_separated_row(line)
        words: list[str] = []
        found: dict[str, int] = {}
        rest = line.strip()
        for index, name in enumerate(self._columns):
            if name in _COUNTS and (count := re.match(r"(\d{1,18})(?:\s+|$)", rest)):
                found[name], rest = int(count[1]), rest[count.end() :]
            elif name in _TIMES and (time := _TIME.match(rest)):
                found[name], rest = int(Decimal(time[1]) * _NS[time[2]]), rest[time.end() :].lstrip()
            elif name in (*_COUNTS, *_TIMES):
                return None
            elif index == len(self._columns) - 1:
                words.append(rest)
            elif not rest:
                return None
            elif name == "Name":
                word = re.match(r"(.*?)\s+(?=\d+\s+\d)", rest)
                if word is None:
                    return None
                words.append(word[1])
                rest = rest[word.end() :]
            else:
                word_, _, rest = rest.partition(" ")
                words.append(word_)
                rest = rest.lstrip()
        return (found, words) if found else None

    def _parse_separated_row(self, line: str) -> tuple[dict[str, int], list[str]] | None:
        """Like `_parse_row`, for columns with a separator."""
        parts = [part.strip() for part in line.split(self._mark, len(self._columns) - 1)]
        if self._columns[-1] == STACK:
            # Without a stack it ends before.
            parts += [""] * (len(self._columns) - 1 == len(parts))
        if len(parts) < len(self._columns) or line.startswith("#"):
            return None
        row = dict(zip(self._columns, parts, strict=True))
        numbers = {name: part for name, part in row.items() if name in (*_COUNTS, *_TIMES)}
        if not all(re.fullmatch("[0-9]{1,18}", part) for part in numbers.values()) or not numbers:
            return None
        self._traced = row.get(STACK, "")
        return {name: int(part) for name, part in numbers.items()}, [
            part for name, part in row.items() if name not in numbers
        ]

    def _close(self, number: int) -> None:
        """Count the open line, with its stack."""
        row, frames = self._row, self._frames
        self._row, self._frames = None, []
        if row is None:
            return
        numbers, words = row
        thread, stack = self._intern_place(words, frames)
        if "total wait" not in numbers:
            self._builder.add_loss(NO_TOTAL, f"before line {number}: {' '.join(words)[:MAX_EXAMPLE_CHARS]}")
        for name, event, unit in (
            *(("total wait", WAIT, "ns"), ("contended", CONTENDED, "count")),
            ("acquired", ACQUIRED, "count"),
        ):
            if 0 < numbers.get(name, 0) < MAX_VALUE:
                self._builder.add_sample(0, thread, self._builder.intern_event(event, unit), stack, numbers[name])
                self._taken += 1

    def _intern_place(self, words: list[str], frames: list[tuple[int, str]]) -> tuple[int, int]:
        """The thread and the stack of a line: a caller and a type of lock, a thread, or a lock."""
        builder = self._builder
        names = [name for name in self._columns if name not in (*_COUNTS, *_TIMES)]
        row = dict(zip(names, words, strict=False))
        thread = builder.intern_thread()
        # With owners, pid and comm are those of the owner, not of the waiting thread.
        if "owner" not in row and re.fullmatch("[0-9]{1,10}", row.get("pid", "")):
            thread = builder.intern_thread(tid=int(row["pid"]))
            if row.get("comm"):
                builder.set_thread_name(thread, 0, row["comm"])
        stack = [self._intern_frame(symbol, address) for address, symbol in reversed(frames)]
        place = row.get("caller") or row.get("Name") or row.get("cgroup")
        kind = row.get("type") or ""
        if "address" in row:
            # After the lock's name, which is often missing, its type may be in parentheses.
            name = row.get("symbol", "")
            if not kind and name.endswith(")"):
                name, _, kind = (part.rstrip(" )") for part in name.rpartition("("))
            place = name or f"lock at 0x{row['address'].removeprefix('0x').lstrip('0') or '0'}"
        elif "owner" in row:
            place = f"held by {row['owner'] or 'an unknown thread'}"
        if not stack and place:
            stack = [self._intern_frame(place, None)]
        if kind or not stack:
            stack.append(builder.intern_frame(builder.intern_function(kind or "lock"), kind=FrameKind.ANNOTATION))
        return thread, builder.intern_stack(stack)

    def _intern_frame(self, symbol: str, address: int | None) -> int:
        offset = _OFFSET.search(symbol)
        name = symbol[: offset.start()] if offset else symbol
        place = int(offset[0][3:], 16) if offset and len(offset[0]) < 18 else None
        function = self._builder.intern_function(name)
        return self._builder.intern_frame(function, kind=FrameKind.KERNEL, address=address, symbol_offset=place)

    def finish(self, source: str, defect: str | None) -> Profile:
        """The profile of all lines. Raises UnreadableInput if no thread waited for a lock."""
        self._close(0)
        if not self._taken:
            raise UnreadableInput(
                f"{source} has no lock waits. Record with perf lock record -- PROGRAM, and import the output of "
                "perf lock contention -v."
            )
        self._builder.add_run()
        return self._builder.finish(Meta(FORMAT, complete=defect is None, reasons=(defect,) if defect else ()))
