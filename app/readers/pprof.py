"""Reader of pprof's files: what Go, gperftools, Pyroscope, Parca and others write. Definition: proto/profile.proto.

The file has values and no times: each becomes a sample that weighs so much, all of them at time 0. Each type of value
is an event. Labels that name a thread (`thread`, `tid`, `process`, `pid`, `host`, `rank`) tell threads apart; others
are not kept, and are listed among what could not be read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from ..domain.builder import ProfileBuilder
from ..domain.errors import UnreadableInput
from ..domain.profile import Meta, Profile
from ..domain.tables import FrameKind
from ..domain.wire import BYTES, VARINT, Damaged, fields, signed, unpacked

FORMAT = "pprof"
UNITS = {"nanoseconds": "ns", "nanosecond": "ns", "bytes": "bytes", "byte": "bytes", "count": "count"}
SCALED = {"microseconds": 1_000, "milliseconds": 1_000_000, "seconds": 1_000_000_000}
"""Units of time that are told in ns here, by how many."""
LONGEST_BYTES = 4 << 30
MOST_EXAMPLE = 80
MESSAGES, COMMENTS, MOST_FIELD = frozenset({1, 2, 3, 4, 5, 6, 11}), 13, 15
"""Which fields of a Profile are messages or text, which are numbers that may be packed, and the last there is."""
CUT_OFF = "bytes that are no pprof: the file is cut off or damaged there, and what follows is lost"
NO_VALUES = "sample whose values are not one for each type"
NO_LOCATION = "sample whose stack names a location that is not in the file"
NO_FUNCTION = "location whose function is not in the file"
LABELS = "label of a sample, which has no place here"
NEGATIVE = "sample with a value below zero"

_KERNEL = re.compile(r"^\[kernel|(?:^|/)vmlinux$|^\[guest\.kernel")
_THREADS = {"thread", "thread_name", "process", "host"}
_NUMBERS = {"pid", "tid", "thread_id", "stream", "rank", "process_id"}


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` is a Profile of pprof: its first fields are, and begin with its types."""
    found = []
    try:
        for number, kind, value in fields(head[: 64 << 10]):
            if number > MOST_FIELD or (number != COMMENTS and (number in MESSAGES) != (kind == BYTES)):
                return False
            found.append((number, bytes(value) if kind == BYTES else value))
            if len(found) == 20:
                break
    except Damaged:
        pass
    if len(found) < 2 or found[0][0] not in (1, 2):
        return False
    try:
        return all(_is_type(value) for number, value in found if number == 1 and isinstance(value, bytes))
    except Damaged:
        return False


def _is_type(content: bytes) -> bool:
    return all(number in (1, 2) and kind == VARINT for number, kind, _ in fields(content))


@dataclass
class _Message:
    """What stands in a message: its numbers, its lists of numbers, its messages, by the numbers of fields."""

    numbers: dict[int, int] = field(default_factory=dict)
    lists: dict[int, list[Any]] = field(default_factory=dict)
    messages: dict[int, list[memoryview]] = field(default_factory=dict)


def _message(content: Any) -> _Message:
    """Raises Damaged."""
    found = _Message()
    for number, kind, value in fields(content):
        if kind == BYTES:
            found.messages.setdefault(number, []).append(value)
        else:
            found.numbers[number] = value
            found.lists.setdefault(number, []).append(value)
    return found


def _many(found: _Message, number: int) -> list[int]:
    """Repeated numbers, packed or one by one."""
    values = [signed(value) for value in found.lists.get(number, ())]
    for content in found.messages.get(number, ()):
        values += unpacked(content).tolist()
    return values


