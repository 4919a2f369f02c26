"""Jobs that really run, in a real Slurm and in LSF's double: the same holds for both."""

from __future__ import annotations

import shlex

import pytest

from perfloom.domain.errors import InvalidRequest, Unavailable, Unreachable
from perfloom.domain.jobs import Batch, Mpi, MpiFlavor
from perfloom.domain.targets import BatchState, SchedulerName
from tests.recording.schedulers.jobs import PATIENT, Jobs

HOSTILE = 'it\'s "$(touch pwned)" `touch pwned`; touch pwned &\n touch pwned | $HOME ä*?[a]\\ %j %J #'


def test_a_job_runs_and_is_seen_to_its_end(jobs: Jobs) -> None:
    id = jobs.shell('echo hello; : >"$1/ready"; until [ -e "$1/go" ]; do sleep 0.05; done; exit 3')
    jobs.ready()
    running = jobs.wait(id, BatchState.RUNNING)
    assert running.hosts and not running.reason
    assert jobs.named("perfloom-abc-0") is not None
    (jobs.folder / "go").touch()
    assert jobs.wait(id).state is BatchState.FAILED
    back = jobs.back(id)
    assert (back.state, back.exit_status, back.signal) == (BatchState.FAILED, 3, None)
    assert "hello" in jobs.printed()


def test_a_job_that_ends_well(jobs: Jobs) -> None:
    id = jobs.submit("true")
    assert jobs.wait(id).state is BatchState.DONE
    assert (jobs.back(id).state, jobs.back(id).exit_status) == (BatchState.DONE, 0)


def test_a_job_ended_by_a_signal(jobs: Jobs) -> None:
    id = jobs.shell("kill -KILL $$")
    jobs.wait(id)
    back = jobs.back(id)
    assert (back.state, back.exit_status, back.signal) == (BatchState.FAILED, None, 9)


def test_nothing_in_a_command_is_executed(jobs: Jobs) -> None:
    id = jobs.submit("sh", "-c", 'cd "$1" && printf %s "$2" >got', "sh", str(jobs.folder), HOSTILE)
    assert jobs.wait(id).state is BatchState.DONE
    assert (jobs.folder / "got").read_text() == HOSTILE
    assert not list(jobs.folder.rglob("pwned"))


