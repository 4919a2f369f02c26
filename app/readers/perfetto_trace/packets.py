"""The packets of a Perfetto trace: decompressed, by sequence, with the earlier packets that each refers to.

A sequence is written by one thread of a producer. Its packets refer to values by numbers that earlier packets defined,
until these are cleared.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import zstandard

from ...domain.arrays import Array, Int64Array
from ...ingest.jit.decorators import jit
from ...ingest.jit.hashing import factorize
from ...ingest.jit.protobuf_columns import FieldColumns, MessageColumns, read_messages
from .format import BAD_COMPRESSED, BAD_PACKET, MISSING_STATE

FTRACE, TREE, CHROME, CLOCKS, TIME, SEQUENCE, TRACK_EVENT, INTERNED, FLAGS = 1, 2, 5, 6, 8, 10, 11, 12, 13
CLEARED, DROPPED, THREAD, SYSTEM, COMPRESSED, CLOCK, DEFAULTS, TRACK, ZSTD = 41, 42, 44, 45, 50, 58, 59, 60, 133
SAMPLE = 66
WANTED = (
    *(FTRACE, TREE, CLOCKS, TIME, SEQUENCE, TRACK_EVENT, INTERNED, FLAGS, CLEARED, DROPPED, THREAD, SYSTEM),
    *(COMPRESSED, CLOCK, DEFAULTS, TRACK, ZSTD, SAMPLE),
)
INTERNED_FIELDS = (1, 2, 3, 4, 5, 6, 7, 17, 19, 29)
"""Fields of InternedData: event categories and names, names of arguments, source locations; functions, frames, call
stacks, paths, mappings; values of arguments."""
MAX_BYTES = 8 << 30
PAD = 128
"""Padding after a trace, in bytes: texts are compared without a check for the end."""
CUT_OFF = "The file is truncated or damaged; the part before was imported."

LossCallback = Callable[[str, str, int], None]


@dataclass(frozen=True, eq=False)
class Packets:
    """The packets of a file, in its order. sequence: the sequence of each. generation: the part of a sequence in which
    interned numbers keep their meaning, below `generations`. usable: whether the data that it refers to exists."""

    data: bytes
    all: MessageColumns
    sequence: Array
    generation: Array
    generations: int
    usable: Array

    @cached_property
    def interned(self) -> dict[int, FieldColumns]:
        """The interned data of packets, of each kind, by the rows of the packets."""
        rows, spans = self.all.get_spans(INTERNED)
        listed = read_messages(self.all.data, spans, (), (), INTERNED_FIELDS).listed
        found = {sort: every.select_contents() for sort, every in listed.items()}
        return {sort: replace(of, row=rows[of.row]) for sort, of in found.items()}

    def carry_forward(self, given: Array) -> Array:
        """For each packet the last one with the flag (bools) up to it in its generation; -1 if there is none."""
        return _carry_forward(self.generation, given, np.full(self.generations, -1, np.int64))


@jit
def _carry_forward(generation: Array, given: Array, last: Array) -> Int64Array:
    found = np.empty(len(given), np.int64)
    for i in range(len(given)):
        if given[i]:
            last[generation[i]] = i
        found[i] = last[generation[i]]
    return found


@jit
def _assign_generations(
    sequence: Array, count: int, flags: Array, cleared: Array, dropped: Array, generation: Array, usable: Array
) -> int:
    """Set the generation of each packet, and whether it is usable. Returns the number of generations."""
    now = np.full(count, -1, np.int64)
    whole = np.zeros(count, np.bool_)
    generations = 0
    for i in range(len(sequence)):
        of = sequence[i]
        clears = (flags[i] & 1) != 0 or cleared[i]
        if clears or now[of] < 0:
            now[of] = generations
            generations += 1
        # After clearing, nothing is missing.
        if clears:
            whole[of] = True
        elif dropped[i]:
            whole[of] = False
        generation[i] = now[of]
        usable[i] = whole[of] or (flags[i] & 2) == 0
    return generations


def read_packets(data: bytes, loss_callback: LossCallback) -> tuple[Packets, bool]:
    """The packets of a file, and whether it is complete. data: the file, and PAD more bytes."""
    found, is_complete = _find_packets(np.frombuffer(data, np.uint8)[: len(data) - PAD])
    array = np.frombuffer(data, np.uint8)
    all_ = read_messages(array, found.spans, WANTED)
    if all_.has(COMPRESSED).any() or all_.has(ZSTD).any():
        data, spans = _unpack_packets(data, all_, loss_callback)
        all_ = read_messages(np.frombuffer(data, np.uint8), spans, WANTED)
    del found
    rows = np.flatnonzero(all_.malformed)
    if len(rows):
        loss_callback(BAD_PACKET, f"packet {int(rows[0]) + 1}", len(rows))
    sequence = all_.get_number(SEQUENCE)
    code, shown = factorize(sequence)
    generation, usable = np.empty(len(all_), np.int32), np.empty(len(all_), bool)
    marks = all_.get_number(FLAGS), all_.get_number(CLEARED) != 0, all_.get_number(DROPPED) != 0
    generations = _assign_generations(code, len(shown), *marks, generation, usable)
    useless = np.flatnonzero(~usable)
    if len(useless):
        loss_callback(MISSING_STATE, f"packet {int(useless[0]) + 1}", len(useless))
    return Packets(data, all_, sequence, generation, generations, usable), is_complete


def _find_packets(array: Array) -> tuple[FieldColumns, bool]:
    """The packets of a trace, and whether they span all of it."""
    trace = read_messages(array, np.array([[0], [len(array)]]), (), (), (1,))
    return trace.listed[1].select_contents(), not trace.malformed[0]


def _unpack_packets(data: bytes, all_: MessageColumns, loss_callback: LossCallback) -> tuple[bytes, Array]:
    """The bytes followed by those of compressed packets, and the position of each packet, in order."""
    pieces, room = [data], len(data)
    spans = [np.stack((all_.begin, all_.end))]
    place = [np.arange(len(all_), dtype=np.float64)]
    for kind in (COMPRESSED, ZSTD):
        rows, inner = all_.get_spans(kind)
        for row, (begin, end) in zip(rows.tolist(), inner.T.tolist(), strict=True):
            more = _decompress(data[begin:end], kind, MAX_BYTES - room)
            if more is None:
                loss_callback(BAD_COMPRESSED, f"packet {row + 1}", 1)
                continue
            inside, _ = _find_packets(np.frombuffer(more, np.uint8))
            spans.append(inside.spans + room)
            place.append(row + np.arange(1, len(inside) + 1) / (len(inside) + 1))
            pieces.append(more)
            room += len(more)
    order = np.argsort(np.concatenate(place), kind="stable")
    return b"".join((*pieces, bytes(PAD))), np.concatenate(spans, axis=1)[:, order]


def _decompress(packed: bytes, kind: int, most: int) -> bytes | None:
    try:
        if kind == ZSTD:
            with zstandard.ZstdDecompressor().stream_reader(packed) as stream:
                return stream.read(most)
        return zlib.decompressobj().decompress(packed, most)
    except (zlib.error, zstandard.ZstdError):
        return None
