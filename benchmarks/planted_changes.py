"""How often real programs that did not change are called changed, and how often a known change is found.

    python -m benchmarks.planted_changes [--rounds 30] [--runs 5]

Each program in `planted` has two parts; a change gives the second one more rounds. perf records every variant once in
each round, in turns, so that all see the same machine. Comparisons have `--runs` successive rounds on each side, as
pairs. A verdict is false if it calls a function changed that the second part does not run, or the wrong way; a function
that samples of the second part alone have may have changed. For each program and change, a row of a Markdown table.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perfloom.analysis.compare.verdicts import Comparison, Verdict, compare_runs
from perfloom.config import Settings
from perfloom.domain.profile import Profile
from perfloom.domain.selection import Selection
from perfloom.workers.read.reading import read_profile

PROGRAMS = Path(__file__).parent / "planted"
CHANGES = (0, 5, 10, 20)
"""More rounds of the second part, in percent."""
HERTZ = 10_000
MIN_SHARE = 0.002
"""Of the samples of the second part alone, a function that it runs has at least this."""


@dataclass(frozen=True)
class Workload:
    """A program and the rounds of its two parts. changed: the function of the second part that is looked for."""

    name: str
    argv: tuple[str, ...]
    first: int
    second: int
    changed: str

    def command(self, percent: int) -> tuple[str, ...]:
        """argv with `percent` more rounds of the second part."""
        return (*self.argv, str(self.first), str(round(self.second * (100 + percent) / 100)))

    def second_part(self) -> tuple[str, ...]:
        """argv of the second part alone."""
        return (*self.argv, "0", str(self.second))


@dataclass(frozen=True)
class Outcome:
    """Of a comparison. slower: whether the changed function was found slower; change: of its self value, in percent;
    false: names with a false verdict."""

    slower: bool
    change: float | None
    false: tuple[str, ...]


def list_workloads(folder: Path) -> list[Workload]:
    """The programs, the one in C compiled into `folder`."""
    binary = folder / "words"
    subprocess.run(["gcc", "-O2", "-g", "-fno-omit-frame-pointer", "-o", binary, PROGRAMS / "words.c"], check=True)
    return [
        Workload("C: sort, hash table", (str(binary),), 200, 1000, "hash_word"),
        Workload("CPython: re, json", (sys.executable, str(PROGRAMS / "records.py")), 200, 100, "scan_once_unicode"),
        Workload("Perl: sort, regular expression", ("perl", str(PROGRAMS / "lines.pl")), 40, 40, "Perl_regexec_flags"),
    ]


def record(settings: Settings, path: Path, argv: tuple[str, ...]) -> Profile:
    """The profile of a run."""
    options = ["-q", "-g", "-e", "cpu-clock:u", "-F", str(HERTZ), "-o", str(path)]
    environment = os.environ | {"PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0"}
    subprocess.run(["perf", "record", *options, "--", *argv], check=True, stdout=subprocess.DEVNULL, env=environment)
    profile = read_profile(settings, [str(path)])
    path.unlink()
    if profile.losses.num_rows:
        print(f"{argv}: {profile.losses.to_pylist()}", file=sys.stderr)
    return profile


def list_functions(settings: Settings, path: Path, workload: Workload) -> frozenset[str]:
    """The functions of the second part."""
    from perfloom.analysis.stacks.hotspots import compute_hotspots

    rows = compute_hotspots.rows(record(settings, path, workload.second_part()), Selection()).records()
    least = MIN_SHARE * sum(row["self"] for row in rows)
    return frozenset(row["name"] for row in rows if row["total"] >= least)


def judge(comparison: Comparison, workload: Workload, percent: int, may_change: frozenset[str]) -> Outcome:
    """What a comparison found."""
    slower, change, false = False, None, []
    for row in comparison.rows.records():
        for measure in ("self", "total"):
            verdict = row[f"{measure}_verdict"]
            right = percent and row["name"] in may_change and verdict == Verdict.SLOWER
            if verdict in (Verdict.SLOWER, Verdict.FASTER) and not right:
                false.append(f"{row['name']} ({measure}, {verdict}, {row[f'change_{measure}_percent']:+.1f} %)")
        if row["name"] == workload.changed:
            slower, change = row["self_verdict"] == Verdict.SLOWER, row["change_self_percent"]
    if comparison.whole is not None and comparison.whole.found and (comparison.whole.ratio < 0 or not percent):
        false.append(f"the whole ({100 * comparison.whole.ratio:+.1f} %)")
    return Outcome(slower, change, tuple(false))


def measure(settings: Settings, folder: Path, workload: Workload, rounds: int, runs: int) -> Iterator[str]:
    """A row for each change."""
    path = folder / "perf.data"
    may_change = list_functions(settings, path, workload)
    recorded: dict[tuple[str, int], list[Profile]] = {}
    variants = [("base", 0), *(("other", percent) for percent in CHANGES)]
    for number in range(rounds):
        # The order is reversed in every second round, so that a machine that becomes slower affects all alike.
        for side, percent in variants if number % 2 else reversed(variants):
            recorded.setdefault((side, percent), []).append(record(settings, path, workload.command(percent)))
        print(f"{workload.name}: round {number + 1} of {rounds}", file=sys.stderr)
    for percent in CHANGES:
        outcomes = []
        for start in range(0, rounds - runs + 1, runs):
            base, other = (recorded[key][start : start + runs] for key in (("base", 0), ("other", percent)))
            comparison = compare_runs(base, other, Selection(), Selection(), as_shares=False, paired=True)
            outcomes.append(judge(comparison, workload, percent, may_change))
        changes = [one.change for one in outcomes if one.change is not None]
        for name in (name for one in outcomes for name in one.false):
            print(f"{workload.name}, {percent} %: false: {name}", file=sys.stderr)
        middle = f"{statistics.median(changes):+.1f} %" if changes else "–"
        yield (
            f"| {workload.name} | {percent} % | {len(outcomes)} | {sum(one.slower for one in outcomes)} | {middle} | "
            f"{sum(bool(one.false) for one in outcomes)} |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    print("| program | change | comparisons | found slower | change measured, median | with a false verdict |")
    print("|---|--:|--:|--:|--:|--:|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = Settings.load(folder / "data")
        for workload in list_workloads(folder):
            for row in measure(settings, folder, workload, asked.rounds, asked.runs):
                print(row, flush=True)


if __name__ == "__main__":
    main()
