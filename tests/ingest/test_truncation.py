"""A truncated file is refused, or incomplete with a loss, in every format."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.readers import detect_format
from perfloom.readers.formats import HEAD_BYTES, READERS
from tests.ingest import test_v8_profile
from tests.readers import test_ftrace
from tests.readers.perf import test_perf_lock, test_perf_sched, test_perf_trace
from tests.support import paths

DATA = paths.DATA


def unpacked(name: str) -> bytes:
    data = (DATA / name).read_bytes()
    return gzip.decompress(data) if name.endswith(".gz") else data


FILES: dict[str, Callable[[], bytes]] = {
    "ftrace": lambda: test_ftrace.SCHEDULED.encode(),
    "perf-sched": lambda: test_perf_sched.HISTORY.encode(),
    "perf-lock": lambda: test_perf_lock.CALLERS.encode(),
    "perf-script": lambda: unpacked("perf/spin.script.txt"),
    "nsight-compute-csv": lambda: unpacked("nsight/details.csv"),
    "perf-trace": lambda: test_perf_trace.TRACE.encode(),
    "perf-stat": lambda: unpacked("perf-stat/by-hand-hardware.csv"),
    "pytorch": lambda: unpacked("pytorch/memory.pt.trace.json.gz"),
    "pytorch-memory-snapshot": lambda: unpacked("pytorch-memory/training.pickle"),
    "pytorch-memory-timeline": lambda: unpacked("pytorch/timeline.memory.json"),
    "speedscope": lambda: unpacked("samplers/py-spy.speedscope"),
    "mllm": lambda: unpacked("mllm/perf.json"),
    "cpuprofile": lambda: (Path(test_v8_profile.DATA) / "busy.cpuprofile").read_bytes(),
    "chrome-trace": lambda: unpacked("samplers/py-spy.chrometrace"),
    "llama-trace": lambda: unpacked("llama/trace.txt"),
    "perfetto-trace": lambda: unpacked("perfetto/app.pftrace"),
    "callgrind": lambda: unpacked("callgrind/calls.out"),
    "austin": lambda: unpacked("samplers/austin.full"),
    "py-spy": lambda: unpacked("samplers/py-spy.raw"),
    "memray": lambda: unpacked("samplers/memray.csv"),
    "hpctoolkit": lambda: unpacked("hpctoolkit/v2/experiment.xml"),
    "collapsed": lambda: b"main;work 1200\nmain;rest 3400\nmain;io 5600\n" * 30,
}
ELSEWHERE = {
    "perf-data": "perf itself reads the file, and says where it ends: tests/workers/test_reading.py",
    "profile": "every byte is under a checksum: tests/readers/test_stored.py",
    "pprof": "packed by every writer, and that tells: tests/readers/test_pprof.py",
    "perfanalyzer": "a set of files: tests/readers/test_perfanalyzer.py",
    "nsight-compute": "a report of blocks with their lengths: tests/readers/test_nsight_report.py",
}
UNDETECTABLE = {
    "ftrace": "each line stands for itself",
    "perf-sched": "each line stands for itself",
    "perf-lock": "each line stands for itself",
    "perf-script": "each line stands for itself",
    "nsight-compute-csv": "each line stands for itself",
    "perf-trace": "each line stands for itself",
    "perf-stat": "each line stands for itself",
    "llama-trace": "what ends a trace is its last lines, which the program may print in any order",
    "py-spy": "each line stands for itself",
    "memray": "each line stands for itself",
    "collapsed": "each line stands for itself",
}
"""Formats of lines without an end mark: truncated after a line, the file is still valid."""


WHOLE_JSON = ("speedscope", "cpuprofile")
"""Formats whose JSON is read as a whole, so that a truncated file is refused."""


def read(data: bytes) -> Profile:
    return detect_format(data[:HEAD_BYTES]).read(io.BytesIO(data), "cut")


def test_all_formats_are_tested() -> None:
    assert {*FILES, *ELSEWHERE} == set(READERS) and UNDETECTABLE.keys() <= FILES.keys()


@pytest.mark.slow
@pytest.mark.heavy
@pytest.mark.parametrize("name", FILES)
def test_truncated_file_is_incomplete(name: str) -> None:
    data = FILES[name]()
    assert detect_format(data[:HEAD_BYTES]).name == name
    assert read(data).meta.complete
    # The line end of the last line contains no information.
    end = len(data.rstrip())
    cuts = {end - 1, end - 2, end - 7, *(end * part // 11 for part in range(2, 11))}
    refused = 0
    for cut in sorted(cuts):
        part = data[:cut]
        if name in UNDETECTABLE and part.endswith(b"\n"):
            continue
        try:
            profile = read(part)
        except UnreadableInput:
            refused += 1
            continue
        assert not profile.meta.complete and profile.meta.reasons, f"cut at {cut} of {end}"
        assert profile.losses.num_rows, f"cut at {cut} of {end}"
    assert refused < len(cuts) or name in WHOLE_JSON


@pytest.mark.parametrize("bare", [False, True])
def test_truncated_plain_and_compressed_json_agree(bare: bool) -> None:
    events = [
        {"ph": "X", "name": f"f{n}", "pid": 1, "tid": 1, "ts": n * 10, "dur": 5, "cat": "cpu_op", "args": {}}
        for n in range(200)
    ]
    text = json.dumps(events if bare else {"traceEvents": events}).encode()
    for cut in (len(text) - 1, len(text) // 2):
        profile = read(text[:cut])
        assert not profile.meta.complete and "ends in the middle of its JSON" in profile.meta.reasons[0]
    assert read(text).meta.complete
