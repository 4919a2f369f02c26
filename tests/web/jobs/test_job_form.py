"""The job form over HTTP: what is typed stays, what cannot work is said, what can is queued, once."""

from __future__ import annotations

import html
import json
import re
import time
from typing import Any

import pytest
from flask import Flask

from perfloom.domain.host_facts import HostFacts, PerfEvent
from perfloom.domain.jobs import CallGraph, JobSpec, JobState, PyTorch, RecorderName, Scope
from perfloom.recording.fields.job_form import JobForm
from perfloom.recording.fields.relevance import list_hiding_choices
from perfloom.recording.plan import command_line
from perfloom.store import Store
from perfloom.web.views.jobs import form
from tests.web.conftest import HOSTILE, Browser

FACTS = HostFacts(
    host="node17",
    cpu="A CPU",
    cpus=8,
    perf="/usr/bin/perf",
    perf_version="6.1",
    paranoid=-1,
    root=True,
    hardware_counters=False,
    options=("-z", "-N", "--no-bpf-event", "--call-graph dwarf"),
    events=(
        PerfEvent("cpu-clock", "software"),
        PerfEvent("context-switches", "software"),
        PerfEvent("sched:sched_switch", "tracepoint", "a task gives way"),
    ),
)
NO_WORKER = "No worker is running"


@pytest.fixture
def host(store: Store) -> None:
    """A machine whose worker sent its last heartbeat an hour ago: its facts are known, and no worker answers."""
    store.hosts.publish(FACTS, now=time.time() - 3600)


