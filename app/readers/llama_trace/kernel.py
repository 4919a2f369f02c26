"""Lines of a text trace from bytes, compiled. What is not of the common shape is left to `lines`: ODD."""

from typing import Any, NamedTuple

import numpy as np

from ...ingest.loops.compiled import inlined, lean
from ...ingest.trace_json.interning import Table, interned
from .lines import BEGIN, COUNTED, COUNTER, END, NAME, PREFIX, THREAD, TIME, VALUE

Array = np.ndarray[Any, Any]

STOP, FULL, ODD = 0, 1, 2
"""Why a scan ended: it came to the end of the text; there is no more room; a line to be looked at."""
US_DIGITS = 15
NUMBER_DIGITS = 18
NEWLINE, SPACE, COMMA, DOT, ZERO, NINE, UNDERSCORE = 10, 32, 44, 46, 48, 57, 95


class Rows(NamedTuple):
    """Columns of lines, as in `llama_lines.Lines`, with room for some; texts are places in a Table."""

    kind: Array
    thread: Array
    name: Array
    number: Array
    time_ns: Array
    line: Array


class Words(NamedTuple):
    """What stands in lines besides what they say."""

    thread: Array
    name: Array
    counter: Array
    value: Array
    time: Array
    end: Array


WORDS = Words(*(np.frombuffer(word, np.uint8).copy() for word in (THREAD, NAME, COUNTED, VALUE, TIME, PREFIX)))


@inlined
def _is(data: Array, p: int, end: int, word: Array) -> bool:
    """Whether data[p:end] begins with a word."""
    if end - p < len(word):
        return False
    for i in range(len(word)):  # noqa: SIM110
        if data[p + i] != word[i]:
            return False
    return True


@inlined
def _blank(byte: Any) -> bool:
    return bool(byte == SPACE or 9 <= byte <= 13)


@inlined
def _digits_begin(data: Array, p: int, end: int) -> int:
    """Where the digits begin that end at `end`."""
    while end > p and ZERO <= data[end - 1] <= NINE:
        end -= 1
    return end


@lean
def scan(data: Array, stop: int, words: Words, rows: Rows, table: Table, at: Array) -> int:
    """Fill `rows` and `table` with the lines in data[at[1]:stop], the last of which ends with a newline; why it ended.

    at: how many rows there are; where in `data` the next line begins; texts and their bytes, as in Table; how many
    lines are done.
    """
    while at[1] < stop:
        p = at[1]
        newline = p
        while data[newline] != NEWLINE:
            newline += 1
        if at[0] == len(rows.kind) or at[2] + 3 > len(table.start) or at[3] + newline - p + 256 > len(table.text):
            return FULL
        end = newline
        while end > p and _blank(data[end - 1]):
            end -= 1
        if end > p:
            # From the back: the time.
            part = end
            us = _digits_begin(data, p, end)
            if us > p and data[us - 1] == DOT:
                part = us
                us = _digits_begin(data, p, part - 1)
                whole = part - 1
            else:
                whole = end
            back = us
            while back > p and data[back - 1] == SPACE:
                back -= 1
            back -= len(words.time)
            if not 0 < whole - us <= US_DIGITS or back <= p or not _is(data, back, end, words.time):
                return ODD
            time_ns = 0
            for i in range(us, whole):
                time_ns = time_ns * 10 + (data[i] - ZERO)
            for i in range(3):
                time_ns = time_ns * 10 + (data[part + i] - ZERO if part + i < end else 0)
            # From the front: the thread.
            if not _is(data, p, back, words.thread):
                return ODD
            thread = p + len(words.thread)
            while thread < back and data[thread] == SPACE:
                thread += 1
            q = thread
            kind = -1
            while q < back:
                if data[q] == COMMA:
                    if _is(data, q, back, words.name):
                        kind = BEGIN
                        break
                    if _is(data, q, back, words.counter):
                        kind = COUNTER
                        break
                q += 1
            if kind < 0:
                return ODD
            name = q + (len(words.name) if kind == BEGIN else len(words.counter))
            last = back
            number = -1
            if kind == COUNTER:
                value = back
                while value > name and not _blank(data[value - 1]):
                    value -= 1
                last = value - len(words.value)
                if value == back or last < name or not _is(data, last, back, words.value):
                    return ODD
                number = interned(data, value, back - value, 0, table, at)
            else:
                if _is(data, name, last, words.end):
                    kind = END
                    name += len(words.end)
                own = _digits_begin(data, name, last)
                if own < last and own - 1 > name and data[own - 1] == UNDERSCORE:
                    # A number is the same only where its text is.
                    if last - own > NUMBER_DIGITS or (data[own] == ZERO and last - own > 1):
                        return ODD
                    number = 0
                    for i in range(own, last):
                        number = number * 10 + (data[i] - ZERO)
                    last = own - 1
            row = at[0]
            rows.kind[row] = kind
            rows.thread[row] = interned(data, thread, q - thread, 0, table, at)
            rows.name[row] = interned(data, name, last - name, 0, table, at)
            rows.number[row] = number
            rows.time_ns[row] = time_ns
            rows.line[row] = at[4] + 1
            at[0] = row + 1
        at[4] += 1
        at[1] = newline + 1
    return STOP
