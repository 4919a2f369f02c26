"""Time to read perf script's text into a stored result, compared with stackcollapse-perf.pl on the same text.

    python -m benchmarks.reading [--stackcollapse PATH] [--text FILE] [--samples 700000] [--rounds 3]

Without a text, the bundled workload is recorded with perf, at a high frequency, until there are that many samples.
STACKCOLLAPSE_PERF may also contain the tool's path; without it its lines are omitted. Measurements run in separate
processes, alternating; results are medians of all rounds: wall-clock time, processor time, peak resident memory. Both
outputs are compared: `perfloom convert --to collapsed` must print the same lines.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfloom.config import Settings
from perfloom.readers import perf_script
from perfloom.store.files import columns
from perfloom.workers.base import processes
from perfloom.workers.read import prefork
from perfloom.workers.read.request import Input, Limits, Request

FIELDS = "comm,pid,tid,time,period,event,ip,sym,symoff,dso"
HERTZ = 25_000


@dataclass(frozen=True)
class Run:
    """The cost of one process. peak: resident bytes, including its children."""

    wall_s: float
    cpu_s: float
    peak: int


def run(argv: Sequence[str | Path], out: Path | None = None, environment: dict[str, str] | None = None) -> Run:
    """Run a command to its end. Raises SystemExit if it fails, with its output except that to `out`."""
    with tempfile.TemporaryFile() as said, open(out, "wb") if out else nullcontext(said) as file:
        start = time.perf_counter()
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=file, stderr=said, env=os.environ | (environment or {})
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{argv[0]} ended with {process.returncode}:\n{said.read().decode(errors='replace')}")
    return Run(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def record(samples: int, folder: Path) -> Path:
    """The text of a recording of the bundled workload with at least so many samples."""
    perf = shutil.which("perf")
    if perf is None:
        raise SystemExit("perf is not on this machine; give a text with --text.")
    data, text = folder / "perf.data", folder / "script.txt"
    seconds = samples / HERTZ / 1.5
    while True:
        workload = [sys.executable, "-m", "perfloom.workload", "--seconds", f"{seconds:.0f}"]
        options = ["-q", "-N", "-g", "-e", "cpu-clock", "-F", str(HERTZ), "-m", "64M", "-o", str(data)]
        run([perf, "record", *options, "--", *workload])
        took = run([perf, "script", "-i", data, "--ns", "--no-inline", "--header", "-F", FIELDS], text)
        found = text.read_bytes().count(b"\n\n")
        print(f"recorded {found:,} samples in {seconds:.0f} s; perf script printed them in {took.wall_s:.2f} s")
        if found >= samples:
            data.unlink()
            return text
        seconds *= max(1.3, 1.1 * samples / max(1, found))


def reader(source: Path, folder: Path) -> tuple[list[str | Path], Path]:
    """(command that reads a text, or the directory of a planned job, into stored columns, as workers run it; its output
    directory)."""
    out, scratch = folder / "profile", folder / "scratch"
    for path in (out, scratch):
        shutil.rmtree(path, ignore_errors=True)
    scratch.mkdir()
    settings = Settings.load(folder / "data")
    limits = Limits(settings.read_memory_bytes, settings.read_seconds, settings.upload_limit_bytes, 0)
    request = Request((Input(str(source), source.name),), str(scratch), str(scratch), limits, os.getpid(), str(out))
    if source.is_dir():
        request = replace(request, inputs=(), planned=str(source))
    asked = folder / "request.json"
    asked.write_text(request.to_json())
    return [*processes.python_argv("perfloom.workers.read.child", str(asked))], out


def measure(text: Path, tool: Path | None, rounds: int, folder: Path) -> dict[str, list[Run]]:
    """Run every command, alternating, so often."""
    runs: dict[str, list[Run]] = {}
    perfloom = [sys.executable, "-m", "perfloom.cli"]
    environment = {"PERFLOOM_DATA": str(folder / "data"), "PERFLOOM_RUNTIME": str(folder / "run")}
    for number in range(rounds):
        argv, _ = reader(text, folder)
        commands: dict[str, tuple[Sequence[str | Path], Path | None]] = {
            "text to stored columns": (argv, None),
            "perfloom import": ([*perfloom, "import", text], folder / "id"),
            "perfloom convert --to collapsed": ([*perfloom, "convert", text, "--to", "collapsed"], folder / "ours"),
        }
        if tool is not None:
            commands["stackcollapse-perf.pl"] = (["perl", tool, text], folder / "theirs")
        for name, (command, out) in commands.items():
            own = prefork.reader_environment() if name == "text to stored columns" else environment
            runs.setdefault(name, []).append(run(command, out, own))
            print(f"  round {number + 1}: {name}: {runs[name][-1].wall_s:.2f} s", file=sys.stderr)
    return runs


def report(text: Path, runs: dict[str, list[Run]], folder: Path) -> dict[str, Any]:
    """Print the medians; returns them."""
    profile = columns.read(folder / "profile")
    kept = sum(path.stat().st_size for path in (folder / "profile").iterdir())
    size = text.stat().st_size
    print(
        f"\n{profile.samples.num_rows:,} samples, {profile.stacks.num_rows:,} stack nodes, {profile.frames.num_rows:,} "
        f"places in code; {size / 1e6:,.0f} MB of text, {kept / 1e6:,.0f} MB of columns\n"
    )
    print(f"{'':34} {'wall s':>8} {'CPU s':>8} {'MB/s':>7} {'peak MB':>8} {'faster':>7}")
    peer = runs.get("stackcollapse-perf.pl")
    found: dict[str, Any] = {}
    for name, these in runs.items():
        wall, cpu = (statistics.median(getattr(one, field) for one in these) for field in ("wall_s", "cpu_s"))
        peak = max(one.peak for one in these)
        ratio = statistics.median(one.wall_s for one in peer) / wall if peer else None
        found[name] = {"wall_s": wall, "cpu_s": cpu, "peak_bytes": peak, "faster": ratio}
        shown = "" if ratio is None else f"{ratio:6.1f}x"
        print(f"{name:34} {wall:8.2f} {cpu:8.2f} {size / wall / 1e6:7.0f} {peak / 1e6:8.0f} {shown:>7}")
    if peer:
        ours, theirs = (sorted((folder / name).read_bytes().splitlines()) for name in ("ours", "theirs"))
        print(f"\nthe same {len(ours):,} lines" if ours == theirs else "\nTHE LINES DIFFER")
        found["same_lines"] = ours == theirs
    else:
        print("\nstackcollapse-perf.pl: skipped, its path was not given (--stackcollapse or STACKCOLLAPSE_PERF)")
    return found


def main() -> int:
    """Measure and report; status 1 if the outputs differ or reading is less than four times as fast."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--stackcollapse", type=Path, default=os.environ.get("STACKCOLLAPSE_PERF"))
    parser.add_argument("--text", type=Path, help="what perf script printed")
    parser.add_argument("--samples", type=int, default=700_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perfloom-benchmark-") as name:
        folder = Path(name)
        text = given.text.absolute() if given.text else record(given.samples, folder)
        if not perf_script.sniff(text.open("rb").read(1 << 18)):
            parser.error(f"{text} is no text of perf script")
        runs = measure(text, given.stackcollapse and Path(given.stackcollapse).absolute(), given.rounds, folder)
        found = report(text, runs, folder)
    if given.json:
        print(json.dumps(found, indent=1))
    return int(not found.get("same_lines", True) or (found["text to stored columns"]["faster"] or 4) < 4)


if __name__ == "__main__":
    sys.exit(main())