@pytest.fixture
def answering(app: Flask, host: None, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The worker's answer to a check, for tests without one. Returns the list of what it was asked."""
    asked: list[Any] = []

    def check(spec: Any, timeout_s: float) -> list[Any]:
        asked.append(spec)
        return []

    monkeypatch.setattr(app.extensions["perfloom"].queue, "check_job", check)
    return asked


def jobs_in(store: Store) -> int:
    return sum(store.jobs.counts().values())


def value_of(page: str, name: str) -> str:
    """The content of a text area."""
    found = re.search(rf'<textarea[^>]* name="{name}"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    assert found, name
    return html.unescape(found[1])


def test_a_job_is_queued_as_typed(browser_client: Browser, store: Store, answering: list[Any]) -> None:
    response = browser_client.post(
        "/jobs/new",
        name="a name",
        command="sh -c 'echo $A'",
        environment="A=1",
        events="cpu-clock,context-switches",
        frequency="99",
        call_graph="fp",
        duration="2 min",
    )
    assert response.status_code == 303, response.text
    job = store.jobs.get(response.headers["Location"].removeprefix("/jobs/"))
    assert job.state is JobState.QUEUED
    assert job.name == "a name"
    assert job.job_spec == JobSpec(
        name="a name",
        command=("sh", "-c", "echo $A"),
        environment={"A": "1"},
        events=("cpu-clock", "context-switches"),
        frequency=99,
        call_graph=CallGraph.FP,
        duration_s=120,
    )
    assert answering == [job.job_spec.to_json()]


def test_pytorch_from_the_form_and_again(browser_client: Browser, store: Store, answering: list[Any]) -> None:
    typed = {"recorder": "pytorch", "command": "python /a/train.py", "steps": "1,1,0,1", "torch_memory": "1"}
    wrong = browser_client.post("/jobs/new", **typed)
    assert wrong.status_code == 422 and "“1,1,0,1” is not a valid schedule" in wrong.text
    assert re.search(r'id="f-steps"[^>]* aria-invalid="true"[^>]* value="1,1,0,1"', wrong.text)
    queued = browser_client.post(
        "/jobs/new", **typed | {"steps": "2, 1, 5, 1", "torch_seconds": "1 min", "events": "x/"}
    )
    assert queued.status_code == 303, queued.text
    job = store.jobs.get(queued.headers["Location"].removeprefix("/jobs/"))
    assert job.job_spec.pytorch == PyTorch("2,1,5,1", memory=True, seconds=60) and job.job_spec.events == ()
    page = browser_client.page(f"/jobs/{job.id}")
    for label, value in (("Steps", "2,1,5,1"), ("Memory", "yes"), ("At most", "60")):
        assert re.search(rf"<dt>{label}</dt>\s*<dd[^>]*>\s*{value}", page), label
    again = browser_client.page(f"/jobs/new?from={job.id}")
    assert re.search(r'name="recorder" value="pytorch"[^>]* checked', again)
    assert re.search(r'name="torch_memory"[^>]* checked', again)
    assert not re.search(r'name="torch_stacks"[^>]* checked', again)
    assert re.search(r'name="steps"[^>]* value="2,1,5,1"', again)
    # A preset needs no command, and comes back the same; what is hostile in it is said and shown as text.
    browser_client.post("/jobs/presets", preset_name="torch", recorder="pytorch", steps="whole", torch_stacks="1")
    assert store.presets.get("torch").job_spec.pytorch == PyTorch("whole", stacks=True)
    hostile = browser_client.post("/jobs/new", recorder="pytorch", command="a", steps='"><script>x</script>,1')
    assert hostile.status_code == 422 and "<script>x" not in hostile.text


def test_a_form_that_fails_keeps_everything(browser_client: Browser, store: Store, host: None) -> None:
    typed = {
        "name": 'a "name" <b>',
        "command": "echo 'never closed\n&lt; <script>",
        "cwd": "no/absolute path",
        "environment": "A=1\nthis is none\n\n  B= x ",
        "inputs": "\n/a\nb",
        "events": "cpu/x\n</textarea><script>",
        "sampling": "period",
        "frequency": "often",
        "period": "never",
        "call_graph": "dwarf",
        "stack_bytes": "7",
        "duration": "a while",
        "per_cpu": "1",
        "scope": "system",
        "pid": "x",
        "interval": "y",
        "repeat": "z",
    }
    response = browser_client.post("/jobs/new", **{k: v.replace("\n", "\r\n") for k, v in typed.items()})
    assert response.status_code == 422
    page = response.text
    for name in ("command", "environment", "inputs", "events"):
        assert value_of(page, name) == typed[name]
    for name in ("name", "cwd", "frequency", "period", "stack_bytes", "duration", "pid", "interval", "repeat"):
        field = re.search(rf'<input[^>]* name="{name}"[^>]* value="([^"]*)"', page)
        assert field and html.unescape(field[1]) == typed[name], name
    for name, value in (("scope", "system"), ("sampling", "period"), ("call_graph", "dwarf")):
        assert re.search(rf'name="{name}" value="{value}"[^>]* checked', page), name
    assert re.search(r'name="per_cpu"[^>]* checked', page)
    for name in ("command", "cwd", "environment", "inputs", "events", "period", "stack_bytes", "duration"):
        assert f'href="#f-{name}"' in page, name
        assert re.search(rf'id="f-{name}"[^>]* aria-invalid="true"', page), name
    assert "<script>" not in page.split("<main")[1]
    assert jobs_in(store) == 0


def test_errors_stop_and_warnings_ask_once_more(browser_client: Browser, store: Store, host: None) -> None:
    wrong = browser_client.post("/jobs/new", command="true", call_graph="lbr")
    assert wrong.status_code == 422
    assert "does not record call stacks in hardware" in wrong.text
    assert "Start anyway" not in wrong.text

    warned = browser_client.post("/jobs/new", command="true", frequency="99")
    assert warned.status_code == 422
    assert NO_WORKER in warned.text
    accepted = re.search(r'name="accepted" value="(\w+)"', warned.text)
    assert accepted and "Start anyway" in warned.text
    assert jobs_in(store) == 0

    # Another warning than the one that was accepted is shown first.
    other = browser_client.post("/jobs/new", command="echo $HOME", frequency="99", accepted=accepted[1])
    assert other.status_code == 422
    assert "The variable in" in other.text

    assert browser_client.post("/jobs/new", command="true", frequency="99", accepted=accepted[1]).status_code == 303
    assert jobs_in(store) == 1


def test_a_form_sent_twice_makes_one_job(browser_client: Browser, store: Store, answering: list[Any]) -> None:
    page = browser_client.page("/jobs/new")
    found = re.search(r'name="id" value="(\w{12})"', page)
    assert found
    for _ in range(2):
        response = browser_client.post("/jobs/new", id=found[1], command="true")
        assert response.headers["Location"] == f"/jobs/{found[1]}"
    # Gone back and changed: that is another job.
    response = browser_client.post("/jobs/new", id=found[1], command="false")
    assert response.headers["Location"] != f"/jobs/{found[1]}"
    assert jobs_in(store) == 2
    assert browser_client.post("/jobs/new", id="../../etc/passwd", command="true").status_code == 303


def test_the_preview_equals_the_command_of_the_recorder(browser_client: Browser, host: None) -> None:
    answer = browser_client.post("/jobs/preview", command="echo 'a b'", frequency="99", call_graph="none").get_json()
    spec = JobSpec(command=("echo", "a b"), frequency=99, call_graph=CallGraph.NONE)
    assert answer["command"] == command_line(spec, FACTS)
    assert "perf record -o artefacts/perf.data -F 99 -e cpu-clock -z" in answer["command"]
    assert answer["command"].endswith(" -- echo 'a b'")
    assert answer["host"] == "node17"
    assert answer["findings"] == []
    wrong = browser_client.post("/jobs/preview", command="echo 'a", check="1").get_json()
    assert wrong["command"] == ""
    assert [(f["level"], f["field"]) for f in wrong["findings"]] == [("error", "command")]
    asked = browser_client.post("/jobs/preview", command="true", check="1").get_json()
    assert [f["field"] for f in asked["findings"] if f["message"].startswith(NO_WORKER)] == [""]
    # Names of JobSpec come back as names of fields.
    limit = browser_client.post("/jobs/preview", scope="process", pid="1").get_json()
    assert {f["field"] for f in limit["findings"]} <= {*JobForm.DEFAULTS, ""}


def test_preview_without_scripts(browser_client: Browser, store: Store, host: None) -> None:
    response = browser_client.post("/jobs/new", command="echo 1", action="preview", period="7", sampling="period")
    assert response.status_code == 200
    shown = re.search(r"data-preview-command[^>]*>(.*?)</pre>", response.text, re.DOTALL)
    assert shown
    text = html.unescape(re.sub("<[^>]*>", "", shown[1]))
    spec = JobSpec(command=("echo", "1"), period=7)
    assert text == command_line(spec, FACTS) and " -c 7 " in text
    assert jobs_in(store) == 0


def test_the_enter_key_starts_nothing_without_scripts(browser_client: Browser, store: Store, host: None) -> None:
    """A browser presses the first button of a form for it: that one previews, or searches."""
    page = browser_client.page("/jobs/new")
    assert re.findall(r'<button[^>]* value="(\w+)"', page.split('id="job"')[1])[0] == "enter"
    previewed = browser_client.post("/jobs/new", action="enter", command="true", frequency="99")
    assert previewed.status_code == 200 and "data-preview-command" in previewed.text
    assert 'value="context-switches"' in browser_client.post("/jobs/new", action="enter", event_query="switch").text
    assert jobs_in(store) == 0


def test_events_are_searched_with_and_without_scripts(browser_client: Browser, host: None) -> None:
    found = json.loads(browser_client.page("/jobs/events?query=switch"))
    assert [event["name"] for event in found["events"]] == ["context-switches", "sched:sched_switch"]
    assert found["groups"] == [{"name": "software", "matches": 1}, {"name": "tracepoint", "matches": 1}]
    assert (found["total"], found["next"], found["host"]) == (2, None, "node17")
    assert json.loads(browser_client.page("/jobs/events?query=switch&group=software"))["total"] == 1
    browser_client.page("/jobs/events?offset=-1", 400)
    page = browser_client.post("/jobs/new", action="events", event_query="gives way", events="cycles").text
    assert re.search(r'type="checkbox" name="event" value="sched:sched_switch"', page)
    ticked = browser_client.post("/jobs/new", action="preview", events="cycles", event="sched:sched_switch").text
    assert value_of(ticked, "events") == "cycles\nsched:sched_switch"


def test_the_page_reports_missing_workers(browser_client: Browser) -> None:
    page = browser_client.page("/jobs/new")
    assert "No worker has reported on this machine yet" in page
    assert json.loads(browser_client.page("/jobs/events"))["events"] == []
    assert "perf record -o artefacts" in browser_client.post("/jobs/preview", command="true").get_json()["command"]


def test_submit_again_changed(browser_client: Browser, store: Store, host: None) -> None:
    spec = JobSpec(
        name="first",
        recorder=RecorderName.PERF_STAT,
        scope=Scope.SYSTEM,
        command=("sh", "-c", "a 'b'\nc"),
        environment={"A": "1", "B": "two\nlines"},
        per_cpu=True,
        interval_ms=100,
    )
    job = store.jobs.create("record", spec.to_json(), "first")
    page = browser_client.page(f"/jobs/new?from={job.id}")
    assert "Filled from job first" in page
    assert value_of(page, "command") == "sh -c 'a '\"'\"'b'\"'\"'\nc'"
    assert value_of(page, "environment") == "A=1\nB=$'two\\nlines'"
    assert re.search(r'name="recorder" value="perf-stat"[^>]* checked', page)
    browser_client.page("/jobs/new?from=000000000000", 404)
    browser_client.page("/jobs/new?from=../x", 404)
    imported = store.jobs.create("import", {"files": ["a"]}, "a")
    assert "Import the files again" in browser_client.page(f"/jobs/new?from={imported.id}", 400)


def test_presets(browser_client: Browser, store: Store, host: None) -> None:
    saved = browser_client.post("/jobs/presets", preset_name="tracing", events="sched:*", frequency="7")
    assert saved.headers["Location"] == "/jobs/new?preset=tracing"
    assert store.presets.get("tracing").job_spec == JobSpec(events=("sched:*",), frequency=7)
    page = browser_client.page("/jobs/new?preset=tracing")
    assert "Saved the preset" in page and value_of(page, "events") == "sched:*"
    unnamed = browser_client.post("/jobs/presets", preset_name=" ", command="kept as it is")
    assert unnamed.status_code == 422
    assert value_of(unnamed.text, "command") == "kept as it is"
    assert "Enter a name for the preset" in unnamed.text
    wrong = browser_client.post("/jobs/presets", preset_name="x", frequency="often")
    assert wrong.status_code == 422 and "not a whole number" in wrong.text
    assert browser_client.post("/jobs/presets/delete", name="tracing").status_code == 303
    assert store.presets.list() == ()
    assert browser_client.post("/jobs/presets/delete", name="tracing").status_code == 404
    browser_client.page("/jobs/new?preset=tracing", 404)


def test_hostile_names_do_nothing(browser_client: Browser, store: Store, host: None) -> None:
    for text in HOSTILE:
        if text.isprintable():
            assert browser_client.post("/jobs/presets", preset_name=text[:100], name=text[:200]).status_code == 303
        response = browser_client.post("/jobs/new", **dict.fromkeys(("name", "command", "cwd", "events", "pid"), text))
        assert response.status_code == 422
        assert "<script>window" not in response.text and "<img src=x" not in response.text
    page = browser_client.page("/jobs/new")
    assert "<script>window" not in page and "<img src=x" not in page


def test_changes_need_the_csrf_token(browser_client: Browser, store: Store) -> None:
    store.presets.save("p", JobSpec().to_json())
    job = store.jobs.create("record", JobSpec(command=("true",)).to_json(), "x")
    paths = ("/jobs/new", "/jobs/preview", *(f"/jobs/presets{what}" for what in ("", "/delete", "/file", "/open")))
    for path in (*paths, *(f"/jobs/{job.id}/{what}" for what in ("cancel", "retry", "delete"))):
        assert browser_client.client.post(path, data={"command": "true", "name": "p"}).status_code == 403, path
    assert jobs_in(store) == 1 and not store.jobs.get(job.id).cancel_requested
    assert store.presets.get("p")


def test_no_value_of_a_variable_is_logged(
    browser_client: Browser, answering: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        for environment in ("PASSWORD=hunter2", "PASSWORD=hunter2\nwrong"):
            response = browser_client.post("/jobs/new", command="true", environment=environment)
    assert response.status_code == 422
    assert "hunter2" not in caplog.text


def test_the_style_sheet_knows_every_choice(browser_client: Browser) -> None:
    response = browser_client.client.get("/jobs/form.css")
    css = response.get_data(as_text=True)
    assert response.mimetype == "text/css"
    for choice in {choice for choices in list_hiding_choices().values() for choice in choices.split()}:
        name, _, value = choice.partition("-")
        made = {
            "scheduler": f'form[data-{name}="{value}"]',
            "sudo": f'form[data-{name}="{value}"]',
            "mpi": f'form:has([name="{name}"] [value="{value}"]:checked)',
        }.get(name, f'form:has([name="{name}"][value="{value}"]:checked)')
        assert f'{made} [data-hidden-by~="{choice}"]' in css


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (JobSpec(command=("/usr/bin/make", "all")), "make"),
        (JobSpec(command=("python3", "/a/solve.py", "x")), "python3 solve.py"),
        (JobSpec(command=("python3", "-c", "x")), "python3"),
        (JobSpec(scope=Scope.PROCESS, pid=7), "PID 7"),
        (JobSpec(scope=Scope.SYSTEM), "Whole system"),
        (JobSpec(command=("a\x1bb",)), "a\ufffdb"),
    ],
)
def test_a_job_without_a_name_gets_one(spec: JobSpec, name: str) -> None:
    assert form.default_name(spec) == name
