"""The call stacks of a snapshot: its lists of frames, which are innermost first, as one tree."""

from collections.abc import Callable, Iterable

import numpy as np

from ...domain.arrays import Array
from ...domain.builder import ProfileBuilder
from ...domain.tables import ROOT, FrameKind
from ...ingest.jit.decorators import jit
from ...ingest.jit.hashing import HASH_FACTOR, grow, hash_slot
from .format import MAX_FRAMES, TOO_DEEP
from .pickle_tape import Tape, choose_plain_run

OWN = ("unwind::unwind", "CapturedTraceback::gather", "gather_with_cpp")
"""Functions of PyTorch that record the call stack, and are on top of every one."""
NATIVE = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".S", ".so", ".hip", ".cxx", "??")
LEFT_OUT = -1


@jit
def _mark_members(
    lists: Array, value: Array, start: Array, count: Array, before: Array, items: Array, found: Array
) -> None:
    """Set in `found`, by value of the tape, those that are members of the lists."""
    for number in lists:
        chunk = value[number]
        while chunk >= 0:
            for at in range(start[chunk], start[chunk] + count[chunk]):
                found[items[at]] = True
            chunk = before[chunk]


@jit
def _build_tree(
    lists: Array,
    value: Array,
    start: Array,
    count: Array,
    before: Array,
    items: Array,
    frame_of: Array,
    most: int,
    factor: int,
) -> tuple[Array, Array, Array, int]:
    """(parent and frame of every node, the innermost node of each list, how many lists were longer than `most`).

    Nodes are numbered from 0, -1 is the root. frame_of: by value of the tape, LEFT_OUT for frames to skip.
    """
    keys = np.zeros(64, np.int64)
    values = np.full(64, -1, np.int32)
    parent, frame = np.empty(64, np.int32), np.empty(64, np.int32)
    inner = np.full(len(lists), -1, np.int32)
    # The path to the last list: consecutive lists share most of it, and need not be looked up.
    way_frame, way_node = np.full(most, -1, np.int32), np.empty(most, np.int32)
    nodes, cut = 0, 0
    for place_of in range(len(lists)):
        last = value[lists[place_of]]
        length, chunk = 0, last
        while chunk >= 0:
            length += count[chunk]
            chunk = before[chunk]
        passed = max(length - most, 0)
        cut += passed > 0
        node, chunk, deep, known = -1, last, 0, True
        while chunk >= 0:
            # From the outermost, which is last.
            for back in range(count[chunk]):
                if passed > 0:
                    passed -= 1
                    continue
                of = frame_of[items[start[chunk] + count[chunk] - 1 - back]]
                if of < 0:
                    continue
                if known and way_frame[deep] == of:
                    node = way_node[deep]
                    deep += 1
                    continue
                known = False
                key = (np.int64(node + 1) << 32) | np.int64(of)
                mask = len(keys) - 1
                at = hash_slot(key, factor, mask)
                while values[at] >= 0 and keys[at] != key:
                    at = (at + 1) & mask
                if values[at] < 0:
                    if nodes == len(parent):
                        more = np.empty(2 * nodes, np.int32)
                        more[:nodes] = parent
                        parent = more
                        more = np.empty(2 * nodes, np.int32)
                        more[:nodes] = frame
                        frame = more
                    parent[nodes], frame[nodes] = node, of
                    keys[at], values[at] = key, nodes
                    node = nodes
                    nodes += 1
                    if 2 * nodes > len(keys):
                        keys, values = grow(keys, values, factor)
                else:
                    node = values[at]
                way_frame[deep], way_node[deep] = of, node
                deep += 1
            chunk = before[chunk]
        if deep < most:
            way_frame[deep] = -1
        inner[place_of] = node
    return parent[:nodes], frame[:nodes], inner, cut


class Stacks:
    """The call stacks of lists of frames on a tape, as ids of the builder."""

    def __init__(
        self, tape: Tape, lists: Iterable[Array], builder: ProfileBuilder, add_loss: Callable[[str, int, str], None]
    ) -> None:
        """lists: numbers of values. add_loss: called with reason, count and example of a loss."""
        distinct = np.unique(np.concatenate([np.zeros(0, np.int64), *lists]))
        distinct = distinct[tape.are_lists(distinct)]
        columns = (tape.value, tape.chunk_start, tape.chunk_count, tape.chunk_before, tape.items)
        few = len(tape.items) < 1 << 13
        found = np.zeros(len(tape.kind), np.bool_)
        choose_plain_run(_mark_members, few)(distinct, *columns, found)
        nodes = np.flatnonzero(found)
        frame_of = np.full(len(tape.kind), LEFT_OUT, np.int32)
        frame_of[nodes] = _intern_frames(tape, nodes, builder)
        parent, frame, inner, cut = choose_plain_run(_build_tree, few)(
            distinct, *columns, frame_of, MAX_FRAMES, HASH_FACTOR
        )
        if cut:
            add_loss(TOO_DEEP, int(cut), "the first of them")
        first = builder.add_stack_tree(parent, frame)
        self._lists = distinct
        self._stack = np.where(inner >= 0, inner + first, ROOT)

    def of(self, lists: Array) -> Array:
        """The stack of each list, the root for none."""
        if not len(self._lists):
            return np.full(len(lists), ROOT, np.int64)
        at = np.minimum(np.searchsorted(self._lists, lists), len(self._lists) - 1)
        return np.where(self._lists[at] == lists, self._stack[at], ROOT)


def _intern_frames(tape: Tape, nodes: Array, builder: ProfileBuilder) -> Array:
    """The builder's frame of each dict of a frame; LEFT_OUT for invalid ones, and for PyTorch's own."""
    columns = tape.get_dict_values(nodes, ("filename", "line", "name"))
    words = tape.get_words()
    name, file = tape.code_of(columns["name"]), tape.code_of(columns["filename"])
    line = tape.get_numbers(columns["line"], 0)
    result = []
    for of_name, of_file, of_line in zip(name.tolist(), file.tolist(), line.tolist(), strict=True):
        text, path = (words[of] if of >= 0 else "" for of in (of_name, of_file))
        if not (text or path) or any(own in text for own in OWN):
            result.append(LEFT_OUT)
            continue
        native = not path or path.endswith(NATIVE)
        # Python functions with equal names are distinguished by their file.
        function = builder.intern_function(text, "" if native else path, None if path in ("", "??") else path)
        kind = FrameKind.USER if native else FrameKind.PYTHON
        result.append(builder.intern_frame(function, kind=kind, line=of_line if 0 < of_line < 1 << 31 else None))
    return np.array(result, np.int32)
