"""The double of LSF behaves as LSF does, and misbehaves as a test asks it to."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from perfloom.domain.errors import InvalidRequest, Unreachable
from perfloom.domain.targets import BatchState
from tests.recording.schedulers.jobs import PATIENT, Jobs, until
from tests.support import servers
from tests.support.batch import LsfDouble

FIELDS = "jobid stat exit_code exit_reason"


def submit(lsf: LsfDouble, *words: str) -> str:
    """The id of a job."""
    stdout, stderr, status = lsf.run(["bsub", *words])
    match = re.fullmatch(r"Job <(\d+)> is submitted to (default )?queue <\w+>\.\n", stdout)
    assert match and status == 0, stdout + stderr
    return match[1]


def state(lsf: LsfDouble, id: str) -> str:
    """Its state."""
    return lsf.run(["bjobs", "-a", "-noheader", "-o", "stat", id])[0].strip()


def ended(lsf: LsfDouble, id: str) -> str:
    """Its state once it has ended."""
    return until(lambda: state(lsf, id), lambda seen: seen in ("DONE", "EXIT"))


def test_what_a_job_finds(lsf: LsfDouble, tmp_path: Path) -> None:
    """Its environment, its hosts, a report in its output."""
    output = tmp_path / "out.%J"
    id = submit(lsf, "-n", "3", "-J", "named", "-o", str(output), "cat $LSB_DJOB_HOSTFILE; env; exit 7")
    assert ended(lsf, id) == "EXIT"
    text = until(lambda: (tmp_path / f"out.{id}").read_text() if (tmp_path / f"out.{id}").exists() else "", len)
    report, _, printed = text.partition("The output (if any) follows:\n\n")
    assert "Exited with exit code 7." in report
    hosts = printed.splitlines()[:3]
    assert len(set(hosts)) == 1
    lines = set(printed.splitlines())
    assert {f"LSB_JOBID={id}", "LSB_JOBNAME=named", f"LSB_HOSTS={' '.join(hosts)}", "LSB_QUEUE=normal"} <= lines
    assert {f"LSB_MCPU_HOSTS={hosts[0]} 3", "LSB_DJOB_NUMPROC=3", "LSB_TRAPSIGS=trap # 15 10 12 2 1"} <= lines


def test_a_job_is_its_own_session_and_ends_on_no_signal_but_its_own(lsf: LsfDouble, tmp_path: Path) -> None:
    """The shell that LSF puts around the command outlives signals, and hands on what the command ended with."""
    id = submit(lsf, f"trap 'exit 5' TERM; ps -o sid= -p $$ >{tmp_path}/sid; while :; do sleep 0.05; done")
    until(lambda: (tmp_path / "sid").read_text() if (tmp_path / "sid").exists() else "", len)
    assert int((tmp_path / "sid").read_text()) != os.getsid(0)
    assert lsf.run(["bkill", "-s", "TERM", id]) == (f"Job <{id}> is being signaled\n", "", 0)
    assert ended(lsf, id) == "EXIT"
    assert lsf.run(["bjobs", "-a", "-noheader", "-o", f"{FIELDS} delimiter='^'", id])[0] == f"{id}^EXIT^5^-\n"


def test_bkill(lsf: LsfDouble) -> None:
    id = submit(lsf, "sleep 61")
    until(lambda: state(lsf, id), lambda seen: seen == "RUN")
    assert lsf.run(["bkill", id, "999999"]) == (
        f"Job <{id}> is being terminated\n",
        "Job <999999>: No matching job found\n",
        255,
    )
    assert ended(lsf, id) == "EXIT"
    printed = json.loads(lsf.run(["bjobs", "-a", "-o", FIELDS, "-json", id])[0])
    assert printed == {
        "COMMAND": "bjobs",
        "JOBS": 1,
        "RECORDS": [
            {"JOBID": id, "STAT": "EXIT", "EXIT_CODE": "130", "EXIT_REASON": "TERM_OWNER: job killed by owner"}
        ],
    }
    assert lsf.run(["bkill", id]) == ("", f"Job <{id}>: Job has already finished\n", 255)
    history = " ".join(lsf.run(["bhist", "-l", id])[0].split())
    assert "Exited with exit code 130." in history and "Completed <exit>; TERM_OWNER" in history


def test_a_script_on_standard_input(lsf: LsfDouble, tmp_path: Path) -> None:
    """Its #BSUB lines count, and what the command line says counts more. Other than the shell's, -env may say it all."""
    script = (
        "#!/bin/sh\n#BSUB -q short -J 'of script'\n#BSUB -n 2\necho $LSB_JOBNAME $LSB_QUEUE $A $HOME >got; exit 4\n"
    )
    argv = ["bsub", "-J", "mine", "-cwd", str(tmp_path), "-env", "none, A=b, PATH"]
    done = subprocess.run(argv, env=lsf.variables, input=script, capture_output=True, text=True)
    assert "is submitted to queue <short>." in done.stdout
    id = done.stdout.split("<")[1].split(">")[0]
    assert ended(lsf, id) == "EXIT"
    assert (tmp_path / "got").read_text() == "mine short b\n"
    assert lsf.run(["bjobs", "-a", "-noheader", "-o", "slots exit_code", id])[0].split() == ["2", "4"]


