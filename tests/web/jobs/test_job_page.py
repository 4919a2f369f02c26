"""The page of a job, the list of jobs, and jobs as JSON, over a real store."""

from __future__ import annotations

import html
import itertools
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from perfloom.domain.jobs import Cancellation, Executor, JobDetails, JobSpec, JobState, Outcome, Scope
from perfloom.domain.profile import Profile
from perfloom.store import Job, Store
from tests.web.conftest import HOSTILE, TOKEN, Browser, profile

SPEC = JobSpec(name="sums", command=("sh", "-c", "sum 'a b'"), environment={"PASSWORD": "hunter2"}, cwd="/tmp")
ARGV = ("/usr/bin/perf", "record", "-o", "/data/perf.data", "--", "sh", "-c", "sum 'a b'")
ROAD = (JobState.QUEUED, JobState.STAGING, JobState.RUNNING, JobState.COLLECTING, JobState.READING)


def job(store: Store, state: JobState = JobState.QUEUED, *, spec: JobSpec = SPEC, **columns: Any) -> Job:
    """A job that has passed through the states up to `state`, or ended with it from RUNNING."""
    made = store.jobs.create("record", spec.to_json(), columns.pop("name", spec.name))
    way = ROAD[: ROAD.index(state) + 1] if state in ROAD else (*ROAD[:3], state)
    if state is JobState.STORED:
        way = (*ROAD, state)
    for before, after in itertools.pairwise(way):
        assert store.jobs.transition(made.id, before, after, **(columns if after is state else {}))
    return store.jobs.get(made.id)


def jobs_in(store: Store) -> int:
    return sum(store.jobs.counts().values())


def printed(store: Store, id: str, data: bytes) -> Path:
    directory = store.jobs.directory(id)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "output.log").write_bytes(data)
    return directory / "output.log"


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page.split("<main")[1])).split())


def test_a_running_job(browser_client: Browser, store: Store) -> None:
    running = job(store, JobState.RUNNING, argv=ARGV, host="node17")
    store.jobs.report_progress(running.id, 0.25, "Records; 3 MB so far")
    printed(store, running.id, b"\x1b[31mhello\x1b[0m <b>\n 10%\r 20%")
    page = browser_client.page(f"/jobs/{running.id}")
    text = text_of(page)
    assert 'http-equiv="refresh"' in page.split("<noscript>")[1].split("</noscript>")[0]
    assert "/usr/bin/perf record -o /data/perf.data -- sh -c 'sum '\"'\"'a b'\"'\"''" in text
    assert "hello <b> 20%" in text and "10%" not in text and "\x1b" not in page
    assert "Records; 3 MB so far" in text and 'value="0.250"' in page
    assert re.search(r'data-status="now" data-stage="running" aria-current="step"', page)
    assert "node17" in text and "PASSWORD (values not shown)" in text and "hunter2" not in page
    assert f'action="/jobs/{running.id}/cancel"' in page
    assert f'action="/jobs/{running.id}/retry"' not in page


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLED, JobState.LOST])
def test_a_failure_shows_reason_and_advice(browser_client: Browser, store: Store, state: JobState) -> None:
    reason = "sh cannot be executed: <No such file>."
    ended = job(store, state, reason=reason, outcome=Outcome(exit_status=3))
    page = browser_client.page(f"/jobs/{ended.id}")
    assert f'<p class="verdict__reason">{html.escape(reason)}</p>' in page
    text = text_of(page)
    assert "The program ended with exit status 3." in text
    assert "Retry" in text and "Edit and resubmit" in text and "Cancel" not in text.replace("Cancelled", "")
    assert "refresh" not in page
    assert re.search(rf'data-status="ended" data-stage="{state}"', page)


