"""What the last check of a target speaks against a job there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import Batch, JobSpec, Mpi, MpiFlavor
from perfloom.domain.targets import BatchQueue, SchedulerName, Ssh, Target, TargetFacts
from perfloom.recording.fields.preflight import check_job
from perfloom.recording.fields.target_preflight import check_at_target
from perfloom.recording.recorders.preflight import Severity

CLUSTER = Target("cluster", ssh=Ssh("login"), scheduler=SchedulerName.SLURM, sudo=True)
FACTS = TargetFacts(
    host=HostFacts("login1"),
    compute=HostFacts("node1"),
    mpi_launchers={"openmpi": "/usr/bin/mpirun"},
    queues=(BatchQueue("debug", default=True, wall_time_s=3600), BatchQueue("long"), BatchQueue("shut", open=False)),
    directory="/home/me/.perfloom",
    shared=True,
    free_bytes=1 << 40,
    sudo=True,
)
SPEC = JobSpec(command=("x",), target="cluster")


def said(spec: JobSpec, facts: TargetFacts | None = FACTS, target: Target = CLUSTER) -> dict[str, str]:
    return {f"{found.level} {found.field}": found.message for found in check_at_target(spec, target, facts)}


def test_valid_job_at_target_has_no_findings() -> None:
    job = replace(SPEC, mpi=Mpi(MpiFlavor.OPENMPI, 4), batch=Batch("long", wall_time_s=7200), sudo=True)
    assert said(job) == {}
    assert said(SPEC, None, Target("local")) == {}
    assert said(SPEC, FACTS, Target("local")) == {}


def test_unchecked_target() -> None:
    assert list(said(SPEC, None)) == ["hint target"]


def test_relative_program_is_reported() -> None:
    typed = replace(SPEC, command=("./solver", "in.txt"))
    assert "searched in the job's directory on “cluster”" in said(typed)["warning command"]
    assert list(said(typed, None)) == ["warning command", "hint target"]
    for fine in (
        replace(typed, cwd="/home/me"),
        replace(typed, inputs=("/here/solver",)),
        replace(SPEC, command=("bin/solver",), inputs=("/here/bin",)),
        replace(SPEC, command=("/usr/bin/env", "x")),
        replace(SPEC, command=()),
    ):
        assert said(fine) == {}
    assert said(typed, FACTS, Target("local")) == {}


@pytest.mark.parametrize(
    ("batch", "field", "part"),
    [
        (Batch("gpu"), "warning queue", "no partition gpu"),
        (Batch("debug,gpu"), "warning queue", "no partition debug,gpu"),
        (Batch("shut"), "warning queue", "was closed when"),
        (Batch(wall_time_s=3601), "warning wall_time", "debug has a time limit of 60 min"),
    ],
)
def test_queues(batch: Batch, field: str, part: str) -> None:
    found = said(replace(SPEC, batch=batch))
    assert list(found) == [field] and part in found[field].replace("\u00a0", " ")
    assert said(replace(SPEC, batch=Batch("debug,long"))) == {}
    # Without queues in the facts (the check did not ask for them) there are no findings.
    assert said(replace(SPEC, batch=batch), replace(FACTS, queues=())) == {}


def test_an_mpi_that_was_not_found() -> None:
    spec = replace(SPEC, mpi=Mpi(MpiFlavor.INTEL, 4))
    assert said(spec) == {"warning mpi": "The check of “cluster” found no Intel MPI; it found Open MPI."}
    assert "no other MPI" in said(spec, replace(FACTS, mpi_launchers={}))["warning mpi"]
    assert list(said(replace(spec, modules=("impi",)))) == ["hint mpi"]
    assert said(replace(spec, mpi=Mpi(MpiFlavor.INTEL, 4, program="/opt/mpiexec"))) == {}
    assert said(spec, target=replace(CLUSTER, starters={"intel": "/opt/mpiexec"})) == {}


def test_modules_without_a_module_command() -> None:
    none = replace(FACTS, module_command=False)
    own = replace(CLUSTER, modules=("intel",))
    assert "the module gcc/12 cannot be loaded" in said(replace(SPEC, modules=("gcc/12",)), none)["warning modules"]
    assert "the module intel cannot be loaded" in said(SPEC, none, own)["warning target"]
    unknown = replace(FACTS, module_command=True, problems={"modules": "No module intel."})
    assert said(SPEC, unknown, own)["warning target"].endswith("last check: No module intel.")
    assert said(SPEC, none) == said(SPEC, unknown) == {}
    for facts in (replace(none, module_command=None), replace(none, module_command=True)):
        assert said(replace(SPEC, modules=("gcc/12",)), facts, own) == {}


@pytest.mark.parametrize("name", ["PERFLOOM_JOB", "PERFLOOM_OF_LATER", "pl_id"])
def test_reserved_variable_is_reported_before_submission(name: str) -> None:
    found = check_job(replace(SPEC, environment={name: "x"}), CLUSTER, None, FACTS).findings
    assert [one.field for one in found if one.level is Severity.ERROR] == ["environment"]
    found = check_job(SPEC, replace(CLUSTER, environment={name: "x"}), None, FACTS).findings
    assert [one.field for one in found if one.level is Severity.ERROR] == ["target"]


def test_the_directory_and_what_is_missing() -> None:
    assert list(said(SPEC, replace(FACTS, compute=None))) == ["hint target"]
    assert "not the same" in said(SPEC, replace(FACTS, shared=False))["warning target"]
    assert "sbatch" in said(SPEC, replace(FACTS, missing=("sbatch",)))["warning target"]
    assert "512 MiB" in said(SPEC, replace(FACTS, free_bytes=1 << 29))["warning target"].replace("\u00a0", " ")
    assert "sudo" in said(replace(SPEC, sudo=True), replace(FACTS, sudo=False))["warning sudo"]


def test_every_target_finding_has_advice() -> None:
    bad = replace(FACTS, compute=None, shared=False, missing=("sbatch",), free_bytes=1, sudo=False, mpi_launchers={})
    bad = replace(bad, module_command=False)
    spec = replace(SPEC, mpi=Mpi(MpiFlavor.SRUN, 4), batch=Batch("gone"), sudo=True, modules=("gcc",))
    found = check_at_target(spec, CLUSTER, bad)
    assert len(found) == 7
    assert all(one.advice and one.message[-1] == "." and one.level is not Severity.ERROR for one in found)
