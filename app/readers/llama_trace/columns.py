"""The lines of a text trace as columns: scanned by compiled loops, or one by one."""

import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import numpy as np

from ...ingest.loops.compiled import COMPILED
from .format import NO_LINE
from .lines import CHUNK_BYTES, COLUMNS, COUNTER, LONGEST_LINE, MARK, NONE, Array, ByHand, Lines


def read_lines(stream: BinaryIO, compiled: bool = COMPILED and sys.byteorder == "little") -> Lines:
    """The lines of a stream of unpacked bytes. Raises what reading the stream does, nothing for what is in it."""
    by_hand = ByHand()
    if compiled:
        # Needs the compiler.
        from .scan import scanned

        columns, scanned_texts = scanned(_chunks(stream), by_hand)
    else:
        columns, scanned_texts = _one_by_one(_chunks(stream), by_hand), []
    # Different bytes may be the same text, where they are damaged.
    texts: dict[str, int] = {}
    places = [
        np.array([texts.setdefault(text.decode("utf-8", "replace"), len(texts)) for text in these], np.int64)
        for these in (scanned_texts, by_hand.texts)
    ]
    found = np.concatenate((places[1][::-1], [NONE], places[0]))
    zero = len(places[1]) + 1
    for name in ("thread", "name"):
        columns[name] = found[columns[name] + zero].astype(np.int32)
    counters = columns["kind"] == COUNTER
    columns["number"][counters] = found[columns["number"][counters] + zero]
    return Lines(list(texts), **columns, edges=by_hand.edges, lost=by_hand.lost)


def _one_by_one(chunks: Iterable[tuple[bytes, bool]], by_hand: ByHand) -> dict[str, Array]:
    rows, number = [], 0
    for chunk, whole in chunks:
        for line in chunk[:-1].split(b"\n") if whole else (chunk,):
            number += 1
            if not whole:
                by_hand.leave_out(NO_LINE, line, number)
            elif row := by_hand.row(line, number):
                rows.append(row)
    columns = np.array(rows, np.int64).reshape(-1, len(COLUMNS)).T
    return {name: values.astype(kind) for (name, kind), values in zip(COLUMNS.items(), columns, strict=True)}


def _chunks(stream: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Whole lines, each with its end, and that they are; or the beginning of one that is much too long."""
    rest, skipping, first = b"", False, True
    while data := stream.read(CHUNK_BYTES):
        if first:
            data, first = data.removeprefix(MARK), False
        if skipping:
            _, ended, data = data.partition(b"\n")
            skipping = not ended
        end = data.rfind(b"\n") + 1
        if end:
            yield rest + data[:end], True
            rest = b""
        rest += data[end:]
        if len(rest) > LONGEST_LINE:
            yield rest[:LONGEST_LINE], False
            rest, skipping = b"", True
    if rest:
        yield rest + b"\n", True
