"""The group `perfloom`: finding commands, and what becomes of their errors."""

import subprocess
import sys
from typing import Any

import click
import pytest

from perfloom.cli import READING_COMMANDS, SERVING_COMMANDS
from perfloom.cli import group as cli
from perfloom.domain import errors
from tests.workers.running import PERFLOOM, environment


def test_every_command_is_found_and_explained() -> None:
    with click.Context(cli.cli) as context:
        for name in cli.cli.list_commands(context):
            command = cli.cli.get_command(context, name)
            assert command is not None and command.name == name and command.help
            within = command.commands.values() if isinstance(command, click.Group) else [command]
            for one in within:
                assert one.help, f"{name} {one.name} explains nothing"
                options = {option for parameter in one.params for option in parameter.opts}
                assert "--data" in options, f"{name} {one.name} takes no --data"


def test_modules_list_their_commands() -> None:
    import importlib

    for family, names in cli.COMMAND_MODULES.items():
        module = importlib.import_module(f"perfloom.cli.{family}")
        assert {command.name for command in module.commands} == set(names)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["--help"], 0), (["--version"], 0), (["nonsense"], 2), (["serve", "--port", "x"], 2), (["record", "-h"], 0)],
)
def test_usage(arguments: list[str], status: int) -> None:
    done = subprocess.run([*PERFLOOM, *arguments], capture_output=True, text=True, env=environment())
    assert done.returncode == status and "Traceback" not in done.stderr


MORE: dict[type, tuple[Any, ...]] = {
    errors.SecretNeeded: ((),),
    errors.HostKeyUnknown: ("host", "key", "fingerprint"),
    errors.TooManyRequests: (60,),
}
"""The additional arguments of some errors."""
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.PerfloomError)]


@pytest.mark.parametrize("kind", KINDS)
def test_errors_become_a_message_and_a_status(
    kind: type[errors.PerfloomError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _raise(monkeypatch, kind("Do this instead.", *MORE.get(kind, ())))
    assert cli.run(["list"]) == kind.exit_status
    captured = capsys.readouterr()
    assert captured.err == "perfloom: Do this instead.\n" and captured.out == ""


def test_internal_error_has_its_own_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _raise(monkeypatch, ValueError("oops"))
    assert cli.run(["list"]) == cli.EXIT_INTERNAL_ERROR
    assert "report it" in capsys.readouterr().err


def test_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    _raise(monkeypatch, KeyboardInterrupt())
    assert cli.run(["list"]) == cli.EXIT_INTERRUPTED


def _raise(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*arguments: Any, **more: Any) -> None:
        raise error

    monkeypatch.setattr(cli.cli, "invoke", fail)


def test_another_module_of_that_name_does_not_get_in_the_way(tmp_path: Any) -> None:
    for name in ("app.py", "perfloom.py", "celery.py", "click.py", "workers.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong module')\n")
    done = subprocess.run([*PERFLOOM, "--version"], cwd=tmp_path, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    script = f"{sys.prefix}/bin/perfloom"
    done = subprocess.run([script, "record", "--help"], cwd=tmp_path, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr


def test_all_serving_commands_hide_secrets() -> None:
    assert {*SERVING_COMMANDS} == {*cli.COMMAND_MODULES["serve"]}
    assert {*READING_COMMANDS} <= {*cli.COMMAND_MODULES["files"], *cli.COMMAND_MODULES["diff"]}


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(tmp_path: Any, closed: str) -> None:
    """Messages do not get into the file that takes the number of a closed one."""
    file = tmp_path / "a.folded"
    file.write_text("main;work 3\n")
    script = f'exec "$@" {closed}'
    words = [*PERFLOOM, "convert", str(file), "--to", "collapsed", "-o", str(tmp_path / "out")]
    done = subprocess.run(["sh", "-c", script, "sh", *words], env=environment())
    assert done.returncode == 0
    assert (tmp_path / "out").read_text() == "main;work 3\n"
