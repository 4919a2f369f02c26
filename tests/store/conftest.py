"""The store on each of its two databases: SQLite, and a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from perfloom.config import Settings
from perfloom.store import Store, open_store
from perfloom.store.models import load_all
from tests.support import servers


@pytest.fixture(scope="session")
def postgres_catalogue(postgres_url: str) -> Iterator[str]:
    """The URL of a PostgreSQL database with the schema, for all tests of the store."""
    with servers.postgres_database(postgres_url, "catalogue") as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    """Settings with an empty data directory and an empty database."""
    environ = {"PERFLOOM_RUNTIME": str(tmp_path / "run")}
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_catalogue")
        settings = Settings.load(tmp_path / "data", environ, database_url=url)
        open_store(settings).close()
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("TRUNCATE " + ", ".join(load_all().tables)))
        engine.dispose()
    else:
        settings = Settings.load(tmp_path / "data", environ)
    yield settings


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    """An empty store."""
    store = open_store(settings)
    yield store
    store.close()
