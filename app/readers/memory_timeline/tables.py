"""Builds a Profile from the text of a memory timeline.

It contains no device and no addresses: frees cannot be matched to allocations. So there are curves, and in the form
with single events separate allocations and frees.
"""

import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ...domain.arrays import MISSING, Array
from ...domain.builder import ProfileBuilder
from ...domain.errors import UnreadableInput
from ...domain.memory import ALLOCATED
from ...domain.meta import PYTORCH_PROFILE
from ...domain.profile import Meta, Profile
from ...domain.tables import NO_ID, ROOT
from ...domain.units import NS_PER_US
from ...ingest.trace.tables import build_table, to_nullable
from .format import BAD_EVENT, BAD_SIZE, FORMAT

CATEGORIES = (
    "PARAMETER",
    "OPTIMIZER_STATE",
    "INPUT",
    "TEMPORARY",
    "ACTIVATION",
    "GRADIENT",
    "AUTOGRAD_DETAIL",
    "UNKNOWN",
)
"""In the order of their numbers; that of PyTorch's None is the last."""
PREEXISTING, CREATE, INCREMENT_VERSION, DESTROY = range(1, 5)
MAX_TIME_US = 1 << 52
MAX_BYTES = 1 << 46
CUT_OFF = "The file is truncated: the timeline is incomplete."


def build_from_events(text: bytes, source: str, defect: str | None) -> Profile:
    """[[ns, action, bytes, category], …], the time -1 for memory that existed before."""
    is_complete = text.rstrip().endswith((b"]]", b"[]"))
    numbers = _parse_numbers(text[: text.rfind(b"]") + 1])
    if len(numbers) != 4 * max(text.count(b"]") - is_complete, 0):
        raise UnreadableInput(
            f"{source} cannot be read as events of a memory timeline: each should be a list of four numbers, time, "
            "action, bytes and category. Export it again."
        )
    rows = numbers.reshape(-1, 4)
    time_ns, action, size, category = rows.T
    good = (time_ns < MAX_TIME_US * NS_PER_US) & (time_ns >= -1) & (size > -MAX_BYTES) & (size < MAX_BYTES)
    good &= (action >= PREEXISTING) & (action <= DESTROY) & (category >= 0) & (category < len(CATEGORIES))
    builder = ProfileBuilder(FORMAT)
    if not good.all():
        first = int(np.flatnonzero(~good)[0])
        builder.add_loss(BAD_EVENT, f"event {first:,}: {rows[first].tolist()}", int((~good).sum()))
    time_ns, action, size, category = rows[good].T
    known = time_ns >= 0
    if not known.any():
        raise _make_empty_error(source)
    zero = int(time_ns[known].min())
    order = np.argsort(np.where(known, time_ns, zero - 1), kind="stable")
    time_ns, action, size, category = time_ns[order], action[order], size[order], category[order]
    at = np.where(time_ns >= 0, time_ns - zero, 0)
    series = {ALLOCATED: (at, np.cumsum(size))}
    for number, name in enumerate(CATEGORIES):
        mine = category == number
        if mine.any():
            # Before its first value the curve is 0.
            series[name] = np.append(0, at[mine]), np.append(0, np.cumsum(size[mine]))
    blocks = np.flatnonzero(action != INCREMENT_VERSION)
    made, freed = action[blocks] == CREATE, action[blocks] == DESTROY
    return _build_profile(
        builder,
        zero,
        int(at[-1]),
        series,
        None if is_complete else CUT_OFF,
        defect,
        (
            np.where(made, at[blocks], MISSING),
            np.where(freed, at[blocks], MISSING),
            np.abs(size[blocks]),
            category[blocks],
        ),
    )


