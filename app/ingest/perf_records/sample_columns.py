"""The samples of a recording as columns, and the times of all records."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from ...domain.arrays import Array, Int64Array
from .event_attributes import SampleType
from .file_header import RecordedEvent
from .record_index import RecordIndex
from .unsupported import UnsupportedRecords

SAMPLE = 9
"""PERF_RECORD_SAMPLE."""
FIRST_USER_KIND = 64
"""Records from this type on were written by perf, and have no time."""
_FINISHED_ROUND = 68
_FIXED = (
    *(SampleType.IDENTIFIER, SampleType.IP, SampleType.TID, SampleType.TIME, SampleType.ADDR, SampleType.ID),
    *(SampleType.STREAM_ID, SampleType.CPU, SampleType.PERIOD),
)
"""What comes before a call chain in a sample, one word each."""
_TRAILER = (
    *(SampleType.TID, SampleType.TIME, SampleType.ID, SampleType.STREAM_ID, SampleType.CPU, SampleType.IDENTIFIER),
)
"""What is at the end of other records if `sample_id_all` is set."""
_UNSUPPORTED = (
    (SampleType.BRANCH_STACK, "it contains branch stacks"),
    (SampleType.STACK_USER, "it contains copies of user stacks, which perf unwinds"),
    (SampleType.READ, "its samples contain counts of other events"),
    (SampleType.AUX, "it contains raw data of a processor's trace"),
)
_NO_TIMES = (0, 2**64 - 1)
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, eq=False)
class SampleColumns:
    """Samples, in any order. row: of the record. flags: of its header. event: number. pid, tid: int32. cpu: -1 if
    unknown. period: that of the event if it is not in the samples. chain: where in the words its call chain begins.
    chain_length: -1 without a call chain."""

    row: Int64Array
    flags: Array
    event: Array
    ip: Array
    pid: Array
    tid: Array
    cpu: Array
    period: Array
    chain: Int64Array
    chain_length: Int64Array

    def take(self, rows: Array) -> "SampleColumns":
        return SampleColumns(*(getattr(self, column.name)[rows] for column in fields(self)))


def check_events(events: Sequence[RecordedEvent]) -> SampleType:
    """What all samples contain. Raises UnsupportedRecords if perf script has to read them."""
    if not events:
        raise UnsupportedRecords("it has no events")
    types = [event.attributes.sample_type for event in events]
    shown = SampleType.TID | SampleType.TIME | SampleType.CPU | SampleType.IP
    for event, kind in zip(events, types, strict=True):
        for bit, reason in _UNSUPPORTED:
            if kind & bit:
                raise UnsupportedRecords(reason)
        if not event.attributes.sample_type_is_known:
            raise UnsupportedRecords("its samples contain something that is not known here")
        if event.attributes.has("context_switch"):
            raise UnsupportedRecords("it contains switches between threads")
        if kind & shown != types[0] & shown:
            raise UnsupportedRecords("its events have different fields")
        if _trailer(kind) != _trailer(types[0]) or not event.attributes.has("sample_id_all"):
            raise UnsupportedRecords("the fields of its records differ")
    needed = SampleType.TID | SampleType.TIME | SampleType.IP
    if types[0] & needed != needed:
        raise UnsupportedRecords("its samples have no time, thread or address")
    if len(events) > 1 and any(not kind & (SampleType.ID | SampleType.IDENTIFIER) for kind in types):
        raise UnsupportedRecords("its samples do not say to which event they belong")
    if len({_place_of_id(kind) for kind in types}) > 1:
        raise UnsupportedRecords("the fields of its samples differ")
    return types[0]


def _trailer(kind: SampleType) -> list[SampleType]:
    return [bit for bit in _TRAILER if kind & bit]


def _place(kind: SampleType, wanted: SampleType) -> int:
    """In which word of a sample a value is."""
    return 1 + sum(bool(kind & bit) for bit in _FIXED[: _FIXED.index(wanted)])


def _place_of_id(kind: SampleType) -> int:
    return _place(kind, SampleType.IDENTIFIER if kind & SampleType.IDENTIFIER else SampleType.ID)


def read_samples(index: RecordIndex, events: Sequence[RecordedEvent]) -> tuple[SampleColumns, int]:
    """The samples, and the number of those of an unknown event."""
    rows = np.flatnonzero(index.kind == SAMPLE)
    unknown = 0
    if len(events) == 1:
        parts = [_read_event(index, rows, 0, events[0])]
    else:
        at = _place_of_id(events[0].attributes.sample_type)
        if len(rows) and int(index.size[rows].min()) <= at:
            raise UnsupportedRecords("a sample is too short")
        event = _find_events(index.words[index.place[rows] + at], events)
        unknown = int(np.count_nonzero(event < 0))
        parts = [_read_event(index, rows[event == number], number, one) for number, one in enumerate(events)]
    columns = SampleColumns(
        *(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(SampleColumns))
    )
    return columns, unknown


def _find_events(ids: Array, events: Sequence[RecordedEvent]) -> Array:
    """The event of each identifier, -1 if there is none. 0 is that of the first event, as in perf."""
    pairs = sorted({id: number for number, event in enumerate(events) for id in event.ids}.items())
    known = np.array([id for id, _ in pairs] or [0], np.uint64)
    numbers = np.array([number for _, number in pairs] or [-1])
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    found: Array = np.where(known[at] == ids, numbers[at], np.where(ids == 0, 0, -1))
    return found


def _read_event(index: RecordIndex, rows: Array, number: int, event: RecordedEvent) -> SampleColumns:
    """The samples of one event."""
    kind = event.attributes.sample_type
    words, place, size = index.words, index.place[rows], index.size[rows]
    chain_at = 1 + sum(bool(kind & bit) for bit in _FIXED)
    has_chains = bool(kind & SampleType.CALLCHAIN)
    if len(rows) and int(size.min()) < chain_at + has_chains:
        raise UnsupportedRecords("a sample is too short")

    def column(bit: SampleType) -> Array:
        return words[place + _place(kind, bit)]

    task = column(SampleType.TID)
    length = words[place + chain_at].view(np.int64) if has_chains else np.full(len(rows), -1)
    if has_chains and len(rows) and not ((length >= 0) & (length < size - chain_at)).all():
        raise UnsupportedRecords("a call chain is longer than its record")
    none = np.zeros(len(rows), np.int64)
    always = np.uint64(event.attributes.fields["sample_period"])
    return SampleColumns(
        row=rows,
        flags=index.flags[rows],
        event=np.full(len(rows), number, np.int32),
        ip=column(SampleType.IP),
        pid=(task & _LOW).astype(np.uint32).view(np.int32),
        tid=(task >> np.uint64(32)).astype(np.uint32).view(np.int32),
        cpu=(column(SampleType.CPU) & _LOW).astype(np.uint32).view(np.int32) if kind & SampleType.CPU else none - 1,
        period=column(SampleType.PERIOD) if kind & SampleType.PERIOD else none.view(np.uint64) + always,
        chain=place + chain_at + 1,
        chain_length=length,
    )


def order_records(index: RecordIndex, kind: SampleType) -> tuple[Int64Array, Array]:
    """(rows of the records in the order in which perf delivers them: by time, those of the same time as in the file;
    their times by row). kind: of all samples."""
    times = np.zeros(len(index.place), np.uint64)
    samples = index.kind == SAMPLE
    at = _place(kind, SampleType.TIME)
    if samples.any() and int(index.size[samples].min()) <= at:
        raise UnsupportedRecords("a sample is too short")
    times[samples] = index.words[index.place[samples] + at]
    trailer = _trailer(kind)
    others = ~samples & (index.kind < FIRST_USER_KIND) & (index.size > len(trailer))
    before_end = len(trailer) - trailer.index(SampleType.TIME)
    times[others] = index.words[index.place[others] + index.size[others] - before_end]
    untimed = np.isin(times, np.array(_NO_TIMES, np.uint64))
    delivery = times.copy()
    delivery[untimed] = 0
    if untimed.any():
        # A record without a time is delivered when it is read; before it, all that the last but one end of a round
        # allowed to be delivered.
        latest = np.maximum.accumulate(delivery)
        ends = np.flatnonzero(index.kind == _FINISHED_ROUND)
        flushed = np.zeros(len(times), np.uint64)
        if len(ends) > 1:
            last = np.searchsorted(ends, np.flatnonzero(untimed)) - 2
            flushed[untimed] = np.where(last >= 0, latest[ends[np.maximum(last, 0)]], 0)
        delivery = np.where(untimed, flushed, delivery)
    return np.argsort(delivery, kind="stable"), times
