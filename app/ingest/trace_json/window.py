"""A window on a file of trace events: read ahead by a thread, in UTF-8."""

import codecs
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from ...domain.arrays import Array
from .grammar import JsonValue, UnterminatedValues, find_event_candidates, is_event
from .sniff import detect_encoding

CHUNK_BYTES = 4 << 20
ROOM_BYTES = 1 << 20
"""Room before the data that is read, for the end of the previous chunk."""
READ_AHEAD = 2
MAX_BOUNDARY_TRIES = 50
NEAR = 16 << 10
"""How many positions are checked for an event at the end of a chunk, and how far each of them is followed."""
MAX_EVENT_BYTES = 16 << 20
"""Longer text is no event."""
MAX_WINDOW_BYTES = 64 << 20
"""How much is made visible to find the start of an event, or for values next to the events."""
PAD = 128
"""Zeros after the data, for code that reads many bytes at once."""
NEAR_BYTES = 4 << 10, 64 << 10, 1 << 20
"""How far from its end a chunk is checked for the start of an event, before all of it is."""


@dataclass(frozen=True, eq=False)
class TextChunk:
    """A part of a file: array[start:stop]. Up to `end` it is contiguous in the file. place: position of array[0] in the
    file.

    at_end: whether the file ends at `end`. unterminated_values: positions in the file of values without an end;
    unterminated_events: the same for events after damage.
    """

    array: Array
    start: int
    stop: int
    end: int
    place: int
    at_end: bool
    unterminated_values: UnterminatedValues
    unterminated_events: UnterminatedValues

    @property
    def data(self) -> memoryview:
        """The text, and the text after it."""
        return self.array.data[: self.end]

    def scan_value(self, start: int) -> JsonValue:
        """See `Window`."""
        return self.unterminated_values.scan_value(
            self.data, start, self.place, at_end=self.at_end, longest=MAX_EVENT_BYTES
        )


@contextmanager
def open_window(stream: BinaryIO, piece_bytes: int = CHUNK_BYTES) -> Iterator["Window"]:
    """A window on a stream of text in any encoding of Unicode."""
    with ThreadPoolExecutor(1, "perfloom-ahead") as pool:
        window = Window(stream, piece_bytes, pool)
        try:
            yield window
        finally:
            window.stop()


