"""history: the results of a tag or a name over time, and where their level changed."""

import sys
from pathlib import Path

import click

from ..domain.errors import InvalidRequest
from ..domain.text import shorten
from .options import data_option, open_store, output_option, rows_format_option
from .output import escape_controls, refuse_terminal, write_table

SHOWN_COLUMNS = ("recorded", "name", "host", "value", "level", "change_percent", "change_low_percent", "id")
"""The columns for people; CSV, JSON and Parquet have all of them."""


@click.command()
@click.option("--name", default="", help="Results with exactly this name, of the tag if one is given.")
@click.option("--command", default="", help="Results of exactly this command, of the tag if one is given.")
@click.option("--event", default="", metavar="NAME", help="The event.  [default: the one that most results have]")
@click.option("--function", default="", metavar="NAME", help="A function, by its displayed name, instead of the whole.")
@click.option("--self", "own", is_flag=True, help="With --function: its self weight instead of its total.")
@rows_format_option
@output_option
@data_option
@click.argument("tag", required=False, default="")
def history(
    tag: str,
    name: str,
    command: str,
    event: str,
    function: str,
    own: bool,
    output_format: str,
    output: str,
    data: Path | None,
) -> int:
    """Show the stored results with TAG in the order of recording, and where their level changed.

    A change is found if another order of the same runs has one as large in less than 5 % of all orders. It takes at
    least 6 results, 3 before and 3 after it.
    """
    from ..domain.selection import Selection
    from ..store.run_history import collect_history, find_runs

    if not (tag or name or command):
        raise click.UsageError("Name a TAG, or give --name or --command.")
    if own and not function:
        raise click.UsageError("--self applies to a function; give --function, too.")
    refuse_terminal(output_format, output)
    with open_store(data) as store:
        found = find_runs(store.results, tag=tag, name=name, command=command)
        if not found:
            given = {"tag": tag, "name": name, "command": command}
            what = " and ".join(f"the {word} {shorten(value)!r}" for word, value in given.items() if value)
            raise InvalidRequest(f"No result has {what}. See `perfloom list`.", "tag")
        runs = collect_history(store.results, found, event=event, function=function, measure="self" if own else "total")
    rows = runs.rows()
    if output_format == "table":
        rows = rows.select(SHOWN_COLUMNS)
    write_table("History", rows, output_format, output, Selection())
    sys.stdout.flush()
    for note in (*runs.left_out, runs.sentence(lambda text: f"`{escape_controls(shorten(text))}`")):
        click.echo(f"perfloom: {escape_controls(note)}", err=True)
    return 0


commands = [history]
