"""diff: compare two files or results; a gate for continuous integration."""

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..domain.errors import InvalidRequest
from ..domain.text import shorten
from .files import build_selection, filter_options, open_sources, prefork_reader
from .ids import Source
from .options import data_option, load_settings, output_option, rows_format_option
from .output import STDIO, refuse_terminal, warn_sampled_only, write_table

if TYPE_CHECKING:
    from ..analysis.core.schema import TableRows
    from ..domain.profile import Profile
    from ..domain.selection import Selection

EXIT_GATE_FAILED = 1
COUNTS = "counts"
"""The comparison of counts of perf stat."""


@click.command()
@click.option(
    "--by",
    metavar="NAME",
    help="What a row represents: function (default) or stack; for operators kind, tensor, layer or device, if both "
    "have it.",
)
@click.option("--of", metavar="COLUMN", help="With TABLE: the column to compare.  [default: the first that both have]")
@click.option(
    "--absolute", is_flag=True, help="Compare weights, not shares; with TABLE, whole recordings, not each step."
)
@click.option(
    "--fail-above",
    type=click.FloatRange(min=0),
    metavar="PCT",
    help="Exit with status 1 if the self or total of anything grew by more than this, in percent of the total of A "
    "(without --absolute: in percentage points); with TABLE, if a row did. Functions and stacks with fewer than 30 "
    "samples on both sides do not count.",
)
@filter_options
@rows_format_option
@output_option
@data_option
@click.argument("a", type=Source(), metavar="A")
@click.argument("b", type=Source(), metavar="B")
@click.argument("table", metavar="[TABLE]", default="")
def diff(
    by: str | None,
    of: str | None,
    absolute: bool,
    fail_above: float | None,
    output_format: str,
    output: str,
    data: Path | None,
    a: str,
    b: str,
    table: str,
    **words: Any,
) -> int:
    """Show what changed from A to B, largest change first. Each is a file, an id, or - for standard input.

    Without TABLE, it compares functions or stacks; with operators, kernels, modules, memory or steps, the rows of that
    table, per step if both have steps; with counts, the counts of perf stat. Files with only counts need no TABLE. --by
    kind, tensor, layer and device apply to operators.
    """
    prefork_reader((a,))
    from ..analysis.compare import counts, functions, tables
    from ..analysis.ml.operator_parts import OPERATOR_PARTS

    if a == b == STDIO:
        raise InvalidRequest("Standard input can be read only once. Use - for one of them.")
    if by in OPERATOR_PARTS:
        table = table or "operators"
    if table and table not in (*tables.COMPARED_TABLES, COUNTS):
        known = ", ".join((*tables.COMPARED_TABLES, COUNTS))
        raise click.UsageError(f"No comparison of {table!r}; choose one of {known}.")
    if table == COUNTS and (by or of):
        raise click.UsageError(f"--{'by' if by else 'of'} does not apply to {COUNTS}; leave it out.")
    if not table and by and by not in functions.BY:
        raise click.UsageError(f"--by must be one of {', '.join((*functions.BY, *OPERATOR_PARTS))}, not {by[:40]!r}.")
    for option, given in () if table == COUNTS else (("event", words["event"]),) if table else (("of", of),):
        if given is not None:
            raise click.UsageError(f"--{option} does not apply to {table or 'functions and stacks'}; leave it out.")
    refuse_terminal(output_format, output)
    selection = build_selection(words)
    settings = load_settings(data)
    base, other = open_sources(settings, [a]), open_sources(settings, [b])
    if not table and all(counts.is_counts_only(profile) for profile in (base, other)):
        if by or absolute:
            raise InvalidRequest(
                "Both have only counts of perf stat, without functions. Leave out --by and --absolute."
            )
        table = COUNTS
    if table == COUNTS:
        found, growths = _compare_counts(base, other, selection)
    elif table:
        found, growths = _compare_table(base, other, selection, table, by or "", of or "", absolute)
    else:
        by = by or "function"
        found = functions.diff_functions.rows(base, other, selection, selection, by=by, normalize=not absolute)
        warn_sampled_only(found, "delta_total")
        if fail_above is not None:
            _report_few(found, fail_above)
        growths = [(row["name"], _growth(row)) for row in found.records() if row["status"] != functions.FEW_SAMPLES]
    write_table("Comparison", found, output_format, output, selection)
    return 0 if fail_above is None else _gate(growths, fail_above)


