"""diff --self-test: the comparison of a command with itself, which shows how small a change this machine can detect."""

import os
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..domain.errors import JobFailed
from ..domain.jobs import JobSpec, JobState
from ..domain.text import shorten
from .output import escape_controls
from .record_spec import with_current_directory

if TYPE_CHECKING:
    from ..analysis.compare.verdicts import Comparison
    from ..config import Settings
    from ..domain.profile import Profile
    from ..domain.selection import Selection

EXIT_NOT_QUIET = 1
WARM_UP_RUNS = 1


def run_self_test(settings: "Settings", command: Sequence[str], runs: int, selection: "Selection") -> "Comparison":
    """Record the command `runs` times for each of two sides, alternating, after a run that is not counted, and compare
    them. The results are deleted. Raises JobFailed if a run has no result."""
    from ..analysis.compare.verdicts import compare_runs
    from ..store import open_store
    from ..workers import job_client

    spec = with_current_directory(JobSpec(command=tuple(command)))
    sides: tuple[list[Profile], list[Profile]] = ([], [])
    results = []
    try:
        count = WARM_UP_RUNS + 2 * runs
        with open(os.devnull, "wb") as nowhere:
            for number in range(count):
                click.echo(f"perfloom: run {number + 1} of {count}", err=True)
                name = f"self-test: {spec.command[0]}"[:100]
                job = job_client.record(settings, spec, name, lambda job: None, output=nowhere)
                if job.result_id is not None:
                    results.append(job.result_id)
                if job.state is not JobState.STORED:
                    raise JobFailed(job.reason or f"Run {number + 1} ended in state {job.state}.")
        store = open_store(settings)
        try:
            for number, result in enumerate(results[WARM_UP_RUNS:]):
                # A, B, B, A: so that a machine that becomes slower affects both sides.
                sides[number % 4 in (1, 2)].append(store.results.open(result))
            return compare_runs(*sides, selection, selection, as_shares=False, paired=True)
        finally:
            store.close()
    finally:
        _delete(settings, results)


def _delete(settings: "Settings", results: Sequence[str]) -> None:
    from ..store import open_store

    store = open_store(settings)
    try:
        for result in results:
            store.results.delete(result)
    finally:
        store.close()


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
