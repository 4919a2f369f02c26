"""What a worker refuses to do on its own machine for a server for more than one person, whatever that server let pass."""

from __future__ import annotations

import dataclasses
import os
import stat
from pathlib import Path

import pytest

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.isolation import ProtectedServer
from perfloom.domain.jobs import JobDetails, JobSpec, JobState
from perfloom.domain.targets import LOCAL, Ssh, Target
from perfloom.paths import process_boundary
from perfloom.recording.plan.plan import create_directory_script
from perfloom.recording.probe.check_messages import CheckRequest, CheckResult
from perfloom.secret_settings import PATHS_VARIABLE
from perfloom.store.ids import new_id
from perfloom.store.jobs import Job
from perfloom.workers.base.context import JobContext
from perfloom.workers.base.jobfiles import JobFiles
from perfloom.workers.jobs import inputs
from perfloom.workers.local import checks
from perfloom.workers.remote import checks as target_checks
from perfloom.workers.serve import services
from perfloom.workers.targets import cleanup, job_user
from perfloom.workers.transports import LocalTransport
from perfloom.workers.transports.as_user import UserTransport
from tests.support.parts import missing
from tests.support.servers import OrdinaryUser
from tests.workers.remote.driving import at, files_of, to_the_end

OWN_USER = "as the server's own user" if os.geteuid() else "as root"


