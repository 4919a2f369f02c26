"""What a check says: each line good, worth knowing, or with what to do."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfloom.domain.errors import HostKeyUnknown, Prompt, Refused, SecretNeeded, Unreachable
from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import MpiFlavor
from perfloom.domain.targets import BatchQueue, CheckLine, CheckStatus, SchedulerName, Ssh, Target, TargetFacts
from perfloom.recording.probe.check_report import check_lines, failure_lines
from perfloom.recording.probe.target_text import fingerprint, target_location
from tests.support.parts import require

HOST = HostFacts(
    host="node7",
    os="Debian 12",
    kernel="6.1",
    cpu="Xeon",
    cpus=8,
    user="ada",
    perf="/usr/bin/perf",
    perf_version="6.1",
    paranoid=1,
    kptr_restrict=0,
    hardware_counters=True,
    lbr=True,
    options=("-z", "-N", "--call-graph dwarf"),
    python="/usr/bin/python3",
    torch="2.13.0",
)
FACTS = TargetFacts(
    host=HOST,
    mpi_launchers={"openmpi": "mpirun"},
    versions={"openmpi": "Open MPI 4.1.4"},
    directory="/home/ada/.perfloom",
    file_system="nfs",
    runs_programs=True,
    free_bytes=10**12,
    clock_ns=3_000_000,
    clock_error_ns=400_000,
    packers=("zstd", "gzip"),
)
FAR = Target("far", ssh=Ssh("node7"))
CLUSTER = Target("big", ssh=Ssh("login"), scheduler=SchedulerName.SLURM)
BATCH = replace(
    FACTS,
    schedulers=("slurm",),
    scheduler_version="Slurm 23.11",
    queues=(BatchQueue("normal", True), BatchQueue("gpu", open=False)),
)


def said(target: Target, facts: TargetFacts, title: str) -> CheckLine | None:
    found = [line for line in check_lines(target, facts) if line.title == title]
    assert len(found) < 2
    return found[0] if found else None


def test_good_check_has_no_advice() -> None:
    lines = check_lines(FAR, FACTS)
    assert {line.light for line in lines} == {CheckStatus.GOOD} and not any(line.advice for line in lines)
    assert [line.title for line in lines] == [
        *("Connection", "perf", "Permissions", "Kernel symbols", "Hardware counters", "Call graphs"),
        *("MPI", "PyTorch", "Directory", "Compression", "Clock"),
    ]


HOST_CASES: list[tuple[dict[str, Any], str, CheckStatus, str]] = [
    ({"perf": None}, "perf", CheckStatus.BAD, "perf was not found on node7"),
    ({"perf": None, "perf_problem": "It is a signpost"}, "perf", CheckStatus.BAD, "It is a signpost."),
    ({"options": ("--call-graph dwarf",)}, "perf", CheckStatus.NOTE, "cannot compress"),
    ({"paranoid": 4}, "Permissions", CheckStatus.BAD, "only root"),
    ({"paranoid": 3, "perf_capabilities": ("cap_perfmon",)}, "Permissions", CheckStatus.GOOD, "everything"),
    ({"paranoid": 2}, "Permissions", CheckStatus.NOTE, "in user space only"),
    ({"paranoid": 0}, "Permissions", CheckStatus.GOOD, "whole CPUs"),
    ({"paranoid": None}, "Permissions", CheckStatus.NOTE, "unknown"),
    ({"root": True, "paranoid": 4}, "Permissions", CheckStatus.GOOD, "everything"),
    ({"kptr_restrict": 1}, "Kernel symbols", CheckStatus.NOTE, "have no names"),
    ({"kptr_restrict": 1, "perf_capabilities": ("cap_syslog",)}, "Kernel symbols", CheckStatus.GOOD, "have names"),
    ({"kptr_restrict": 1, "root": True}, "Kernel symbols", CheckStatus.GOOD, "have names"),
    ({"kptr_restrict": 2, "paranoid": 2}, "Kernel symbols", CheckStatus.GOOD, "Not needed"),
    ({"kptr_restrict": None}, "Kernel symbols", CheckStatus.NOTE, "unknown"),
    ({"hardware_counters": False}, "Hardware counters", CheckStatus.NOTE, "cpu-clock"),
    ({"hardware_counters": None}, "Hardware counters", CheckStatus.NOTE, "unknown whether"),
    ({"options": ("-z",)}, "Call graphs", CheckStatus.NOTE, "without an unwinder"),
    ({"lbr": False}, "Call graphs", CheckStatus.GOOD, "dwarf, frame pointers."),
    ({"perf": None}, "PyTorch", CheckStatus.GOOD, "Version 2.13.0 of /usr/bin/python3 on node7."),
    ({"torch": ""}, "PyTorch", CheckStatus.NOTE, "/usr/bin/python3 on node7 has no PyTorch."),
    ({"torch": "", "python": ""}, "PyTorch", CheckStatus.NOTE, "Python was not found"),
]


@pytest.mark.parametrize(("changes", "title", "light", "text"), HOST_CASES, ids=lambda value: str(value)[:50])
def test_of_the_host_that_records(changes: dict[str, Any], title: str, light: CheckStatus, text: str) -> None:
    line = said(FAR, replace(FACTS, host=replace(HOST, **changes)), title)
    assert line is not None and line.light is light and text in line.text
    assert bool(line.advice) or light is not CheckStatus.BAD
    # Under a batch system it is the compute node that counts.
    both = replace(BATCH, host=replace(HOST, perf=None), compute=replace(HOST, **changes), shared=True)
    of_node = said(CLUSTER, both, title)
    assert of_node is not None and of_node.light is light


PLACE_CASES: list[tuple[Target, dict[str, Any], str, CheckStatus, str]] = [
    (FAR, {"problems": {"directory": "No space left on device"}}, "Directory", CheckStatus.BAD, "No space left"),
    (FAR, {"free_bytes": 10**8}, "Directory", CheckStatus.NOTE, "95.4\u00a0MiB free"),
    (FAR, {"runs_programs": False}, "Directory", CheckStatus.NOTE, "noexec"),
    (replace(FAR, scratch="$TMPDIR"), {"problems": {"scratch": "not set"}}, "Scratch", CheckStatus.BAD, "not set"),
    (
        replace(FAR, scratch="$TMPDIR"),
        {"scratch": "/tmp", "scratch_free_bytes": 10**8},
        "Scratch",
        CheckStatus.NOTE,
        "/tmp",
    ),
    (
        replace(FAR, scratch="$TMPDIR"),
        {"scratch": "/tmp", "scratch_free_bytes": 10**11},
        "Scratch",
        CheckStatus.GOOD,
        "/tmp",
    ),
    (FAR, {"packers": ()}, "Compression", CheckStatus.NOTE, "uncompressed"),
    (FAR, {"clock_ns": None}, "Clock", CheckStatus.NOTE, "cannot be compared"),
    (FAR, {"clock_ns": -(10**10)}, "Clock", CheckStatus.NOTE, "10.0\u00a0s behind"),
    (FAR, {"clock_ns": 200_000}, "Clock", CheckStatus.GOOD, "The same"),
    (FAR, {"mpi_launchers": {}, "versions": {}}, "MPI", CheckStatus.NOTE, "were not found"),
    (
        replace(FAR, mpi=MpiFlavor.MPICH),
        {},
        "MPI",
        CheckStatus.BAD,
        "MPICH was not found on node7, only Open MPI",
    ),
    (replace(FAR, mpi=MpiFlavor.OPENMPI), {}, "MPI", CheckStatus.GOOD, "Open MPI 4.1.4"),
    (replace(FAR, modules=("gcc",)), {}, "Modules", CheckStatus.GOOD, "gcc"),
    (replace(FAR, modules=("gcc",)), {"problems": {"modules": "unknown"}}, "Modules", CheckStatus.BAD, "unknown"),
    (replace(FAR, sudo=True), {"sudo": True}, "sudo", CheckStatus.GOOD, "without a password"),
    (replace(FAR, sudo=True), {"sudo": False}, "sudo", CheckStatus.BAD, "refuses"),
    (replace(FAR, sudo=True), {}, "sudo", CheckStatus.NOTE, "Not checked"),
    (FAR, {"schedulers": ("slurm",)}, "Batch system", CheckStatus.NOTE, "Slurm is installed"),
    (FAR, {"problems": {"probe": "x"}}, "Probe", CheckStatus.NOTE, "ended early"),
]


@pytest.mark.parametrize(
    ("target", "changes", "title", "light", "text"), PLACE_CASES, ids=lambda value: str(value)[:40]
)
def test_of_the_place(target: Target, changes: dict[str, Any], title: str, light: CheckStatus, text: str) -> None:
    line = said(target, replace(FACTS, **changes), title)
    assert line is not None and line.light is light and text in line.text
    assert bool(line.advice) or light is not CheckStatus.BAD


BATCH_CASES: list[tuple[dict[str, Any], str, CheckStatus, str]] = [
    ({}, "Batch system", CheckStatus.GOOD, "Slurm 23.11 responds"),
    ({"missing": ("sbatch", "squeue")}, "Batch system", CheckStatus.BAD, "sbatch, squeue of Slurm are not found"),
    ({"problems": {"scheduler": "it is down"}}, "Batch system", CheckStatus.BAD, "it is down."),
    ({}, "Queues", CheckStatus.GOOD, "normal (default); closed: gpu"),
    ({"queues": ()}, "Queues", CheckStatus.NOTE, "No queue"),
    ({"queues": (BatchQueue("a", open=False),)}, "Queues", CheckStatus.BAD, "No queue is open"),
    ({"queues": tuple(BatchQueue(str(n)) for n in range(30))}, "Queues", CheckStatus.GOOD, "and 22 more"),
    ({}, "Compute node", CheckStatus.NOTE, "No compute node was checked yet"),
    ({"problems": {"compute": "queue is closed"}}, "Compute node", CheckStatus.BAD, "queue is closed."),
    ({"compute": HOST, "shared": True}, "Shared directory", CheckStatus.GOOD, "share the directory"),
    ({"shared": False}, "Shared directory", CheckStatus.BAD, "cannot access /home/ada"),
    ({}, "Shared directory", CheckStatus.NOTE, "it is on nfs"),
    ({"file_system": "xfs"}, "Shared directory", CheckStatus.NOTE, "unknown"),
]


@pytest.mark.parametrize(("changes", "title", "light", "text"), BATCH_CASES, ids=lambda value: str(value)[:40])
def test_of_the_batch_system(changes: dict[str, Any], title: str, light: CheckStatus, text: str) -> None:
    line = said(CLUSTER, replace(BATCH, **changes), title)
    assert line is not None and line.light is light and text in line.text
    assert bool(line.advice) or light is not CheckStatus.BAD


def test_scratch_of_a_cluster_is_that_of_its_nodes() -> None:
    target = replace(CLUSTER, scratch="$TMPDIR")
    line = said(target, replace(BATCH, problems={"scratch": "TMPDIR is not set"}), "Scratch")
    assert line is not None and line.light is CheckStatus.NOTE and "probe job" in line.advice


def test_failed_connection_has_reason() -> None:
    unknown = HostKeyUnknown("x", "node7", "node7 ssh-ed25519 AAAA", "SHA256:abc")
    secret = SecretNeeded("It wants a password.", (Prompt("p", "Password of ada"),))
    for error, text in (
        (unknown, "SHA256:abc"),
        (secret, "wants a password"),
        (Refused("The key is another."), "another"),
        (Unreachable("It does not answer."), "does not answer"),
    ):
        (line,) = failure_lines(FAR, error)
        assert (line.title, line.light) == ("Connection", CheckStatus.BAD) and text in line.text
    assert "Password of ada" in failure_lines(FAR, secret)[0].advice


def test_fingerprints_are_those_of_ssh(tmp_path: Path) -> None:
    program = require("ssh-keygen")
    subprocess.run([program, "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    line = "[node7]:2222 " + " ".join((tmp_path / "key.pub").read_text().split()[:2])
    said = subprocess.run([program, "-lf", tmp_path / "key.pub"], capture_output=True, text=True, check=True).stdout
    assert fingerprint(line) == said.split()[1]
    for text in ("", "a b", "a b ***", "a b c d"):
        assert fingerprint(text) == "" or text == "a b c d"


def test_target_location() -> None:
    assert target_location(Target("x")) == "this machine"
    ssh = Ssh("::1", user="ada", port=2222, jump=("a", "b@c:22"))
    assert target_location(Target("x", ssh=ssh)) == "ada@[::1]:2222 through a, b@c:22"