def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in a file of pprof. `source` names it in messages. Raises UnreadableInput where it has no sample."""
    data = stream.read(LONGEST_BYTES)
    reading = _Reading(data)
    return reading.finish(source, getattr(stream, "defect", None))


class _Reading:
    def __init__(self, data: bytes) -> None:
        self._builder = ProfileBuilder(FORMAT)
        self._parts: dict[int, list[Any]] = {}
        self._named: dict[str, int] = {}
        size = 0
        try:
            for number, _, value in fields(data):
                self._parts.setdefault(number, []).append(value)
                size = value.nbytes if isinstance(value, memoryview) else 8
        except Damaged as error:
            self._builder.lost(CUT_OFF, f"byte {error.at} of {len(data)}, after a field of {size} bytes")
        self._strings = [
            bytes(text).decode("utf-8", "replace") for text in self._parts.get(6, ()) if not isinstance(text, int)
        ]

    def _text(self, place: int) -> str:
        return self._strings[place] if 0 <= place < len(self._strings) else ""

    def _messages(self, number: int, what: str) -> Iterator[_Message]:
        for place, content in enumerate(self._parts.get(number, ())):
            try:
                yield _message(content)
            except (Damaged, TypeError):
                self._builder.lost(f"{what} that is no message", f"the {place + 1}th")

    def finish(self, source: str, defect: str | None) -> Profile:
        """The profile of all that was found."""
        events = self._events()
        if not events:
            raise UnreadableInput(
                f"{source} is a file of pprof that says nothing of what was measured. Record it again."
            )
        locations = self._locations()
        samples = sum(self._sample(message, events, locations) for message in self._messages(2, "sample"))
        if not samples:
            raise UnreadableInput(f"There is no sample in {source}: nothing was measured. Record it again, for longer.")
        self._builder.run()
        numbers = {
            place: self._parts[place][-1]
            for place in (9, 10, 12, 14)
            if isinstance(self._parts.get(place, [None])[-1], int)
        }
        main = self._text(numbers.get(14, 0)) or events[-1][0]
        comments = [self._text(place) for place in self._comments()]
        return self._builder.finish(
            Meta(
                FORMAT,
                duration_ns=signed(numbers[10]) if 0 < numbers.get(10, 0) < 1 << 62 else None,
                start_epoch_ns=signed(numbers[9]) if 0 < numbers.get(9, 0) < 1 << 62 else None,
                main_event=main if main in {name for name, _, _ in events} else None,
                complete=defect is None,
                reasons=(defect,) if defect else (),
                facts={"comment": "\n".join(comments)} if any(comments) else {},
            )
        )

    def _comments(self) -> list[int]:
        found: list[int] = []
        for value in self._parts.get(13, ()):
            found += [value] if isinstance(value, int) else _numbers_of(value)
        return found

    def _events(self) -> list[tuple[str, int, int]]:
        """(name, id, by how much values are to be multiplied) of each type of value."""
        found = []
        period = self._parts.get(12, [0])[-1]
        of_period = next((m.numbers.get(1, 0) for m in self._messages(11, "type of the period")), 0)
        for message in self._messages(1, "type of value"):
            name, unit = (self._text(message.numbers.get(number, 0)) for number in (1, 2))
            times = SCALED.get(unit, 1)
            name = name or "samples"
            sampled = message.numbers.get(1, 0) == of_period and isinstance(period, int) and 0 < period < 1 << 62
            event = self._builder.event(
                name,
                "ns" if unit in SCALED else UNITS.get(unit, unit or "count"),
                sampling="period" if sampled else None,
                rate=float(period * times) if sampled else None,
            )
            found.append((name, event, times))
        return found

    def _locations(self) -> dict[int, list[int]]:
        """The frames of each location, outermost first, by its id."""
        modules, functions = {}, {}
        for message in self._messages(3, "mapping"):
            modules[message.numbers.get(1, 0)] = self._text(message.numbers.get(5, 0))
        for message in self._messages(5, "function"):
            n = message.numbers
            functions[n.get(1, 0)] = (
                *(self._text(n.get(place, 0)) for place in (2, 3, 4)),
                n.get(5, 0),
            )
        found = {}
        for message in self._messages(4, "location"):
            module, address = modules.get(message.numbers.get(2, 0), ""), message.numbers.get(3) or None
            frames = []
            for depth, content in enumerate(reversed(message.messages.get(4, []))):
                frame = self._frame(content, module, address, depth, functions)
                frames += [] if frame is None else [frame]
            if not message.messages.get(4):
                name = f"0x{address:x}" if address else "[unknown]"
                frames = [
                    self._builder.frame(self._builder.function(name, module), kind=FrameKind.UNKNOWN, address=address)
                ]
            found[message.numbers.get(1, 0)] = frames
        return found

    def _frame(
        self, content: Any, module: str, address: int | None, depth: int, functions: dict[int, Any]
    ) -> int | None:
        try:
            line = _message(content).numbers
        except Damaged:
            line = {}
        if line.get(1, 0) not in functions:
            self._builder.lost(NO_FUNCTION, f"function {line.get(1, 0)}")
            return None
        shown, raw, file, first = functions[line[1]]
        function = self._builder.function(
            raw or shown or "[unknown]",
            module,
            file or None,
            first if 0 < first < 1 << 31 else None,
            display=shown or None,
        )
        kind = FrameKind.INLINED if depth else FrameKind.KERNEL if _KERNEL.search(module) else FrameKind.USER
        number = signed(line.get(2, 0))
        return self._builder.frame(
            function,
            kind=kind,
            address=address,
            line=number if 0 < number < 1 << 31 else None,
            inline_depth=min(depth, 999),
        )

    def _sample(self, message: _Message, events: list[tuple[str, int, int]], locations: dict[int, list[int]]) -> int:
        """Take in a sample; how many values of it."""
        try:
            stack_of, values = _many(message, 1), _many(message, 2)
        except Damaged:
            self._builder.lost("sample that is no message", "")
            return 0
        if len(values) != len(events):
            self._builder.lost(NO_VALUES, f"{len(values)} of {len(events)}")
            return 0
        unknown = [place for place in stack_of if place not in locations]
        if unknown:
            self._builder.lost(NO_LOCATION, f"location {unknown[0]}")
        frames = [frame for place in reversed(stack_of) for frame in locations.get(place, ())]
        stack, thread = self._builder.stack(frames), self._thread(message)
        taken = 0
        for (name, event, times), value in zip(events, values, strict=True):
            if value < 0:
                self._builder.lost(NEGATIVE, f"{value} of {name[:MOST_EXAMPLE]}")
            elif value:
                self._builder.sample(0, thread, event, stack, value * times)
                taken += 1
        return taken

    def _thread(self, message: _Message) -> int:
        """The thread that a sample's labels name."""
        words: dict[str, str] = {}
        numbers: dict[str, int] = {}
        for content in message.messages.get(3, ()):
            try:
                label = _message(content).numbers
            except Damaged:
                self._builder.lost("label that is no message", "")
                continue
            key, text = self._text(label.get(1, 0)), self._text(label.get(2, 0))
            # A label without a text is a number, and one that is missing is 0.
            number = None if label.get(2) else label.get(3, 0)
            if key in _THREADS and text:
                words[key] = text
            elif key in _NUMBERS and number is not None:
                numbers[key] = signed(number)
            elif key != "device":
                self._builder.lost(LABELS, f"{key}={text or number}"[:MOST_EXAMPLE])
        if not words and not numbers:
            return self._builder.thread()
        rank, name = numbers.get("rank"), words.get("thread", words.get("thread_name", ""))
        thread = self._builder.thread(
            pid=numbers.get("pid", numbers.get("process_id")),
            tid=numbers.get("stream", numbers.get("tid", numbers.get("thread_id"))),
            host=words.get("host"),
            rank=rank if rank is not None and 0 <= rank < 1 << 31 else None,
            kind="gpu_stream" if "stream" in numbers else "thread",
            incarnation=self._named.setdefault(name, len(self._named)) if name and not numbers else 0,
        )
        if name:
            self._builder.named(thread, 0, name)
        if "process" in words:
            self._builder.process(thread, words["process"])
        return thread


def _numbers_of(content: Any) -> list[int]:
    try:
        found: list[int] = unpacked(content).tolist()
    except Damaged:
        return []
    return found
