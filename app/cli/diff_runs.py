"""diff of functions and stacks: rows, a sentence, and the gate."""

import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..domain.errors import InvalidRequest
from ..domain.text import shorten
from .output import escape_controls, open_output, warn_sampled_only, write_table

if TYPE_CHECKING:
    from ..analysis.compare.runs import EarlierRuns
    from ..analysis.compare.verdicts import Comparison
    from ..analysis.core.schema import TableRows
    from ..domain.profile import Profile
    from ..domain.selection import Selection

EXIT_GATE_FAILED = 1
EXIT_UNCERTAIN = 3
EXIT_UNREAD = 4
"""Of a gate whose recordings cannot be read, instead of the usual 3: a pipeline that permits "cannot tell" must not
pass without them."""
MARKDOWN, FOLDED = "markdown", "folded"
"""Formats of this command alone."""
MAX_ROWS = 20
"""Of a table in Markdown."""
SHOWN_COLUMNS = (
    "name",
    "self_verdict",
    "base_self_percent",
    "other_self_percent",
    "growth_self_percent",
    "low_self_percent",
    "high_self_percent",
    "total_verdict",
    "growth_total_percent",
    "module",
)
"""The columns for people; CSV, JSON and Parquet have all of them."""
FORMULA_COLUMNS = (
    "name",
    "self_verdict",
    "base_self",
    "other_self",
    "growth_self_percent",
    "low_self_percent",
    "high_self_percent",
    "total_verdict",
    "growth_total_percent",
    "module",
)
"""Of a formula, which has no share of a total."""


def diff_runs(
    base: "Sequence[Profile]",
    other: "Sequence[Profile]",
    selection: "Selection",
    *,
    by: str,
    as_shares: bool | None,
    paired: bool,
    variation: float | None,
    fail_above: float | None,
    output_format: str,
    output: str,
    find_earlier: "Callable[[str], Sequence[EarlierRuns]] | None" = None,
) -> int:
    """Write what changed, and return the exit status. as_shares: None for the default of `compare_runs`; find_earlier:
    see there."""
    from ..analysis.compare import functions, matching
    from ..analysis.compare.formula_verdicts import compare_groups

    is_formula = matching.pair_formulas(base[0], other[0], selection, selection) is not None
    if is_formula and output_format == FOLDED:
        raise InvalidRequest(f"--format {FOLDED} has the weights of an event. Name an event with --event.", "event")
    if is_formula and len(base) + len(other) == 2 and output_format != MARKDOWN and fail_above is None:
        found = functions.diff_functions.rows(base[0], other[0], selection, selection, by=by)
        write_table("Comparison", found, output_format, output, selection)
        return 0
    if output_format == FOLDED:
        _write_folded(base, other, selection, as_shares is True, output)
        return 0
    several = len(base) + len(other) > 2
    try:
        comparison = compare_groups(
            base,
            other,
            selection,
            selection,
            as_shares=as_shares,
            paired=paired,
            variation=None if variation is None else variation / 100,
            find_earlier=find_earlier,
        )
    except InvalidRequest as error:
        if several or fail_above is not None or output_format == MARKDOWN:
            raise
        # Two recordings without a verdict still have differences.
        found = functions.diff_functions.rows(
            base[0], other[0], selection, selection, by=by, normalize=as_shares is not False
        )
        warn_sampled_only(found, "delta_total")
        write_table("Comparison", found, output_format, output, selection)
        sys.stdout.flush()
        click.echo(f"perfloom: No verdict: {escape_controls(error.message)}", err=True)
        return 0
    if output_format == MARKDOWN:
        write_text(format_markdown(comparison), output)
    elif several or is_formula or comparison.base_runs + comparison.other_runs > 2:
        rows = comparison.rows
        if output_format == "table":
            rows = rows.select(FORMULA_COLUMNS if is_formula else SHOWN_COLUMNS)
        write_table("Comparison", rows, output_format, output, selection)
    else:
        found = functions.diff_functions.rows(
            base[0], other[0], selection, selection, by=by, normalize=comparison.as_shares
        )
        warn_sampled_only(found, "delta_total")
        write_table("Comparison", found, output_format, output, selection)
    sys.stdout.flush()
    click.echo(f"perfloom: {comparison.sentence(_quote)}", err=True)
    return 0 if fail_above is None else _check(comparison, fail_above)


