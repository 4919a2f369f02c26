"""The cost of one event of the tracer for C and C++, compared with only reading the clock.

    python -m benchmarks.tracer [--events 200000] [--compiler gcc --compiler clang]

A loop of so many events is run five times in one thread, and the fastest run is reported, for each kind of mark with
each compiler, optimized, with the tracer and without. All events are kept in fresh memory, as in a program that is
traced from its start. Perfetto's own figures, from the page "Track events" of its documentation, are for one slice,
which is two events here: 285 ns on a Pixel 3 XL, 630 ns on a ThinkStation P920.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
HEADERS = HERE.parent / "static" / "tracers"
COMPILERS = ("gcc", "clang")
LIMIT_NS = 50


def measured(compiler: str, traced: bool, events: int, folder: Path) -> dict[str, float]:
    """Nanoseconds by kind of mark, in a program built with this compiler."""
    program = folder / f"{compiler}-{traced}"
    made = [compiler, "-O2", "-std=c11", "-pthread", f"-I{HEADERS}", str(HERE / "tracer.c"), "-o", str(program)]
    subprocess.run([*made, *(["-DPERFLOOM_TRACE"] if traced else [])], check=True)
    # All marks fit into the buffer, so only the marking is measured.
    room = os.environ | {"PERFLOOM_TRACE_BYTES": str(1 << 30)}
    told = subprocess.run(
        [program, str(events)], check=True, capture_output=True, text=True, cwd=folder, env=room
    ).stdout
    return {what: float(ns) for what, ns in (line.rsplit(" ", 1) for line in told.splitlines())}


def main() -> int:
    """Measure and report; status 1 if an event costs 50 ns or more."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--compiler", action="append", choices=COMPILERS)
    given = parser.parse_args()
    slow = False
    with tempfile.TemporaryDirectory(prefix="perfloom-benchmark-") as folder:
        for compiler in given.compiler or COMPILERS:
            if shutil.which(compiler) is None:
                print(f"{compiler}: skipped: it is not installed", file=sys.stderr)
                continue
            on, off = (measured(compiler, traced, given.events, Path(folder)) for traced in (True, False))
            print(f"{compiler:24} {'ns an event':>12} {'switched off':>13}")
            for what, ns in on.items():
                print(f"  {what:22} {ns:12.1f} {off[what]:13.1f}")
            slow = slow or max(on[what] for what in list(on)[2:]) >= LIMIT_NS
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
