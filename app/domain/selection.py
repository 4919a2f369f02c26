"""Selection: which part of a profile is shown. The same value is used by pages, links, commands and API calls.

Parameters have the same names in a query string and on the command line (`--start-ms 12.5`, `?start-ms=12.5`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from .errors import InvalidRequest
from .list_text import format_ranges
from .units import NS_PER_MS

QUERY_PARAMETERS = (
    "event",
    "thread",
    "process",
    "rank",
    "host",
    "start-ms",
    "end-ms",
    "focus",
    "ignore",
    "hide",
    "show",
    "show-from",
    "invert",
    "recursion",
    "step",
)
PATTERN_FIELDS = {"focus": "focus", "ignore": "ignore", "hide": "hide", "show": "show", "show-from": "show_from"}
"""The parameters that are patterns, with their fields."""
RESHAPING_PARAMETERS = frozenset({"hide", "show", "show-from", "invert", "recursion"})
"""The parameters that change call stacks."""
MAX_WINDOW_NS = 1 << 61
"""The latest time of a selection: the differences of two times remain int64."""
MAX_PATTERN_CHARS = 2_000
UNKNOWN_HOST = "-"
"""Selects what has no host."""


@dataclass(frozen=True)
class FrameFilter:
    """Which frames of stacks are shown, as RE2 patterns; see `Selection`. Part of the keys of cached trees."""

    hide: str | None = None
    show: str | None = None
    show_from: str | None = None


ALL_FRAMES = FrameFilter()
"""Shows every frame."""


@dataclass(frozen=True)
class Selection:
    """A part of a profile; every field at its default selects all.

    event: its name (None: the result's main event). threads: keys as `format_thread_key` gives them, or thread names.
    processes: keys as `format_process_key` gives them, or process names. ranks: inclusive ranges. hosts: their names.
    Threads are selected that are in each of the four. start_ns, end_ns: from the profile's zero, end exclusive.

    focus, ignore, hide, show, show_from: RE2 patterns as pprof defines them (focus keeps stacks that match anywhere,
    ignore drops them, hide removes matching frames, show all others; show_from removes the callers of the outermost
    match that is left). more_focus: further patterns of focus; stacks match all of them. invert: callers of the
    innermost functions. recursion: collapse direct and indirect recursion.
    """

    event: str | None = None
    threads: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    ranks: tuple[tuple[int, int], ...] = ()
    hosts: tuple[str, ...] = ()
    start_ns: int | None = None
    end_ns: int | None = None
    focus: str | None = None
    more_focus: tuple[str, ...] = ()
    ignore: str | None = None
    hide: str | None = None
    show: str | None = None
    show_from: str | None = None
    invert: bool = False
    recursion: bool = False
    step: str | None = None

    @classmethod
    def from_query(cls, query: Mapping[str, Iterable[str]]) -> "Selection":
        """From the lists of values of a query string (`request.args.to_dict(flat=False)`); other parameters are
        ignored.

        Raises InvalidRequest for an invalid value.
        """
        values = {word: [v for v in query.get(word, ()) if v != ""] for word in QUERY_PARAMETERS}

        def last(word: str) -> str | None:
            return values[word][-1] if values[word] else None

        start_ns, end_ns = _parse_ns("start-ms", last("start-ms")), _parse_ns("end-ms", last("end-ms"))
        if start_ns is not None and end_ns is not None and end_ns <= start_ns:
            raise InvalidRequest("end-ms must be greater than start-ms; swap them or omit one.", "end-ms")
        for word in PATTERN_FIELDS:
            if any(len(text) > MAX_PATTERN_CHARS for text in values[word]):
                raise InvalidRequest(f"{word} is longer than {MAX_PATTERN_CHARS} characters; shorten it.", word)
        patterns = {field: last(word) for word, field in PATTERN_FIELDS.items()}
        focus = tuple(dict.fromkeys(values["focus"]))
        patterns["focus"] = focus[0] if focus else None
        return cls(
            event=last("event"),
            threads=tuple(dict.fromkeys(values["thread"])),
            processes=tuple(dict.fromkeys(values["process"])),
            ranks=parse_ranks(",".join(values["rank"])),
            hosts=tuple(dict.fromkeys(values["host"])),
            start_ns=start_ns,
            end_ns=end_ns,
            **patterns,
            more_focus=focus[1:],
            invert=parse_flag("invert", last("invert")),
            recursion=parse_flag("recursion", last("recursion")),
            step=last("step"),
        )

    def to_query(self) -> list[tuple[str, str]]:
        """As (parameter, value) pairs in a fixed order, without defaults; `from_query` of it is equal to this."""
        pairs: list[tuple[str, str]] = []
        if self.event is not None:
            pairs.append(("event", self.event))
        pairs += [("thread", key) for key in self.threads]
        pairs += [("process", key) for key in self.processes]
        if self.ranks:
            pairs.append(("rank", format_ranges(self.ranks, "-", ",")))
        pairs += [("host", name) for name in self.hosts]
        for word, value in (("start-ms", self.start_ns), ("end-ms", self.end_ns)):
            if value is not None:
                pairs.append((word, format_ms(value)))
        for word, field in PATTERN_FIELDS.items():
            if (pattern := getattr(self, field)) is not None:
                pairs.append((word, pattern))
            if word == "focus":
                pairs += [(word, pattern) for pattern in self.more_focus]
        pairs += [(w, "1") for w, on in (("invert", self.invert), ("recursion", self.recursion)) if on]
        if self.step is not None:
            pairs.append(("step", self.step))
        return pairs

    @property
    def frame_filter(self) -> FrameFilter:
        """The frames of stacks that it shows."""
        return FrameFilter(self.hide, self.show, self.show_from)

    @property
    def has_patterns(self) -> bool:
        """Whether it selects by functions: then only samples with a stack are selected."""
        return bool(self.focuses) or self.ignore is not None or self.frame_filter != ALL_FRAMES

    @property
    def focuses(self) -> tuple[str, ...]:
        """All patterns of focus."""
        return (*(() if self.focus is None else (self.focus,)), *self.more_focus)

    @property
    def divides_ranks(self) -> bool:
        """Whether it selects by thread or process: then counts and devices of whole ranks are not selected."""
        return bool(self.threads or self.processes)

    @property
    def has_places(self) -> bool:
        """Whether it selects by thread, process, rank or host."""
        return bool(self.threads or self.processes or self.ranks or self.hosts)

    def only_places(self) -> "Selection":
        """Only its threads, processes, ranks and hosts."""
        return Selection(threads=self.threads, processes=self.processes, ranks=self.ranks, hosts=self.hosts)

    def without_places(self) -> "Selection":
        """The same of all threads, processes, ranks and hosts."""
        return self.replace(threads=(), processes=(), ranks=(), hosts=())

    def with_focuses(self, patterns: Iterable[str]) -> "Selection":
        """The same with these patterns of focus."""
        given = tuple(dict.fromkeys(patterns))
        return self.replace(focus=given[0] if given else None, more_focus=given[1:])

    def focus_on(self, pattern: str) -> "Selection":
        """The same with a further pattern of focus."""
        return self.with_focuses((*self.focuses, pattern))

    @property
    def reshapes_stacks(self) -> bool:
        """Whether stacks are shown other than recorded."""
        return self.frame_filter != ALL_FRAMES or self.invert or self.recursion

    def without_stacks(self) -> "Selection":
        """The same without what concerns call stacks: patterns, direction, recursion."""
        return self.replace(**dict.fromkeys(PATTERN_FIELDS.values()), more_focus=(), invert=False, recursion=False)

    def replace(self, **changes: object) -> "Selection":
        """The same selection with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


def parse_ranks(text: str) -> tuple[tuple[int, int], ...]:
    """ "0-63,128" as inclusive ranges, in the order given."""
    ranges = []
    for part in (p.strip() for p in text.split(",") if p.strip()):
        low, dash, high = part.partition("-")
        if not (part.isascii() and low.isdecimal() and (high.isdecimal() if dash else True)) or len(part) > 20:
            raise InvalidRequest(f"rank {part!r} is not a number or range; write for example 0-63,128.", "rank")
        first, final = int(low), int(high or low)
        if final < first:
            raise InvalidRequest(f"rank range {part!r} ends before it starts; write {final}-{first}.", "rank")
        ranges.append((first, final))
    return tuple(ranges)


def format_thread_key(rank: int | None, pid: int | None, tid: int | None) -> str:
    """The stable key of a thread, "rank/pid/tid", with "-" for unknown parts."""
    return "/".join("-" if part is None else str(part) for part in (rank, pid, tid))


def format_process_key(rank: int | None, pid: int | None) -> str:
    """The stable key of a process, "rank/pid", with "-" for unknown parts."""
    return "/".join("-" if part is None else str(part) for part in (rank, pid))


UNKNOWN_THREAD = format_thread_key(None, None, None)
"""The key of data without a thread."""


def format_ms(ns: int) -> str:
    """Nanoseconds as exact milliseconds without trailing zeros: 1500000 → "1.5"."""
    text = format(Decimal(ns) / NS_PER_MS, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _parse_ns(word: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        # Decimal accepts underscores and digits of all scripts.
        if not text.isascii() or "_" in text:
            raise InvalidOperation
        value = Decimal(text)
        if not value.is_finite():
            raise InvalidOperation
    except InvalidOperation:
        raise InvalidRequest(f"{word} {text!r} is not a number of milliseconds.", word) from None
    if abs(value) > MAX_WINDOW_NS // NS_PER_MS:
        raise InvalidRequest(
            f"{word} is beyond ± {MAX_WINDOW_NS // NS_PER_MS:,} ms; choose a time of the recording.", word
        )
    return int(value * NS_PER_MS)


def check_choice(word: str, value: str, choices: Iterable[str]) -> str:
    """`value`, which must be one of `choices`. word: the parameter or option. Raises InvalidRequest."""
    known = tuple(choices)
    if value not in known:
        raise InvalidRequest(f"{word} must be one of {', '.join(known)}, not {value[:40]!r}.", word)
    return value


def parse_flag(word: str, text: str | None) -> bool:
    """The yes or no of the parameter `word`; absent is no. Raises InvalidRequest for anything else."""
    if text in (None, "0", "false", "no"):
        return False
    if text in ("1", "true", "yes", "on"):
        return True
    raise InvalidRequest(f"{word} must be 1 or 0, not {text!r}.", word)
