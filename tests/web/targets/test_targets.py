"""Targets on their pages: added, changed, checked, exchanged as files; and whose word counts for what."""

from __future__ import annotations

import io
import json
import re
import time
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from perfloom.domain.errors import HostKeyUnknown, Prompt
from perfloom.domain.jobs import Batch, JobDetails, JobSpec, JobState
from perfloom.domain.targets import BatchState, CheckLine, CheckStatus, SchedulerName, Ssh, Target
from perfloom.recording.probe.check_messages import CheckRequest, CheckResult, HostKey, ProbeJob
from perfloom.recording.probe.check_report import check_lines
from perfloom.recording.probe.probe import parse_probe
from perfloom.recording.probe.target_text import fingerprint
from perfloom.sealing import KeyPair
from perfloom.store import Store
from perfloom.workers.remote.checks import save_unknown_key
from tests.recording.probe.answers import RED_HAT, printed
from tests.web.conftest import HOSTILE, Browser
from tests.web.html import read

KEY = "node7 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB3xG8q1z0Yx3k1n7sF5p2mZ2d0R1u8mJx0c8O8q2v5T"
PRINT = fingerprint(KEY)
FAR = Target("far host", ssh=Ssh("node7", user="ada", jump=("gate",)), environment={"TOKEN": "hush", "OMP": "4"})
CLUSTER = Target("big", ssh=Ssh("login"), scheduler=SchedulerName.SLURM, scratch="$TMPDIR", poll_s=1.0)


@pytest.fixture
def far(store: Store) -> Target:
    store.targets.save(FAR)
    return FAR


@pytest.fixture
def cluster(store: Store) -> Target:
    store.targets.save(CLUSTER)
    facts = parse_probe(printed(*RED_HAT), CLUSTER, time.time())
    store.targets.save_check("big", facts, check_lines(CLUSTER, facts))
    return CLUSTER


def asked(store: Store, question: CheckRequest, answer: CheckResult | None = None) -> str:
    check = store.checks.ask(question.to_json())
    if answer is not None:
        store.checks.answer(check.id, answer.to_json())
    return check.id


def questions(store: Store, name: str, location: str) -> CheckRequest:
    """The question that an answer of the server leads to."""
    found = re.search(r"[?&]check=(\w+)", location)
    assert found is not None, location
    return CheckRequest.from_json(store.checks.get(found[1]).question)


def add(client: Browser, **fields: str) -> Any:
    return client.post("/targets/new", **{"name": "new one", "way": "ssh", "host": "node7"} | fields)


def test_without_any_there_is_this_machine_and_a_way_to_more(browser_client: Browser) -> None:
    page = browser_client.page("/targets")
    assert "this machine" in page and "Add a target" in page and "never checked" in page
    assert 'href="/targets" data-key="t" aria-current="page"' in page
    own = browser_client.page("/targets/local")
    assert "/targets/local/delete" not in own and "/targets/local/edit" in own


def test_adding_one(browser_client: Browser, store: Store) -> None:
    response = add(
        browser_client,
        user="ada",
        port="2222",
        jump="ada@gate:22, second\r\nthird",
        agent="1",
        config="",
        scheduler="slurm",
        directory="$HOME/jobs",
        modules="gcc/12 openmpi/4.1",
        environment="A=1\nB= x ",
        starters="openmpi=mpirun.openmpi",
        sudo="1",
        counters="4",
        poll="30 s",
        connect_timeout="20",
        notes="one\ntwo",
    )
    # It is checked at once.
    where = response.headers["Location"]
    assert response.status_code == 303 and where.startswith("/targets/new%20one?check=")
    assert questions(store, "new one", where) == CheckRequest("new one")
    assert store.targets.get("new one").target == Target(
        "new one",
        ssh=Ssh(
            "node7",
            user="ada",
            port=2222,
            agent=True,
            config=False,
            jump=("ada@gate:22", "second", "third"),
            connect_timeout_s=20.0,
        ),
        scheduler=SchedulerName.SLURM,
        directory="$HOME/jobs",
        modules=("gcc/12", "openmpi/4.1"),
        environment={"A": "1", "B": " x "},
        starters={"openmpi": "mpirun.openmpi"},
        sudo=True,
        counters=4,
        poll_s=30.0,
        notes="one\ntwo",
    )
    page = browser_client.page(where)
    assert "Added the target" in page and "A worker is checking the target." in page
    page = browser_client.page("/targets/new%20one")
    assert "ada@node7:2222" in page and "Not checked yet" in page
    assert "A, B (values not shown)" in page


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "local"),
        ("name", "far host"),
        ("host", "a b"),
        ("port", "x"),
        ("jump", "a:b"),
        ("way", "balloon"),
        ("scheduler", "pbs"),
        ("mpi", "best"),
        ("directory", "relative"),
        ("environment", "nonsense"),
        ("starters", "openmpi"),
        ("counters", "-1"),
        ("poll", "soon"),
        ("connect_timeout", "0"),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_nothing_typed_is_lost(
    browser_client: Browser, store: Store, far: Target, field: str, value: str
) -> None:
    response = add(browser_client, **{"notes": "kept as typed", field: value})
    assert response.status_code == 422 and read(response.text).faults == []
    assert f'href="#f-{field}"' in response.text and "kept as typed" in response.text
    assert re.search(rf'data-findings="{field}">\s*<p class="finding" data-level="error"', response.text), field
    assert [one.name for one in store.targets.list()] == ["local", "far host"]


