"""A recording of another host: its text, or the recording with the symbol tables of its binaries.

    PYTHONPATH=tools python -m benchmarks.far_recordings [--delay-ms 20] [--megabits 100] [--seconds 4 60] [--runs 3]

A real sshd on this machine is reached through a relay with a delay and a limited rate. Two ways from a recording there
to a profile here, in turns:

    text     perf script there, its compressed text is fetched and read
    tables   the compressed recording, kallsyms and the parts of the ELF files that symbols are read from are fetched;
             a copy of each file that has only these parts is put where perf keeps files by build id, and the records
             are read

Each line has medians in seconds. "again": the tables were here already.
"""

import argparse
import contextlib
import io
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import zstandard

from perfloom.config import Settings
from perfloom.domain.targets import Target
from perfloom.ingest.machine_code.elf_image import ElfImage
from perfloom.recording.quoting import join
from perfloom.workers import transports
from perfloom.workers.read import reading
from perfloom.workers.transports import FileCopy, Transport, open_transport
from tests.support.sshd import sshd

from .transports import relay

FIELDS = "comm,pid,tid,time,period,event,ip,sym,symoff,dso"
TABLES = Path(__file__).with_name("elf_tables.sh")
HERTZ = 25_000
MAX_S = 600.0


class Stopwatch:
    """The seconds of each step of a way."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def time(self, step: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[step] = time.perf_counter() - start


def run(there: Transport, script: str) -> bytes:
    """What a script at the target prints."""
    done = there.run(script, timeout_s=MAX_S)
    assert done.status == 0, done.errors
    return done.stdout


def fetch(there: Transport, path: str, folder: Path) -> Path:
    """A file of the target, here."""
    copy = folder / Path(path).name
    copy.unlink(missing_ok=True)
    there.get([FileCopy(path, copy)])
    return copy


def read_text(there: Transport, recording: str, settings: Settings, folder: Path, watch: Stopwatch) -> int:
    """The samples of the recording, by its text."""
    with watch.time("there"):
        options = f"--ns --header --no-inline --show-lost-events -F {FIELDS}"
        run(there, f"perf script -i {recording} {options} 2>/dev/null | zstd -q -3 -f -o {recording}.script.zst")
    with watch.time("fetch"):
        text = fetch(there, f"{recording}.script.zst", folder)
    with watch.time("read"):
        return reading.read_profile(settings, [text]).samples.num_rows


def read_tables(there: Transport, recording: str, settings: Settings, folder: Path, watch: Stopwatch) -> int:
    """The samples of the recording, by its records and the symbol tables."""
    cache = folder / "cache"
    with watch.time("there"):
        listed = run(there, f"zstd -q -3 -f {recording} && perf buildid-list -i {recording}").decode()
        by_path = {
            path: build_id for build_id, _, path in (line.strip().partition(" ") for line in listed.splitlines())
        }
        missing = [path for path, build_id in by_path.items() if not (cache / ".build-id" / build_id[:2]).is_dir()]
        script = f"set -- {join(missing)}\n{TABLES.read_text()}" if missing else ""
        if any(path.startswith("[kernel") for path in missing):
            script += f"\nzstd -q -3 -f -c /proc/kallsyms >{recording}.kallsyms.zst"
        if script:
            run(there, f"{{\n{script}\n}} | zstd -q -3 -f -o {recording}.tables.zst")
    with watch.time("fetch"):
        packed = fetch(there, f"{recording}.zst", folder)
        if missing:
            keep_tables(fetch(there, f"{recording}.tables.zst", folder), cache)
        for path in missing:
            if path.startswith("[kernel"):
                kept = _make_folder(cache, by_path[path]) / "kallsyms"
                kept.write_bytes(_unpack(fetch(there, f"{recording}.kallsyms.zst", folder)))
            else:
                _make_folder(cache, by_path[path])
    with watch.time("read"):
        return reading.read_profile(replace(settings, buildid_dir=cache), [packed]).samples.num_rows


def keep_tables(tables: Path, cache: Path) -> None:
    """Put copies of files that have only some parts into a cache by build id."""
    stream = io.BytesIO(_unpack(tables))
    image: bytearray | None = None
    for line in iter(stream.readline, b""):
        words = line.split(b" ", 2)
        if words[0] == b"file":
            _keep(image, cache)
            image = bytearray(int(words[1]))
        else:
            assert image is not None
            offset, size = int(words[0]), int(words[1])
            image[offset : offset + size] = stream.read(size)
    _keep(image, cache)


def _keep(image: bytearray | None, cache: Path) -> None:
    build_id = ElfImage.read(io.BytesIO(image)).build_id if image else None
    if image and build_id:
        (_make_folder(cache, build_id) / "elf").write_bytes(image)


def _make_folder(cache: Path, build_id: str) -> Path:
    folder = cache / ".build-id" / build_id[:2] / build_id[2:]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _unpack(path: Path) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())


def record(path: Path, seconds: float) -> None:
    """A recording of the bundled workload with frame pointers."""
    workload = [sys.executable, "-m", "perfloom.workload", "--seconds", f"{seconds:.0f}"]
    options = ["-q", "-N", "-g", "-e", "cpu-clock", "-F", str(HERTZ), "-m", "64M", "-o", path]
    subprocess.run(["perf", "record", *options, "--", *workload], check=True, stdout=subprocess.DEVNULL)


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
        there = stack.enter_context(open_transport(Target("far", ssh=far.ssh(port=port, host_keys=(known,)))))
        settings = Settings.load(folder / "data", runtime=folder / "run")
        for number, seconds in enumerate(options.recordings or options.seconds):
            recording = far.home / f"{number}.data"
            if options.recordings:
                recording.write_bytes(seconds.read_bytes())
            else:
                record(recording, seconds)
            compare(there, recording, settings, folder, options.runs)


def compare(there: Transport, recording: Path, settings: Settings, folder: Path, runs: int) -> None:
    """Print the medians of both ways."""
    found: dict[str, list[dict[str, float]]] = {"text": [], "tables": [], "tables, again": []}
    samples = set()
    for _ in range(runs):
        with tempfile.TemporaryDirectory(dir=folder) as name:
            for way, do in (("text", read_text), ("tables", read_tables), ("tables, again", read_tables)):
                watch = Stopwatch()
                samples.add(do(there, str(recording), settings, Path(name), watch))
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
