"""A recording of another host: its text, or the recording with the symbol tables of its binaries.

    PYTHONPATH=tools python -m benchmarks.far_recordings [--delay-ms 20] [--megabits 100] [--seconds 4 60] [--runs 3]

A real sshd on this machine is reached through a relay with a delay and a limited rate. Two ways from a recording there
to a profile here, by the scripts and functions of jobs, in turns:

    text     perf script there, its compressed text is fetched and read, and the recording is fetched to be kept
    tables   the symbol tables of binaries are copied there, the recording and those that are not here are fetched, and
             the records are read

Each line has medians in seconds. "again": the tables were here already.
"""

import argparse
import contextlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from perfloom.config import Settings
from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import CallGraph, JobSpec
from perfloom.domain.targets import Target, TargetFacts
from perfloom.recording.plan import plan as plans
from perfloom.recording.quoting import quote
from perfloom.store.files.symbol_cache import SymbolCache
from perfloom.workers import transports
from perfloom.workers.read import reading
from perfloom.workers.remote import symbol_tables
from perfloom.workers.transports import FileCopy, Transport, open_transport
from tests.support.sshd import sshd

from .transports import relay

HERTZ = 15_000
MAX_S = 600.0
OPTIONS = ("-N", "-z", "--no-bpf-event", "--buildid-mmap")
PROGRAM = """
import hashlib, json, random, re, sys, time, zlib
end = time.time() + float(sys.argv[1])
def walk(n):
    return n if n < 2 else walk(n - 1) + walk(n - 2)
def read():
    text = json.dumps([{"a": i, "b": str(i) * 3} for i in range(300)])
    return len(re.findall(r"[0-9]+", text)) + len(json.loads(text))
def pack():
    data = bytes(random.getrandbits(8) for _ in range(3000))
    return len(zlib.compress(data)) + len(hashlib.sha256(data * 30).digest())
def deep(n, function):
    return function() if not n else deep(n - 1, function)
while time.time() < end:
    walk(12)
    deep(random.randrange(40), read)
    deep(random.randrange(60), pack)
    sorted(random.random() for _ in range(2000))
"""
"""A program with many call chains, whose binaries have build ids."""
SPEC = JobSpec(target="far", command=("x",), events=("cpu-clock",), call_graph=CallGraph.FP)
FACTS = TargetFacts(HostFacts(host="far", options=OPTIONS, kernel="6.1"))
# The variables of a rank.
RANK = """
pl_directory=$(pwd -P) pl_run=0
. ./common.sh && . ./plan.sh || exit 1
pl_number() { :; }
pl_find_host
pl_tables_from=1 pl_new_tables_from=1 pl_state=$pl_directory/run0/all/state
"""


class Stopwatch:
    """The seconds of each step of a way."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def time(self, step: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[step] = time.perf_counter() - start


class FarJob:
    """The directory of a job at a host, with a recording. cache: of symbol tables here. folder: for its files here."""

    def __init__(self, there: Transport, target: Target, directory: Path, folder: Path, settings: Settings) -> None:
        self.there, self.target, self.directory, self.folder, self.settings = there, target, directory, folder, settings
        self.cache = SymbolCache(folder / "cache")
        self.rank = directory / "run0/all"

    def lay_down(self, recording: Path) -> None:
        """Write the files of the job, with the list of the tables that are here."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.rank.mkdir(parents=True)
        plan = plans.make_plan(SPEC, self.target, FACTS, "job", str(self.directory), self.cache.list_names())
        for name, text in plan.files.items():
            (self.directory / name).write_text(text)
        shutil.copy(recording, self.rank / "perf.data")

    def run(self, script: str) -> bytes:
        """What a script in the directory prints."""
        done = self.there.run(f"cd {quote(str(self.directory))} || exit\n{script}", timeout_s=MAX_S)
        assert done.status == 0, done.errors
        return done.stdout

    def read_text(self, watch: Stopwatch) -> int:
        """The samples of the recording, by its text."""
        with watch.time("there"):
            self.run(f'{RANK} pl_read "$pl_directory/run0/all"')
        with watch.time("fetch"):
            copies = [FileCopy(str(self.rank / name), self.folder / name) for name in ("perf.script.zst", "perf.data")]
            self.there.get(copies)
        with watch.time("read"):
            return reading.read_profile(self.settings, [copies[0].local]).samples.num_rows

    def read_tables(self, watch: Stopwatch) -> int:
        """The samples of the recording, by its records and the symbol tables."""
        with watch.time("there"):
            self.run(f'{RANK} pl_write_tables "$pl_directory/run0/all"')
        with watch.time("fetch"):
            listed = plans.parse_table_list(self.run(plans.list_script(str(self.directory), SPEC)))
            tables = symbol_tables.plan_fetch(self.cache, listed, str(self.directory), self.folder / "tables")
            recording = FileCopy(str(self.rank / "perf.data"), self.folder / "perf.data")
            self.there.get([recording, *tables.copies.values()])
            tables.keep()
        with watch.time("read"):
            settings = replace(self.settings, buildid_dir=self.cache.root)
            return reading.read_profile(settings, [recording.local]).samples.num_rows


