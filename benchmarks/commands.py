"""Time of whole commands on a small file, compared with loading numpy and pyarrow.

    python -m benchmarks.commands [--runs 9]

Interleaved runs; medians of the wall-clock time and of the processor time of all processes of a command. A command that
uses two processors at once is slower on a machine that runs other programs.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRACE = Path(__file__).parent.parent / "tests" / "data" / "pytorch" / "spans_0.pt.trace.json.gz"
PEER = (sys.executable, "-c", "import numpy, pyarrow")


def list_commands(trace: str) -> dict[str, tuple[str, ...]]:
    """argv of each command, by its name."""
    perfloom = (str(Path(sys.executable).with_name("perfloom")),)
    return {
        "import numpy, pyarrow": PEER,
        "perfloom import": (*perfloom, "import", trace),
        "perfloom list": (*perfloom, "list"),
        "perfloom report operators": (*perfloom, "report", trace, "operators"),
        "perfloom convert": (*perfloom, "convert", trace, "--to", "collapsed", "-o", "-"),
        "perfloom diff": (*perfloom, "diff", trace, trace),
        "perfloom --help": (*perfloom, "--help"),
    }


def measure(argv: tuple[str, ...], environment: dict[str, str]) -> tuple[float, float]:
    """(wall-clock, processor) seconds of a command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PERFLOOM_DATA": folder}
        commands = list_commands(str(TRACE))
        measure(commands["perfloom import"], environment)  # Creates the database.
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(asked.runs):
            for name, argv in commands.items():
                found[name].append(measure(argv, environment))
    medians = {name: [statistics.median(times) for times in zip(*runs, strict=True)] for name, runs in found.items()}
    peer = next(iter(medians.values()))
    print(f"{'':28} {'seconds':>8} {'ratio':>6} {'CPU s':>8} {'ratio':>6}")
    for name, (wall, cpu) in medians.items():
        print(f"{name:28} {wall:8.2f} {wall / peer[0]:6.2f} {cpu:8.2f} {cpu / peer[1]:6.2f}")


if __name__ == "__main__":
    main()
