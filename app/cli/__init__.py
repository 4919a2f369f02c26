"""The command line `perfloom`: one group, one file for each family of commands.

A family is a module with a list `commands`. Families are imported when one of their commands is called or listed, so
that `perfloom report` does not wait for what `perfloom serve` needs.
"""

import importlib
import os
import sys
import traceback

import click

from .. import __version__
from ..domain.errors import PerfloomError

COMMAND_MODULES = {
    "serve": ("serve", "worker", "web", "demo"),
    "record": ("record",),
    "jobs": ("jobs", "job", "wait", "cancel", "logs"),
    "targets": ("target",),
    "files": ("import", "list", "delete", "report", "convert"),
    "diff": ("diff",),
}
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
EXIT_INTERNAL_ERROR = 70
"""EX_SOFTWARE of sysexits.h: 1 would say that a gate failed."""


class CommandGroup(click.Group):
    """A group whose commands are found in the families."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for family in COMMAND_MODULES for name in COMMAND_MODULES[family]]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for family, names in COMMAND_MODULES.items():
            if cmd_name in names:
                module = importlib.import_module(f".{family}", __package__)
                commands: dict[str | None, click.Command] = {command.name: command for command in module.commands}
                return commands.get(cmd_name)
        return None


@click.command(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="perfloom")
def cli() -> None:
    """Record programs with perf and other tools, store the results, and show where time went."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command and end the process with its status: 0 done, 1 a gate failed, 2 usage, 3 input that cannot be
    read, 4 no result."""
    if arguments is None and set(sys.argv[1:2]) & set(COMMAND_MODULES["serve"]):
        _hide_secrets()
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def _hide_secrets() -> None:
    """For commands that keep running: let no process inspect this one, and keep secrets out of the environment that
    /proc shows, which is that of its start. So it executes itself again, with the secrets in a descriptor."""
    from ..config import SECRETS
    from ..secret_settings import DESCRIPTOR_VARIABLE, secrets_descriptor
    from ..workers import processes

    processes.disable_dumping()
    values = {name: value for name in SECRETS if (value := os.environ.get(name))}
    if values:
        handle = secrets_descriptor(values)
        os.set_inheritable(handle, True)
        kept = {name: value for name, value in os.environ.items() if name not in values}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], kept | {DESCRIPTOR_VARIABLE: str(handle)})


def run(arguments: list[str]) -> int:
    """Run a command; returns the exit status, with what went wrong said on standard error."""
    try:
        if "_PERFLOOM_COMPLETE" in os.environ:
            cli.main(arguments, prog_name="perfloom")
        # Not by `main`, which answers a broken pipe with the status of a failed gate.
        with cli.make_context("perfloom", list(arguments)) as context:
            status = cli.invoke(context)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.exceptions.Exit as exit:
        return exit.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except PerfloomError as error:
        click.echo(f"perfloom: {error.message}", err=True)
        return error.exit_status
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough. Nothing must be written to it when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except Exception:
        traceback.print_exc()
        click.echo("perfloom: This is a bug in Perfloom. Please report it with the lines above.", err=True)
        return EXIT_INTERNAL_ERROR
