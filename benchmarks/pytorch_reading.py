"""Time to read a PyTorch trace into a stored result, compared with other programs that read the same file.

    python -m benchmarks.pytorch_reading [--trace FILE | --size 300MB [--source FILE]] [--rounds 3] [--only NAME]…
        [--hta PYTHON] [--perfessor CHECKOUT]

Without a trace one is generated (see make_trace). Measurements run in separate processes, alternating; results are
medians of all rounds: wall-clock and processor time from the opening of the file, in a process with all imports loaded
("the whole command" is from its start to its end), and the peak of resident memory. Perfloom: only the scan; from the
file to the stored columns, as a worker reads; `perfloom import`. Peers: json.load and a pandas DataFrame; the loader of
HTA, if the Python of --hta (by default this one) has it; Perfessor's worker under Node, if a checkout of it is given;
Node's JSON.parse. A missing peer is skipped by name.
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
from pathlib import Path
from typing import Any

from benchmarks.make_trace import FIXTURE, make, size_of
from benchmarks.reading import Run, reader, run
from perfloom.workers.read import prefork

SCAN, STORED, COMMAND = "Perfloom, scan alone", "Perfloom, file to stored columns", "perfloom import, the whole command"
PANDAS, HTA, PERFESSOR, NODE = "json.load + pandas", "HTA, loading", "Perfessor's worker, Node", "JSON.parse, Node"
NAMES = (SCAN, STORED, COMMAND, PANDAS, HTA, PERFESSOR, NODE)
WITH_PANDAS = """
import json, pandas, sys, time
wall, cpu = time.perf_counter(), time.process_time()
with open(sys.argv[1], encoding="utf-8") as file:
    events = json.load(file)["traceEvents"]
