"""The samples of a recording as columns, and the times of all records."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

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
_NO_TIMES = np.array((0, 2**64 - 1), np.uint64)


@dataclass(frozen=True, eq=False)
class RecordedSamples:
    """Samples. time: 0 if it was not recorded. flags: of the header of the record. event: number. pid, tid: int32. cpu:
    -1 if unknown. period: that of the event if it is not in the samples. chain: where in the words its call chain
    begins. length: of the call chain, -1 without one."""

    time: Array
    flags: Array
    event: Array
    ip: Array
    pid: Array
    tid: Array
    cpu: Array
    period: Array
    chain: Int64Array
    length: Array

    def drop_code(self) -> "RecordedSamples":
        """The samples without what says which code ran."""
        none = np.zeros(0, np.int64)
        return replace(self, flags=none, ip=none, chain=none, length=none)

    def take(self, rows: Array | slice) -> "RecordedSamples":
        """The samples in some rows, by their numbers, a mask or a range."""
        return RecordedSamples(*(getattr(self, column.name)[rows] for column in fields(self)))


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
    needed = SampleType.TID | SampleType.IP
    if types[0] & needed != needed:
        raise UnsupportedRecords("its samples have no thread or address")
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


def read_samples(
    index: RecordIndex, rows: Int64Array, events: Sequence[RecordedEvent]
) -> tuple[RecordedSamples, Array]:
    """(the samples of known events in these rows of the index, mask of those rows). Raises UnsupportedRecords."""
    kinds = {event.attributes.fields["sample_type"] for event in events}
    if len(events) == 1:
        number = np.zeros(len(rows), np.int32)
    else:
        at = _place_of_id(events[0].attributes.sample_type)
        if len(rows) and int(index.size[rows].min()) <= at:
            raise UnsupportedRecords("a sample is too short")
        number = _find_events(index.read_words(index.place[rows] + at), events).astype(np.int32)
    known = number >= 0
    if not known.all():
        rows, number = rows[known], number[known]
    if len(kinds) == 1:
        return _read(index, rows, number, events), known
    groups = [np.flatnonzero(number == one) for one in range(len(events))]
    parts = [_read(index, rows[group], number[group], events) for group in groups if len(group)]
    if not parts:
        return _read(index, rows, number, events), known
    columns = (np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(RecordedSamples))
    return RecordedSamples(*columns).take(np.argsort(np.concatenate(groups))), known


def _find_events(ids: Array, events: Sequence[RecordedEvent]) -> Array:
    """The event of each identifier, -1 if there is none. 0 is that of the first event, as in perf."""
    pairs = sorted({id: number for number, event in enumerate(events) for id in event.ids}.items())
    known = np.array([id for id, _ in pairs] or [0], np.uint64)
    numbers = np.array([number for _, number in pairs] or [-1])
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    found: Array = np.where(known[at] == ids, numbers[at], np.where(ids == 0, 0, -1))
    return found


def _read(index: RecordIndex, rows: Array, number: Array, events: Sequence[RecordedEvent]) -> RecordedSamples:
    """Samples with the same contents. number: of the event of each."""
    kind = events[int(number[0]) if len(number) else 0].attributes.sample_type
    place, size = index.place[rows], index.size[rows]
    chain_at = 1 + sum(bool(kind & bit) for bit in _FIXED)
    has_chains = bool(kind & SampleType.CALLCHAIN)
    if len(rows) and int(size.min()) < chain_at + has_chains:
        raise UnsupportedRecords("a sample is too short")

    def column(bit: SampleType) -> Array:
        return index.read_words(place + _place(kind, bit))

    periods = np.array([event.attributes.fields["sample_period"] for event in events], np.uint64)
    length = np.full(len(rows), -1, np.int32)
    if has_chains:
        lengths = index.read_words(place + chain_at)
        if (lengths >= (size - chain_at).astype(np.uint64)).any():
            raise UnsupportedRecords("a call chain is longer than its record")
        length = lengths.astype(np.int32)
    task = column(SampleType.TID)
    return RecordedSamples(
        time=column(SampleType.TIME) if kind & SampleType.TIME else np.zeros(len(rows), np.uint64),
        flags=index.flags[rows],
        event=number,
        ip=column(SampleType.IP),
        pid=task.astype(np.uint32).view(np.int32),
        tid=(task >> np.uint64(32)).astype(np.uint32).view(np.int32),
        cpu=column(SampleType.CPU).astype(np.uint32).view(np.int32)
        if kind & SampleType.CPU
        else np.full(len(rows), -1, np.int32),
        period=column(SampleType.PERIOD) if kind & SampleType.PERIOD else periods[number],
        chain=place + (chain_at + 1),
        length=length,
    )


def order_records(index: RecordIndex, kind: SampleType) -> Int64Array:
    """The rows of the records in the order in which perf delivers them: by time, those of the same time as in the file.
    Without times as in the file.

    kind: what all samples contain.
    """
    if not kind & SampleType.TIME:
        return np.arange(len(index.place))
    times = np.zeros(len(index.place), np.uint64)
    samples = index.kind == SAMPLE
    at = _place(kind, SampleType.TIME)
    if samples.any() and int(index.size[samples].min()) <= at:
        raise UnsupportedRecords("a sample is too short")
    times[samples] = index.read_words(index.place[samples] + at)
    trailer = _trailer(kind)
    others = ~samples & (index.kind < FIRST_USER_KIND) & (index.size > len(trailer))
    before_end = len(trailer) - trailer.index(SampleType.TIME)
    times[others] = index.read_words(index.place[others] + index.size[others] - before_end)
    untimed = (times == _NO_TIMES[0]) | (times == _NO_TIMES[1])
    times[untimed] = 0
    if untimed.any():
        # A record without a time is delivered when it is read; before it, all that the last but one end of a round
        # allowed to be delivered.
        latest = np.maximum.accumulate(times)
        ends = np.flatnonzero(index.kind == _FINISHED_ROUND)
        if len(ends) > 1:
            last = np.searchsorted(ends, np.flatnonzero(untimed)) - 2
            times[untimed] = np.where(last >= 0, latest[ends[np.maximum(last, 0)]], 0)
    if (times[1:] >= times[:-1]).all():
        return np.arange(len(times))
    return np.argsort(times, kind="stable")
