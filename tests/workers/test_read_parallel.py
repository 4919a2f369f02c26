"""Many files read by helpers: what comes of it is the same, and whatever becomes of a helper, nothing is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard

from benchmarks.rank_files import samples, write_plan, write_rank
from perfloom.config import Settings
from perfloom.domain.errors import UnreadableInput
from perfloom.workers.read import parallel, reading
from perfloom.workers.read.request import Input, Limits, Request
from tests.support import paths as test_paths
from tests.support.parts import require
from tests.support.perf.recordings import USER_MARK, MadeRecording

FILES = 12
CODE = """
import json, os, resource, sys
from pathlib import Path
from perfloom.workers.read import parallel as ahead
from perfloom.workers.read.request import Input, Limits, Request

what, folder, *paths = sys.argv[1:]
parent, real, read = os.getpid(), ahead.read_one, []

def read_one(request, answers, wanted, number, count, total_bytes, **options):
    read.append(number)
    if os.getpid() != parent and number == 5:
        if what == "killed":
            os.kill(os.getpid(), 9)
        raise {"memory": MemoryError(), "disk": OSError(28, "No space left on device"), "bug": KeyError(5)}[what]
    return real(request, answers, wanted, number, count, total_bytes, **options)

class Silent(ahead._NullAnswerWriter): pass

ahead.read_one = read_one
ahead.MIN_RECORDINGS_BYTES = 0
inputs = tuple(Input(path, Path(path).name) for path in paths)
request = Request(inputs, folder, folder, Limits(8 << 30, 600, 1 << 30, 0), parent, folder)
before = resource.getrlimit(resource.RLIMIT_AS)
try:
    found = [one.profile.samples.num_rows for one in ahead.read_all(request, Silent(), inputs)]
except OSError as error:
    found = str(error)
assert resource.getrlimit(resource.RLIMIT_AS) == before
try:
    os.waitpid(-1, os.WNOHANG)
    left = True
except ChildProcessError:
    left = False
print(json.dumps({"found": found, "here": read, "left": left, "files": sorted(os.listdir(folder))}))
"""


@pytest.fixture
def texts(tmp_path: Path) -> list[Path]:
    """Enough files of enough bytes for helpers to be of use."""
    found = []
    for number in range(FILES):
        found.append(tmp_path / f"rank{number}.txt")
        found[-1].write_text(samples(700 + number, rank=number, stacks=60, clock_s=100.0 + number / 100))
    assert sum(path.stat().st_size for path in found) > 4 << 20
    return found


def test_helpers_read_the_same_as_one_process(settings: Settings, texts: list[Path], tmp_path: Path) -> None:
    alone = Settings.load(settings.data, environ={}, runtime=settings.runtime, read_memory_bytes=3 * 10**9)
    one, other = reading.read_profile(alone, texts), reading.read_profile(settings, texts)
    for name, table in one.tables().items():
        assert table.equals(other.tables()[name]), name
    assert one.meta == other.meta
    texts[7].write_bytes(b"")
    with pytest.raises(UnreadableInput, match=r"rank7\.txt"):
        reading.read_profile(settings, texts)


def test_ranks_by_helpers(settings: Settings, tmp_path: Path) -> None:
    root = write_plan(tmp_path / "job", ranks=FILES)
    for rank in range(FILES):
        folder = write_rank(root, rank)
        (folder / "perf.script").write_text(samples(700, rank=rank, stacks=60) if rank != 4 else "nothing")
    told: list[str] = []
    profile = reading.read_profile(settings, [root], lambda part, text: told.append(text))
    assert profile.samples.num_rows == 700 * (FILES - 1)
    assert [row["rank"] for row in profile.ranks.to_pylist() if row["note"]] == [4]
    assert "rank 4" in profile.meta.reasons[0]


PLANNED = """
import json, os, sys
from pathlib import Path
from perfloom.ingest.chunked_tables import SpillFile
from perfloom.workers.read import parallel as ahead, ranks
from perfloom.workers.read.request import Limits, Request

scratch, root = sys.argv[1:]
parent, real, here = os.getpid(), ahead.read_one, []

def read_one(*arguments, **options):
    here.append(os.getpid() == parent)
    return real(*arguments, **options)

ahead.read_one = ranks.read_one = read_one
ahead.MIN_RECORDINGS_BYTES = int(1e9) if os.environ.get("ALONE") else 0
request = Request((), scratch, scratch, Limits(8 << 30, 600, 1 << 30, 0), parent, scratch, planned=root)
with open(Path(scratch, "spill"), "w+b", buffering=0) as spill:
    written, merged = ranks.read_planned(request, ahead._NullAnswerWriter(), SpillFile(spill))
