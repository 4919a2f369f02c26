"""The store with all its parts, and how it is opened."""

import logging
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..config import Settings
from ..recording import adapters  # noqa: F401  (registers the names of adapters)
from .credentials import Credentials, SealedBox
from .database import Database
from .files.originals import Original
from .hosts import Check, Checks, Host, Hosts
from .jobs import Job, JobKind, Jobs
from .leases import Leases
from .presets import Preset, Presets
from .recovery import RecoveryReport
from .result import EventTotal, OriginalFile, Result
from .results import SORTS, Results
from .sessions import Sessions
from .targets import StoredTarget, Targets
from .upgrade import upgrade

__all__ = [
    "SORTS",
    "Check",
    "EventTotal",
    "Host",
    "Job",
    "JobKind",
    "Original",
    "OriginalFile",
    "Preset",
    "RecoveryReport",
    "Result",
    "SealedBox",
    "Store",
    "StoredTarget",
    "open_store",
]

if TYPE_CHECKING:
    from .files.timelines import Timelines

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Store:
    """The store. Thread-safe and fork-safe."""

    settings: Settings
    database: Database
    jobs: Jobs
    results: Results
    presets: Presets
    hosts: Hosts
    targets: Targets
    credentials: Credentials
    checks: Checks
    leases: Leases
    sessions: Sessions

    @cached_property
    def timelines(self) -> "Timelines":
        """The timelines of the results."""
        # Imported here, because only pages need its libraries.
        from .files.timelines import Timelines

        return Timelines(self.results.cache)

    def migrate(self) -> None:
        """Bring the database schema up to date; many processes may do so at once. Raises Unavailable."""
        upgrade(self.database)

    def close(self) -> None:
        """Close the connections to the database."""
        self.database.close()


def open_store(settings: Settings, *, migrate: bool = True) -> Store:
    """The store of `settings.data` and `settings.database_url`; both are created if they are missing.

    Raises InvalidRequest or Unavailable if one of them cannot be used.
    """
    for warning in settings.prepare():
        log.warning("%s", warning)
    database = Database(settings)
    results = Results(database)
    store = Store(
        settings=settings,
        database=database,
        jobs=Jobs(database),
        results=results,
        presets=Presets(database),
        hosts=Hosts(database),
        targets=Targets(database),
        credentials=Credentials(database),
        checks=Checks(database),
        leases=Leases(database),
        sessions=Sessions(database),
    )
    if migrate:
        try:
            store.migrate()
        except BaseException:
            store.close()
            raise
    return store
