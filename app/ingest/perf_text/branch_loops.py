"""Loops in branch stacks: iterations between two runs of the same backward branch, and how often a loop was left."""

from collections.abc import Sequence
from dataclasses import dataclass

NO_FUNCTION = -1
CALLS_AND_RETURNS = frozenset(
    ("CALL", "IND_CALL", "COND_CALL", "RET", "COND_RET", "SYSCALL", "SYSRET", "ERET", "IRQ", "SERROR", "NO_TX")
)
"""Types of branches (perf's names) that close no loop, even within one function."""


@dataclass(frozen=True)
class EdgePlaces:
    """The ends of a branch. source, target: numbers of functions, NO_FUNCTION if not known; offsets in them, -1 if not
    known. is_backward: it closes a loop of its function."""

    source: int
    source_offset: int
    target: int
    target_offset: int
    is_backward: bool


@dataclass(frozen=True)
class LoopTrace:
    """The loops in a branch stack. iterations: (edge, position before its first entry, position of its last entry) in
    the order of the entries, the newest first. exits: the edges whose loops were left."""

    iterations: tuple[tuple[int, int, int], ...]
    exits: tuple[int, ...]


NO_LOOPS = LoopTrace((), ())


def is_backward(source: int, source_offset: int, target: int, target_offset: int, kind: str) -> bool:
    """Whether a branch closes a loop: to the same or an earlier offset of its function. Not a call or a return; where
    the type is not known, not to the first instruction, which is a recursive call."""
    if source != target or source == NO_FUNCTION or source_offset < 0 or not 0 <= target_offset <= source_offset:
        return False
    return kind not in CALLS_AND_RETURNS if kind else target_offset > 0


def trace_loops(stack: Sequence[int], places: Sequence[EdgePlaces]) -> LoopTrace:
    """The loops in the edges of a branch stack, the newest first; negative: an entry that could not be read.

    A loop begins with its backward branch, and is left by a branch with an end that is in its function, but not between
    the target and the source of the backward branch. The branches of functions that it calls do not leave it.
    """
    if not any(edge >= 0 and places[edge].is_backward for edge in stack):
        return NO_LOOPS
    iterations, exits = [], []
    last: dict[int, int] = {}
    running: dict[int, list[int]] = {}
    for position in range(len(stack) - 1, -1, -1):
        edge = stack[position]
        if edge < 0:
            last.clear()
            running.clear()
            continue
        place = places[edge]
        for function, offset in ((place.source, place.source_offset), (place.target, place.target_offset)):
            loops = running.get(function)
            if not loops:
                continue
            for loop in [loop for loop in loops if not _contains(places[loop], offset)]:
                loops.remove(loop)
                del last[loop]
                exits.append(loop)
        if place.is_backward:
            if edge in last:
                iterations.append((edge, last[edge], position))
            else:
                running.setdefault(place.source, []).append(edge)
            last[edge] = position
    return LoopTrace(tuple(iterations), tuple(exits))


def _contains(loop: EdgePlaces, offset: int) -> bool:
    return loop.target_offset <= offset <= loop.source_offset
