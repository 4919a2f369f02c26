"""The program that the demo records, recorded here with perf: its threads, phases and names are visible."""

from __future__ import annotations

import ast
import itertools
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from perfloom import workload
from perfloom.workload import __main__ as program
from perfloom.workload import symbols as names
from perfloom.workload.stub_library import FRAME_RULES, Stub, shared_library
from tests.support.parts import require

SECONDS = 3.0


def test_needs_only_the_standard_library(root: Path) -> None:
    for path in (root / "app" / "workload").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                imported = [node.module or ""]
            assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names
            assert getattr(node, "level", 0) <= 1, "it stands alone in its package"


def test_invalid_duration_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(["--seconds", "nan"])
    assert "--seconds must be" in capsys.readouterr().err


def test_message_fits_the_interpreter() -> None:
    assert ("-X" in workload.command()) == (
        workload.trampolines() and workload.frame_pointers()
    ) or not names.is_supported()
    assert ("py::tokenize" in workload.note()) == (names.is_supported() or workload.trampolines())


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, float, list[str]]]:
    """(comm, time in seconds, symbols from leaf to root) of each sample of a real recording."""
    perf = require("perf")
    folder = tmp_path_factory.mktemp("workload")
    data = folder / "perf.data"
    graph = workload.call_graph()
    mode = ["--call-graph", "dwarf,8192" if graph == "dwarf" else graph]
    record = [perf, "record", "-F", "199", "-e", "cpu-clock:u", *mode, "-N", "--no-bpf-event", "-o", data, "--"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder)}
    done = subprocess.run([*record, *workload.command(SECONDS)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    argv = [perf, "script", "--no-inline", "-i", data, "-F", "comm,time,ip,sym"]
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    found = []
    for block in text.strip().split("\n\n"):
        head, *frames = block.splitlines()
        match = re.match(r"\s*(\S.*?)\s+(\d+\.\d+):", head)
        assert match, head
        found.append((match[1], float(match[2]), [frame.split(None, 1)[1] for frame in frames]))
    return found


def test_threads_have_their_names(samples: list[tuple[str, float, list[str]]]) -> None:
    threads = {name for phase in program.PHASES.values() for name in phase}
    assert threads <= {comm for comm, _, _ in samples}


def test_phases_are_in_order(samples: list[tuple[str, float, list[str]]]) -> None:
    seen: dict[str, list[float]] = defaultdict(list)
    for comm, seconds, _ in samples:
        seen[comm].append(seconds)
    phases = [sorted(t for name in threads for t in seen[name]) for threads in program.PHASES.values()]
    for earlier, later in itertools.pairwise(phases):
        assert earlier[-1] <= later[0] + 0.05  # perf orders events within each flush of its buffers
    assert SECONDS * 0.8 < phases[-1][-1] - phases[0][0] < SECONDS * 3


def test_function_names_are_plain(samples: list[tuple[str, float, list[str]]]) -> None:
    by_thread: dict[str, set[str]] = defaultdict(set)
    for comm, _, symbols in samples:
        by_thread[comm].update(symbols)
    everywhere = {
        symbol for comm, symbols in by_thread.items() if comm in program.PHASES["report"] for symbol in symbols
    }
    assert "_PyEval_EvalFrameDefault" in everywhere
    assert any("deflate" in symbol for symbol in by_thread["deflate-1"])
    assert any(
        "sha" in symbol.lower() or "blake" in symbol.lower() or "EVP" in symbol for symbol in by_thread["hasher"]
    )
    assert any("sqlite3" in symbol for symbol in by_thread["sql-indexer"])


@pytest.mark.skipif(not names.is_supported(), reason="stubs exist for x86-64 only")
def test_stacks_are_complete_with_function_names(
    samples: list[tuple[str, float, list[str]]],
) -> None:
    threads = {thread: work for works in program.PHASES.values() for thread, work in works.items()}
    named, whole = 0, 0
    for comm, _, symbols in samples:
        if comm in threads:
            named += any(symbol.startswith(f"py::{threads[comm].__name__}:") for symbol in symbols)
            whole += symbols[-1].startswith(("clone", "__clone", "thread_start", "[unknown]"))
    total = sum(comm in threads for comm, _, _ in samples)
    assert named > 0.9 * total
    assert whole > 0.9 * total


# ---- the stubs -------------------------------------------------------------------------------------------------------

STUBS = """
import sys
from perfloom.workload import symbols as names
from perfloom.workload.stub_library import FRAME_RULES, Stub, shared_library

@names.register
def divide(a, *, by):
    "Quotient."
    return a / by

@names.register
def outer(a):
    return divide(a, by=2)

assert names.install_stubs() is (sys.argv[1] == "shown"), names.is_supported()
assert bool(names._stubs) is (sys.argv[1] == "shown")
assert outer(10) == 5.0 and divide.__doc__ == "Quotient."
try:
    divide(1, by=0)
except ZeroDivisionError:
    print("passed on")
"""


def stubs(expected: str, *, cache: Path, options: tuple[str, ...] = ()) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    argv = [sys.executable, *options, "-W", "error", "-c", STUBS, expected]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "passed on\n"), done.stderr


@pytest.mark.skipif(not names.is_supported(), reason="stubs exist for x86-64 only")
def test_stubs_return_the_same_results(tmp_path: Path) -> None:
    stubs("shown", cache=tmp_path)
    [library] = (tmp_path / "perfloom").iterdir()
    library.write_bytes(b"spoilt")
    stubs("shown", cache=tmp_path)
    assert library.read_bytes().startswith(b"\x7fELF")


def test_missing_stub_directory_falls_back_to_plain_calls(tmp_path: Path) -> None:
    (tmp_path / "perfloom").write_text("a file where a folder is wanted")
    stubs("plain", cache=tmp_path)


def test_perf_support_of_the_interpreter_is_preferred(tmp_path: Path) -> None:
    """An interpreter without perf support ignores -X perf."""
    shown = names.is_supported() and not workload.trampolines()
    stubs("shown" if shown else "plain", cache=tmp_path, options=("-X", "perf"))


@pytest.mark.parametrize("count", [0, 1, 300])
def test_stub_library_is_valid_elf(count: int, tmp_path: Path) -> None:
    """readelf checks what the loader and perf do not: sections, symbols, unwind tables."""
    readelf = require("readelf")
    symbols = [f"py::größe_{number}<locals>:/a b/c.py" for number in range(count)]
    path = tmp_path / "library.so"
    path.write_bytes(shared_library([Stub(symbol, names.STUB_CODE, FRAME_RULES) for symbol in symbols]))
    said = subprocess.run([readelf, "--wide", "--all", "--debug-dump=frames", path], capture_output=True, check=True)
    assert b"arning" not in said.stdout + said.stderr, said.stderr.decode()
    text = said.stdout.decode(errors="replace")
    assert len(re.findall(r"FUNC +GLOBAL DEFAULT +4 ", text)) == count
    assert len(re.findall(r"^[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ FDE ", text, re.MULTILINE)) == count
