"""formulas: list, export, import and delete formulas over events."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..domain.errors import NotFound
from .options import data_option, format_option, open_store, output_option
from .output import read_settings, write_rows, write_settings

if TYPE_CHECKING:
    from ..domain.formulas.formula import Formula

LIST_COLUMNS = ("name", "expression", "unit", "source", "description")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def formulas() -> None:
    """Formulas over events, such as cycles / instructions. The table formulas of `report` has their values."""


@formulas.command("list")
@format_option
@data_option
def list_(output_format: str, data: Path | None) -> int:
    """List formulas in the order in which they apply: yours, those of the installation, built-in ones."""
    from ..analysis.formulas.builtin import BUILTIN_FORMULAS

    def rows(source: str, found: "Iterable[Formula]") -> list[dict[str, object]]:
        return [{name: getattr(one, name, source) for name in LIST_COLUMNS} for one in found]

    with open_store(data) as store:
        own = [one.formula for one in store.formulas.list()]
        installed = store.settings.formulas
    every = [*rows("yours", own), *rows("installation", installed), *rows("built in", BUILTIN_FORMULAS)]
    write_rows(LIST_COLUMNS, every, output_format, fit=True)
    return 0


@formulas.command()
@output_option
@data_option
def export(output: str, data: Path | None) -> int:
    """Write your formulas to a TOML file, which `formulas import` and PERFLOOM_FORMULAS read."""
    from ..domain.formulas.file import write_formulas

    with open_store(data) as store:
        text = write_formulas(one.formula for one in store.formulas.list())
    write_settings(text, output)
    return 0


@formulas.command("import")
@data_option
@click.argument("file")
def import_(file: str, data: Path | None) -> int:
    """Store the formulas of FILE (TOML; - is standard input), and replace yours with the same names."""
    from ..domain.formulas.file import MAX_FILE_BYTES, read_formulas

    content = read_settings(file, MAX_FILE_BYTES)
    found = read_formulas(content)
    with open_store(data) as store:
        added, replaced = store.formulas.replace(found)
    click.echo(f"perfloom: Imported {added:,}, replaced {replaced:,}.", err=True)
    return 0


@formulas.command()
@data_option
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def delete(data: Path | None, names: tuple[str, ...]) -> int:
    """Delete your formulas with these names."""
    with open_store(data) as store:
        own = store.formulas.list()
        for name in names:
            if not any(one.formula.name == name for one in own):
                raise NotFound(f"You have no formula {name[:80]!r}. List them with: perfloom formulas list")
        for one in own:
            if one.formula.name in names:
                store.formulas.delete(one.id)
    return 0


commands: list[click.Command] = [formulas]
