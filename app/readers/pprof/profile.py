"""Builds a Profile from the bytes of a pprof file: whole columns of messages at a time."""

from itertools import pairwise

import numpy as np

from ...domain.arrays import Array
from ...domain.builder import IMPOSSIBLE_WEIGHT, ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.profile import Meta, Profile
from ...domain.units import NS_PER_MS, NS_PER_S, NS_PER_US
from ...ingest.jit.protobuf_columns import MessageColumns, read_messages, read_numbers
from ...ingest.losses import MAX_SHORT_EXAMPLE_CHARS
from .code import CodeTables
from .format import (
    BAD_FUNCTION,
    BAD_LOCATION,
    BAD_MAPPING,
    BAD_PERIOD_TYPE,
    BAD_SAMPLE,
    BAD_TYPE,
    CUT_OFF,
    FORMAT,
    NEGATIVE,
    NO_LOCATION,
    NO_STRING,
    NO_VALUES,
)
from .stacks import StackTree
from .strings import PprofStrings
from .threads import ThreadLabels

UNITS = {"nanoseconds": "ns", "nanosecond": "ns", "bytes": "bytes", "byte": "bytes", "count": "count"}
UNIT_FACTORS = {"microseconds": NS_PER_US, "milliseconds": NS_PER_MS, "seconds": NS_PER_S}
"""Units of time that are converted to ns, with their factors."""
BLOCK_BYTES = 16 << 20
"""How many bytes of samples are unpacked at a time."""
MAX_VALUE = (1 << 63) - 1
_TYPES, _SAMPLES, _MAPPINGS, _LOCATIONS, _FUNCTIONS, _STRINGS, _PERIOD_TYPE = 1, 2, 3, 4, 5, 6, 11
_TIME, _DURATION, _PERIOD, _COMMENTS, _DEFAULT = 9, 10, 12, 13, 14
_MALFORMED = {
    _TYPES: BAD_TYPE,
    _SAMPLES: BAD_SAMPLE,
    _MAPPINGS: BAD_MAPPING,
    _LOCATIONS: BAD_LOCATION,
    _FUNCTIONS: BAD_FUNCTION,
    _PERIOD_TYPE: BAD_PERIOD_TYPE,
}
_LISTED = (*_MALFORMED, _STRINGS, _TIME, _DURATION, _PERIOD, _COMMENTS, _DEFAULT)


def build_profile(data: bytes, source: str, defect: str | None) -> Profile:
    """The profile. Raises UnreadableInput if it has no samples."""
    return _PprofConverter(data).finish(source, defect)