@pytest.fixture
def server() -> ProtectedServer:
    """A server of this user."""
    return ProtectedServer(process_boundary())


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that exists if a forbidden program ran."""
    return tmp_path / "came in"


def run_for_server(context: JobContext, spec: JobSpec, server: ProtectedServer) -> Job:
    """Run a job that was submitted to that server to its end."""
    job = context.store.jobs.create("record", spec.to_json(), "a job", details=JobDetails(server=server))
    return to_the_end(context, job)


def test_a_job_does_not_start_here_for_a_server_of_the_same_user(
    context: JobContext, here: Target, server: ProtectedServer, marker: Path
) -> None:
    for target in (Target(LOCAL), here):
        job = run_for_server(context, at(target, "touch", str(marker)), server)
        assert job.state is JobState.FAILED and OWN_USER in str(job.reason)
        assert not marker.exists()


def test_a_job_whose_target_was_replaced_by_this_machine_does_not_start(
    context: JobContext, server: ProtectedServer, marker: Path
) -> None:
    target = Target("node", ssh=Ssh("127.0.0.1", port=1))
    context.store.targets.save(target)
    job = context.store.jobs.create(
        "record", at(target, "touch", str(marker)).to_json(), "a job", details=JobDetails(server=server)
    )
    # As a race between two requests may leave it.
    context.store.jobs.transition(job.id, JobState.QUEUED, JobState.DRAFT)
    context.store.targets.save(Target("node"))
    context.store.jobs.transition(job.id, JobState.DRAFT, JobState.QUEUED)
    job = to_the_end(context, job)
    assert job.state is JobState.FAILED and OWN_USER in str(job.reason) and not marker.exists()


def trap(path: Path, marker: Path) -> Path:
    """A program that leaves `marker` when it is run."""
    path.write_text(f"#!/bin/sh\ntouch '{marker}'\n")
    path.chmod(0o755)
    return path


def test_local_check_runs_no_program_of_target(
    context: JobContext, server: ProtectedServer, tmp_path: Path, marker: Path
) -> None:
    perf = trap(tmp_path / "perf", marker)
    context.store.targets.save(Target("trap", perf=str(perf)))

    def answer(**who: object) -> CheckResult:
        check = context.store.checks.ask(CheckRequest("trap").to_json() | who)
        target_checks.answer_check(context.store, check.id)
        result = context.store.checks.get(check.id).answer
        assert result is not None
        return CheckResult.from_json(result)

    assert OWN_USER in answer(server=server.to_json()).trouble and not marker.exists()
    assert not answer().trouble and marker.exists()


def test_clean_up_of_a_changed_target_does_nothing_here(
    context: JobContext, server: ProtectedServer, tmp_path: Path
) -> None:
    directory = tmp_path / "left"
    assert LocalTransport().run(create_directory_script(str(directory))).status == 0
    id = new_id()
    note = {"target": "node", "directory": str(directory), "id": id, "submissions": {}, "begun": 0, "keep": False}
    for who, there in ((server, True), (None, False)):
        cleanup._save_record(context.settings, id, note | {"server": who and who.to_json()})
        cleanup.clean_up_target(context, Target("node"))
        assert directory.exists() is there


def test_preflight_does_not_start_python_of_other_user(
    context: JobContext, server: ProtectedServer, tmp_path: Path, marker: Path
) -> None:
    python = trap(tmp_path / "python3", marker)
    question = {"command": [str(python)], "recorder": "pytorch"}
    for who in ({"server": server.to_json()}, {}):
        answer = checks.check_json(question | who, context.facts(), context.settings)
        found = [one for one in answer["findings"] if OWN_USER in one["message"]]  # type: ignore[attr-defined]
        assert bool(found) is bool(who) and marker.exists() is not bool(who)


def test_a_secret_that_only_the_server_knows_of_counts_too(
    context: JobContext, server: ProtectedServer, tmp_path: Path
) -> None:
    secret = tmp_path / "token of the server"
    secret.write_text("secret")
    elsewhere = dataclasses.replace(process_boundary(), boot="of another machine")
    known = ProtectedServer(elsewhere, (str(secret),))
    assert f"could read {secret}" in job_user.refusal(context.settings, known)


@pytest.fixture
def other(context: JobContext, ordinary_user: OrdinaryUser) -> JobContext:
    """A worker whose jobs run as another user."""
    if os.geteuid() != 0:
        missing("permission to become another user", "run the tests as root")
    ordinary_user.home.chmod(0o755)
    target = Target("theirs", directory=str(ordinary_user.home / "jobs"))
    context.store.targets.save(target)
    settings = dataclasses.replace(context.settings, run_as=ordinary_user.name)
    return dataclasses.replace(context, settings=settings)


@pytest.mark.slow
def test_another_user_gets_what_that_user_may_read_and_nothing_else(
    other: JobContext, ordinary_user: OrdinaryUser, server: ProtectedServer
) -> None:
    theirs = other.store.targets.get("theirs").target
    folder = ordinary_user.home / "inputs"
    folder.mkdir()
    (folder / "text").write_text("content")
    (folder / "link").symlink_to("text")
    (folder / "program").write_text('#!/bin/sh\ncat inputs/link\necho " as $(id -u)"\n')
    (folder / "program").chmod(0o755)
    job = run_for_server(other, at(theirs, "./inputs/program", inputs=(str(folder),)), server)
    assert files_of(other, job).output.read_text().startswith(f"content as {ordinary_user.uid}\n"), job.reason
    assert not (files_of(other, job).root / inputs.READ_FOLDER).exists()
    secret = other.settings.data / "catalogue.sqlite"
    (ordinary_user.home / "way").symlink_to(secret)
    for name in (str(secret), str(ordinary_user.home / "way"), str(other.settings.data)):
        job = run_for_server(other, at(theirs, "true", inputs=(name,)), server)
        assert job.state is JobState.FAILED, name
        assert "Permission denied" in str(job.reason) or "cannot be read by" in str(job.reason)


def test_the_preflight_checks_as_the_other_user(other: JobContext, ordinary_user: OrdinaryUser) -> None:
    (ordinary_user.home / "open").write_text("")
    secret = str(other.settings.data / "catalogue.sqlite")
    spec = JobSpec(command=("true",), inputs=(secret, str(ordinary_user.home / "open")), cwd=str(other.settings.data))
    findings = checks.check_job(spec, other.facts(), other.settings, {})
    assert sorted(one.field for one in findings if one.field in ("cwd", "inputs")) == ["cwd", "inputs"]
    assert all(secret in one.message for one in findings if one.field == "inputs")


def test_input_files_of_another_user_keep_their_modes_and_links(ordinary_user: OrdinaryUser, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        missing("permission to become another user", "run the tests as root")
    source = ordinary_user.home / "it's 1\n2"
    (source / "below").mkdir(parents=True)
    (source / "below" / "run").write_text("x")
    (source / "below" / "run").chmod(0o755)
    (source / "link").symlink_to("/etc/shadow")
    os.mkfifo(source / "pipe")
    files = JobFiles(tmp_path / "job")
    files.prepare()
    paths = [str(source)]
    reader = UserTransport(ordinary_user.name)
    to = tmp_path / "there"
    to.mkdir()
    inputs.send_inputs(LocalTransport(), files, paths, str(to), own=True, progress=lambda *_: None, reader=reader)
    made = to / source.name
    assert (made / "below" / "run").read_text() == "x" and (made / "link").is_symlink()
    assert stat.S_IMODE((made / "below" / "run").stat().st_mode) == 0o700
    assert not (made / "pipe").exists()
    with pytest.raises(InvalidRequest, match="cannot be read by"):
        inputs.send_inputs(
            LocalTransport(),
            files,
            [str(tmp_path)],
            str(to),
            own=True,
            progress=lambda *_: None,
            reader=reader,
        )


def test_processes_of_a_worker_know_which_files_its_secrets_came_from(
    context: JobContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broker"
    file.write_text("secret")
    monkeypatch.setenv("PERFLOOM_BROKER_URL_FILE", str(file))
    handle = services.settings_descriptor(context.settings)
    try:
        environment = services.environment_for(context.settings, handle)
    finally:
        os.close(handle)
    assert "PERFLOOM_BROKER_URL_FILE" not in environment
    monkeypatch.delenv("PERFLOOM_BROKER_URL_FILE")
    assert file not in context.settings.secret_files
    monkeypatch.setenv(PATHS_VARIABLE, environment[PATHS_VARIABLE])
    assert file in context.settings.secret_files
    elsewhere = ProtectedServer(dataclasses.replace(process_boundary(), boot="of another machine"))
    (context.settings.data / "catalogue.sqlite").rename(tmp_path / "moved")
    assert str(file) in job_user.refusal(context.settings, elsewhere)
    (tmp_path / "moved").rename(context.settings.data / "catalogue.sqlite")
