"""The files of a job's plan, and its runs."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import (
    JOB_FIELDS,
    CallGraph,
    EventSplitting,
    Executor,
    JobSpec,
    Language,
    Mpi,
    MpiFlavor,
    RecorderName,
    Scope,
)
from perfloom.domain.targets import TARGET_FIELDS, SchedulerName, Ssh, Target, TargetFacts
from perfloom.recording.plan import plan as plans
from perfloom.recording.plan.plan_text import parse_rank_ranges, recorder_argv, recorder_specs
from perfloom.recording.plan.preview import MAX_RUNS
from perfloom.recording.quoting import join
from tests.support.parts import require
from tests.support.paths import ROOT

LAUNCHERS = Path(plans.__file__).parent
FACTS = TargetFacts(HostFacts(host="x", perf="/usr/bin/perf", options=("-z", "-N"), stat_options=("-j",)))
SIX = ("cycles", "r01", "r02", "r03", "r04", "r05")


@pytest.mark.heavy
def test_scripts_are_clean() -> None:
    shellcheck = require("shellcheck")
    folders = {path.parent for path in (*(ROOT / "app").rglob("*.sh"), *(ROOT / "workers").rglob("*.sh"))}
    assert {folder.name for folder in folders} >= {
        "mpi",
        "plan",
        "probe",
        "schedulers",
        "local",
        "remote",
        "transports",
    }
    for folder in sorted(folders):
        scripts = sorted(path.name for path in folder.glob("*.sh"))
        done = subprocess.run(
            [shellcheck, "-x", "-P", "SCRIPTDIR", *scripts], cwd=folder, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout


def test_plan_is_valid_in_every_shell(shell: Path) -> None:
    spec = JobSpec(
        command=("a b", "{run}"), events=SIX, splitting=EventSplitting.AT_ONCE, mpi=Mpi(MpiFlavor.SRUN, 4, only="2")
    )
    plan = plans.make_plan(spec, Target("t", scratch="$TMPDIR/x"), FACTS, "x" * 12, "/d/x")
    assert set(plan.files) == {"plan.sh", "common.sh", "job.sh", "rank.sh", "perfloom-wait"}
    for name, text in plan.files.items():
        done = subprocess.run([shell, "-n"], input=text.encode(), capture_output=True)
        assert (done.returncode, done.stderr) == (0, b""), name


@pytest.mark.parametrize(
    ("target", "change", "expected"),
    [
        (Target("local"), {}, Executor.SUPERVISOR),
        (Target("local"), {"inputs": ("/a",), "cwd": "/", "environment": {"A": "b"}, "repeat": 3}, Executor.SUPERVISOR),
        (Target("local"), {"mpi": Mpi(MpiFlavor.MPICH)}, Executor.SCRIPTS),
        (Target("local"), {"modules": ("gcc",)}, Executor.SCRIPTS),
        (Target("local"), {"splitting": EventSplitting.SEQUENTIAL}, Executor.SCRIPTS),
        (Target("local"), {"sudo": True}, Executor.SCRIPTS),
        (Target("local"), {"keep_recordings": False}, Executor.SCRIPTS),
        (Target("a", ssh=Ssh("h")), {}, Executor.SCRIPTS),
        (Target("a", scheduler=SchedulerName.LSF), {}, Executor.SCRIPTS),
        (Target("a", perf="/p"), {}, Executor.SCRIPTS),
    ],
)
def test_choose_executor(target: Target, change: dict[str, object], expected: Executor) -> None:
    spec = replace(JobSpec(command=("x",)), **change)  # type: ignore[arg-type]
    assert plans.choose_executor(spec, target) is expected
    assert plans.choose_executor(spec, target, run_as="ada") is Executor.SCRIPTS


SCRIPTS_ONLY: dict[str, dict[str, Any]] = {
    "target": {"directory": "/d", "scratch": "/s", "perf": "/p", "modules": ("m",), "environment": {"A": "b"}},
    "job": {
        "language": Language.PYTHON,
        "modules": ("gcc",),
        "path": ("/a",),
        "library_path": ("/a",),
        "preload": ("/a",),
        "splitting": EventSplitting.AT_ONCE,
        "sudo": True,
        "keep_recordings": False,
        "leave_files": True,
        "fresh_inputs": True,
        "baseline": True,
    },
}
"""A value for each field that a supervisor does not support."""


def test_every_field_is_for_a_supervisor_or_selects_the_scripts() -> None:
    """Where a new field is missing: add it to one of the two, so that it is not silently ignored on this machine."""
    for name, value in SCRIPTS_ONLY["target"].items():
        target = replace(Target("local"), **{name: value})
        assert plans.choose_executor(JobSpec(command=("x",)), target) is Executor.SCRIPTS, name
    for name, value in SCRIPTS_ONLY["job"].items():
        change: dict[str, Any] = {name: value}
        assert plans.choose_executor(JobSpec(command=("x",), **change), Target("local")) is Executor.SCRIPTS, name
    jobs, targets = ({each.part or each.name for each in fields.values()} for fields in (JOB_FIELDS, TARGET_FIELDS))
    assert jobs - {"mpi"} == plans.SUPERVISED_JOB_FIELDS | set(SCRIPTS_ONLY["job"])
    assert targets == plans.SUPERVISED_TARGET_FIELDS | set(SCRIPTS_ONLY["target"])


TARGET = Target("t")


def runs_of(spec: JobSpec, target: Target = TARGET) -> plans.Plan:
    return plans.make_plan(spec, target, FACTS, "x" * 12, "/d/x")


def test_one_run_is_one_submission() -> None:
    plan = runs_of(JobSpec(command=("x", "{run}"), events=SIX))
    assert plan.submissions == ((0,),) and plan.groups == (SIX,)
    assert plan.runs[0].command == ("x", "{run}")


def test_switches_are_printed_where_they_were_recorded() -> None:
    """The text of perf script is made at the target, and may be all that is copied back."""
    spec = JobSpec(command=("x",))
    assert "--show-switch-events" not in runs_of(spec).files["plan.sh"]
    recorded = runs_of(replace(spec, off_cpu=True)).files["plan.sh"]
    assert "--show-switch-events --show-task-events" in recorded and "--switch-events" in recorded


def test_branch_stacks_are_printed_where_they_were_recorded() -> None:
    spec = JobSpec(command=("x",), events=("cycles",))
    assert "brstacksym" not in runs_of(spec).files["plan.sh"]
    for changes in ({"branch_stacks": True}, {"perf_arguments": ("--branch-filter=any,save_type",)}):
        plan = runs_of(replace(spec, **changes)).files["plan.sh"]  # type: ignore[arg-type]
        assert "sym,symoff,dso,brstacksym" in plan


def test_events_make_runs() -> None:
    spec = JobSpec(command=("x", "{run}"), environment={"N": "n{run}"}, events=SIX, splitting=EventSplitting.SEQUENTIAL)
    plan = runs_of(spec)
    assert plan.submissions == ((0, 1),)
    assert plan.groups == (SIX[:4], SIX[4:])
    assert [(run.command, run.environment) for run in plan.runs] == [
        (("x", "0"), {"N": "n0"}),
        (("x", "1"), {"N": "n1"}),
    ]
    at_once = runs_of(replace(spec, splitting=EventSplitting.AT_ONCE), Target("t", counters=2))
    assert at_once.submissions == ((0,), (1,), (2,))
    own = runs_of(replace(spec, events=(), recorder=RecorderName.PERF_STAT, events_per_run=3))
    assert own.groups == (("task-clock", "context-switches", "cpu-migrations"), ("page-faults",))


@pytest.mark.parametrize("change", [{"sudo": True}, {"mpi": Mpi(MpiFlavor.MPICH)}], ids=["sudo", "mpi"])
def test_repeats_are_runs_where_perf_cannot_repeat(change: dict[str, object]) -> None:
    spec = replace(
        JobSpec(command=("x",), events=("a", "b"), recorder=RecorderName.PERF_STAT, repeat=2),
        splitting=EventSplitting.SEQUENTIAL,
        events_per_run=1,
        **change,  # type: ignore[arg-type]
    )
    plan = runs_of(spec, Target("t", sudo=True))
    assert [(run.events, run.repeat) for run in plan.runs] == [(("a",), 0), (("a",), 1), (("b",), 0), (("b",), 1)]
    assert "-r 2" not in plan.files["plan.sh"]
    alone = runs_of(JobSpec(command=("x",), recorder=RecorderName.PERF_STAT, repeat=2))
    assert len(alone.runs) == 1 and " -r 2 " in alone.files["plan.sh"]


def test_baseline_is_the_last_run() -> None:
    spec = JobSpec(command=("x", "{run}"), events=SIX, splitting=EventSplitting.SEQUENTIAL, baseline=True)
    plan = runs_of(spec)
    assert [(run.command[1], run.events, run.recorded) for run in plan.runs] == [
        ("0", SIX[:4], True),
        ("1", SIX[4:], True),
        ("2", (), False),
    ]
    assert plan.submissions == ((0, 1, 2),)
    assert "pl_unrecorded=2\n" in plan.files["plan.sh"]
    assert plans.preview(spec, TARGET, FACTS).splitlines()[-2:] == ["# Run 2 of 3, without recording", "x 2"]
    assert "pl_unrecorded=''" in runs_of(replace(spec, baseline=False)).files["plan.sh"]
    for other in ({"scope": Scope.SYSTEM}, {"recorder": RecorderName.PYTORCH}):
        assert all(run.recorded for run in runs_of(replace(spec, **other)).runs), other  # type: ignore[arg-type]


def test_too_many_runs_are_refused() -> None:
    spec = JobSpec(command=("x",), events=("a",) * 1001, splitting=EventSplitting.SEQUENTIAL, events_per_run=1)
    with pytest.raises(InvalidRequest):
        runs_of(spec)


def test_perf_program() -> None:
    spec = JobSpec(command=("x",), events=("cycles",), call_graph=CallGraph.FP)
    host = FACTS.recording_host
    assert (
        join(recorder_argv(spec, host)) == 'perf record -o "$pl_out"/perf.data -F 199 -e cycles --call-graph fp -z -N'
    )
    assert join(recorder_argv(replace(spec, sudo=True), host)).startswith("perf record -o - -F 199")
    counted = replace(spec, recorder=RecorderName.PERF_STAT)
    assert join(recorder_argv(counted, host)) == 'perf stat -o "$pl_out"/perf-stat.txt -j -e cycles'
    assert join(recorder_argv(replace(counted, sudo=True), host)) == "perf stat --log-fd 1 -j -e cycles"
    assert join(recorder_argv(replace(spec, scope=Scope.PROCESS, pid=7, command=()), host)).endswith(" -p 7")
    # What events tell is asked for where it is read.
    for events, stacks, told in (
        (("sched:*",), True, "dso,trace"),
        (("{sched:sched_switch,sched:sched_waking}",), False, "event,trace"),
        (("cycles", "sched:sched_switch"), True, "dso,trace"),
        (("cycles", "sched:sched_switch"), False, "symoff,dso"),
        (("lock:contention_begin", "lock:contention_end"), True, "dso,trace"),
        (("lock:contention_begin",), True, "symoff,dso"),
    ):
        asked = replace(spec, events=events, call_graph=CallGraph.FP if stacks else CallGraph.NONE)
        plan = plans.make_plan(asked, Target("t"), None, "x" * 12, "/d/x")
        assert f"{told}\n" in plan.files["plan.sh"], events
    whole = recorder_specs(replace(spec, mpi=Mpi(MpiFlavor.MPICH, per_host=True)))
    assert join(recorder_argv(whole, host)).endswith(" -a")


def test_unknown_host_gets_common_perf_options() -> None:
    plan = plans.make_plan(JobSpec(command=("x",)), Target("t"), None, "x" * 12, "/d/x")
    assert "perf record -o" in plan.files["plan.sh"] and " -N\n" in plan.files["plan.sh"]
    own = plans.make_plan(JobSpec(command=("x",)), Target("t", perf="/opt/perf 6/perf"), None, "x" * 12, "/d/x")
    assert "'/opt/perf 6/perf' record" in own.files["plan.sh"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", ()), ("3", ((3, 3),)), (" 0-3, 8 ", ((0, 3), (8, 8))), ("0-0", ((0, 0),))],
)
def test_ranks_that_are_named(text: str, expected: tuple[tuple[int, int], ...]) -> None:
    assert parse_rank_ranges(text) == expected


def test_a_preview_shows_every_layer() -> None:
    target = Target("t", ssh=Ssh("login", "me", port=2222, jump=("gate",)), scheduler=SchedulerName.SLURM)
    spec = JobSpec(
        command=("./a.out", "x y"), events=SIX, mpi=Mpi(MpiFlavor.MPICH, 4), splitting=EventSplitting.SEQUENTIAL
    )
    lines = plans.preview(spec, target, FACTS).splitlines()
    assert lines[0] == "ssh -J gate -p 2222 me@login"
    assert lines[1].startswith("  sbatch --parsable --job-name=perfloom-JOB-0 ")
    assert lines[2:6] == [
        "    # Run 0 of 2",
        "    mpirun [-f HOSTFILE] [-localhost localhost] -n 4",
        "      perf record -o run0/RANK/perf.data -F 199 -e cycles -e r01 -e r02 -e r03 --call-graph dwarf,8192 -z -N --",
        "        ./a.out 'x y'",
    ]
    assert lines[6] == "    # Run 1 of 2" and len(lines) == 10


@pytest.mark.heavy
def test_a_preview_ends_somewhere() -> None:
    spec = JobSpec(command=("x",), events=("a",) * 100, splitting=EventSplitting.AT_ONCE, events_per_run=1)
    shown = plans.preview(spec, Target("t"), FACTS)
    assert shown.endswith(f"# and {100 - MAX_RUNS} more runs")
    with pytest.raises(InvalidRequest):
        plans.preview(JobSpec(), Target("t"), None)
