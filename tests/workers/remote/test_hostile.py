"""Names that would run something if any shell on the way took them for more than names. None of them ever does."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfloom.domain.jobs import Batch, JobState
from perfloom.domain.targets import SchedulerName, Target
from perfloom.workers.base.context import JobContext
from perfloom.workers.transports import close_all
from tests.support import sshd as servers
from tests.support.batch import BatchSystem
from tests.support.sshd import Sshd
from tests.workers.remote.driving import at, files_of, run

EVIL = "$(touch x)`touch x`';touch x;'\"touch x\" & touch x\n| é %s \\ * {run}"
"""Wherever it is run, a file x is made there."""


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    with servers.sshd() as found:
        yield found
    close_all()


def touched(*folders: Path) -> list[Path]:
    """What was run after all."""
    return [path for folder in folders for path in folder.rglob("x")]


@pytest.mark.slow
@pytest.mark.parametrize("system", ["direct", "slurm", "lsf"])
def test_names_are_names(
    request: pytest.FixtureRequest,
    context: JobContext,
    server: Sshd,
    tmp_path: Path,
    system: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / EVIL
    source.write_text("content")
    place = server.home / f"{EVIL} {system}"
    place.mkdir()
    target = server.target(EVIL, environment={"TARGETS": EVIL}, poll_s=0.4)
    if system != "direct":
        batch: BatchSystem = request.getfixturevalue(system)
        environment = {"PATH": f"{batch.path}:/usr/local/bin:/usr/bin:/bin", **batch.environment}
        target = dataclasses.replace(
            target, scheduler=SchedulerName(system), environment=target.environment | environment
        )
    context.store.targets.save(target)
    shown = 'printf \'[%s]\' "$1" "$OWN" "$TARGETS" "$(cat ./*run*)"'
    spec = at(
        target,
        *("sh", "-c", shown, EVIL, EVIL),
        name=EVIL,
        cwd=str(place),
        inputs=(str(source),),
        environment={"OWN": EVIL},
        path=(EVIL,),
        leave_files=True,
    )
    job = run(context, spec, 60)
    output = files_of(context, job).output.read_text()
    assert output.startswith(f"[{EVIL}][{EVIL}][{EVIL}][content]"), (job.reason, output)
    assert job.state is JobState.STORED, job.reason
    assert not touched(tmp_path, server.home), "something was run"


@pytest.mark.slow
@pytest.mark.parametrize("system", ["slurm", "lsf"])
@pytest.mark.parametrize("word", ["queue", "project", "resources", "arguments"])
def test_words_for_a_batch_system_are_words(
    request: pytest.FixtureRequest,
    context: JobContext,
    tmp_path: Path,
    system: str,
    word: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    batch: BatchSystem = request.getfixturevalue(system)
    environment = {"PATH": f"{batch.path}:/usr/local/bin:/usr/bin:/bin", **batch.environment}
    folder = str(tmp_path / "jobs")
    target = Target("t", scheduler=SchedulerName(system), directory=folder, environment=environment, poll_s=0.4)
    context.store.targets.save(target)
    batch_fields = (
        Batch(arguments=("--comment", EVIL)) if word == "arguments" else dataclasses.replace(Batch(), **{word: EVIL})
    )
    job = run(context, at(target, "true", batch=batch_fields, leave_files=True), 60)
    assert job.state.final and not touched(tmp_path, batch.folder), job