@pytest.mark.parametrize("name", [*HOSTILE, "..", "new", "import", "a/b", "$(touch x)", "`x`", "'; drop table targets"])
def test_hostile_names_are_refused_as_text(browser_client: Browser, store: Store, name: str) -> None:
    response = add(browser_client, name=name)
    assert response.status_code == 422 and read(response.text).faults == []
    assert len(store.targets.list()) == 1
    for path in ("", "/edit", "/delete", "/file", "/check/abc"):
        found = browser_client.client.get(f"/targets/{name}{path}")
        assert found.status_code in (200, 400, 404, 405, 308, 302, 303) and read(found.text).faults == [], (name, path)


def test_hostile_text_in_every_other_field_is_shown_as_text(browser_client: Browser, store: Store) -> None:
    for text in HOSTILE:
        response = add(browser_client, **dict.fromkeys(("host", "user", "key_file", "jump", "directory", "perf"), text))
        assert response.status_code == 422 and read(response.text).faults == []
    lines = tuple(CheckLine(text, CheckStatus.BAD, text, text) for text in HOSTILE)
    store.targets.save(replace(FAR, notes=HOSTILE[0], directory=f"/{HOSTILE[1]}"))
    store.targets.save_check("far host", None, lines)
    for path in ("/targets", "/targets/far%20host", "/targets/far%20host/edit", "/targets/far%20host/delete"):
        text = browser_client.page(path)
        assert read(text).faults == [] and "\u202e" not in text, path


def test_editing_keeps_name_and_accepted_keys(browser_client: Browser, store: Store, far: Target) -> None:
    assert far.ssh is not None
    store.targets.save(replace(far, ssh=replace(far.ssh, host_keys=(KEY,))))
    page = browser_client.page("/targets/far%20host/edit")
    assert 'value="node7"' in page and "gate" in page and 'name="name"' not in page and KEY not in page
    fields = {"way": "ssh", "host": "node7", "jump": "gate", "agent": "1", "config": "1", "user": "bob"}
    assert browser_client.post("/targets/far%20host/edit", name="other", **fields).status_code == 303
    found = store.targets.get("far host").target
    assert found.ssh == Ssh("node7", user="bob", jump=("gate",), host_keys=(KEY,))
    assert browser_client.post("/targets/far%20host/edit", **fields | {"host": "node8"}).status_code == 303
    moved = store.targets.get("far host").target.ssh
    assert moved is not None and moved.host_keys == ()


def test_this_machine_keeps_being_this_machine(browser_client: Browser, store: Store) -> None:
    page = browser_client.page("/targets/local/edit")
    assert 'name="scheduler"' not in page and 'name="host"' not in page
    assert browser_client.post("/targets/local/edit", way="here", modules="gcc").status_code == 303
    assert store.targets.get("local").target == Target("local", modules=("gcc",))
    for fields in ({"way": "ssh", "host": "x"}, {"way": "here", "scheduler": "slurm"}):
        assert browser_client.post("/targets/local/edit", **fields).status_code == 422


def test_a_copy_has_everything_but_the_name(browser_client: Browser, far: Target) -> None:
    page = browser_client.page("/targets/new?from=far+host")
    assert "filled from the target far host" in page and 'value="node7"' in page and 'value="far host"' not in page
    assert browser_client.client.get("/targets/new?from=nowhere").status_code == 404