def test_a_stored_job_offers_its_result(
    browser_client: Browser, store: Store, stored: Callable[..., str], ordinary: str
) -> None:
    done = job(store, JobState.STORED, result_id=ordinary)
    page = browser_client.page(f"/jobs/{done.id}")
    assert f'href="/results/{ordinary}/flamegraph" data-open-result' in page
    assert "not_complete" not in page and "What is missing" not in page
    counted: Profile = profile(samples=0)
    id = stored(counted, "counted00000")
    assert 'href="/results/counted00000" data-open-result' in browser_client.page(
        f"/jobs/{job(store, JobState.STORED, result_id=id).id}"
    )
    store.results.delete(ordinary)
    assert "Its result was deleted." in text_of(browser_client.page(f"/jobs/{done.id}"))


def test_a_cancelled_recording_that_was_kept(browser_client: Browser, store: Store, ordinary: str) -> None:
    outcome = Outcome(cancelled=True, reasons=("It was cancelled.",))
    kept = job(store, JobState.CANCELLED, reason="It was cancelled.", outcome=outcome, result_id=ordinary)
    text = text_of(browser_client.page(f"/jobs/{kept.id}"))
    assert "Open the result" in text and "What was recorded before that is kept." in text
    assert text.count("It was cancelled.") == 1


def test_an_exit_status_is_shown_once(browser_client: Browser, store: Store, ordinary: str) -> None:
    outcome = Outcome(exit_status=3, reasons=("The command ended with exit status 3.", "A process was left."))
    for state, reason, result in (
        (JobState.FAILED, "The command ended with exit status 3. No sample was taken until then.", None),
        (JobState.FAILED, "perf record ended with exit status 3. Correct the job and submit it again.", None),
        (JobState.STORED, "The command ended with exit status 3. A process was left.", ordinary),
    ):
        ended = job(store, state, reason=reason, outcome=outcome, result_id=result)
        text = text_of(browser_client.page(f"/jobs/{ended.id}"))
        assert text.count("exit status 3") == 1 and text.count("A process was left.") == 1, reason
        assert "or retry unchanged" not in text or "submit it again" not in text


def test_live_returns_changed_parts(browser_client: Browser, store: Store) -> None:
    queued = job(store)
    path = printed(store, queued.id, b"")
    page = browser_client.page(f"/jobs/{queued.id}")
    marks = re.findall(r'data-part="\w+" data-mark="(\w+)"', page)
    assert len(marks) == 5
    known = ",".join(marks)
    mark = re.search(r'data-offset="0" data-mark="(\w+)"', page)
    assert mark
    first = json.loads(browser_client.page(f"/jobs/{queued.id}/live?known={known}&offset=0&mark={mark[1]}"))
    assert first["parts"] == {} and not first["final"] and first["output"]["text"] == ""

    for before, after in itertools.pairwise(ROAD[:3]):
        store.jobs.transition(queued.id, before, after)
    path.write_bytes("one\n€".encode()[:-1])
    second = json.loads(browser_client.page(f"/jobs/{queued.id}/live?known={known}&offset=0&mark={mark[1]}"))
    assert set(second["parts"]) == {"state", "rail"}
    assert "Recording" in second["parts"]["state"]["html"]
    output = second["output"]
    assert (output["text"], output["next"], output["reset"]) == ("one\n", 4, False)

    path.write_bytes("one\n€uro\n".encode())
    words = f"offset={output['next']}&mark={output['mark']}"
    assert json.loads(browser_client.page(f"/jobs/{queued.id}/live?{words}"))["output"]["text"] == "€uro\n"
    path.write_bytes(b"written anew\n")
    again = json.loads(browser_client.page(f"/jobs/{queued.id}/live?{words}"))["output"]
    assert again["reset"] and again["text"] == "written anew\n"
    browser_client.page(f"/jobs/{queued.id}/live?offset=x", 400)
    browser_client.page("/jobs/000000000000/live", 404)


def test_running_clocks_do_not_redraw_parts(browser_client: Browser, store: Store) -> None:
    running = job(store, JobState.RUNNING)

    def marks() -> list[str]:
        return re.findall(r'data-part="\w+" data-mark="(\w+)"', browser_client.page(f"/jobs/{running.id}"))

    before = marks()
    deadline = time.monotonic() + 5
    while job_seconds(browser_client, running.id) < 0.2:
        assert time.monotonic() < deadline
    assert marks() == before


