"""Outcomes computed from observed statuses: pure functions, so every case is cheap."""

import itertools
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.jobs import JobSpec, Mpi, MpiFlavor
from perfloom.domain.targets import BatchState, BatchStatus
from perfloom.recording.job_status import JobStatus, RankStatus, RunStatus, SubmissionStatus
from perfloom.recording.liveness import silent_since, with_heartbeats
from perfloom.workers.base.jobfiles import JobFiles
from perfloom.workers.jobs.inputs import input_files
from perfloom.workers.local import supervisor_client
from perfloom.workers.remote import outcome
from perfloom.workers.remote.outcome import Phase, assess_status, get_phase, recording_outcome
from perfloom.workers.remote.output import RemoteOutput

SPEC = JobSpec(command=("x",), duration_s=3.0)
RANKS = JobSpec(command=("x",), mpi=Mpi(MpiFlavor.OPENMPI, 4))


def seen(*submissions: SubmissionStatus, **more: object) -> JobStatus:
    return JobStatus(submissions=submissions, **more)  # type: ignore[arg-type]


def batch(state: BatchState, **more: object) -> BatchStatus:
    return BatchStatus("1", state, **more)  # type: ignore[arg-type]


def submission(state: BatchState | None = None, number: int = 0, reason: str = "", **more: object) -> SubmissionStatus:
    status = None if state is None else batch(state, reason=reason)
    return SubmissionStatus(number, "1", batch=status, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (submission(alive=True), Phase.RUNS),
        (submission(alive=False), Phase.SILENT),
        (submission(), Phase.UNKNOWN),
        (submission(exit_status=0, alive=True), Phase.ENDED),
        (submission(BatchState.PENDING), Phase.WAITS),
        (submission(BatchState.HELD), Phase.WAITS),
        (submission(BatchState.RUNNING), Phase.RUNS),
        (submission(BatchState.SUSPENDED), Phase.RUNS),
        (submission(BatchState.UNKNOWN), Phase.UNKNOWN),
        (submission(BatchState.GONE), Phase.SILENT),
        (submission(BatchState.DONE), Phase.SILENT),
        (submission(BatchState.RUNNING, exit_status=1), Phase.ENDED),
        (submission(BatchState.FAILED, exit_status=0), Phase.ENDED),
        (submission(BatchState.FAILED, alive=True), Phase.RUNS),
        (submission(BatchState.PENDING, alive=True), Phase.RUNS),
        (submission(BatchState.GONE, lives=True), Phase.RUNS),
        (submission(BatchState.UNKNOWN, lives=True, alive=False), Phase.RUNS),
        (submission(lives=True), Phase.RUNS),
        (submission(lives=True, alive=False), Phase.SILENT),
    ],
    ids=lambda value: value.value if isinstance(value, Phase) else "",
)
def test_submission_phase(one: SubmissionStatus, expected: Phase) -> None:
    assert get_phase(one) is expected


def test_every_batch_state_has_a_phase() -> None:
    for state, status in itertools.product(BatchState, (None, 0, 1)):
        assert isinstance(get_phase(submission(state, exit_status=status)), Phase)


def signs(*looks: tuple[float, str, BatchState]) -> SubmissionStatus:
    """A submission after polls at these times, each with its heartbeat and the state of the batch system."""
    last = None
    for now, life, state in looks:
        last = with_heartbeats(seen(submission(state, life=life)), last, now)
    assert last is not None
    return last.submissions[0]


def test_heartbeats_outrank_batch_state() -> None:
    run, failed, unknown = BatchState.RUNNING, BatchState.FAILED, BatchState.UNKNOWN
    assert get_phase(signs((0, "1", run), (5, "2", failed))) is Phase.SILENT
    assert get_phase(signs((0, "1", run), (5, "2", failed), (10, "2", failed))) is Phase.SILENT
    assert get_phase(signs((0, "1", run), (5, "2", failed), (10, "3", failed))) is Phase.RUNS
    assert get_phase(signs((0, "1", run), (5, "2", failed), (10, "3", failed), (56, "3", failed))) is Phase.SILENT
    # Where it says nothing, those from before count as well.
    assert get_phase(signs((0, "1", run), (5, "1", unknown))) is Phase.RUNS
    assert get_phase(signs((0, "1", run), (50, "1", unknown))) is Phase.UNKNOWN
    # What is seen for the first time may be old.
    assert get_phase(signs((0, "1", unknown))) is Phase.UNKNOWN and get_phase(signs((0, "1", failed))) is Phase.SILENT
    # It may be put back into the queue, and ended twice.
    assert signs((0, "1", run), (5, "2", failed), (10, "3", run), (15, "3", failed)).doubted_at == 15
    silent = seen(replace(submission(failed, host="n"), life_at=1.0))
    assert (
        not assess_status(SPEC, silent, outcome.HEARTBEAT_WAIT_S - 0.1).has_ended
        and assess_status(SPEC, silent, outcome.HEARTBEAT_WAIT_S).has_ended
    )


