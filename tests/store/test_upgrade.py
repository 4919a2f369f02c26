"""Migrations: on an empty database they create the schema of the models; a newer database is not changed."""

from __future__ import annotations

import json

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from perfloom.config import Settings
from perfloom.domain.errors import Unavailable
from perfloom.store import Store, open_store
from perfloom.store.models import load_all
from perfloom.store.upgrade import MIGRATIONS, latest_revision, migrate, revision

from .making import store_result


def test_migrations_make_what_the_models_say(store: Store) -> None:
    """The result is also the schema of a new database, which is created in one step."""
    with store.database.engine.connect() as connection:
        made = _schema(connection)
        load_all().drop_all(connection)
        connection.execute(text("DROP TABLE alembic_version"))
        connection.commit()
        migrate(connection)
        assert revision(store.database) == latest_revision()
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, load_all()) == []
        migrated = _schema(connection)
    assert made == migrated and set(made) == {*load_all().tables, "alembic_version"}


def test_results_of_before_tell_when_they_were_recorded(store: Store) -> None:
    """0004 fills in what meta and jobs tell, and nothing else."""
    jobs = [store.jobs.create(kind, {}, kind) for kind in ("record", "import")]
    with store.database.write() as session:
        session.execute(text("UPDATE jobs SET started = 7000"))
    ids = [store_result(store, name).id for name in ("by meta", "by its job", "imported")]
    with store.database.engine.connect() as connection:
        connection.execute(text("DROP INDEX ix_results_recorded"))
        connection.execute(text("ALTER TABLE results DROP COLUMN recorded"))
        values = {"id": ids[0], "meta": json.dumps({"format": "x", "start_epoch_ns": 1_500_000_000_000})}
        connection.execute(text("UPDATE results SET meta = :meta WHERE id = :id"), values)
        for id, job in zip(ids[1:], jobs, strict=True):
            connection.execute(text("UPDATE results SET job_id = :job WHERE id = :id"), {"id": id, "job": job.id})
        _restore_unused_tables(connection)
        connection.execute(text("UPDATE alembic_version SET version_num = '0003'"))
        connection.commit()
        migrate(connection)
    assert [store.results.get(id).recorded for id in ids] == [1500.0, 7000.0, None]


def test_unused_tables_are_dropped(store: Store) -> None:
    """0005 drops two tables, and a database of version 0004 keeps its results and their tags."""
    one, two = store_result(store, "one"), store_result(store, "two")
    store.results.set_tags(one.id, ["t"])
    kept = [store.results.get(result.id) for result in (one, two)]
    with store.database.engine.connect() as connection:
        current = _schema(connection)
        _restore_unused_tables(connection)
        values = {"base": one.id, "other": two.id}
        connection.execute(text("INSERT INTO comparisons VALUES ('c', 'name', :base, :other, 1)"), values)
        connection.execute(text("UPDATE alembic_version SET version_num = '0004'"))
        connection.commit()
        assert set(_schema(connection)) == {*current, "comparisons", "derived_events"} - {
            "selections",
            "formulas",
            "event_names",
        }
        connection.commit()
    store.migrate()
    with store.database.engine.connect() as connection:
        assert _schema(connection) == current
    assert revision(store.database) == latest_revision()
    assert [store.results.get(result.id) for result in (one, two)] == kept
    store.results.delete(one.id)
    assert store.results.find(one.id) is None


def _restore_unused_tables(connection: Connection) -> None:
    """The two tables as versions 0001 to 0004 had them, without those of later versions."""
    for table in ("selections", "formulas", "event_names"):
        connection.execute(text(f"DROP TABLE {table}"))
    result = "TEXT NOT NULL REFERENCES results (id) ON DELETE CASCADE"
    columns = f"id TEXT PRIMARY KEY, name TEXT NOT NULL, base {result}, other {result}, created FLOAT NOT NULL"
    connection.execute(text(f"CREATE TABLE comparisons ({columns})"))
    columns = "name TEXT PRIMARY KEY, formula TEXT NOT NULL, unit TEXT NOT NULL, description TEXT NOT NULL"
    connection.execute(text(f"CREATE TABLE derived_events ({columns})"))


def _schema(connection: Connection) -> dict[str, object]:
    """All that the database itself tells of its tables, in no order but theirs."""
    seen = inspect(connection)
    return {
        table: {
            "columns": {column["name"]: {**column, "type": str(column["type"])} for column in seen.get_columns(table)},
            "primary key": seen.get_pk_constraint(table),
            "foreign keys": sorted(seen.get_foreign_keys(table), key=str),
            "indexes": sorted(seen.get_indexes(table), key=str),
            "unique": sorted(seen.get_unique_constraints(table), key=str),
            "checks": sorted(seen.get_check_constraints(table), key=str),
        }
        for table in seen.get_table_names()
    }


def test_migrations_form_one_line() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_heads() == [latest_revision()]
    scripts = sorted(path.name for path in (MIGRATIONS / "versions").glob("*.py"))
    assert [int(name[:4]) for name in scripts] == list(range(1, len(scripts) + 1))


def test_opening_again_changes_nothing(store: Store, settings: Settings) -> None:
    before = revision(store.database)
    job = store.jobs.create("import", {}, "kept")
    again = open_store(settings)
    assert revision(again.database) == before and again.jobs.get(job.id) == job
    again.close()


def test_database_of_newer_version_is_not_changed(store: Store, settings: Settings) -> None:
    known = revision(store.database)
    job = store.jobs.create("import", {}, "kept")
    with store.database.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    try:
        with pytest.raises(Unavailable, match="newer version of Perfloom; upgrade"):
            open_store(settings)
        assert revision(store.database) == "9999" and store.jobs.get(job.id) == job
    finally:
        with store.database.write() as session:
            session.execute(text("UPDATE alembic_version SET version_num = :known"), {"known": known})


def test_sqlite_is_set_up_to_keep_what_was_committed(store: Store) -> None:
    if not store.database.sqlite:
        return
    with store.database.read() as session:
        pragmas = {
            name: session.scalar(text(f"PRAGMA {name}"))
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 20_000}
