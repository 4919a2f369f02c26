"""Compiled loops: warm-up compiles all of them, their cache is private, and readers work without them."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perfloom.ingest.jit import cache as compiled_cache
from perfloom.ingest.jit.mode import AHEAD_BYTES, may_need_loops
from perfloom.ingest.trace_json import reader as trace_read
from perfloom.readers import warmup
from tests.support import paths
from tests.support.trace_texts import EVENT, listed

DATA = paths.DATA
COVERED = """
import gzip, io, sys
from pathlib import Path
from perfloom.ingest.jit.decorators import HAS_NUMBA
from perfloom.readers import HEAD_BYTES, detect_format, llama_trace

for path in map(Path, sys.argv[1:]):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        detect_format(file.peek(HEAD_BYTES), path.name).read(file, path.name)
lines = "".join(f"thr: 1, name: {end}{n}_{n}, time: {n}\\n" for n in range(9000) for end in ("", "end_"))
llama_trace.read(io.BytesIO(lines.encode()))
print(HAS_NUMBA, "numba" in sys.modules)
"""
WITHOUT = """
import gzip, sys
sys.modules["numba"] = sys.modules["llvmlite"] = None
from perfloom.readers import pytorch
with gzip.open(sys.argv[1]) as file:
    print(pytorch.read(file, "").slices.num_rows)
"""


def run(code: str, *paths: Path) -> str:
    """The output of a program."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, paths)], check=True, capture_output=True, text=True, timeout=580
    ).stdout


@pytest.mark.timeout(600)  # a minute of computation while other tests run
def test_warmup_compiles_all_loops() -> None:
    warmup.compile_all()
    assert compiled_cache.is_ready()
    files = [
        *sorted((DATA / "pytorch").glob("*.pt.trace.json.gz")),
        *sorted((DATA / "pytorch-memory").glob("*.pickle")),
        *sorted((DATA / "perfetto").glob("*.pftrace")),
        *sorted((DATA / "callgrind").glob("*.out")),
        DATA / "mllm" / "perf.json",
        DATA / "samplers" / "py-spy.chrometrace",
    ]
    assert run(COVERED, *files) == "True False\n", "nothing is compiled again"


def test_all_modules_with_loops_decide_about_the_cache() -> None:
    package = paths.ROOT / "app"
    compiled = set()
    for path in package.rglob("*.py"):
        functions = (node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.FunctionDef))
        marks = {mark.id for node in functions for mark in node.decorator_list if isinstance(mark, ast.Name)}
        if any(mark.startswith("jit") or mark == "_instruction" for mark in marks):
            compiled.add(str(path.relative_to(package)))
    assert len(compiled) > 15
    assert compiled <= set(compiled_cache.LOOP_MODULES)
    assert all((package / name).is_file() for name in compiled_cache.LOOP_MODULES)


def test_traces_can_be_read_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(WITHOUT, DATA / "pytorch" / "whole.pt.trace.json.gz") == "211\n"
    text = f"[{EVENT}]".encode()
    fast = listed(trace_read.read_events(io.BytesIO(text)))
    monkeypatch.setattr(trace_read, "HAS_NUMBA", False)
    assert listed(trace_read.read_events(io.BytesIO(text))) == fast


@pytest.mark.parametrize(
    ("start", "needs"),
    [
        (b"PERFILE2\0\0", False),
        (b"# ========\n# captured on    : Fri\n", False),
        (b"a b 12/34   [001]  1.000001:      50000 cycles:u: \n\t10 f (a)\n", False),
        (b"a 12 1.000001: 5 sched:sched_switch: prev_comm=a\n", True),
        (b'{"traceEvents": [', True),
        (b"\x1f\x8b\x08", True),
    ],
)
def test_files_that_are_read_without_loops(tmp_path: Path, start: bytes, needs: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(start)
    assert not may_need_loops([str(path)])
    os.truncate(path, AHEAD_BYTES + 1)
    assert may_need_loops([str(path)]) == needs
    assert may_need_loops([str(path), str(tmp_path)])


def test_cache_directory_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "given"))
    assert compiled_cache.prepare_folder()
    folder = compiled_cache.get_folder()
    assert folder.parent == tmp_path / "given"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not compiled_cache.is_ready()
    assert compiled_cache.acquire_lock() and not compiled_cache.acquire_lock()
    compiled_cache.get_library_path().touch()
    assert compiled_cache.is_ready()
    folder.chmod(0o770)
    assert not compiled_cache.prepare_folder()
    folder.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert not compiled_cache.prepare_folder()


def test_unused_caches_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    compiled_cache.remove_unused()
    old = time.time() - compiled_cache.UNUSED_S - 60
    assert compiled_cache.acquire_lock()
    mine = compiled_cache.get_folder()
    others = {name: tmp_path / name for name in ("a" * 16, "b" * 16, "c" * 16, "numba-of-others")}
    for name, path in others.items():
        path.mkdir()
        if name[0] != "c":
            (path / compiled_cache.LOCK).touch()
    for path in (mine, *(path for name, path in others.items() if name[0] != "b")):
        os.utime(path, (old, old))
    (tmp_path / ("d" * 16)).symlink_to(others["a" * 16])
    compiled_cache.remove_unused()
    assert {path.name for path in tmp_path.iterdir()} == {mine.name, *others, "d" * 16} - {"a" * 16}
    # A used cache is not old.
    assert compiled_cache.prepare_folder()
    assert mine.stat().st_mtime > old + 60


def test_cache_is_in_the_user_cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "not absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert compiled_cache.get_base_folder() == tmp_path / ".cache" / "perfloom" / "numba"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert compiled_cache.get_base_folder() == tmp_path / "cache" / "perfloom" / "numba"
    (tmp_path / "cache").touch()
    assert not compiled_cache.prepare_folder()
    assert not compiled_cache.is_ready()
