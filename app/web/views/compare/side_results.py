"""The results of both sides of a comparison of runs, without those that were deleted meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass

from ....analysis.compare.verdicts import Note
from ....domain.errors import InvalidRequest
from ....store import Result
from ...services import current_services

SIDES = ("base", "other")


@dataclass(frozen=True)
class SideResults:
    """base, other: their results. notes: sentences on what was deleted."""

    base: tuple[Result, ...]
    other: tuple[Result, ...]
    notes: tuple[Note, ...]


def find_side_results(base: Sequence[str], other: Sequence[str], *, paired: bool) -> SideResults:
    """The results with these ids that still exist; of pairs, only those with both. Raises NotFound where a side has
    none."""
    store = current_services().store.results
    sides = [[store.find(id) for id in ids] for ids in (base, other)]
    notes = []
    for side, found, ids in zip(SIDES, sides, (base, other), strict=True):
        if not any(found):
            # With the message of a single result.
            store.get(ids[0])
        if missing := found.count(None):
            notes.append(Note(f"{missing} of {len(found)} results of the {side} {_was(missing)} deleted."))
    if notes and paired and len(base) == len(other):
        pairs = [(one, two) for one, two in zip(*sides, strict=True) if one is not None and two is not None]
        if not pairs:
            raise InvalidRequest("Of each pair a result was deleted. Compare them without pairs.", "paired")
        notes.append(Note("Runs whose pair is missing are left out."))
        sides = [list(side) for side in zip(*pairs, strict=True)]
    kept = [tuple(one for one in side if one is not None) for side in sides]
    return SideResults(kept[0], kept[1], tuple(notes))


def _was(count: int) -> str:
    return "was" if count == 1 else "were"
