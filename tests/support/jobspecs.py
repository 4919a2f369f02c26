"""Descriptions of jobs for tests."""

from typing import Any

from perfloom.domain.jobs import JobSpec


def spec_of(*command: str, **more: Any) -> JobSpec:
    """A recording of `command`, light on the machine: user space only, few samples, no stacks unless asked for."""
    given: dict[str, Any] = {"events": ("cpu-clock:u",), "frequency": 199}
    return JobSpec(command=command, **(given | more))
