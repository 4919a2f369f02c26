"""Sums of a callgrind file by thread: self cost of functions and cost of calls."""

import re
from dataclasses import dataclass, field

import numpy as np

from ...domain.arrays import Array
from ...ingest.losses import MAX_EXAMPLE_CHARS, UNRECOGNIZED_LINE
from ...ingest.perf_text.grammar import decode_text, format_example
from ...ingest.trace_json.simd import PAD
from ...ingest.trace_json.string_table import grow, make_table
from . import kernel
from .format import BELOW_ZERO, NO_FORMULA, NOT_NAMED, OTHER_SUM, TOO_MANY_NAMES
from .tree import Graph

ROWS, NAMES, NAME_BYTES = 1 << 16, 1 << 12, 1 << 20
MAX_IDS = 1 << 22
MAX_EVENTS = 64
MAX_COST = 1 << 62
MAX_LINE_BYTES = 64 << 20
MAX_FORMULA_CHARS = 1000
MAX_EVENT_CHARS = 200

_KEY = re.compile(rb"[ \t]*([A-Za-z]{1,20}):(.*)", re.DOTALL)
_FORMULA = re.compile(r"\s*([^\s=:]+)\s*(?:=([^:]*))?(?::(.*))?")
_TERM = re.compile(r"\s*(?:(\d{1,9})\s*\*?\s*)?([^\s*+]+)\s*")


@dataclass
class KeyedSums:
    """Rows of whole numbers, summed by key."""

    width: int
    places: dict[int, int] = field(default_factory=dict)
    sums: Array = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def of(self, keys: Array) -> Array:
        """The index of each key; new keys are added."""
        distinct, which = np.unique(keys, return_inverse=True)
        known = self.places
        places = np.array([known.setdefault(key, len(known)) for key in distinct.tolist()], np.int64)
        if len(known) > len(self.sums):
            grown = np.zeros((max(1024, 2 * len(known)), self.width), np.int64)
            grown[: len(self.sums), : self.sums.shape[1]] = self.sums
            self.sums = grown
        return places[which]

    def add(self, places: Array, rows: Array) -> Array:
        """Add rows; returns which could not be added, because the sum would overflow."""
        heavy = np.zeros(len(rows), bool)
        sums = np.zeros((len(self.places), rows.shape[1]))
        np.add.at(sums, places, rows.astype(np.float64))
        beyond = np.asarray((sums + self.sums[: len(sums)] >= MAX_COST).any(axis=1))
        if beyond.any():
            heavy = beyond[places]
        np.add.at(self.sums, places[~heavy], rows[~heavy])
        return heavy


class ThreadCosts:
    """Costs of one thread, for one list of events."""

    def __init__(self, events: tuple[str, ...]) -> None:
        self.events = events
        self.functions = KeyedSums(len(events))
        self.calls = KeyedSums(len(events) + 1)
        self.lines: dict[int, int] = {}
        self.own: set[int] = set()
        """Keys of functions that have costs or calls in the file, not only calls to them."""

    def absorb(self, rows: Array, costs: Array) -> Array:
        """Add rows of the kernel; returns which could not be added."""
        caller = self.functions.of(_pack_key(rows[:, 0], rows[:, 1], rows[:, 2]))
        calls = rows[:, 6] != kernel.NO_CALL
        self.own.update(np.unique(_pack_key(rows[:, 0], rows[:, 1], rows[:, 2])).tolist())
        heavy = np.zeros(len(rows), bool)
        heavy[~calls] = self.functions.add(caller[~calls], costs[~calls])
        if calls.any():
            called_key = _pack_key(rows[calls, 3], rows[calls, 4], rows[calls, 5])
            called = self.functions.of(called_key)
            arcs = self.calls.of(caller[calls] << 32 | called)
            heavy[calls] = self.calls.add(arcs, np.column_stack([costs[calls], rows[calls, 6]]))
            with_line = np.flatnonzero(rows[calls, 7] > 0)[::-1]
            self.lines.update(zip(called_key[with_line].tolist(), rows[calls, 7][with_line].tolist(), strict=True))
        return heavy

    def graph(self) -> tuple[Graph, list[tuple[int, int, int]]]:
        """The call graph, and the (name, file, object) of each function by their codes, -1 for none."""
        keys = list(self.functions.places)
        same = self._find_duplicates(keys)
        representatives = np.unique(same)
        place = np.searchsorted(representatives, same)
        own = self.functions.sums[representatives] if len(keys) else np.zeros((0, len(self.events)), np.int64)
        arcs = np.fromiter(self.calls.places, np.int64, len(self.calls.places))
        pair = place[arcs >> 32] << 32 | place[arcs & 0xFFFFFFFF]
        distinct, which = np.unique(pair, return_inverse=True)
        sums = np.zeros((len(distinct), len(self.events) + 1), np.int64)
        if len(arcs):
            np.add.at(sums, which, self.calls.sums[: len(arcs)])
        graph = Graph(own, distinct >> 32, distinct & 0xFFFFFFFF, sums[:, :-1], sums[:, -1])
        return graph, [_unpack_key(keys[representative]) for representative in representatives.tolist()]

    def _find_duplicates(self, keys: list[int]) -> Array:
        """For each function the index of the function it represents: one that is only called, by a file of which
        nothing else is known, equals the only one with that name in that object."""
        named: dict[tuple[int, int], list[int]] = {}
        for index, key in enumerate(keys):
            if key in self.own:
                name, _, object = _unpack_key(key)
                named.setdefault((name, object), []).append(index)
        same = []
        for index, key in enumerate(keys):
            name, _, object = _unpack_key(key)
            others = named.get((name, object), []) if key not in self.own and name >= 0 else []
            same.append(others[0] if len(others) == 1 else index)
        return np.array(same, np.int64)


