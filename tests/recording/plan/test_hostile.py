"""Hostile texts in every field of a job and of its target arrive as they are, and nothing of them is executed."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import Batch, EventSplitting, JobSpec, Mpi, MpiFlavor
from perfloom.domain.targets import SchedulerName, Ssh, Target, TargetFacts
from perfloom.recording.plan import plan as plans
from tests.recording.plan.conftest import MakeJob
from tests.support.parts import require

SHOW = 'printf "<%s>" "$@" "$A" "$PWD" "$LD_LIBRARY_PATH" "$PATH"; printf "\\n"; exit 3'


def hostile(mark: Path) -> str:
    """Everything that a shell may stumble over, and a file that is there afterwards if it did."""
    return (
        f"$(touch {mark}) `touch {mark}` '; touch {mark}; ' \"; touch {mark}; \" \\ * ~ # & | < > \n größe\N{SNOWMAN}"
    )


NAME = "$(touch hurt) `touch hurt` '; touch hurt; ' \"; touch hurt; \" \\ * ~ # & | < > \n -n größe\N{SNOWMAN}"
"""The same for a name of a file or directory."""


def unhurt(tmp_path: Path) -> bool:
    """Whether nothing was executed, wherever that would have been."""
    places = (Path("/"), Path.cwd(), Path.home())
    marks = [*tmp_path.rglob("hurt"), *tmp_path.rglob("mark"), *(place / "hurt" for place in places)]
    return not any(mark.exists() for mark in marks)


def test_job_text_is_never_executed(make_job: MakeJob, shell: Path, tmp_path: Path) -> None:
    require("perf")
    mark = tmp_path / "mark"
    bad = hostile(mark)
    place = tmp_path / NAME
    (place / "cwd").mkdir(parents=True)
    job = make_job(
        "sh",
        "-c",
        SHOW,
        bad,
        f"{{run}} {bad}",
        "",
        "-x",
        directory=place / "job",
        shell=shell,
        target=Target("far", environment={"T": bad}, scratch=f"{place}/scratch".replace("$", "${DOLLAR}")),
        host_environment={"DOLLAR": "$"},
        environment={"A": bad},
        cwd=str(place / "cwd"),
        path=(f"/{bad}",),
        library_path=(f"/{bad}/lib", "/b"),
        splitting=EventSplitting.SEQUENTIAL,
        events=("task-clock:u", "cpu-clock:u"),
        events_per_run=1,
    ).start()
    sight = job.until_ended()
    assert unhurt(tmp_path)
    assert [run.exit_status for run in sight.runs] == [3, 3], job.log()
    said = job.output.decode()
    for run in (0, 1):
        words = [f"{run} {bad}", "", "-x", bad, str(place / "cwd"), f"/{bad}/lib:/b"]
        assert "".join(f"<{word}>" for word in words) in said and f"/{bad}:" in said
    assert {"run0/all/perf.data", "run1/all/perf.data"} <= set(job.listed()), job.log()
    job.end(gently=True)
    job.well(plans.symbolize_script(job.place))
    job.well(plans.remove_script(job.place))
    assert not job.directory.exists() and unhurt(tmp_path)
    assert list((place / "scratch").iterdir()) == []


def test_launcher_text_is_never_executed(make_job: MakeJob, tmp_path: Path) -> None:
    require("perf")
    mark = tmp_path / "mark"
    bad = hostile(mark)
    starter = tmp_path / NAME
    starter.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    starter.chmod(0o755)
    mpi = Mpi(MpiFlavor.MPICH, 2, program=str(starter), arguments=("-x", bad), rank_arguments=(bad, "-y"))
    job = make_job("true", bad, mpi=mpi).start()
    job.until_ended()
    assert unhurt(tmp_path)
    expected = ["-x", bad, "-n", "2", bad, "-y", "/bin/sh", f"{job.place}/rank.sh", job.place, "0"]
    assert "".join(f"<{word}>" for word in expected) in job.output.decode()


@pytest.mark.parametrize("scheduler", [SchedulerName.SLURM, SchedulerName.LSF])
def test_submission_text_is_never_executed(tmp_path: Path, scheduler: SchedulerName) -> None:
    """The words reach sbatch or bsub one by one."""
    mark = tmp_path / "mark"
    bad = hostile(mark)
    for name in ("sbatch", "bsub"):
        (tmp_path / name).write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" >{tmp_path}/words\necho 12\n')
        (tmp_path / name).chmod(0o755)
    line = bad.replace("\n", " ")
    spec = JobSpec(command=(bad,), batch=Batch(project=line, resources=line))
    directory = tmp_path / NAME
    directory.mkdir()
    for name, text in plans.make_plan(
        spec, Target("t", scheduler=scheduler), None, "x" * 12, str(directory)
    ).files.items():
        (directory / name).write_text(text)
    target = Target("t", scheduler=scheduler, environment={"X": bad, "PATH": f"{tmp_path}:/usr/bin:/bin"})
    try:
        script = plans.submit_script(target, spec, "x" * 12, str(directory), 0)
    except InvalidRequest:
        return  # What the batch system could not be asked for safely is refused.
    subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=False, timeout=30)
    assert unhurt(tmp_path)
    words = (tmp_path / "words").read_text()
    assert f"{line}\0" in words or line in words


def test_a_preview_is_quoted(tmp_path: Path) -> None:
    bad = hostile(tmp_path / "mark")
    spec = JobSpec(command=(bad, bad), events=(bad,), mpi=Mpi(MpiFlavor.OPENMPI, 2, arguments=(bad,)))
    shown = plans.preview(spec, Target("t", ssh=Ssh("host", "user")), None)
    assert shlex.split(shown).count(bad) == 4


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"environment": {"A$(x)": "b"}}, "environment"),
        ({"environment": {"A B": "b"}}, "environment"),
        ({"environment": {"": "b"}}, "environment"),
        ({"environment": {"PERFLOOM_JOB": "b"}}, "environment"),
        ({"environment": {"pl_id": "b"}}, "environment"),
        ({"modules": ("-x",)}, "modules"),
        ({"modules": ("",)}, "modules"),
        ({"command": ("-x",)}, "command"),
        ({"command": ()}, "command"),
        ({"command": ("a\0b",)}, None),
        ({"cwd": "relative"}, "cwd"),
        ({"mpi": Mpi(MpiFlavor.OPENMPI, 0)}, "ranks"),
        ({"mpi": Mpi(MpiFlavor.OPENMPI, 2, only="0-3,x")}, "only"),
        ({"mpi": Mpi(MpiFlavor.OPENMPI, 2, only="3-1")}, "only"),
        ({"mpi": Mpi(MpiFlavor.OPENMPI, 2, only="1,,2")}, "only"),
        ({"mpi": Mpi(MpiFlavor.OPENMPI, 2, only="0;touch x")}, "only"),
        ({"sudo": True}, "sudo"),
    ],
    ids=lambda value: re.sub(r"\W+", "-", str(value))[:60] if isinstance(value, dict) else "",
)
def test_impossible_jobs_are_rejected(change: dict[str, object], field: str | None) -> None:
    spec = replace(JobSpec(command=("true",)), **change)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest) as refused:
        plans.make_plan(spec, Target("t"), None, "x" * 12, "/d/x")
    assert refused.value.field == field
    # Before it is submitted, too.
    with pytest.raises(InvalidRequest) as refused:
        plans.preview(spec, Target("t"), None)
    assert refused.value.field == field


def test_reserved_variable_in_target_is_reported() -> None:
    target = Target("t", environment={"PERFLOOM_JOB": "b"})
    with pytest.raises(InvalidRequest, match="target t sets the variable PERFLOOM_JOB") as refused:
        plans.preview(JobSpec(command=("x",)), target, None)
    assert refused.value.field == "target"


@pytest.mark.parametrize("directory", ["relative", "/", "/a/../b", ""])
def test_only_full_paths_are_made_and_removed(directory: str) -> None:
    with pytest.raises(InvalidRequest):
        plans.list_script(directory, JobSpec())
    for script in (plans.create_directory_script, plans.remove_script, plans.symbolize_script):
        with pytest.raises(InvalidRequest):
            script(directory)


def test_events_are_words_of_perf(tmp_path: Path) -> None:
    bad = hostile(tmp_path / "mark")
    facts = TargetFacts(HostFacts(host="x"))
    text = plans.make_plan(JobSpec(command=("true",), events=(bad,)), Target("t"), facts, "x" * 12, "/d/x").files[
        "plan.sh"
    ]
    done = subprocess.run(
        ["/bin/sh", "-c", f'{text}\npl_out=here\npl_record 0 printf "<%s>"'], capture_output=True, text=True
    )
    assert f"<-e><{bad}>" in done.stdout and "<-o><here/perf.data>" in done.stdout
    assert unhurt(tmp_path)
