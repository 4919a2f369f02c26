"""Call stacks of collapsed text, "outermost;…;innermost", as stack ids of a profile."""

import re
from collections.abc import Sequence

import numpy as np

from ..domain.arrays import Int64Array
from ..domain.builder import ProfileBuilder
from ..domain.tables import FrameKind
from .perf_text.grammar import decode_text
from .perf_text.stack_tree import build_stack_tree

_MARK = re.compile(r"_\[([kjiw])\]$")
_KINDS = {"k": FrameKind.KERNEL, "j": FrameKind.JIT, "i": FrameKind.INLINED}


class CollapsedStacks:
    """Adds collapsed stacks to a builder.

    The suffixes _[k] (kernel), _[j] (compiled at run time) and _[i] (inlined) of stackcollapse-perf.pl determine the
    kind of a frame and are not shown.
    """

    def __init__(self, builder: ProfileBuilder) -> None:
        self._builder = builder
        self._frames: dict[bytes, int] = {}

    def add(self, stacks: Sequence[bytes]) -> Int64Array:
        """The builder's id of each stack."""
        known, new = self._frames, self._intern_frame
        names = b";".join(stacks).split(b";")
        frames = [known[name] if name in known else new(name) for name in names]
        lengths = np.array([stack.count(b";") + 1 for stack in stacks])
        # The tree needs stacks innermost first: reversing everything reverses each stack and their order.
        ends = np.cumsum(lengths[::-1])
        parent, frame, node = build_stack_tree(ends, np.array(frames[::-1], np.int64), np.ones(len(ends), bool))
        return self._builder.add_stack_tree(parent, frame) + node[::-1]

    def _intern_frame(self, raw: bytes) -> int:
        name = decode_text(raw)
        mark = _MARK.search(name)
        kind = _KINDS.get(mark[1], FrameKind.USER) if mark else FrameKind.USER
        if raw in (b"[unknown]", b""):
            kind = FrameKind.UNKNOWN
        display = self._builder.demangler.format(name[: mark.start()]) if mark else None
        function = self._builder.intern_function(name, display=display)
        frame = self._frames[raw] = self._builder.intern_frame(function, kind=kind)
        return frame
