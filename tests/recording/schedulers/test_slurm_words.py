"""Reading what Slurm's programs print."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from perfloom.domain.errors import InvalidRequest, Unreachable
from perfloom.domain.targets import BatchState, BatchStatus
from perfloom.recording.schedulers.slurm import Slurm, expand_host_list, parse_time_limit
from perfloom.recording.schedulers.slurm_states import STATES, explain_reason
from tests.support.batch import executable
from tests.support.parts import require

SLURM = Slurm()

# squeue --format='%i|%T|%P|%N|%S|%r' of a cluster with other users; --sort=P,-p,i has put it into this order.
LISTED = """\
200|PENDING|big||N/A|Priority
201|PENDING|big||2026-11-22T03:00:00|Resources
100|RUNNING|debug|node[01-02]|2026-11-21T18:00:00|None
101|PENDING|debug||N/A|Resources
102|PENDING|debug||N/A|Dependency
103_[1-9]|PENDING|debug||N/A|Priority
104|PENDING|debug||2026-11-22T03:00:00|Priority
105|PENDING|debug||N/A|JobHeldUser
106|PENDING|debug||N/A|ReqNodeNotAvail,_UnavailableNodes:node[07|08]
107|COMPLETING|debug|node07|2026-11-21T18:00:00|NonZeroExitCode
108|FAILED|debug|node07|2026-11-21T18:00:00|NonZeroExitCode
109|PENDING|small||N/A|None
"""


@pytest.mark.parametrize("shell", ["sh", "busybox"])
def test_one_call_tells_state_reason_and_place_in_the_queue(shell: str, tmp_path: Path) -> None:
    """A simulated squeue prints the list of a cluster with other users."""
    executable(tmp_path / "squeue", f"#!/bin/sh\necho \"$*\" >>{tmp_path}/called\ncat <<'END'\n{LISTED}END\n")
    if shell == "busybox":
        for name in ("sh", "awk"):
            (tmp_path / name).symlink_to(require("busybox"))
    ids = [*(str(number) for number in range(100, 110)), "200", "999"]

    done = subprocess.run(
        SLURM.status_command(ids), env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True, text=True
    )
    assert done.stderr == ""
    seen = SLURM.parse_status_output(ids, done.stdout, done.stderr, done.returncode)
    assert seen["100"] == BatchStatus("100", BatchState.RUNNING, "RUNNING", hosts=("node01", "node02"))
    places = {id: status.position for id, status in seen.items()}
    assert places == {**dict.fromkeys(ids), "101": 0, "104": 2, "109": 0}
    assert seen["104"].reason == (
        "Other jobs have higher priority. (Priority) Slurm expects to start it at 2026-11-22 03:00:00."
    )
    assert seen["105"].state is BatchState.HELD
    assert seen["106"].reason.endswith("name no nodes. (ReqNodeNotAvail, UnavailableNodes:node[07|08])")
    assert seen["107"].state is BatchState.RUNNING
    assert seen["108"].state is BatchState.FAILED
    # Somebody whom we cannot see is before the first of that partition.
    assert seen["200"].state is BatchState.PENDING
    assert seen["999"].state is BatchState.GONE
    assert (tmp_path / "called").read_text().count("\n") == 1


def test_an_answer_that_was_cut_off_is_none() -> None:
    for read in (SLURM.parse_find_output, lambda *said: SLURM.parse_status_output(["1"], *said)):
        with pytest.raises(Unreachable, match="the end of squeue's output is missing"):
            read("100||RUNNING|debug|n1|N/A|None\n", "", 0)


@pytest.mark.parametrize(
    ("stderr", "status"),
    [
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", 1),
        ("slurm_load_jobs error: Socket timed out on send/recv operation\n", 1),
        ("squeue: error: something new\n", 1),
        ("", 1),
    ],
)
def test_half_an_answer_is_none(stderr: str, status: int) -> None:
    """Jobs that are not in it must not be taken for gone."""
    for read in (
        SLURM.parse_find_output,
        SLURM.parse_queues_output,
        lambda *said: SLURM.parse_status_output(["1"], *said),
    ):
        with pytest.raises(Unreachable, match="Slurm does not respond"):
            read("100||RUNNING|debug|n1|N/A|None\n", stderr, status)
    with pytest.raises(Unreachable):
        SLURM.parse_history_output("1", "", stderr, status)


def test_what_sbatch_answers() -> None:
    assert SLURM.parse_submit_output("123\n", "", 0) == "123"
    assert SLURM.parse_submit_output("welcome\n123;cluster\n", "sbatch: warning: be kind\n", 0) == "123"
    with pytest.raises(Unreachable):
        SLURM.parse_submit_output(
            "", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n", 1
        )


@pytest.mark.parametrize(
    ("words", "field", "sentence"),
    [
        (
            "sbatch: error: invalid partition specified: x\n"
            "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
            "queue",
            "Slurm rejected the job: invalid partition specified: x. Batch job submission failed: Invalid partition "
            "name specified. Choose a partition that the target's check lists.",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n",
            "queue",
            "Slurm rejected the job: Batch job submission failed: Invalid account or account/partition combination "
            "specified. Choose a partition that the target's check lists.",
        ),
        (
            "sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds some "
            "limit)\n",
            "wall_time",
            "Slurm rejected the job: Batch job submission failed: Requested time limit is invalid (missing or exceeds "
            "some limit). Request a time that the partition allows.",
        ),
        ("sbatch: error: Invalid qos specification\n", "batch_arguments", None),
        ("sbatch: error: Batch job submission failed: Requested node configuration is not available\n", "nodes", None),
        (
            "sbatch: unrecognized option '--partitions=x'\nTry \"sbatch --help\" for more information\n",
            "batch_arguments",
            "Slurm rejected the job: sbatch: unrecognized option '--partitions=x'. Correct or remove that option in the "
            "further arguments.",
        ),
        ("sbatch: option '--mem' requires an argument\n", "batch_arguments", None),
        ("", None, "Slurm rejected the job: no reason was given."),
    ],
)
def test_what_sbatch_refuses(words: str, field: str | None, sentence: str | None) -> None:
    with pytest.raises(InvalidRequest) as refused:
        SLURM.parse_submit_output("", words, 1)
    assert refused.value.field == field
    assert sentence is None or refused.value.message == sentence


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        ("sacct|COMPLETED|0:0|n[1,3]\n", (BatchState.DONE, 0, None)),
        ("sacct|FAILED|3:0|n1\n", (BatchState.FAILED, 3, None)),
        ("sacct|FAILED|0:9|n1\n", (BatchState.FAILED, None, 9)),
        ("sacct|CANCELLED by 1000|0:15|n1\n", (BatchState.CANCELLED, None, None)),
        ("sacct|CANCELLED+|0:0|n1\n", (BatchState.CANCELLED, None, None)),
        ("sacct|TIMEOUT|0:0|n1\n", (BatchState.TIME_LIMIT, None, None)),
        ("sacct|OUT_OF_MEMORY|0:125|n1\n", (BatchState.FAILED, None, None)),
        ("sacct|NODE_FAIL|1:0|n1\n", (BatchState.FAILED, 1, None)),
        # A record that was never ended: the controller knows nothing of it.
        ("sacct|RUNNING|0:0|n1\n", (BatchState.UNKNOWN, None, None)),
        ("sacct|COMPLETED\n", (BatchState.DONE, None, None)),
        ("", (BatchState.UNKNOWN, None, None)),
        (
            "JobId=2 JobName=a JobState=FAILED Reason=NonZeroExitCode ExitCode=2:0 NodeList=n[08-10] Command=/a b=c\n",
            (BatchState.FAILED, 2, None),
        ),
        # 53: its output could not be opened.
        ("JobId=2 JobState=FAILED Reason=JobLaunchFailure ExitCode=0:53\n", (BatchState.FAILED, None, None)),
        ("JobId=2 JobState=RUNNING Reason=None ExitCode=0:0\n", (BatchState.RUNNING, None, None)),
    ],
)
def test_what_history_says(printed: str, seen: tuple[BatchState, int | None, int | None]) -> None:
    back = SLURM.parse_history_output("2", printed, "", 0)
    assert (back.id, back.state, back.exit_status, back.signal) == ("2", *seen)
    assert back.reason or back.state in (BatchState.DONE, BatchState.FAILED, BatchState.RUNNING)


@pytest.mark.parametrize("word", STATES)
def test_every_state_has_a_meaning(word: str) -> None:
    """What has ended says why, unless it is plain."""
    status = SLURM.parse_status_output(["1"], f"1||{word}|p|n1|N/A|None\nend\n", "", 0)["1"]
    assert status.native == word
    assert status.state is STATES[word]
    plain = {"REQUEUE_FED", "RUNNING", "RESIZING", "SIGNALING", "UPDATE_DB", "COMPLETED", "FAILED"}
    assert bool(status.reason) is (word not in plain)


def test_a_state_of_a_later_version_is_unknown() -> None:
    assert (
        SLURM.parse_status_output(["1"], "1||TELEPORTED|p|n1|N/A|None\nend\n", "", 0)["1"].state is BatchState.UNKNOWN
    )


@pytest.mark.parametrize(
    ("word", "begins"),
    [
        ("None", ""),
        ("Priority", "Other jobs have higher priority"),
        ("Resources", "It is next"),
        ("Dependency", "It waits for other jobs to end"),
        ("DependencyNeverSatisfied", "It will never start"),
        ("BeginTime", "It waits for its start time"),
        ("JobHeldAdmin", "It is held by an administrator"),
        ("PartitionConfig", "It will never start"),
        ("PartitionNodeLimit", "It will never start"),
        ("PartitionTimeLimit", "It will never start"),
        ("BadConstraints", "It will never start"),
        ("InvalidQOS", "It will never start"),
        ("AccountNotAllowed", "It will never start"),
        ("AssocMaxCpuPerJobLimit", "It will never start"),
        ("AssocMaxCPUMinutesPerJobLimit", "It will never start"),
        ("QOSMaxWallDurationPerJobLimit", "It will never start"),
        ("QOSMinCpuNotSatisfied", "It will never start"),
        ("QOSMaxCpuPerUserLimit", "It waits for other jobs to end: your other jobs"),
        ("QOSMaxCpuMinutesPerUserLimit", "It waits for other jobs to end: your other jobs"),
        ("QOSMaxJobsPerUserLimit", "It waits for other jobs to end: your other jobs"),
        ("AssocMaxJobsLimit", "It waits for other jobs to end: your other jobs"),
        ("AssocGrpCpuLimit", "It waits for other jobs to end: jobs of its account"),
        ("QOSGrpNodeLimit", "It waits for other jobs to end: jobs of its account"),
        ("AssocGrpCPUMinutesLimit", "The time of this account"),
        ("AssocGrpCPURunMinutesLimit", "The time of this account"),
        ("QOSGrpBillingRunMinutes", "The time of this account"),
        ("AssocGrpWallLimit", "The time of this account"),
        ("PartitionDown", "Its partition is closed"),
        ("ReqNodeNotAvail, May be reserved for other job", "The requested nodes"),
        (
            "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
            "Required nodes",
        ),
        ("launch_failed_requeued_held", "It could not be started"),
        ("Licenses", "It waits for licenses"),
        ("SomethingNew", "Slurm's reason: SomethingNew."),
    ],
)
def test_every_reason_has_a_meaning(word: str, begins: str) -> None:
    text = explain_reason(word)
    assert text.startswith(begins) if begins else text == ""
    assert not text or word.replace("_", " ") in text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("infinite", None),
        ("n/a", None),
        ("30", 1800),
        ("1:30", 90),
        ("2:00:00", 7200),
        ("1-00:00:00", 86400),
        ("2-03", 183600),
        ("1-12:30", 131400),
    ],
)
def test_time_limits(text: str, value: int | None) -> None:
    assert parse_time_limit(text) == value


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n1,login-2", ["n1", "login-2"]),
        ("n[01-03,7],m2", ["n01", "n02", "n03", "n7", "m2"]),
        ("r[1-2]-ib", ["r1-ib", "r2-ib"]),
        ("", []),
        ("n[1-2][3-4]", ["n[1-2][3-4]"]),
    ],
)
def test_host_lists(text: str, names: list[str]) -> None:
    assert expand_host_list(text) == tuple(names)


def test_cancelling_what_has_ended_is_no_error() -> None:
    SLURM.parse_cancel_output("", "scancel: error: Kill job error on job id 9: Invalid job id specified\n", 1)
    SLURM.parse_cancel_output(
        "", "scancel: error: Kill job error on job id 9: Job/step already completing or completed\n", 1
    )
    with pytest.raises(InvalidRequest, match="Access/permission denied"):
        SLURM.parse_cancel_output("", "scancel: error: Kill job error on job id 9: Access/permission denied\n", 1)
