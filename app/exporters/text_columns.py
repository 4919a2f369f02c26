"""Many lines of text at once: columns are joined row by row, without a loop in Python."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ..domain.arrays import Array
from ..domain.arrow import functions as pc

BLOCK_ROWS = 50_000
_PARTS = [f".{part:03d}" if part else "" for part in range(1000)]


def split_blocks(count: int) -> Iterator[slice]:
    """Ranges of rows, in blocks."""
    return (slice(first, min(first + BLOCK_ROWS, count)) for first in range(0, count, BLOCK_ROWS))


def format_integers(numbers: Array) -> pa.Array:
    """Integers as decimal text."""
    return pc.cast(pa.array(numbers), pa.string())


def format_us(ns: Array) -> pa.Array:
    """Nanoseconds (int64) as microseconds, exactly."""
    size = np.abs(ns)
    return concat_columns(take_texts(["", "-"], ns < 0), format_integers(size // 1000), take_texts(_PARTS, size % 1000))


def take_texts(texts: Sequence[str | None], which: Array) -> pa.Array:
    """The text of each row; null where it is None, or `which` below 0."""
    which = which.astype(np.int64, copy=False)
    return pc.take(pa.array(texts, pa.string()), pa.array(which, mask=which < 0))


def concat_columns(*pieces: pa.Array | str) -> pa.Array:
    """The parts of each row concatenated, null if one is null. A part can be the same in all rows."""
    return pc.concat_texts(pieces)


def join_optional(one: pa.Array, other: pa.Array) -> pa.Array:
    """Both texts of each row joined by a comma, or the one that is not null; null if both are."""
    return pc.coalesce(concat_columns(one, ",", other), one, other)


def join_groups(pieces: pa.Array, counts: Array) -> pa.Array:
    """Consecutive pieces joined by commas, by row; null for a row without pieces."""
    offsets = np.concatenate(([0], np.cumsum(counts)))
    found = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pieces), ",")
    return pc.if_else(pa.array(counts > 0), found, None)


def join_rows(rows: pa.Array) -> bytes:
    """All rows concatenated; none may be null."""
    offsets = np.frombuffer(rows.buffers()[1], np.int32)[rows.offset : rows.offset + len(rows) + 1]
    return bytes(rows.buffers()[2][int(offsets[0]) : int(offsets[-1])]) if len(rows) else b""
