"""The fixtures themselves: they answer, and a missing program is never ignored in CI."""

from __future__ import annotations

import os
import subprocess

import psycopg
import pytest

import part_list
from tests.support import parts, servers


@pytest.fixture
def lost_part(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(parts.PARTS, "lost", part_list.part(["no-such-program"], ["sofa"]))
    return "lost"


def test_missing_program_skips_with_its_name(lost_part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(
        pytest.skip.Exception, match="no-such-program of lost is not on this machine; apt-get install sofa"
    ):
        parts.require(lost_part)


def test_missing_program_fails_in_ci(lost_part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no-such-program of lost is not on this machine"):
        parts.require(lost_part)


def test_large_optional_program_is_skipped_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setitem(parts.MODULES, "no_such_module", "nothing")
    monkeypatch.setattr(parts, "OPTIONAL", frozenset({"no_such_module"}))
    with pytest.raises(pytest.skip.Exception):
        parts.require("no_such_module")


def test_program_without_required_file_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler without the libraries that it links cannot be used."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setitem(parts.PARTS, "half", part_list.part(["sh"], ["whole"], ["/nowhere/*.a", "/nor/here"]))
    with pytest.raises(pytest.skip.Exception, match="a file of whole of half is not on this machine"):
        parts.require("half")
    monkeypatch.setitem(parts.PARTS, "whole", part_list.part(["sh"], ["whole"], ["/nowhere/*.a", "/bin/s*"]))
    assert parts.require("whole").name == "sh"


def test_unknown_program_name_raises() -> None:
    with pytest.raises(pytest.fail.Exception, match="knows no part named 'porf'"):
        parts.require("porf")


def test_redis_answers(redis_server: servers.RedisServer) -> None:
    with redis_server.client() as client:
        assert client.ping()


def test_postgres_databases_are_separate(postgres_url: str, postgres_database: str) -> None:
    assert postgres_url != postgres_database
    with psycopg.connect(postgres_database.replace("+psycopg", "")) as connection:
        assert connection.execute("SELECT current_user, count(*) FROM pg_tables").fetchone()[0] == "app"


def test_browser_runs_scripts(page) -> None:
    page.goto("data:text/html,<p id=x>was</p><script>x.textContent = 'is'</script>")
    assert page.text_content("#x") == "is"


def test_ordinary_user_is_not_root(ordinary_user: servers.OrdinaryUser) -> None:
    argv = ordinary_user.command("sh", "-c", 'id -u; : > "$HOME/mine"')
    seen = subprocess.run(argv, env=ordinary_user.environment(), capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == str(ordinary_user.uid) != "0"
    assert os.stat(ordinary_user.home / "mine").st_uid == ordinary_user.uid
