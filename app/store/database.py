"""The database: connections, transactions, and their errors. SQLite and PostgreSQL behave alike here."""

import contextlib
import os
import sqlite3
import stat
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Double, Engine, create_engine, event, func, literal
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DatabaseError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from ..config import Settings
from ..domain.errors import InvalidRequest, Unavailable

BUSY_SECONDS = 20.0
"""How long a writer waits for another transaction."""
JOURNAL_RETRY_S = 0.01
# Engine options that determine how a transaction begins on SQLite.
_WRITING = {"perfloom_begin": "BEGIN IMMEDIATE"}

_databases: "weakref.WeakSet[Database]" = weakref.WeakSet()


class Database:
    """The engine of one database. Thread-safe and fork-safe."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.sqlite = settings.uses_sqlite
        self.engine = _engine(settings)
        self._writing = self.engine.execution_options(**_WRITING)
        _databases.add(self)
        # If a store is dropped without `close` (a server at its end, the application of a test), close its connections.
        weakref.finalize(self, self.engine.dispose)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session for reading, with one consistent state of the database."""
        with database_errors(), Session(self.engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session in a transaction that is committed at the end, or rolled back after an exception."""
        with database_errors(), Session(self._writing, expire_on_commit=False) as session, session.begin():
            yield session

    def now(self) -> ColumnElement[float]:
        """The current time of the database in seconds since the epoch: one clock for all machines."""
        if self.sqlite:
            return literal(time.time(), Double)
        return func.extract("epoch", func.clock_timestamp()).cast(Double)

    def forget(self) -> None:
        """Forget the connections of the parent process, without closing them for it."""
        self.engine.dispose(close=False)

    def close(self) -> None:
        """Close all idle connections."""
        self.engine.dispose()


def _after_fork() -> None:
    for database in list(_databases):
        database.forget()


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def database_errors() -> Iterator[None]:
    """Converts errors of a database that does not respond or cannot store to Unavailable, with advice."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise Unavailable(_explain(error)) from error
    except DBAPIError as error:
        # A damaged file raises a plain DatabaseError; subclasses of it are bugs.
        if error.connection_invalidated or type(error) is DatabaseError:
            raise Unavailable(_explain(error)) from error
        raise
    except PoolTimeout as error:
        raise Unavailable("The database is busy; try again in a moment.") from error


def _explain(error: DBAPIError) -> str:
    original = error.orig
    text = str(original).strip().splitlines()[0][:300] if original and str(original).strip() else "no answer"
    if isinstance(original, sqlite3.Error):
        if "full" in text or "disk I/O" in text:
            return "The disk that holds the database is full. Free some space, then try again."
        if "locked" in text or "busy" in text:
            return "The database is busy; try again in a moment."
        if "readonly" in text or "read-only" in text or "unable to open" in text:
            return f"The database cannot be written ({text}). Check the data directory's owner, permissions and disk."
        return f"The database cannot be read ({text}). Check the database file and its disk."
    if getattr(original, "sqlstate", None) == "53100":
        return "The disk of the PostgreSQL server is full. Free some space there, then try again."
    return f"The database does not respond ({text}). Check that it runs, and PERFLOOM_DATABASE_URL."


def _engine(settings: Settings) -> Engine:
    try:
        url = make_url(settings.database_url)
    except (SQLAlchemyError, ValueError):
        raise InvalidRequest(
            "PERFLOOM_DATABASE_URL is invalid: write postgresql://USER:PASSWORD@HOST/NAME.", "database_url"
        ) from None
    if not settings.uses_sqlite:
        try:
            engine = create_engine(url, pool_pre_ping=True, pool_size=5, max_overflow=15, pool_timeout=30)
        except ImportError:
            raise Unavailable("PostgreSQL needs another package: pip install 'perfloom[postgres]'.") from None
        return engine
    if not url.database or url.database == ":memory:":
        raise InvalidRequest("PERFLOOM_DATABASE_URL must name a file: write sqlite:////PATH.", "database_url")
    _keep_private(Path(url.database))
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS}, pool_size=5, max_overflow=15, pool_timeout=30)
    # A journal in shared memory (WAL) does not work on a network file system.
    journal = "DELETE" if settings.network_data else "WAL"
    event.listen(engine, "connect", _prepare_sqlite(journal))
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _keep_private(path: Path) -> None:
    """Make the database file, and SQLite's files next to it, readable to their owner only (0600).

    SQLite creates its journals with the mode of the database file. Errors are reported when the database is opened.
    """
    try:
        # Only if it is missing: closing a file releases all locks of this process on it, also those of SQLite.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        for suffix in ("", "-wal", "-shm", "-journal"):
            beside = path.with_name(path.name + suffix)
            if beside.exists() and stat.S_IMODE(beside.stat().st_mode) & 0o077:
                beside.chmod(0o600)
    except OSError:
        pass


def _prepare_sqlite(journal: str) -> Callable[[Any, Any], None]:
    def prepare(connection: Any, record: Any) -> None:
        # Explicit transactions: sqlite3 itself would begin them late, after the first reads.
        connection.isolation_level = None
        cursor = connection.cursor()
        _set_journal(cursor, journal)
        # A claim must survive a power failure, or a program would be started twice.
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    return prepare


def _set_journal(cursor: sqlite3.Cursor, journal: str) -> None:
    """Set the journal mode. The busy timeout does not apply to this change: while another process changes it or reads,
    SQLite immediately reports that the database is locked."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute(f"PRAGMA journal_mode = {journal}")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
        time.sleep(JOURNAL_RETRY_S)


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("perfloom_begin", "BEGIN"))
