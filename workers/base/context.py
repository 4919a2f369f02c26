"""What every step of a job works with, and how a step reports and is stopped."""

import os
import time
from dataclasses import dataclass, field

from perfloom.config import Settings
from perfloom.domain.errors import NotFound
from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import JobState
from perfloom.queue import TaskQueue
from perfloom.store import Store
from perfloom.store.jobs import Job

from . import processes
from .facts_probe import host_name, probe
from .progress import Progress
from .secret_provider import SecretProvider

RETRY_S = 5.0
"""A job that a process works on is due again after this, in case that process has ended."""
FACTS_MAX_AGE_S = 900.0
"""Older facts of a host are probed again."""
FACTS_CACHE_S = 5.0
"""How long a process uses its facts without a check."""
REPORT_S = 0.4


class StepInterrupted(Exception):
    """The job was cancelled during a step, or another process changed its state."""


@dataclass(frozen=True)
class JobContext:
    """The objects that steps need. queue None: no worker is notified, the caller takes the next step. worker: the
    claiming process: host, pid and start. secret_provider: prompts for passwords at a terminal; None: they come through
    the database, encrypted. ends_with_job: this process does, so that postprocessing is left to another one.
    """

    settings: Settings
    store: Store
    queue: TaskQueue | None
    host: str
    worker: str
    secret_provider: SecretProvider | None = field(default=None, repr=False, compare=False)
    ends_with_job: bool = False
    _recent: dict[str, HostFacts] = field(default_factory=dict, repr=False, compare=False)
    _asked: dict[str, float] = field(default_factory=dict, repr=False, compare=False)

    def facts(self) -> HostFacts:
        """The facts of this host: those that its worker published if they are fresh, else probed now."""
        published_facts = self._recent.get("facts")
        if published_facts is None or time.time() - self._asked.get("facts", 0.0) > FACTS_CACHE_S:
            published_facts = self._recent["facts"] = self._published_facts() or probe()
            self._asked["facts"] = time.time()
        return published_facts

    def _published_facts(self) -> HostFacts | None:
        try:
            facts = self.store.hosts.get(self.host).facts
        except NotFound:
            return None
        fresh = facts is not None and time.time() - facts.checked_at < FACTS_MAX_AGE_S and _same_user(facts)
        return facts if fresh else None


def _same_user(facts: HostFacts) -> bool:
    """A command of root does not use the facts of a worker of another user, and vice versa."""
    return facts.root == (os.geteuid() == 0)


def open_context(
    settings: Settings,
    store: Store,
    queue: TaskQueue | None = None,
    ask: SecretProvider | None = None,
    *,
    ends_with_job: bool = False,
) -> JobContext:
    """The job context of this process."""
    return JobContext(settings, store, queue, host_name(), worker_name(), ask, ends_with_job)


def worker_name() -> str:
    """The identity of this process, by which another one can check whether it still runs: `HOST PID START BOOT`."""
    identity = processes.identity()
    assert identity is not None
    return f"{host_name()} {identity.pid} {identity.started} {identity.boot}"


def is_worker_alive(name: str) -> bool | None:
    """Whether the process of a `worker_name` lives; None if it is on another host and cannot be checked."""
    try:
        host, pid, started, boot = name.split(" ")
        process_identity = processes.ProcessIdentity(int(pid), int(started), boot)
    except ValueError:
        return None
    return processes.is_alive(process_identity) if host == host_name() else None


def make_reporter(context: JobContext, job: Job) -> Progress:
    """A function (progress 0–1 or null, text) that writes to the database at intervals, not for a short step.

    It raises StepInterrupted if the job was cancelled, or another process changed its state.
    """
    state = job.state
    last = time.monotonic()

    def report(progress: float | None, text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < REPORT_S:
            return
        last = now
        present = context.store.jobs.find(job.id)
        if present is None or present.state is not state or present.cancel_requested:
            raise StepInterrupted
        context.store.jobs.update(
            job.id, expected=state, progress=progress, progress_text=text, due_at=time.time() + RETRY_S
        )

    return report


def is_finished(job: Job | None) -> bool:
    """Whether no step is left for it."""
    return job is None or job.state.final or job.state is JobState.DRAFT