def job_seconds(browser: Browser, id: str) -> float:
    stages = json.loads(browser.page(f"/api/v1/jobs/{id}"))["stages"]
    return float(next(stage["seconds"] for stage in stages if stage["name"] == "running"))


def test_huge_output_is_shown_from_its_end_and_downloads_whole(browser_client: Browser, store: Store) -> None:
    running = job(store, JobState.RUNNING)
    data = b"".join(b"line %07d\n" % n for n in range(300_000))
    printed(store, running.id, data)
    page = browser_client.page(f"/jobs/{running.id}")
    assert len(page) < 100_000
    assert "line 0299999" in page and "line 0200000" not in page and "the end of" in text_of(page)
    download = browser_client.client.get(f"/jobs/{running.id}/output.txt")
    assert download.data == data
    assert download.headers["Content-Disposition"].startswith("attachment")
    assert download.headers["X-Content-Type-Options"] == "nosniff"
    browser_client.page(f"/jobs/{job(store).id}/output.txt", 404)


def test_a_job_without_a_worker_is_reported(
    browser_client: Browser, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued = job(store)
    assert "No worker is running" not in browser_client.page(f"/jobs/{queued.id}")
    now = time.time()
    monkeypatch.setattr("perfloom.web.views.jobs.jobs.time.time", lambda: now + 60)
    assert "Start one with “perfloom worker”" in browser_client.page(f"/jobs/{queued.id}")
    store.hosts.heartbeat("node17", now + 55)
    assert "No worker is running" not in browser_client.page(f"/jobs/{queued.id}")


def test_cancel_and_retry(browser_client: Browser, store: Store) -> None:
    running = job(store, JobState.RUNNING)
    response = browser_client.post(f"/jobs/{running.id}/cancel")
    assert (response.status_code, response.headers["Location"]) == (303, f"/jobs/{running.id}")
    assert store.jobs.get(running.id).cancel_requested
    assert re.search(r"data-cancel disabled", browser_client.page(f"/jobs/{running.id}"))
    assert browser_client.post(f"/jobs/{running.id}/retry").status_code == 409

    failed = job(store, JobState.FAILED, reason="x")
    assert browser_client.post(f"/jobs/{failed.id}/cancel").status_code == 409
    again = store.jobs.get(browser_client.post(f"/jobs/{failed.id}/retry").headers["Location"].removeprefix("/jobs/"))
    assert (again.spec, again.name, again.state) == (failed.spec, failed.name, JobState.QUEUED)
    assert browser_client.post("/jobs/000000000000/cancel").status_code == 404


def test_an_import_is_retried_with_its_files(browser_client: Browser, store: Store) -> None:
    def failed_import() -> str:
        id = store.jobs.create("import", {"files": ["a.txt"]}, "a.txt").id
        store.jobs.transition(id, JobState.QUEUED, JobState.FAILED, reason="It is in no format that is known.")
        return id

    id = failed_import()
    artefacts = store.jobs.directory(id) / "artefacts"
    artefacts.mkdir(parents=True)
    (artefacts / "a.txt").write_text("kept")
    page = browser_client.page(f"/jobs/{id}")
    assert re.findall(r'data-stage="(\w+)"', page) == ["queued", "reading", "failed"]
    assert "Edit and resubmit" not in page and "a.txt" in text_of(page) and "data-output" not in page
    again = browser_client.post(f"/jobs/{id}/retry").headers["Location"].removeprefix("/jobs/")
    store.jobs.delete(id)
    assert (store.jobs.directory(again) / "artefacts" / "a.txt").read_text() == "kept"
    assert store.jobs.get(again).kind == "import"
    gone = browser_client.post(f"/jobs/{failed_import()}/retry")
    assert gone.status_code == 409 and "are no longer stored" in gone.text


def test_delete_asks_first(browser_client: Browser, store: Store) -> None:
    failed = job(store, JobState.FAILED, reason="x")
    assert "Delete the job “sums”?" in text_of(browser_client.page(f"/jobs/{failed.id}/delete"))
    assert browser_client.post(f"/jobs/{failed.id}/delete").headers["Location"] == "/jobs"
    assert store.jobs.find(failed.id) is None
    running = job(store, JobState.RUNNING)
    assert browser_client.post(f"/jobs/{running.id}/delete").status_code == 409


def test_the_list_pages_and_filters(browser_client: Browser, store: Store) -> None:
    assert "No jobs here" in text_of(browser_client.page("/jobs"))
    for number in range(52):
        store.jobs.create("record", SPEC.to_json(), f"job number {number:02d}")
    failed = job(store, JobState.FAILED, reason="It could not be done.", name="broken")
    page = browser_client.page("/jobs")
    assert page.count('scope="row"') == 50 and "1 – 50 of 53 jobs" in text_of(page)
    assert "It could not be done." in text_of(page)
    assert "job number 00" in browser_client.page("/jobs?page=2")
    one = browser_client.page("/jobs?state=failed")
    assert one.count('scope="row"') == 1 and f"/jobs/{failed.id}" in one
    assert browser_client.page("/jobs?state=active&page=2").count('scope="row"') == 2
    browser_client.page("/jobs?state=galaxy", 400)
    assert job(store).id in browser_client.page("/")
    running = json.loads(browser_client.page("/jobs/running"))
    assert len(running["ids"]) == 20 and running["html"].count("<li") == 20


def test_a_description_of_another_version_shows(browser_client: Browser, store: Store) -> None:
    odd = store.jobs.create("record", {"scope": "galaxy", "command": ["x"]}, "odd")
    assert "odd" in browser_client.page(f"/jobs/{odd.id}") and "odd" in browser_client.page("/jobs")
    assert browser_client.client.get(f"/jobs/new?from={odd.id}").status_code == 400


def test_hostile_names_do_nothing(browser_client: Browser, store: Store) -> None:
    for text in HOSTILE:
        spec = JobSpec(command=(text, *HOSTILE), events=(text,), cwd=text, inputs=(text,), environment={text: text})
        evil = job(store, JobState.FAILED, spec=spec, name=text, reason=text, argv=(text, *HOSTILE), host=text)
        printed(store, evil.id, "\n".join(HOSTILE).encode())
        for path in (f"/jobs/{evil.id}", "/jobs", f"/jobs/{evil.id}/delete"):
            page = browser_client.page(path)
            assert not re.search(r"<script>window|<img src=x|<svg/onload", page), path
        parts = json.loads(browser_client.page(f"/jobs/{evil.id}/live"))["parts"]
        assert not re.search(r"<script>window|<img src=x|<svg/onload", "".join(p["html"] for p in parts.values()))


def api(client: FlaskClient, method: str, path: str, **options: Any) -> Any:
    return client.open(path, method=method, headers={"Authorization": f"Bearer {TOKEN}"}, **options)


def test_the_api(client: FlaskClient, store: Store) -> None:
    made = api(client, "POST", "/api/v1/jobs", json={"command": "sh -c 'exit 3'", "environment": {"A": "hunter2"}})
    assert made.status_code == 201, made.text
    body = made.get_json()
    assert made.headers["Location"] == f"/api/v1/jobs/{body['id']}"
    assert (body["state"], body["kind"], body["final"], body["result_id"]) == ("queued", "record", False, None)
    assert body["spec"]["command"] == ["sh", "-c", "exit 3"]
    assert body["spec"]["environment"] == {"A": None} and "hunter2" not in made.text
    assert store.jobs.get(body["id"]).job_spec.environment == {"A": "hunter2"}
    assert any(finding["level"] == "warning" for finding in body["findings"])
    assert body["stages"][0]["name"] == "queued"

    assert api(client, "GET", f"/api/v1/jobs/{body['id']}").get_json()["id"] == body["id"]
    assert [one["id"] for one in api(client, "GET", "/api/v1/jobs?state=active").get_json()["jobs"]] == [body["id"]]
    assert api(client, "GET", "/api/v1/jobs?state=stored").get_json()["jobs"] == []
    cancelled = api(client, "POST", f"/api/v1/jobs/{body['id']}/cancel")
    assert (cancelled.status_code, cancelled.get_json()["cancel_requested"]) == (202, True)
    store.jobs.transition(body["id"], JobState.QUEUED, JobState.CANCELLED)
    assert api(client, "POST", f"/api/v1/jobs/{body['id']}/cancel").status_code == 409


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"command": []}, "command"),
        ({"command": "echo 'a"}, "command"),
        ({"command": ["true"], "frequency": "often"}, "frequency"),
        ({"command": ["true"], "nonsense": 1}, "nonsense"),
        ({"scope": "process"}, "pid"),
        ([], None),
        (None, None),
    ],
)
def test_the_api_reports_errors(client: FlaskClient, store: Store, body: Any, field: str | None) -> None:
    refused = api(client, "POST", "/api/v1/jobs", json=body)
    assert refused.status_code == 422
    answer = refused.get_json()
    assert answer["field"] == field and answer["error"]
    assert answer["findings"][0]["level"] == "error"
    assert jobs_in(store) == 0