frame = pandas.DataFrame(events)
print(json.dumps({"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu, "events": len(frame)}))
"""
WITH_HTA = """
import json, sys, time
from hta.common.trace import Trace
wall, cpu = time.perf_counter(), time.process_time()
trace = Trace(trace_files={0: sys.argv[1]}, trace_dir="")
trace.load_traces(use_multiprocessing=False)
events = len(trace.get_trace(0))
print(json.dumps({"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu, "events": events}))
"""
WITH_NODE = """
const [root, path] = process.argv.slice(1);
const fs = require("fs");
const told = (start, cpu, events) => {
    const used = process.cpuUsage(cpu);
    const wall_s = (performance.now() - start) / 1000;
    console.log(JSON.stringify({ wall_s, cpu_s: (used.user + used.system) / 1e6, events }));
};
const source = (name) =>
    fs.readFileSync(`${root}/src/${name}`, "utf8").replace(/^import .*$/gm, "").replace(/^export /gm, "");
if (root === "-") {
    const start = performance.now(), cpu = process.cpuUsage();
    const data = JSON.parse(fs.readFileSync(path, "utf8"));
    told(start, cpu, data.traceEvents.length);
} else {
    const self = {};
    new Function("self", source("utils/eventClassifier.js") + source("workers/traceProcessor.worker.js"))(self);
    const start = performance.now(), cpu = process.cpuUsage();
    self.postMessage = (message) => {
        if (message.type === "complete") told(start, cpu, message.result.summary.eventCount);
        if (message.type === "error") throw new Error(message.error);
    };
    self.onmessage({ data: { type: "process", data: fs.readFileSync(path, "utf8") } });
}
"""


def inside(what: str, path: Path, request: str) -> None:
    """In a separate process: read a small trace once, then the trace, and print the time."""
    from perfloom.ingest.compression import open_decompressed
    from perfloom.ingest.trace_json.reader import read_events
    from perfloom.readers import warmup as compiling
    from perfloom.workers.base.without_pandas import block_pandas
    from perfloom.workers.read.columns import read_columns
    from perfloom.workers.read.request import AnswerWriter, Request

    block_pandas()
    compiling.compile_all()
    answers = AnswerWriter(os.open(os.devnull, os.O_WRONLY))
    wall, cpu = time.perf_counter(), time.process_time()
    events = 0
    if what == SCAN:
        with open_decompressed(path, 1 << 50) as stream:
            events = len(read_events(stream))  # type: ignore[arg-type]
    else:
        read_columns(Request.from_json(Path(request).read_text()), answers)
    took = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu, "events": events}
    print(json.dumps(took))


def has(python: str, module: str) -> bool:
    """Whether an interpreter has a module."""
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def wait_for_settling() -> None:
    """Wait until the process that an import leaves running has ended, so that it does not disturb the next
    measurement."""
    while any(
        name.read_text().strip() == "perfloom-settle" for name in Path("/proc").glob("[0-9]*/comm") if name.exists()
    ):
        time.sleep(0.1)


def once(name: str, trace: Path, given: argparse.Namespace, folder: Path) -> Run | str:
    """Run one of NAMES; returns the reason if it cannot be run."""
    node = shutil.which("node")
    if name in (PERFESSOR, NODE) and node is None:
        return "node is not installed"
    if name in (PANDAS, HTA, PERFESSOR, NODE) and trace.suffix == ".gz" and name != HTA:
        return "it reads plain files"
    environment = prefork.reader_environment()
    here = [sys.executable, "-m", "benchmarks.pytorch_reading", "--inside"]
    said = folder / "said"
    if name in (SCAN, STORED):
        argv, _ = reader(trace, folder)
        taken = run([*here, name, str(trace), argv[-1]], said, environment | {"PYTHONPATH": os.getcwd()})
    elif name == COMMAND:
        here = [sys.executable, "-m", "perfloom.cli", "import"]
        own = {"PERFLOOM_DATA": str(folder / "data"), "PERFLOOM_RUNTIME": str(folder / "run")}
        found = run([*here, trace], said, own)
        wait_for_settling()
        return found
    elif name == PANDAS:
        taken = run([sys.executable, "-c", WITH_PANDAS, trace], said)
    elif name == HTA:
        if not has(given.hta, "hta"):
            return "pip install HolisticTraceAnalysis, or name a Python that has it with --hta"
        taken = run([given.hta, "-c", WITH_HTA, trace], said)
    elif name == PERFESSOR and given.perfessor is None:
        return "name a checkout of github.com/kapilsh/perfessor with --perfessor"
    else:
        root = "-" if name == NODE else str(given.perfessor)
        assert node is not None
        try:
            taken = run([node, "--max-old-space-size=16000", "-e", WITH_NODE, "--", root, trace], said)
        except SystemExit as error:
            # Its strings are limited to 512 MiB.
            return (
                str(error).strip().splitlines()[-1][:200]
                if "Cannot create a string" not in str(error)
                else "too large for it"
            )
    told = json.loads(said.read_text().strip().splitlines()[-1])
    return Run(told["wall_s"], told["cpu_s"], taken.peak)


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--size", type=size_of, default=size_of("300MB"))
    parser.add_argument("--source", type=Path, default=FIXTURE)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=NAMES)
    parser.add_argument("--hta", default=sys.executable)
    parser.add_argument("--perfessor", type=Path, default=os.environ.get("PERFESSOR"))
    parser.add_argument("--json", action="store_true", help="print the figures as JSON too")
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        inside(given.inside[0], Path(given.inside[1]), given.inside[2])
        return 0
    with tempfile.TemporaryDirectory(prefix="perfloom-benchmark-") as name:
        folder = Path(name)
        trace = given.trace.absolute() if given.trace else folder / "made.pt.trace.json"
        if given.trace is None:
            make(given.source, given.size, trace)
        runs: dict[str, list[Run]] = {}
        for number in range(given.rounds):
            for what in given.only or NAMES:
                found = once(what, trace, given, folder)
                if isinstance(found, str):
                    if not number:
                        print(f"{what}: skipped: {found}", file=sys.stderr)
                    continue
                runs.setdefault(what, []).append(found)
                print(f"  round {number + 1}: {what}: {found.wall_s:.2f} s", file=sys.stderr)
        report(trace.stat().st_size, runs, given.json)
    return 0


def report(size: int, runs: dict[str, list[Run]], as_json: bool) -> None:
    """Print the medians."""
    ours = statistics.median(one.wall_s for one in runs[STORED]) if STORED in runs else None
    print(f"\n{size / 1e6:,.0f} MB\n{'':36} {'wall s':>8} {'CPU s':>8} {'MB/s':>7} {'peak/size':>9} {'ours is':>9}")
    told: dict[str, Any] = {}
    for name, these in runs.items():
        wall, cpu = (statistics.median(getattr(one, field) for one in these) for field in ("wall_s", "cpu_s"))
        peak = max(one.peak for one in these)
        ratio = wall / ours if ours else None
        told[name] = {"wall_s": wall, "cpu_s": cpu, "peak_bytes": peak, "times_ours": ratio}
        shown = "" if ratio is None else f"{ratio:8.1f}x"
        print(f"{name:36} {wall:8.2f} {cpu:8.2f} {size / wall / 1e6:7.0f} {peak / size:9.2f} {shown:>9}")
    if as_json:
        print(json.dumps(told, indent=1))


if __name__ == "__main__":
    sys.exit(main())
