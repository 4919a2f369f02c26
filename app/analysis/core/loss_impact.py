"""Which figures of a result are incomplete because part of the recording could not be read."""

from dataclasses import dataclass
from typing import Any

from ...domain.losses import affects_values
from ...domain.profile import Profile

AFFECTED_FIELD = "affected_by_losses"
LOSS_TABLES = frozenset({"losses", "advice"})
"""The tables that report losses themselves."""


@dataclass(frozen=True)
class LossImpact:
    """complete: whether the recording is complete, was read completely, and the program succeeded. reasons: why not.
    losses: number of losses that can affect any figure."""

    complete: bool
    reasons: tuple[str, ...]
    losses: int

    def __bool__(self) -> bool:
        return not self.complete or self.losses > 0

    @property
    def note(self) -> str:
        """The note next to figures; "" if they include everything that was recorded."""
        if not self.complete:
            why = " ".join(self.reasons) or "The recording is not complete."
            return f"{why} Figures cover only what was recorded and read."
        if self.losses:
            things, them = ("1 item", "it") if self.losses == 1 else (f"{self.losses:,} items", "them")
            return f"{things} in the recording could not be read; figures may lack {them}."
        return ""


def mark_affected_rows(rows: list[dict[str, Any]], is_affected: bool) -> list[dict[str, Any]]:
    """Rows for JSON: where figures are affected, each has the additional field `AFFECTED_FIELD`, which is true."""
    return [row | {AFFECTED_FIELD: True} for row in rows] if is_affected else rows


def loss_impact_of(profile: Profile) -> LossImpact:
    """How losses affect the figures of a profile."""
    losses = sum(row["count"] for row in profile.losses.to_pylist() if affects_values(row["reason"]))
    return LossImpact(profile.meta.complete, profile.meta.reasons, losses)