def test_the_api_rejects_unreadable_requests(client: FlaskClient, store: Store) -> None:
    for text in ("{", "[" * 200_000):
        assert api(client, "POST", "/api/v1/jobs", data=text, content_type="application/json").status_code == 422
    assert api(client, "GET", "/api/v1/jobs?limit=501").status_code == 400
    assert api(client, "GET", "/api/v1/jobs?state=galaxy").status_code == 400
    assert api(client, "GET", "/api/v1/jobs/nonsense").status_code == 404
    assert client.get("/api/v1/jobs").status_code == 401
    assert api(client, "POST", "/api/v1/jobs", json={"scope": "system"}).status_code == 201
    assert store.jobs.latest() is not None
    assert Scope(store.jobs.list()[0].spec["scope"]) is Scope.SYSTEM


def test_a_job_at_a_target_is_asked_to_end_and_then_dropped(browser_client: Browser, store: Store) -> None:
    """The first request is seen to at the target, and taken off the job; the page then offers the second."""
    planned = JobDetails(executor=Executor.SCRIPTS)
    made = job(store, JobState.RUNNING, spec=JobSpec(target="cluster", command=("x",)), details=planned)
    page = browser_client.page(f"/jobs/{made.id}")
    assert re.search(r"data-cancel>Cancel<", page)
    store.jobs.update(made.id, expected=JobState.RUNNING, details=replace(planned, cancellation=Cancellation(1)))
    page = browser_client.page(f"/jobs/{made.id}")
    assert re.search(r"data-cancel>Drop the recording<", page) and "Cancelling" in text_of(page)
    store.jobs.update(made.id, expected=JobState.RUNNING, details=replace(planned, cancellation=Cancellation(2)))
    assert re.search(r"data-cancel disabled>", browser_client.page(f"/jobs/{made.id}"))


def test_an_unreachable_target_is_reported(
    browser_client: Browser, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "cluster does not answer. Tried again; without an answer since 2026-01-01 12:00 UTC."
    details = JobDetails(executor=Executor.SCRIPTS, unreachable_since=1.0)
    made = job(store, JobState.RUNNING, spec=JobSpec(target="cluster", command=("x",)), details=details)
    store.jobs.report_progress(made.id, None, text)
    now = time.time()
    monkeypatch.setattr("perfloom.web.views.jobs.jobs.time.time", lambda: now + 60)
    assert "The job continues at cluster." in text_of(browser_client.page(f"/jobs/{made.id}"))
    store.hosts.heartbeat("node17", now + 55)
    assert f'<p class="note" data-kind="warn">{text}</p>' in browser_client.page(f"/jobs/{made.id}")
