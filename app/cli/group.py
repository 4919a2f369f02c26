"""The group of all commands: one module for related commands.

Each module has a list `commands`, and is imported when one of them is called, so that `perfloom report` does not load
the libraries of `perfloom serve`.
"""

import importlib
import os
import sys
import traceback

import click

from .. import __version__
from ..domain.errors import PerfloomError

COMMAND_MODULES = {
    "serve": {
        "serve": "Run the web server, a worker and the queue.",
        "worker": "Run a worker, which runs jobs and reads files.",
        "web": "Run the web server alone.",
        "demo": "Record an example program and show it in the browser.",
    },
    "record": {"record": "Record a command as a job."},
    "jobs": {
        "jobs": "List jobs.",
        "job": "Show a job.",
        "wait": "Wait for a job to end.",
        "cancel": "Cancel jobs.",
        "logs": "Print the output of the program of a job.",
    },
    "targets": {"target": "Manage targets: the hosts and batch systems where jobs run."},
    "formulas": {"formulas": "Manage formulas over events."},
    "files": {
        "import": "Store traces and profiles as a result.",
        "list": "List stored results.",
        "delete": "Delete stored results.",
        "report": "Print a table of a file or a result.",
        "convert": "Write a file or a result in another format.",
    },
    "source": {"source": "Binaries and source files behind the source lines of a result."},
    "diff": {"diff": "Compare two files or results."},
    "history": {"history": "Show the results of a tag or a name over time."},
}
"""The modules of this package, with the names and summaries of their commands."""
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
EXIT_INTERNAL_ERROR = 70
"""EX_SOFTWARE of sysexits.h: 1 means that a gate failed."""


class CommandGroup(click.Group):
    """The commands of all modules. A module is imported only when one of its commands is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for commands in COMMAND_MODULES.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for module_name, summaries in COMMAND_MODULES.items():
            if cmd_name in summaries:
                module = importlib.import_module(f".{module_name}", __package__)
                commands: dict[str | None, click.Command] = {command.name: command for command in module.commands}
                return commands.get(cmd_name)
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """In click's format, without importing the modules."""
        with formatter.section("Commands"):
            formatter.write_dl([item for summaries in COMMAND_MODULES.values() for item in summaries.items()])


@click.command(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="perfloom")
def cli() -> None:
    """Record programs with perf and other tools, store the results, and show where time went."""


def run(arguments: list[str]) -> int:
    """Run a command and return its exit status. Errors are printed to standard error."""
    try:
        if "_PERFLOOM_COMPLETE" in os.environ:
            cli.main(arguments, prog_name="perfloom")
        # Not `main`, which exits with the status of a failed gate if the pipe breaks.
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
        # The reader of the output has closed it. Python must not write to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except Exception:
        traceback.print_exc()
        click.echo("perfloom: This is a bug in Perfloom. Please report it with the lines above.", err=True)
        return EXIT_INTERNAL_ERROR