class Window:
    """The visible part of a file.

    data: the text, of which data[at:] is not yet scanned. place: position of data[0] in the file, in UTF-8 and without
    a byte order mark. unterminated_values: where values without an end begin; unterminated_events: events, after
    damage.
    """

    def __init__(self, stream: BinaryIO, piece_bytes: int, pool: ThreadPoolExecutor) -> None:
        self._stream = stream
        self._piece_bytes = piece_bytes
        self._pool = pool
        self._decoder: Any = None
        self._begun = False
        self._coming: deque[Future[tuple[Array, int, int]]] = deque()
        self._ended = False
        self._boundary_before: tuple[int, int | None] = (-1, None)
        self.unterminated_values, self.unterminated_events = UnterminatedValues(), UnterminatedValues()
        self.at = 0
        self.place = 0
        self._show(np.zeros(PAD, np.uint8), 0)
        for _ in range(READ_AHEAD):
            self._request_read()

    @property
    def length(self) -> int:
        """The length of `data`, without the terminator of the last word of the file."""
        return self._end - self._ended

    @property
    def at_end(self) -> bool:
        """Whether the file ends with `data`."""
        return self._ended

    def scan_value(self, start: int, longest: int = MAX_EVENT_BYTES) -> JsonValue:
        """The value that begins at `start` of `data`. Raises Damaged, More."""
        return self.unterminated_values.scan_value(self.data, start, self.place, at_end=self._ended, longest=longest)

    def _show(self, array: Array, end: int) -> None:
        self._array, self._end = array, end
        array[end : end + PAD] = 0
        self.data = array.data[:end]

    def _request_read(self) -> None:
        self._coming.append(self._pool.submit(self._fill))

    def stop(self) -> None:
        """Stop reading."""
        for future in self._coming:
            future.cancel()

    def _fill(self) -> tuple[Array, int, int]:
        """(an array, where the data in it begins, where it ends); nothing at the end of the file."""
        array = np.empty(ROOM_BYTES + self._piece_bytes + PAD, np.uint8)
        begin = ROOM_BYTES
        end = begin + _read(self._stream, array.data[begin : begin + self._piece_bytes])
        if not self._begun:
            self._begun = True
            encoding, mark = detect_encoding(bytes(array[begin : begin + 4]) if end >= begin + 4 else b"")
            begin += mark
            if encoding is not None:
                self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        if self._decoder is not None:
            last = end < ROOM_BYTES + self._piece_bytes
            text = self._decoder.decode(array.data[begin:end], final=last).encode()
            array = np.empty(ROOM_BYTES + len(text) + PAD, np.uint8)
            begin, end = ROOM_BYTES, ROOM_BYTES + len(text)
            array[begin:end] = np.frombuffer(text, np.uint8)
        return array, begin, end

    def read_more(self) -> bool:
        """Read more; False at the end of the file. Scanned data is discarded."""
        if self._ended:
            return False
        array, begin, end = self._coming.popleft().result()
        if end == begin:
            # Otherwise a word at the very end could continue.
            array[end] = ord("\n")
            self._ended, end = True, end + 1
        else:
            self._request_read()
        rest = self._array[self.at : self._end]
        if len(rest) > begin:
            read, array = array[begin:end], np.empty(len(rest) + end - begin + PAD, np.uint8)
            begin, end = len(rest), len(rest) + len(read)
            array[begin:end] = read
        start = begin - len(rest)
        array[start:begin] = rest
        self.place += self.at - start
        self.at = start
        self._show(array, end)
        return True

    def read_much_more(self) -> bool:
        """Double the window, so that scanning it again is worth the time; False at the end of the file."""
        wanted = 2 * (self._end - self.at)
        some = False
        while self._end - self.at < wanted and self.read_more():
            some = True
        return some

    def cut_chunk(self) -> TextChunk | None:
        """A chunk that ends where an event seems to begin, or the remaining text; None if nothing is left. The chunk
        counts as scanned."""
        if self._end - self.at < self._piece_bytes // 2:
            self.read_more()
        while (stop := self._find_boundary()) is None and self._end - self.at < MAX_WINDOW_BYTES and self.read_more():
            pass
        stop = self._end if stop is None else stop
        if self.at == self._end:
            return None
        facts = (self._ended, self.unterminated_values, self.unterminated_events)
        piece = TextChunk(self._array, self.at, stop, self._end, self.place, *facts)
        self.at = stop
        return piece

    def _find_boundary(self) -> int | None:
        """The likely start of the last complete event in the window, if near."""
        if self._ended and self._end - self.at < 2 * self._piece_bytes:
            return None
        size = self._piece_bytes
        high = min(self._end, ((self.place + self.at) // size + 2) * size - self.place)
        known, boundary = self._boundary_before
        if known != self.place + high or (boundary is not None and boundary <= self.place + self.at):
            boundary = self._find_last_event(high)
            self._boundary_before = self.place + high, None if boundary is None else self.place + boundary
            return boundary
        return None if boundary is None else boundary - self.place

    def _find_last_event(self, high: int) -> int | None:
        """The start of the last event before `high`, if it is found quickly."""
        for near in (*NEAR_BYTES, high):
            places = deque(find_event_candidates(self.data, max(high - near, self.at + 1), high), MAX_BOUNDARY_TRIES)
            for place in reversed(places):
                if is_event(self.data, place, self.place, UnterminatedValues(), at_end=self._ended, longest=NEAR):
                    return place
            if len(places) == MAX_BOUNDARY_TRIES:
                break
        return None

    def put_back(self, stopped: int, pieces: list[TextChunk]) -> None:
        """Return the first chunk from `stopped` on, and all later ones, to the window."""
        first = pieces[0]
        if len(pieces) == 1 and first.array is self._array:
            self.at = stopped
            return
        parts = [first.array[stopped : first.stop]] + [piece.array[piece.start : piece.stop] for piece in pieces[1:]]
        parts.append(self._array[self.at : self._end])
        # An event may have extended beyond its chunk.
        text = np.concatenate(parts)[max(0, stopped - first.stop) :]
        self.place = first.place + stopped
        self.at = 0
        array = np.empty(len(text) + PAD, np.uint8)
        array[: len(text)] = text
        self._show(array, len(text))


def _read(stream: Any, target: memoryview) -> int:
    """How many bytes were read, fewer than fit only at the end."""
    done = 0
    while done < len(target):
        if hasattr(stream, "readinto"):
            count = stream.readinto(target[done:])
        else:
            data = stream.read(len(target) - done)
            count = len(data)
            target[done : done + count] = data
        if not count:
            break
        done += count
    return done