# ---- files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["toml", "json"])
def test_a_file_goes_out_and_comes_back(browser_client: Browser, store: Store, far: Target, form: str) -> None:
    assert far.ssh is not None
    store.targets.save(replace(far, ssh=replace(far.ssh, host_keys=(KEY,))))
    response = browser_client.client.get(f"/targets/far%20host/file?format={form}")
    assert f'filename="far host.{form}"' in response.headers["Content-Disposition"]
    assert "hush" not in response.text and "AAAA" not in response.text and "OMP" in response.text
    sent = {"csrf": browser_client.csrf, "file": (io.BytesIO(response.data), f"x.{form}")}
    page = browser_client.client.post("/targets/import", data=sent, headers={"Origin": "http://localhost"})
    assert page.status_code == 200 and "Nothing is saved yet" in page.text
    assert 'value="far host"' in page.text and 'value="node7"' in page.text and "OMP=4" in page.text


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "The file is empty"),
        (b"mpi = 'mpich'", "needs the field “name”"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"name = 'x'\npassword = 'hush'", "no field “password”"),
        (b"name = '<script>'", "A name starts"),
        (b"a = " + b"[" * 100_000, "brackets"),
    ],
    ids=["empty", "nameless", "binary", "unknown word", "markup", "brackets"],
)
def test_files_that_are_none(browser_client: Browser, store: Store, data: bytes, said: str) -> None:
    sent = {"csrf": browser_client.csrf, "file": (io.BytesIO(data), "x.toml")}
    response = browser_client.client.post("/targets/import", data=sent, headers={"Origin": "http://localhost"})
    assert response.status_code == 400 and said in unescape(response.text) and read(response.text).faults == []
    assert len(store.targets.list()) == 1


def test_no_file_and_no_such_format(browser_client: Browser, far: Target) -> None:
    assert browser_client.post("/targets/import").status_code == 400
    assert browser_client.client.get("/targets/far%20host/file?format=exe").status_code == 400


# ---- deleting -----------------------------------------------------------------------------------------------


def test_deleting_asks_first_and_waits_for_jobs(browser_client: Browser, store: Store, far: Target) -> None:
    assert "Delete the target" in browser_client.page("/targets/far%20host/delete")
    job = store.jobs.create("record", JobSpec(target="far host", command=("x",)).to_json(), "x")
    assert "1" in browser_client.page("/targets") and "x" in browser_client.page("/targets/far%20host")
    assert browser_client.post("/targets/far%20host/delete").status_code == 409
    store.jobs.transition(job.id, JobState.QUEUED, JobState.CANCELLED)
    assert browser_client.post("/targets/far%20host/delete").status_code == 303
    assert store.targets.find("far host") is None
    assert browser_client.client.get("/targets/far%20host").status_code == 404
    assert browser_client.post("/targets/local/delete").status_code == 400


# ---- checks -------------------------------------------------------------------------------------------------


def test_a_check_is_a_question_to_a_worker(browser_client: Browser, store: Store, far: Target) -> None:
    response = browser_client.post("/targets/far%20host/check")
    assert response.status_code == 303 and response.headers["Location"].startswith("/targets/far%20host?check=")
    assert questions(store, "far host", response.headers["Location"]) == CheckRequest("far host")
    page = browser_client.page(response.headers["Location"])
    assert "A worker is checking" in page and "No worker is running" in page and '<meta http-equiv="refresh"' in page
    assert browser_client.client.get("/targets/far%20host/check").status_code == 405


def test_what_a_check_found(browser_client: Browser, store: Store, cluster: Target) -> None:
    id = asked(store, CheckRequest("big"), CheckResult())
    page = browser_client.page(f"/targets/big?check={id}")
    assert "The check is done" in page and "http-equiv" not in page and read(page).faults == []
    for text in ("perf_event_paranoid is 2", "Intel MPI 2021.10", "Slurm 23.11.6 responds", "Run a probe job"):
        assert text in page, text
    live = browser_client.client.get(f"/targets/big/check/{id}").json
    assert live["final"] and live["url"] == f"/targets/big?check={id}"


def test_a_probe_job_is_asked_for_with_its_queue(browser_client: Browser, store: Store, cluster: Target) -> None:
    response = browser_client.post(
        "/targets/big/check", probe="1", queue="short", project="p1", arguments="--qos 'a b'"
    )
    question = questions(store, "big", response.headers["Location"])
    assert question.batch == Batch(queue="short", project="p1", arguments=("--qos", "a b"))
    assert browser_client.post("/targets/local/check", probe="1").status_code == 400
    for word in ("queue", "project"):
        assert browser_client.post("/targets/big/check", probe="1", **{word: "--wrap=x"}).status_code == 400
        assert browser_client.post("/targets/big/check", probe="1", **{word: "a\nb"}).status_code == 400
    assert browser_client.post("/targets/big/check", probe="1", arguments="'open").status_code == 400


