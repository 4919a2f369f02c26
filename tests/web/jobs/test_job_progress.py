"""What the page of a job shows of it at its target: submissions, runs and ranks, from few to very many."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from perfloom.domain.jobs import JobSpec, JobState, Mpi, MpiFlavor
from perfloom.domain.targets import BatchState, BatchStatus, SchedulerName, Ssh, Target
from perfloom.recording.job_status import JobStatus, RankStatus, RunStatus, SubmissionStatus
from perfloom.store import Job, Store
from perfloom.web.views.jobs import progress as job_progress
from tests.web.conftest import HOSTILE, Browser
from tests.web.jobs.test_job_page import job, text_of

SPEC = JobSpec(name="ranks", target="cluster", command=("./solver",), mpi=Mpi(MpiFlavor.OPENMPI, 4))


def seen(store: Store, made: Job, sight: JobStatus, events: Any = None) -> None:
    """Write what the workers would have."""
    directory = store.jobs.directory(made.id)
    (directory / "run").mkdir(parents=True, exist_ok=True)
    (directory / "run" / "sight.json").write_text(json.dumps(sight.to_json()))
    if events is not None:
        planned = [{"run": n, "events": list(each), "command": []} for n, each in enumerate(events)]
        shown = {"runs": planned, "preview": "ssh login\n  mpirun\n    perf record --\n      ./solver"}
        (directory / "run" / "plan.json").write_text(json.dumps(shown))


def ranks(run: int, *states: str, **more: Any) -> tuple[RankStatus, ...]:
    return tuple(RankStatus(run, n, f"node{n // 2}", state, size=len(states), **more) for n, state in enumerate(states))


def part(browser: Browser, id: str) -> str:
    """The part of the page that shows the sight."""
    parts = json.loads(browser.page(f"/jobs/{id}/live"))["parts"]
    return str(parts["progress"]["html"])


def test_a_pending_job_shows_the_reason(browser_client: Browser, store: Store) -> None:
    store.targets.save(Target("cluster", ssh=Ssh("login"), scheduler=SchedulerName.SLURM))
    made = job(store, JobState.STAGING, spec=SPEC)
    store.jobs.transition(made.id, JobState.STAGING, JobState.PENDING)
    batch = BatchStatus("4711", BatchState.PENDING, "PD", "Resources", position=12)
    seen(store, made, JobStatus((SubmissionStatus(0, "4711", batch=batch),), seen_at=time.time() - 7))
    page = browser_client.page(f"/jobs/{made.id}")
    text = text_of(page)
    assert "At cluster" in text and "Waiting 4711 PD 12 ahead Resources" in text
    assert re.search(r"checked \d+(\.\d)? s ago", text)
    assert re.search(r'data-status="now" data-stage="pending" aria-current="step"', page)
    assert re.findall(r'data-stage="(\w+)"', page) == [
        *("queued", "staging", "pending", "running", "collecting", "reading", "stored"),
    ]
    live = json.loads(browser_client.page(f"/jobs/{made.id}/live"))
    assert 7 <= live["seen_s"] < 60


def test_every_state_of_a_batch_job_has_a_word(store: Store) -> None:
    for state in BatchState:
        batch = BatchStatus("1", state, exit_status=3 if state is BatchState.FAILED else None, hosts=("a", "b"))
        (row,) = job_progress.build_progress_view(
            JobStatus((SubmissionStatus(0, "1", batch=batch),)), None, {}
        ).submissions
        assert row.label and row.badge in ("stored", "failed", "lost", "running", "pending") and row.hosts == "a, b"
        assert row.exit_text == ("exit status 3" if state is BatchState.FAILED else "")
    dead = job_progress.build_progress_view(
        JobStatus((SubmissionStatus(0, "12 34 boot", alive=False),)), None, {}
    ).submissions[0]
    assert (dead.scheduler_id, dead.label) == ("process 12", "No longer running")
    told = SubmissionStatus(0, "12 34", exit_status=143, stopped="limit")
    ended = job_progress.build_progress_view(JobStatus((told,)), None, {}).submissions[0]
    assert (ended.label, ended.reason, ended.exit_text) == ("Ended", "ended at its time limit", "signal 15")


def test_a_few_ranks_are_named(browser_client: Browser, store: Store) -> None:
    made = job(store, JobState.RUNNING, spec=SPEC)
    two = (RunStatus(0, "ended", exit_status=1), RunStatus(1, "running"))
    crashed = RankStatus(0, 3, "node1", "ended", exit_status=139, size=4)
    sight = JobStatus((), two, (*ranks(0, "done", "done", "reading"), crashed, *ranks(1, "recording", "started")[:2]))
    seen(store, made, sight, [("cycles", "instructions"), ("cache-misses",)])
    page = browser_client.page(f"/jobs/{made.id}")
    assert '<span class="preview__line" data-depth="3"><span>./solver</span></span>' in page
    text = text_of(page)
    assert "Run 0 Ended cycles, instructions exit status 1" in text and "Run 1 Running cache-misses" in text
    assert "1 being read 2 done 1 failed" in text and "2 waiting 1 starting 1 running" in text
    assert "rank 3 node1 · signal 11" in text
    assert "0 3 node1 Ended with signal 11." in text
    # MPI reported three (two) ranks: the wrong MPI launcher runs each rank as a separate program.
    assert "MPI reports 3 ranks instead of 4" in text


def test_the_page_follows_the_progress_and_nothing_else(browser_client: Browser, store: Store) -> None:
    made = job(store, JobState.RUNNING, spec=SPEC)
    seen(store, made, JobStatus((), (RunStatus(0, "running"),), ranks(0, *["recording"] * 4), seen_at=1.0))
    first = json.loads(browser_client.page(f"/jobs/{made.id}/live"))["parts"]
    known = ",".join(part["mark"] for part in first.values())
    seen(store, made, JobStatus((), (RunStatus(0, "running"),), ranks(0, *["recording"] * 4), seen_at=2.0))
    assert json.loads(browser_client.page(f"/jobs/{made.id}/live?known={known}"))["parts"] == {}
    seen(store, made, JobStatus((), (RunStatus(0, "running"),), ranks(0, "done", *["recording"] * 3), seen_at=3.0))
    assert set(json.loads(browser_client.page(f"/jobs/{made.id}/live?known={known}"))["parts"]) == {"progress"}


def test_a_thousand_ranks_stay_a_small_page(browser_client: Browser, store: Store) -> None:
    spec = JobSpec(target="cluster", command=("x",), mpi=Mpi(MpiFlavor.SRUN, 1024, every=4))
    made = job(store, JobState.RUNNING, spec=spec)
    found = [
        RankStatus(
            0, n, f"n{n // 48}", "recording", recorded=n % 4 == 0, size=1024, exit_status=1 if n % 20 == 0 else None
        )
        for n in range(1000)
    ]
    seen(store, made, JobStatus((), (RunStatus(0, "running"), RunStatus(1, "waiting")), tuple(found)))
    html = part(browser_client, made.id)
    assert html.count('<i class="rank"') == 1024, "ranks of a run that waits are counted, not drawn"
    assert len(html) < 120_000
    assert "24 waiting" in html and "950 running" in html and "50 failed" in html and "1,024 waiting" in html
    assert html.count('scope="row"') == job_progress.MAX_PROBLEMS and "and 25 more" in html
    assert 'title="rank 1 · n0 · running · not recorded"' in html
    huge = JobStatus((), tuple(RunStatus(n, "running") for n in range(12)), ())
    view = job_progress.build_progress_view(huge, 1024, {})
    assert sum(len(run.cells) for run in view.runs) == job_progress.MAX_CELLS
    assert sum(run.hidden_ranks for run in view.runs) == 12 * 1024 - job_progress.MAX_CELLS


def test_ranks_that_were_never_seen(store: Store) -> None:
    ended = JobStatus((), (RunStatus(0, "ended"),), ranks(0, "done", "recording"))
    view = job_progress.build_progress_view(ended, 6, {})
    assert {state: count for state, _, count in view.runs[0].counts} == {"recording": 1, "done": 1, "failed": 4}
    assert [(one.rank, one.text.split(".")[0]) for one in view.problems] == [
        ("0", "MPI reports 2 ranks instead of 6"),
        ("1", "The run ended, but this rank did not report its end"),
        ("2–5", "No status was reported"),
    ]
    assert job_progress.format_ranks([0, 1, 2, 5, 7, 8]) == "0–2, 5, 7–8"


def test_one_process_needs_no_drawing(browser_client: Browser, store: Store) -> None:
    made = job(store, JobState.RUNNING, spec=JobSpec(target="node", command=("x",)))
    alone = JobStatus(
        (SubmissionStatus(0, "77 1", alive=True),), (RunStatus(0, "running"),), (RankStatus(0, None, "n", "recording"),)
    )
    seen(store, made, alone)
    html = part(browser_client, made.id)
    assert "process 77" in html and 'class="rank"' not in html


def test_data_of_other_versions_is_ignored(browser_client: Browser, store: Store) -> None:
    made = job(store, JobState.RUNNING, spec=SPEC)
    path = store.jobs.directory(made.id) / "run" / "sight.json"
    path.parent.mkdir(parents=True)
    for text in ("", "{", "[]", '{"ranks": [{"planet": 1}]}', '{"submissions": [{"number": 0}]}', "null", '"x"'):
        path.write_text(text)
        assert "At cluster" not in browser_client.page(f"/jobs/{made.id}"), text


def test_hostile_names_do_nothing(browser_client: Browser, store: Store) -> None:
    for text in HOSTILE:
        spec = JobSpec(target=text, command=("x",), mpi=Mpi(MpiFlavor.OPENMPI, 2, program=text))
        made = job(store, JobState.RUNNING, spec=spec, name="evil")
        batch = BatchStatus(text, BatchState.PENDING, text, text, hosts=(text, text))
        rank = RankStatus(0, 0, text, "recording", note=text, exit_status=1)
        sight = JobStatus(
            (SubmissionStatus(0, text, text, batch, stopped=text),), (RunStatus(0, text),), (rank,), notes=(text,)
        )
        seen(store, made, sight, [(text, text)])
        for path in (f"/jobs/{made.id}", "/jobs"):
            page = browser_client.page(path)
            assert not re.search(r"<script>window|<img src=x|<svg/onload", page), path
