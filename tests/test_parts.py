"""The fixtures themselves: what is said to be real answers, and a missing part is never silent in CI."""

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


def test_a_missing_part_is_skipped_by_name(lost_part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(
        pytest.skip.Exception, match="no-such-program of lost is not on this machine; apt-get install sofa"
    ):
        parts.require(lost_part)


def test_a_missing_part_fails_in_continuous_integration(lost_part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no-such-program of lost is not on this machine"):
        parts.require(lost_part)


def test_a_large_optional_part_is_skipped_in_continuous_integration_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setitem(parts.MODULES, "no_such_module", "nothing")
    monkeypatch.setattr(parts, "OPTIONAL", frozenset({"no_such_module"}))
    with pytest.raises(pytest.skip.Exception):
        parts.require("no_such_module")


def test_a_part_without_a_file_of_its_packages_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler without what it links with cannot be used."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setitem(parts.PARTS, "half", part_list.part(["sh"], ["whole"], ["/nowhere/*.a", "/nor/here"]))
    with pytest.raises(pytest.skip.Exception, match="a file of whole of half is not on this machine"):
        parts.require("half")
    monkeypatch.setitem(parts.PARTS, "whole", part_list.part(["sh"], ["whole"], ["/nowhere/*.a", "/bin/s*"]))
    assert parts.require("whole").name == "sh"


def test_an_unknown_part_is_a_mistake_of_the_test() -> None:
    with pytest.raises(pytest.fail.Exception, match="knows no part named 'porf'"):
        parts.require("porf")


def test_redis_answers(redis_server: servers.RedisServer) -> None:
    with redis_server.client() as client:
        assert client.ping()


def test_postgres_answers_and_keeps_databases_apart(postgres_url: str, postgres_database: str) -> None:
    assert postgres_url != postgres_database
    with psycopg.connect(postgres_database.replace("+psycopg", "")) as connection:
        assert connection.execute("SELECT current_user, count(*) FROM pg_tables").fetchone()[0] == "app"


def test_the_browser_runs_scripts(page) -> None:
    page.goto("data:text/html,<p id=x>was</p><script>x.textContent = 'is'</script>")
    assert page.text_content("#x") == "is"


def test_the_ordinary_user_is_not_root(ordinary_user: servers.OrdinaryUser) -> None:
    argv = ordinary_user.command("sh", "-c", 'id -u; : > "$HOME/mine"')
    seen = subprocess.run(argv, env=ordinary_user.environment(), capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == str(ordinary_user.uid) != "0"
    assert os.stat(ordinary_user.home / "mine").st_uid == ordinary_user.uid
