"""From the bytes of a pprof file to a Profile: whole columns of messages at a time."""

from itertools import pairwise

import numpy as np

from ...domain.arrays import Array
from ...domain.builder import TOO_HEAVY, ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.profile import Meta, Profile
from ...ingest.loops.wire_columns import Messages, messages, numbers_in
from .code import Code
from .format import CUT_OFF, FORMAT, NEGATIVE, NO_LOCATION, NO_VALUES
from .stacks import Stacks
from .texts import Texts
from .threads import Threads

UNITS = {"nanoseconds": "ns", "nanosecond": "ns", "bytes": "bytes", "byte": "bytes", "count": "count"}
SCALED = {"microseconds": 1_000, "milliseconds": 1_000_000, "seconds": 1_000_000_000}
"""Units of time that become ns here, by how many."""
BLOCK_BYTES = 16 << 20
"""Samples of so many bytes are unpacked at a time."""
MOST_EXAMPLE = 80
MOST = (1 << 63) - 1
_TYPES, _SAMPLES, _MAPPINGS, _LOCATIONS, _FUNCTIONS, _STRINGS, _PERIOD_TYPE = 1, 2, 3, 4, 5, 6, 11
_TIME, _DURATION, _PERIOD, _COMMENTS, _DEFAULT = 9, 10, 12, 13, 14
_NAMES = {
    _TYPES: "type of value",
    _SAMPLES: "sample",
    _MAPPINGS: "mapping",
    _LOCATIONS: "location",
    _FUNCTIONS: "function",
    _PERIOD_TYPE: "type of the period",
}
_LISTED = (*_NAMES, _STRINGS, _TIME, _DURATION, _PERIOD, _COMMENTS, _DEFAULT)


def assembled(data: bytes, source: str, defect: str | None) -> Profile:
    """The profile. Raises UnreadableInput where there is no sample in it."""
    return _Reading(data).finish(source, defect)


