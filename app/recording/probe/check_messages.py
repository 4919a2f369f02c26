"""Requests to check a target, and the workers' answers: JSON in the database, between page and worker."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...domain.errors import HostKeyUnknown, PerfloomError, Prompt, SecretNeeded
from ...domain.jobs import Batch
from ...domain.json_fields import select_known_fields
from ...domain.targets import BatchState

KIND = "target"
"""The value of `kind` in such a request, which distinguishes it from others."""


@dataclass(frozen=True)
class ProbeJob:
    """A probe job that waits or runs in the batch system. id: of the batch system. directory: of the probe job, at the
    target.

    submitted, ended: epoch seconds; ended: when the batch system was first seen to report its end.
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
    """A request to check a target. batch: the batch options of the probe job, null for no probe job.

    job: poll this submitted probe job instead of a new check. cancel: end it. close: do not check, but close the open
    connections to the target.
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
    """A host key that no user has accepted yet. line: for a known_hosts file."""

    host: str
    line: str
    fingerprint: str


@dataclass(frozen=True)
class CheckResult:
    """The result of a check. The facts are stored with the target.

    trouble: why it failed, empty if it succeeded. host_key, prompts: a key that the user has to accept, and secrets to
    type, first. job: a probe job that has not answered yet and has to be polled.
    """

    trouble: str = ""
    host_key: HostKey | None = None
    prompts: tuple[Prompt, ...] = ()
    job: ProbeJob | None = None

    @property
    def done(self) -> bool:
        """Whether no probe job has to be polled."""
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
        """The result of a check that failed with this error."""
        if isinstance(error, HostKeyUnknown):
            return cls(error.message, host_key=HostKey(error.host, error.key, error.fingerprint))
        if isinstance(error, SecretNeeded):
            return cls(error.message, prompts=error.prompts)
        return cls(error.message)


def follow_up(question: CheckRequest, answer: CheckResult) -> CheckRequest | None:
    """The next request: for the probe job that has not answered yet. None if the check is complete."""
    return None if answer.job is None else replace(question, batch=None, job=answer.job, cancel=False)
