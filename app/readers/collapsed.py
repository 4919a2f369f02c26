"""Reader of collapsed stacks: one stack per line, "outermost;…;innermost weight", as FlameGraph's tools write them.

The first element of a line is a command, a thread or a function, depending on the tool; the text does not show which.
So every element is read as a frame, and nothing is lost. `CollapsedStacks` has the suffixes of frames.
"""

import re
from typing import BinaryIO

import numpy as np

from ..domain.builder import IMPOSSIBLE_STACK_WEIGHT, IMPOSSIBLE_WEIGHT, ProfileBuilder
from ..domain.errors import UnreadableInput
from ..domain.profile import Meta, Profile
from ..ingest.collapsed_stacks import CollapsedStacks
from ..ingest.losses import UNRECOGNIZED_LINE
from ..ingest.parse_quality import check_parse_quality
from ..ingest.perf_text.grammar import format_example
from ..ingest.text_lines import MAX_WEIGHT, is_binary, iterate_blocks

FORMAT = "collapsed"
EVENT = "samples"
FRACTION = "weight with a fraction, rounded"
LOSSES = (UNRECOGNIZED_LINE, IMPOSSIBLE_STACK_WEIGHT, FRACTION, IMPOSSIBLE_WEIGHT)

_LINE = re.compile(rb"(.*\S)[ \t]+(\d+)(\.\d*)?[ \t]*")


def sniff(head: bytes) -> bool:
    """Whether a file that starts with `head` looks like collapsed stacks: most lines do, and it is not binary."""
    if is_binary(head):
        return False
    lines = head.split(b"\n")
    if len(head) > 2000:
        lines = lines[:-1] or lines
    lines = [line for line in (line.rstrip() for line in lines[:500]) if line]
    found = [_LINE.fullmatch(line) is not None for line in lines]
    stacks = sum(b";" in line for line, good in zip(lines, found, strict=True) if good)
    return bool(lines) and (all(found) or (stacks > 0 and sum(found) > len(lines) / 2))


@check_parse_quality("collapsed stacks", UNRECOGNIZED_LINE)
def read(stream: BinaryIO, source: str = FORMAT) -> Profile:
    """The profile in collapsed stacks. `source` names it in messages.

    A weight is a whole number; fractions are rounded and recorded as a loss. Raises UnreadableInput if no line is a
    stack with a weight.
    """
    reading = _CollapsedParser()
    for lines, first in iterate_blocks(stream):
        reading.absorb(lines, first)
    return reading.finish(source, getattr(stream, "defect", None))


class _CollapsedParser:
    def __init__(self) -> None:
        self._builder = ProfileBuilder(FORMAT)
        self._stacks = CollapsedStacks(self._builder)
        self._event = self._builder.intern_event(EVENT, "count")
        self._thread = self._builder.intern_thread()
        self._samples = 0

    def absorb(self, lines: list[bytes], first: int) -> None:
        """Parse lines, of which the first has the number `first`."""
        stacks, weights = [], []
        for number, line in enumerate(lines, first):
            if not line or line.isspace() or line.startswith(b"# "):
                continue
            match = _LINE.fullmatch(line.removesuffix(b"\r"))
            if not match:
                self._add_loss(UNRECOGNIZED_LINE, number, line)
            elif len(match[2]) > 19 or int(match[2]) >= MAX_WEIGHT:
                self._add_loss(IMPOSSIBLE_STACK_WEIGHT, number, line)
            else:
                weight = int(match[2])
                if match[3] and match[3].strip(b".0"):
                    self._add_loss(FRACTION, number, line)
                    weight += match[3][1:2] >= b"5"
                stacks.append(match[1])
                weights.append(weight)
        if stacks:
            self._add(stacks, weights)

    def _add(self, stacks: list[bytes], weights: list[int]) -> None:
        stack = self._stacks.add(stacks)
        same = np.zeros(len(stacks), np.int64)
        self._builder.add_samples(same, same + self._thread, same - 1, same + self._event, stack, weights)
        self._samples += len(stacks)

    def _add_loss(self, reason: str, number: int, line: bytes) -> None:
        self._builder.add_loss(reason, format_example(line, number))

    def finish(self, source: str, defect: str | None) -> Profile:
        """The profile of all lines."""
        if not self._samples:
            raise UnreadableInput(
                f"{source} has no stacks. Each line should have names separated by semicolons, a space, and a whole "
                "number. Check its first lines."
            )
        self._builder.add_run()
        return self._builder.finish(Meta(FORMAT, complete=defect is None, reasons=(defect,) if defect else ()))
