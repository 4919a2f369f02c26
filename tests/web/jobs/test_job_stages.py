"""The stage rail: what a job's history means to a person."""

from dataclasses import replace

import pytest

from perfloom.domain.jobs import JobDetails, JobState, Outcome
from perfloom.domain.units import format_elapsed
from perfloom.store.jobs import Job
from perfloom.web.views.job_stages import LABELS, StageStatus, failure_advice, list_stages, outcome_text

JOB = Job(
    id="abc123def456",
    kind="record",
    name="a",
    spec={},
    target="local",
    state=JobState.QUEUED,
    progress=None,
    progress_text="",
    created=100.0,
    changed=100.0,
    started=None,
    ended=None,
    attempt=0,
    claimed_by=None,
    host=None,
    process_group=None,
    argv=None,
    outcome=None,
    reason=None,
    result_id=None,
    cancel_requested=False,
    due_at=None,
    details=JobDetails(),
    history=((JobState.QUEUED, 100.0),),
)


def at(state: JobState, *history: tuple[JobState, float], **changes: object) -> Job:
    return replace(JOB, state=state, history=((JobState.QUEUED, 100.0), *history, (state, 110.0)), **changes)  # type: ignore[arg-type]


def shape(job: Job, now: float = 112.0) -> list[tuple[str, str, float | None]]:
    return [(stage.name, str(stage.status), stage.seconds) for stage in list_stages(job, now)]


def test_a_job_under_way() -> None:
    job = at(JobState.RUNNING, (JobState.STAGING, 103.0), progress=0.25, progress_text="a quarter")
    assert shape(job) == [
        ("queued", "done", 3.0),
        ("staging", "done", 7.0),
        ("running", "now", 2.0),
        ("collecting", "ahead", None),
        ("reading", "ahead", None),
        ("stored", "ahead", None),
    ]
    now = list_stages(job, 112.0)[2]
    assert (now.since, now.progress, now.text) == (110.0, 0.25, "a quarter")


def test_a_stored_job_shows_the_duration_of_each_stage() -> None:
    job = at(JobState.STORED, (JobState.STAGING, 101.0), (JobState.RUNNING, 102.0), (JobState.READING, 108.0))
    assert shape(job, 10_000.0) == [
        ("queued", "done", 1.0),
        ("staging", "done", 1.0),
        ("running", "done", 6.0),
        ("collecting", "never", None),
        ("reading", "done", 2.0),
        ("stored", "done", None),
    ]


@pytest.mark.parametrize("end", [JobState.FAILED, JobState.CANCELLED, JobState.LOST])
def test_a_failure_is_shown_at_its_stage(end: JobState) -> None:
    job = at(end, (JobState.STAGING, 103.0), (JobState.RUNNING, 104.0))
    assert shape(job) == [
        ("queued", "done", 3.0),
        ("staging", "done", 1.0),
        ("running", "ended", 6.0),
        ("collecting", "never", None),
        ("reading", "never", None),
        (end.value, "ended", None),
    ]
    assert failure_advice(job)


def test_a_cancelled_and_kept_recording_passed_all_stages() -> None:
    way = (
        (JobState.STAGING, 101.0),
        (JobState.RUNNING, 102.0),
        (JobState.COLLECTING, 108.0),
        (JobState.READING, 109.0),
    )
    job = at(JobState.CANCELLED, *way, result_id="abc123def456")
    assert [(name, status) for name, status, _ in shape(job)] == [
        ("queued", "done"),
        ("staging", "done"),
        ("running", "done"),
        ("collecting", "done"),
        ("reading", "done"),
        ("cancelled", "ended"),
    ]
    assert "kept" in failure_advice(job)


def test_a_stage_entered_twice_counts_both_times() -> None:
    again = ((JobState.STAGING, 101.0), (JobState.QUEUED, 102.0), (JobState.STAGING, 105.0))
    assert shape(at(JobState.RUNNING, *again))[:2] == [("queued", "done", 4.0), ("staging", "done", 6.0)]


def test_import_and_batch_job_have_their_own_stages() -> None:
    assert [stage.name for stage in list_stages(replace(JOB, kind="import"), 101.0)] == ["queued", "reading", "stored"]
    assert [stage.name for stage in list_stages(at(JobState.PENDING), 112.0)][:4] == [
        "queued",
        "staging",
        "pending",
        "running",
    ]


def test_a_clock_set_back_shows_no_negative_time() -> None:
    assert all((stage.seconds or 0) >= 0 for stage in list_stages(at(JobState.RUNNING), 90.0))


def test_every_state_has_a_label() -> None:
    assert set(LABELS) == set(JobState)
    assert {stage.status for state in JobState for stage in list_stages(at(state), 112.0)} == set(StageStatus)


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (None, ""),
        (Outcome(), ""),
        (Outcome(exit_status=3), "The program ended with exit status 3."),
        (Outcome(signal=11), "The program was ended by signal 11 (SIGSEGV)."),
        (Outcome(signal=42), "The program was ended by signal 42."),
        (Outcome(exit_status=0, time_limit=True), "The recording was ended at its time limit."),
        (Outcome(signal=15, cancelled=True), "The program was ended because the job was cancelled."),
    ],
)
def test_the_outcome_is_one_sentence(outcome: Outcome | None, text: str) -> None:
    assert outcome_text(outcome) == text


def test_times_are_short() -> None:
    assert [format_elapsed(s).replace("\u00a0", " ") for s in (0, 0.04, 3.14, 59.6, 200)] == [
        "0.0 s",
        "0.0 s",
        "3.1 s",
        "60 s",
        "3 min 20 s",
    ]
