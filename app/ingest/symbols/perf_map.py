"""Symbols of just-in-time compilers: /tmp/perf-PID.map with lines "start size name", numbers in hexadecimal.

Format: Linux, tools/perf/Documentation/jit-interface.txt. Compilers use addresses again; then the later line is valid.
"""

import heapq
import itertools
import re

import numpy as np

from ...domain.arrays import Array
from .symbol_table import EMPTY, GLOBAL, SymbolTable

MAX_LINES = 2_000_000
_LINE = re.compile(rb"^(?:0x)?([0-9a-fA-F]{1,16})[ \t](?:0x)?([0-9a-fA-F]{1,16})[ \t]([^\n]+)", re.MULTILINE)


def parse_perf_map(text: bytes) -> SymbolTable:
    """The symbols of a map. Lines of another form are skipped, and what follows MAX_LINES."""
    found = []
    for line in _LINE.finditer(text):
        first, size = int(line[1], 16), int(line[2], 16)
        if size and first + size < 2**64:
            found.append((first, first + size, line.start(3)))
            if len(found) == MAX_LINES:
                break
    if not found:
        return EMPTY
    start, end = (np.array([row[at] for row in found], np.uint64) for at in (0, 1))
    name = np.array([row[2] for row in found], np.int64)
    start, end, rows = _cut_overlaps(start, end)
    binding = np.full(len(start), GLOBAL, np.uint8)
    origin = np.array([found[row][0] for row in rows.tolist()], np.uint64)
    return SymbolTable(start, end, name[rows], binding, text, b"\n", origin=origin)


def _cut_overlaps(start: Array, end: Array) -> tuple[Array, Array, Array]:
    """(start, end, row) of pieces without overlap, by start. Of the rows that contain an address, the last counts."""
    order = np.argsort(start, kind="stable")
    low, high = start[order], end[order]
    # Groups of rows that overlap: a group begins where no earlier row reaches to.
    begins = np.append(True, np.maximum.accumulate(high)[:-1] <= low[1:])
    group = np.cumsum(begins) - 1
    alone = np.bincount(group)[group] == 1
    pieces = _sweep(start, end, order[~alone])
    columns = np.array(pieces, np.uint64).reshape(-1, 3)
    starts = np.concatenate([low[alone], columns[:, 0]])
    ends = np.concatenate([high[alone], columns[:, 1]])
    rows = np.concatenate([order[alone], columns[:, 2].astype(np.int64)])
    by_start = np.argsort(starts, kind="stable")
    return starts[by_start], ends[by_start], rows[by_start]


def _sweep(start: Array, end: Array, rows: Array) -> list[tuple[int, int, int]]:
    low, high = start.tolist(), end.tolist()
    edges = sorted({edge for row in rows.tolist() for edge in (low[row], high[row])})
    pending = sorted(rows.tolist(), key=low.__getitem__, reverse=True)
    active: list[int] = []
    pieces: list[tuple[int, int, int]] = []
    for begin, stop in itertools.pairwise(edges):
        while pending and low[pending[-1]] <= begin:
            heapq.heappush(active, -pending.pop())
        while active and high[-active[0]] <= begin:
            heapq.heappop(active)
        if active:
            row = -active[0]
            if pieces and pieces[-1][1] == begin and pieces[-1][2] == row:
                pieces[-1] = (pieces[-1][0], stop, row)
            else:
                pieces.append((begin, stop, row))
    return pieces
