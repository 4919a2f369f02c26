"""Run series over HTTP: the form, the page of the runs, and the comparison that they end in."""

from __future__ import annotations

import html
import itertools
import re
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from perfloom.domain.jobs import JobSpec, JobState, RecorderName, Side
from perfloom.recording.recorders.preflight import PreflightFinding, Severity
from perfloom.store import Job, Store
from perfloom.store.files import columns
from perfloom.web.views.jobs import form_check
from tests.analysis.compare.test_compare_counts import counted as counted_profile
from tests.web.conftest import HOSTILE, TOKEN, Browser, profile
from tests.web.jobs.test_job_page import text_of

SPEC = JobSpec(name="sums", command=("sh", "-c", "sum 'a b'"), environment={"A": "1"}, cwd="/tmp", frequency=499)
FORM = "/jobs/series/new"
WAY = (JobState.QUEUED, JobState.STAGING, JobState.RUNNING, JobState.COLLECTING, JobState.READING, JobState.STORED)


@pytest.fixture(autouse=True)
def no_worker_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker answers in these tests; that it is said is tested with the job form."""
    monkeypatch.setattr(form_check, "_worker_findings", lambda *_: [])


@pytest.fixture
def recorded(store: Store) -> Job:
    """A recording that was stored."""
    return end(store, store.jobs.create("record", SPEC.to_json(), "sums"))


def end(store: Store, job: Job, state: JobState = JobState.STORED) -> Job:
    """A job that ended, with its result if it is stored."""
    changes = {"reason": "It was ended."}
    if state is JobState.STORED:
        staged = store.results.stage(job.id)
        columns.write(profile(functions=6, samples=902, seed=ord(job.id[-1])), staged)
        store.results.publish(job.id, staged, name=job.name, job_id=job.id)
        changes["result_id"] = job.id
    way = WAY if state is JobState.STORED else (*WAY[:3], state)
    for before, after in itertools.pairwise(way):
        assert store.jobs.transition(job.id, before, after, **(changes if after is way[-1] else {}))
    return store.jobs.get(job.id)


def typed(job: Job, **changes: str) -> dict[str, str]:
    """The fields as the form of a job sends them."""
    fields = {
        "runs": "2",
        "warm_ups": "1",
        "base": "again",
        "command": "sh -c 'sum c'",
        "cwd": "/tmp",
        "environment": "",
    }
    return {"from": job.id, "target": "local", "id": "series000000"} | fields | changes


def test_both_sides_run_again_and_are_compared(browser_client: Browser, store: Store, recorded: Job) -> None:
    page = browser_client.page(f"/jobs/{recorded.id}")
    assert f'href="{FORM}?from={recorded.id}"' in page and f"{FORM}?from=" in browser_client.page(
        f"/results/{recorded.id}"
    )
    page = browser_client.page(f"{FORM}?from={recorded.id}")
    assert html.unescape(page).count("sh -c 'sum '\"'\"'a b'\"'\"''") >= 2 and 'value="/tmp"' in page and "A=1" in page
    answer = browser_client.post(FORM, **typed(recorded))
    assert (answer.status_code, answer.headers["Location"]) == (303, "/jobs/series000000/series?then=compare")
    assert browser_client.post(FORM, **typed(recorded)).status_code == 303
    jobs = store.series.of_job(store.jobs.get("series000000")).jobs
    assert len(store.jobs.list()) == 7 and [job.name for job in jobs] == [
        f"sums, {end}" for end in ("warm-up 1", "warm-up 2", "base 1", "other 1", "other 2", "base 2")
    ]
    for job in jobs:
        run = job.details.series
        assert run is not None
        changed: dict[str, Any] = (
            {"command": ("sh", "-c", "sum c"), "environment": {}} if run.side is Side.OTHER else {}
        )
        assert job.job_spec == replace(SPEC, **changed)
    text = text_of(browser_client.page("/jobs/series000000/series?then=compare"))
    assert "0 of 6 runs have ended" in text and "Warm-up of the other" in text and text.count("Waiting") == 5
    for job in jobs[:-1]:
        end(store, job)
    end(store, jobs[-1], JobState.CANCELLED)
    text = text_of(browser_client.page(f"/jobs/{jobs[3].id}/series"))
    assert "1 of 4 runs has no result. Run 2 of the base: It was ended." in text
    moved = browser_client.client.get("/jobs/series000000/series?then=compare")
    assert moved.status_code == 303 and "paired" not in moved.headers["Location"]
    page = browser_client.page(moved.headers["Location"])
    assert "1 of 4 runs has no result." in text_of(page)
    assert 'href="/jobs/series000000/series"' in page
    assert re.search(rf'href="{FORM}\?from=\w+&amp;with=\w+">Run both again', page)
    # The series keeps its address, and says which runs were deleted.
    for deleted in (jobs[0], jobs[2]):
        store.jobs.delete(deleted.id)
    address = "/jobs/series000000/series"
    told = "1 of 4 runs has no result. The job of 1 of 4 runs was deleted."
    page = browser_client.page(moved.headers["Location"])
    assert told in text_of(page) and f'href="{address}"' in page and told in text_of(browser_client.page(address))
    for job in (*jobs[1:2], *jobs[3:]):
        store.jobs.delete(job.id)
    assert "its jobs were deleted" in browser_client.page(address, 404)
    page = browser_client.page(moved.headers["Location"])
    assert "of 4 runs" not in page and f'href="{address}"' not in page


def test_empty_target_is_this_machine(browser_client: Browser, store: Store, recorded: Job) -> None:
    assert browser_client.post(FORM, **typed(recorded, target="", runs="1", warm_ups="0")).status_code == 303
    assert store.jobs.get("series000000").job_spec.target == "local"


def test_other_side_is_filled_from_another_job(browser_client: Browser, store: Store, recorded: Job) -> None:
    other = store.jobs.create("record", JobSpec(command=("./b",), frequency=99).to_json(), HOSTILE[0])
    page = browser_client.page(f"{FORM}?from={recorded.id}&with={other.id}")
    assert ">\n./b</textarea>" in page and HOSTILE[0] not in page
    answer = browser_client.post(
        FORM, **typed(recorded, **{"with": other.id}, command="./b", cwd="", runs="1", warm_ups="0")
    )
    assert answer.status_code == 303
    jobs = store.series.of_job(store.jobs.get("series000000")).jobs
    assert [(job.job_spec.command[0], job.job_spec.frequency) for job in jobs] == [("sh", 499), ("./b", 99)]


def test_stored_result_as_the_base(browser_client: Browser, store: Store, recorded: Job) -> None:
    assert browser_client.post(FORM, **typed(recorded, base="kept", runs="1", warm_ups="0")).status_code == 303
    (job,) = store.series.of_job(store.jobs.get("series000000")).jobs
    end(store, job)
    moved = browser_client.client.get("/jobs/series000000/series?then=compare").headers["Location"]
    assert f"base={recorded.id}&other={job.id}" in moved
    assert f'href="/results/{recorded.id}"' in browser_client.page("/jobs/series000000/series")
    store.results.delete(recorded.id)
    page = browser_client.page("/jobs/series000000/series?then=compare")
    assert "The result that is the base was deleted" in page and 'href="/compare/runs' not in page


def test_results_that_were_deleted(browser_client: Browser, store: Store, recorded: Job) -> None:
    browser_client.post(FORM, **typed(recorded, runs="1", warm_ups="0"))
    base, other = (end(store, job) for job in store.series.of_job(store.jobs.get("series000000")).jobs)
    store.results.delete(other.id)
    text = text_of(browser_client.page(f"/jobs/{base.id}/series?then=compare"))
    assert "1 of 2 runs has no result. Run 1 of the other: Its result was deleted." in text


def test_rest_is_cancelled(browser_client: Browser, store: Store, recorded: Job) -> None:
    browser_client.post(FORM, **typed(recorded))
    page = browser_client.page("/jobs/series000000/series")
    assert 'action="/jobs/series000000/series/cancel"' in page and 'http-equiv="refresh"' in page
    assert browser_client.post("/jobs/series000000/series/cancel").status_code == 303
    series = store.series.of_job(store.jobs.get("series000000"))
    assert all(job.cancel_requested for job in series.jobs)
    assert browser_client.client.post("/jobs/series000000/series/cancel").status_code == 403
    for job in series.jobs:
        store.jobs.transition(job.id, JobState.QUEUED, JobState.CANCELLED)
    assert browser_client.post("/jobs/series000000/series/cancel").status_code == 409
    page = browser_client.page("/jobs/series000000/series?then=compare")
    assert "4 of 4 runs have no result." in text_of(page) and 'href="/compare/runs' not in page


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"runs": "0"}, "Runs: enter a whole number from 1 to 50."),
        ({"runs": "٣"}, "Runs: enter a whole number from 1 to 50."),
        ({"warm_ups": "6"}, "Warm-up runs: enter a whole number from 0 to 5."),
        ({"command": ""}, "Enter the command"),
        ({"environment": "A"}, "Other"),
        ({"target": "nowhere"}, "No such target"),
    ],
)
def test_wrong_fields_start_nothing(
    browser_client: Browser, store: Store, recorded: Job, changes: dict[str, str], message: str
) -> None:
    answer = browser_client.post(FORM, **typed(recorded, **changes))
    assert answer.status_code == 422 and message in html.unescape(answer.text)
    assert len(store.jobs.list()) == 1


def test_warnings_are_accepted_before_it_starts(
    browser_client: Browser, store: Store, recorded: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    warning = PreflightFinding(Severity.WARNING, "", "The machine is busy.", "")
    monkeypatch.setattr(form_check, "_worker_findings", lambda *_: [warning])
    shown = browser_client.post(FORM, **typed(recorded))
    assert shown.status_code == 422 and shown.text.count("The machine is busy.") == 2 and len(store.jobs.list()) == 1
    (accepted,) = re.findall(r'name="accepted" value="([^"]+)"', shown.text)
    assert browser_client.post(FORM, **typed(recorded, accepted=accepted)).status_code == 303


def test_counts_are_compared_as_counts(browser_client: Browser, store: Store) -> None:
    counted = store.jobs.create("record", JobSpec(recorder=RecorderName.PERF_STAT, command=("a",)).to_json(), "a")
    assert browser_client.post(FORM, **typed(counted, command="b", cwd="", warm_ups="0")).status_code == 303
    *jobs, last = store.series.of_job(store.jobs.get("series000000")).jobs
    for job, total in zip(jobs, (100, 110, 112), strict=True):
        staged = store.results.stage(job.id)
        columns.write(counted_profile(total), staged)
        store.results.publish(job.id, staged, name=job.name, job_id=job.id)
        for before, after in itertools.pairwise(WAY):
            store.jobs.transition(job.id, before, after, **({"result_id": job.id} if after is WAY[-1] else {}))
    store.jobs.transition(last.id, JobState.QUEUED, JobState.CANCELLED)
    moved = browser_client.client.get("/jobs/series000000/series?then=compare").headers["Location"]
    assert moved.startswith("/compare/counts?base=") and moved.count("other=") == 2
    text = text_of(browser_client.page(moved))
    assert "1 of 4 runs has no result." in text and "111" in text and "and 1 more" in text


def test_what_cannot_run_again(browser_client: Browser, store: Store, recorded: Job) -> None:
    imported = store.jobs.create("import", {"files": ["a"]}, "a")
    counted = store.jobs.create("record", JobSpec(recorder=RecorderName.PERF_STAT, command=("a",)).to_json(), "a")
    for id, status in ((imported.id, 400), ("unknown00000", 404), ("", 404)):
        browser_client.page(f"{FORM}?from={id}", status)
    browser_client.page(f"{FORM}?from={recorded.id}&with={counted.id}", 400)
    browser_client.page(f"/jobs/{imported.id}/series", 404)


def api(client: FlaskClient, method: str, path: str, **options: Any) -> Any:
    return client.open(path, method=method, headers={"Authorization": f"Bearer {TOKEN}"}, **options)


def test_api_runs_a_series(client: FlaskClient, store: Store, recorded: Job) -> None:
    """From the request to the comparison."""
    changes = {"command": ["sh", "-c", "sum c"], "environment": {}}
    asked = {"base": recorded.id, "runs": 2, "warm_ups": 0, "changes": changes}
    made = api(client, "POST", "/api/v1/series", json=asked)
    assert made.status_code == 201, made.text
    body = made.get_json()
    address = f"/api/v1/series/{body['id']}"
    assert made.headers["Location"] == address and (body["state"], body["comparison"]) == ("waiting", None)
    jobs = [store.jobs.get(run["job_id"]) for run in body["runs"]]
    assert [(run["side"], run["run"]) for run in body["runs"]] == [("base", 1), ("other", 1), ("other", 2), ("base", 2)]
    other = replace(SPEC, command=("sh", "-c", "sum c"), environment={})
    assert [job.job_spec for job in jobs] == [SPEC, other, other, SPEC]
    end(store, jobs[0])
    assert api(client, "GET", address).get_json()["state"] == "running"
    for job in jobs[1:]:
        end(store, job)
    body = api(client, "GET", f"/api/v1/series/{jobs[2].id}").get_json()
    assert (body["id"], body["state"], body["problem"]) == (jobs[0].id, "ended", None)
    assert body["results"] == {"base": [jobs[0].id, jobs[3].id], "other": [jobs[1].id, jobs[2].id]}
    assert api(client, "GET", body["comparison"]).status_code == 200 and "paired=1" in body["comparison"]
    assert api(client, "POST", f"{address}/cancel").status_code == 409
    # The id of a result is accepted, too, and the result can be the base as it is.
    kept = api(client, "POST", "/api/v1/series", json={"base": jobs[0].id, "keep_base": True}).get_json()
    assert kept["base_result_id"] == jobs[0].id and len(kept["runs"]) == 6 and kept["runs"][0]["warm_up"]
    cancelled = api(client, "POST", f"/api/v1/series/{kept['id']}/cancel")
    assert (cancelled.status_code, cancelled.get_json()["cancel_requested"]) == (202, True)


def test_api_refuses_what_it_cannot_run(client: FlaskClient, store: Store, recorded: Job) -> None:
    cases: list[tuple[Any, str | None, str]] = [
        ([], None, "Send one JSON object"),
        ({"base": 1}, "base", "give the id of the job"),
        ({"other": 1}, "other", "leave it out"),
        ({"runs": True}, "runs", "whole number"),
        ({"runs": 51}, "runs", "from 1 to 50"),
        ({"warm_ups": 10**40}, "warm_ups", "from 0 to 5"),
        ({"keep_base": "yes"}, "keep_base", "true or false"),
        ({"keep": 1}, None, "no field 'keep'"),
        ({"changes": []}, "changes", "give an object"),
        ({"changes": {"frequency": 9}}, "changes", "only command, cwd, environment, target"),
        ({"changes": {"command": "sh 'a"}}, "command", ""),
        ({"changes": {"target": "nowhere"}}, "target", "No such target"),
    ]
    for asked, field, message in cases:
        body = {"base": recorded.id} | asked if isinstance(asked, dict) else asked
        refused = api(client, "POST", "/api/v1/series", json=body)
        told = refused.get_json()
        assert (refused.status_code, told["field"]) == (422, field) and message in told["error"], asked
    assert len(store.jobs.list()) == 1


def test_api_tells_what_does_not_exist(client: FlaskClient, recorded: Job) -> None:
    assert api(client, "POST", "/api/v1/series", json={"base": "nothing00000"}).status_code == 404
    assert api(client, "GET", f"/api/v1/series/{recorded.id}").status_code == 404
    assert client.post("/api/v1/series", json={"base": recorded.id}).status_code == 401
