"""Which recordings are read elsewhere with symbol tables, and what a rank writes for them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import CallGraph, JobSpec, Language, RecorderName
from perfloom.domain.targets import Ssh, Target, TargetFacts
from perfloom.recording.plan import plan as plans
from perfloom.recording.plan import symbol_tables
from perfloom.recording.plan.symbol_tables import find_least_bytes
from tests.recording.plan.conftest import MakeJob
from tests.recording.plan.jobs import PlannedJob
from tests.support.parts import require

HOST = HostFacts(host="far", options=("-N", "-z", "--no-bpf-event", "--buildid-mmap"), kernel="6.1.0")
FAR = Target("far", ssh=Ssh("far"))
PROGRAM = "int main(void) { for (volatile int i = 0; i < 30000000; i++) ; return 0; }"
SPEC = JobSpec(target="far", command=("x",), events=("cpu-clock",), call_graph=CallGraph.FP)


def test_large_recordings_over_ssh_have_tables() -> None:
    known, new = find_least_bytes(SPEC, FAR, HOST) or (0, 0)
    assert 0 < known < new


@pytest.mark.parametrize(
    "changes",
    [
        {"call_graph": CallGraph.DWARF},
        {"call_graph": CallGraph.LBR},
        {"branch_stacks": True},
        {"off_cpu": True},
        {"events": ("sched:sched_switch",)},
        {"perf_arguments": ("--call-graph=dwarf",)},
        {"sudo": True},
        {"language": Language("python")},
        {"keep_recordings": False},
        {"recorder": RecorderName.PERF_STAT},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_others_become_text(changes: dict[str, Any]) -> None:
    """Only perf can read them, or names are known only there, or the text is all that is kept."""
    assert find_least_bytes(replace(SPEC, **changes), FAR, HOST) is None


def test_targets_without_tables() -> None:
    assert find_least_bytes(SPEC, Target("local"), HOST) is None
    assert find_least_bytes(SPEC, replace(FAR, symbol_tables=False), HOST) is None
    assert find_least_bytes(SPEC, FAR, replace(HOST, kernel="5.10.0")) is None
    assert find_least_bytes(SPEC, FAR, plans.UNKNOWN_REMOTE_HOST) is None


def test_list_of_tables_has_no_other_files() -> None:
    wanted = f"{'ab' * 20}.elf"
    listed = "\n".join(
        (
            f" 12 ./tables/{wanted}.zst",
            f"  7 ./tables/{'cd' * 20}.kallsyms",
            f" 12 ./tables/../{wanted}",
            f" 12 ./tables/{wanted}.xz",
            f" x ./tables/{wanted}",
            f" 12 ./tables/{'ab' * 30}.elf",
            " 12 ./run0/all/perf.data",
        )
    )
    assert plans.parse_table_list(listed.encode() + b"\n\xff") == {
        wanted: (f"tables/{wanted}.zst", 12),
        f"{'cd' * 20}.kallsyms": (f"tables/{'cd' * 20}.kallsyms", 7),
    }


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "busy"
    subprocess.run([require("gcc"), "-x", "c", "-o", path, "-"], input=PROGRAM, text=True, check=True)
    return path


@pytest.fixture
def record(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch, program: Path) -> Callable[..., PlannedJob]:
    """A job that has ended, whose recording counts as large."""
    monkeypatch.setattr(symbol_tables, "MIN_RECORDING_BYTES", 1)
    monkeypatch.setattr(symbol_tables, "MIN_BYTES_WITH_NEW_TABLES", 1)

    def end(*command: str, **more: Any) -> PlannedJob:
        spec = replace(SPEC, command=command or (str(program),))
        job = make_job(spec=spec, target=FAR, facts=TargetFacts(HOST), **more)
        job.start().until_ended()
        return job

    return end


def test_tables_instead_of_text(record: Callable[..., PlannedJob], shell: Path, program: Path) -> None:
    job = record(shell=shell)
    assert job.state("run0/all/state")["text"] == "tables", job.log()
    assert {path.partition("/")[2] for path in job.listed()} == {"all/perf.data", "all/state"}
    # It is not converted afterwards.
    assert job.well(plans.symbolize_script(job.place)) == b""
    tables = plans.parse_table_list(job.well(plans.list_script(job.place, job.spec)))
    notes = subprocess.run([require("readelf"), "-n", program], capture_output=True, check=True).stdout.decode()
    build_id = notes.partition("Build ID: ")[2].split()[0]
    assert f"{build_id}.elf" in tables
    assert {"kallsyms", "vdso"} <= {name.partition(".")[2] for name in tables}
    assert f"{build_id} {program}" in (job.directory / "run0/all/build-ids.txt").read_text()
    assert not [path for path in (job.directory / "tables").iterdir() if path.name.startswith(".")]


def test_ranks_write_the_same_tables_at_once(record: Callable[..., PlannedJob]) -> None:
    job = record()
    before = {path.name: path.read_bytes() for path in (job.directory / "tables").iterdir()}
    shutil.rmtree(job.directory / "tables")
    script = """
        . "$1/common.sh" && . "$1/plan.sh" || exit
        pl_number() { :; }
        pl_find_host
        pl_state=$2/state
        pl_write_tables "$2"
    """
    ranks = []
    for rank in range(3):
        shutil.copytree(job.directory / "run0/all", job.directory / f"run0/{rank}")
        argv = ["sh", "-c", f"pl_directory=$1\n{script}", "sh", job.directory, job.directory / f"run0/{rank}"]
        ranks.append(subprocess.Popen(argv))
    assert [rank.wait(60) for rank in ranks] == [0, 0, 0]
    assert {path.name: path.read_bytes() for path in (job.directory / "tables").iterdir()} == before


def test_small_recording_has_no_new_tables(record: Callable[..., PlannedJob], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbol_tables, "MIN_BYTES_WITH_NEW_TABLES", 1 << 30)
    job = record()
    assert job.state("run0/all/state")["text"] == "ok", job.log()
    assert list((job.directory / "tables").iterdir()) == []


def test_names_that_are_known_only_there_need_text(
    record: Callable[..., PlannedJob], program: Path, tmp_path: Path
) -> None:
    """A binary that is gone, and one without a build id."""
    gone, unnamed = tmp_path / "gone", tmp_path / "unnamed"
    argv = [require("gcc"), "-Wl,--build-id=none", "-x", "c", "-o", unnamed, "-"]
    subprocess.run(argv, input=PROGRAM, text=True, check=True)
    for command in (f"cp {program} {gone}; {gone}; rm {gone}", str(unnamed)):
        job = record("sh", "-c", command)
        assert job.state("run0/all/state")["text"] == "ok", (command, job.log())
        assert "run0/all/perf.script.zst" in job.listed()