def test_errors(lsf: LsfDouble) -> None:
    assert lsf.run(["bsub", "-q", "no", "x"]) == ("", "no: No such queue. Job not submitted.\n", 255)
    assert lsf.run(["bsub"]) == ("", "No command is specified. Job not submitted.\n", 255)
    assert lsf.run(["bsub", "-R", "span[ptile=1] span[ptile=2]", "x"])[1].startswith("Bad resource requirement syntax.")
    assert lsf.run(["bjobs", "999999"]) == ("", "Job <999999> is not found\n", 255)
    assert lsf.run(["bhist", "-l", "999999"]) == ("", "No matching job found\n", 255)
    records = json.loads(lsf.run(["bjobs", "-o", "jobid", "-json", "999999"])[0])["RECORDS"]
    assert records == [{"JOBID": "999999", "ERROR": "Job <999999> is not found"}]


def test_a_delay_and_suspending(lsf: LsfDouble, tmp_path: Path) -> None:
    lsf.control(delay=3600)
    id = submit(lsf, "true")
    assert state(lsf, id) == "PEND"
    assert lsf.run(["bstop", id])[0] == f"Job <{id}> is being stopped\n"
    assert state(lsf, id) == "PSUSP"
    lsf.run(["bkill", id])
    assert state(lsf, id) == "EXIT"
    lsf.control(delay=0)
    running = submit(lsf, f"until test -e {tmp_path}/go; do sleep 0.05; done")
    until(lambda: state(lsf, running), lambda seen: seen == "RUN")
    lsf.run(["bstop", running])
    assert state(lsf, running) == "USUSP"
    lsf.run(["bresume", running])
    (tmp_path / "go").touch()
    assert ended(lsf, running) == "DONE"


def test_more_slots_than_there_are_wait(lsf: LsfDouble, tmp_path: Path) -> None:
    first = submit(lsf, "-n", "12", f"until test -e {tmp_path}/go; do sleep 0.05; done")
    second = submit(lsf, "-n", "12", "true")
    until(lambda: state(lsf, first), lambda seen: seen == "RUN")
    assert state(lsf, second) == "PEND"
    (tmp_path / "go").touch()
    assert ended(lsf, second) == "DONE"


def test_blaunch_and_lsid(lsf: LsfDouble, tmp_path: Path) -> None:
    id = submit(lsf, f"blaunch -z $LSB_HOSTS echo 'a  b' >{tmp_path}/got; blaunch $LSB_HOSTS echo c >>{tmp_path}/got")
    assert ended(lsf, id) == "DONE"
    assert (tmp_path / "got").read_text() == "a  b\nc\n"
    assert lsf.run(["lsid"])[0].startswith("IBM Spectrum LSF Standard 10.1")


# What a test can ask for, as Perfloom sees it.


def test_an_old_version(lsf_jobs: Jobs, lsf: LsfDouble) -> None:
    lsf.control(version="9.1")
    id = lsf_jobs.submit("sh", "-c", "exit 4")
    assert lsf_jobs.wait(id).exit_status == 4
    assert lsf_jobs.look(id, "999999")[1].state is BatchState.GONE
    assert lsf_jobs.named("perfloom-abc-0") is not None


def test_noise_before_every_answer(lsf_jobs: Jobs, lsf: LsfDouble) -> None:
    lsf.control(noise=2)
    id = lsf_jobs.submit("true")
    assert lsf_jobs.wait(id).state is BatchState.DONE
    assert lsf_jobs.back(id).state is BatchState.DONE
    lsf_jobs.cancel(id, gently=True)


