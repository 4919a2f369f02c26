"""Functions of interpreters have names in recordings: of real interpreters with a real perf."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.domain.jobs import CallGraph, Executor, JobSpec, Language, RecorderName, Scope
from perfloom.domain.targets import Target
from perfloom.recording.plan.plan import choose_executor, make_plan, preview
from perfloom.recording.recorders.languages import (
    FOLDER,
    MODULE,
    find_language_problems,
    language_files,
    language_of,
)
from perfloom.recording.recorders.preflight import preflight
from perfloom.recording.recorders.python_names import python_files
from tests.support.parts import require
from tests.support.paths import DATA

SPEC = JobSpec(command=("python3", "a.py"), language=Language.PYTHON)
PROGRAM = """
import os, threading
def leaf(n):
    return sum(i * i % 7 for i in range(n))
def middle(n):
    for _ in range(n):
        leaf(2000)
def generate():
    try:
        yield 1
    except ValueError:
        yield 2
made = {}
for i in range(1500):
    exec(f"def f{i}(n):\\n    return n + {i}", made)
assert sum(made[f"f{i}"](0) for i in range(1500)) == 1499 * 750
steps = generate()
assert next(steps) == 1 and steps.throw(ValueError) == 2
child = os.fork()
if not child:
    def after():
        return made["f7"](1)
    os._exit(after() != 8)
