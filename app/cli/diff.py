"""diff: compare two files or results; a gate for continuous integration."""

import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..domain.errors import InvalidRequest, UnreadableInput
from ..domain.text import shorten
from .diff_runs import (
    EXIT_GATE_FAILED,
    EXIT_UNCERTAIN,
    EXIT_UNREAD,
    FOLDED,
    MARKDOWN,
    diff_runs,
    format_counts_markdown,
    format_table_markdown,
    write_text,
)
from .files import build_selection, filter_options, open_sources
from .ids import Source
from .options import data_option, load_settings, output_option
from .output import FORMATS, PARQUET, STDIO, refuse_terminal, write_table

if TYPE_CHECKING:
    from ..analysis.compare.runs import EarlierRuns
    from ..analysis.core.schema import TableRows
    from ..config import Settings
    from ..domain.profile import Profile
    from ..domain.selection import Selection

COUNTS, THREADS = "counts", "threads"
"""Comparisons: of counts of perf stat, and of threads by role."""
MIN_RUNS, MAX_SELF_TEST_RUNS = 3, 100
"""With fewer runs on a side there are no verdicts."""
WITH = "--with"
BETWEEN = "\0with"
"""Replaces --with among the arguments: what follows it is the other side."""


def refuse_nan(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """A number that is one. FloatRange accepts nan."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a number in the range.", context, parameter)
    return value


class _TwoSidedCommand(click.Command):
    """A command whose arguments are of two sides, with --with in between."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # What follows -- are commands (--self-test, --record).
        end = args.index("--") if "--" in args else len(args)
        args = [BETWEEN if word == WITH and at < end else word for at, word in enumerate(args)]
        rest = super().parse_args(ctx, args)
        if not (ctx.resilient_parsing or ctx.params["self_test"] or ctx.params["record"]):
            _split_sides(ctx.params["words"])
        return rest


@click.command(cls=_TwoSidedCommand)
@click.option(
    "--by",
    metavar="NAME",
    help="What a row represents: function (default) or stack; for operators kind, tensor, layer or device, if both "
    "have it; for threads rank.",
)
@click.option("--of", metavar="COLUMN", help="With TABLE: the column to compare.  [default: the first that both have]")
@click.option(
    "--absolute",
    is_flag=True,
    help="Compare weights, the default if all recordings are of the same command; with TABLE, whole recordings, not "
    "each step.",
)
@click.option("--shares", is_flag=True, help="Compare shares of the total, also of the same command.")
@click.option(
    "--paired",
    is_flag=True,
    help="The runs of both sides were interleaved: the first of both belong together, and so on.",
)
@click.option(
    "--variation",
    type=click.FloatRange(min=0, max=1000),
    callback=refuse_nan,
    metavar="PCT",
    help="The coefficient of variation between runs, if it is known from earlier ones. Else it needs 3 runs on each "
    "side.",
)
@click.option(
    "--fail-above",
    type=click.FloatRange(min=0),
    callback=refuse_nan,
    metavar="PCT",
    help="Exit with status 1 if there is evidence that the whole, or the self or total of a function, grew, and if it "
    "grew by more than this, in percent of the total of the base (of shares: in percentage points); with 3 if the runs "
    "cannot tell. "
    "With TABLE: with 1 if a row grew by more.",
)
@click.option(
    "--self-test",
    is_flag=True,
    help="Record a command (after --) several times for both sides, and show how small a change can be detected.",
)
@click.option(
    "--record",
    is_flag=True,
    help="Record two commands (after --, with --with in between) several times, alternating, and compare them.",
)
@click.option(
    "--runs",
    type=click.IntRange(MIN_RUNS, MAX_SELF_TEST_RUNS),
    default=5,
    show_default=True,
    help="With --record and --self-test: the runs of each side.",
)
@click.option(
    "--names",
    multiple=True,
    metavar="RULE",
    help="Leave out of names what differs between builds: builds for all that is the compiler's, or one of clones, "
    "lambdas, hashes, addresses, generated, templates, arguments, versions, directories, modules; may be repeated.",
)
@click.option(
    "--frequency",
    type=click.IntRange(1, 100_000),
    default=999,
    metavar="HZ",
    show_default=True,
    help="With --record and --self-test: samples per second.",
)
@click.option("--with", "between", is_flag=True, help="What follows is of the other side, which may have several runs.")
@filter_options
@click.option(
    "--format",
    "output_format",
    type=click.Choice((*FORMATS, PARQUET, MARKDOWN, FOLDED)),
    default="table",
    show_default=True,
    help="folded: collapsed stacks with both weights, as difffolded.pl of FlameGraph writes them.",
)
@output_option
@data_option
@click.argument("words", type=Source(), metavar="BASE... [--with] OTHER... [TABLE]", nargs=-1, required=True)
def diff(
    by: str | None,
    of: str | None,
    absolute: bool,
    shares: bool,
    paired: bool,
    variation: float | None,
    fail_above: float | None,
    output_format: str,
    output: str,
    data: Path | None,
    words: tuple[str, ...],
    between: bool,
    self_test: bool,
    record: bool,
    runs: int,
    frequency: int,
    names: tuple[str, ...],
    **filters: Any,
) -> int:
    """Show what changed from BASE to OTHER, largest change first. Each is a file, an id, or - for standard input.

    With several runs on a side, write --with between the sides: perfloom diff base-*.data --with other-*.data. From 3
    runs on each side, there is a verdict on each function: slower, faster, or no evidence. To learn how small a change
    can be detected: perfloom diff --self-test -- COMMAND. To record both sides: perfloom diff --record -- BASE_COMMAND
    --with OTHER_COMMAND.

    Without TABLE, which comes last, it compares functions or stacks; with operators, kernels, modules, memory or steps,
    the rows of that table, per step if both have steps; with threads, threads matched by role (--by rank: ranks); with
    counts, the counts of perf stat. Files with only counts need no TABLE. --by kind, tensor, layer and device apply to
    operators.
    """
    if self_test:
        from .self_test import print_self_test, run_self_test

        return print_self_test(run_self_test(load_settings(data), words, runs, frequency, build_selection(filters)))
    if record and (by or of):
        raise click.UsageError("--by and --of do not apply to --record; leave them out.")
    base_names, other_names, table = ((), (), "") if record else _split_sides(words)
    from ..analysis.compare import counts, functions
    from ..analysis.ml.operator_parts import OPERATOR_PARTS

    for side in (base_names, other_names):
        if len(set(side)) < len(side):
            raise click.UsageError("A recording is named twice on one side, but is only one run; name each once.")
    if absolute and shares:
        raise click.UsageError("--absolute and --shares exclude each other; leave out one.")
    if [*base_names, *other_names].count(STDIO) > 1:
        raise InvalidRequest("Standard input can be read only once. Use - for one of them.")
    if by in OPERATOR_PARTS:
        table = table or "operators"
    # Functions do not need the modules of tables.
    if table and table not in (known := _list_tables()):
        raise click.UsageError(f"No comparison of {table!r}; choose one of {', '.join(known)}.")
    if table == COUNTS and (by or of):
        raise click.UsageError(f"--{'by' if by else 'of'} does not apply to {COUNTS}; leave it out.")
    if not table and by and by not in functions.BY:
        raise click.UsageError(f"--by must be one of {', '.join((*functions.BY, *OPERATOR_PARTS))}, not {by[:40]!r}.")
    for option, given in (
        () if table in (COUNTS, THREADS) else (("event", filters["event"]),) if table else (("of", of),)
    ):
        if given is not None:
            raise click.UsageError(f"--{option} does not apply to {table or 'functions and stacks'}; leave it out.")
    if table and (shares or paired or variation is not None):
        raise click.UsageError(f"--shares, --paired and --variation do not apply to {table}; leave them out.")
    if names and (table or output_format == FOLDED):
        raise click.UsageError(f"--names applies to functions; leave out {table or f'--format {FOLDED}'}.")
    if output_format == FOLDED and fail_above is not None:
        raise click.UsageError("--format folded has no verdict; leave out --fail-above, or choose another format.")
    if table and output_format == FOLDED:
        raise click.UsageError(f"--format {output_format} does not apply to {table}; choose another format.")
    refuse_terminal(output_format, output)
    rules = _parse_name_rules(names)
    selection = build_selection(filters)
    settings = load_settings(data)
    if record:
        return _record_and_compare(
            settings,
            words,
            runs,
            frequency,
            selection,
            rules,
            as_shares=shares,
            fail_above=fail_above,
            output_format=output_format,
            output=output,
        )
    several = len(base_names) + len(other_names) > 2
    if several and (table == COUNTS or by == "stack"):
        raise click.UsageError(f"Several runs are not compared by {table or 'stack'}; compare one with one.")
    try:
        bases, others = ([open_sources(settings, [name]) for name in side] for side in (base_names, other_names))
    except UnreadableInput as error:
        if fail_above is not None:
            error.exit_status = EXIT_UNREAD
        raise
    base, other = bases[0], others[0]
    if not table and all(counts.is_counts_only(profile) for profile in (*bases, *others)):
        if by or absolute or shares:
            raise InvalidRequest(
                "Both have only counts of perf stat, without functions. Leave out --by, --absolute and --shares."
            )
        if several:
            raise InvalidRequest(
                "Several runs of perf stat are one recording: perf stat -r 5. Compare one with one, or recordings with "
                "samples."
            )
        table = COUNTS
    growths: list[tuple[str, float]]
    if table:
        unclear: list[tuple[str, float]] = []
        if table == COUNTS:
            found, growths = _compare_counts(base, other, selection)
        else:
            found, growths, unclear = _compare_table(bases, others, selection, table, by or "", of or "", absolute)
        if output_format == MARKDOWN:
            text = format_counts_markdown(found) if table == COUNTS else format_table_markdown(found, table)
            write_text(text, output)
        else:
            write_table("Comparison", found, output_format, output, selection)
        if fail_above is None:
            return 0
        # Weights of samples differ by chance, also those of one recording on each side.
        if (several or table == THREADS) and min(len(bases), len(others)) < MIN_RUNS:
            text = f"From {MIN_RUNS} recordings on each side, rows have verdicts; these cannot tell."
            click.echo(f"perfloom: {text}", err=True)
            return EXIT_UNCERTAIN
        return _gate(growths, fail_above) or _doubt(unclear, fail_above)
    bases, others = _merge_names(bases, others, rules)
    return diff_runs(
        bases,
        others,
        selection,
        by=by or "function",
        as_shares=True if shares else False if absolute else None,
        paired=paired,
        variation=variation,
        fail_above=fail_above,
        output_format=output_format,
        output=output,
        find_earlier=_find_earlier(settings, (*base_names, *other_names), selection, rules),
    )


def _find_earlier(
    settings: "Settings", names: Sequence[str], selection: "Selection", rules: tuple[str, ...]
) -> "Callable[[str], Sequence[EarlierRuns]] | None":
    """For `compare_runs`: earlier runs of stored results; None if one of the sources is a file."""
    if any(name == STDIO or os.path.exists(name) for name in names):
        return None

    def find(event: str) -> "Sequence[EarlierRuns]":
        from ..store import open_store
        from ..store.run_history import read_earlier_results

        store = open_store(settings)
        try:
            compared = [store.results.get(name) for name in names]
            return read_earlier_results(store.results, compared, selection, rules)(event)
        finally:
            store.close()

    return find


def _record_and_compare(
    settings: "Settings",
    words: Sequence[str],
    runs: int,
    frequency: int,
    selection: "Selection",
    rules: tuple[str, ...],
    *,
    as_shares: bool,
    fail_above: float | None,
    output_format: str,
    output: str,
) -> int:
    """Record both commands and compare them, run by run. The results stay."""
    from .record_runs import open_runs, record_runs

    if words.count(WITH) != 1 or WITH in (words[0], words[-1]):
        raise click.UsageError("Name two commands with --with in between: --record -- ./old --with ./new.")
    at = words.index(WITH)
    ids = record_runs(settings, (words[:at], words[at + 1 :]), runs, frequency, ("base", "other"), [])
    bases, others = _merge_names(open_runs(settings, ids[0]), open_runs(settings, ids[1]), rules)
    click.echo(f"perfloom: base {' '.join(ids[0])}", err=True)
    click.echo(f"perfloom: other {' '.join(ids[1])}", err=True)
    return diff_runs(
        bases,
        others,
        selection,
        by="function",
        as_shares=as_shares,
        paired=True,
        variation=None,
        fail_above=fail_above,
        output_format=output_format,
        output=output,
    )


def _merge_names(
    bases: "list[Profile]", others: "list[Profile]", rules: tuple[str, ...]
) -> "tuple[list[Profile], list[Profile]]":
    """Both sides with the names under these rules; says how many names became one."""
    if not rules:
        return bases, others
    from ..analysis.compare.merged_names import describe_merged_names, list_merged_names, merge_names

    merged = list_merged_names((*bases, *others), rules)
    click.echo(f"perfloom: {describe_merged_names(merged, rules)}", err=True)
    sides = [[merge_names(profile, rules) for profile in side] for side in (bases, others)]
    return sides[0], sides[1]


def _parse_name_rules(words: Sequence[str]) -> tuple[str, ...]:
    if not words:
        return ()
    from ..analysis.compare.merged_names import parse_name_rules

    return parse_name_rules(words)


def _split_sides(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """(base, other, table). Raises UsageError."""
    if words.count(BETWEEN) == 1:
        at = words.index(BETWEEN)
        base, other, table = tuple(words[:at]), tuple(words[at + 1 :]), ""
        if len(other) > 1 and other[-1] in _list_tables() and not os.path.exists(other[-1]):
            other, table = other[:-1], other[-1]
        if base and other:
            return base, other, table
    elif BETWEEN not in words and len(words) in (2, 3):
        return (words[0],), (words[1],), words[2] if len(words) == 3 else ""
    raise click.UsageError(
        "Name a base and an other recording, or several of each with --with in between: BASE1 BASE2 --with OTHER1 "
        "OTHER2."
    )


def _list_tables() -> tuple[str, ...]:
    from ..analysis.compare.tables import COMPARED_TABLES

    return (*COMPARED_TABLES, COUNTS)


def _compare_counts(
    base: "Profile", other: "Profile", selection: "Selection"
) -> "tuple[TableRows, list[tuple[str, float]]]":
    """The comparison of counts, and each event that grew by more than its spread, in percent of its base value."""
    from ..analysis.compare.counts import NOT_COMPARED, diff_counts, has_counts
    from ..analysis.core.sample_selection import event_names

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
    # A formula can be better when it grows, so only a selected one is a reason to fail.
    events = {*event_names(base), *event_names(other)} if selection.event is None else {row["event"] for row in rows}
    grown = [row for row in rows if row["event"] in events and row["delta"] is not None and not row["within_spread"]]
    return found, [(row["event"], _grown(row["delta"], row["base"])) for row in grown]


def _compare_table(
    bases: "Sequence[Profile]",
    others: "Sequence[Profile]",
    selection: "Selection",
    table: str,
    by: str,
    of: str,
    absolute: bool,
) -> "tuple[TableRows, list[tuple[str, float]], list[tuple[str, float]]]":
    """The comparison of a table, and the growth of each row in percent: of the total of the base if rows add up to it,
    else of the row's value in the base. Of several recordings on a side, first that of rows with evidence, then that of
    the others."""
    from ..analysis.compare.group_tables import NO_EVIDENCE, UNTESTED, describe_evidence, diff_table_groups
    from ..analysis.compare.tables import (
        COMPARED_TABLES,
        diff_table,
        has_table,
        list_measures,
        resolve_grouping,
        resolve_measure,
    )

    every = (*bases, *others)
    if not any(has_table(profile, table) for profile in every):
        none = "Neither" if len(every) == 2 else "None"
        raise InvalidRequest(f"{none} of them has {COMPARED_TABLES[table].title.lower()}; compare their functions.")
    asked = by
    for profile in every[1:]:
        by = resolve_grouping(every[0], profile, table, asked)
    measure = resolve_measure(list_measures(COMPARED_TABLES[table], *every), of)
    each_step = not absolute and measure.additive and all(profile.steps.num_rows for profile in every)
    how = (selection, table, measure.column, each_step, by)
    is_grouped = len(every) > 2
    found = diff_table_groups.rows(bases, others, *how) if is_grouped else diff_table.rows(bases[0], others[0], *how)
    if is_grouped:
        click.echo(f"perfloom: {describe_evidence(found)}", err=True)
    if each_step:
        click.echo("perfloom: Values are per step; --absolute compares whole recordings.", err=True)
    base_total = sum(value or 0.0 for value in found.column("base"))
    growths: list[tuple[str, float]] = []
    unclear: list[tuple[str, float]] = []
    for row in found.records():
        is_clear = not is_grouped or row["verdict"] not in (NO_EVIDENCE, UNTESTED)
        growth = _grown(row["delta"], base_total if measure.additive else row["base"])
        (growths if is_clear else unclear).append((row["name"], growth))
    return found, growths, unclear


def _grown(delta: float, base: float | None) -> float:
    if not base:
        return math.inf if delta > 0 else 0.0
    return 100 * delta / abs(base)


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


def _doubt(growths: list[tuple[str, float]], most: float) -> int:
    """The exit status for rows without evidence: of a gate that cannot tell if one grew by more than `most` percent,
    such as a row that is new, or too noisy for a verdict."""
    name, worst = max(growths, key=lambda one: one[1], default=("", 0.0))
    if worst <= most:
        return 0
    sys.stdout.flush()
    text = f"{shorten(name)!r} grew by {worst:.2f} %, above {most:g} %, but without evidence. Compare more recordings."
    click.echo(f"perfloom: {text}", err=True)
    return EXIT_UNCERTAIN


commands: list[click.Command] = [diff]
"""The commands of this module."""
