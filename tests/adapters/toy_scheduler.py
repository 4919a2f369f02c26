"""Toy: a batch system that starts jobs immediately. Its one program is `toy`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from perfloom.domain.errors import InvalidRequest, Unreachable
from perfloom.domain.jobs import JobSpec
from perfloom.domain.targets import BatchQueue, BatchState, BatchStatus
from perfloom.recording.quoting import join

STATES = {"RUN": BatchState.RUNNING, "DONE": BatchState.DONE, "EXIT": BatchState.FAILED}


@dataclass(frozen=True)
class ToyScheduler:
    name: str = "toy"
    title: str = "Toy"
    hint: str = "Jobs are submitted with toy."
    fields: ClassVar[Mapping[str, str]] = MappingProxyType({"queue": "Lane", "arguments": ""})
    version_commands: tuple[tuple[str, ...], ...] = (("toy", "version"),)
    version_pattern: str = r"^toy ([\d.]+)"
    programs: tuple[str, ...] = ("toy",)
    job_variable: str = "TOY_JOB"
    job_script: str = "pl_nodes=1"

    def submit_command(self, spec: JobSpec, job_name: str, script: Sequence[str], output: str) -> tuple[str, ...]:
        return ("toy", "submit", job_name, output, spec.batch.queue, *spec.batch.arguments, join(script))

    def parse_submit_output(self, stdout: str, stderr: str, status: int) -> str:
        if status:
            raise InvalidRequest(f"Toy rejected the job: {stderr.strip()}.", "queue")
        return stdout.strip()

    def find_command(self, job_name: str) -> tuple[str, ...]:
        return ("toy", "find", job_name)

    def parse_find_output(self, stdout: str, stderr: str, status: int) -> str | None:
        return stdout.strip() or None

    def status_command(self, ids: Sequence[str]) -> tuple[str, ...]:
        return ("toy", "status", *ids)

    def parse_status_output(
        self, ids: Sequence[str], stdout: str, stderr: str, status: int
    ) -> Mapping[str, BatchStatus]:
        if status:
            raise Unreachable(f"Toy does not respond: {stderr.strip()}.")
        found = dict(re.findall(r"^(\d+) (\w+)$", stdout, re.M))
        return {id: BatchStatus(id, STATES.get(found.get(id, ""), BatchState.GONE), found.get(id, "")) for id in ids}

    def history_command(self, id: str) -> tuple[str, ...]:
        return self.status_command([id])

    def parse_history_output(self, id: str, stdout: str, stderr: str, status: int) -> BatchStatus:
        return self.parse_status_output([id], stdout, stderr, status)[id]

    def cancel_command(self, ids: Sequence[str], *, gently: bool) -> tuple[str, ...]:
        return ("toy", "cancel", "TERM" if gently else "KILL", *ids)

    def parse_cancel_output(self, stdout: str, stderr: str, status: int) -> None:
        """Jobs that have ended are no error."""

    def queues_command(self) -> tuple[str, ...]:
        return ("toy", "queues")

    def parse_queues_output(self, stdout: str, stderr: str, status: int) -> tuple[BatchQueue, ...]:
        return tuple(BatchQueue(name, default=name == "slow") for name in stdout.split())
