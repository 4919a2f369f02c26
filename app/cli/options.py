"""Options of several commands: `--data` with its settings and store, and `--format`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..analysis.core.waiting_functions import set_additional_patterns
from ..analysis.formulas.additional import load_additional_formulas
from ..config import Settings
from .output import FORMATS, PARQUET, STDIO

if TYPE_CHECKING:
    from ..domain.formulas.formula import Formula
    from ..store import Store

F = TypeVar("F", bound=Callable[..., Any])

data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Data directory.  [default: $PERFLOOM_DATA, else $XDG_DATA_HOME/perfloom]",
)
format_option = click.option(
    "--format", "output_format", type=click.Choice(FORMATS), default="table", show_default=True
)
rows_format_option = click.option(
    "--format", "output_format", type=click.Choice((*FORMATS, PARQUET)), default="table", show_default=True
)
output_option = click.option(
    "--output", "-o", default=STDIO, metavar="OUT", help="File to write; - is standard output."
)


def load_settings(data: Path | None, **overrides: Any) -> Settings:
    """The settings of a command; those of analyses apply from now on. Raises InvalidRequest."""
    settings = Settings.load(data, **overrides)
    set_additional_patterns(settings.waiting_functions)
    load_additional_formulas(lambda: _load_formulas(settings))
    return settings


def _load_formulas(settings: Settings) -> "tuple[Formula, ...]":
    from ..store.formulas import load_formulas

    return load_formulas(settings)


@contextmanager
def open_store(data: Path | None) -> "Iterator[Store]":
    """The store of a command, closed at the end. Raises InvalidRequest or Unavailable."""
    from ..store import open_store

    store = open_store(load_settings(data))
    try:
        yield store
    finally:
        store.close()


def typed_options(context: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """The parameters that are on the command line, without defaults."""
    source = click.core.ParameterSource.COMMANDLINE
    return {name: value for name, value in given.items() if context.get_parameter_source(name) is source}
