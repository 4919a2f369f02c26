"""Time to convert a PyTorch trace to a pprof profile, compared with trace2profile on the same file.

    python -m benchmarks.converting [--trace FILE | --size 300MB [--source FILE]] [--rounds 3]
        [--trace2profile CHECKOUT] [--python PYTHON]

Without a trace one is generated (see make_trace). Measurements run in separate processes, alternating; results are
medians of all rounds. "the work": from the opening of the file until the profile is written, in a process with all
imports loaded; "the command": from its start to its end. The peer is a checkout of github.com/WarningRan/trace2profile,
run by a Python that has protobuf; without one it is skipped by name. If `go tool pprof` is installed, it prints the
totals of both profiles: the peer counts nested calls twice, so its total is not elapsed time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.make_trace import FIXTURE, make, size_of
from benchmarks.reading import Run, reader, run
from perfloom.workers.read import prefork

WORK, COMMAND = "Perfloom, the work", "perfloom convert, the command"
THEIR_WORK, THEIR_COMMAND = "trace2profile, the work", "trace2profile, the command"
NAMES = (WORK, COMMAND, THEIR_WORK, THEIR_COMMAND)
OURS = {THEIR_WORK: WORK, THEIR_COMMAND: COMMAND}
THEIRS = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import trace2profile as peer
wall, cpu = time.perf_counter(), time.process_time()
peer.save_pprof(peer.convert_trace_to_pprof(peer.read_trace_file(sys.argv[2])), sys.argv[3])
print(json.dumps({"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}))
"""


def inside(request: str, out: Path) -> None:
    """In a separate process: load and read a small trace once, then read the trace and write the profile."""
    from perfloom.domain.selection import Selection
    from perfloom.exporters import get_exporter
    from perfloom.readers import warmup as compiling
    from perfloom.store.files import columns
    from perfloom.workers.read.columns import read_columns
    from perfloom.workers.read.request import AnswerWriter, Request

    compiling.compile_all()
    asked, answers = Request.from_json(Path(request).read_text()), AnswerWriter(os.open(os.devnull, os.O_WRONLY))

    def convert(asked: Request) -> None:
        read_columns(asked, answers)
        assert asked.out is not None
        out.write_bytes(b"".join(get_exporter("pprof").write(columns.read(Path(asked.out)), Selection(), {})))

    small = tuple(replace(given, path=str(FIXTURE), name=FIXTURE.name) for given in asked.inputs)
    convert(replace(asked, inputs=small, out=f"{asked.out}-small"))
    wall, cpu = time.perf_counter(), time.process_time()
    convert(asked)
    print(json.dumps({"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}))


def once(name: str, trace: Path, given: argparse.Namespace, folder: Path) -> Run:
    """Run one of NAMES."""
    said, own = folder / "said", {"PERFLOOM_DATA": str(folder / "data"), "PERFLOOM_RUNTIME": str(folder / "run")}
    if name == COMMAND:
        command = [sys.executable, "-m", "perfloom.cli", "convert", "--to", "pprof"]
        return run([*command, "-o", folder / "ours.pb.gz", trace], said, own)
    if name == THEIR_COMMAND:
        return run([given.python, given.trace2profile / "trace2profile.py", trace, folder / "theirs.pb"], said)
    if name == WORK:
        asked, _ = reader(trace, folder)
        here = [sys.executable, "-m", "benchmarks.converting", "--inside"]
        taken = run(
            [*here, asked[-1], folder / "ours.pb.gz"], said, prefork.reader_environment() | {"PYTHONPATH": os.getcwd()}
        )
    else:
        taken = run([given.python, "-c", THEIRS, given.trace2profile, trace, folder / "theirs.pb"], said)
    told = json.loads(said.read_text().strip().splitlines()[-1])
    return Run(told["wall_s"], told["cpu_s"], taken.peak)


def total(profile: Path) -> str:
    """The total of a profile according to pprof."""
    go = shutil.which("go")
    if go is None or not profile.exists():
        return "not known: there is no go tool pprof"
    argv = [go, "tool", "pprof", "-top", "-nodecount=1", str(profile)]
    told = subprocess.run(argv, capture_output=True, text=True, env=os.environ | {"HOME": str(profile.parent)})
    found = re.search(r"of (\S+) total", told.stdout)
    return found[1] if found else (told.stderr.strip().splitlines() or ["nothing"])[-1]


def main() -> int:
    """Measure and report; status 1 if the work takes more than a tenth of the peer's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--size", type=size_of, default=size_of("300MB"))
    parser.add_argument("--source", type=Path, default=FIXTURE)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trace2profile", type=Path, default=os.environ.get("TRACE2PROFILE"))
    parser.add_argument("--python", default=sys.executable, help="has protobuf; may be a command's path")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        inside(given.inside[0], Path(given.inside[1]))
        return 0
    peer = given.trace2profile is not None
    if not peer:
        print("trace2profile: skipped: name a checkout with --trace2profile or TRACE2PROFILE", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="perfloom-benchmark-") as name:
        folder = Path(name)
        trace = given.trace.absolute() if given.trace else folder / "made.pt.trace.json"
        if given.trace is None:
            make(given.source, given.size, trace)
        runs: dict[str, list[Run]] = {}
        for number in range(given.rounds):
            for what in NAMES if peer else NAMES[:2]:
                runs.setdefault(what, []).append(once(what, trace, given, folder))
                print(f"  round {number + 1}: {what}: {runs[what][-1].wall_s:.2f} s", file=sys.stderr)
        wall = {what: statistics.median(one.wall_s for one in these) for what, these in runs.items()}
        print(f"\n{trace.stat().st_size / 1e6:,.0f} MB\n{'':34} {'wall s':>8} {'CPU s':>8} {'peak MB':>8} {'ratio':>7}")
        for what, these in runs.items():
            cpu, peak = statistics.median(one.cpu_s for one in these), max(one.peak for one in these)
            ratio = f"{wall[what] / wall[OURS[what]]:6.1f}x" if what in OURS else ""
            print(f"{what:34} {wall[what]:8.2f} {cpu:8.2f} {peak / 1e6:8.0f} {ratio:>7}")
        print(f"\npprof's total: ours {total(folder / 'ours.pb.gz')}", end="")
        print(f", theirs {total(folder / 'theirs.pb')}" if peer else "")
    return int(peer and wall[THEIR_WORK] < 10 * wall[WORK])


if __name__ == "__main__":
    sys.exit(main())
