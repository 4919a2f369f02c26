"""What is Slurm's alone, in a real one."""

from __future__ import annotations

import shutil
import string
import subprocess
from pathlib import Path

import pytest

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.jobs import Batch, JobSpec, Mpi, MpiFlavor
from perfloom.domain.targets import BatchState
from perfloom.recording.schedulers.sbatch_options import LONG_WITH_VALUE, LONG_WITHOUT_VALUE, SHORT_WITH_VALUE
from perfloom.recording.schedulers.slurm import RESERVED_OPTIONS
from tests.recording.schedulers.jobs import Jobs, until
from tests.support import servers
from tests.support.batch import Slurm, executable


def test_what_can_never_start_says_so(slurm_jobs: Jobs) -> None:
    """It is accepted, and waits for ever. More ranks than there are CPUs are refused at once by newer versions (24.11
    does, 22.05 does not)."""
    waiting = [slurm_jobs.submit("true", batch=Batch(queue="short", wall_time_s=600))]
    try:
        waiting.append(slurm_jobs.submit("true", mpi=Mpi(MpiFlavor.SRUN, ranks=99)))
    except InvalidRequest as refusal:
        assert refusal.field == "nodes"
        assert "Request no more nodes, ranks and CPUs than the partition has." in str(refusal)
    never = "It will never start like this. Cancel the job and request "
    for seen in until(
        lambda: slurm_jobs.look(*waiting), lambda seen: all(one.reason.startswith(never) for one in seen)
    ):
        assert seen.state is BatchState.PENDING
        assert seen.position is None
    slurm_jobs.cancel(*waiting, gently=True)


def test_places_in_the_queue(slurm_jobs: Jobs) -> None:
    """Jobs that request all 16 CPUs run one after another, of any user."""
    whole = Mpi(MpiFlavor.SRUN, ranks=16)
    running = slurm_jobs.shell('until [ -e "$1/go" ]; do sleep 0.05; done', mpi=whole)
    slurm_jobs.wait(running, BatchState.RUNNING)
    waiting = [slurm_jobs.submit("true", mpi=whole) for _ in range(3)]
    try:
        seen = until(
            lambda: slurm_jobs.look(*waiting),
            lambda seen: "(Resources)" in seen[0].reason and "(Priority)" in seen[2].reason,
        )
        assert [one.position for one in seen] == [0, 1, 2]
        assert seen[0].reason.startswith("It is next, and waits for nodes or CPUs that are in use.")
    finally:
        slurm_jobs.cancel(running, *waiting, gently=False)


def test_held_and_let_go(slurm_jobs: Jobs) -> None:
    id = slurm_jobs.submit("true", batch=Batch(arguments=("--hold",)))
    seen = slurm_jobs.look(id)[0]
    assert seen.state is BatchState.HELD
    assert "scontrol release" in seen.reason
    slurm_jobs.system.run(["scontrol", "release", id])
    assert slurm_jobs.wait(id).state is BatchState.DONE


def test_suspended(slurm_jobs: Jobs) -> None:
    id = slurm_jobs.shell(': >"$1/ready"; until [ -e "$1/go" ]; do sleep 0.05; done')
    slurm_jobs.ready()
    slurm_jobs.system.run(["scontrol", "suspend", id])
    seen = slurm_jobs.look(id)[0]
    assert seen.state is BatchState.SUSPENDED and seen.reason
    slurm_jobs.system.run(["scontrol", "resume", id])
    (slurm_jobs.folder / "go").touch()
    assert slurm_jobs.wait(id).state is BatchState.DONE


def test_output_that_cannot_be_opened(slurm_jobs: Jobs) -> None:
    """22.05 does not start such a job; 24.11 runs it without its output."""
    id = Jobs(slurm_jobs.system, slurm_jobs.folder / "nosuch").submit("touch", str(slurm_jobs.folder / "ran"))
    ended = slurm_jobs.wait(id)
    if (slurm_jobs.folder / "ran").exists():
        assert (ended.state, slurm_jobs.back(id).state) == (BatchState.DONE, BatchState.DONE)
    else:
        assert ended.state is BatchState.FAILED
        assert slurm_jobs.back(id).reason.startswith("Its output could not be opened on its node")


def test_job_that_the_controller_has_purged_is_found_among_completed_jobs(slurm_jobs: Jobs) -> None:
    """MinJobAge is five minutes: a simulated scontrol that knows no job avoids the wait."""
    id = slurm_jobs.shell("exit 3")
    slurm_jobs.wait(id)
    until(lambda: (slurm_jobs.system.folder / "completed").read_text(), lambda text: f"JobId={id} " in text)
    executable(slurm_jobs.folder / "scontrol", "#!/bin/sh\necho Invalid job id specified >&2\nexit 1\n")
    argv = slurm_jobs.system.scheduler.history_command(id)
    path = f"{slurm_jobs.folder}:{slurm_jobs.system.variables['PATH']}"
    back = slurm_jobs.system.scheduler.parse_history_output(id, *slurm_jobs.system.run(argv, PATH=path))
    assert back.state is BatchState.FAILED


