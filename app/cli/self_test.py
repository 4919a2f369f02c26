"""diff --self-test: the comparison of a command with itself, which shows how small a change this machine can detect."""

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..domain.text import shorten
from .output import escape_controls
from .record_runs import delete_results, open_runs, record_runs

if TYPE_CHECKING:
    from ..analysis.compare.verdicts import Comparison
    from ..config import Settings
    from ..domain.selection import Selection

EXIT_NOT_QUIET = 1


def run_self_test(
    settings: "Settings", command: Sequence[str], runs: int, frequency: int, selection: "Selection"
) -> "Comparison":
    """Record the command `runs` times for each of two sides, alternating, after a run that is not counted, and compare
    them. The results are deleted. Raises JobFailed if a run has no result."""
    from ..analysis.compare.verdicts import compare_runs

    ids: list[str] = []
    try:
        base, other = record_runs(settings, (command, command), runs, frequency, ("self-test", "self-test"), ids)
        bases, others = (open_runs(settings, side) for side in (base, other))
        return compare_runs(bases, others, selection, selection, as_shares=False, paired=True)
    finally:
        delete_results(settings, ids)


def print_self_test(comparison: "Comparison") -> int:
    """Print what the machine can detect; the exit status is 1 if it sees a change where there is none."""
    from ..analysis.compare.verdicts import MEASURES, Verdict

    runs = f"{comparison.base_runs} runs against {comparison.other_runs} of the same command"
    lines = []
    if comparison.whole is not None:
        lines.append(
            f"Of {comparison.event} as a whole, {runs} would show a change of "
            f"{100 * comparison.whole.detectable:.2g} % with a probability of 80 %."
        )
    rows = comparison.rows.records()
    seen = [row["detectable_self_percent"] for row in rows if row["detectable_self_percent"] is not None]
    if seen:
        lines.append(f"Of the self time of a function, the median is {statistics.median(seen):.2g} %.")
    false = [
        shorten(row["name"])
        for row in rows
        if any(row[f"{measure}_verdict"] in (Verdict.SLOWER, Verdict.FASTER) for measure in MEASURES)
    ]
    if comparison.whole is not None and comparison.whole.found:
        false.insert(0, "the whole")
    if false:
        names = ", ".join(map(escape_controls, false[:5]))
        lines.append(
            f"But it shows a change where there is none: {names}. By chance, this happens in 5 of 100 tests; repeat "
            "it. If it happens again, the runs are not alike: fix the CPU frequency, pin the command to CPUs, or end "
            "other programs."
        )
    click.echo("\n".join(lines))
    return EXIT_NOT_QUIET if false else 0
