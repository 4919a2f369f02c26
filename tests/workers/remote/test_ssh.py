"""Jobs at hosts over SSH: real servers, and what can happen on the way to them."""

import dataclasses
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfloom.domain.errors import Prompt
from perfloom.domain.isolation import ProtectedServer
from perfloom.domain.jobs import JobDetails, JobState
from perfloom.domain.targets import Target
from perfloom.paths import process_boundary
from perfloom.recording.probe.check_messages import KIND, CheckResult
from perfloom.sealing import KeyPair, seal
from perfloom.store import Store
from perfloom.store.jobs import Job
from perfloom.workers import steps
from perfloom.workers.base.context import JobContext, open_context
from perfloom.workers.jobs import transitions
from perfloom.workers.remote import polling, retries
from perfloom.workers.targets import access, cleanup, secrets
from perfloom.workers.transports import close_all, connections
from tests.support import sshd as servers
from tests.support.parts import missing
from tests.support.servers import OrdinaryUser
from tests.support.sshd import Account, Network, Sshd
from tests.workers.remote.driving import at, files_of, is_cleaned_up, run, submit, to_the_end, until_job
from tests.workers.waiting import until

BUSY = (sys.executable, "-S", "-c", "sum(i * i for i in range(3_000_000))")
BUSY_SHELL = ("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
"""The same for a user who may not access the tests' Python."""
ENDLESS = (sys.executable, "-S", "-c", "print('begun', flush=True)\nwhile True: pass")


@pytest.fixture(autouse=True)
def fresh_connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is known of hosts of other tests, and what fails is tried again soon."""
    monkeypatch.setattr(access, "FAILURE_CACHE_S", 0.0)
    monkeypatch.setattr(transitions, "RETRY_PAUSE_S", 0.05)
    monkeypatch.setattr(retries, "RETRY_S", 0.2)
    yield
    close_all()


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    with servers.sshd() as found:
        yield found


@pytest.fixture
def there(store: Store, server: Sshd) -> Target:
    """A host over SSH."""
    target = server.target("there", poll_s=0.3)
    store.targets.save(target)
    return target


def test_a_job_over_ssh_becomes_a_result(context: JobContext, there: Target, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("brought here")
    job = run(
        context,
        at(there, "sh", "-c", f"cat given; exec {' '.join(BUSY[:-1])} '{BUSY[-1]}'", inputs=(f"{tmp_path}/given",)),
    )
    assert (job.state, job.result_id, job.reason) == (JobState.STORED, job.id, None)
    assert job.host is None and files_of(context, job).output.read_text().startswith("brought here")
    assert set(context.store.results.open(job.id).threads.column("host").to_pylist()) == {os.uname().nodename}
    assert is_cleaned_up(job)


def test_input_files_of_a_server_for_others_stay_here(
    context: JobContext, there: Target, ordinary_user: OrdinaryUser
) -> None:
    """For a job that came from a server of this user, and with another user to read them."""
    asks = JobDetails(server=ProtectedServer(process_boundary()))
    secret = str(context.settings.data / "catalogue.sqlite")

    def ended(context: JobContext, given: str) -> Job:
        spec = at(there, *BUSY_SHELL[:2], f"cat {given.rpartition('/')[2]}; {BUSY_SHELL[2]}", inputs=(given,))
        return to_the_end(context, context.store.jobs.create("record", spec.to_json(), "inputs", details=asks))

    job = ended(context, secret)
    assert job.state is JobState.FAILED and "Input files are read on the server's machine" in str(job.reason)
    if os.geteuid() != 0:
        missing("permission to become another user", "run the tests as root")
    other = dataclasses.replace(context, settings=dataclasses.replace(context.settings, run_as=ordinary_user.name))
    job = ended(other, secret)
    assert job.state is JobState.FAILED and f"cannot be read by {ordinary_user.name}" in str(job.reason)
    ordinary_user.home.chmod(0o755)
    (ordinary_user.home / "given").write_text("brought here\n")
    job = ended(other, str(ordinary_user.home / "given"))
    assert job.state is JobState.STORED and files_of(context, job).output.read_text().startswith("brought here\n"), (
        job.reason
    )


@pytest.mark.slow
def test_many_connections_later_it_is_still_the_same_job(context: JobContext, there: Target, server: Sshd) -> None:
    """Server, connections and worker go away in the middle, one after the other."""
    job = until_job(
        context, submit(context.store, at(there, *ENDLESS, duration_s=2.0)), lambda job: job.state is JobState.RUNNING
    )
    server.hang_up()
    until_job(context, job, lambda job: job.details.unreachable_since or "Running on" in job.progress_text)
    close_all()
    job = to_the_end(open_context(context.settings, context.store), job)
    assert job.state is JobState.STORED and job.outcome is not None and job.outcome.time_limit and is_cleaned_up(job)


@pytest.mark.slow
def test_cancelled_over_ssh(context: JobContext, there: Target) -> None:
    job = until_job(
        context, submit(context.store, at(there, *ENDLESS)), lambda job: "begun" in files_of(context, job).tail()
    )
    steps.cancel(context, job.id)
    job = to_the_end(context, job)
    assert (job.state, job.result_id) == (JobState.CANCELLED, job.id) and is_cleaned_up(job)


@pytest.fixture
def net() -> Iterator[Network]:
    with servers.network() as found:
        yield found


@pytest.mark.slow
def test_the_network_is_cut_in_the_middle(context: JobContext, net: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "KEEPALIVE_S", 0.3)
    monkeypatch.setattr(connections, "KEEPALIVE_COUNT", 2)
    ssh = net.ssh(connect_timeout_s=1.0)
    target = Target("far", ssh=ssh, directory=str(net.far.home / "jobs"), poll_s=0.3)
    context.store.targets.save(target)
    job = submit(context.store, at(target, *ENDLESS, duration_s=4.0))
    until_job(context, job, lambda job: "begun" in files_of(context, job).tail())
    with net.cut():
        job = until_job(context, job, lambda job: job.details.unreachable_since)
        assert job.state is JobState.RUNNING and "Perfloom retries" in job.progress_text
        context.store.jobs.request_cancel(job.id)
        job = until_job(
            context,
            job,
            lambda job: job.details.cancellation.times == 1 and "To be ended" in job.progress_text,
        )
    job = to_the_end(context, job, 60)
    assert job.result_id == job.id and is_cleaned_up(job) and not job.details.unreachable_since, job


@pytest.mark.slow
def test_job_is_given_up_while_target_is_unreachable(
    context: JobContext, net: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "KEEPALIVE_S", 0.3)
    monkeypatch.setattr(connections, "KEEPALIVE_COUNT", 2)
    target = Target("far", ssh=net.ssh(connect_timeout_s=1.0), directory=str(net.far.home / "jobs"), poll_s=0.3)
    context.store.targets.save(target)
    job = until_job(context, submit(context.store, at(target, *ENDLESS)), lambda job: job.state is JobState.RUNNING)
    with net.cut():
        for _ in range(2):
            context.store.jobs.request_cancel(job.id)
            steps.advance(context, job.id)
        job = context.store.jobs.get(job.id)
        assert job.state is JobState.CANCELLED and retries.UNREACHABLE_NOTE in (job.reason or "")
    # Leftovers are removed when the host answers again.
    until(
        lambda: (polling.poll(context, target.name), cleanup.targets_to_clean_up(context.settings) == ())[1],
        "it is cleared",
        30,
    )
    assert is_cleaned_up(job)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"port": 1}, "port 1"),
        ({"host": "no-such-host.invalid"}, "no-such-host.invalid"),
        ({"host_keys": ()}, "perfloom target accept wrong"),
        ({"user": "nobody-of-that-name"}, "nobody-of-that-name"),
        ({"key_file": "/does/not/exist"}, "/does/not/exist"),
    ],
)
def test_a_host_that_does_not_let_us_in(
    context: JobContext, server: Sshd, changes: dict[str, object], words: str
) -> None:
    target = Target("wrong", ssh=dataclasses.replace(server.ssh(), **changes))  # type: ignore[arg-type]
    context.store.targets.save(target)
    job = run(context, at(target, "true"))
    assert job.state is JobState.FAILED and words in (job.reason or ""), job.reason
    assert not job.details.directory


def test_unknown_key_of_failed_job_can_be_accepted(context: JobContext, server: Sshd) -> None:
    target = Target("fresh", ssh=server.ssh(host_keys=()), directory=str(server.home / "jobs"))
    context.store.targets.save(target)
    job = run(context, at(target, "true"))
    assert job.state is JobState.FAILED and job.details.error_kind == "HostKeyUnknown"
    check = context.store.checks.latest(KIND, "fresh")
    assert check is not None and check.answer is not None
    shown = CheckResult.from_json(check.answer).host_key
    assert shown is not None and shown.line == server.known
    stored = context.store.targets.get("fresh")
    assert stored.facts is None and [line.title for line in stored.lines] == ["Connection"]
    # One is enough, whatever fails by it.
    run(context, at(target, "true"))
    again = context.store.checks.latest(KIND, "fresh")
    assert again is not None and again.id == check.id


@pytest.fixture(scope="module")
def asking() -> Iterator[Sshd]:
    """A server that accepts a password."""
    with servers.sshd(account=Account(password=True)) as found:
        yield found


def _with_password(server: Sshd) -> Target:
    ssh = dataclasses.replace(server.ssh(), key_file="", password=True)
    return Target("asking", ssh=ssh, directory=str(server.home / "jobs"), poll_s=0.3)


def test_command_prompts_for_password(context: JobContext, asking: Sshd) -> None:
    context.store.targets.save(_with_password(asking))
    asked: list[Prompt] = []

    def ask(prompt: Prompt) -> str:
        asked.append(prompt)
        return servers.WORD

    job = run(open_context(context.settings, context.store, ask=ask), at(_with_password(asking), *BUSY_SHELL))
    assert job.state is JobState.STORED, job.reason
    assert len(asked) == 1 and asked[0].name == "password"
    assert servers.WORD not in str(job) and is_cleaned_up(job)


def test_job_waits_for_encrypted_password(context: JobContext, asking: Sshd) -> None:
    context.store.targets.save(_with_password(asking))
    pair = KeyPair.generate()
    secrets._key_pair = pair
    try:
        job = submit(context.store, at(_with_password(asking), *BUSY_SHELL))
        job = until_job(context, job, lambda job: job.details.needed_secrets)
        assert job.state is JobState.STAGING and [prompt.name for prompt in job.details.needed_secrets] == ["password"]
        assert "Enter it" in job.progress_text and job.due_at is not None and job.due_at > time.time() + 10
        expires = time.time() + 60
        box = seal(pair.public, {"password": servers.WORD}, f"job:{job.id}", expires)
        context.store.credentials.put(f"job:{job.id}", context.host, pair.key_id, box, expires)
        job = to_the_end(context, job)
        assert job.state is JobState.STORED, job.reason
        assert not job.details.needed_secrets and context.store.credentials.get(f"job:{job.id}") == ()
    finally:
        secrets._key_pair = None


def test_perf_refuses(context: JobContext, asking: Sshd) -> None:
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) < 2:
        pytest.skip("kernel.perf_event_paranoid lets everybody observe the kernel here")
    context.store.targets.save(_with_password(asking))
    with_word = open_context(context.settings, context.store, ask=lambda prompt: servers.WORD)
    job = run(with_word, at(_with_password(asking), *BUSY_SHELL, events=("cpu-clock:k",)))
    assert job.state is JobState.FAILED and "perf_event_paranoid" in (job.reason or ""), job.reason
    assert is_cleaned_up(job)


@pytest.mark.slow
def test_a_full_disk_there(context: JobContext, tmp_path: Path) -> None:
    with servers.sshd(small=True) as server:
        target = server.target("full", directory=str(server.home / "small"))
        context.store.targets.save(target)
        (tmp_path / "large").write_bytes(os.urandom(64 << 20))
        job = run(context, at(target, "true", inputs=(f"{tmp_path}/large",)))
        assert job.state is JobState.FAILED and "full" in (job.reason or ""), job.reason
        assert is_cleaned_up(job)
        job = run(context, at(target, "sh", "-c", "head -c 64000000 /dev/urandom >file; exit 3"))
        assert job.state.final and "exit status 3" in (job.reason or ""), job
        assert is_cleaned_up(job)