class _PprofConverter:
    def __init__(self, data: bytes) -> None:
        self._builder = ProfileBuilder(FORMAT)
        self._data = np.frombuffer(data, np.uint8)
        file = read_messages(self._data, np.array([[0], [len(data)]]), (), (), _LISTED)
        self._parts = file.listed
        self._reasons: list[str] = []
        if file.malformed[0]:
            at = f"byte {int(file.malformed[0]) - 1:,} of {len(data):,}"
            self._builder.add_loss(CUT_OFF, at)
            self._reasons.append(f"The file is truncated or damaged at {at}; the rest is missing.")
        self._texts = PprofStrings(self._data, self._parts.pop(_STRINGS).select_contents().spans)
        self._taken = 0

    def finish(self, source: str, defect: str | None) -> Profile:
        """The profile of the whole file."""
        events = self._intern_events()
        if not events:
            raise UnreadableInput(f"{source} is a pprof file without sample types. Record again.")
        if self._texts.missing:
            raise UnreadableInput(
                f"{source} is not complete: the names of its sample types are not in its string table. Copy or record "
                "it again."
            )
        if len({event for _, event, _ in events}) < len(events):
            names = ", ".join(name for name, _, _ in events)
            raise UnreadableInput(
                f"{source} has two sample types of one name ({names}), whose values cannot be distinguished. Export "
                "it with different names."
            )
        code = CodeTables(
            self._builder,
            self._texts,
            self._read(_MAPPINGS, (1, 5)),
            self._read(_LOCATIONS, (1, 2, 3), (4,)),
            lambda: self._read(_FUNCTIONS, (1, 2, 3, 4, 5)),
        )
        self._add_samples(events, code)
        if not self._taken:
            raise UnreadableInput(f"{source} has no samples. Record again, for longer.")
        self._builder.set_code_tables(code.functions, code.frames)
        self._builder.add_run()
        duration, start = self._get_number(_DURATION), self._get_number(_TIME)
        main = self._texts[self._get_number(_DEFAULT)] or events[-1][0]
        _, places = read_numbers(self._data, self._parts[_COMMENTS], np.zeros(1, bool))
        comments = [self._texts[place] for place in places.tolist()]
        if self._texts.missing:
            example = f"string {self._texts.first_missing}"
            self._builder.add_loss(NO_STRING, example, self._texts.missing)
            self._reasons.append(
                f"Names are not in the string table of the file: {self._texts.missing:,}, the first is {example}."
            )
        reasons = [*self._reasons, *([defect] if defect else [])]
        return self._builder.finish(
            Meta(
                FORMAT,
                duration_ns=duration if 0 < duration < 1 << 62 else None,
                start_epoch_ns=start if 0 < start < 1 << 62 else None,
                main_event=main if main in {name for name, _, _ in events} else None,
                complete=not reasons,
                reasons=tuple(reasons),
                facts={"comment": "\n".join(comments)} if any(comments) else {},
            )
        )

    def _get_number(self, field: int) -> int:
        """A number of the Profile itself; of several the last."""
        numbers = self._parts[field].select_numbers()
        return int(numbers.value[-1]) if len(numbers) else 0

    def _read(self, field: int, fields: tuple[int, ...], listed: tuple[int, ...] = ()) -> MessageColumns:
        """The valid messages of a kind; others are lost. Each kind can be read only once."""
        places = self._parts.pop(field)
        messages = read_messages(self._data, places.select_contents().spans, fields, (), listed)
        wrong = np.flatnonzero(messages.malformed)
        count = len(wrong) + len(places) - len(messages)
        if count:
            first = int(wrong[0]) if len(wrong) else 0
            self._builder.add_loss(_MALFORMED[field], f"the {first + 1}th", count)
        if not len(wrong):
            return messages
        sound = np.flatnonzero(messages.malformed == 0)
        return read_messages(self._data, np.stack((messages.begin[sound], messages.end[sound])), fields, (), listed)

    def _intern_events(self) -> list[tuple[str, int, int]]:
        """(name, id, factor of the values) of each type of value."""
        types, period = self._read(_TYPES, (1, 2)), self._get_number(_PERIOD)
        of_period = next(iter(self._read(_PERIOD_TYPE, (1, 2)).get_number(1).tolist()), 0)
        events = []
        for kind, unit_place in zip(types.get_number(1).tolist(), types.get_number(2).tolist(), strict=True):
            name, unit = self._texts[kind] or "samples", self._texts[unit_place]
            times = UNIT_FACTORS.get(unit, 1)
            sampled = kind == of_period and 0 < period < 1 << 62
            event = self._builder.intern_event(
                name,
                "ns" if unit in UNIT_FACTORS else UNITS.get(unit, unit or "count"),
                sampling="period" if sampled else None,
                rate=float(period * times) if sampled else None,
            )
            events.append((name, event, times))
        return events

    def _add_samples(self, events: list[tuple[str, int, int]], code: CodeTables) -> None:
        places = self._parts[_SAMPLES]
        spans = places.select_contents().spans
        if spans.shape[1] < len(places):
            self._builder.add_loss(BAD_SAMPLE, "a number", len(places) - spans.shape[1])
        threads, stacks = ThreadLabels(self._builder, self._texts, self._data), StackTree(code)
        # Together they could need many times the size of the file in memory.
        block = np.cumsum(spans[1] - spans[0]) // BLOCK_BYTES
        bounds = np.append(np.flatnonzero(np.diff(block, prepend=-1)), len(block)).tolist()
        for first, last in pairwise(bounds):
            self._add_block(
                read_messages(self._data, spans[:, first:last], (), (), (1, 2, 3)), events, code, threads, stacks
            )
        # The builder has no stack yet: nodes get the same numbers there as here.
        self._builder.add_stack_tree(*stacks.get_tree())

    def _add_block(
        self,
        found: MessageColumns,
        events: list[tuple[str, int, int]],
        code: CodeTables,
        threads: ThreadLabels,
        stacks: StackTree,
    ) -> None:
        """Add some samples."""
        damaged = found.malformed != 0
        value_rows, values = read_numbers(self._data, found.listed[2], damaged)
        location_rows, ids = read_numbers(self._data, found.listed[1], damaged)
        counts = np.bincount(value_rows, minlength=len(found))
        uneven = ~damaged & (counts != len(events))
        good = ~damaged & ~uneven
        for reason, wrong in ((BAD_SAMPLE, damaged), (NO_VALUES, uneven)):
            if wrong.any():
                number = int(counts[np.argmax(wrong)])
                example = f"{number} of {len(events)}" if wrong is uneven else ""
                self._builder.add_loss(reason, example, int(wrong.sum()))
        kept = good[location_rows]
        location_rows, ids = location_rows[kept], ids[kept]
        locations = code.find_rows(ids)
        unknown = np.flatnonzero(locations < 0)
        if len(unknown):
            count = len(np.unique(location_rows[unknown]))
            self._builder.add_loss(NO_LOCATION, f"location {int(ids[unknown[0]])}", count)
        ends = np.cumsum(np.bincount(location_rows, minlength=len(found))[good])
        stack, thread = stacks.intern(locations, ends), threads.intern_threads(found.listed[3], good)
        self._add_values(values[good[value_rows]].reshape(-1, len(events)), events, thread, stack)

    def _add_values(self, values: Array, events: list[tuple[str, int, int]], thread: Array, stack: Array) -> None:
        """Add samples: a row of `values` each, a column per event. Zeros are omitted."""
        times = np.array([times for _, _, times in events], np.int64)
        for reason, wrong in ((NEGATIVE, values < 0), (IMPOSSIBLE_WEIGHT, values > MAX_VALUE // times)):
            if wrong.any():
                first, kind = (int(places[0]) for places in np.nonzero(wrong))
                example = f"{int(values[first, kind])} of {events[kind][0][:MAX_SHORT_EXAMPLE_CHARS]}"
                self._builder.add_loss(reason, example, int(wrong.sum()))
        row, column = np.nonzero((values > 0) & (values <= MAX_VALUE // times))
        same = np.zeros(len(row), np.int64)
        event = np.array([event for _, event, _ in events], np.int64)[column]
        self._builder.add_samples(same, thread[row], same - 1, event, stack[row], values[row, column] * times[column])
        self._taken += len(row)