def build_from_curves(text: bytes, source: str, defect: str | None) -> Profile:
    """[[µs, …], [[0, bytes of the first category, …], …]]."""
    middle = text.find(b"]")
    is_complete = text.rstrip().endswith((b"]]]", b"[]]"))
    time_us, rest = _parse_numbers(text[:middle]), text[middle + 1 : text.rfind(b"]") + 1]
    sizes, width = _parse_numbers(rest), len(CATEGORIES) + 1
    lines = max(rest.count(b"]") - 2 * is_complete, 0)
    if middle >= 0 and not len(time_us) and not len(sizes):
        raise _make_empty_error(source)
    if len(sizes) != width * lines or not lines or lines > len(time_us) or (is_complete and lines != len(time_us)):
        raise UnreadableInput(
            f"{source} cannot be read as a memory timeline: it should be a list of times, and for each of them a list "
            f"of {width} sizes. Export it again."
        )
    table = sizes.reshape(lines, width)[:, 1:]
    time_us = time_us[:lines]
    good = (time_us > -MAX_TIME_US) & (time_us < MAX_TIME_US) & ((table > -MAX_BYTES) & (table < MAX_BYTES)).all(axis=1)
    builder = ProfileBuilder(FORMAT)
    if not good.all():
        first = int(np.flatnonzero(~good)[0])
        builder.add_loss(BAD_SIZE, f"at place {first:,}", int((~good).sum()))
    if not good.any():
        raise _make_empty_error(source)
    time_us, table = np.maximum.accumulate(time_us[good]), table[good]
    zero = int(time_us[0]) * NS_PER_US
    at = time_us * NS_PER_US - zero
    series = {ALLOCATED: (at, table.sum(axis=1))}
    for number, name in enumerate(CATEGORIES):
        if table[:, number].any():
            series[name] = at, table[:, number]
    return _build_profile(builder, zero, int(at[-1]), series, None if is_complete else CUT_OFF, defect, None)


def _make_empty_error(source: str) -> UnreadableInput:
    return UnreadableInput(
        f"{source} is a memory timeline without data. Profile with profile_memory=True, "
        'record_shapes=True and with_stack=True, and export it for the device in use: device="cuda:0".'
    )


def _parse_numbers(text: bytes) -> Array:
    """The whole numbers in a text of numbers, commas and brackets; none if one is malformed."""
    plain = text.translate(bytes.maketrans(b"[],\t\r\n", b"      ")).strip()
    if not plain:
        return np.zeros(0, np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.fromstring(plain.decode(), np.int64, sep=" ")
        except (ValueError, DeprecationWarning):
            return np.zeros(0, np.int64)


def _build_profile(
    builder: ProfileBuilder,
    zero: int,
    last: int,
    series: dict[str, tuple[Array, Array]],
    cut: str | None,
    defect: str | None,
    blocks: tuple[Array, Array, Array, Array] | None,
) -> Profile:
    """series: by name times and bytes. blocks: start, end, bytes and category of each, without an address."""
    builder.add_run()
    reasons = [reason for reason in (defect or cut,) if reason]
    profile = builder.finish(
        Meta(
            FORMAT,
            capabilities=(PYTORCH_PROFILE,),
            duration_ns=last or None,
            start_epoch_ns=zero if zero > 10**17 else None,
            complete=not reasons,
            reasons=tuple(reasons),
        )
    )
    count = len(series)
    none = [None] * count
    if blocks is not None:
        start, end, size, category = blocks
        order = np.argsort(start, kind="stable")
        same = np.full(len(order), NO_ID)
        words = pa.array(CATEGORIES, pa.string())
        profile = replace(
            profile,
            allocations=build_table(
                "allocations",
                start_ns=to_nullable(start[order]),
                end_ns=to_nullable(end[order]),
                bytes=size[order],
                device=same,
                address=pa.nulls(len(order), pa.int64()),
                thread=same,
                slice=same,
                end_slice=same,
                stack=np.full(len(order), ROOT),
                category=words.take(pa.array(category[order])),
            ),
        )
    return replace(
        profile,
        series=build_table(
            "series",
            name=list(series),
            unit=["bytes"] * count,
            rank=none,
            pid=none,
            process=none,
            device=[NO_ID] * count,
        ),
        counters=build_table(
            "counters",
            series=np.repeat(np.arange(count), [len(times) for times, _ in series.values()]),
            time_ns=np.concatenate([times for times, _ in series.values()]),
            value=np.concatenate([values for _, values in series.values()]).astype(np.float64),
        ),
    )
