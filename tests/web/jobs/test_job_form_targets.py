"""The job form at targets: their fields, facts and events, jobs there, and settings as files."""

from __future__ import annotations

import html
import io
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from perfloom.domain.host_facts import PerfEvent
from perfloom.domain.jobs import Batch, EventSplitting, JobSpec, Mpi, MpiFlavor
from perfloom.domain.targets import BatchQueue, SchedulerName, Ssh, Target, TargetFacts
from perfloom.recording.recorders.preflight import PreflightFinding, Severity
from perfloom.store import Store
from tests.web.conftest import TOKEN, Browser
from tests.web.jobs.test_job_form import FACTS, answering, host, jobs_in, value_of

__all__ = ["answering", "host"]


OFFERED = tuple(PerfEvent(name, "hardware") for name in ("cycles", "instructions", "branches", "branch-misses"))


@pytest.fixture
def cluster(store: Store) -> Target:
    """A target with a batch system, checked."""
    target = Target("cluster", ssh=Ssh("login"), scheduler=SchedulerName.SLURM, sudo=True)
    store.targets.save(target)
    queues = (BatchQueue("debug", default=True, text="one hour"), BatchQueue("<b>long"))
    there = replace(FACTS, host="login1", events=OFFERED, hardware_counters=True)
    store.targets.save_check("cluster", TargetFacts(there, mpi_launchers={"openmpi": "mpirun"}, queues=queues), ())
    return target


def test_a_job_at_a_target_is_queued_as_typed(browser_client: Browser, store: Store, cluster: Target) -> None:
    typed = {
        "target": "cluster",
        "command": "./solver 'a b'",
        "mpi": "openmpi",
        "ranks": "64",
        "ranks_per_node": "16",
        "recorded": "ranks",
        "every": "4",
        "mpi_arguments": "--bind-to core",
        "queue": "debug",
        "wall_time": "30 min",
        "exclusive": "1",
        "resources": "never seen there",
        "modules": "gcc/12 mpi",
        "sudo": "1",
        "keep_recordings": "",
        "splitting": "sequential",
        "events": "cycles,instructions",
    }
    accepted = re.search(r'name="accepted" value="(\w+)"', browser_client.post("/jobs/new", **typed).text)
    assert accepted, "there is no worker, which is a warning"
    done = browser_client.post("/jobs/new", **typed, accepted=accepted[1])
    assert done.status_code == 303, done.text
    job = store.jobs.get(done.headers["Location"].removeprefix("/jobs/"))
    assert job.target == "cluster"
    assert job.job_spec == JobSpec(
        target="cluster",
        command=("./solver", "a b"),
        mpi=Mpi(MpiFlavor.OPENMPI, 64, 16, arguments=("--bind-to", "core"), every=4),
        batch=Batch("debug", wall_time_s=1800, exclusive=True),
        modules=("gcc/12", "mpi"),
        sudo=True,
        keep_recordings=False,
        splitting=EventSplitting.SEQUENTIAL,
        events=("cycles", "instructions"),
    )
    again = browser_client.page(f"/jobs/new?from={job.id}")
    assert re.search(r'<option value="cluster"[^>]* selected', again)
    assert re.search(r'<option value="openmpi" selected', again)
    assert re.search(r'name="mpi_arguments"[^>]* value="--bind-to core"', again)
    assert not re.search(r'id="f-keep_recordings"[^>]* checked', again)


def test_another_target_has_other_fields_and_facts(browser_client: Browser, cluster: Target, host: None) -> None:
    """Without scripts by a press of a button; with them the preview brings the same."""
    typed = {"target": "cluster", "command": "./x '&lt;'", "queue": "kept"}
    page = browser_client.post("/jobs/new", action="target", **typed).text
    assert 'data-scheduler="slurm" data-sudo="yes"' in page
    assert value_of(page, "command") == "./x '&lt;'" and 'value="kept"' in page
    assert "login1" in page and '<option value="&lt;b&gt;long">' in page and "Empty: the default, debug." in page
    assert 'data-scheduler="none" data-sudo="no"' in browser_client.page("/jobs/new")
    answer = browser_client.post("/jobs/preview", **typed).get_json()
    assert answer["place"]["name"] == "cluster" and "login1" in answer["place"]["text"]
    assert [queue["name"] for queue in answer["place"]["queues"]] == ["debug", "<b>long"]
    assert answer["place"]["default_events"]["perf-record"] == "cycles"
    assert any("no partition kept" in one["message"] for one in answer["findings"] if one["field"] == "queue")
    local = browser_client.post("/jobs/preview", command="x").get_json()
    assert local["place"]["default_events"]["perf-record"] == "cpu-clock" and local["place"]["secrets"] == []


def test_events_are_those_of_the_target(browser_client: Browser, cluster: Target, host: None) -> None:
    found = json.loads(browser_client.page("/jobs/events?target=cluster"))
    assert found["total"] == len(OFFERED) and found["host"] == "cluster"
    assert json.loads(browser_client.page("/jobs/events"))["total"] == 3
    assert json.loads(browser_client.page("/jobs/events?target=nowhere"))["total"] == 0
    # As the host of the target would refuse them.
    answer = browser_client.post("/jobs/preview", target="cluster", command="x", events="nosuch:event").get_json()
    assert any("login1 does not offer nosuch:event" in one["message"] for one in answer["findings"])


