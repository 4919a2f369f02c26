"""What is reported about a job before it is queued."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """It cannot work."""
    WARNING = "warning"
    """It works, but not as asked."""
    HINT = "hint"
    """It works; worth knowing."""


@dataclass(frozen=True)
class PreflightFinding:
    """One thing to say about a job that is not yet queued. field: of JobSpec. advice: what to do next."""

    level: Severity
    field: str
    message: str
    advice: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"level": str(self.level)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "PreflightFinding":
        return cls(Severity(data["level"]), str(data["field"]), str(data["message"]), str(data["advice"]))


def error(field: str, message: str, advice: str) -> PreflightFinding:
    """Something that cannot work."""
    return PreflightFinding(Severity.ERROR, field, message, advice)


def warning(field: str, message: str, advice: str) -> PreflightFinding:
    """Something that works, but not as requested."""
    return PreflightFinding(Severity.WARNING, field, message, advice)


def hint(field: str, message: str, advice: str) -> PreflightFinding:
    """Something worth knowing."""
    return PreflightFinding(Severity.HINT, field, message, advice)