class _Reading:
    def __init__(self, data: bytes) -> None:
        self._builder = ProfileBuilder(FORMAT)
        self._data = np.frombuffer(data, np.uint8)
        file = messages(self._data, np.array([[0], [len(data)]]), (), (), _LISTED)
        self._parts = file.listed
        self._reasons: list[str] = []
        if file.bad[0]:
            at = f"byte {int(file.bad[0]) - 1:,} of {len(data):,}"
            self._builder.lost(CUT_OFF, at)
            self._reasons.append(f"The file is cut off or damaged at {at}; what follows is missing.")
        self._texts = Texts(self._data, self._parts[_STRINGS].contents().spans)
        self._taken = 0

    def finish(self, source: str, defect: str | None) -> Profile:
        """The profile of all that is there."""
        events = self._events()
        if not events:
            raise UnreadableInput(
                f"{source} is a file of pprof that says nothing of what was measured. Record it again."
            )
        code = Code(
            self._builder,
            self._texts,
            self._read(_MAPPINGS, (1, 5)),
            self._read(_LOCATIONS, (1, 2, 3), (4,)),
            self._read(_FUNCTIONS, (1, 2, 3, 4, 5)),
        )
        self._samples(events, code)
        if not self._taken:
            raise UnreadableInput(f"There is no sample in {source}: nothing was measured. Record it again, for longer.")
        self._builder.code(code.functions, code.frames)
        self._builder.run()
        duration, start = self._number(_DURATION), self._number(_TIME)
        main = self._texts[self._number(_DEFAULT)] or events[-1][0]
        _, places = numbers_in(self._data, self._parts[_COMMENTS], np.zeros(1, bool))
        comments = [self._texts[place] for place in places.tolist()]
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

    def _number(self, field: int) -> int:
        """A number of the Profile itself; of several the last."""
        found = self._parts[field].numbers()
        return int(found.value[-1]) if len(found) else 0

    def _read(self, field: int, fields: tuple[int, ...], listed: tuple[int, ...] = ()) -> Messages:
        """The messages of a sort that are sound; others are lost."""
        places = self._parts[field]
        found = messages(self._data, places.contents().spans, fields, (), listed)
        wrong = np.flatnonzero(found.bad)
        count = len(wrong) + len(places) - len(found)
        if count:
            first = int(wrong[0]) if len(wrong) else 0
            self._builder.lost(f"{_NAMES[field]} that is no message", f"the {first + 1}th", count)
        if not len(wrong):
            return found
        sound = np.flatnonzero(found.bad == 0)
        return messages(self._data, np.stack((found.begin[sound], found.end[sound])), fields, (), listed)

    def _events(self) -> list[tuple[str, int, int]]:
        """(name, id, by how much values are to be multiplied) of each type of value."""
        types, period = self._read(_TYPES, (1, 2)), self._number(_PERIOD)
        of_period = next(iter(self._read(_PERIOD_TYPE, (1, 2)).number(1).tolist()), 0)
        found = []
        for kind, unit_place in zip(types.number(1).tolist(), types.number(2).tolist(), strict=True):
            name, unit = self._texts[kind] or "samples", self._texts[unit_place]
            times = SCALED.get(unit, 1)
            sampled = kind == of_period and 0 < period < 1 << 62
            event = self._builder.event(
                name,
                "ns" if unit in SCALED else UNITS.get(unit, unit or "count"),
                sampling="period" if sampled else None,
                rate=float(period * times) if sampled else None,
            )
            found.append((name, event, times))
        return found

    def _samples(self, events: list[tuple[str, int, int]], code: Code) -> None:
        places = self._parts[_SAMPLES]
        spans = places.contents().spans
        if spans.shape[1] < len(places):
            self._builder.lost(f"{_NAMES[_SAMPLES]} that is no message", "a number", len(places) - spans.shape[1])
        threads, stacks = Threads(self._builder, self._texts, self._data), Stacks(code)
        # All at once they could take many times the memory that the file has.
        block = np.cumsum(spans[1] - spans[0]) // BLOCK_BYTES
        bounds = np.append(np.flatnonzero(np.diff(block, prepend=-1)), len(block)).tolist()
        for first, last in pairwise(bounds):
            self._block(messages(self._data, spans[:, first:last], (), (), (1, 2, 3)), events, code, threads, stacks)
        # The builder has no stack yet: nodes get there the numbers that they have here.
        self._builder.stacks(*stacks.tree())

    def _block(
        self, found: Messages, events: list[tuple[str, int, int]], code: Code, threads: Threads, stacks: Stacks
    ) -> None:
        """Take in some samples."""
        damaged = found.bad != 0
        value_rows, values = numbers_in(self._data, found.listed[2], damaged)
        location_rows, ids = numbers_in(self._data, found.listed[1], damaged)
        counts = np.bincount(value_rows, minlength=len(found))
        uneven = ~damaged & (counts != len(events))
        good = ~damaged & ~uneven
        for reason, wrong in ((f"{_NAMES[_SAMPLES]} that is no message", damaged), (NO_VALUES, uneven)):
            if wrong.any():
                number = int(counts[np.argmax(wrong)])
                example = f"{number} of {len(events)}" if wrong is uneven else ""
                self._builder.lost(reason, example, int(wrong.sum()))
        kept = good[location_rows]
        location_rows, ids = location_rows[kept], ids[kept]
        locations = code.rows_of(ids)
        unknown = np.flatnonzero(locations < 0)
        if len(unknown):
            count = len(np.unique(location_rows[unknown]))
            self._builder.lost(NO_LOCATION, f"location {int(ids[unknown[0]])}", count)
        ends = np.cumsum(np.bincount(location_rows, minlength=len(found))[good])
        stack, thread = stacks.of(locations, ends), threads.of(found.listed[3], good)
        self._values(values[good[value_rows]].reshape(-1, len(events)), events, thread, stack)

    def _values(self, values: Array, events: list[tuple[str, int, int]], thread: Array, stack: Array) -> None:
        """Add samples: a row of `values` each, a column an event. What is 0 says nothing."""
        times = np.array([times for _, _, times in events], np.int64)
        for reason, wrong in ((NEGATIVE, values < 0), (TOO_HEAVY, values > MOST // times)):
            if wrong.any():
                first, kind = (int(places[0]) for places in np.nonzero(wrong))
                example = f"{int(values[first, kind])} of {events[kind][0][:MOST_EXAMPLE]}"
                self._builder.lost(reason, example, int(wrong.sum()))
        row, column = np.nonzero((values > 0) & (values <= MOST // times))
        same = np.zeros(len(row), np.int64)
        event = np.array([event for _, event, _ in events], np.int64)[column]
        self._builder.samples(same, thread[row], same - 1, event, stack[row], values[row, column] * times[column])
        self._taken += len(row)
