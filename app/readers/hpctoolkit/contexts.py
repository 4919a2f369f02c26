"""The calling contexts of a database, and the call stacks that they become.

A database has a tree of procedures, loops and lines: in `main` line 62, there the procedure that is called. A frame of
a call stack has a function and the line that it executes. So a procedure and a line in it are one frame, and a loop has
its own frame, whose function is named after the line of its head.
"""

from dataclasses import dataclass, replace

import numpy as np

from ...domain.arrays import Array, BoolArray, Int64Array
from ...domain.builder import ProfileBuilder
from ...domain.tables import NO_ID, ROOT, FrameKind

PROCEDURE, LOOP, LINE = 0, 1, 2
UNKNOWN_PROCEDURE = "<unknown procedure>"


@dataclass(frozen=True)
class ContextTree:
    """Contexts, each after its parent; columns of equal length.

    id: in the database, unique. parent: row, -1 at the top. kind: PROCEDURE, LOOP or LINE. function: of procedures and
    loops, as the builder has it, else -1. frame_kind: FrameKind of these. file: number of its source file, -1 not
    known. line: the source line, 0 not known; of a loop that of its head. address: in its module, -1 not known.
    """

    id: Int64Array
    parent: Int64Array
    kind: Int64Array
    function: Int64Array
    frame_kind: Int64Array
    file: Int64Array
    line: Int64Array
    address: Int64Array

    def __len__(self) -> int:
        return len(self.id)

    def find(self, ids: Array) -> Int64Array:
        """The row of each id, -1 for those that the tree does not have."""
        if not len(self):
            return np.full(len(ids), NO_ID, np.int64)
        order = np.argsort(self.id, kind="stable")
        found = np.minimum(np.searchsorted(self.id, ids, sorter=order), len(self) - 1)
        rows = order[found]
        return np.where(self.id[rows] == ids, rows, NO_ID).astype(np.int64)


def make_tree(rows: list[tuple[int, ...]]) -> ContextTree:
    """The tree of rows (id, parent, kind, function, frame_kind, file, line, address)."""
    table = np.array(rows, np.int64).reshape(-1, 8)
    return ContextTree(*(np.ascontiguousarray(column) for column in table.T))


def add_stacks(builder: ProfileBuilder, tree: ContextTree, used: BoolArray) -> Int64Array:
    """Add the call stacks of the used contexts; returns the builder's stack of each context, the root for others."""
    stacks = np.full(len(tree), ROOT, np.int64)
    if not used.any():
        return stacks
    tree, rows = _add_lines_of_loops(tree)
    owner = _find_owners(tree)
    # Of a line without a procedure.
    nowhere = builder.intern_function("", "")
    function = np.where(owner < 0, nowhere, tree.function[owner])
    kind = np.where(owner < 0, int(FrameKind.UNKNOWN), tree.frame_kind[owner])
    parent = np.where(owner < 0, NO_ID, tree.parent[owner])
    # A line of another file, as of a macro, is no line of the function's file.
    same_file = (tree.file < 0) | (owner < 0) | (tree.file[owner] < 0) | (tree.file == tree.file[owner])
    line = np.where(same_file & (tree.kind != LOOP) & (tree.line > 0), tree.line, 0)
    frame = _intern_frames(builder, np.stack((function, tree.address, line, kind), axis=1))
    needed = _select_needed(parent, rows[used])
    place = np.cumsum(needed) - 1
    first = builder.add_stack_tree(
        np.where(parent[needed] < 0, NO_ID, place[parent[needed]]), frame[needed].astype(np.int64)
    )
    stacks[used] = place[rows[used]] + first
    return stacks


def _add_lines_of_loops(tree: ContextTree) -> tuple[ContextTree, Int64Array]:
    """The tree with a line above each loop that is directly in a procedure or loop: that of its head. Also returns the
    new row of each."""
    direct = (tree.kind == LOOP) & (tree.parent >= 0) & (tree.kind[tree.parent] != LINE)
    rows = np.arange(len(tree)) + np.cumsum(direct)
    if not direct.any():
        return tree, rows
    size = len(tree) + int(direct.sum())
    lines = rows[direct] - 1
    source = np.empty(size, np.int64)
    source[rows] = np.arange(len(tree))
    source[lines] = np.flatnonzero(direct)
    wide = ContextTree(*(getattr(tree, name)[source] for name in tree.__dataclass_fields__))
    parent = np.where(wide.parent < 0, NO_ID, rows[wide.parent])
    kind, function, address = wide.kind, wide.function, wide.address
    kind[lines], function[lines], address[lines] = LINE, NO_ID, NO_ID
    parent[rows[direct]] = lines
    return replace(wide, parent=parent), rows


def _find_owners(tree: ContextTree) -> Int64Array:
    """The procedure or loop that each context is, or is a line of; -1 for none."""
    owner = np.where(tree.kind == LINE, tree.parent, np.arange(len(tree)))
    while True:
        open_rows = np.flatnonzero((owner >= 0) & (tree.kind[owner] == LINE))
        if not len(open_rows):
            return owner
        owner[open_rows] = owner[owner[open_rows]]


def _intern_frames(builder: ProfileBuilder, keys: Int64Array) -> Int64Array:
    """The builder's frame of each row (function, address, line, kind)."""
    distinct, place = np.unique(keys, axis=0, return_inverse=True)
    frames = builder.intern_frames(
        (function, None if address < 0 else address, None, line or None, 0, kind)
        for function, address, line, kind in distinct.tolist()
    )
    return np.array(frames, np.int64)[place.reshape(-1)]


def _select_needed(parent: Int64Array, used: Array) -> BoolArray:
    """Which nodes are used or above one that is."""
    needed = np.zeros(len(parent), np.bool_)
    while len(used):
        needed[used] = True
        above = np.unique(parent[used])
        used = above[(above >= 0) & ~needed[above]]
    return needed
