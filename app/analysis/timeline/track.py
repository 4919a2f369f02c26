"""The types of tracks of a timeline."""

from dataclasses import dataclass

from ..core.flame_groups import rank_label

GLOBAL_GROUP = "Global"
"""The group of tracks without a process."""


@dataclass(frozen=True)
class EventTicks:
    """The samples of another event than that of the lane of a thread, drawn as ticks. event: its number."""

    event: int
    name: str
    samples: int


@dataclass(frozen=True)
class TimelineTrack:
    """A track. id: as in requests. key: the same for every reading of the file. kind: steps, thread,
    stream, cpu, track or counter. group: the process or rank it is of. thread: as a selection names it, "" for none.

    rows: of slices. lane: whether there are samples, drawn as one row. stacks: the number of rows of their call stacks.
    ticks: other events with samples. has_cpu_use: whether it is known how long it ran. instants: whether there are any.
    weight: of its samples, or the time in its slices (ns). unit: of the lane, or of a counter; low, high: the values of
    a counter. drawn: the time span of the samples of the lane, a `Span`. clipped: the weight that is not drawn, in ns.
    """

    id: str
    key: str
    kind: str
    name: str
    group: str
    thread: str = ""
    rows: int = 0
    lane: bool = False
    stacks: int = 0
    ticks: tuple[EventTicks, ...] = ()
    has_cpu_use: bool = False
    instants: bool = False
    weight: int = 0
    samples: int = 0
    slices: int = 0
    unit: str = ""
    low: float | None = None
    high: float | None = None
    drawn: str = ""
    clipped: int = 0


@dataclass(frozen=True)
class TimeExtent:
    """The time range of a profile (ns).

    first_ns, last_ns: of what was recorded. A profiler begins before its first event and ends after its last one.
    """

    start_ns: int
    end_ns: int
    first_ns: int
    last_ns: int


def group_label(label: str, rank: int) -> str:
    """The label of a process, with its rank where that is not in it already, as `grouping` adds it."""
    return label if rank < 0 or rank_label(rank) in label.split(" · ") else f"{rank_label(rank)} · {label}"
