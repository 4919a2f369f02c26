"""Which figures of a result say less than they seem to, because something of the recording could not be read."""

from dataclasses import dataclass
from typing import Any

from ..domain.profile import Profile

OF_ITS_EVENT = "event without a value"
"""Losses that begin so are of the event that they name alone, and stand beside it."""
AFFECTED = "affected_by_losses"
SAYS_SO = frozenset({"losses", "advice"})
"""The tables that tell of losses themselves."""


@dataclass(frozen=True)
class Affected:
    """complete: whether the recording was read to its end. reasons: why not. losses: how many things were lost that
    may be part of any figure."""

    complete: bool
    reasons: tuple[str, ...]
    losses: int

    def __bool__(self) -> bool:
        return not self.complete or self.losses > 0

    @property
    def note(self) -> str:
        """What to say beside figures, empty where they are of all that was recorded."""
        if not self.complete:
            why = " ".join(self.reasons)
            return f"The recording is not complete{f': {why}' if why else '.'} Figures are of what was read."
        if self.losses:
            things = "1 thing" if self.losses == 1 else f"{self.losses:,} things"
            return (
                f"{things} of the recording could not be read, and {'is' if self.losses == 1 else 'are'} in no figure."
            )
        return ""


def marked(rows: list[dict[str, Any]], is_affected: bool) -> list[dict[str, Any]]:
    """Rows for JSON: where figures are affected, each has the further field `AFFECTED`, which is true."""
    return [row | {AFFECTED: True} for row in rows] if is_affected else rows


def affected(profile: Profile) -> Affected:
    """What holds for the figures of a profile."""
    losses = sum(row["count"] for row in profile.losses.to_pylist() if not row["reason"].startswith(OF_ITS_EVENT))
    return Affected(profile.meta.complete, profile.meta.reasons, losses)
