"""The tracer for C and C++: compiled by both compilers as both languages, run with many threads, ended in every way."""

import re
import shutil
import signal
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support import paths
from tests.support.marks import slow_except
from tests.support.parts import require

PROGRAMS = Path(__file__).parent / "programs"
HEADERS = paths.ROOT / "static/tracers"
LANGUAGES = {"c11": (), "c++17": ("-x", "c++")}
COMPILERS = {("gcc", "c11"): "gcc", ("gcc", "c++17"): "g++", ("clang", "c11"): "clang", ("clang", "c++17"): "clang++"}
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wmissing-declarations", "-Werror")


@dataclass
class Written:
    """What a trace holds, read as strictly as can be: any fault in it is an error here."""

    spans: int = 0
    threads: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    counters: list[tuple[str, float]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)


LINE = re.compile(r"thr: (\d+), (?:name: (.*)|counter: (.*), value: (.*)), time: (\d+\.\d{3})")


def written(path: Path) -> Written:
    found = Written()
    latest: defaultdict[str, float] = defaultdict(float)
    seen: set[str] = set()
    first, *lines, last = path.read_text().splitlines()
    begin, end = (float(line.removeprefix(word)) for line, word in ((first, "start_time: "), (last, "end_time: ")))
    for line in lines:
        match = LINE.fullmatch(line)
        assert match, line
        thread, name, counter, value, time = match.groups()
        assert begin <= float(time) <= end and latest[thread] <= float(time), line
        latest[thread] = float(time)
        if counter is not None:
            found.counters.append((counter, float(value)))
        elif name.startswith("end_"):
            assert found.threads[thread].pop() == name.removeprefix("end_"), line
            found.spans += 1
        else:
            assert name not in seen, "every number is given once"
            seen.add(name)
            found.names.add(name.rpartition("_")[0])
            found.threads[thread].append(name)
    return found


def built(folder: Path, name: str, compiler: str, language: str, *options: str) -> Path:
    """The program of that name, compiled."""
    command = require(COMPILERS[compiler, language])
    sources = [PROGRAMS / f"{name}.c"] + ([PROGRAMS / "helper.c"] if name == "endings" else [])
    program = folder / f"{name}-{compiler}-{language}"
    defined = ("-D_GNU_SOURCE", "-DPERFLOOM_TRACE", f"-I{HEADERS}", f"-std={language}", "-O2", "-pthread")
    subprocess.run(
        [command, *defined, *STRICT, *options, *LANGUAGES[language], *map(str, sources), "-o", str(program)], check=True
    )
    return program


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "language"), COMPILERS)
def test_many_threads_lose_nothing(tmp_path: Path, compiler: str, language: str) -> None:
    """They do not fit into the memory that is allowed here: most are written along the way."""
    program = built(tmp_path, "threads", compiler, language)
    subprocess.run([program, "trace.txt", "20000"], cwd=tmp_path, check=True, env={"PERFLOOM_TRACE_BYTES": "2000000"})
    found = written(tmp_path / "trace.txt")
    assert found.spans == 16 * 10_000 and len(found.threads) == 16 and not any(found.threads.values())
    assert found.names == {"layer, with a comma: and a colon", "matmul_ffn_up-12"}
    assert len(found.counters) == 16 * 20 and max(found.counters)[1] == 19_000 / 8
    assert [path.name for path in tmp_path.glob("*.txt")] == ["trace.txt"]


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "language"), slow_except([("gcc", "c11")], [("gcc", "c11"), ("clang", "c++17")]))
def test_no_thread_races_another(tmp_path: Path, compiler: str, language: str) -> None:
    program = built(tmp_path, "threads", compiler, language, "-fsanitize=thread", "-g")
    # The sanitizer needs addresses where it expects them.
    fixed = [shutil.which("setarch") or "setarch", "-R"]
    told = subprocess.run(
        [*fixed, program, "trace.txt", "100000"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stderr) == (0, "")
    assert written(tmp_path / "trace.txt").spans == 16 * 50_000


ENDINGS = {"crash": -signal.SIGSEGV, "abort": -signal.SIGABRT, "told": -signal.SIGTERM, "exit": 3, "": 4, "again": 4}


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("endings"), "endings", "gcc", "c11")


@pytest.mark.parametrize("how", ENDINGS)
def test_however_it_ends_there_is_a_file(endings: Path, tmp_path: Path, how: str) -> None:
    status = subprocess.run([endings, how], cwd=tmp_path, check=False).returncode
    assert status == ENDINGS[how]
    path, *more = tmp_path.glob("perfloom-*.trace.txt")
    assert not more, "a child made by fork writes nothing"
    if how == "again":
        assert written(tmp_path / "first.txt").names == {"outer second line", "helper"}
        assert written(path).names == set()
        return
    found = written(path)
    left = [name.rpartition("_")[0] for names in found.threads.values() for name in names]
    assert left == ([] if how == "" else ["outer second line"])
    assert found.counters == [("share", pytest.approx(1 / 3, rel=1e-14)), ("bytes", 4096), ("less", -2.5e-200)]


def test_where_it_is_to_be_written(endings: Path, tmp_path: Path) -> None:
    subprocess.run([endings, "exit"], cwd=tmp_path, check=False, env={"PERFLOOM_TRACE_FILE": "mine.txt"})
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    environment = {"PERFLOOM_TRACE_FILE": "/nowhere/x"}
    told = subprocess.run([endings, "exit"], capture_output=True, check=False, env=environment, text=True)
    assert told.returncode == 3 and "set PERFLOOM_TRACE_FILE" in told.stderr


@pytest.mark.parametrize(("compiler", "language"), COMPILERS)
def test_where_it_is_off_it_costs_nothing(tmp_path: Path, compiler: str, language: str) -> None:
    """The same code comes out as without it."""
    command = require(COMPILERS[compiler, language])
    made = []
    for name in ("nothing", "bare"):
        options = (*STRICT, *LANGUAGES[language], f"-std={language}", "-O1", "-S")
        out = tmp_path / f"{name}.s"
        subprocess.run([command, *options, f"-I{HEADERS}", str(PROGRAMS / f"{name}.c"), "-o", out], check=True)
        made.append([line for line in out.read_text().splitlines() if ".file" not in line])
    assert made[0] == made[1]
