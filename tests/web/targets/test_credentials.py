"""Passwords that a target asks for: typed into a page, encrypted for the workers, and nowhere in plaintext."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from perfloom.domain.errors import Prompt
from perfloom.domain.jobs import JobDetails, JobSpec, JobState
from perfloom.domain.targets import Ssh, Target
from perfloom.sealing import KeyPair
from perfloom.store import Job, Store
from tests.web.conftest import Browser
from tests.web.jobs.test_job_page import job

SECRET = "correct horse battery staple"
NEEDS = (
    Prompt("password", "Password of ada on ws3"),
    Prompt('passphrase /x"<b>', 'Passphrase of the key /x"<b>'),
)


@pytest.fixture
def worker(store: Store) -> KeyPair:
    """A worker that has published its public key."""
    pair = KeyPair.generate()
    store.hosts.publish_key("node17", pair.key_id, pair.public)
    return pair


@pytest.fixture
def asking(store: Store) -> None:
    store.targets.save(Target("ws", ssh=Ssh("ws3", user="ada", password=True)))
    store.targets.save(Target("key", ssh=Ssh("ws3", user="ada")))


def waiting(store: Store) -> Job:
    """A job that waits for two secrets."""
    made = job(
        store, JobState.STAGING, spec=JobSpec(target="ws", command=("x",)), details=JobDetails(needed_secrets=NEEDS)
    )
    assert made.details.needed_secrets == NEEDS
    return made


def everywhere(store: Store) -> bytes:
    """All that is on disk."""
    return b"".join(path.read_bytes() for path in Path(store.settings.data).rglob("*") if path.is_file())


def test_the_form_asks_where_the_target_does(browser_client: Browser, asking: None, worker: KeyPair) -> None:
    page = browser_client.page("/jobs/new?target=ws")
    assert "Password of ada@ws3" in page and 'type="password"' in page
    assert 'name="secret:' not in browser_client.page("/jobs/new?target=key")
    shown = browser_client.post("/jobs/preview", target="ws", command="x").get_json()["place"]["secrets"]
    assert shown == [{"name": "password", "text": "Password of ada@ws3"}]


def test_typed_password_is_encrypted_and_never_shown(
    browser_client: Browser, store: Store, asking: None, worker: KeyPair, caplog: pytest.LogCaptureFixture
) -> None:
    typed = {"target": "ws", "command": "./solver", "secret:password": SECRET}
    with caplog.at_level("DEBUG"):
        # There are warnings, so the form comes again: without what was typed.
        again = browser_client.post("/jobs/new", **typed)
        preview = browser_client.post("/jobs/preview", **typed)
        saved = browser_client.post("/jobs/presets", **typed, preset_name="p")
        file = browser_client.post("/jobs/presets/file", **typed)
        accepted = re.search(r'name="accepted" value="(\w+)"', again.text)
        assert again.status_code == 422 and accepted
        done = browser_client.post("/jobs/new", **typed, accepted=accepted[1])
    assert (done.status_code, saved.status_code, file.status_code) == (303, 303, 200)
    id = done.headers["Location"].removeprefix("/jobs/")
    (sealed,) = store.credentials.get(f"job:{id}")
    assert (sealed.host, sealed.key_id) == ("node17", worker.key_id)
    assert worker.open(sealed.sealed, f"job:{id}", time.time()) == {"password": SECRET}
    pages = [again.text, preview.text, file.text, browser_client.page(f"/jobs/{id}"), caplog.text]
    assert not any(SECRET in text for text in pages)
    assert SECRET not in str(store.jobs.get(id).spec) and SECRET.encode() not in everywhere(store)


def test_an_empty_field_seals_nothing(browser_client: Browser, store: Store, asking: None, worker: KeyPair) -> None:
    typed = {"target": "ws", "command": "./solver", "secret:password": ""}
    accepted = re.search(r'name="accepted" value="(\w+)"', browser_client.post("/jobs/new", **typed).text)
    assert accepted
    done = browser_client.post("/jobs/new", **typed, accepted=accepted[1])
    assert store.credentials.get(f"job:{done.headers['Location'].removeprefix('/jobs/')}") == ()


def test_without_a_worker_it_is_said_and_nothing_kept(browser_client: Browser, store: Store, asking: None) -> None:
    typed = {"target": "ws", "command": "./solver", "secret:password": SECRET}
    answer = browser_client.post("/jobs/new", **typed)
    assert answer.status_code == 422 and "No worker is running that" in answer.text and SECRET not in answer.text
    assert "./solver" in answer.text, "what else was typed stays"
    assert store.jobs.list() == () and SECRET.encode() not in everywhere(store)
    made = waiting(store)
    page = browser_client.page(f"/jobs/{made.id}")
    assert "It waits for a password" in page and "No worker is running" in page and 'type="password"' not in page


def test_the_page_of_a_job_asks_for_what_it_waits_for(browser_client: Browser, store: Store, worker: KeyPair) -> None:
    made = waiting(store)
    store.jobs.report_progress(made.id, None, "ws3 did not accept <what> was typed.")
    page = browser_client.page(f"/jobs/{made.id}")
    assert "ws3 did not accept &lt;what&gt; was typed." in page.split('data-part="needs"')[1].split("<form")[0]
    told = browser_client.client.get(f"/api/v1/jobs/{made.id}").get_json()
    assert told["needs"] == ["Password of ada on ws3", 'Passphrase of the key /x"<b>']
    assert "Password of ada on ws3" in page and "Passphrase of the key /x&#34;&lt;b&gt;" in page
    assert page.count('type="password"') == 2
    path = f"/jobs/{made.id}/credentials"
    half = browser_client.post(path, **{"secret:password": SECRET})
    assert half.status_code == 400 and "Passphrase of the key" in half.text
    assert store.credentials.get(f"job:{made.id}") == ()
    for value in ("x" * 10_001, "a\0b"):
        assert browser_client.post(path, **{"secret:password": value}).status_code == 400
    fields = {"secret:password": SECRET, 'secret:passphrase /x"<b>': "other", "secret:password nobody@asked": "for"}
    given = browser_client.post(path, **fields)
    assert (given.status_code, given.headers["Location"]) == (303, f"/jobs/{made.id}")
    (sealed,) = store.credentials.get(f"job:{made.id}")
    opened = worker.open(sealed.sealed, f"job:{made.id}", time.time())
    assert opened == {"password": SECRET, 'passphrase /x"<b>': "other"}
    assert SECRET.encode() not in everywhere(store)


def test_who_may_give_what_to_whom(browser_client: Browser, store: Store, worker: KeyPair) -> None:
    made = waiting(store)
    assert browser_client.client.post(f"/jobs/{made.id}/credentials", data={"secret:password": "x"}).status_code == 403
    assert browser_client.post("/jobs/000000000000/credentials").status_code == 404
    ended = job(store, JobState.FAILED, reason="x", details=JobDetails(needed_secrets=NEEDS))
    assert browser_client.post(f"/jobs/{ended.id}/credentials", **{"secret:password": "x"}).status_code == 409
    assert "It waits for a password" not in browser_client.page(f"/jobs/{ended.id}")
    # Given twice: the second time nothing is asked for any more.
    asks_nothing = job(store, JobState.RUNNING)
    assert browser_client.post(f"/jobs/{asks_nothing.id}/credentials", **{"secret:password": "x"}).status_code == 303
    assert store.credentials.get(f"job:{asks_nothing.id}") == ()
