"""Symbols of just-in-time compilers: /tmp/perf-PID.map with lines "start size name", numbers in hexadecimal.

Format: Linux, tools/perf/Documentation/jit-interface.txt. Compilers use addresses again, and lines have no times, so
several may contain an address. Then the choice is that of perf 6.1, whose search ends at the first symbol with the
address. It depends on the shape of a tree, which is built again here (the red-black tree of Linux, lib/rbtree.c).
"""

import re
from collections.abc import Callable

import numpy as np

from ...domain.arrays import Array, Int64Array
from .symbol_table import EMPTY, GLOBAL, SymbolTable

MAX_LINES = 2_000_000
MAX_TREE_LINES = 200_000
"""Of larger maps, the innermost symbol is found, without a tree."""
_LINE = re.compile(rb"^(?:0x)?([0-9a-fA-F]{1,16})[ \t](?:0x)?([0-9a-fA-F]{1,16})[ \t]([^\n]+)", re.MULTILINE)


class MapTable(SymbolTable):
    """The symbols of a map, by start. Those with the same start are in the order of the lines."""

    def find(self, addresses: Array, format_name: Callable[[bytes], str]) -> Int64Array:
        """See SymbolTable."""
        row = super().find(addresses, format_name)
        overlaps = np.maximum.accumulate(self.end)[:-1] > self.start[1:]
        if not overlaps.any() or len(self) > MAX_TREE_LINES:
            return row
        tree = _SearchTree(self.start.tolist(), self.end.tolist())
        # The lines are in the order of their names in the text.
        for one in np.argsort(self.name, kind="stable").tolist():
            tree.insert(one)
        found = np.array([tree.find(address) for address in addresses.tolist()], np.int64)
        # perf misses a symbol that contains the address if the search passes it on the wrong side.
        return np.where(found >= 0, found, row)


def parse_perf_map(text: bytes) -> SymbolTable:
    """The symbols of a map. Lines of another form are skipped, and what follows MAX_LINES."""
    found = []
    for line in _LINE.finditer(text):
        first, size = int(line[1], 16), int(line[2], 16)
        if first + size < 2**64:
            found.append((first, first + size, line.start(3)))
            if len(found) == MAX_LINES:
                break
    if not found:
        return EMPTY
    start, end = (np.array([row[at] for row in found], np.uint64) for at in (0, 1))
    name = np.array([row[2] for row in found], np.int64)
    order = np.argsort(start, kind="stable")
    binding = np.full(len(start), GLOBAL, np.uint8)
    return MapTable(start[order], end[order], name[order], binding, text, b"\n")


class _SearchTree:
    """A red-black tree of symbols by start: after a symbol with the same start, the new one is to the right."""

    def __init__(self, start: list[int], end: list[int]) -> None:
        self._start, self._end = start, end
        # Children of each symbol, left and right; -1 for none.
        self._children = ([-1] * len(start), [-1] * len(start))
        self._parent = [-1] * len(start)
        self._is_red = [True] * len(start)
        self._root = -1

    def find(self, address: int) -> int:
        """The symbol where the search ends, -1 for none."""
        start, end, (left, right) = self._start, self._end, self._children
        node = self._root
        while node >= 0:
            if address < start[node]:
                node = left[node]
            elif address > end[node] or (address == end[node] and address != start[node]):
                node = right[node]
            else:
                break
        return node

    def insert(self, node: int) -> None:
        """Add a symbol."""
        start, (left, right) = self._start, self._children
        parent, at, low = -1, self._root, start[node]
        while at >= 0:
            parent = at
            at = left[at] if low < start[at] else right[at]
        self._parent[node] = parent
        if parent < 0:
            self._root = node
        else:
            (left if low < start[parent] else right)[parent] = node
        self._balance(node)

    def _balance(self, node: int) -> None:
        is_red, parents = self._is_red, self._parent
        while (parent := parents[node]) >= 0 and is_red[parent]:
            above = parents[parent]
            side = self._children[1][above] == parent
            near, far = self._children[side], self._children[not side]
            uncle = far[above]
            if uncle >= 0 and is_red[uncle]:
                is_red[uncle] = is_red[parent] = False
                is_red[above] = True
                node = above
                continue
            if far[parent] == node:
                self._rotate(parent, side)
                parent = node
            assert near[above] == parent
            self._rotate(above, not side)
            is_red[parent], is_red[above] = False, True
            break
        is_red[self._root] = False

    def _rotate(self, node: int, side: bool) -> None:
        """Move a node down to its left (side: False) or right, and its other child up to its place."""
        near, far = self._children[side], self._children[not side]
        child, parent = far[node], self._parent[node]
        far[node] = near[child]
        if near[child] >= 0:
            self._parent[near[child]] = node
        near[child] = node
        self._parent[node], self._parent[child] = child, parent
        if parent < 0:
            self._root = child
        else:
            place = self._children[self._children[1][parent] == node]
            place[parent] = child
