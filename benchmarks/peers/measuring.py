"""Runs the commands of a suite in turns, and sums up."""

import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from ..pytorch_reading import wait_for_settling
from ..reading import Run, run
from .inputs import Inputs
from .programs import MissingPeer
from .suites import Command, Suite, own_environment

ERROR_CHARACTERS = 160


@dataclass(frozen=True)
class Figures:
    """Medians of a command's runs. slowest_s: of its wall-clock times. peak_bytes: resident memory of its largest
    process. times_ours: its wall-clock time, divided by that of the first command of Perfloom, in the median round."""

    name: str
    ours: bool
    note: str
    wall_s: float
    fastest_s: float
    slowest_s: float
    cpu_s: float
    peak_bytes: int
    times_ours: float | None


@dataclass(frozen=True)
class SuiteFigures:
    """A suite's result. missing: why commands did not run, by their name."""

    name: str
    title: str
    input_bytes: int
    rounds: int
    figures: tuple[Figures, ...]
    missing: dict[str, str]


def measure(suite: Suite, inputs: Inputs, rounds: int) -> SuiteFigures:
    """Run each command of a suite once in each round. Raises MissingPeer if its input cannot be made."""
    path = suite.make_input(inputs)
    commands: list[Command] = []
    missing: dict[str, str] = {}
    for make in suite.commands:
        try:
            commands.append(make(path, inputs.folder))
        except MissingPeer as error:
            missing[make.__name__.strip("_")] = str(error)
    runs: dict[str, list[Run]] = {}
    own = own_environment(inputs.folder)
    run(commands[0].argv, inputs.folder / "warm-up", own)
    wait_for_settling()
    for number in range(rounds):
        for command in commands:
            if command.name in missing:
                continue
            try:
                used = _run_once(command, inputs.folder, own)
            except SystemExit as error:
                missing[command.name] = _shorten(str(error))
                runs.pop(command.name, None)
                continue
            runs.setdefault(command.name, []).append(used)
            print(f"  {suite.name}, round {number + 1}: {command.name}: {used.wall_s:.2f} s", file=sys.stderr)
    reference = runs.get(commands[0].name, [])
    figures = tuple(_sum_up(c, runs[c.name], reference) for c in commands if c.name in runs)
    return SuiteFigures(suite.name, suite.title, path.stat().st_size, rounds, figures, missing)


def _run_once(command: Command, folder: Path, own: dict[str, str]) -> Run:
    out = folder / command.out if command.out else None
    used = run(command.argv, out, {**(own if command.ours else {}), **command.environment})
    if command.ours:
        # An import compiles and tidies up after its end.
        wait_for_settling()
    return used


def _shorten(message: str) -> str:
    lines = [line for line in message.strip().splitlines() if line.strip()]
    said = [line for line in lines if "Error" in line] or lines[-1:] or ["it failed"]
    return said[0].strip()[:ERROR_CHARACTERS]


def _sum_up(command: Command, runs: list[Run], reference: list[Run]) -> Figures:
    walls = [one.wall_s for one in runs]
    ratios = [one.wall_s / ours.wall_s for one, ours in zip(runs, reference, strict=False)]
    return Figures(
        command.name,
        command.ours,
        command.note,
        statistics.median(walls),
        min(walls),
        max(walls),
        statistics.median(one.cpu_s for one in runs),
        max(one.peak for one in runs),
        statistics.median(ratios) if ratios else None,
    )
