"""What is asked of a worker about a target, and what it answers: JSON in the catalogue, between page and worker."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...domain.errors import HostKeyUnknown, PerfloomError, Prompt, SecretNeeded
from ...domain.jobs import Batch
from ...domain.json_fields import select_known_fields
from ...domain.targets import BatchState

KIND = "target"
"""The word `kind` of such a question, which tells it from others."""


@dataclass(frozen=True)
class ProbeJob:
    """A probe that waits or runs in the batch system. id: the system's own. directory: its own, at the target.

    submitted, ended: seconds since the epoch; ended is when the batch system was first seen to say so.
    """

    id: str
    directory: str
    submitted: float
    state: BatchState = BatchState.PENDING
    native: str = ""
    reason: str = ""
    position: int | None = None
    ended: float | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ProbeJob":
        return cls(**select_known_fields(cls, data) | {"state": BatchState(data.get("state", BatchState.PENDING))})


@dataclass(frozen=True)
class CheckRequest:
    """A check of a target. batch: what the probe job asks the batch system for, null for none.

    job: a probe job that was submitted and is to be looked at, in place of a new check. cancel: it is to be ended.
    close: nothing is checked, and connections to the target that are kept are closed.
    """

    target: str
    batch: Batch | None = None
    job: ProbeJob | None = None
    cancel: bool = False
    close: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"kind": KIND} | asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "CheckRequest":
        """The reverse of `to_json`."""
        known_fields = select_known_fields(cls, data)
        if known_fields.get("batch") is not None:
            batch = select_known_fields(Batch, known_fields["batch"])
            known_fields["batch"] = Batch(**batch | {"arguments": tuple(batch.get("arguments", ()))})
        if known_fields.get("job") is not None:
            known_fields["job"] = ProbeJob.from_json(known_fields["job"])
        return cls(**known_fields)


@dataclass(frozen=True)
class HostKey:
    """A key that a host showed and nobody has accepted yet. line: for a known_hosts file."""

    host: str
    line: str
    fingerprint: str


@dataclass(frozen=True)
class CheckResult:
    """What became of a check. What it found is kept with the target.

    trouble: why it came to nothing, for a person; empty where it did not. host_key, prompts: what a person has to
    accept or to type first. job: a probe job that has not answered yet, so that somebody has to ask again.
    """

    trouble: str = ""
    host_key: HostKey | None = None
    prompts: tuple[Prompt, ...] = ()
    job: ProbeJob | None = None

    @property
    def done(self) -> bool:
        """Whether there is nothing to wait for: a person has to do something, or nobody has."""
        return self.job is None or bool(self.prompts)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "CheckResult":
        """The reverse of `to_json`."""
        known_fields = select_known_fields(cls, data)
        known_fields["host_key"] = HostKey(**known_fields["host_key"]) if known_fields.get("host_key") else None
        known_fields["prompts"] = tuple(
            Prompt(str(prompt["name"]), str(prompt["text"])) for prompt in known_fields.get("prompts", ())
        )
        known_fields["job"] = ProbeJob.from_json(known_fields["job"]) if known_fields.get("job") else None
        return cls(**known_fields)

    @classmethod
    def failed(cls, error: PerfloomError) -> "CheckResult":
        """The answer of a check that failed so."""
        if isinstance(error, HostKeyUnknown):
            return cls(error.message, host_key=HostKey(error.host, error.key, error.fingerprint))
        if isinstance(error, SecretNeeded):
            return cls(error.message, prompts=error.prompts)
        return cls(error.message)


def follow_up(question: CheckRequest, answer: CheckResult) -> CheckRequest | None:
    """What to ask next: of the probe job that has not answered yet. None where nothing is left to ask."""
    return None if answer.job is None else replace(question, batch=None, job=answer.job, cancel=False)