notes = [row["note"] for row in merged.profile.ranks.to_pylist()]
print(json.dumps([sum(here), sorted(str(path.relative_to(scratch)) for path in written), notes]))
"""


@pytest.mark.parametrize("alone", [False, True])
def test_recordings_of_planned_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: bool) -> None:
    """Helpers read those without text. A damaged one concerns its rank alone."""
    root, scratch = write_plan(tmp_path / "job", ranks=4), tmp_path / "scratch"
    scratch.mkdir()
    for rank in range(4):
        made = MadeRecording()
        made.sample(7, 100, USER_MARK, 0x1010 + rank)
        folder = write_rank(root, rank, state={"text": "failed No space left."})
        (folder / "perf.data").write_bytes(made.build() if rank != 2 else b"PERFILE2 and no more")
    monkeypatch.setenv("ALONE", "1" if alone else "")
    argv = [sys.executable, "-c", PLANNED, str(scratch), str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    here, written, notes = json.loads(done.stdout.splitlines()[-1])
    assert here == (4 if alone else 2), "helpers read up to the damaged one, which perf must read"
    assert len(written) == len(set(written)) == 3
    assert ["resolved on this machine" in note for note in notes] == [True, True, False, True]
    assert "cannot read this recording" in notes[2]


def read_all(paths: Sequence[Path], folder: Path, what: str = "") -> dict[str, Any]:
    """What became of these files in a process with helpers."""
    scratch = folder / "scratch"
    scratch.mkdir()
    argv = [sys.executable, "-c", CODE, what, str(scratch), *map(str, paths)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_recordings_of_perf(tmp_path: Path) -> None:
    """Helpers read their records. If one needs perf, which may need all memory, the parent reads it and the rest."""
    require("perf")
    paths = []
    for number in range(4):
        made = MadeRecording()
        for time in range(10 + number):
            made.sample(7, 100 + time, USER_MARK, 0x1010)
        paths.append(tmp_path / f"rank{number}.data")
        paths[-1].write_bytes(made.build())
    packed = (test_paths.ROOT / "tests" / "data" / "perf" / "waits.perf.data.zst").read_bytes()
    paths[2].write_bytes(zstandard.decompress(packed, 1 << 24))
    told = read_all(paths, tmp_path)
    assert not told["left"] and told["here"] == [2, 3]
    assert [told["found"][number] for number in (0, 1, 3)] == [10, 11, 13] and told["found"][2] > 0
    kept = {0: "symbols", 1: "symbols", 2: "script", 3: "symbols"}
    assert [name for name in told["files"] if name.endswith(".zst")] == [
        f"rank{number}.data.{what}.zst" for number, what in kept.items()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["memory", "killed", "bug", "disk"])
def test_a_helper_that_cannot(texts: list[Path], tmp_path: Path, what: str) -> None:
    """What it could not read is read by the parent, and all after it; a full disk is one for the parent too."""
    told = read_all(texts, tmp_path, what)
    assert not told["left"]
    if what == "disk":
        assert "No space left" in told["found"]
    else:
        assert told["found"] == [700 + number for number in range(FILES)]
        assert told["here"] in (list(range(5, FILES)), list(range(FILES)))


def test_size_of_compressed_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Helpers read recordings of perf record -z as others of the size that they have when decompressed."""
    perf = require("perf")
    path = tmp_path / "perf.data"
    program = [sys.executable, "-c", "sum(range(10**8))"]
    argv = [perf, "record", "-q", "-z", "-g", "-F", "5000", "-e", "cpu-clock:u", "-o", path, "--", *program]
    subprocess.run(argv, check=True, capture_output=True, timeout=120)
    size = path.stat().st_size
    inputs = [Input(str(path), "a"), Input(str(path), "b")]
    request = Request((), str(tmp_path), None, Limits(8 << 30, 600, 1 << 30, 0), 0, str(tmp_path))
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(parallel, "MIN_RECORDINGS_BYTES", 3 * 2 * size)
    assert parallel.count_helpers(request, inputs) == 2
    monkeypatch.setattr(parallel, "RECORDING_FACTOR", (2 << 30) // size)
    assert parallel.count_helpers(request, inputs) == 0, "each would need more than its share of the memory"
    header = bytearray(path.read_bytes()[:104])
    path.write_bytes(header)
    assert parallel.count_helpers(request, inputs) == 1
