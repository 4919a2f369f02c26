"""Handing jobs to a batch system and watching them, as Perfloom does it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from perfloom.domain.jobs import JobSpec
from perfloom.domain.targets import BatchState, BatchStatus
from tests.support.batch import BatchSystem

T = TypeVar("T")

# Ends well on TERM, after it has completed something; announces that it is ready for it.
PATIENT = 'trap "echo told; echo completed; exit 0" TERM; : >"$1/ready"; while :; do sleep 0.05; done'


@dataclass(frozen=True)
class Jobs:
    """Jobs of a batch system, with their own folder."""

    system: BatchSystem
    folder: Path

    @property
    def output(self) -> Path:
        """What the batch system and the jobs say."""
        return self.folder / "out put%x"

    def submit(self, *command: str, name: str = "perfloom-abc-0", **spec: Any) -> str:
        """The id of a job that runs a command."""
        argv = self.system.scheduler.submit_command(JobSpec(**spec), name, command, str(self.output))
        return self.system.scheduler.parse_submit_output(*self.system.run(argv))

    def shell(self, script: str, **more: Any) -> str:
        """The id of a job that runs a line of sh, with the folder as its first argument."""
        return self.submit("sh", "-c", script, "sh", str(self.folder), **more)

    def look(self, *ids: str) -> list[BatchStatus]:
        """How they are."""
        scheduler = self.system.scheduler
        seen = scheduler.parse_status_output(ids, *self.system.run(scheduler.status_command(ids)))
        assert set(seen) == set(ids)
        return [seen[id] for id in ids]

    def wait(self, id: str, wanted: BatchState | None = None, limit_s: float = 60) -> BatchStatus:
        """Its status once it is in a state, or has ended."""
        return until(
            lambda: self.look(id)[0], lambda seen: seen.state is wanted if wanted else seen.state.final, limit_s
        )

    def printed(self) -> str:
        """What is in the output, once there is anything."""
        return until(lambda: self.output.read_text() if self.output.exists() else "", len)

    def ready(self) -> None:
        """Wait for a script that says it is ready."""
        until((self.folder / "ready").exists, bool)

    def cancel(self, *ids: str, gently: bool) -> None:
        """End jobs."""
        argv = self.system.scheduler.cancel_command(ids, gently=gently)
        self.system.scheduler.parse_cancel_output(*self.system.run(argv))

    def named(self, name: str) -> str | None:
        """The id of a job with that name."""
        return self.system.scheduler.parse_find_output(*self.system.run(self.system.scheduler.find_command(name)))

    def back(self, id: str) -> BatchStatus:
        """What history says."""
        return self.system.scheduler.parse_history_output(
            id, *self.system.run(self.system.scheduler.history_command(id))
        )


def until(look: Callable[[], T], wanted: Callable[[T], object], limit_s: float = 60) -> T:
    """What `look` gives once it is as wanted."""
    deadline = time.monotonic() + limit_s
    while True:
        seen = look()
        if wanted(seen):
            return seen
        assert time.monotonic() < deadline, seen
        time.sleep(0.2)
