"""Meta: what is known about a profile as a whole. Apart from tables, whose libraries who only lists does not need."""

from dataclasses import asdict, dataclass, field
from typing import Any

from .json_fields import select_known_fields


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
        kept = select_known_fields(cls, data)
        return cls(**kept | {"reasons": tuple(kept.get("reasons", ()))})
