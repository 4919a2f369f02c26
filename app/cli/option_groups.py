"""Groups of options with headings, for the help of commands with many options."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class GroupedOption(click.Option):
    """An option with a heading."""

    def __init__(self, *arguments: Any, group: str = "", **given: Any) -> None:
        super().__init__(*arguments, **given)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose help lists options by heading, in the order in which the headings first occur; others last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        others: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                group = parameter.group if isinstance(parameter, GroupedOption) else ""
                (sections.setdefault(group, []) if group else others).append(record)
        for title, rows in [*sections.items(), ("Other", others)]:
            with formatter.section(title):
                formatter.write_dl(rows)


def option_in_group(title: str) -> Callable[..., Callable[[F], F]]:
    """`click.option` for options below the heading `title`."""

    def option(*names: str, **given: Any) -> Callable[[F], F]:
        return click.option(*names, cls=GroupedOption, group=title, **given)

    return option
