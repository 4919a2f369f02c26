"""Texts of trace events, read in both ways: scanned by compiled loops in small chunks, and decoded."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from perfloom.domain.arrays import MISSING
from perfloom.ingest.trace.events import ID_TEXT, TraceEvents
from perfloom.ingest.trace_json.decoder import decode
from perfloom.ingest.trace_json.parallel_scan import scan_events_parallel

EVENT = (
    '{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":2,"ts":1.5,"dur":2,"id":9,'
    '"args":{"External id":5,"Input Dims":[[1, 2], []],"Call stack":"a;b"}}'
)


@dataclass(frozen=True)
class Event:
    """An event as it was read. Times in ns, None if missing; id: a number or a text."""

    phase: str
    name: str | None
    category: str | None
    process: str | None
    thread: str | None
    id: int | str | None
    time: int | None
    duration: int | None
    arguments: str | None
    numbers: tuple[tuple[str, int], ...]


def listed(events: TraceEvents) -> list[Event]:
    """The events, one by one."""
    texts = [*events.texts, None]
    numbers: list[dict[str, int]] = [{} for _ in range(len(events))]
    for key, found in events.numbers.items():
        assert sorted(set(found.event.tolist())) == found.event.tolist()
        for event, value in zip(found.event.tolist(), found.value.tolist(), strict=True):
            numbers[event][key] = value
    columns: Any = zip(
        [chr(phase) if phase else "" for phase in events.phase.tolist()],
        *(
            [texts[i] for i in column.tolist()]
            for column in (events.name, events.category, events.process, events.thread)
        ),
        [None if i < 0 else i if i < ID_TEXT else texts[i - ID_TEXT] for i in events.id.tolist()],
        *([None if t == MISSING else t for t in column.tolist()] for column in (events.time_ns, events.duration_ns)),
        [texts[i] for i in events.arguments.tolist()],
        [tuple(sorted(one.items())) for one in numbers],
        strict=True,
    )
    return [Event(*row) for row in columns]


@dataclass(frozen=True)
class Read:
    """The content of a text."""

    events: list[Event]
    top: dict[str, Any]
    lost: dict[str, tuple[int, str]]

    @property
    def names(self) -> list[str | None]:
        """The names of the events."""
        return [event.name for event in self.events]


def read(text: str | bytes, pieces: int = 300) -> Read:
    """The content, which both ways must agree on. pieces: how many bytes are scanned at a time."""
    data = text.encode() if isinstance(text, str) else text
    plain, fast = (
        Read(listed(one), one.top, {reason: (count, first) for reason, count, first in one.lost})
        for one in (decode(io.BytesIO(data)), scan_events_parallel(io.BytesIO(data), pieces, 2))
    )
    assert fast == plain
    return plain


def trace(*events: str, **top: str) -> str:
    """A document with these events, and with texts of values next to them."""
    beside = "".join(f',"{key}":{value}' for key, value in top.items())
    return f'{{"traceEvents":[{",".join(events)}]{beside}}}'
