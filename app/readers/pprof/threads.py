"""The threads that labels of samples name."""

import numpy as np

from ...domain.arrays import Array
from ...domain.builder import ProfileBuilder
from ...domain.losses import LABELS
from ...ingest.loops.hashing import coded
from ...ingest.loops.wire_columns import Places, messages
from .code import distinct
from .texts import Texts

MOST_EXAMPLE = 80
_WORDS = ("thread", "thread_name", "process", "host")
_NUMBERS = ("pid", "tid", "thread_id", "stream", "rank", "process_id")
_PASSED = "device"
"""A label that says what the stack of device work says, too."""


class Threads:
    """Threads by labels. All samples without any are of one thread."""

    def __init__(self, builder: ProfileBuilder, texts: Texts, data: Array) -> None:
        self._builder, self._texts, self._data = builder, texts, data
        self._named: dict[str, int] = {}
        self._codes = {name: texts.code(name) for name in (*_WORDS, *_NUMBERS, _PASSED)}

    def of(self, labels: Places, good: Array) -> Array:
        """The threads of the samples that are good. labels: of all samples, by their rows."""
        labels = labels.contents()
        labels = labels.only(good[labels.row])
        sample = (np.cumsum(good) - 1)[labels.row]
        found = messages(self._data, labels.spans, (1, 2, 3))
        left = found.bad == 0
        if not left.all():
            self._builder.lost("label that is no message", "", int((~left).sum()))
        key, text = (self._texts.codes(found.number(field)) for field in (1, 2))
        number = found.number(3)
        code, first = coded(number)
        # A label without a text is a number, and one that is missing is 0.
        is_text = found.number(2) != 0
        has_text = is_text & (text != self._texts.none)
        values: dict[str, Array] = {}
        for name in (*_WORDS, *_NUMBERS):
            mine = left & (key == self._codes[name]) & (has_text if name in _WORDS else ~is_text)
            if mine.any():
                left &= ~mine
                values[name] = np.zeros(int(good.sum()), np.int64)
                values[name][sample[mine]] = 1 + (text if name in _WORDS else code)[mine]
        lost = np.flatnonzero(left & (key != self._codes[_PASSED]))
        if len(lost):
            row = int(lost[0])
            example = f"{self._texts.word(key[row])}={self._texts.word(text[row]) or int(number[row])}"
            self._builder.lost(LABELS, example[:MOST_EXAMPLE], len(lost))
        if not values:
            return np.full(int(good.sum()), self._builder.thread() if good.any() else 0)
        which, rows = distinct(*values.values())
        threads = []
        for row in rows.tolist():
            told = {name: int(column[row]) - 1 for name, column in values.items() if column[row]}
            words = {name: self._texts.word(value) for name, value in told.items() if name in _WORDS}
            numbers = {name: int(number[first[value]]) for name, value in told.items() if name in _NUMBERS}
            threads.append(self._thread(words, numbers))
        return np.array(threads, np.int64)[which]

    def _thread(self, words: dict[str, str], numbers: dict[str, int]) -> int:
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
