"""What several commands share: `--data`, and settings from it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ..config import Settings

F = TypeVar("F", bound=Callable[..., Any])

data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Data directory; by default $PERFLOOM_DATA, else $XDG_DATA_HOME/perfloom.",
)


def settings_of(data: Path | None, **overrides: Any) -> Settings:
    """The settings of a command. Raises InvalidRequest."""
    return Settings.load(data, **overrides)