def record(path: Path, seconds: float) -> None:
    """A recording as a job makes it."""
    options = ["-q", *OPTIONS, "-g", "-e", "cpu-clock", "-F", str(HERTZ), "-o", path]
    subprocess.run(["perf", "record", *options, "--", sys.executable, "-c", PROGRAM, str(seconds)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=20.0, help="Round trip of the link.")
    parser.add_argument("--megabits", type=float, default=100.0, help="Rate of the link per second.")
    parser.add_argument("--seconds", type=float, nargs="+", default=[4.0, 60.0], help="Lengths of the recordings.")
    parser.add_argument("--recordings", type=Path, nargs="+", help="Recordings of this machine, instead.")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        far = stack.enter_context(sshd())
        port = stack.enter_context(relay(far.port, options.delay_ms / 1000, options.megabits * 1e6))
        known = f"[127.0.0.1]:{port} {far.host_key}"
        stack.callback(transports.close_all)
        target = Target("far", ssh=far.ssh(port=port, host_keys=(known,)))
        there = stack.enter_context(open_transport(target))
        settings = Settings.load(folder / "data", runtime=folder / "run")
        for number, seconds in enumerate(options.recordings or options.seconds):
            recording = seconds
            if not options.recordings:
                recording = folder / f"{number}.data"
                record(recording, seconds)
            compare(there, target, recording, far.home / "job", settings, folder, options.runs)


def compare(
    there: Transport,
    target: Target,
    recording: Path,
    directory: Path,
    settings: Settings,
    folder: Path,
    runs: int,
) -> None:
    """Print the medians of both ways."""
    found: dict[str, list[dict[str, float]]] = {"text": [], "tables": [], "tables, again": []}
    samples = set()
    for _ in range(runs):
        with tempfile.TemporaryDirectory(dir=folder) as name:
            job = FarJob(there, target, directory, Path(name), settings)
            for way, read in (("text", job.read_text), ("tables", job.read_tables), ("tables, again", job.read_tables)):
                job.lay_down(recording)
                for path in Path(name).glob("perf.*"):
                    path.unlink()
                watch = Stopwatch()
                samples.add(read(watch))
                found[way].append(watch.seconds)
    assert len(samples) == 1, samples
    print(f"{recording.stat().st_size / 1e6:.1f} MB, {samples.pop():,} samples")
    print(f"{'':16}" + "".join(f"{step:>9}" for step in ("there", "fetch", "read", "all")))
    for way, times in found.items():
        columns = [[one[step] for one in times] for step in ("there", "fetch", "read")]
        columns.append([sum(one.values()) for one in times])
        print(f"{way:16}" + "".join(f"{statistics.median(column):9.2f}" for column in columns), flush=True)


if __name__ == "__main__":
    main()
