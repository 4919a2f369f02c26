"""The times of samples, and their time of day."""

import re

import numpy as np

from ...domain.arrays import Array
from ...domain.units import NS_PER_MS, NS_PER_S, NS_PER_US

_TOD = re.compile(r"= (\d{1,12})\.(\d{6}) \(TOD\) = (\d{1,12})\.(\d{9}) ", re.ASCII)


def fill_times(columns: dict[str, Array]) -> bool:
    """Set the time of samples without one: that of the previous sample. If no sample has a time, count them.

    Returns whether there are times.
    """
    time_ns = columns["time_ns"]
    known = time_ns >= 0
    if not known.any():
        columns["time_ns"] = np.arange(len(time_ns))
        return not len(time_ns)
    if not known.all():
        last = np.maximum.accumulate(np.where(known, np.arange(len(known)), 0))
        last = np.maximum(last, int(np.argmax(known)))
        columns["time_ns"] = time_ns[last]
    return True


def describe_backward_times(columns: dict[str, Array]) -> str:
    """How many samples are earlier than the one before them, in the order of the text, of the same thread or CPU, and
    by how much, as a clause; empty if none is. Only a clock that goes back, or a text put together from several, has
    such: perf script sorts samples by time. columns: with the times of `fill_times`."""
    time_ns = columns["time_ns"]
    if not (np.diff(time_ns) < 0).any():
        return ""
    back = np.zeros(len(time_ns), np.int64)
    for key in (columns["thread"], columns["cpu"]):
        order = np.argsort(key, kind="stable")
        step = np.diff(time_ns[order])
        # -1: the CPU is unknown.
        step[(key[order[1:]] != key[order[:-1]]) | (key[order[1:]] < 0)] = 0
        back[order[1:]] = np.maximum(back[order[1:]], -step)
    count = int(np.count_nonzero(back))
    if not count:
        return ""
    are, them = ("samples are", "them") if count > 1 else ("sample is", "it")
    return (
        f"{count:,} {are} earlier than the one before {them} of the same thread or CPU, by up to "
        f"{int(back.max()) / NS_PER_MS:,.3f} ms"
    )


def to_epoch_ns(time_ns: int, reference: str) -> int | None:
    """A time of perf's clock since the epoch, by the reference time in a header; None without one."""
    match = _TOD.search(reference)
    if match is None:
        return None
    seconds, micros, clock_seconds, clock_nanos = (int(part) for part in match.groups())
    return seconds * NS_PER_S + micros * NS_PER_US + time_ns - clock_seconds * NS_PER_S - clock_nanos
