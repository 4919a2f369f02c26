"""Upgrades the database schema, under a lock, so that web and workers may start at the same time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from ..config import Settings
from ..domain.errors import Unavailable
from .database import Database, database_errors
from .files.disk import disk_errors
from .models import load_all

MIGRATIONS = Path(__file__).parent / "migrations"
LOCK_FILE = "upgrade.lock"
# The key of PostgreSQL's advisory lock: any fixed number.
_LOCK = 0x7065_7266_6C6F_6F6D


def upgrade(database: Database) -> None:
    """Upgrade the schema to the newest version. If it is up to date, this takes one query.

    Raises Unavailable if the database does not respond, or was written by a newer version of Perfloom.
    """
    with database_errors():
        with database.engine.connect() as connection:
            if _current(connection) == latest_revision():
                return
        with _lock(database.settings), database.engine.connect() as connection:
            if not database.sqlite:
                connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _LOCK})
                connection.commit()
            try:
                if _empty(connection):
                    _make(connection)
                else:
                    migrate(connection)
            finally:
                if not database.sqlite:
                    connection.rollback()
                    connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": _LOCK})
                    connection.commit()


def revision(database: Database) -> str | None:
    """The schema's version, or None for an empty database."""
    with database_errors(), database.engine.connect() as connection:
        return _current(connection)


def _empty(connection: Connection) -> bool:
    """Whether the database has no table of Perfloom, of any version."""
    table_names = set(inspect(connection).get_table_names())
    return table_names.isdisjoint({*load_all().tables, "alembic_version"})


def _make(connection: Connection) -> None:
    """Create the newest schema in an empty database directly, without the migrations and their libraries."""
    load_all().create_all(connection)
    columns = "version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)"
    connection.execute(text(f"CREATE TABLE alembic_version ({columns})"))
    connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": latest_revision()})
    connection.commit()


def migrate(connection: Connection) -> None:
    """Run the missing migrations, all of them on an empty database. Raises Unavailable."""
    # Imported here, because most processes do not need it.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
        connection.commit()
    except CommandError as error:
        raise Unavailable(
            "The database was written by a newer version of Perfloom; upgrade this one, or use another data "
            f"directory or database ({error})."
        ) from None


def _current(connection: Connection) -> str | None:
    """The version in alembic's table."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def latest_revision() -> str:
    """The newest version of the schema: its migrations are numbered."""
    return max(path.name[:4] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))


@contextmanager
def _lock(settings: Settings) -> Iterator[None]:
    """A lock among the processes that share the data directory."""
    with disk_errors(settings.data):
        handle = os.open(settings.data / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
