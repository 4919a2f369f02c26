"""Profile: the one model. Every reader yields it; every analysis, page and exporter takes it."""

from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from .known import known
from .tables import SCHEMAS, empty


@dataclass(frozen=True)
class Meta:
    """About the whole profile. Serialised as JSON into the manifest of a stored result.

    duration_ns: from the first to the last thing observed (null: the format has no time).
    start_epoch_ns: when the profile's zero was, since the epoch (null: not known).
    main_event: the event a page shows first. complete: false where the recording was cut short; `reasons` says why.
    facts: what else the file tells, in its own words (hostname, cpudesc, cmdline, perf version …).
    """

    format: str
    duration_ns: int | None = None
    start_epoch_ns: int | None = None
    clock: str | None = None
    main_event: str | None = None
    command: str | None = None
    complete: bool = True
    reasons: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"reasons": list(self.reasons)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Meta":
        kept = known(cls, data)
        return cls(**kept | {"reasons": tuple(kept.get("reasons", ()))})


@dataclass(frozen=True, eq=False)
class Profile:
    """Column tables as `tables.SCHEMAS` defines them. A table that a format has nothing for is empty, never absent.

    Compared and hashed by identity, so that what is derived from a profile can be remembered beside it.
    """

    meta: Meta
    runs: pa.Table = field(default_factory=lambda: empty("runs"))
    ranks: pa.Table = field(default_factory=lambda: empty("ranks"))
    threads: pa.Table = field(default_factory=lambda: empty("threads"))
    thread_names: pa.Table = field(default_factory=lambda: empty("thread_names"))
    functions: pa.Table = field(default_factory=lambda: empty("functions"))
    frames: pa.Table = field(default_factory=lambda: empty("frames"))
    stacks: pa.Table = field(default_factory=lambda: empty("stacks"))
    calls: pa.Table = field(default_factory=lambda: empty("calls"))
    events: pa.Table = field(default_factory=lambda: empty("events"))
    samples: pa.Table = field(default_factory=lambda: empty("samples"))
    counts: pa.Table = field(default_factory=lambda: empty("counts"))
    categories: pa.Table = field(default_factory=lambda: empty("categories"))
    argument_sets: pa.Table = field(default_factory=lambda: empty("argument_sets"))
    slices: pa.Table = field(default_factory=lambda: empty("slices"))
    slice_numbers: pa.Table = field(default_factory=lambda: empty("slice_numbers"))
    instants: pa.Table = field(default_factory=lambda: empty("instants"))
    device_work: pa.Table = field(default_factory=lambda: empty("device_work"))
    configurations: pa.Table = field(default_factory=lambda: empty("configurations"))
    flows: pa.Table = field(default_factory=lambda: empty("flows"))
    devices: pa.Table = field(default_factory=lambda: empty("devices"))
    steps: pa.Table = field(default_factory=lambda: empty("steps"))
    series: pa.Table = field(default_factory=lambda: empty("series"))
    counters: pa.Table = field(default_factory=lambda: empty("counters"))
    allocations: pa.Table = field(default_factory=lambda: empty("allocations"))
    segments: pa.Table = field(default_factory=lambda: empty("segments"))
    losses: pa.Table = field(default_factory=lambda: empty("losses"))

    def tables(self) -> dict[str, pa.Table]:
        """Every table by name, in the order of `SCHEMAS`."""
        return {name: getattr(self, name) for name in SCHEMAS}