def test_the_groups_of_events_are_shown(browser_client: Browser, cluster: Target) -> None:
    events = "cycles,instructions,branches,branch-misses"
    typed = {"target": "cluster", "command": "x", "events": events, "splitting": "sequential", "events_per_run": "2"}
    groups = browser_client.post("/jobs/preview", **typed).get_json()["groups"]
    assert [event for group in groups for event in group] == events.split(",") and len(groups) == 2
    page = browser_client.post("/jobs/new", action="preview", **typed).text
    assert "<code>cycles, instructions</code>" in page
    assert browser_client.post("/jobs/preview", **typed | {"splitting": "one-run"}).get_json()["groups"] == []


def test_a_target_that_is_gone(browser_client: Browser, store: Store) -> None:
    job = store.jobs.create("record", JobSpec(target="<gone>", command=("x",)).to_json(), "x")
    page = browser_client.page(f"/jobs/new?from={job.id}")
    assert "&lt;gone&gt; — removed" in page
    answer = browser_client.post("/jobs/new", target="<gone>", command="x")
    assert answer.status_code == 422 and "No such target" in answer.text


def test_nothing_is_asked_of_this_machine_for_another(
    browser_client: Browser, cluster: Target, answering: list[Any]
) -> None:
    answer = browser_client.post("/jobs/preview", target="cluster", command="/only/there", check="1").get_json()
    assert answering == []
    assert not [one for one in answer["findings"] if one["level"] == "error"]


def test_a_planned_job_here_is_checked_as_it_will_run(
    browser_client: Browser, answering: list[Any], monkeypatch: pytest.MonkeyPatch, app: Flask
) -> None:
    runs = {"splitting": "sequential", "events_per_run": "1", "events": "cpu-clock,context-switches"}
    browser_client.post("/jobs/preview", command="x out{run}", inputs="/data/in{run}", check="1", **runs)
    assert (answering[-1]["command"], answering[-1]["inputs"]) == (("x", "out0"), ("/data/in0",))
    found = [
        PreflightFinding(Severity.ERROR, "command", "x is not found in PATH.", ""),
        PreflightFinding(Severity.ERROR, "cwd", "No.", ""),
    ]
    monkeypatch.setattr(app.extensions["perfloom"].queue, "check_job", lambda spec, timeout: list(found))

    def errors(**typed: str) -> set[str]:
        answer = browser_client.post("/jobs/preview", check="1", **typed).get_json()
        return {one["field"] for one in answer["findings"] if one["level"] == "error"}

    assert errors(command="x") == {"command", "cwd"}
    assert errors(command="x", modules="solver/1.0") == {"cwd"}, "a module may bring it"
    assert errors(command="/opt/x", modules="solver/1.0") == {"command", "cwd"}


def test_the_api_takes_targets(client: FlaskClient, store: Store, cluster: Target) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    body = {
        "command": ["x"],
        "target": "cluster",
        "mpi": {"flavour": "openmpi", "ranks": 4},
        "batch": {"queue": "debug"},
    }
    made = client.post("/api/v1/jobs", json=body, headers=headers)
    assert made.status_code == 201, made.text
    assert store.jobs.get(made.get_json()["id"]).job_spec == JobSpec(
        target="cluster", command=("x",), mpi=Mpi(MpiFlavor.OPENMPI, 4), batch=Batch("debug")
    )
    assert made.get_json()["target"] == "cluster"
    for wrong, field in (({"target": "mars"}, "target"), ({"mpi": {"flavour": "openmpi", "ranks": "x"}}, "ranks")):
        refused = client.post("/api/v1/jobs", json=body | wrong, headers=headers)
        assert (refused.status_code, refused.get_json()["field"]) == (422, field)


def test_settings_are_exported_and_imported(browser_client: Browser, store: Store, cluster: Target) -> None:
    typed = {"target": "cluster", "command": "./x", "environment": "A=1\nAPI_KEY=hush", "queue": "long"}
    file = browser_client.post("/jobs/presets/file", format="toml", preset_name="mine/../x", **typed)
    assert file.status_code == 200 and "hush" not in file.text and "API_KEY" in file.text
    assert file.headers["Content-Disposition"].startswith("attachment")
    assert json.loads(browser_client.post("/jobs/presets/file", format="json", **typed).text)["batch"] == {
        "queue": "long"
    }
    assert browser_client.post("/jobs/presets/file", format="yaml", **typed).status_code == 400
    wrong = browser_client.post("/jobs/presets/file", **typed | {"queue": "-x"})
    assert wrong.status_code == 422 and "hyphen" in wrong.text and value_of(wrong.text, "command") == "./x"

    def take(data: bytes, name: str = "p.toml") -> Any:
        fields = {"csrf": browser_client.csrf, "file": (io.BytesIO(data), name)}
        return browser_client.client.post("/jobs/presets/open", data=fields, headers={"Origin": "http://localhost"})

    opened = take(file.data, "<i>their.toml")
    assert opened.status_code == 200, opened.text
    assert "Filled from the file &lt;i&gt;their.toml" in opened.text
    assert value_of(opened.text, "environment") == "A=1" and 'value="long"' in opened.text
    for data in (b"", b"\xff", b"command = 3", b"{", b"[mpi]\nranks = 2"):
        assert take(data).status_code in (200, 400), data
    assert "list of strings" in take(b"command = 3").text
    assert browser_client.post("/jobs/presets/open").status_code == 400
    assert jobs_in(store) == 0 and store.presets.list() == ()

    browser_client.post("/jobs/presets", preset_name="a & b", **typed)
    page = browser_client.page("/jobs/new")
    link = re.search(r'href="(/jobs/presets/file[^"]*)"', page)
    assert link
    saved = browser_client.client.get(html.unescape(link[1]))
    assert saved.status_code == 200 and "hush" not in saved.text and 'command = [\n    "./x",\n]' in saved.text
    browser_client.page("/jobs/presets/file?name=none", 404)