def test_waiting_for_a_probe_job(
    browser_client: Browser, store: Store, cluster: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ProbeJob("4711", "/d/check-abcdefabcdef", time.time(), BatchState.PENDING, "PD", "Resources", 3)
    id = asked(store, CheckRequest("big", Batch()), CheckResult(job=job))
    page = browser_client.page(f"/targets/big?check={id}")
    assert "The probe job 4711 waits in the queue, 3 ahead: Resources." in page and "Cancel the probe job" in page
    live = browser_client.client.get(f"/targets/big/check/{id}").json
    assert not live["final"] and live["id"] == id and "4711" in live["html"]
    # Later the next check is requested, and the page continues with that one.
    now = time.time()
    monkeypatch.setattr("perfloom.web.views.targets.checks.time.time", lambda: now + 2)
    live = browser_client.client.get(f"/targets/big/check/{id}").json
    assert live["id"] != id and questions(store, "big", live["url"]) == CheckRequest("big", None, job)
    moved = browser_client.client.get(f"/targets/big?check={id}")
    assert moved.status_code == 302 and "check=" in moved.headers["Location"]
    monkeypatch.undo()
    cancelled = browser_client.post(f"/targets/big/check/{id}/cancel")
    assert questions(store, "big", cancelled.headers["Location"]) == CheckRequest("big", None, job, True)


def test_unanswered_check_is_reported(
    browser_client: Browser, store: Store, far: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = asked(store, CheckRequest("far host"))
    now = time.time()
    monkeypatch.setattr("perfloom.web.views.targets.checks.time.time", lambda: now + 700)
    assert "No worker answered" in browser_client.page(f"/targets/far%20host?check={id}")


def test_other_checks_are_not_shown(browser_client: Browser, store: Store, far: Target, cluster: Target) -> None:
    of_other = asked(store, CheckRequest("big"), CheckResult("secret trouble"))
    other_kind = store.checks.ask(JobSpec(command=("x",)).to_json()).id
    for id in (of_other, other_kind, "nosuchcheck0", "<script>"):
        assert "secret trouble" not in browser_client.page("/targets/far%20host?check=" + id)
        for path in ("accept", f"check/{id}/cancel"):
            if path == "accept" or "<" not in path:
                response = browser_client.post(f"/targets/far%20host/{path}", check=id, fingerprint="x")
                assert response.status_code in (400, 404), (id, path)
    assert browser_client.client.get("/targets/far%20host/check/nosuchcheck0").status_code == 404


def test_a_person_accepts_a_key(browser_client: Browser, store: Store, far: Target) -> None:
    id = asked(store, CheckRequest("far host"), CheckResult("not known", HostKey("node7", KEY, PRINT)))
    page = browser_client.page(f"/targets/far%20host?check={id}")
    assert PRINT in page and "accept this key" in page and KEY.split()[2] not in page
    for fields in ({"check": id}, {"check": id, "fingerprint": "SHA256:other"}, {"check": "", "fingerprint": PRINT}):
        assert browser_client.post("/targets/far%20host/accept", **fields).status_code in (400, 404, 409)
    other = asked(store, CheckRequest("far host"), CheckResult("not known", HostKey("node7", KEY, "SHA256:lie")))
    assert browser_client.post("/targets/far%20host/accept", check=other, fingerprint="SHA256:lie").status_code == 409
    without = {"check": id, "fingerprint": PRINT, "csrf": "x"}
    assert browser_client.client.post("/targets/far%20host/accept", data=without).status_code == 403
    assert store.targets.get("far host").target == far
    response = browser_client.post("/targets/far%20host/accept", check=id, fingerprint=PRINT)
    assert response.status_code == 303 and questions(store, "far host", response.headers["Location"]).job is None
    ssh = store.targets.get("far host").target.ssh
    assert ssh is not None and ssh.host_keys == (KEY,)
    page = browser_client.page("/targets/far%20host")
    assert "Accepted keys" in page and PRINT in page
    assert browser_client.post("/targets/far%20host/forget-key", fingerprint=PRINT).status_code == 303
    ssh = store.targets.get("far host").target.ssh
    assert ssh is not None and ssh.host_keys == ()


def test_the_key_to_accept_stays(
    browser_client: Browser, store: Store, far: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = {"target": "far host", "command": "true"}
    assert "is not accepted yet" not in browser_client.post("/jobs/preview", **form).get_data(as_text=True)
    id = asked(store, CheckRequest("far host"), CheckResult("not known", HostKey("node7", KEY, PRINT)))
    # Neither time nor questions of other kinds take it away.
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 7200)
    asked(store, CheckRequest("far host", close=True), CheckResult())
    asked(store, CheckRequest("another"), CheckResult())
    store.checks.answer(store.checks.ask({"target": "far host", "command": ["true"]}).id, {"findings": []})
    page = browser_client.page("/targets/far%20host")
    assert PRINT in page and "accept this key" in page and id in page
    warned = browser_client.post("/jobs/preview", **form).get_json()
    assert [one["level"] for one in warned["findings"] if "node7 is not accepted" in one["message"]] == ["warning"]
    assert browser_client.post("/targets/far%20host/accept", check=id, fingerprint=PRINT).status_code == 303
    assert "accept this key" not in browser_client.page("/targets/far%20host")
    assert "is not accepted yet" not in browser_client.post("/jobs/preview", **form).get_data(as_text=True)


def test_the_form_warns_of_a_key_with_the_target_alone(browser_client: Browser, store: Store, far: Target) -> None:
    asked(store, CheckRequest("far host"), CheckResult("not known", HostKey("node7", KEY, PRINT)))
    words = "host key of node7 is not accepted"
    for pressed in ({"action": "preview"}, {"action": "target"}):
        assert words in browser_client.post("/jobs/new", target="far host", command="", **pressed).text
    assert words in browser_client.page("/jobs/new?target=far%20host") and words not in browser_client.page("/jobs/new")
    for command in ("", "true"):
        answer = browser_client.post("/jobs/preview", target="far host", command=command).get_json()
        assert [one["field"] for one in answer["findings"] if words in one["message"]] == ["target"]
        # It was checked: what is said beside may not deny that.
        assert "never checked" not in json.dumps(answer) and "No check" in answer["place"]["text"]


def test_a_job_leads_to_the_key_to_accept(
    browser_client: Browser, store: Store, far: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = store.jobs.create("record", JobSpec(command=("true",), target="far host").to_json(), "kept out")
    link = 'href="/targets/far%20host">Compare and accept'
    details = JobDetails(error_kind="HostKeyUnknown")
    store.jobs.transition(job.id, JobState.QUEUED, JobState.FAILED, details=details, reason="The key is not known yet.")
    monkeypatch.setattr("perfloom.web.views.jobs.jobs.QUEUED_LONG_S", 0.0)
    waits = store.jobs.create("record", JobSpec(command=("true",), target="far host").to_json(), "cannot be told of")
    store.jobs.transition(waits.id, JobState.QUEUED, JobState.STAGING)
    store.jobs.transition(waits.id, JobState.STAGING, JobState.RUNNING)
    store.jobs.update(waits.id, details=JobDetails(unreachable_since=1.0), progress_text="The key is not known yet.")
    for one in (job, waits):
        assert link not in browser_client.page(f"/jobs/{one.id}")
    error = HostKeyUnknown("not known", "node7", KEY, PRINT)
    save_unknown_key(store, "far host", error)
    save_unknown_key(store, "far host", error)
    for one in (job, waits):
        assert link in browser_client.page(f"/jobs/{one.id}")
    page = browser_client.page("/targets/far%20host")
    assert "accept this key" in page and "Not checked yet" not in page
    found = store.checks.latest("target", "far host")
    assert found is not None
    assert browser_client.post("/targets/far%20host/accept", check=found.id, fingerprint=PRINT).status_code == 303
    for one in (job, waits):
        assert link not in browser_client.page(f"/jobs/{one.id}")


def test_a_shell_or_a_job_that_got_in_takes_the_key_away(browser_client: Browser, store: Store, far: Target) -> None:
    facts = parse_probe(printed(*RED_HAT), FAR, time.time() - 60)
    store.targets.save_check("far host", facts, check_lines(FAR, facts))
    asked(store, CheckRequest("far host"), CheckResult("not known", HostKey("node7", KEY, PRINT)))
    assert "accept this key" in browser_client.page("/targets/far%20host")
    store.targets.save_check("far host", replace(facts, host=replace(facts.host, checked_at=time.time() + 1)), ())
    assert "accept this key" not in browser_client.page("/targets/far%20host")


def test_a_check_that_went_well_takes_the_key_away(browser_client: Browser, store: Store, far: Target) -> None:
    asked(store, CheckRequest("far host"), CheckResult("not known", HostKey("node7", KEY, PRINT)))
    asked(store, CheckRequest("far host"), CheckResult())
    assert "accept this key" not in browser_client.page("/targets/far%20host")


def test_a_kept_connection_can_be_closed(browser_client: Browser, store: Store, far: Target) -> None:
    assert far.ssh is not None
    assert "Close the connection" not in browser_client.page("/targets/far%20host")
    store.targets.save(replace(far, ssh=replace(far.ssh, keep=True)))
    page = browser_client.page("/targets/far%20host")
    assert "Close the connection now" in page and "12 hours after its last use" in page
    assert browser_client.post("/targets/far%20host/close").status_code == 303
    assert "will close the connection" in browser_client.page("/targets/far%20host")


def test_password_is_encrypted_for_the_worker_and_not_stored(
    browser_client: Browser, store: Store, far: Target, caplog: pytest.LogCaptureFixture
) -> None:
    prompts = (Prompt("password ada@node7", "Password of ada on node7"), Prompt("answer x", "Code"))
    question = CheckRequest("far host", Batch(queue="q", arguments=("a b",)))
    id = asked(store, question, CheckResult("ada has to log in with a password.", prompts=prompts))
    page = browser_client.page(f"/targets/far%20host?check={id}")
    assert "Password of ada on node7" not in page and "No worker is running" in page
    fields = {"secret:password ada@node7": "correct horse", "secret:answer x": ""}
    assert browser_client.post("/targets/far%20host/check", **fields).status_code == 503
    pair = KeyPair.generate()
    store.hosts.publish_key("here", pair.key_id, pair.public)
    page = browser_client.page(f"/targets/far%20host?check={id}")
    assert page.count('type="password"') == 2 and "Password of ada on node7" in page
    assert 'name="queue" value="q"' in page and 'name="probe" value="1"' in page
    response = browser_client.post("/targets/far%20host/check", **fields)
    assert response.status_code == 303 and "horse" not in response.headers["Location"]
    (box,) = store.credentials.get("target:far host")
    assert pair.open(box.sealed, "target:far host", time.time()) == {"password ada@node7": "correct horse"}
    kept = b"".join(path.read_bytes() for path in store.settings.data.rglob("*") if path.is_file())
    assert b"correct horse" not in kept and "correct horse" not in caplog.text
    assert "correct horse" not in json.dumps(questions(store, "far host", response.headers["Location"]).to_json())


def test_probe_job_continues_after_a_prompt(browser_client: Browser, store: Store, cluster: Target) -> None:
    pair = KeyPair.generate()
    store.hosts.publish_key("here", pair.key_id, pair.public)
    job = ProbeJob("4711", "/d/check-abcdefabcdef", time.time())
    answer = CheckResult("A code is needed.", prompts=(Prompt("answer x", "Code"),), job=job)
    id = asked(store, CheckRequest("big", job=job), answer)
    page = browser_client.page(f"/targets/big?check={id}")
    assert f'name="resume" value="{id}"' in page and "http-equiv" not in page
    response = browser_client.post("/targets/big/check", resume=id, **{"secret:answer x": "123456"})
    assert questions(store, "big", response.headers["Location"]).job == job


def test_a_password_that_is_always_needed_is_asked_for_at_once(browser_client: Browser, store: Store) -> None:
    store.targets.save(Target("word", ssh=Ssh("node7", user="ada", password=True)))
    page = browser_client.page("/targets/word")
    assert "Password of ada@node7" in page and 'name="secret:password"' in page


def test_no_change_from_elsewhere(client: FlaskClient, app: Flask, browser_client: Browser) -> None:
    paths = ("new", "import", "local/check", "local/edit", "local/delete", "local/accept", "local/forget-key")
    for path in (*paths, "local/check/abcdefabcdef/cancel"):
        stranger = app.test_client()
        assert stranger.post(f"/targets/{path}").status_code == 401, path
        data = {"csrf": browser_client.csrf}
        evil = browser_client.client.post(f"/targets/{path}", data=data, headers={"Origin": "http://evil.example"})
        assert evil.status_code == 403, path
        assert browser_client.client.post(f"/targets/{path}", data={}).status_code == 403, path
