"""The program that the demo records, recorded here with perf: threads, phases and names are to be seen in it."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from perfloom import workload
from perfloom.workload import __main__ as program
from tests.parts import require

SECONDS = 3.0


def test_it_needs_nothing_but_the_standard_library(root: Path) -> None:
    for path in (root / "app" / "workload").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "."]
            assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_a_wrong_number_of_seconds_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(["--seconds", "nan"])
    assert "--seconds must be" in capsys.readouterr().err


def test_the_note_fits_the_interpreter() -> None:
    assert ("names its functions" in workload.note()) == (sys.version_info >= (3, 12))
    assert ("-X" in workload.command()) == (sys.version_info >= (3, 12))


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, float, list[str]]]:
    """(comm, time in seconds, symbols from leaf to root) of each sample of a real recording."""
    perf = require("perf")
    data = tmp_path_factory.mktemp("workload") / "perf.data"
    graph = workload.call_graph()
    mode = ["--call-graph", "dwarf,8192" if graph == "dwarf" else graph]
    record = [perf, "record", "-F", "199", "-e", "cpu-clock:u", *mode, "-N", "--no-bpf-event", "-o", data, "--"]
    done = subprocess.run([*record, *workload.command(SECONDS)], capture_output=True, text=True)
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


def test_every_thread_is_seen_by_its_name(samples: list[tuple[str, float, list[str]]]) -> None:
    threads = {name for phase in program.PHASES.values() for name in phase}
    assert threads <= {comm for comm, _, _ in samples}


def test_phases_follow_each_other(samples: list[tuple[str, float, list[str]]]) -> None:
    seen: dict[str, list[float]] = defaultdict(list)
    for comm, seconds, _ in samples:
        seen[comm].append(seconds)
    phases = [sorted(t for name in threads for t in seen[name]) for threads in program.PHASES.values()]
    for earlier, later in itertools.pairwise(phases):
        assert earlier[-1] <= later[0] + 0.05  # perf orders events within a round of its buffers
    assert SECONDS * 0.8 < phases[-1][-1] - phases[0][0] < SECONDS * 3


def test_the_names_are_those_a_reader_knows(samples: list[tuple[str, float, list[str]]]) -> None:
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
    if workload.names_python():
        assert any("tokenize" in symbol for symbol in by_thread["word-counter"])
    depths = sorted(len(symbols) for _, _, symbols in samples)
    assert depths[len(depths) // 2] >= 4
