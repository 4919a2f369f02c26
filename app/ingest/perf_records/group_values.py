"""Samples with the counts of a group of events (`perf record -e '{…}:S'`): a sample of each event of the group.

As perf does (deliver_sample_group in tools/perf/util/session.c of Linux 6.1), the period of such a sample is how much
the count grew since the last sample with it, and there is none if it did not grow.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ...domain.arrays import Array, Int64Array, number_values
from .event_attributes import SampleType
from .file_header import RecordedEvent
from .unsupported import UnsupportedRecords

TIME_ENABLED, TIME_RUNNING, ID, GROUP, LOST = 1, 2, 4, 8, 16
"""PERF_FORMAT_*: what there is of counts."""


def check_format(events: Sequence[RecordedEvent]) -> int:
    """What there is of the counts in samples of these events, 0 if they have none. Raises UnsupportedRecords if perf
    script has to read them."""
    counted = [event.attributes for event in events if event.attributes.sample_type & SampleType.READ]
    if not counted:
        return 0
    if any(one.has("inherit") for one in counted):
        # Since Linux 6.12, each thread has its own counts then.
        raise UnsupportedRecords("its samples contain counts of each thread")
    known, *others = {one.fields["read_format"] for one in counted}
    if others or known & (GROUP | ID) != GROUP | ID or known >= 2 * LOST:
        raise UnsupportedRecords("its samples contain counts of other events, but no group of them")
    return known


def measure_values(number: Array, read_format: int, size: Array) -> Int64Array:
    """How many words the counts of samples take. number: of the counts in each. size: of the records in words. Raises
    UnsupportedRecords."""
    if (number >= size.astype(np.uint64)).any():
        raise UnsupportedRecords("a sample has more counts than fit into its record")
    return _find_first(read_format) + number.astype(np.int64) * _get_width(read_format)


def split_groups(
    words: Array, place: Int64Array, read_format: int, find_events: Callable[[Array], Array]
) -> tuple[Int64Array, Array, Array]:
    """(row, event, period) of the samples of all events, in the order of perf. place: where the number of the counts of
    each sample is in `words`. find_events: the event of identifiers, -1 if it is not known."""
    number = words[place].astype(np.int64)
    row = np.repeat(np.arange(len(place)), number)
    at = np.arange(len(row)) - (np.cumsum(number) - number)[row]
    at *= _get_width(read_format)
    at += place[row] + _find_first(read_format)
    counter, period = words[at + 1], words[at]
    del at
    code, first = number_values(counter)
    order = np.argsort(code, kind="stable")
    count = period[order]
    period[order[1:]] = count[1:] - count[:-1]
    period[first] = count[np.searchsorted(code[order], np.arange(len(first)))]
    event = find_events(counter[first])[code]
    kept = (period > 0) | (event < 0)
    return row[kept], event[kept].astype(np.int16), period[kept]


def _find_first(read_format: int) -> int:
    """Where the first count is: after their number, and the times for which all were counted."""
    return 1 + bool(read_format & TIME_ENABLED) + bool(read_format & TIME_RUNNING)


def _get_width(read_format: int) -> int:
    """How many words there are for each count."""
    return 1 + bool(read_format & ID) + bool(read_format & LOST)
