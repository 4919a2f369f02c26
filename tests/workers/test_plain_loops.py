"""Small files are read by plain Python instead of compiled loops, with the same result."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from perfloom.config import Settings
from perfloom.ingest.compression import open_decompressed
from perfloom.ingest.jit import cache as compiled_cache
from perfloom.ingest.jit import mode as jit_mode
from perfloom.workers.read import prefork
from perfloom.workers.read.files import FileReading
from perfloom.workers.read.reading import read_profile
from perfloom.workers.read.request import AnswerWriter, Input, Limits, Request
from tests.support.paths import DATA

FILES = (
    *sorted((DATA / "pytorch").glob("*.pt.trace.json.gz")),
    *sorted((DATA / "pytorch-memory").glob("*.pickle")),
    *sorted((DATA / "perfetto").glob("*.pftrace")),
    DATA / "mllm" / "perf.json",
    DATA / "llama" / "trace.txt",
    *sorted((DATA / "callgrind").glob("*.out")),
    DATA / "samplers" / "memray.speedscope",
    DATA / "samplers" / "py-spy.chrometrace",
)
NO_ANSWERS = cast(AnswerWriter, None)
REQUEST = Request((), "", "", Limits(1 << 32, 60, 1 << 30, 0), 0)
READ = """
import dataclasses, sys
from pathlib import Path
from perfloom.ingest.jit import mode
if sys.argv[1] == "plain":
    mode.use_plain_loops()
from perfloom.ingest.compression import open_decompressed
from perfloom.readers import HEAD_BYTES, detect_format

for path in map(Path, sys.argv[2:]):
    with open_decompressed(path, 1 << 32) as stream:
        profile = detect_format(stream.peek(HEAD_BYTES), path.name).read(stream, path.name)
    for field in dataclasses.fields(profile):
        value = getattr(profile, field.name)
        print(path.name, field.name, value.to_pylist() if hasattr(value, "to_pylist") else repr(value))
from perfloom.ingest.jit.decorators import HAS_NUMBA
print(HAS_NUMBA, file=sys.stderr)
"""


def lines_of(mode: str, files: tuple[Path, ...]) -> list[str]:
    """What is in files, one line for each table."""
    argv = [sys.executable, "-W", "error", "-c", READ, mode, *map(str, files)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == str(mode == "compiled")
    return done.stdout.splitlines()


@pytest.mark.slow
def test_plain_and_compiled_loops_read_the_same(tmp_path: Path) -> None:
    pprof = tmp_path / "profile.pb.gz"
    source = str(DATA / "samplers" / "memray.speedscope")
    subprocess.run(
        [sys.executable, "-m", "perfloom.cli", "convert", "--to", "pprof", source, "-o", str(pprof)], check=True
    )
    numbers = tmp_path / "numbers.json"
    arguments = (
        {"External id": n, "stream": f" {n * 37} ", "Ev Idx": -n, "grid": [n, 1000, 70000]} for n in range(300)
    )
    events = ({"ph": "X", "cat": "cpu_op", "name": "f", "ts": 1, "dur": 2, "args": each} for each in arguments)
    numbers.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(events)}))
    files = (*FILES, pprof, numbers)
    plain, compiled = lines_of("plain", files), lines_of("compiled", files)
    assert len(plain) == len(compiled) > 10 * len(files)
    for one, other in zip(plain, compiled, strict=True):
        assert one == other


@pytest.mark.parametrize(
    ("names", "preforked"),
    [
        (["pytorch/training.pt.trace.json.gz"], False),
        (["pytorch/training.pt.trace.json.gz"], True),
        (["callgrind/everything.out"], False),
        (["llama/trace.txt"], False),
        (["pytorch/training.pt.trace.json.gz"] * 2, False),
    ],
)
def test_small_files_wait_for_no_compiler(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], preforked: bool
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    assert not compiled_cache.is_ready()
    text: list[str] = []
    if preforked:
        prefork.prefork_reader(loads_loops=False)
    try:
        profile = read_profile(
            settings,
            [DATA / name for name in names],
            lambda part, progress: text.append(progress),
        )
    finally:
        prefork.end_reader()
    assert profile.slices.num_rows > 1000 or profile.samples.num_rows > 100
    assert not any("Compiling" in each for each in text)
    assert not list((tmp_path / "cache").glob("*/loops")), "nothing was compiled"


@pytest.mark.parametrize("is_ready", [False, True])
def test_the_size_after_decompression_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_ready: bool) -> None:
    limit = 1000 if is_ready else 1000 * jit_mode.COLD_FACTOR
    chosen: list[int] = []
    monkeypatch.setattr(compiled_cache, "is_ready", lambda: is_ready)
    monkeypatch.setattr(jit_mode, "has_loops", lambda: False)
    monkeypatch.setattr(jit_mode, "use_plain_loops", lambda: chosen.append(1))
    path = tmp_path / "text.gz"
    for size, plain_bytes, count, total_bytes, expected in (
        (limit, 1000, 1, math.inf, True),
        (limit + 1, 1000, 1, math.inf, False),
        (10, 0, 1, math.inf, False),
        (10, 1000, 2, math.inf, False),
        (10, 1000, 2, limit + 1, False),
        (10, 1000, 2, limit, True),
    ):
        path.write_bytes(gzip.compress(b"x" * size))
        reading = FileReading(REQUEST, NO_ANSWERS, Input(str(path), "text.gz"), 0, count, total_bytes)
        with open_decompressed(path, 1 << 30) as stream:
            assert reading._uses_plain_loops(plain_bytes, stream) is expected
            assert len(stream.read(1 << 20)) == size, "nothing is lost"
    assert chosen == [1, 1]
    monkeypatch.setattr(jit_mode, "has_loops", lambda: True)
    with open_decompressed(path, 1 << 30) as stream:
        assert not FileReading(REQUEST, NO_ANSWERS, Input(str(path), "a"))._uses_plain_loops(9999, stream)


def test_several_files_count_together(tmp_path: Path) -> None:
    small, packed = tmp_path / "a.json", tmp_path / "b.json.gz"
    small.write_bytes(b"x" * 1000)
    packed.write_bytes(b"x" * 100)
    assert jit_mode.estimate_decompressed_bytes([str(small)]) == 1000
    expected = 1000 + 100 * jit_mode.COMPRESSION_RATIO
    assert jit_mode.estimate_decompressed_bytes([str(small), str(packed)]) == expected
    assert jit_mode.estimate_decompressed_bytes([str(small), "-"]) == math.inf
    assert jit_mode.estimate_decompressed_bytes([]) == math.inf


def test_compiled_loops_of_other_cpus_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    here = compiled_cache.get_folder()
    assert compiled_cache.identify_cpu().strip()
    monkeypatch.setattr(compiled_cache, "identify_cpu", lambda: b"another CPU")
    assert compiled_cache.get_folder() != here
