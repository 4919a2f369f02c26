"""Compare Perfloom with other tools: see docs/performance.md.

This process stays small: Linux counts its memory at the start of a command as memory of the command.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfloom import __version__

from ..pytorch_reading import wait_for_settling
from ..reading import run
from . import page, programs
from .inputs import Inputs
from .measuring import SuiteFigures, measure
from .suites import SUITES, own_environment

if TYPE_CHECKING:
    from .pages import BrowserFigures

MEGABYTES, TRACE_MEGABYTES = 100, 300
GROWTH, FULL_GROWTH = (10, 30, 100), (10, 30, 100, 300, 1000)
SUITE_NAMES = [suite.name for suite in SUITES]


def main() -> int:
    """Measure, print the tables and write the page."""
    parser = argparse.ArgumentParser(prog="make bench", description="Compare Perfloom with other tools.")
    parser.add_argument(
        "--size", type=int, default=MEGABYTES, metavar="MB", help="of the recording (default: %(default)s)"
    )
    parser.add_argument(
        "--trace-size",
        type=int,
        default=TRACE_MEGABYTES,
        metavar="MB",
        help="of the PyTorch trace (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=[*SUITE_NAMES, "growth", "pages"])
    parser.add_argument("--full", action="store_true", help="also recordings of 300 MB and 1 GB")
    parser.add_argument("--install", action="store_true", help="first obtain the tools that are missing")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="the folder of performance.md (default: docs)")
    given = parser.parse_args()
    if given.install:
        for line in programs.install():
            print(line, flush=True)
    run([sys.executable, "-c", "from perfloom.readers.warmup import compile_all; compile_all()"])
    parts = given.only or [*SUITE_NAMES, "growth", "pages"]
    with tempfile.TemporaryDirectory(prefix="perfloom-benchmark-") as name:
        inputs = Inputs(Path(name), given.size, given.trace_size)
        suites = []
        for suite in SUITES:
            if suite.name in parts:
                try:
                    suites.append(measure(suite, inputs, given.rounds))
                except programs.MissingPeer as error:
                    print(f"{suite.title}: not measured: {error}", file=sys.stderr)
                    continue
                print(_format(suites[-1]), flush=True)
        growth = (
            _measure_growth(inputs, FULL_GROWTH if given.full else GROWTH, given.rounds) if "growth" in parts else []
        )
        browser: BrowserFigures | str | None = None
        if "pages" in parts:
            from .pages import measure_pages

            browser = measure_pages(inputs.recording(), inputs.folder, given.rounds)
    page.write(given.out, suites, growth, browser, _list_versions())
    print(f"Wrote {given.out / page.PAGE} and {given.out / page.JSON_FILE}")
    return 0


def _measure_growth(inputs: Inputs, sizes: Sequence[int], rounds: int) -> list[tuple[float, float, float]]:
    """(MB, seconds, peak MB) of an import of recordings of each size: of the fastest round."""
    found = []
    for size in sizes:
        path = inputs.recording(size)
        runs = []
        for _ in range(rounds):
            runs.append(run([*programs.PERFLOOM, "import", path], inputs.folder / "id", own_environment(inputs.folder)))
            wait_for_settling()
        best = min(runs, key=lambda one: one.wall_s)
        megabytes = path.stat().st_size / 1e6
        found.append((megabytes, best.wall_s, best.peak / 1e6))
        print(f"{megabytes:,.0f} MB of perf.data: {best.wall_s:.2f} s, {best.peak / 1e6:,.0f} MB of memory", flush=True)
        if size != inputs.megabytes:
            path.unlink()
    return found


def _format(suite: SuiteFigures) -> str:
    rows = [row[:-1] for row in page.table(suite)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [f"\n{suite.title}, {suite.input_bytes / 1e6:,.0f} MB"]
    for row in rows:
        lines.append(
            row[0].ljust(widths[0]) + "".join(f"  {text:>{w}}" for text, w in zip(row[1:], widths[1:], strict=True))
        )
    return "\n".join([*lines, *(f"not measured: {name}: {reason}" for name, reason in suite.missing.items())])


def _list_versions() -> dict[str, str]:
    node, go, perf = programs.NODE.find(), programs.GO.find(), programs.PERF.find()
    return {
        "perfloom": f"Perfloom {__version__}",
        "python": f"Python {sys.version.split()[0]}",
        "perf": programs.version_of([str(perf), "--version"]) if perf else "",
        "node": f"Node.js {programs.version_of([str(node), '--version'])}" if node else "",
        "go": programs.version_of([str(go), "version"]) if go else "",
    }


if __name__ == "__main__":
    sys.exit(main())
