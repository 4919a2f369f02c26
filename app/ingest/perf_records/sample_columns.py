"""The samples of a recording as columns, and the times of all records."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np

from ...domain.arrays import Array, Int64Array
from .block_threads import map_blocks
from .chain_keys import BLOCK_WORDS, ChainKeys, make_weights
from .event_attributes import SampleType
from .file_header import RecordedEvent
from .group_values import check_format, measure_values, split_groups
from .record_index import SAMPLE, RecordIndex
from .unsupported import UnsupportedRecords

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
    (SampleType.AUX, "it contains raw data of a processor's trace"),
)
_TOO_SHORT = "a sample is too short"
_TOO_LONG = "a call chain is longer than its record"
_NO_TIMES = np.array((0, 2**64 - 1), np.uint64)


_MODE = 7
"""Bits of the flags of a record."""
_PART_BLOCKS = 16
"""After so many blocks, the memory of what was read is released."""


@dataclass(frozen=True, eq=False)
class RecordedSamples:
    """Samples. time: 0 if it was not recorded. mode: in which the CPU was. event: number, -1 if it is not known. pid,
    tid: int32. cpu: -1 if unknown. period: that of the event if it is not in the samples. key: different for samples
    of different code (see ChainKeys), apart from their address spaces. code: where in the words the address is, for a
    sample without a call chain, else where the chain begins. length: of the call chain, -1 without one."""

    time: Array
    mode: Array
    event: Array
    pid: Array
    tid: Array
    cpu: Array
    period: Array
    key: Array
    code: Array
    length: Array

    def reorder(self, rows: Int64Array) -> None:
        """Put the samples into the order of these rows."""

        def reorder_column(values: Array) -> None:
            values[:] = values[rows]

        map_blocks(reorder_column, [getattr(self, column.name) for column in fields(self)])

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
    check_format(events)
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


def read_samples(index: RecordIndex, events: Sequence[RecordedEvent], *, compiled: bool = False) -> RecordedSamples:
    """All samples, in the order of the file. compiled: whether compiled loops read them. Raises UnsupportedRecords."""
    return _SampleReader(index, events, compiled=compiled).read()


class _SampleReader:
    """Reads the samples of a file block by block, all columns at once."""

    def __init__(self, index: RecordIndex, events: Sequence[RecordedEvent], *, compiled: bool) -> None:
        self._index, self._events = index, events
        self._keys, self._weights = ChainKeys(), make_weights()
        self._kinds = [event.attributes.sample_type for event in events]
        # The same chain has another number for the loop.
        self._compiled = compiled and len(set(self._kinds)) == 1 and not self._kinds[0] & SampleType.READ
        self._read_format = check_format(events)
        self._periods = np.array([event.attributes.fields["sample_period"] for event in events], np.uint64)
        self._rows = np.flatnonzero(index.kind == SAMPLE)
        count = len(self._rows)
        self._samples = RecordedSamples(
            time=np.zeros(count, np.uint64),
            mode=np.zeros(count, np.uint8),
            event=np.zeros(count, np.int16),
            pid=np.zeros(count, np.int32),
            tid=np.zeros(count, np.int32),
            cpu=np.full(count, -1, np.int32),
            period=np.zeros(count, np.uint64),
            key=np.zeros(count, np.uint64),
            code=np.zeros(count, np.uint32 if len(index.words) < 1 << 32 else np.int64),
            length=np.full(count, -1, np.int16),
        )

    def read(self) -> RecordedSamples:
        edges = np.searchsorted(self._index.place, np.arange(0, len(self._index.words) + BLOCK_WORDS, BLOCK_WORDS))
        bounds = np.searchsorted(self._rows, edges).tolist()
        map_blocks(
            self._read_blocks, [bounds[at : at + _PART_BLOCKS + 1] for at in range(0, len(bounds) - 1, _PART_BLOCKS)]
        )
        return self._samples

    def _read_blocks(self, bounds: list[int]) -> None:
        for first, last in pairwise(bounds):
            if first < last:
                self._read_block(slice(first, last))
        self._index.release()

    def _read_block(self, block: slice) -> None:
        index, rows = self._index, self._rows[block]
        if len(self._events) == 1:
            self._read_kind(self._kinds[0], block, rows)
            return
        at = _place_of_id(self._kinds[0])
        if int(index.size[rows].min()) <= at:
            raise UnsupportedRecords(_TOO_SHORT)
        event = _find_events(index.words[index.place[rows] + at], self._events)
        self._samples.event[block] = event
        for kind in set(self._kinds):
            own = np.flatnonzero(np.isin(event, [number for number, one in enumerate(self._kinds) if one == kind]))
            if len(own) == len(event):
                self._read_kind(kind, block, rows)
            elif len(own):
                self._read_kind(kind, own + block.start, rows[own])

    def _read_kind(self, kind: SampleType, at: slice | Int64Array, rows: Int64Array) -> None:
        """Read samples with the same contents. at: their rows in the columns. rows: those in the index."""
        samples = self._samples
        if not kind & SampleType.PERIOD:
            samples.period[at] = self._periods[samples.event[at]]
        if self._compiled:
            self._read_compiled(kind, at, rows)
            return
        index = self._index
        place, size = index.place[rows], index.size[rows]
        low = int(place[0])
        words = index.words[low : int(place[-1]) + int(size[-1])]
        place -= low
        samples.mode[at] = index.flags[rows] & _MODE
        values_at = 1 + sum(bool(kind & bit) for bit in _FIXED)
        has_chains = bool(kind & SampleType.CALLCHAIN)
        has_values = bool(kind & SampleType.READ)
        if int(size.min()) < values_at + has_chains + has_values:
            raise UnsupportedRecords(_TOO_SHORT)
        chain_at: int | Int64Array = values_at
        if has_values:
            chain_at = values_at + measure_values(words[place + values_at], self._read_format, size)
            if (size < chain_at + has_chains).any():
                raise UnsupportedRecords(_TOO_SHORT)
        task = words[place + _place(kind, SampleType.TID)]
        samples.pid[at] = task.astype(np.uint32).view(np.int32)
        task >>= np.uint64(32)
        samples.tid[at] = task.astype(np.uint32).view(np.int32)
        if kind & SampleType.TIME:
            samples.time[at] = words[place + _place(kind, SampleType.TIME)]
        if kind & SampleType.CPU:
            samples.cpu[at] = words[place + _place(kind, SampleType.CPU)].astype(np.uint32).view(np.int32)
        if kind & SampleType.PERIOD:
            samples.period[at] = words[place + _place(kind, SampleType.PERIOD)]
        if not has_chains:
            address = place + _place(kind, SampleType.IP)
            samples.key[at] = self._keys.mix(words[address]) + samples.mode[at]
            samples.code[at] = address + low
            return
        length = words[place + chain_at]
        place = place + (chain_at + 1)
        if (length >= (size - chain_at).astype(np.uint64)).any():
            raise UnsupportedRecords(_TOO_LONG)
        length = length.astype(np.int16)
        samples.key[at] = self._keys.hash_chains(words, place, length)
        samples.code[at] = place + low
        samples.length[at] = length

    def _read_compiled(self, kind: SampleType, at: slice | Int64Array, rows: Int64Array) -> None:
        from .record_loops import TOO_SHORT, read_fields

        shown = (SampleType.TID, SampleType.TIME, SampleType.CPU, SampleType.PERIOD, SampleType.IP)
        fields = [_place(kind, bit) if kind & bit else -1 for bit in shown]
        values_at = 1 + sum(bool(kind & bit) for bit in _FIXED)
        has_chains = bool(kind & SampleType.CALLCHAIN)
        layout = (*fields, values_at if has_chains else -1, _MODE, values_at + has_chains)
        samples, index = self._samples, self._index
        names = ("mode", "pid", "tid", "time", "cpu", "period", "key", "code", "length")
        columns = [getattr(samples, name)[at] for name in names]
        failure = read_fields(index.words, rows, index.place, index.size, index.flags, layout, self._weights, *columns)
        if failure:
            raise UnsupportedRecords(_TOO_SHORT if failure == TOO_SHORT else _TOO_LONG)
        if not isinstance(at, slice):
            # These were copies.
            for name, values in zip(names, columns, strict=True):
                getattr(samples, name)[at] = values


def _find_events(ids: Array, events: Sequence[RecordedEvent]) -> Array:
    """The event of each identifier, -1 if there is none. 0 is that of the first event, as in perf."""
    pairs = sorted({id: number for number, event in enumerate(events) for id in event.ids}.items())
    known = np.array([id for id, _ in pairs] or [0], np.uint64)
    numbers = np.array([number for _, number in pairs] or [-1])
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    found: Array = np.where(known[at] == ids, numbers[at], np.where(ids == 0, 0, -1))
    return found


def split_samples(
    index: RecordIndex, rows: Int64Array, events: Sequence[RecordedEvent], samples: RecordedSamples
) -> tuple[RecordedSamples, Int64Array]:
    """(the samples of each event of a group, see `group_values`; which of the given samples each is from). rows: of the
    samples in the index."""
    kinds = [event.attributes.sample_type for event in events]
    has_values = np.array([bool(kind & SampleType.READ) for kind in kinds])
    values_at = np.array([1 + sum(bool(kind & bit) for bit in _FIXED) for kind in kinds])
    is_own = has_values[samples.event] & (samples.event >= 0)
    own, others = np.flatnonzero(is_own), np.flatnonzero(~is_own)
    place = index.place[rows[own]] + values_at[samples.event[own]]
    of_group, event, period = split_groups(
        index.words, place, check_format(events), lambda ids: _find_events(ids, events)
    )
    row = np.concatenate((own[of_group], others))
    order = np.argsort(row, kind="stable")
    row = row[order]
    return (
        replace(
            samples.take(row),
            event=np.concatenate((event, samples.event[others]))[order],
            period=np.concatenate((period, samples.period[others]))[order],
        ),
        row,
    )


def order_records(index: RecordIndex, kind: SampleType, samples: RecordedSamples) -> Int64Array:
    """The rows of the records in the order in which perf delivers them: by time, those of the same time as in the file.
    Without times as in the file.

    kind: what all samples contain. samples: all of the file.
    """
    if not kind & SampleType.TIME:
        return np.arange(len(index.place))
    times = np.zeros(len(index.place), np.uint64)
    times[index.kind == SAMPLE] = samples.time
    trailer = _trailer(kind)
    others = index.other_rows
    others = others[(index.kind[others] < FIRST_USER_KIND) & (index.size[others] > len(trailer))]
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
