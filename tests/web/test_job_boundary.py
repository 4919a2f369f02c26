"""A server for more than one person starts no programs as its own user."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient

from perfloom.config import Settings
from perfloom.domain.facts import HostFacts
from perfloom.domain.jobs import JobSpec, JobState
from perfloom.domain.targets import SchedulerName, Ssh, Target
from perfloom.places import mounts
from perfloom.store import Store
from perfloom.web import create_app
from perfloom.workers import job_user
from tests.web.conftest import TOKEN
from tests.web.test_job_form import FACTS

OWN = dataclasses.replace(FACTS, host="h", jobs_uid=os.geteuid(), jobs_mounts=mounts())
OTHER = dataclasses.replace(OWN, jobs_uid=os.geteuid() + 4711)


def _app(settings: Settings, *, shared: bool) -> Iterator[Flask]:
    made = create_app(settings, shared=shared)
    yield made
    made.extensions["perfloom"].queue.close()
    made.extensions["perfloom"].store.close()


@pytest.fixture
def shared(settings: Settings) -> Iterator[Flask]:
    """The application as `perfloom web` serves it."""
    yield from _app(settings, shared=True)


def asked(client: FlaskClient, target: str = "local") -> tuple[int, str]:
    """Status and error of a job that is submitted."""
    answer = client.post(
        "/api/v1/jobs",
        json={"command": ["true"], "target": target},
        headers={"Authorization": f"Bearer {TOKEN}", "Host": "localhost"},
    )
    return answer.status_code, str(answer.get_json().get("error", ""))


def test_jobs_as_the_same_user_are_refused_and_as_another_one_taken(shared: Flask, store: Store) -> None:
    client = shared.test_client()
    assert asked(client)[0] == 422 and "No worker has said" in asked(client)[1]
    store.hosts.publish(OWN)
    status, error = asked(client)
    assert status == 422 and "PERFLOOM_TRUST_USERS" in error and "--run-as" in error
    store.targets.save(Target("queue here", scheduler=SchedulerName.SLURM))
    assert asked(client, "queue here")[0] == 422
    # Neither the other machine nor what is imported is touched by that.
    store.targets.save(Target("far", ssh=Ssh("far")))
    assert asked(client, "far") == (201, "")
    store.hosts.publish(OTHER)
    assert asked(client) == (201, "")
    # Whichever worker takes it.
    store.hosts.publish(dataclasses.replace(OWN, host="another"))
    assert asked(client)[0] == 422


def test_a_job_is_not_run_again_either(shared: Flask, store: Store) -> None:
    store.hosts.publish(OWN)
    job = store.jobs.create("record", JobSpec(command=("true",)).to_json(), "again")
    store.jobs.move(job.id, JobState.QUEUED, JobState.FAILED)
    again = {"Authorization": f"Bearer {TOKEN}", "Host": "localhost"}
    assert shared.test_client().post(f"/jobs/{job.id}/retry", headers=again).status_code == 403
    assert store.jobs.counts().get(JobState.QUEUED, 0) == 0


def test_who_trusts_everybody_or_is_alone_is_not_kept_from_it(settings: Settings, store: Store) -> None:
    store.hosts.publish(OWN)
    for changed, shared in ((dataclasses.replace(settings, trust_users=True), True), (settings, False)):
        for app in _app(changed, shared=shared):
            assert asked(app.test_client())[0] == 201


def test_the_worker_tells_as_whom_programs_run(settings: Settings, store: Store) -> None:
    found = job_user.with_job_user(HostFacts("h"), settings)
    assert (found.jobs_uid, found.jobs_mounts) == (os.geteuid(), mounts())
    assert str(settings.data / "catalogue.sqlite") in found.readable_secrets
    assert HostFacts.from_json(found.to_json()) == found
