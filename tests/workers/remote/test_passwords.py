"""A password serves the job it was typed for, over a real sshd; a connection is kept for others if the target is set so."""

import dataclasses
import time
from collections.abc import Iterator

import pytest

from perfloom.domain.errors import PASSWORD
from perfloom.domain.jobs import JobState
from perfloom.domain.targets import KEEP_HOURS, Target
from perfloom.recording.probe.check_messages import CheckRequest, CheckResult
from perfloom.sealing import KeyPair, seal
from perfloom.store.jobs import Job
from perfloom.workers import transports
from perfloom.workers.base.context import JobContext
from perfloom.workers.remote import checks, polling
from perfloom.workers.targets import access, secrets
from perfloom.workers.transports import connections
from tests.support import sshd as servers
from tests.support.sshd import Account, Sshd
from tests.workers.remote.driving import at, files_of, is_cleaned_up, submit, to_the_end, until_job

ENDLESS = ("/bin/sh", "-c", "echo begun; while :; do :; done")
BUSY = ("/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")


@pytest.fixture(scope="module")
def asking() -> Iterator[Sshd]:
    """A server that accepts a password."""
    with servers.sshd(account=Account(password=True)) as found:
        yield found


@pytest.fixture
def pair() -> Iterator[KeyPair]:
    """The key pair of this worker, whose connections end with the test."""
    transports.close_all()
    made = KeyPair.generate()
    secrets._key_pair = made
    yield made
    secrets._key_pair = None
    transports.close_all()


def target_of(context: JobContext, server: Sshd, *, keep: bool) -> Target:
    ssh = dataclasses.replace(server.ssh(), key_file="", password=True, keep=keep)
    target = dataclasses.replace(server.target("asks"), ssh=ssh, poll_s=0.5)
    context.store.targets.save(target)
    return target


def give(context: JobContext, pair: KeyPair, subject: str) -> None:
    """What a person types on a page."""
    expires = time.time() + 600
    box = seal(pair.public, {PASSWORD: servers.WORD}, subject, expires)
    context.store.credentials.put(subject, context.host, pair.key_id, box, expires)


def waits(job: Job) -> bool:
    return [prompt.name for prompt in job.details.needed_secrets] == [PASSWORD]


def started(context: JobContext, pair: KeyPair, target: Target) -> Job:
    """A job that runs, with a password that was given for it."""
    job = submit(context.store, at(target, *ENDLESS))
    give(context, pair, f"job:{job.id}")
    return until_job(context, job, lambda job: "begun" in files_of(context, job).tail())


@pytest.mark.slow
def test_job_prompts_and_closes_its_connection(context: JobContext, asking: Sshd, pair: KeyPair) -> None:
    target = target_of(context, asking, keep=False)
    first = started(context, pair, target)
    assert transports.owners() == {f"job:{first.id}"}
    logins = asking.log().count("Accepted password")
    second = until_job(context, submit(context.store, at(target, *BUSY)), waits)
    assert second.state is JobState.STAGING and asking.log().count("Accepted password") == logins
    # Both are polled together, each only over its own connection.
    polling.poll(context, target.name)
    assert context.store.jobs.get(first.id).details.unreachable_since is None
    give(context, pair, f"job:{second.id}")
    second = to_the_end(context, second)
    assert second.state is JobState.STORED, second.reason
    access.close_finished(context)
    assert transports.owners() == {f"job:{first.id}"} and is_cleaned_up(second)
    context.store.jobs.request_cancel(first.id)
    first = to_the_end(context, first)
    access.close_finished(context)
    assert first.state is JobState.CANCELLED and is_cleaned_up(first)
    assert transports.owners() == set() and target.ssh is not None and not connections.is_open(target.ssh)
    third = until_job(context, submit(context.store, at(target, *BUSY)), waits)
    context.store.jobs.request_cancel(third.id)
    to_the_end(context, third)


def test_check_prompts_without_sharing_connection(context: JobContext, asking: Sshd, pair: KeyPair) -> None:
    target = target_of(context, asking, keep=False)
    give(context, pair, f"target:{target.name}")
    check = context.store.checks.ask(CheckRequest(target.name).to_json())
    checks.answer_check(context.store, check.id)
    answer = context.store.checks.get(check.id).answer
    assert answer is not None and CheckResult.from_json(answer) == CheckResult()
    assert target.ssh is not None and not connections.is_open(target.ssh)
    job = until_job(context, submit(context.store, at(target, *BUSY)), waits)
    context.store.jobs.request_cancel(job.id)
    to_the_end(context, job)


@pytest.mark.slow
def test_kept_connection_stays_open_until_closed(context: JobContext, asking: Sshd, pair: KeyPair) -> None:
    target = target_of(context, asking, keep=True)
    first = started(context, pair, target)
    second = to_the_end(context, submit(context.store, at(target, *BUSY)))
    assert second.state is JobState.STORED and transports.owners() == set()
    context.store.jobs.request_cancel(first.id)
    to_the_end(context, first)
    access.close_finished(context)
    assert target.ssh is not None and connections.is_open(target.ssh)
    assert KEEP_HOURS * 3600 == connections.IDLE_WITH_SECRET_S
    check = context.store.checks.ask(CheckRequest(target.name, close=True).to_json())
    checks.answer_check(context.store, check.id)
    assert not connections.is_open(target.ssh)
    third = until_job(context, submit(context.store, at(target, *BUSY)), waits)
    context.store.jobs.request_cancel(third.id)
    to_the_end(context, third)