def _compare_counts(
    base: "Profile", other: "Profile", selection: "Selection"
) -> "tuple[TableRows, list[tuple[str, float]]]":
    """The comparison of counts, and each event that grew by more than its spread, in percent of its base value."""
    from ..analysis.compare.counts import NOT_COMPARED, diff_counts, has_counts

    if not (has_counts(base) or has_counts(other)):
        raise InvalidRequest("Neither of them has counts of perf stat; compare their functions.")
    found = diff_counts.rows(base, other, selection, selection)
    rows = found.records()
    apart = [row["event"] for row in rows if row["status"] == NOT_COMPARED]
    for row in rows:
        if row["status"] == NOT_COMPARED:
            click.echo(f"perfloom: {row['event']}: {row['note']}.", err=True)
    if apart and len(apart) == len(rows):
        click.echo("perfloom: No event was counted on both sides, so nothing is compared.", err=True)
    grown = [row for row in rows if row["delta"] is not None and not row["within_spread"]]
    return found, [(row["event"], _grown(row["delta"], row["base"])) for row in grown]


def _compare_table(
    base: "Profile", other: "Profile", selection: "Selection", table: str, by: str, of: str, absolute: bool
) -> "tuple[TableRows, list[tuple[str, float]]]":
    """The comparison of a table, and the growth of each row in percent: of the total of the base if rows add up to it,
    else of the row's value in the base."""
    from ..analysis.compare.tables import (
        COMPARED_TABLES,
        diff_table,
        has_table,
        list_measures,
        resolve_grouping,
        resolve_measure,
    )

    if not any(has_table(profile, table) for profile in (base, other)):
        raise InvalidRequest(f"Neither of them has {COMPARED_TABLES[table].title.lower()}; compare their functions.")
    by = resolve_grouping(base, other, table, by)
    measure = resolve_measure(list_measures(COMPARED_TABLES[table], base, other), of)
    each_step = not absolute and measure.additive and all(profile.steps.num_rows for profile in (base, other))
    found = diff_table.rows(base, other, selection, table, measure.column, each_step=each_step, by=by)
    if each_step:
        click.echo("perfloom: Values are per step; --absolute compares whole recordings.", err=True)
    base_total = sum(value or 0.0 for value in found.column("base"))
    return found, [
        (row["name"], _grown(row["delta"], base_total if measure.additive else row["base"])) for row in found.records()
    ]


def _report_few(found: "TableRows", most: float) -> None:
    """Report rows that the gate ignores: growth with fewer than 30 samples on both sides, which may be noise. Raises
    InvalidRequest if there are no other rows, because then there is no verdict."""
    from ..analysis.compare.functions import FEW_SAMPLES
    from ..analysis.core.sample_counts import MIN_COMPARED_SAMPLES

    few = [row for row in found.records() if row["status"] == FEW_SAMPLES]
    rows = [row for row in few if _growth(row) > most]
    if not rows:
        return
    highest = max((row[side] or 0 for row in found.records() for side in ("base_samples", "other_samples")), default=0)
    if highest < MIN_COMPARED_SAMPLES:
        raise InvalidRequest(
            f"Both have fewer than {MIN_COMPARED_SAMPLES} samples, too few for a verdict. Record for "
            "longer, or at a higher frequency."
        )
    click.echo(
        f"perfloom: {len(rows)} more grew by more than {most:g} %, but have fewer than "
        f"{MIN_COMPARED_SAMPLES} samples on both sides. Record for longer to be sure.",
        err=True,
    )


def _growth(row: Mapping[str, Any]) -> float:
    """The growth of a row in percent of the total; infinite if the total of the base is 0."""
    if row["delta_total_percent"] is None:
        return math.inf if (row["delta_total"] or 0) > 0 else 0.0
    return float(max(row["delta_self_percent"], row["delta_total_percent"]))


def _grown(delta: float, base: float | None) -> float:
    if not base:
        return math.inf if delta > 0 else 0.0
    return 100 * delta / base


def _gate(growths: list[tuple[str, float]], most: float) -> int:
    """The exit status. If anything grew by more than `most` percent, print a message; the status is that of a failed
    gate."""
    grown = [one for one in growths if one[1] > most]
    if not grown:
        return 0
    name, worst = max(grown, key=lambda one: one[1])
    many = f", and {len(grown) - 1} more" if len(grown) > 1 else ""
    sys.stdout.flush()
    click.echo(f"perfloom: {shorten(name)!r} grew by {worst:.2f} %, above {most:g} %{many}.", err=True)
    return EXIT_GATE_FAILED


commands: list[click.Command] = [diff]
"""The commands of this module."""
