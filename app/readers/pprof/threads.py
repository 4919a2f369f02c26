"""The threads that labels of samples name."""

import numpy as np

from ...domain.arrays import Array
from ...domain.builder import ProfileBuilder
from ...domain.losses import SAMPLE_LABELS
from ...ingest.jit.hashing import factorize
from ...ingest.jit.protobuf_columns import FieldColumns, read_messages
from ...ingest.losses import MAX_SHORT_EXAMPLE_CHARS
from .code import factorize_rows
from .format import BAD_LABEL
from .strings import PprofStrings

_WORDS = ("thread", "thread_name", "process", "host")
_NUMBERS = ("pid", "tid", "thread_id", "stream", "rank", "process_id")
_PASSED = "device"
"""A label that repeats the stack of device work."""


class ThreadLabels:
    """Threads by labels. All samples without any belong to one thread."""

    def __init__(self, builder: ProfileBuilder, texts: PprofStrings, data: Array) -> None:
        self._builder, self._texts, self._data = builder, texts, data
        self._named: dict[str, int] = {}
        self._codes = {name: texts.get_code(name) for name in (*_WORDS, *_NUMBERS, _PASSED)}

    def intern_threads(self, labels: FieldColumns, good: Array) -> Array:
        """The threads of the valid samples. labels: of all samples, by their rows."""
        labels = labels.select_contents()
        labels = labels.select(good[labels.row])
        sample = (np.cumsum(good) - 1)[labels.row]
        messages = read_messages(self._data, labels.spans, (1, 2, 3))
        left = messages.malformed == 0
        if not left.all():
            self._builder.add_loss(BAD_LABEL, "", int((~left).sum()))
        key, text = (self._texts.get_codes(messages.get_number(field)) for field in (1, 2))
        number = messages.get_number(3)
        code, first = factorize(number)
        # A label without a text is a number, and a missing one is 0.
        is_text = messages.get_number(2) != 0
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
            example = f"{self._texts.get_text(key[row])}={self._texts.get_text(text[row]) or int(number[row])}"
            self._builder.add_loss(SAMPLE_LABELS, example[:MAX_SHORT_EXAMPLE_CHARS], len(lost))
        if not values:
            return np.full(int(good.sum()), self._builder.intern_thread() if good.any() else 0)
        which, rows = factorize_rows(*values.values())
        threads = []
        for row in rows.tolist():
            fields = {name: int(column[row]) - 1 for name, column in values.items() if column[row]}
            words = {name: self._texts.get_text(value) for name, value in fields.items() if name in _WORDS}
            numbers = {name: int(number[first[value]]) for name, value in fields.items() if name in _NUMBERS}
            threads.append(self._intern_thread(words, numbers))
        return np.array(threads, np.int64)[which]

    def _intern_thread(self, words: dict[str, str], numbers: dict[str, int]) -> int:
        if not words and not numbers:
            return self._builder.intern_thread()
        rank, name = numbers.get("rank"), words.get("thread", words.get("thread_name", ""))
        thread = self._builder.intern_thread(
            pid=numbers.get("pid", numbers.get("process_id")),
            tid=numbers.get("stream", numbers.get("tid", numbers.get("thread_id"))),
            host=words.get("host"),
            rank=rank if rank is not None and 0 <= rank < 1 << 31 else None,
            kind="gpu_stream" if "stream" in numbers else "thread",
            incarnation=self._named.setdefault(name, len(self._named)) if name and not numbers else 0,
        )
        if name:
            self._builder.set_thread_name(thread, 0, name)
        if "process" in words:
            self._builder.set_process_name(thread, words["process"])
        return thread
