"""Trace events that a reader builds from another format, so that nesting, truncation and losses are handled alike."""

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np

from ...domain.arrays import MISSING, Array
from .events import NumericArgument, TraceEvents

NONE = -1


class TraceEventBuilder:
    """Collects events, one call each."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._rows: list[tuple[int, ...]] = []
        self._numbers: dict[str, tuple[list[int], list[int]]] = {}
        self._blocks: list[tuple[int, tuple[Array | int, ...], Array | None]] = []
        self._listed: list[str] = []

    def __len__(self) -> int:
        return len(self._rows) + sum(count for count, _, _ in self._blocks)

    def intern_text(self, text: str) -> int:
        """The index of a text."""
        return self._texts.setdefault(text, len(self._texts))

    def get_texts(self) -> list[str]:
        """All texts, by their indices."""
        if len(self._listed) < len(self._texts):
            self._listed += islice(self._texts, len(self._listed), None)
        return self._listed

    def has_timed_events(self) -> bool:
        """Whether there is anything but metadata."""
        return any(row[0] != ord("M") for row in self._rows) or any(count for count, _, _ in self._blocks)

    def intern_arguments(self, arguments: Mapping[str, Any]) -> int:
        """The index of the arguments of an event."""
        return self.intern_text(json.dumps(arguments)) if arguments else NONE

    def begin_slice(
        self, name: str, thread: str, start_ns: int, *, category: str = "", arguments: int = NONE, process: int = NONE
    ) -> int:
        """Add an open slice and return its index; only `end` ends it.

        Of several with the same interval the first added is the outermost.
        """
        places = self.intern_text(name), self.intern_text(category), process, self.intern_text(thread)
        self._rows.append((ord("B"), *places, NONE, arguments, start_ns, MISSING))
        return len(self._rows) - 1

    def end_slice(self, slice: int, end_ns: int) -> None:
        """Set the end of a slice."""
        _, *places, start_ns, _ = self._rows[slice]
        self._rows[slice] = (ord("X"), *places, start_ns, end_ns - start_ns)

    def add_counter_value(self, name: str, time_ns: int, value: float, *, process: int = NONE) -> None:
        """Add the value of a counter from a time on."""
        intern_arguments = self.intern_arguments({"": value})
        self._rows.append(
            (ord("C"), self.intern_text(name), NONE, process, NONE, NONE, intern_arguments, time_ns, MISSING)
        )

    def add_instant(
        self, name: str, thread: str, time_ns: int, *, arguments: int = NONE, process: int = NONE, **numbers: int
    ) -> None:
        """Add an instant. numbers: those of `tables.NUMBERED` among its arguments."""
        for key, value in numbers.items():
            events, values = self._numbers.setdefault(key, ([], []))
            events.append(len(self._rows))
            values.append(value)
        places = self.intern_text(name), NONE, process, self.intern_text(thread)
        self._rows.append((ord("i"), *places, NONE, arguments, time_ns, MISSING))

    def add_async_slice(
        self,
        name: str,
        category: str,
        start_ns: int,
        end_ns: int | None,
        id: int,
        *,
        arguments: int = NONE,
        process: int = NONE,
    ) -> None:
        """Add a slice without a thread, on a track of its category. end_ns: null for one that never ended."""
        places = self.intern_text(name), self.intern_text(category), process, self.intern_text(category), id
        self._rows.append((ord("b"), *places, arguments, start_ns, MISSING))
        if end_ns is not None:
            self._rows.append((ord("e"), *places, NONE, end_ns, MISSING))

    def add_events(
        self,
        phase: str | Array,
        time_ns: Array,
        name: Array | int,
        thread: Array | int,
        *,
        duration_ns: Array | int = MISSING,
        category: Array | int = NONE,
        process: Array | int = NONE,
        id: Array | int = NONE,
        arguments: Array | int = NONE,
        value: Array | None = None,
    ) -> None:
        """Add many events: columns, or a value for all of them, as in TraceEvents; texts are given by their indices.
        They follow the events that are added one by one. value: of counters, instead of arguments. Do not change the
        columns afterwards."""
        letters = ord(phase) if isinstance(phase, str) else phase
        columns = (letters, name, category, process, thread, id, arguments, time_ns, duration_ns)
        self._blocks.append((len(time_ns), columns, value))

    def add_metadata(self, what: str, thread: str, process: str, **said: Any) -> None:
        """Set metadata of a thread or process: `thread_name` its `name`."""
        places = self.intern_text(what), NONE, self.intern_text(process), self.intern_text(thread)
        self._rows.append((ord("M"), *places, NONE, self.intern_arguments(said), MISSING, MISSING))

    def finish(self, lost: list[tuple[str, int, str]] | None = None, **top: Any) -> TraceEvents:
        """The events. lost, top: as in TraceEvents. Not for use afterwards."""
        rows = np.array(self._rows, np.int64).reshape(-1, 9).T
        self._rows = []
        blocks, self._blocks = [(rows.shape[1], tuple(rows), None), *self._blocks], []
        kinds = np.uint8, *[np.int32] * 6, *[np.int64] * 2
        columns = [np.empty(sum(count for count, _, _ in blocks), kind) for kind in kinds]
        numbers = {
            key: NumericArgument(np.array(events, np.int32), np.array(values, np.int64))
            for key, (events, values) in self._numbers.items()
        }
        counted = []
        at = 0
        for count, block, value in blocks:
            for column, values in zip(columns, block, strict=True):
                column[at : at + count] = values
            if value is not None:
                counted.append((np.arange(at, at + count, dtype=np.int32), value))
            at += count
        if counted:
            numbers[""] = NumericArgument(*(np.concatenate(parts) for parts in zip(*counted, strict=True)))
        phase, name, category, process, thread, id, arguments, time_ns, duration_ns = columns
        return TraceEvents(
            texts=list(self._texts),
            phase=phase,
            name=name,
            category=category,
            process=process,
            thread=thread,
            arguments=arguments,
            id=id,
            time_ns=time_ns,
            duration_ns=duration_ns,
            numbers=numbers,
            top=top,
            lost=lost or [],
        )
