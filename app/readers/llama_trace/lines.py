"""The lines of a text trace as columns. A compiled loop parses the lines of threads."""

import re
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from ...domain.arrays import Array
from ...domain.units import NS_PER_US
from ...ingest.jit.decorators import jit_inline, jit_no_refcount
from ...ingest.losses import UNRECOGNIZED_LINE
from ...ingest.text_lines import iterate_chunks
from ...ingest.trace_json.growable import GrowableColumn
from ...ingest.trace_json.simd import PAD
from ...ingest.trace_json.string_table import StringTable, grow, intern, make_table
from .format import NO_TIME

SHOWN = 160
MARK = b"\xef\xbb\xbf"
BEGIN, END, COUNTER = 0, 1, 2
"""Kinds of lines."""
NONE = -1
COLUMNS = {"kind": np.uint8, "thread": np.int32, "name": np.int32, "number": np.int64} | {
    "time_ns": np.int64,
    "line": np.int64,
}
KIND, THREAD, NAME, NUMBER, TIME_NS, LINE = range(6)
ROWS, TEXTS, TEXT_BYTES = 1 << 16, 1 << 12, 1 << 20
STOP, FULL, ODD, LATE = range(4)
"""Why a scan ended: at the end of the text; no more room; a line that is none of a thread's; a line with an invalid
time."""
MAX_DIGITS = 18
MAX_US = (1 << 61) // NS_PER_US
_OF_THREAD, _OF_NAME, _OF_COUNTER, _OF_VALUE, _OF_TIME, _OF_END = (
    np.frombuffer(word, np.uint8) for word in (b"thr:", b", name: ", b", counter: ", b", value: ", b", time:", b"end_")
)
_NEWLINE, _SPACE, _COMMA, _DOT, _ZERO, _NINE, _UNDERSCORE = b"\n ,.09_"
_EDGE = re.compile(rb"(start_time|end_time|lost): *(\d+)(?:\.\d*)?\s*")


@dataclass(frozen=True, eq=False)
class TraceLines:
    """The parsed lines of a file, in its order, one row per line.

    texts: every distinct text once. kind: uint8. thread, name: int32 indices into `texts`; a name is without its number
    and without the prefix of an end. number: int64, that number; NONE, or a distinct smaller value for each text of
    digits that is not a plain number; of a counter the index of its value's text. time_ns, line: int64. edges: integers
    at the ends of the file. lost: number of skipped lines and the first, by reason.
    """

    texts: list[str]
    kind: Array
    thread: Array
    name: Array
    number: Array
    time_ns: Array
    line: Array
    edges: dict[str, int]
    lost: dict[str, tuple[int, str]]


def read_lines(stream: BinaryIO) -> TraceLines:
    """The lines of a stream of decompressed bytes. Raises what reading the stream does; its content never raises."""
    words = make_table(TEXTS, TEXT_BYTES)
    rows = np.empty((len(COLUMNS), ROWS), np.int64)
    columns = {name: GrowableColumn(kind) for name, kind in COLUMNS.items()}
    edges: dict[str, int] = {}
    lost: dict[str, tuple[int, str]] = {}
    at = np.zeros(5, np.int64)

    def flush() -> None:
        for column, values in zip(columns.values(), rows, strict=True):
            column.add(values[: at[0]])
        at[0] = 0

    for first, piece in iterate_chunks(stream):
        text = (piece.removeprefix(MARK) if first == 1 else piece) + b"\n"
        data = np.frombuffer(text + bytes(PAD), np.uint8)
        at[1], at[4] = 0, first - 1
        while (why := scan(data, len(text), rows, words, at)) != STOP:
            if why != FULL:
                end = text.index(b"\n", at[1])
                line = text[at[1] : end]
                at[1], at[4] = end + 1, at[4] + 1
                if edge := _EDGE.fullmatch(line):
                    edges.setdefault(edge[1].decode(), int(edge[2]) if len(edge[2]) <= MAX_DIGITS else 0)
                    continue
                reason = NO_TIME if why == LATE else UNRECOGNIZED_LINE
                count, example = lost.get(reason, (0, f"line {at[4]}: {line[:SHOWN].decode('utf-8', 'replace')}"))
                lost[reason] = count + 1, example
            elif at[0] == ROWS:
                flush()
            else:
                words = grow(words, int(at[2]), int(at[3]), 2 * len(words.start), 2 * len(words.text))
    flush()
    # If bytes are damaged, different bytes may decode to the same text.
    texts: dict[str, int] = {}
    content, found = words.text.tobytes(), (words.start[: at[2]].tolist(), words.length[: at[2]].tolist())
    contents = (
        content[start : start + length].decode("utf-8", "replace") for start, length in zip(*found, strict=True)
    )
    places = np.array([texts.setdefault(one, len(texts)) for one in contents], np.int32)
    result = {name: column.to_array() for name, column in columns.items()}
    for name in ("thread", "name"):
        result[name] = places[result[name]]
    counters = result["kind"] == COUNTER
    result["number"][counters] = places[result["number"][counters]]
    return TraceLines(list(texts), **result, edges=edges, lost=lost)


