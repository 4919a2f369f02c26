"""The total of an event of a result. Apart, because reader processes do not load the database."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EventTotal:
    """The total of an event. total: in `unit`, null if it could not be counted. samples: 0 for counted events. scaling:
    the factor by which counts were scaled up because of multiplexing (null: not scaled)."""

    name: str
    unit: str
    total: int | float | None
    samples: int
    scaling: float | None = None