def _pack_key(name: Array, file: Array, object: Array) -> Array:
    key: Array = (name + 1) << 42 | (file + 1) << 21 | (object + 1)
    return key


def _unpack_key(key: int) -> tuple[int, int, int]:
    return (key >> 42) - 1, (key >> 21 & kernel.MAX_NAMES + 1) - 1, (key & kernel.MAX_NAMES + 1) - 1


class CallgrindParser:
    """Parses a file chunk by chunk. After `finish`, only its attributes are used."""

    def __init__(self) -> None:
        self.parts: dict[tuple[int | None, int | None, tuple[str, ...]], ThreadCosts] = {}
        self.names: list[str] = []
        self.facts: dict[str, str] = {}
        self.formulas: dict[str, list[tuple[int, str]]] = {}
        self.losses: dict[str, tuple[int, str]] = {}
        self.pids: list[int] = []
        self.ended = False
        """Whether the last part has totals."""
        self._rest = b""
        self._state = np.zeros(kernel.STATE, np.int64)
        self._state[kernel.PRESENT : kernel.POSITION] = -1
        self._state[kernel.SELF_ROW] = -1
        self._state[kernel.POSITIONS] = 1
        # Most of it is never touched, and takes no memory.
        self._ids = np.zeros((3, MAX_IDS), np.int32)
        self._names, self._name_counts = make_table(NAMES, NAME_BYTES), np.zeros(4, np.int64)
        self._rows = np.zeros((ROWS, len(kernel.ROW)), np.int64)
        self._events: tuple[str, ...] = ()
        self._costs = np.zeros((ROWS, 1), np.int64)
        self._work = np.zeros(MAX_EVENTS, np.int64)
        self._pid: int | None = None
        self._thread: int | None = None
        self._sum = np.zeros(1)

    def absorb(self, data: bytes) -> None:
        """Parse the next chunk of the file."""
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        if not end and len(data) > MAX_LINE_BYTES:
            data, end = b"\n", 1
            self._add_loss(UNRECOGNIZED_LINE, "a line of more than 64 MB")
        self._rest = data[end:]
        if end:
            self._scan(data, end)

    def finish(self) -> None:
        """Parse the remaining text."""
        if self._rest:
            self._scan(self._rest + b"\n", len(self._rest) + 1)
            self._rest = b""
        count, content = self._name_counts[2], self._names.text.tobytes()
        places = zip(self._names.start[:count].tolist(), self._names.length[:count].tolist(), strict=True)
        self.names = [decode_text(content[start : start + length]) for start, length in places]
        for at, reason in ((kernel.NEGATIVE, BELOW_ZERO), (kernel.UNDEFINED, NOT_NAMED)):
            if self._state[at]:
                self._add_loss(reason, f"line {self._state[at + 1]}", int(self._state[at]))
        if too_many := int(self._state[kernel.TOO_MANY]):
            self._add_loss(TOO_MANY_NAMES, self.names[kernel.MAX_NAMES][:MAX_EXAMPLE_CHARS], too_many)

    def _add_loss(self, reason: str, example: str, count: int = 1) -> None:
        before, first = self.losses.get(reason, (0, example))
        self.losses[reason] = (before + count, first)

    def _scan(self, data: bytes, stop: int) -> None:
        block, state, counts = np.frombuffer(data + bytes(PAD), np.uint8), self._state, self._name_counts
        state[kernel.AT] = 0
        while True:
            tables = (self._ids, self._names, counts, self._rows, self._costs, self._work)
            why = kernel.scan(block, stop, state, *tables)
            if why == kernel.OTHER:
                self._parse_header_or_add_loss(data[state[kernel.AT] : state[kernel.END]])
                state[kernel.AT] = state[kernel.END] + 1
            elif why == kernel.DONE or state[kernel.ROWS] == len(self._rows):
                self._flush()
            else:
                room = 2 * len(self._names.start), 2 * len(self._names.text)
                self._names = grow(self._names, int(counts[2]), int(counts[3]), *room)
            if why == kernel.DONE:
                break

    def _flush(self) -> None:
        """Add the rows of the kernel."""
        count = int(self._state[kernel.ROWS])
        if count:
            rows, costs = self._rows[:count], self._costs[:count]
            self._sum[:] += costs[rows[:, 6] == kernel.NO_CALL].sum(axis=0, dtype=np.float64)
            key = (self._pid, self._thread, self._events)
            heavy = self.parts.setdefault(key, ThreadCosts(self._events)).absorb(rows, costs)
            if heavy.any():
                self._add_loss(UNRECOGNIZED_LINE, "total costs above 2^62", int(heavy.sum()))
        self._state[kernel.ROWS] = 0
        self._state[kernel.SELF_ROW] = -1

    def _parse_header_or_add_loss(self, line: bytes) -> None:
        """Parse a line that is no cost and no position."""
        match = _KEY.fullmatch(line)
        if not match or not self._parse_header(match[1].decode().lower(), decode_text(match[2].strip())):
            self._add_loss(UNRECOGNIZED_LINE, format_example(line, int(self._state[kernel.LINES])))

    def _parse_header(self, key: str, value: str) -> bool:
        """Parse a header line; whether it is one."""
        if key in ("thread", "pid", "part", "events", "positions", "version"):
            self._flush()
        if key in ("thread", "pid"):
            number = int(value) if value.isdecimal() and value.isascii() and len(value) < 18 else None
            if key == "thread":
                self._thread = number
            else:
                self._pid, self._thread = number, None
        elif key == "part":
            self.ended = False
        elif key == "positions":
            words = [word for word in value.split() if word in ("instr", "bb", "line")][: kernel.MAX_POSITIONS]
            self._state[kernel.POSITIONS] = max(1, len(words))
            self._state[kernel.LINE_PLACE] = words.index("line") if "line" in words else 0 if not words else -1
        elif key == "events":
            return self._set_events(value)
        elif key == "event":
            self._parse_formula(value)
        elif key in ("summary", "totals"):
            self._check_totals(key, value)
        elif key in ("cmd", "creator"):
            self.facts.setdefault(key, value)
        elif key == "desc":
            name, _, text = value.partition(":")
            if text.strip():
                self.facts.setdefault(name.strip(), text.strip())
        else:
            return key == "version"
        return True

    def _set_events(self, value: str) -> bool:
        names = tuple(value.split())
        if (
            not names
            or len(names) > MAX_EVENTS
            or len(set(names)) < len(names)
            or len(max(names, key=len)) > MAX_EVENT_CHARS
        ):
            return False
        self._events = names
        self._state[kernel.EVENTS] = len(names)
        self._state[kernel.PENDING] = kernel.NOTHING
        self._costs = np.zeros((ROWS, len(names)), np.int64)
        self._sum = np.zeros(len(names))
        return True

    def _parse_formula(self, value: str) -> None:
        """An event's long name, or its formula."""
        match = _FORMULA.fullmatch(value) if len(value) < MAX_FORMULA_CHARS else None
        if not match:
            self._add_loss(NO_FORMULA, value[:MAX_EXAMPLE_CHARS])
            return
        if match[3] and match[3].strip():
            self.facts.setdefault(f"event {match[1]}", match[3].strip())
        if match[2] is None:
            return
        terms = [_TERM.fullmatch(term) for term in match[2].split("+")]
        if not all(terms):
            self._add_loss(NO_FORMULA, value[:MAX_EXAMPLE_CHARS])
            return
        self.formulas.setdefault(match[1], [(int(term[1] or 1), term[2]) for term in terms if term])

    def _check_totals(self, key: str, value: str) -> None:
        words = value.split()
        numbers = [int(word) for word in words if word.isdecimal() and word.isascii() and len(word) < 19]
        if key == "summary" or not numbers or len(numbers) < len(words):
            return
        self.ended = True
        self._flush()
        totals = np.zeros(len(self._sum))
        totals[: len(numbers)] = numbers[: len(totals)]
        if self._events and (np.abs(totals - self._sum) > 1e-9 * self._sum).any():
            place = int(np.argmax(np.abs(totals - self._sum)))
            example = f"{self._events[place]}: {totals[place]:.0f} in the totals, {self._sum[place]:.0f} found"
            self._add_loss(OTHER_SUM, f"line {self._state[kernel.LINES]}: {example}")
        self._sum[:] = 0