assert os.waitpid(child, 0)[1] == 0
threads = [threading.Thread(target=middle, args=(400,)) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
JAVA_PROGRAM = DATA / "java"
NODE_PROGRAM = """
function leafWork(n) { let t = 0; for (let i = 0; i < n; i++) t += Math.sqrt(i % 7); return t }
function outerWork() { let t = 0; for (let i = 0; i < 20000; i++) t += leafWork(20000 + (i & 1)); return t }
require("child_process").execFileSync(process.execPath, ["-e", "1"])
outerWork()
"""
# First calls of functions at each depth up to the limit, so that some stubs cannot be made there.
DEEP = """
import threading
made = {}
for i in range(3000):
    exec(f"def f{i}():\\n    return {i}", made)
def down(first):
    try:
        made[f"f{first % 3000}"]()
    except RecursionError:
        pass
    return 1 + down(first + 1)
def descend():
    for first in range(0, 3000, 400):
        try:
            down(first)
        except RecursionError:
            pass
class Text:
    def __repr__(self):
        return repr(Text())
descend()
try:
    repr(Text())
except RecursionError:
    pass
threads = [threading.Thread(target=descend) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("the end")
"""


@pytest.fixture
def injected(tmp_path: Path) -> dict[str, str]:
    """The environment of a program whose functions get names, in `tmp_path`."""
    for name, text in python_files().items():
        (tmp_path / name).write_text(text)
    (tmp_path / "names").mkdir()
    return {"PYTHONPATH": str(tmp_path), "PERFLOOM_NAMES": str(tmp_path / "names")}


def run_program(text: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    (folder / "a.py").write_text(text)
    words = [sys.executable, "a.py"]
    return subprocess.run(words, env={**os.environ, **environment}, capture_output=True, text=True, cwd=folder)


def stacks_of(argv: list[str], folder: Path, environment: dict[str, str], graph: str) -> list[str]:
    perf = require("perf")
    data = folder / "perf.data"
    record = [perf, "record", "-F", "499", "-e", "cpu-clock:u", "--call-graph", graph, "-N", "-o", str(data), "--"]
    done = subprocess.run(
        [*record, *argv], env={**os.environ, **environment}, capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    words = [perf, "script", "--no-inline", "-i", str(data), "-F", "comm,ip,sym"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split("\n\n")


def make_variables(language: Language, folder: Path) -> dict[str, str]:
    """What the shell of a job in the directory `folder` sets for a language."""
    plan = make_plan(replace(SPEC, language=language), Target("local"), None, "j", "/j").files["plan.sh"]
    (function,) = re.findall(r"^pl_name_functions\(\) \{$.*?^\}$", plan, re.MULTILINE | re.DOTALL)
    given = {"pl_names": str(folder / "names"), "pl_quoted": str(folder).replace('"', r"\"")}
    done = subprocess.run(
        ["sh", "-c", f"{function}\npl_name_functions; env -0"], env={**given, "PATH": os.defpath}, capture_output=True
    )
    variables = dict(item.split("=", 1) for item in done.stdout.decode().split("\0") if item)
    return {name: value for name, value in variables.items() if name == FOLDER or name.endswith("_OPTIONS")}


def test_python_functions_have_names_in_whole_stacks(tmp_path: Path, injected: dict[str, str]) -> None:
    (tmp_path / "a.py").write_text(PROGRAM)
    stacks = stacks_of([sys.executable, "a.py"], tmp_path, injected, "dwarf,16384")
    assert not list((tmp_path / "names").glob("*.note"))
    inside = [stack for stack in stacks if "py::leaf:" in stack]
    assert len(inside) > 20
    # The kernel may copy less of a deep stack than there is.
    assert sum("py::middle:" in stack for stack in inside) > 0.9 * len(inside)
    # More functions than a library has stubs, and a library of the child.
    assert len(list((tmp_path / "names").glob("*.so"))) >= 3


def test_a_stub_that_cannot_be_made_is_not_called(tmp_path: Path, injected: dict[str, str]) -> None:
    done = run_program(DEEP, tmp_path, injected)
    assert (done.returncode, done.stdout) == (0, "the end\n"), done.stderr


def test_other_machines_use_the_stubs_of_the_interpreter(tmp_path: Path, injected: dict[str, str]) -> None:
    """From CPython 3.12 on; what it leaves in /tmp is marked. A note says why there are no names before."""
    source = tmp_path / "sitecustomize.py"
    source.write_text(source.read_text().replace('machine == "x86_64"', 'machine == "other"'))
    text = "import os, sys\nif not os.fork(): os._exit(0)\nos.wait()\n"
    done = run_program(f"{text}print(os.getpid(), hasattr(sys, 'activate_stack_trampoline'))", tmp_path, injected)
    assert done.returncode == 0, done.stderr
    pid, supported = done.stdout.split()
    marks = [path.name for path in (tmp_path / "names").glob("map-*")]
    for mark in marks:
        Path(f"/tmp/perf-{mark.removeprefix('map-')}.map").unlink(missing_ok=True)
    notes = [path.read_text() for path in (tmp_path / "names").glob("*.note")]
    if supported == "True":
        assert len(marks) == 2 and f"map-{pid}" in marks and not notes
    else:
        assert not marks and "did not name its functions: it needs CPython 3.9 or later on x86-64" in notes[0]


def test_node_functions_have_names_in_whole_stacks(tmp_path: Path) -> None:
    """Also of processes that it starts, and with a directory's name that must be quoted."""
    node = require("node")
    folder = tmp_path / 'a "b" c'
    (folder / "names").mkdir(parents=True)
    spec = replace(SPEC, language=Language.NODE)
    files = language_files(spec)
    (folder / MODULE).write_text(files[MODULE])
    (folder / "a.js").write_text(NODE_PROGRAM)
    environment = make_variables(Language.NODE, folder)
    maps = []
    try:
        stacks = stacks_of([node, "a.js"], folder, environment, "fp")
        maps = [Path(f"/tmp/perf-{mark.name.removeprefix('map-')}.map") for mark in (folder / "names").iterdir()]
        assert len(maps) == 2 and all(path.exists() for path in maps)
    finally:
        for path in maps:
            path.unlink(missing_ok=True)
    # The compiler may inline leafWork.
    inside = [stack for stack in stacks if "Work " in stack]
    assert len(inside) > 20 and sum("outerWork " in stack for stack in inside) > 0.9 * len(inside)
    assert not list(folder.glob("isolate*"))


def test_java_methods_have_names_in_whole_stacks(tmp_path: Path) -> None:
    """With a directory's name that must be quoted."""
    java = require("java")
    folder = tmp_path / "a b: $c"
    (folder / "names").mkdir(parents=True)
    environment = make_variables(Language.JAVA, folder)
    stacks = stacks_of([java, "-cp", str(JAVA_PROGRAM), "Work", "6000"], folder, environment, "fp")
    (mark,) = (folder / "names").iterdir()
    Path(f"/tmp/perf-{mark.name.removeprefix('map-')}.map").unlink()
    assert sum("Work.leafWork(int)" in stack for stack in stacks) > 20


def test_java_starts_where_a_name_cannot_be_quoted(tmp_path: Path) -> None:
    plain, hostile = (make_variables(Language.JAVA, tmp_path / name)["JAVA_TOOL_OPTIONS"] for name in ("a", "a'b"))
    assert plain.startswith(hostile) and "Xlog" in plain and "Xlog" not in hostile


def test_preflight_recommends_frame_pointers_for_node() -> None:
    spec = replace(SPEC, command=("node", "/a.js"), language=Language.NODE)
    assert [one.field for one in find_language_problems(spec)] == ["call_graph"]
    assert not [one for one in preflight(replace(spec, call_graph=CallGraph.FP), None) if one.field == "call_graph"]


def test_options_of_node_follow_those_of_the_user() -> None:
    spec = replace(
        SPEC, command=("node", "a.js"), language=Language.NODE, environment={"NODE_OPTIONS": "--no-warnings"}
    )
    plan = make_plan(spec, Target("local"), None, "j", "/j").files
    assert MODULE in plan and "${NODE_OPTIONS:+$NODE_OPTIONS }--perf-basic-prof" in plan["plan.sh"]
    assert f"--require ./{MODULE}" in preview(spec, Target("local"), None)


def test_scripts_run_the_job_and_files_are_copied() -> None:
    assert choose_executor(SPEC, Target("local")) is Executor.SCRIPTS
    assert choose_executor(replace(SPEC, language=Language.NONE), Target("local")) is Executor.SUPERVISOR
    plan = make_plan(SPEC, Target("local"), None, "j", "/j").files
    assert python_files().items() <= plan.items() and "pl_prefix PYTHONPATH" in plan["plan.sh"]
    assert "env 'PYTHONPATH=.' 'PERFLOOM_NAMES=names' python3 a.py" in preview(SPEC, Target("local"), None)


@pytest.mark.parametrize(
    "change", [{"recorder": RecorderName.PYTORCH}, {"recorder": RecorderName.PERF_STAT}, {"language": Language.NONE}]
)
def test_nothing_is_named_where_nothing_is_sampled(change: dict[str, object]) -> None:
    spec = replace(SPEC, **change)  # type: ignore[arg-type]
    plan = make_plan(spec, Target("local"), None, "j", "/j").files
    assert python_files()["python-stubs.txt"] not in plan.values() and "PERFLOOM_NAMES" not in plan["plan.sh"]


@pytest.mark.parametrize(
    ("command", "language"),
    [
        ("/usr/bin/python3.12", Language.PYTHON),
        ("torchrun", Language.PYTHON),
        ("node", Language.NODE),
        ("/opt/jdk-21/bin/java", Language.JAVA),
        ("./a.out", None),
        ("pythonic", None),
    ],
)
def test_preflight_says_when_a_language_helps(command: str, language: Language | None) -> None:
    assert language_of(command) is language
    bare = replace(SPEC, command=(command,), language=Language.NONE)
    assert [one.field for one in find_language_problems(bare)] == (["language"] if language else [])
    if language:
        assert not list(find_language_problems(replace(bare, language=language, call_graph=CallGraph.FP)))
    assert not list(find_language_problems(replace(bare, scope=Scope.PROCESS, pid=1)))
