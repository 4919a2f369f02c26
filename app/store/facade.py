"""The store with all its parts, and how it is opened."""

import logging
import weakref
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..analysis.core.waiting_functions import set_additional_patterns
from ..analysis.formulas.additional import load_additional_formulas
from ..config import Settings
from .database import Database
from .results import Results
from .upgrade import upgrade

if TYPE_CHECKING:
    from ..domain.formulas.formula import Formula
    from .credentials import Credentials
    from .event_names import OwnEventNames
    from .files.timelines import Timelines
    from .formulas import OwnFormulas
    from .hosts import Checks, Hosts
    from .job_series import JobSeries
    from .jobs import Jobs
    from .leases import Leases
    from .presets import Presets
    from .selections import SavedSelections
    from .sessions import Sessions
    from .targets import Targets

log = logging.getLogger(__name__)


# Modules of parts are imported at first access: those of jobs and targets load all adapters, which take as long to load
# as listing results takes.
@dataclass(frozen=True)
class Store:
    """The store. Thread-safe and fork-safe."""

    settings: Settings
    database: Database
    results: Results

    @cached_property
    def jobs(self) -> "Jobs":
        from .jobs import Jobs

        return Jobs(self.database)

    @cached_property
    def series(self) -> "JobSeries":
        """The run series among the jobs."""
        from .job_series import JobSeries

        return JobSeries(self.database)

    @cached_property
    def presets(self) -> "Presets":
        from .presets import Presets

        return Presets(self.database)

    @cached_property
    def selections(self) -> "SavedSelections":
        from .selections import SavedSelections

        return SavedSelections(self.database)

    @cached_property
    def formulas(self) -> "OwnFormulas":
        from .formulas import OwnFormulas

        return OwnFormulas(self.database)

    @cached_property
    def event_names(self) -> "OwnEventNames":
        from .event_names import OwnEventNames

        return OwnEventNames(self.database)

    @cached_property
    def hosts(self) -> "Hosts":
        from .hosts import Hosts

        return Hosts(self.database)

    @cached_property
    def targets(self) -> "Targets":
        from .targets import Targets

        return Targets(self.database)

    @cached_property
    def credentials(self) -> "Credentials":
        from .credentials import Credentials

        return Credentials(self.database)

    @cached_property
    def checks(self) -> "Checks":
        from .hosts import Checks

        return Checks(self.database)

    @cached_property
    def leases(self) -> "Leases":
        from .leases import Leases

        return Leases(self.database)

    @cached_property
    def sessions(self) -> "Sessions":
        from .sessions import Sessions

        return Sessions(self.database)

    @cached_property
    def timelines(self) -> "Timelines":
        """The timelines of the results."""
        from .files.timelines import Timelines

        return Timelines(self.results.cache)

    def use_formulas(self) -> None:
        """Analyses in this process use the formulas of users as they are now, and those of the installation."""
        installed, store = self.settings.formulas, weakref.ref(self)

        def load() -> "tuple[Formula, ...]":
            # The function outlives the store, whose connections must close with it.
            opened = store()
            return (*(one.formula for one in opened.formulas.list()), *installed) if opened else tuple(installed)

        load_additional_formulas(load)

    def migrate(self) -> None:
        """Bring the database schema up to date; many processes may do so at once. Raises Unavailable."""
        upgrade(self.database)

    def close(self) -> None:
        """Close the connections to the database."""
        self.database.close()


def open_store(settings: Settings, *, migrate: bool = True) -> Store:
    """The store of `settings.data` and `settings.database_url`; both are created if they are missing. Analyses in this
    process use the same settings.

    Raises InvalidRequest or Unavailable if one of them cannot be used.
    """
    set_additional_patterns(settings.waiting_functions)
    for warning in settings.prepare():
        log.warning("%s", warning)
    database = Database(settings)
    store = Store(settings, database, Results(database))
    store.use_formulas()
    if migrate:
        try:
            store.migrate()
        except BaseException:
            store.close()
            raise
    return store
