"""Checks of targets as a worker does them: here, over SSH, and with a probe job in a batch system."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perfloom.config import Settings
from perfloom.domain.errors import HostKeyUnknown, NotFound, Prompt, Refused, Unreachable
from perfloom.domain.jobs import Batch
from perfloom.domain.targets import LOCAL, BatchState, CheckLine, CheckStatus, SchedulerName, Ssh, Target
from perfloom.recording.probe.check_messages import CheckRequest, CheckResult, ProbeJob, follow_up
from perfloom.sealing import KeyPair, seal
from perfloom.store import Store, open_store
from perfloom.workers.remote import checks
from perfloom.workers.targets import secrets
from perfloom.workers.transports import close_all
from tests.support import sshd as servers
from tests.support.batch import BatchSystem, LsfDouble

QUICK = 'case "$*" in --version) echo "perf version 9.9";; esac'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(Settings.load(tmp_path / "data", {"PERFLOOM_RUNTIME": str(tmp_path / "run")}))
    yield store
    store.close()
    close_all()


@pytest.fixture(scope="module")
def far() -> Iterator[servers.Sshd]:
    with servers.sshd() as server:
        yield server


@pytest.fixture
def perf(tmp_path: Path) -> str:
    """A perf that answers at once, for what is not about perf."""
    path = tmp_path / "perf"
    path.write_text(f"#!/bin/sh\n{QUICK}\n")
    path.chmod(0o755)
    return str(path)


def nothing(prompt: Prompt) -> str | None:
    return None


def checked(store: Store, target: Target, **changes: object) -> CheckResult:
    store.targets.save(target)
    return checks.run_check(store, replace(CheckRequest(target.name), **changes), nothing)  # type: ignore[arg-type]


def line(store: Store, target: Target, title: str) -> CheckLine:
    return next(line for line in store.targets.get(target.name).lines if line.title == title)


def waited(
    store: Store, question: CheckRequest, answer: CheckResult, until: Callable[[CheckResult], bool] | None = None
) -> CheckResult:
    """Ask again until the probe job has answered, or until something else is seen."""
    end = time.monotonic() + 60
    while not (until(answer) if until else answer.done):
        assert time.monotonic() < end, answer
        time.sleep(0.1)
        following = follow_up(question, answer)
        assert following is not None
        answer = checks.run_check(store, following, nothing)
    return answer


def test_this_machine_is_a_target(store: Store, tmp_path: Path, perf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    target = Target(LOCAL, perf=perf)
    assert checked(store, target) == CheckResult()
    facts = store.targets.get(LOCAL).facts
    assert facts is not None and facts.host.perf_version == "9.9" and facts.directory == f"{tmp_path}/.perfloom"
    assert line(store, target, "This machine").light is CheckStatus.GOOD
    assert abs(facts.clock_ns or 0) < 10**9 and facts.clock_error_ns is not None


def test_a_host_over_ssh(store: Store, far: servers.Sshd, perf: str) -> None:
    target = far.target(perf=perf)
    assert checked(store, target).done
    facts = store.targets.get("far").facts
    assert facts is not None and facts.directory == f"{far.home}/jobs" and facts.host.user == far.user
    assert (
        line(store, target, "Connection").light is CheckStatus.GOOD
        and line(store, target, "Clock").light is CheckStatus.GOOD
    )
    assert list((far.home / "jobs").iterdir()) == []


def test_host_with_unaccepted_key(store: Store, far: servers.Sshd, perf: str) -> None:
    target = replace(far.target(perf=perf), ssh=far.ssh(host_keys=()))
    with pytest.raises(HostKeyUnknown) as raised:
        checked(store, target)
    answer = CheckResult.from_json(json.loads(json.dumps(CheckResult.failed(raised.value).to_json())))
    assert answer.host_key is not None and answer.host_key.fingerprint.startswith("SHA256:")
    shown = line(store, target, "Connection")
    assert shown.light is CheckStatus.BAD and answer.host_key.fingerprint in shown.text and "accept" in shown.advice
    assert store.targets.get("far").facts is None
    accepted = replace(target, ssh=replace(far.ssh(), host_keys=(answer.host_key.line,)))
    assert checked(store, accepted).done and line(store, accepted, "Connection").light is CheckStatus.GOOD


def test_a_host_with_another_key_than_before(store: Store, far: servers.Sshd) -> None:
    other = f"{far.known.split(' ')[0]} {servers.public(servers.key('host2'))}"
    with pytest.raises(Refused) as raised:
        checked(store, replace(far.target(), ssh=far.ssh(host_keys=(other,))))
    assert not isinstance(raised.value, HostKeyUnknown) and "has changed" in raised.value.message
    assert CheckResult.failed(raised.value).host_key is None


def test_a_host_that_cannot_be_reached(store: Store) -> None:
    with servers.silent() as port:
        pass
    target = Target("gone", ssh=Ssh("127.0.0.1", port=port, config=False, agent=False, connect_timeout_s=2))
    with pytest.raises(Unreachable):
        checked(store, target)
    assert line(store, target, "Connection").light is CheckStatus.BAD


def test_earlier_facts_survive_failed_check(store: Store, perf: str) -> None:
    with servers.sshd() as server:
        target = server.target(perf=perf)
        checked(store, target)
    close_all()
    with pytest.raises((Unreachable, Refused)):
        checks.run_check(store, CheckRequest("far"), nothing)
    stored = store.targets.get("far")
    assert stored.facts is not None and [line.light for line in stored.lines] == [CheckStatus.BAD]


def test_check_requests_are_answered_once(store: Store, tmp_path: Path, perf: str) -> None:
    store.targets.save(Target("here", perf=perf, directory=f"{tmp_path}/jobs"))
    check = store.checks.ask(CheckRequest("here").to_json())
    checks.answer_check(store, check.id)
    assert CheckResult.from_json(store.checks.get(check.id).answer or {"trouble": "none"}) == CheckResult()
    when = store.targets.get("here").checked
    checks.answer_check(store, check.id)
    assert store.targets.get("here").checked == when
    checks.answer_check(store, "nosuchcheck0")


def test_deleted_target_and_internal_errors_are_answers(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    check = store.checks.ask(CheckRequest("never").to_json())
    checks.answer_check(store, check.id)
    assert "No target 'never'" in CheckResult.from_json(store.checks.get(check.id).answer or {}).trouble
    monkeypatch.setattr(checks, "probe", lambda *_: 1 / 0)
    check = store.checks.ask(CheckRequest(LOCAL).to_json())
    checks.answer_check(store, check.id)
    assert "bug in Perfloom" in CheckResult.from_json(store.checks.get(check.id).answer or {}).trouble
    assert "ZeroDivisionError" in caplog.text


def test_password_of_check_is_used_once(store: Store, perf: str, tmp_path: Path) -> None:
    with servers.sshd(account=servers.Account(password=True)) as server:
        perf_there = Path(perf).rename(server.folder / "perf")
        target = Target("far", perf=str(perf_there), ssh=server.ssh(key_file="", password=True))
        store.targets.save(target)
        pair = KeyPair.generate()
        secrets._key_pair = pair
        try:
            check = store.checks.ask(CheckRequest("far").to_json())
            checks.answer_check(store, check.id)
            asked = CheckResult.from_json(store.checks.get(check.id).answer or {})
            assert asked.prompts and asked.trouble and store.targets.get("far").checked is None
            typed = {prompt.name: servers.WORD for prompt in asked.prompts}
            expires = time.time() + 60
            box = seal(pair.public, typed, "target:far", expires)
            store.credentials.put("target:far", "here", pair.key_id, box, expires)
            check = store.checks.ask(CheckRequest("far").to_json())
            checks.answer_check(store, check.id)
            assert CheckResult.from_json(store.checks.get(check.id).answer or {}) == CheckResult()
            assert line(store, target, "Connection").light is CheckStatus.GOOD
            assert store.credentials.get("target:far") == ()
        finally:
            secrets._key_pair = None
    kept = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert servers.WORD.encode() not in kept


# ---- probe jobs ---------------------------------------------------------------------------------------------


def batched(system: BatchSystem, tmp_path: Path, perf: str) -> Target:
    path = {"PATH": f"{system.path}:/usr/bin:/bin"}
    return Target(
        "cluster",
        scheduler=system.name,
        directory=f"{tmp_path}/jo bs",
        perf=perf,
        scratch="${TMPDIR:?}".replace(":?", ""),
        environment=path | {"TMPDIR": str(tmp_path)},
    )


@pytest.fixture(params=["slurm", "lsf"])
def system(request: pytest.FixtureRequest) -> BatchSystem:
    found: BatchSystem = request.getfixturevalue(request.param)
    return found


@pytest.mark.heavy
def test_a_probe_job_sees_a_compute_node(store: Store, system: BatchSystem, tmp_path: Path, perf: str) -> None:
    target = batched(system, tmp_path, perf)
    question = CheckRequest("cluster", batch=Batch())
    answer = checked(store, target, batch=Batch())
    assert not answer.done
    before = store.targets.get("cluster").facts
    assert before is not None and before.compute is None and before.queues and before.scheduler_version
    assert line(store, target, "Compute node").light is CheckStatus.NOTE
    assert waited(store, question, answer) == CheckResult()
    facts = store.targets.get("cluster").facts
    assert facts is not None and facts.compute is not None and facts.shared is True
    assert facts.compute.perf_version == "9.9" and facts.scratch == str(tmp_path)
    assert line(store, target, "Shared directory").light is CheckStatus.GOOD
    assert line(store, target, "Compute node").light is CheckStatus.GOOD
    assert list((tmp_path / "jo bs").iterdir()) == []
    # A check without a probe job keeps what it found.
    assert checked(store, target).done
    facts = store.targets.get("cluster").facts
    assert facts is not None and facts.compute is not None and facts.shared is True


def test_a_directory_that_the_node_does_not_see(
    store: Store, system: BatchSystem, tmp_path: Path, perf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Like on a node with its own disk: the copied files are not there.
    monkeypatch.setattr(checks, "_create_script", lambda parent, directory: f"mkdir '{directory}' && cat >/dev/null")
    target = batched(system, tmp_path, perf)
    answer = checked(store, target, batch=Batch())
    assert waited(store, CheckRequest("cluster"), answer) == CheckResult()
    facts = store.targets.get("cluster").facts
    assert facts is not None and facts.shared is False and facts.compute is None
    assert line(store, target, "Shared directory").light is CheckStatus.BAD
    assert list((tmp_path / "jo bs").iterdir()) == []


def test_a_queue_that_is_not_there(store: Store, system: BatchSystem, tmp_path: Path, perf: str) -> None:
    target = batched(system, tmp_path, perf)
    answer = checked(store, target, batch=Batch(queue="no-such-queue"))
    assert answer.done and "could not be submitted" in answer.trouble
    assert (
        line(store, target, "Compute node").light is CheckStatus.BAD
        and line(store, target, "perf").light is not CheckStatus.BAD
    )
    assert list((tmp_path / "jo bs").iterdir()) == []


def test_a_probe_job_that_waits_can_be_cancelled(store: Store, lsf: LsfDouble, tmp_path: Path, perf: str) -> None:
    lsf.control(delay=1000)
    target = batched(lsf, tmp_path, perf)
    answer = checked(store, target, batch=Batch())
    question = follow_up(CheckRequest("cluster"), answer)
    assert question is not None and question.job is not None
    answer = checks.run_check(store, question, nothing)
    assert answer.job is not None and answer.job.state is BatchState.PENDING
    ended = checks.run_check(store, replace(question, cancel=True), nothing)
    assert ended.done and "cancelled" in ended.trouble
    assert list((tmp_path / "jo bs").iterdir()) == []
    status = lsf.scheduler.parse_status_output(
        [answer.job.id], *lsf.run(lsf.scheduler.status_command([answer.job.id]))
    )[answer.job.id]
    assert status.state.final


def test_only_probe_directories_are_removed(store: Store, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    store.targets.save(Target("x", scheduler=SchedulerName.SLURM))
    for path in (f"{tmp_path}/mine", f"{tmp_path}/check-../mine", "check-abc", "/check-"):
        with pytest.raises(Exception, match="not the directory of a probe"):
            checks.run_check(store, CheckRequest("x", job=ProbeJob("1", path, 0.0)), nothing)
    assert (tmp_path / "mine").is_dir()


def test_questions_and_answers_survive_as_json(store: Store) -> None:
    job = ProbeJob("7", "/d/check-abc", 1.5, BatchState.HELD, "PSUSP", "held by user", 3, 9.5)
    question = CheckRequest("x", Batch(queue="q", arguments=("-x", "y z")), job, True)
    assert CheckRequest.from_json(json.loads(json.dumps(question.to_json()))) == question
    answer = CheckResult("no", None, (Prompt("password a@b", "Password of a"),), job)
    assert CheckResult.from_json(json.loads(json.dumps(answer.to_json()))) == answer
    with pytest.raises(NotFound):
        store.checks.get("nosuchcheck0")