def test_down(lsf_jobs: Jobs, lsf: LsfDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked gives up after some tries; so does bsub where the site has it so."""
    monkeypatch.setenv("LSB_NTRIES", "1")
    lsf.control(down=True)
    with pytest.raises(Unreachable, match="LSF is down"):
        lsf_jobs.look("1")
    with pytest.raises(Unreachable, match="LSF is down"):
        lsf_jobs.submit("true")


def test_a_refusal_and_a_lost_answer(lsf_jobs: Jobs, lsf: LsfDouble) -> None:
    lsf.control(refuse="Request aborted by esub. Job not submitted.")
    with pytest.raises(InvalidRequest, match="aborted by esub"):
        lsf_jobs.submit("true")
    lsf.control(refuse="", lose_answers=True)
    with pytest.raises(Unreachable):
        lsf_jobs.submit("true", name="perfloom-lost-0")
    id = lsf_jobs.named("perfloom-lost-0")
    assert id and lsf_jobs.wait(id).state is BatchState.DONE


@pytest.mark.parametrize("shown", ["UNKWN", "ZOMBI", "SSUSP", "PROV", "WAIT"])
def test_a_state_of_any_kind(lsf_jobs: Jobs, lsf: LsfDouble, shown: str) -> None:
    lsf.control(stat={"perfloom-odd-0": shown})
    id = lsf_jobs.shell(PATIENT, name="perfloom-odd-0")
    lsf_jobs.ready()
    assert lsf_jobs.look(id)[0].native == shown
    lsf_jobs.cancel(id, gently=True)
    lsf.control(stat={})
    assert lsf_jobs.wait(id).state is BatchState.DONE


def test_why_it_ended_and_why_it_waits(lsf_jobs: Jobs, lsf: LsfDouble) -> None:
    lsf.control(exit_reason={"*": "TERM_MEMLIMIT"}, pend_reason="Job slot limit reached: 1 host;")
    ended = lsf_jobs.wait(lsf_jobs.submit("false"))
    assert ended.reason.startswith("It exceeded its memory limit")
    lsf.control(delay=3600)
    id = lsf_jobs.submit("true")
    assert lsf_jobs.look(id)[0].reason == "It waits for CPUs that are in use. (Job slot limit reached: 1 host)"
    lsf_jobs.cancel(id, gently=True)


def test_what_has_ended_is_forgotten_but_by_history(lsf_jobs: Jobs, lsf: LsfDouble) -> None:
    id = lsf_jobs.submit("sh", "-c", "exit 6")
    lsf_jobs.wait(id)
    lsf.control(clean_period=0)
    assert lsf_jobs.look(id)[0].state is BatchState.GONE
    assert (lsf_jobs.back(id).state, lsf_jobs.back(id).exit_status) == (BatchState.FAILED, 6)


def test_job_of_another_user_runs_as_that_user(lsf: LsfDouble, ordinary_user: servers.OrdinaryUser) -> None:
    """If the tests run as root, as over SSH: the job runs as the user who submitted it."""
    environment = {**ordinary_user.environment(), "PATH": lsf.variables["PATH"]}
    shutil.copy("/bin/true", ordinary_user.home / "true")

    def run(*argv: str) -> str:
        command = ordinary_user.command(*argv)
        done = subprocess.run(command, env=environment, cwd=ordinary_user.home, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    id = run("bsub", "-o", "report", "id -u >uid").split("<")[1].split(">")[0]
    until(lambda: run("bjobs", "-a", "-noheader", "-o", "stat", id).strip(), lambda seen: seen == "DONE")
    assert (ordinary_user.home / "uid").read_text().strip() == str(ordinary_user.uid)
    until((ordinary_user.home / "report").exists, bool)
    assert (ordinary_user.home / "report").stat().st_uid == ordinary_user.uid


def test_an_option_takes_the_next_word_whatever_it_is(lsf: LsfDouble) -> None:
    """So that one without its value has the next option for it, or the command."""
    stdout, stderr, status = lsf.run(["bsub", "-w", "-q", "short"])
    assert "default queue <normal>" in stdout and status == 0, stderr
    assert "No such queue" in lsf.run(["bsub", "-q", "-x", "true"])[1]
    for words in (["-w", "true"], ["-W", "1:00", "-P", "true"]):
        stdout, stderr, status = lsf.run(["bsub", *words])
        assert "No command is specified" in stderr and status == 255, stdout
    assert "option requires an argument -- q" in lsf.run(["bsub", "-q"])[1]
    for word in ("-later_version", "-qshort", "--queue"):
        assert "illegal option" in lsf.run(["bsub", word, "true"])[1]