def format_markdown(comparison: "Comparison") -> str:
    """The sentence and the functions with evidence, for a comment on GitHub or GitLab. Names are code, so that nothing
    in them is markup."""
    from ..analysis.compare.verdicts import Verdict, list_found

    of = "Growth is in percentage points" if comparison.as_shares else "Growth is in percent of the total of the base"
    end = f"{of}; base and other are shares."
    if comparison.formula:
        end = f"Growth is in percent of the value of the base; values of {_code(comparison.formula)}."
    lines = [f"**{comparison.sentence(_code)}**", ""]
    rows = [
        (row, measure)
        for row in list_found(comparison.rows)
        for measure in ("self", "total")
        if row[f"{measure}_verdict"] not in (Verdict.NONE, Verdict.UNTESTED)
    ]
    if rows:
        lines += [
            "| function | | verdict | base | other | growth | 95 % interval of the change |",
            "|---|---|---|--:|--:|--:|--:|",
        ]
    for row, measure in rows[:MAX_ROWS]:
        low, high = row[f"low_{measure}_percent"], row[f"high_{measure}_percent"]
        interval = "–" if low is None or not comparison.is_certain else f"{low:+.1f} % to {high:+.1f} %"
        shares = " | ".join(_format_value(row, f"{side}_{measure}", comparison) for side in ("base", "other"))
        growth = f"{row[f'growth_{measure}_percent']:+.2f}"
        lines.append(
            f"| {_cell(row['name'])} | {measure} | {row[f'{measure}_verdict']} | {shares} | {growth} | {interval} |"
        )
    if len(rows) > MAX_ROWS:
        lines.append(f"\n{len(rows) - MAX_ROWS} more are left out.")
    if rows:
        lines.append(f"\n{end}")
    return "\n".join(lines) + "\n"


def format_table_markdown(rows: "TableRows", table: str) -> str:
    """The rows of a table for a comment on GitHub or GitLab: of several recordings on a side those with evidence, else
    those that changed most."""
    from ..analysis.compare.group_tables import NO_EVIDENCE, UNTESTED, describe_evidence
    from ..analysis.compare.tables import COMPARED_TABLES

    records, is_grouped = rows.records(), "verdict" in rows.values
    sentence = describe_evidence(rows) if is_grouped else "the greatest change first."
    lines = [f"**{COMPARED_TABLES[table].title}: {sentence}**", ""]
    if is_grouped:
        records = [row for row in records if row["verdict"] not in (NO_EVIDENCE, UNTESTED)]
    if records:
        more = " verdict | 95 % interval of the change |" if is_grouped else " status |"
        lines += [
            f"| {COMPARED_TABLES[table].noun} | base | other | change | % |{more}",
            f"|---|--:|--:|--:|--:|{'---|--:|' if is_grouped else '---|'}",
        ]
    for row in records[:MAX_ROWS]:
        numbers = [row["base"], row["other"], row["delta"], row["delta_percent"]]
        cells = [_cell(row["name"] or ""), *("–" if n is None else f"{n:.6g}" for n in numbers)]
        cells += [row["verdict"], _format_interval(row)] if is_grouped else [row["status"]]
        lines.append(f"| {' | '.join(cells)} |")
    if len(records) > MAX_ROWS:
        lines.append(f"\n{len(records) - MAX_ROWS} more are left out.")
    if records:
        means = ", as means of the recordings" if is_grouped else ""
        lines.append(f"\nBase and other are {rows.column('measure')[0]}{means}.")
    return "\n".join(lines) + "\n"


