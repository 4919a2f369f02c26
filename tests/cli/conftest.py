"""Runs commands in this process, for tests that need no separate process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from perfloom.cli import group as cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Run:
    """Run a command in this process: its status, standard output and standard error."""
    monkeypatch.setenv("PERFLOOM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PERFLOOM_RUNTIME", str(short_path / "r"))
    monkeypatch.setenv("PERFLOOM_RESERVE_BYTES", "0")

    def call(*arguments: str) -> tuple[int, str, str]:
        capfdbinary.readouterr()
        status = cli.run(list(arguments))
        out, err = capfdbinary.readouterr()
        return status, out.decode(errors="replace"), err.decode(errors="replace")

    return call


def collapsed(tmp_path: Path, name: str, text: str) -> str:
    """The path of a new file of collapsed stacks."""
    path = tmp_path / name
    path.write_text(text)
    return str(path)