def test_time_without_a_heartbeat_is_reported() -> None:
    one = signs((0, "1", BatchState.RUNNING), (100, "1", BatchState.RUNNING))
    assert silent_since(one, 100) == 0 and silent_since(one, 59) is None
    assert "no heartbeat since 1970-01-01 00:00 UTC" in assess_status(SPEC, seen(one, seen_at=100.0), 0).text
    for other in (replace(one, exit_status=0), replace(one, batch=batch(BatchState.SUSPENDED))):
        assert silent_since(other, 100) is None


def test_an_exit_status_outranks_the_batch_system() -> None:
    for state in (BatchState.FAILED, BatchState.TIME_LIMIT, BatchState.CANCELLED, BatchState.GONE):
        ending = recording_outcome(
            SPEC, seen(submission(state, exit_status=0), runs=(RunStatus(0, "ended", 0),)), end_requested=False
        )
        assert (ending.outcome.exit_status, ending.outcome.time_limit, ending.incomplete_reasons) == (0, False, ())


def test_a_job_ends_with_all_its_submissions() -> None:
    ended, waits, runs = (
        submission(BatchState.DONE, exit_status=0),
        submission(BatchState.PENDING, 1),
        submission(BatchState.RUNNING, 1),
    )
    assert assess_status(SPEC, seen(ended), 0.0).has_ended
    assert (
        not assess_status(SPEC, seen(ended, waits), 100.0).has_ended
        and assess_status(SPEC, seen(ended, waits), 100.0).is_pending
    )
    assert (
        not assess_status(SPEC, seen(ended, runs), 100.0).has_ended
        and not assess_status(SPEC, seen(ended, runs), 100.0).is_pending
    )


def test_a_submission_without_exit_status_ends_after_a_delay() -> None:
    """Files of another machine are visible late, and a batch system may not know a new job yet."""
    for state, delay in ((BatchState.DONE, outcome.SETTLE_S), (BatchState.GONE, outcome.GONE_S)):
        status = seen(submission(state, host="n1"))
        assert not assess_status(SPEC, status, delay - 0.1).has_ended and assess_status(SPEC, status, delay).has_ended
    assert assess_status(SPEC, seen(submission(BatchState.CANCELLED)), 0.0).has_ended


def test_the_reason_of_the_batch_system_is_awaited() -> None:
    stopped = seen(submission(BatchState.RUNNING, exit_status=0, stopped="1"))
    assert (
        not assess_status(SPEC, stopped, outcome.SETTLE_S - 0.1).has_ended
        and assess_status(SPEC, stopped, outcome.SETTLE_S).has_ended
    )
    assert assess_status(SPEC, stopped, 0.0, end_requested=True).has_ended
    assert assess_status(SPEC, seen(submission(BatchState.TIME_LIMIT, exit_status=0, stopped="1")), 0.0).has_ended
    assert assess_status(SPEC, seen(submission(BatchState.RUNNING, exit_status=0)), 0.0).has_ended


def test_texts_of_waiting_and_running_jobs() -> None:
    status = batch(BatchState.PENDING, reason="Priority", position=3)
    assert (
        assess_status(SPEC, seen(SubmissionStatus(0, "1", batch=status)), 0).text
        == "Waiting in the queue: Priority; 3 ahead of it"
    )
    assert "until it is released" in assess_status(SPEC, seen(submission(BatchState.HELD)), 0).text
    ranks = tuple(RankStatus(1, number, f"n{number}", "recording") for number in range(3))
    runs = (RunStatus(0, "ended", 0), RunStatus(1, "running"))
    text = assess_status(RANKS, seen(submission(BatchState.RUNNING), ranks=ranks, runs=runs), 0).text
    assert text == "Running on n0, n1, n2; 1 of 2 runs are done; 3 of 4 ranks have started"
    assert "Suspended" in assess_status(SPEC, seen(submission(BatchState.SUSPENDED)), 0).text


