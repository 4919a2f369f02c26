"""perf as root for an ordinary user whom sudo allows nothing else; the program stays the user's."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from perfloom.domain.jobs import CallGraph, JobSpec, RecorderName, Scope
from tests.recording.plan.conftest import MakeJob
from tests.recording.plan.jobs import PlannedJob
from tests.support.batch import folder
from tests.support.parts import missing, own_mounts, require

BUSY = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"


@pytest.fixture
def as_user(make_job: MakeJob) -> Iterator[MakeJob]:
    """Creates jobs of an ordinary user who may start perf as root, with a private /etc/sudoers.d."""
    perf = require("perf")
    require("sudo")
    if os.geteuid() != 0:
        missing("permission to change sudo's rules", "run the tests as root")
    with folder("pl-sudo-") as place:
        (place / "rules").mkdir()
        rule = place / "rules" / "perfloom"
        rule.write_text(f"nobody ALL=(root) NOPASSWD: {shutil.which('perf') or perf}\n")
        rule.chmod(0o440)
        home = place / "home"
        home.mkdir()
        os.chown(home, 65534, 65534)
        mount = (
            f"mount --bind {place}/rules /etc/sudoers.d && exec setpriv --reuid=65534 --regid=65534 --clear-groups -- "
        )
        prefix = [*own_mounts(), "sh", "-c", mount + '"$@"', "sh", "env", f"HOME={home}"]
        if subprocess.run([*prefix, "sudo", "-n", "perf", "--version"], capture_output=True).returncode != 0:
            missing("sudo for the user nobody", "look at what sudo says in this container")

        def make(*command: str, **more: object) -> PlannedJob:
            wanted = {"events": ("cpu-clock",), "call_graph": CallGraph.NONE, "frequency": 999, **more}
            job = make_job(spec=JobSpec(command=command, sudo=True, **wanted), directory=home / "job")  # type: ignore[arg-type]
            job.prefix = prefix
            # The user makes it all: nothing is root's.
            job.lay_down = lambda: lay_down_as_user(job)  # type: ignore[method-assign]
            return job

        yield make


def lay_down_as_user(job: PlannedJob):  # type: ignore[no-untyped-def]
    plan = PlannedJob.lay_down(job)
    for path in job.directory.iterdir():
        os.chown(path, 65534, 65534)
    return plan


def owners(job: PlannedJob) -> set[int]:
    """Whose the files of a job are."""
    return {path.lstat().st_uid for path in job.directory.rglob("*")}


@pytest.mark.timeout(120)
def test_perf_is_roots_and_the_program_the_users(as_user: MakeJob) -> None:
    job = as_user(
        "sh", "-c", f'id -u; echo "$MINE"; {BUSY}; cat /proc/self/stat >/dev/null; exit 5', environment={"MINE": "1 2"}
    )
    sight = job.start().until_ended()
    assert sight.ranks[0].exit_status == 5, job.log()
    assert job.output.startswith(b"65534\n1 2\n")
    assert owners(job) == {65534}
    assert job.samples("run0/all") > 0
    assert "sh " in job.text("run0/all")


def test_counting_with_sudo(as_user: MakeJob) -> None:
    job = as_user(
        "sh", "-c", BUSY, recorder=RecorderName.PERF_STAT, events=("context-switches", "task-clock:u"), repeat=2
    )
    sight = job.start().until_ended()
    assert [run.exit_status for run in sight.runs] == [0, 0], job.log()
    text = (job.directory / "run0/all/perf-stat.txt").read_text()
    assert '"task-clock:u"' in text and "<not counted>" not in text
    assert owners(job) == {65534}


def test_the_whole_system_with_sudo(as_user: MakeJob) -> None:
    job = as_user(scope=Scope.SYSTEM, duration_s=2.0, events=("cpu-clock",))
    sight = job.start().until_ended()
    assert sight.ranks[0].stopped == "limit", job.log()
    assert job.samples("run0/all") > 0


def test_a_cancel_with_sudo(as_user: MakeJob) -> None:
    job = as_user("sh", "-c", "while :; do cat /proc/self/stat >/dev/null; done")
    job.start().until_recording()
    job.end(gently=True)
    sight = job.until_ended()
    assert (sight.submissions[0].exit_status, sight.ranks[0].stopped) == (143, "signal TERM"), job.log()
    assert "run0/all/perf.script.zst" in job.listed()
    job.until_gone()


def test_program_does_not_run_without_sudo_permission(as_user: MakeJob) -> None:
    job = as_user("sh", "-c", "echo was run")
    (job.directory.parent.parent / "rules" / "perfloom").unlink()
    sight = job.start().until_ended()
    assert sight.ranks[0].exit_status not in (0, None)
    assert b"was run" not in job.output and b"sudo" in job.output, job.log()