def format_counts_markdown(rows: "TableRows") -> str:
    """The counts of both sides for a comment on GitHub or GitLab: first those that changed, except within the spread of
    repeated runs, the greatest change before smaller ones. Events that are not compared are listed."""
    from ..analysis.compare.counts import NOT_COMPARED

    records = [row for row in rows.records() if row["status"] != NOT_COMPARED]
    changed = [row for row in records if row["delta"] and not row["within_spread"]]
    changed.sort(key=lambda row: -math.inf if row["delta_percent"] is None else -abs(row["delta_percent"]))
    rest = [row for row in records if not row["delta"] or row["within_spread"]]
    within = sum(bool(row["delta"]) for row in rest)
    explained = f", {within} within the spread of repeated runs" if within else ""
    lines = [f"**Counts: {len(changed)} of {len(records)} changed{explained}.**", ""]
    if records:
        lines += ["| event | unit | base | other | change | % | status |", "|---|---|--:|--:|--:|--:|---|"]
    shown = changed + rest
    for row in shown[:MAX_ROWS]:
        sides = [_format_count(row[side], row[f"{side}_deviation_percent"]) for side in ("base", "other")]
        change = "–" if row["delta_percent"] is None else f"{row['delta_percent']:+.2f}"
        status = "within spread" if row["within_spread"] and row["delta"] else row["status"]
        name, unit = _cell(row["event"]), _cell(row["unit"]) if row["unit"] else ""
        cells = [name, unit, *sides, _format_count(row["delta"], None), change, status]
        lines.append(f"| {' | '.join(cells)} |")
    if len(shown) > MAX_ROWS:
        lines.append(f"\n{len(shown) - MAX_ROWS} more are left out.")
    apart = [_code(row["event"]) for row in rows.records() if row["status"] == NOT_COMPARED]
    if apart:
        more = f" and {len(apart) - MAX_ROWS} more" if len(apart) > MAX_ROWS else ""
        lines.append(f"\nNot compared: {', '.join(apart[:MAX_ROWS])}{more}.")
    if any(row["within_spread"] is not None for row in records):
        lines.append(
            "\n± is the standard deviation of the mean of repeated runs. A spread is twice that of the change."
        )
    return "\n".join(lines) + "\n"


def _format_count(value: float, deviation_percent: float | None) -> str:
    number = f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.6g}"
    return number if deviation_percent is None else f"{number} ± {deviation_percent:.2g} %"


def _format_interval(row: dict[str, Any]) -> str:
    low, high = row["low_percent"], row["high_percent"]
    return "–" if low is None or high is None else f"{low:+.1f} % to {high:+.1f} %"


def _format_value(row: dict[str, Any], column: str, comparison: "Comparison") -> str:
    """The value of a side: of an event its share."""
    return f"{row[column]:.4g}" if comparison.formula else f"{row[f'{column}_percent']:.2f} %"


def _quote(name: str) -> str:
    return f"`{escape_controls(shorten(name))}`"


def _code(name: str) -> str:
    """A name as code: without what would end the code or the line."""
    return "`" + escape_controls(shorten(name)).replace("`", "'") + "`"


def _cell(name: str) -> str:
    """A name as code in a cell, which "|" would end, even in code."""
    return _code(name).replace("|", "\\|")


def _write_folded(
    base: "Sequence[Profile]", other: "Sequence[Profile]", selection: "Selection", normalize: bool, output: str
) -> None:
    from ..analysis.compare.runs import find_event
    from ..exporters import collapsed
    from ..exporters.folded_difference import write_difference

    if selection.event is None and len({collapsed.default_event(profile) for profile in (*base, *other)}) > 1:
        selection = selection.replace(event=find_event(base, other, selection, selection))
    sides = [(chunk for profile in side for chunk in collapsed.write(profile, selection, {})) for side in (base, other)]
    with open_output(output) as file:
        for line in write_difference(*sides, normalize=normalize):
            file.write(line)


def _check(comparison: "Comparison", most: float) -> int:
    from ..analysis.compare.verdicts import GateResult, check_gate

    result, reason = check_gate(comparison, most)
    if reason:
        click.echo(f"perfloom: {reason}", err=True)
    return {GateResult.PASS: 0, GateResult.SLOWER: EXIT_GATE_FAILED, GateResult.UNCERTAIN: EXIT_UNCERTAIN}[result]


def write_text(text: str, output: str) -> None:
    """Write it to a file, or standard output for -."""
    with open_output(output) as file:
        file.write(text.encode())
