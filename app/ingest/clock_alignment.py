"""How the times of profiles that are brought together are put on one clock."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..domain.profile import Profile


@dataclass(frozen=True)
class ClockShift:
    """What is added to the times of a process beyond what its own clock says. collectives: how many tell it."""

    shift_ns: int
    collectives: int


class Aligner(Protocol):
    """Finds out how far the clocks of processes are apart."""

    def add(self, profile: Profile, part: int, process: int, run: Hashable) -> None:
        """Take in a profile: the number of the part, of its process, and whose clocks it may be compared with."""

    def compute_shifts(self, added: Sequence[int]) -> Mapping[int, ClockShift]:
        """By number of a process its shift, for those that can be compared with others. added: to the times of each
        part, before that."""
