"""The sweep: sends a notification for every job that is due and unclaimed, so that even a lost queue loses no job.

One sweeper at a time, by a lease in the database. It takes no steps, so none can delay it.
"""

import logging
import threading
import time
from collections.abc import Callable

from perfloom.config import Settings
from perfloom.domain.errors import PerfloomError
from perfloom.domain.host_facts import HostFacts
from perfloom.queue import TaskQueue
from perfloom.store import Store, open_store

from ..base.context import RETRY_S, is_worker_alive, worker_name
from ..base.facts_probe import change_marker, host_name, probe, refresh_facts
from ..targets import cleanup
from ..targets.job_user import with_job_user

LEASE = "sweep"
LEASE_S = 8.0
RENEW_S = 2.0
TICK_S = 0.25
HEARTBEAT_S = 4.0
CHANGE_CHECK_S = 30.0
FACTS_S = 300.0
RECOVERY_S = 3600.0
CLEANUP_S = 60.0
TRASH_S = 60.0

log = logging.getLogger(__name__)


class Sweeper:
    """Sweeps, and writes the heartbeat and the facts of this host to the database.

    working: whether processes take tasks; nothing is done while none do. It is called before each round, in the sweep's
    thread, and may raise PerfloomError. announce: whether programs are recorded on this host.
    """

    def __init__(
        self, settings: Settings, working: Callable[[], bool] = lambda: True, *, announce: bool = True
    ) -> None:
        self._settings = settings
        self._working = working
        self._announce = announce
        self._owner = worker_name()
        self._renew_at = self._beat_at = self._look_at = self._facts_at = self._tidy_at = self._left_at = 0.0
        self._trash_at = 0.0
        self._mine = False
        self._facts: HostFacts | None = None
        self._looks: tuple[object, ...] = ()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)
        self._trouble = ""

    def start(self) -> None:
        """Start, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """End, and let another sweeper start immediately."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def _run(self) -> None:
        store = open_store(self._settings, migrate=False)
        queue = TaskQueue(self._settings, store)
        try:
            while not self._stop.is_set():
                pause = TICK_S
                try:
                    if self._working():
                        if self._announce:
                            self._publish(store)
                        self.sweep(store, queue)
                    self._trouble = ""
                except PerfloomError as error:
                    # Less often than the rest.
                    if error.message != self._trouble:
                        log.warning("the sweep continues in a moment: %s", error.message)
                    self._trouble = error.message
                    pause = 1.0
                except Exception:
                    log.exception("the sweep continues in a moment")
                    pause = 5.0
                self._stop.wait(pause)
            if self._mine:
                store.leases.release(LEASE, self._owner)
        except PerfloomError:
            pass  # The lease expires.
        finally:
            queue.close()
            store.close()

    def sweep(self, store: Store, queue: TaskQueue) -> int:
        """Notify for jobs that are due; returns how many. Does nothing if another one sweeps."""
        now = time.monotonic()
        if now >= self._renew_at:
            self._renew_at = now + (RENEW_S if self._mine else RENEW_S / 4)
            self._mine = store.leases.take(LEASE, self._owner, LEASE_S) or self._take_over_lease(store)
        if not self._mine:
            return 0
        if now >= self._tidy_at and queue.enqueue_recovery():
            self._tidy_at = now + RECOVERY_S
        if now >= self._trash_at:
            self._trash_at = now + TRASH_S
            if store.results.has_unfinished_deletions():
                queue.enqueue_recovery()
        if now >= self._left_at:
            self._left_at = now + CLEANUP_S
            for target in cleanup.targets_to_clean_up(self._settings):
                queue.enqueue_poll(target)
        rung = 0
        for target, ids in store.jobs.due_polls().items():
            store.jobs.postpone(ids, time.time() + RETRY_S, cancelled=True)
            if not queue.enqueue_poll(target):
                store.jobs.postpone(ids, time.time(), cancelled=True)
                return rung
            rung += len(ids)
        store.series.start_turns()
        for id in store.jobs.list_due():
            job = store.jobs.find(id)
            if job is None or job.state.final:
                continue
            # Written before the notification, or it would overwrite what the notified step writes.
            store.jobs.update(id, expected=job.state, due_at=time.time() + RETRY_S)
            if not queue.enqueue(job):
                store.jobs.update(id, expected=job.state, due_at=time.time())
                break
            rung += 1
        return rung

    def _take_over_lease(self, store: Store) -> bool:
        """Take the lease of a sweeper that was killed on this host, without waiting for its end."""
        holder = store.leases.holder(LEASE)
        if holder is None or is_worker_alive(holder) is not False:
            return False
        store.leases.release(LEASE, holder)
        return store.leases.take(LEASE, self._owner, LEASE_S)

    def _publish(self, store: Store) -> None:
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + CHANGE_CHECK_S
            looks = change_marker()
            # perf is probed again only after a change: probing takes CPU time from running recordings.
            if self._facts is None or looks != self._looks:
                self._facts, self._looks, self._facts_at = probe(), looks, 0.0
            if now >= self._facts_at:
                self._facts_at, self._beat_at = now + FACTS_S, now + HEARTBEAT_S
                self._facts = refresh_facts(self._facts)
                store.hosts.publish(with_job_user(self._facts, self._settings))
        if now >= self._beat_at:
            self._beat_at = now + HEARTBEAT_S
            store.hosts.heartbeat(host_name())