@pytest.mark.parametrize("word", ["$(touch pwned)", "`touch pwned`", "; touch pwned", "-x", "a b", "'", '"'])
def test_nothing_in_a_field_is_executed(jobs: Jobs, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch system refuses it or not, in its own words; no shell ever sees it."""
    monkeypatch.chdir(jobs.folder)
    for batch in (Batch(queue=word), Batch(project=word, queue="closed")):
        try:
            id = jobs.submit("true", batch=batch)
        except InvalidRequest as error:
            assert error.message.startswith(f"{jobs.system.scheduler.title} rejected the job: ")
        else:
            jobs.cancel(id, gently=False)
    assert jobs.named(word) is None
    assert not list(jobs.folder.rglob("pwned"))


def test_an_unknown_queue_is_refused_with_what_to_do(jobs: Jobs) -> None:
    with pytest.raises(InvalidRequest, match=r"rejected the job: .*nosuch.* Choose a") as refused:
        jobs.submit("true", batch=Batch(queue="nosuch"))
    assert refused.value.field == "queue"


def test_an_unknown_option_is_refused(jobs: Jobs) -> None:
    with pytest.raises(InvalidRequest, match=r"rejected the job: .*frobnicate") as refused:
        jobs.submit("true", batch=Batch(arguments=("--frobnicate",)))
    assert refused.value.field == "batch_arguments"


def test_unknown_ids_are_gone_whatever_else_is_asked(jobs: Jobs) -> None:
    id = jobs.submit("true", batch=Batch(queue="closed"))
    assert [seen.state for seen in jobs.look("987654")] == [BatchState.GONE]
    assert [seen.state for seen in jobs.look("987654", id, "987653")] == [
        BatchState.GONE,
        BatchState.PENDING,
        BatchState.GONE,
    ]
    assert jobs.back("987654").state is BatchState.UNKNOWN
    jobs.cancel("987654", id, gently=True)
    jobs.cancel("987654", id, gently=False)
    assert jobs.look(id)[0].state is BatchState.CANCELLED


def test_a_lost_answer_is_found_again_by_name(jobs: Jobs) -> None:
    id = jobs.submit("true", name="perfloom-lost-7", batch=Batch(queue="closed"))
    assert jobs.named("perfloom-lost-7") == id
    assert jobs.named("perfloom-lost") is None
    jobs.cancel(id, gently=False)


def test_a_waiting_job_says_why_and_is_cancelled_gently(jobs: Jobs) -> None:
    id = jobs.submit("true", mpi=Mpi(MpiFlavor.OPENMPI, ranks=4), batch=Batch(queue="closed"))
    seen = jobs.look(id)[0]
    assert seen.state is BatchState.PENDING
    assert seen.reason and not seen.hosts
    jobs.cancel(id, gently=True)
    ended = jobs.look(id)[0]
    assert ended.state is BatchState.CANCELLED
    assert "cancelled" in ended.reason


def test_gently_a_running_job_completes_what_it_does(jobs: Jobs) -> None:
    id = jobs.shell(PATIENT)
    jobs.ready()
    jobs.cancel(id, gently=True)
    assert jobs.wait(id).state is BatchState.DONE
    text = jobs.printed()
    assert "told" in text and "completed" in text


@pytest.mark.slow
def test_otherwise_it_is_killed_whatever_it_does(jobs: Jobs) -> None:
    if jobs.system.name is SchedulerName.LSF:
        jobs.system.control(ten_seconds=0.3)  # type: ignore[attr-defined]
    id = jobs.shell('trap "" TERM INT; (trap "" TERM INT; sleep 61) & : >"$1/ready"; while :; do sleep 0.05; done')
    jobs.ready()
    jobs.cancel(id, gently=False)
    ended = jobs.wait(id)
    assert ended.state is BatchState.CANCELLED
    assert "cancelled" in ended.reason


def test_500_jobs_are_seen_in_one_call(jobs: Jobs) -> None:
    first = jobs.submit("true", batch=Batch(queue="closed"))
    last = jobs.submit("true", batch=Batch(queue="closed"))
    ids = [first, *(str(900_000 + number) for number in range(498)), last]
    states = [seen.state for seen in jobs.look(*ids)]
    assert states == [BatchState.PENDING, *[BatchState.GONE] * 498, BatchState.PENDING]
    jobs.cancel(first, last, gently=True)


def test_queues(jobs: Jobs) -> None:
    queues = jobs.system.scheduler.parse_queues_output(*jobs.system.run(jobs.system.scheduler.queues_command()))
    assert [(queue.name, queue.default, queue.open) for queue in queues] == [
        ("debug" if jobs.system.name is SchedulerName.SLURM else "normal", True, True),
        ("short", False, True),
        ("closed", False, False),
    ]
    assert all(queue.text for queue in queues)


def test_a_batch_system_that_is_not_there(jobs: Jobs) -> None:
    """Missing programs are a permanent error. Programs without an answer are a temporary one."""
    scheduler = jobs.system.scheduler
    for argv, read in (
        (scheduler.status_command(["1"]), lambda *said: scheduler.parse_status_output(["1"], *said)),
        (scheduler.queues_command(), scheduler.parse_queues_output),
        (scheduler.find_command("x"), scheduler.parse_find_output),
    ):
        with pytest.raises(Unavailable, match=r"was not found there. Add the module"):
            read(*jobs.system.run(["/bin/sh", "-c", f"PATH=/nosuch; {shlex.join(argv)}"], SLURM_CONF="/nosuch"))
    nobody = {"LSF_DOUBLE_DIR": "/nosuch", "LSB_NTRIES": "1"}
    if jobs.system.name is SchedulerName.SLURM:
        conf = (jobs.system.folder / "slurm.conf").read_text()
        (jobs.folder / "slurm.conf").write_text(conf.replace("SlurmctldPort=", "MessageTimeout=2\nSlurmctldPort=1#"))
        nobody = {"PATH": "/usr/bin:/bin", "SLURM_CONF": str(jobs.folder / "slurm.conf")}
    with pytest.raises(Unreachable, match="does not respond"):
        scheduler.parse_status_output(["1"], *jobs.system.run(scheduler.status_command(["1"]), **nobody))
    with pytest.raises(Unreachable, match="does not respond"):
        scheduler.parse_submit_output(
            *jobs.system.run(["bsub", "x"] if "bsub" in scheduler.programs else ["sbatch", "--wrap=true"], **nobody)
        )
    with pytest.raises(Unreachable, match="does not respond"):
        scheduler.parse_cancel_output(*jobs.system.run(scheduler.cancel_command(["1"], gently=False), **nobody))