@jit_inline
def _is(data: Array, p: int, end: int, word: Array) -> bool:
    """Whether data[p:end] begins with a word."""
    if end - p < len(word):
        return False
    for i in range(len(word)):  # noqa: SIM110
        if data[p + i] != word[i]:
            return False
    return True


@jit_inline
def _is_blank(byte: Any) -> bool:
    return bool(byte == _SPACE or 9 <= byte <= 13)


@jit_inline
def _find_digits(data: Array, p: int, end: int) -> int:
    """The start of the digits that end at `end`."""
    while end > p and _ZERO <= data[end - 1] <= _NINE:
        end -= 1
    return end


@jit_inline
def _parse_int(data: Array, p: int, end: int) -> int:
    """The number data[p:end], which consists of digits."""
    number = 0
    for i in range(p, end):
        number = number * 10 + (int(data[i]) - _ZERO)
    return number


@jit_no_refcount
def scan(data: Array, stop: int, rows: Array, words: StringTable, at: Array) -> int:
    """Fill `rows` and `words` with the lines in data[at[1]:stop], the last of which ends with a newline; returns why it
    ended.

    rows: by column, as in COLUMNS; texts are indices into `words`. at: the number of rows; where in `data` the next
    line begins; texts and their bytes, as in Table; the number of parsed lines.
    """
    while at[1] < stop:
        p = at[1]
        newline = p
        while data[newline] != _NEWLINE:
            newline += 1
        if at[0] == rows.shape[1] or at[2] + 4 > len(words.start) or at[3] + newline - p + 256 > len(words.text):
            return FULL
        end = newline
        while end > p and _is_blank(data[end - 1]):
            end -= 1
        if end > p:
            # From the end of the line: the time.
            part, whole = end, end
            us = _find_digits(data, p, end)
            if us > p and data[us - 1] == _DOT:
                part, whole = us, us - 1
                us = _find_digits(data, p, whole)
            back = us
            while back > p and data[back - 1] == _SPACE:
                back -= 1
            back -= len(_OF_TIME)
            if us == whole or back <= p or not _is(data, back, end, _OF_TIME):
                return ODD
            # From its start: the thread.
            if not _is(data, p, back, _OF_THREAD):
                return ODD
            thread = p + len(_OF_THREAD)
            while thread < back and data[thread] == _SPACE:
                thread += 1
            q, kind = thread, -1
            while q < back:
                if data[q] == _COMMA:
                    if _is(data, q, back, _OF_NAME):
                        kind = BEGIN
                        break
                    if _is(data, q, back, _OF_COUNTER):
                        kind = COUNTER
                        break
                q += 1
            if kind < 0:
                return ODD
            name = q + (len(_OF_NAME) if kind == BEGIN else len(_OF_COUNTER))
            last = value = own = back
            if kind == COUNTER:
                while value > name and not _is_blank(data[value - 1]):
                    value -= 1
                last = value - len(_OF_VALUE)
                if value == back or last < name or not _is(data, last, back, _OF_VALUE):
                    return ODD
            else:
                if _is(data, name, last, _OF_END):
                    kind = END
                    name += len(_OF_END)
                own = _find_digits(data, name, last)
                if own < last and own - 1 > name and data[own - 1] == _UNDERSCORE:
                    last = own - 1
                else:
                    own = back
            time_us = _parse_int(data, us, whole) if whole - us <= MAX_DIGITS else MAX_US
            if time_us >= MAX_US:
                return LATE
            time_ns = time_us
            for i in range(3):
                time_ns = time_ns * 10 + (int(data[part + i]) - _ZERO if part + i < end else 0)
            if kind == COUNTER:
                number = intern(data, value, back - value, 0, words, at)
            elif own == back:
                number = NONE
            elif back - own > MAX_DIGITS or (data[own] == _ZERO and back - own > 1):
                # Numbers are equal only if their texts are.
                number = NONE - 1 - intern(data, own, back - own, 0, words, at)
            else:
                number = _parse_int(data, own, back)
            row = at[0]
            rows[KIND, row] = kind
            rows[THREAD, row] = intern(data, thread, q - thread, 0, words, at)
            rows[NAME, row] = intern(data, name, last - name, 0, words, at)
            rows[NUMBER, row] = number
            rows[TIME_NS, row] = time_ns
            rows[LINE, row] = at[4] + 1
            at[0] = row + 1
        at[4] += 1
        at[1] = newline + 1
    return STOP
