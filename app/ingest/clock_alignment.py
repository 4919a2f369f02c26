"""How the times of merged profiles are aligned to one clock."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..domain.profile import Profile


@dataclass(frozen=True)
class ClockShift:
    """The correction of the times of a process. collectives: how many determine it."""

    shift_ns: int
    collectives: int


class Aligner(Protocol):
    """Estimates how far the clocks of processes differ."""

    def add(self, profile: Profile, part: int, process: int, run: Hashable) -> None:
        """Add a profile: the number of its part, of its process, and the processes with comparable clocks."""

    def compute_shifts(self, added: Sequence[int]) -> Mapping[int, ClockShift]:
        """By number of a process its shift, for those that can be compared with others. added: what was added to the
        times of each part before."""