def test_recording_outcome() -> None:
    good = seen(submission(exit_status=0), runs=(RunStatus(0, "ended", 0),))
    ending = recording_outcome(SPEC, good, end_requested=False)
    assert (ending.outcome.exit_status, ending.incomplete_reasons) == (0, ())
    # Asked for too late, it changed nothing.
    assert not recording_outcome(SPEC, good, end_requested=True).outcome.cancelled
    bad = seen(submission(exit_status=3), runs=(RunStatus(0, "ended", 3),))
    ending = recording_outcome(SPEC, bad, end_requested=False)
    assert (ending.outcome.exit_status, ending.incomplete_reasons) == (3, ("The command ended with exit status 3.",))
    failed_rank = seen(
        submission(exit_status=3), runs=(RunStatus(0, "ended", 3),), ranks=(RankStatus(0, None, "h", "done", 3),)
    )
    ending = recording_outcome(SPEC, failed_rank, end_requested=False)
    assert ending.incomplete_reasons == () and ending.outcome.reasons == ("The command ended with exit status 3.",)
    crashed = seen(submission(exit_status=139), runs=(RunStatus(0, "ended", 139),))
    ending = recording_outcome(SPEC, crashed, end_requested=False)
    assert (ending.outcome.exit_status, ending.outcome.signal) == (None, 11)
    assert "SIGSEGV" in ending.incomplete_reasons[0]
    cancelled = seen(submission(exit_status=143, stopped="signal TERM"), runs=(RunStatus(0, "ended", 143),))
    ending = recording_outcome(SPEC, cancelled, end_requested=True)
    assert (
        ending.outcome.cancelled
        and ending.incomplete_reasons == ("It was cancelled.",)
        and ending.outcome.exit_status is None
    )
    assert "Another process" in recording_outcome(SPEC, cancelled, end_requested=False).incomplete_reasons[0]


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (submission(BatchState.TIME_LIMIT), "time limit"),
        (submission(BatchState.CANCELLED, reason="TERM_ADMIN"), "not by Perfloom: TERM_ADMIN"),
        (submission(BatchState.FAILED, reason="OUT_OF_MEMORY"), "The batch system ended it: OUT_OF_MEMORY"),
        (submission(BatchState.GONE), outcome.UNKNOWN_TO_BATCH_SYSTEM),
        (submission(alive=False), outcome.JOB_LOST),
    ],
)
def test_reasons_of_incomplete_recordings(one: SubmissionStatus, words: str) -> None:
    ending = recording_outcome(SPEC, seen(one), end_requested=False)
    assert words in ending.incomplete_reasons[0] and ending.outcome.time_limit == ("limit" in words)
    assert outcome.is_lost(seen(one)) == (one.batch is None or one.batch.state is BatchState.GONE)


def test_the_limit_of_the_job_itself() -> None:
    ranks = (RankStatus(0, None, "h", "done", stopped="limit"),)
    ending = recording_outcome(
        SPEC, seen(submission(exit_status=0), ranks=ranks, runs=(RunStatus(0, "ended", 0),)), end_requested=False
    )
    assert ending.outcome.time_limit and ending.incomplete_reasons == ("The command reached the limit of 3 s.",)


def test_input_files_of_all_runs() -> None:
    assert input_files(["/a/in{run}", "/b"], 3) == ("/a/in0", "/a/in1", "/a/in2", "/b")
    assert input_files(["/a/in{run}"], 1) == ("/a/in{run}",)
    for wrong in (["relative"], ["/a/x", "/b/x"], ["/"], ["/a/.."]):
        with pytest.raises(InvalidRequest):
            input_files(wrong, 1)


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=30))
def test_output_pieces_of_any_size(pieces: list[tuple[int, bool]]) -> None:
    """Its beginning and its end are there, and how much is missing; pieces come twice after a crash."""
    whole = b"".join(b"%04d\n" % number for number in range(400))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor_client, "HEAD_BYTES", 50)
        patch.setattr(supervisor_client, "TAIL_BYTES", 50)
        files = JobFiles(Path(folder))
        files.prepare()
        far = 0
        for size, twice in pieces:
            start = RemoteOutput(files).next_offset(far, 30)
            for _ in range(1 + twice):
                RemoteOutput(files).append(whole[start : start + size], start)
            far = max(far, start + size)
            text = files.output.read_bytes()
            here = RemoteOutput(files).here
            assert text[:50] == whole[: min(50, here)] or here > 50
            assert whole[:here].endswith(text.rpartition(b"here \xe2\x80\xa6]\n")[2][-5:])
            assert len(text) < 200