def test_the_script_is_what_slurm_signals(slurm_jobs: Jobs) -> None:
    """Slurm starts no shell in between, and signals only the batch script, which ends its steps itself."""
    id = slurm_jobs.shell(
        'srun --overlap sh -c \'trap "echo step told" TERM; while [ ! -e "$0/go" ]; do sleep 0.05; done\' "$1" & '
        'trap "echo script told; touch $1/go" TERM; : >"$1/ready"; wait; wait; echo completed'
    )
    slurm_jobs.ready()
    slurm_jobs.cancel(id, gently=True)
    assert slurm_jobs.wait(id).state is BatchState.DONE
    text = slurm_jobs.output.read_text()
    assert "script told\ncompleted\n" in text and "step told" not in text


def test_another_user(slurm: Slurm, ordinary_user: servers.OrdinaryUser) -> None:
    """Where root runs the cluster, as over SSH: jobs run as the user who submitted them."""
    environment = {**ordinary_user.environment(), "PATH": slurm.variables["PATH"]}
    argv = ["sbatch", "--parsable", f"--output={ordinary_user.home}/out", "--wrap", "srun id -u"]
    done = subprocess.run(
        ordinary_user.command(*argv), env=environment, cwd=ordinary_user.home, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    Jobs(slurm, ordinary_user.home).wait(done.stdout.strip())
    assert (ordinary_user.home / "out").read_text().strip() == str(ordinary_user.uid)


def test_programs_of_another_folder(slurm: Slurm, tmp_path: Path) -> None:
    """The environment alone is enough for the programs in /usr/bin, and PATH alone for those that know the cluster."""
    sinfo = shutil.which("sinfo")
    assert sinfo
    by_environment = subprocess.run([sinfo, "-h", "-o%R"], env=dict(slurm.environment), capture_output=True, text=True)
    by_path = subprocess.run([slurm.path / "sinfo", "-h", "-o%R"], env={}, capture_output=True, text=True)
    assert by_environment.stdout.split() == by_path.stdout.split() == ["debug", "short", "closed"]


def test_options_with_a_value_are_those_of_the_real_sbatch(slurm_jobs: Jobs) -> None:
    """Its own parser reports which ones need a value if they are last."""
    for name in sorted(LONG_WITH_VALUE | LONG_WITHOUT_VALUE):
        said = slurm_jobs.system.run(["sbatch", "--test-only", "--wrap=true", f"--{name}"])[1]
        if "unrecognized option" in said or "is ambiguous" in said:
            continue  # Of another version.
        assert ("requires an argument" in said) == (name in LONG_WITH_VALUE), (name, said)
    for letter in string.ascii_letters:
        said = slurm_jobs.system.run(["sbatch", "--test-only", "--wrap=true", f"-{letter}"])[1]
        if "invalid option" not in said:
            assert ("requires an argument" in said) == (letter in SHORT_WITH_VALUE), (letter, said)


def test_abbreviations_of_reserved_options_are_refused(slurm_jobs: Jobs) -> None:
    """Its getopt_long takes a long option cut short, as long as no other begins so."""
    taken = []
    for name in (name for name in RESERVED_OPTIONS if name.startswith("--")):
        for cut in (name[:length] for length in range(3, len(name) + 1)):
            said = slurm_jobs.system.run(["sbatch", "--test-only", "--wrap=true", cut])[1]
            if "unrecognized option" not in said and "is ambiguous" not in said:
                taken.append(cut)
                with pytest.raises(InvalidRequest, match="Remove"):
                    slurm_jobs.submit("true", batch=Batch(arguments=(f"{cut}=x",)))
    assert {"--j", "--jo", "--job-name", "--arr"} <= set(taken)


def test_another_environment_is_taken(slurm_jobs: Jobs) -> None:
    """What the user says of it comes behind ours, and counts."""
    slurm_jobs.wait(slurm_jobs.submit("/usr/bin/env", batch=Batch(arguments=("--export=OF_USER=1",))))
    assert "OF_USER=1" in slurm_jobs.printed().splitlines()


@pytest.mark.parametrize("words", [["{script}"], ["--", "{script}"], ["--mem=10M", "{script}"]])
def test_a_script_in_further_arguments_never_runs(slurm_jobs: Jobs, words: list[str]) -> None:
    """Even if it went past our own parser, sbatch does not take it beside --wrap."""
    script = slurm_jobs.folder / "mine.sh"
    script.write_text(f"#!/bin/sh\ntouch {slurm_jobs.folder}/ran\n")
    arguments = tuple(word.format(script=script) for word in words)
    with pytest.raises(InvalidRequest, match="instead of the job"):
        slurm_jobs.submit("true", batch=Batch(arguments=arguments))
    argv = slurm_jobs.system.scheduler.submit_command(JobSpec(), "n", ("true",), str(slurm_jobs.folder / "o"))
    stdout, stderr, status = slurm_jobs.system.run([*argv, *arguments])
    assert status != 0 and "not permitted with --wrap" in stderr, stdout + stderr
