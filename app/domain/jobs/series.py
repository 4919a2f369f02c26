"""Run series: jobs that run one after the other, alternating between the two sides of a comparison."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Side(StrEnum):
    """A side of a comparison."""

    BASE = "base"
    OTHER = "other"


@dataclass(frozen=True)
class SeriesRun:
    """The place of a job in a run series. series: the id of the series. number: in the order of all its runs, from 0.
    run: the number on its side, from 1; 0 for a warm-up run, which is not compared. base: the stored result that is the
    base, if the base is not recorded again; else empty."""

    series: str
    number: int
    side: Side
    run: int
    base: str = ""

    @property
    def is_warm_up(self) -> bool:
        """Whether the run only fills caches."""
        return self.run == 0

    @property
    def title(self) -> str:
        """What the run is, at the end of the name of its job; no other run of the series has the same."""
        return f"warm-up {self.number + 1}" if self.is_warm_up else f"{self.side} {self.run}"

    def to_json(self) -> dict[str, Any]:
        """As JSON, for `from_json`."""
        return {"id": self.series, "number": self.number, "side": self.side.value, "run": self.run, "base": self.base}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SeriesRun":
        """The reverse of `to_json`."""
        return cls(
            str(data["id"]), int(data["number"]), Side(data["side"]), int(data["run"]), str(data.get("base", ""))
        )


def order_runs(
    runs: int, warm_ups: int, warmed: Collection[Side], *, keeps_base: bool = False
) -> list[tuple[Side, int]]:
    """(side, number of the run) in the order of a series: the warm-up runs (0) of the sides `warmed`, then `runs` of
    each side. keeps_base: only of the other.

    The order is A, B, B, A, so that a machine that becomes slower affects both sides.
    """
    if keeps_base:
        return [*((Side.OTHER, 0) for _ in range(warm_ups)), *((Side.OTHER, run + 1) for run in range(runs))]
    pairs = [(Side.BASE, Side.OTHER), (Side.OTHER, Side.BASE)]
    order = [(side, 0) for _ in range(warm_ups) for side in Side if side in warmed]
    return order + [(side, run + 1) for run in range(runs) for side in pairs[run % 2]]
