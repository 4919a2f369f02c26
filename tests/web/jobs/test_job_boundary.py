"""A server for more than one person starts no programs as its own user."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient

from perfloom.config import Settings
from perfloom.domain.host_facts import HostFacts
from perfloom.domain.isolation import ProtectedServer
from perfloom.domain.jobs import JobSpec, JobState
from perfloom.domain.targets import SchedulerName, Ssh, Target
from perfloom.paths import process_boundary
from perfloom.store import Store
from perfloom.web.app import create_app
from perfloom.workers.targets import job_user
from tests.web.conftest import TOKEN
from tests.web.jobs.test_job_form import FACTS

OWN = dataclasses.replace(FACTS, host="h", jobs=process_boundary())
OTHER = dataclasses.replace(OWN, jobs=process_boundary(os.geteuid() + 4711))

BEARER = {"Authorization": f"Bearer {TOKEN}", "Host": "localhost"}
FAR = Target("far", ssh=Ssh("far"))


def _app(settings: Settings, *, shared: bool) -> Iterator[Flask]:
    made = create_app(settings, shared=shared)
    yield made
    made.extensions["perfloom"].queue.close()
    made.extensions["perfloom"].store.close()


@pytest.fixture
def shared(settings: Settings) -> Iterator[Flask]:
    """The application as `perfloom web` serves it."""
    yield from _app(settings, shared=True)


def asked(client: FlaskClient, target: str = "local", **more: object) -> tuple[int, str]:
    """Status and error of a job that is submitted."""
    answer = client.post(
        "/api/v1/jobs",
        json={"command": ["true"], "target": target, **more},
        headers=BEARER,
    )
    return answer.status_code, str(answer.get_json().get("error", ""))


def test_jobs_as_the_same_user_are_rejected_and_as_another_accepted(shared: Flask, store: Store) -> None:
    client = shared.test_client()
    assert asked(client)[0] == 422 and "No worker has reported" in asked(client)[1]
    store.hosts.publish(OWN)
    status, error = asked(client)
    assert status == 422 and "PERFLOOM_TRUST_USERS" in error and "--run-as" in error
    store.targets.save(Target("queue here", scheduler=SchedulerName.SLURM))
    assert asked(client, "queue here")[0] == 422
    # Neither the other machine nor what is imported is touched by that.
    store.targets.save(FAR)
    assert asked(client, "far") == (201, "")
    store.hosts.publish(OTHER)
    assert asked(client) == (201, "")
    # Whichever worker takes it.
    store.hosts.publish(dataclasses.replace(OWN, host="another"))
    assert asked(client)[0] == 422


def test_a_job_is_not_run_again_either(shared: Flask, store: Store) -> None:
    store.hosts.publish(OWN)
    job = store.jobs.create("record", JobSpec(command=("true",)).to_json(), "again")
    store.jobs.transition(job.id, JobState.QUEUED, JobState.FAILED)
    assert shared.test_client().post(f"/jobs/{job.id}/retry", headers=BEARER).status_code == 403
    assert store.jobs.counts().get(JobState.QUEUED, 0) == 0


def test_trusted_or_single_users_are_not_restricted(settings: Settings, store: Store) -> None:
    store.hosts.publish(OWN)
    for changed, shared in ((dataclasses.replace(settings, trust_users=True), True), (settings, False)):
        for app in _app(changed, shared=shared):
            assert asked(app.test_client())[0] == 201


def test_the_worker_tells_as_whom_programs_run(settings: Settings, store: Store) -> None:
    found = job_user.with_job_user(HostFacts("h"), settings)
    assert found.jobs == process_boundary()
    assert str(settings.data / "catalogue.sqlite") in found.readable_secrets
    assert HostFacts.from_json(found.to_json()) == found


def test_input_files_of_the_server_are_not_copied_to_other_targets(shared: Flask, store: Store) -> None:
    client = shared.test_client()
    store.targets.save(FAR)
    store.hosts.publish(OWN)
    inputs = [str(store.settings.data / "catalogue.sqlite")]
    status, error = asked(client, "far", inputs=inputs)
    assert status == 422 and "Input files are read on the server's machine" in error and "--run-as" in error
    # As another user it is that user who reads them.
    store.hosts.publish(OTHER)
    assert asked(client, "far", inputs=inputs) == (201, "")


def test_a_target_on_the_same_machine_is_not_checked_as_the_server(shared: Flask, store: Store) -> None:
    client = shared.test_client()
    store.hosts.publish(OWN)
    store.targets.save(FAR)
    store.targets.save(Target("here too", perf="/tmp/program"))
    for name in ("local", "here too"):
        answer = client.post(f"/targets/{name}/check", headers=BEARER)
        assert answer.status_code == 403 and "PERFLOOM_TRUST_USERS" in answer.text
    form = {"name": "newer", "way": "here", "scheduler": "none"}
    answer = client.post("/targets/new", data=form, headers=BEARER)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/targets/newer")
    assert all(store.checks.latest("target", name) is None for name in ("local", "here too", "newer"))
    assert client.post("/targets/far/check", headers=BEARER).status_code == 303
    store.hosts.publish(OTHER)
    assert client.post("/targets/local/check", headers=BEARER).status_code == 303


def test_requests_to_workers_name_the_server(shared: Flask, store: Store, settings: Settings) -> None:
    store.hosts.publish(OTHER)
    client = shared.test_client()
    assert asked(client)[0] == 201
    where = client.post("/targets/local/check", headers=BEARER).headers["Location"]
    question = store.checks.get(where.partition("check=")[2]).question
    (job,) = store.jobs.list()
    for known in (job.details.server, ProtectedServer.from_request(question["server"])):
        assert known is not None and known.place == process_boundary() and str(settings.data / "token") in known.secrets
    store.jobs.transition(job.id, JobState.QUEUED, JobState.FAILED)
    assert client.post(f"/jobs/{job.id}/retry", headers=BEARER).status_code == 303
    assert all(one.details.server == job.details.server for one in store.jobs.list())


def test_a_target_does_not_move_here_below_jobs_that_wait_for_it(shared: Flask, store: Store) -> None:
    client = shared.test_client()
    store.hosts.publish(OWN)
    store.targets.save(FAR)
    assert asked(client, "far") == (201, "")
    form = {"way": "here", "scheduler": "none"}
    answer = client.post("/targets/far/edit", data=form, headers=BEARER)
    assert answer.status_code == 409 and "1 of its jobs have not ended" in answer.text
    assert store.targets.get("far").target.ssh == Ssh("far")
