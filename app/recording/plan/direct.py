"""Started as it is, on the host itself."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...domain.jobs import JobSpec


@dataclass(frozen=True)
class Direct:
    name: str = "direct"
    title: str = "Started directly"

    def argv(self, spec: JobSpec, inner: Sequence[str]) -> tuple[str, ...]:
        return tuple(inner)
