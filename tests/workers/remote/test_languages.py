"""Functions of interpreters have names in results, wherever the job runs."""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfloom.analysis.core.schema import records
from perfloom.analysis.stacks.hotspots import compute_hotspots
from perfloom.domain.jobs import CallGraph, JobState, Language, Mpi, MpiFlavor
from perfloom.domain.selection import Selection
from perfloom.domain.targets import SchedulerName, Target, TargetFacts
from perfloom.store import Job
from perfloom.workers.base.context import JobContext
from perfloom.workers.transports import close_all
from tests.support import sshd as servers
from tests.support.batch import BatchSystem
from tests.support.marks import slow_except
from tests.support.parts import require
from tests.support.paths import DATA
from tests.support.sshd import Sshd
from tests.workers.remote.driving import at, files_of, is_cleaned_up, run

PLACES = ("here", "ssh", "ssh, slurm and srun", "openmpi", "openmpi, one recording per host")
PROGRAM = """
def inner(n):
    return sum(i * i % 7 for i in range(n))
def outer():
    for _ in range(1500):
        inner(2000)
outer()
"""
NODE_PROGRAM = """
function leafWork(n) { let t = 0; for (let i = 0; i < n; i++) t += Math.sqrt(i % 7); return t }
function outerWork() { let t = 0; for (let i = 0; i < 9000; i++) t += leafWork(20000 + (i & 1)); return t }
outerWork()
console.log("process", process.pid)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    with servers.sshd() as found:
        yield found
    close_all()


@pytest.mark.parametrize("place", slow_except(["here", "ssh"], PLACES))
def test_python_functions(request: pytest.FixtureRequest, context: JobContext, tmp_path: Path, place: str) -> None:
    target = Target(place, directory=str(tmp_path / "jobs"), scratch=str(tmp_path / "scratch"), poll_s=0.4)
    if place.startswith("ssh"):
        server: Sshd = request.getfixturevalue("server")
        target = replace(target, ssh=server.ssh(), directory=str(server.home / "jobs"))
    if "slurm" in place:
        batch: BatchSystem = request.getfixturevalue("slurm")
        environment = {"PATH": f"{batch.path}:/usr/local/bin:/usr/bin:/bin", **batch.environment}
        target = replace(target, scheduler=SchedulerName.SLURM, environment=environment)
    context.store.targets.save(target)
    context.store.targets.save_check(target.name, TargetFacts(context.facts(), clock_ns=0), ())
    mpi = Mpi(MpiFlavor.SRUN, ranks=2) if "slurm" in place else None
    if "openmpi" in place:
        require("openmpi")
        mpi = Mpi(MpiFlavor.OPENMPI, ranks=2, per_host="host" in place)
    # A module of the user's own directory is still found, and its own sitecustomize.
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('own sitecustomize', flush=True)")
    given = {"environment": {"PYTHONPATH": str(own)}, "language": Language.PYTHON, "frequency": 499, "mpi": mpi}
    job = run(context, at(target, sys.executable, "-c", PROGRAM, **given), 60)
    assert (job.state, job.result_id, job.reason) == (JobState.STORED, job.id, None), files_of(context, job).tail()
    assert is_cleaned_up(job) and list((tmp_path / "scratch").iterdir()) == []
    assert files_of(context, job).tail().count("own sitecustomize") == (2 if mpi else 1)
    profile = context.store.results.open(job.id)
    assert "did not name" not in str(profile.meta.facts)
    rows = records(compute_hotspots(profile, Selection(show="^py::")))
    by_name = {row["name"]: row for row in rows}
    # The functions of the program, by their self time with all that they call in the interpreter.
    assert rows[0]["name"] in ("py::inner:<string>", "py::inner.<locals>.<genexpr>:<string>"), rows[:5]
    # The kernel may copy less of a deep stack than there is.
    assert by_name["py::outer:<string>"]["total"] > 0.8 * by_name["py::inner:<string>"]["total"] > 0
    if mpi and not mpi.per_host:
        assert set(profile.threads.column("rank").to_pylist()) == {0, 1}


def find_heaviest(context: JobContext, job: Job) -> dict[str, Any]:
    """The function with the most self time of a job that was stored. Its map of symbols was removed."""
    assert (job.state, job.result_id, job.reason) == (JobState.STORED, job.id, None), files_of(context, job).tail()
    assert is_cleaned_up(job)
    (pid,) = re.findall(r"^process (\d+)$", files_of(context, job).tail(), re.MULTILINE)
    assert not Path(f"/tmp/perf-{pid}.map").exists()
    rows = records(compute_hotspots(context.store.results.open(job.id), Selection()))
    return max(rows, key=lambda row: row["self"])


@pytest.mark.parametrize("place", ["here", "ssh"])
def test_node_functions(request: pytest.FixtureRequest, context: JobContext, tmp_path: Path, place: str) -> None:
    node = str(require("node"))
    target = Target(place, directory=str(tmp_path / 'a "b" c'), poll_s=0.4)
    if place == "ssh":
        server: Sshd = request.getfixturevalue("server")
        target = replace(target, ssh=server.ssh(), directory=str(server.home / "a b"))
    context.store.targets.save(target)
    context.store.targets.save_check(target.name, TargetFacts(context.facts(), clock_ns=0), ())
    # Of no process of the job.
    other = Path("/tmp/perf-99999999.map")
    other.touch()
    try:
        given = {"language": Language.NODE, "frequency": 499, "call_graph": CallGraph.FP}
        job = run(context, at(target, node, "-e", NODE_PROGRAM, **given), 60)
        assert other.exists()
    finally:
        other.unlink()
    heaviest = find_heaviest(context, job)
    # The compiler may inline leafWork.
    assert "Work [eval]" in heaviest["name"] and heaviest["kind"] == "jit", heaviest


def test_java_methods(context: JobContext, tmp_path: Path) -> None:
    java = str(require("java"))
    target = Target("here", directory=str(tmp_path / "a b"), poll_s=0.4)
    context.store.targets.save(target)
    context.store.targets.save_check(target.name, TargetFacts(context.facts(), clock_ns=0), ())
    given = {"language": Language.JAVA, "frequency": 499, "call_graph": CallGraph.FP}
    job = run(context, at(target, java, "-cp", str(DATA / "java"), "Work", "6000", **given), 60)
    heaviest = find_heaviest(context, job)
    assert "Work.leafWork" in heaviest["name"] and heaviest["kind"] == "jit", heaviest
