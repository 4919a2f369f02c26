"""The command lines of MPI launchers, for installed implementations and others."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import Batch, JobSpec, Mpi, MpiFlavor
from perfloom.domain.targets import Target, TargetFacts
from perfloom.recording.mpi.base import launcher_programs
from perfloom.recording.mpi.hydra import LOCALHOST
from perfloom.recording.mpi.registry import MPI_LAUNCHERS, mpi_launcher_of
from perfloom.recording.plan import plan as plans
from perfloom.recording.quoting import join
from tests.support.parts import require

NO_BATCH = Batch()


def words(mpi: Mpi, *, batch: Batch = NO_BATCH, **known: str) -> list[str]:
    """The words after expansion with these variables."""
    spec = JobSpec(command=("x",), mpi=mpi, batch=batch)
    text = join(mpi_launcher_of(mpi.flavour).arguments(spec, mpi))
    script = "".join(f"pl_{name}='{value}'\n" for name, value in known.items()) + f'printf "%s\\n" {text}'
    return subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()


def test_every_mpi_implementation_has_a_launcher() -> None:
    assert set(MPI_LAUNCHERS) == set(MpiFlavor)
    assert all(
        starter.implementation is flavour and starter.title and starter.program_names
        for flavour, starter in MPI_LAUNCHERS.items()
    )


@pytest.mark.parametrize(
    ("flavour", "expected"),
    [
        (MpiFlavor.OPENMPI, ["-g", "-n", "8", "--map-by", "ppr:4:node", "-r"]),
        (MpiFlavor.SPECTRUM, ["-g", "-n", "8", "--map-by", "ppr:4:node", "-r"]),
        (MpiFlavor.MPICH, ["-g", "-ppn", "4", "-n", "8", "-r"]),
        (MpiFlavor.INTEL, ["-g", "-ppn", "4", "-n", "8", "-r"]),
        (MpiFlavor.PLATFORM, ["-g", "-np", "8", "-r"]),
        (MpiFlavor.SRUN, ["-g", "-n", "8", "--ntasks-per-node=4", "-r"]),
    ],
)
def test_ranks_and_arguments(flavour: MpiFlavor, expected: list[str]) -> None:
    assert words(Mpi(flavour, 8, 4, arguments=("-g",), rank_arguments=("-r",))) == expected


def test_host_dependent_arguments() -> None:
    mpi = Mpi(MpiFlavor.OPENMPI, 2)
    assert words(mpi, root="1", crowded="1") == ["--allow-run-as-root", "--oversubscribe", "-n", "2"]
    assert words(mpi, hostfile="/a b", blaunch="1") == (
        ["--hostfile", "/a b", "--mca", "plm_rsh_agent", "blaunch", "-n", "2"]
    )
    assert words(Mpi(MpiFlavor.MPICH, 2), hostfile="/a b", root="1") == ["-f", "/a b", "-n", "2"]
    assert words(Mpi(MpiFlavor.SRUN, 2), pmi="pmi2") == ["--mpi=pmi2", "-n", "2"]
    assert words(Mpi(MpiFlavor.SRUN, 2), batch=Batch(cpus=3)) == ["-n", "2", "--cpus-per-task=3"]


@pytest.mark.parametrize(
    ("flavour", "given", "absent"),
    [
        (MpiFlavor.OPENMPI, ("--host", "a"), "--hostfile"),
        (MpiFlavor.OPENMPI, ("--map-by", "core"), "ppr:4:node"),
        (MpiFlavor.OPENMPI, ("--nooversubscribe",), "--oversubscribe"),
        (MpiFlavor.MPICH, ("-hosts", "a"), "-f"),
        (MpiFlavor.INTEL, ("-perhost", "2"), "-ppn"),
        (MpiFlavor.SRUN, ("--mpi=pmix_v3",), "--mpi=pmi2"),
        (MpiFlavor.SRUN, ("--ntasks-per-node=1",), "--ntasks-per-node=4"),
    ],
)
def test_user_options_are_not_repeated(flavour: MpiFlavor, given: tuple[str, ...], absent: str) -> None:
    known = {"root": "1", "hostfile": "/h", "crowded": "1", "blaunch": "1", "pmi": "pmi2"}
    said = words(Mpi(flavour, 8, 4, arguments=given), **known)
    assert absent not in said and set(given) <= set(said)


def test_launcher_program_precedence() -> None:
    starter = mpi_launcher_of(MpiFlavor.MPICH)
    mpi, target = Mpi(MpiFlavor.MPICH), Target("t", starters={"mpich": "of target"})
    facts = TargetFacts(HostFacts(host=""), mpi_launchers={"mpich": "of facts"})
    assert launcher_programs(starter, replace(mpi, program="own"), target, facts) == ("own",)
    assert launcher_programs(starter, mpi, target, facts) == ("of target",)
    assert launcher_programs(starter, mpi, Target("t"), facts) == ("of facts",)
    assert launcher_programs(starter, mpi, Target("t"), None) == starter.program_names


def functions(tmp_path: Path, mpi: Mpi) -> str:
    """The functions of job.sh that run before the ranks, and what they need."""
    plan = plans.make_plan(JobSpec(command=("x",), mpi=mpi), Target("t"), None, "x" * 12, str(tmp_path))
    for name, text in plan.files.items():
        (tmp_path / name).write_text(text)
    job = plan.files["job.sh"]
    body = job[job.index("# pl_find_launcher NAME") : job.index("pl_become() {")]
    start = (
        f'pl_directory={tmp_path}\n. "$pl_directory/common.sh"\n. "$pl_directory/plan.sh"\npl_state={tmp_path}/noted\n'
    )
    return start + body


def sh(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, env={**os.environ, **environment}, timeout=30
    )


def tool(folder: Path, name: str, says: str, status: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
    (folder / name).chmod(0o755)


def test_launcher_is_selected_by_version_pattern(tmp_path: Path) -> None:
    """mpirun may belong to any MPI implementation."""
    tools = tmp_path / "tools"
    tool(tools, "mpirun", "mpirun (Open MPI) 4.1.4")
    tool(tools, "mpiexec.hydra", "HYDRA build details:")
    script = functions(tmp_path, Mpi(MpiFlavor.MPICH)) + 'pl_launchers pl_find_launcher; echo "$pl_launcher"'
    done = sh(script, PATH=f"{tools}:/usr/bin/../bin")
    assert done.stdout.strip() in ("mpiexec.hydra", "mpirun.mpich") and done.stderr == ""
    tool(tools, "mpirun", "something else")
    script = (
        functions(tmp_path, Mpi(MpiFlavor.INTEL)) + 'PATH=$pl_path; pl_launchers pl_find_launcher; echo "$pl_launcher"'
    )
    done = sh(script, PATH=f"{tools}:/usr/bin")
    assert done.stdout == "mpirun\n"
    assert (tmp_path / "noted").read_text() == (
        "note mpirun does not report that it belongs to Intel MPI, but was used.\n"
    )


@pytest.mark.parametrize(
    ("libraries", "flavour", "linked", "noted"),
    [
        ("libmpi.so.40 => /x libopen-pal.so.40 => /y", MpiFlavor.OPENMPI, "openmpi", False),
        ("libmpi.so.12 => /x libopen-pal.so.13 => /y", MpiFlavor.OPENMPI, "openmpi", False),
        ("libmpich.so.12 => /x", MpiFlavor.OPENMPI, "mpich", True),
        ("libmpi.so.12 => /intel", MpiFlavor.INTEL, "mpich", False),
        ("libmpi.so.12 => /intel", MpiFlavor.MPICH, "mpich", False),
        ("libmpi_ibm.so.3 => /x libopen-pal.so.3 => /y", MpiFlavor.SPECTRUM, "spectrum", False),
        ("libmpi.so.40 => /x", MpiFlavor.MPICH, "openmpi", True),
        ("libc.so.6 => /x", MpiFlavor.MPICH, "", False),
    ],
)
def test_mpi_library_is_detected(tmp_path: Path, libraries: str, flavour: MpiFlavor, linked: str, noted: bool) -> None:
    script = (
        functions(tmp_path, Mpi(flavour)) + f"ldd() {{ echo '{libraries}'; }}\npl_check_program sh; echo \"$pl_linked\""
    )
    done = sh(script)
    assert done.stdout == f"{linked}\n"
    assert ((tmp_path / "noted").exists() and "the only one" in (tmp_path / "noted").read_text()) is noted


def test_a_program_without_ldd_is_looked_into(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF\0\0libmpich.so.12\0libc.so.6\0")
    program.chmod(0o755)
    script = functions(tmp_path, Mpi(MpiFlavor.OPENMPI)) + f"ldd() {{ return 1; }}\npl_check_program {program}"
    sh(script)
    assert "built with MPICH or Intel MPI, but started by Open MPI" in (tmp_path / "noted").read_text()


@pytest.mark.parametrize(
    ("libraries", "offered", "expected"),
    [
        ("libmpi.so.40", "cray_shasta none pmi2 pmix pmix_v4", "pmix"),
        ("libmpi.so.40", "none pmi2", "pmi2"),
        ("libmpich.so.12", "none, pmi2, pmix", "pmi2"),
        ("libc.so.6", "none pmi2 pmix", ""),
    ],
)
def test_srun_pmi_is_selected(tmp_path: Path, libraries: str, offered: str, expected: str) -> None:
    tool(tmp_path / "tools", "srun", f"MPI plugin types are... {offered}")
    script = functions(tmp_path, Mpi(MpiFlavor.SRUN)) + f"ldd() {{ echo '{libraries}'; }}\n"
    done = sh(
        f'{script}pl_launcher={tmp_path}/tools/srun; pl_pmi=; pl_check_program sh; pl_prepare_launcher; echo "$pl_pmi"'
    )
    assert done.stdout.strip() == expected


def test_the_situation_of_a_batch_job(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("a\na\n")
    tool(tmp_path / "tools", "blaunch", "")
    show = 'pl_find_situation; echo "$pl_hostfile|$pl_blaunch|$pl_crowded"'
    script = functions(tmp_path, Mpi(MpiFlavor.OPENMPI, 5000)) + "pl_note() { :; }\n" + show
    path = f"{tmp_path}/tools:{os.environ['PATH']}"
    assert sh(script, LSB_JOBID="1", LSB_DJOB_HOSTFILE=str(hosts), PATH=path).stdout == f"{hosts}|1|\n"
    assert sh(script, LSB_JOBID="1", LSB_DJOB_HOSTFILE="/no/such").stdout.startswith("||")
    assert sh(script, SLURM_JOB_ID="1").stdout == "||\n"
    assert sh(script).stdout == "||1\n"
    assert sh(functions(tmp_path, Mpi(MpiFlavor.OPENMPI, 1)) + show).stdout == "||\n"


@pytest.mark.parametrize(
    ("ranks", "variables", "usable", "unbound"),
    [
        (4, {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "1"}, "1", True),
        (4, {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "4"}, "1", False),
        (5, {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "4"}, "1", True),
        (1, {"SLURM_JOB_ID": "1"}, "1", False),
        (2, {"LSB_JOBID": "1"}, "1", True),
        (2, {"LSB_JOBID": "1", "LSB_DJOB_HOSTFILE": "{hosts}"}, "1", False),
        (3, {"LSB_JOBID": "1", "LSB_DJOB_HOSTFILE": "{hosts}"}, "1", True),
        (9999, {}, "1", False),
    ],
)
def test_ranks_that_share_cores_in_a_batch_job_are_not_bound(
    tmp_path: Path, ranks: int, variables: dict[str, str], usable: str, unbound: bool
) -> None:
    """Open MPI 5 would refuse to start them. A note has the advice."""
    hosts = tmp_path / "hosts"
    hosts.write_text("a\nb\na\n")
    tool(tmp_path / "tools", "nproc", usable)
    script = f'{functions(tmp_path, Mpi(MpiFlavor.OPENMPI, ranks))}pl_host=h\npl_note() {{ echo "$1" >&2; }}\n'
    batch = {name: value.format(hosts=hosts) for name, value in variables.items()}
    done = sh(f'{script}pl_find_situation; echo "$pl_unbound"', **batch, PATH=f"{tmp_path}/tools:{os.environ['PATH']}")
    assert done.stdout == ("1\n" if unbound else "\n")
    assert ("request more CPUs or nodes" in done.stderr) is unbound


@pytest.mark.parametrize(
    ("resolved", "nodes", "flavour", "expected"),
    [
        (True, "1", MpiFlavor.MPICH, ("", "")),
        (False, "1", MpiFlavor.MPICH, ("-localhost localhost", "")),
        (False, "1", MpiFlavor.INTEL, ("-localhost localhost", "")),
        (False, "2", MpiFlavor.MPICH, ("", "cannot be resolved here")),
        (False, "1", MpiFlavor.OPENMPI, ("", "")),
    ],
)
def test_hydra_in_slurm_on_a_host_whose_name_cannot_be_resolved(
    tmp_path: Path, resolved: bool, nodes: str, flavour: MpiFlavor, expected: tuple[str, str]
) -> None:
    """Its proxies would try to reach that name forever."""
    tool(tmp_path / "tools", "getent", "", status=0 if resolved else 2)
    show = f'pl_find_situation; set -- {LOCALHOST}; echo "$*"'
    script = f'{functions(tmp_path, Mpi(flavour))}pl_note() {{ echo "$1" >&2; }}\n{show}'
    done = sh(script, SLURM_JOB_ID="1", SLURM_JOB_NUM_NODES=nodes, PATH=f"{tmp_path}/tools:{os.environ['PATH']}")
    assert (done.stdout.strip(), expected[1] in done.stderr) == (expected[0], True)
    assert bool(done.stderr) == bool(expected[1])


RANKS = """pl_host=h; pl_rank= pl_size= pl_notes=
pl_find_rank; echo "$pl_rank/$pl_size/${pl_notes:+noted}"
"""


@pytest.mark.parametrize(
    ("flavour", "variables", "expected"),
    [
        ("openmpi", {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "SLURM_PROCID": "0"}, "3/4/"),
        ("openmpi", {"PMIX_RANK": "5", "SLURM_PROCID": "0", "SLURM_NTASKS": "9"}, "5//"),
        ("mpich", {"PMI_RANK": "2", "PMI_SIZE": "8", "SLURM_PROCID": "0", "OMPI_COMM_WORLD_RANK": "7"}, "2/8/"),
        ("intel", {"PMI_RANK": "0", "PMI_SIZE": "1"}, "0/1/"),
        ("platform", {"MPI_RANKID": "6", "MPI_NRANKS": "7"}, "6/7/"),
        ("srun", {"SLURM_PROCID": "1", "SLURM_NTASKS": "9", "SLURM_STEP_NUM_TASKS": "4", "PMI_RANK": "1"}, "1/4/"),
        ("openmpi", {"PMI_RANK": "2", "PMI_SIZE": "8"}, "2/8/"),
        ("mpich", {"SLURM_PROCID": "2", "SLURM_NTASKS": "8"}, "//noted"),
        ("openmpi", {"OMPI_COMM_WORLD_RANK": "$(touch x)"}, "//noted"),
        ("mpich", {"PMI_RANK": "1", "PMI_SIZE": "many"}, "1//"),
    ],
)
def test_rank_number_is_detected(tmp_path: Path, flavour: str, variables: dict[str, str], expected: str) -> None:
    spec = JobSpec(command=("x",), mpi=Mpi(MpiFlavor(flavour)))
    files = plans.make_plan(spec, Target("t"), None, "x" * 12, "/d/x").files
    rank = files["rank.sh"]
    body = rank[rank.index("# pl_number TEXT") : rank.index("# Whether this rank is selected")]
    clean = {"PATH": os.environ["PATH"], **variables}
    done = subprocess.run(
        ["/bin/sh", "-c", files["plan.sh"] + body + RANKS], capture_output=True, text=True, env=clean, cwd=tmp_path
    )
    assert (done.stdout, list(tmp_path.iterdir())) == (f"{expected}\n", [])


def test_real_libraries_are_known(tmp_path: Path) -> None:
    for name, linked in (("ompi_info", "openmpi"), ("mpichversion", "mpich")):
        require(linked)
        script = functions(tmp_path, Mpi(MpiFlavor.SRUN)) + "pl_launcher=true\n"
        done = sh(f'{script}pl_check_program {name}; echo "$pl_linked"')
        assert done.stdout.strip() == linked


@pytest.mark.parametrize(
    ("flavour", "arguments", "option"),
    [
        *[(MpiFlavor.OPENMPI, words, words[-1]) for words in (("--hostfile",), ("-H",), ("--tag-output", "-x"))],
        (MpiFlavor.OPENMPI, ("--bind-to", "core", "--mca", "btl"), "--mca"),
        (MpiFlavor.SPECTRUM, ("-x", "A", "-x"), "-x"),
        (MpiFlavor.MPICH, ("-genv", "A"), "-genv"),
        (MpiFlavor.MPICH, ("--hosts",), "--hosts"),
        (MpiFlavor.INTEL, ("-print-rank-map", "-perhost"), "-perhost"),
        (MpiFlavor.PLATFORM, ("-prot", "-e"), "-e"),
        *[
            (MpiFlavor.SRUN, words, words[-1])
            for words in (("--dependency",), ("--depend",), ("-w",), ("-lw",), ("--label", "--cpu-bind"), ("--wait",))
        ],
    ],
    ids=str,
)
@pytest.mark.parametrize("field", ["mpi_arguments", "rank_arguments"])
def test_an_option_without_its_value(flavour: MpiFlavor, arguments: tuple[str, ...], option: str, field: str) -> None:
    """An argument of Perfloom would become its value: the number of ranks, or the command of each."""
    name = field.removeprefix("mpi_")
    spec = JobSpec(command=("x",), mpi=replace(Mpi(flavour, 2), **{name: arguments}))
    with pytest.raises(InvalidRequest, match=f"'{option}' .* needs") as refused:
        plans.require_plannable(spec, Target("t"))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("flavour", "arguments"),
    [
        (MpiFlavor.OPENMPI, ("--mca", "btl", "self,vader", "-x", "LC_ALL", "--tag-output")),
        (MpiFlavor.OPENMPI, ("--host", "--host")),
        (MpiFlavor.OPENMPI, ("--of-later",)),
        (MpiFlavor.MPICH, ("-genv", "A", "-f", "-prepend-rank")),
        (MpiFlavor.PLATFORM, ("-e", "A=b", "-prot")),
        (MpiFlavor.SRUN, ("-w", "n1", "-wn1", "-l", "-K", "--pty", "--cpu-bind=none", "--kill-on-bad-exit", "-ul")),
    ],
    ids=str,
)
def test_option_values_are_counted(flavour: MpiFlavor, arguments: tuple[str, ...]) -> None:
    plans.require_plannable(JobSpec(command=("x",), mpi=Mpi(flavour, 2, arguments=arguments)), Target("t"))


def _values(text: str, pattern: str, value: str) -> dict[str, int]:
    """The options of a launcher's help with the number of their values."""
    found = {}
    for names, values in re.findall(pattern, text, re.M):
        found |= dict.fromkeys(re.split(r"[|/]", names), len(re.findall(value, values)))
    return found


def test_values_are_those_that_open_mpi_tells() -> None:
    program = require("mpirun.openmpi")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run([program, "--help", "all"], env={**os.environ, **root}, capture_output=True, text=True)
    if "unknown option" in done.stdout + done.stderr:
        pytest.skip("Open MPI 5 lists no options in its help")
    told = _values(done.stdout + done.stderr, r"^ +(-[-|\w]+)((?: <arg\d>)*)", r"<arg\d>")
    assert len(told) > 50 and 2 in told.values()
    starter = mpi_launcher_of(MpiFlavor.OPENMPI)
    assert {option: starter.value_count(option) for option in told} == told


def test_values_are_those_that_hydra_tells() -> None:
    """Its help lists the values, except for its own options."""
    done = subprocess.run([require("mpiexec.hydra"), "--help"], capture_output=True, text=True)
    told = _values(done.stdout, r"^ +(-[-/\w]+)((?: \{[^}]*\})+)", r"\{")
    assert len(told) > 6 and 2 in told.values()
    starter = mpi_launcher_of(MpiFlavor.MPICH)
    assert {option: starter.value_count(option) for option in told} == told
