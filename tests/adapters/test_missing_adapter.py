"""A stored target whose batch system is not registered any more is listed and can be deleted; all else works."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from perfloom.cli import group as cli
from perfloom.config import Settings
from perfloom.domain.errors import InvalidRequest
from perfloom.domain.jobs import JobSpec, JobState, MpiFlavor
from perfloom.domain.targets import SchedulerName, Ssh, Target
from perfloom.store import Store
from perfloom.web.app import create_app
from perfloom.workers.base.context import JobContext
from tests.support import paths
from tests.web.conftest import TOKEN, Browser
from tests.workers.conftest import context, facts, settings, store
from tests.workers.remote.driving import run

__all__ = ["context", "facts", "settings", "store"]
REASON = "The target “old” cannot be used. Invalid target description: 'gone' is no known batch system"


@pytest.fixture(autouse=True)
def old_targets(store: Store) -> None:
    """Targets that were stored when more adapters were registered."""
    SchedulerName.register("gone")
    MpiFlavor.register("gone")
    store.targets.save(Target("old", ssh=Ssh("node7"), scheduler=SchedulerName("gone")))
    store.targets.save(Target("older", mpi=MpiFlavor("gone")))
    SchedulerName.unregister("gone")
    MpiFlavor.unregister("gone")


@pytest.fixture
def browser(settings: Settings) -> Iterator[Browser]:
    app = create_app(Settings.load(settings.data, environ={}, token=TOKEN, runtime=settings.runtime))
    yield Browser(app.test_client())
    app.extensions["perfloom"].queue.close()
    app.extensions["perfloom"].store.close()


def test_pages_list_and_delete_it(browser: Browser, store: Store) -> None:
    page = browser.page("/targets")
    assert "The target “old” cannot be used." in page and 'href="/targets/old/delete"' in page
    assert "“old”" not in browser.page("/jobs/new") and list(store.targets.all()) == ["local"]
    assert browser.client.get("/targets/old").status_code == 400
    assert "is no known batch system" in browser.page("/targets/old/delete")
    assert browser.post("/targets/old/delete").status_code == 303
    assert store.targets.describe("old") is None


def test_commands_list_and_delete_it(settings: Settings, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    data = ("--data", str(settings.data))
    assert cli.run(["target", "list", "--format", "json", *data]) == 0
    local, old, older = json.loads(capsys.readouterr().out)
    assert (local["name"], old["name"], older["name"]) == ("local", "old", "older")
    assert old["where"].startswith(REASON) and old["scheduler"] is None
    assert "no known MPI implementation" in older["where"]
    assert cli.run(["target", "show", "old", *data]) == 2 and REASON in capsys.readouterr().err
    assert cli.run(["target", "add", "older", "--replace", *data]) == 0 and store.targets.get("older")
    assert cli.run(["target", "delete", "old", "older", *data]) == 0
    assert [one.name for one in store.targets.list()] == ["local"]


def test_it_is_not_taken_for_this_machine(store: Store) -> None:
    for read in (store.targets.get, store.targets.find):
        with pytest.raises(InvalidRequest, match="is no known batch system"):
            read("old")


def test_local_jobs_are_recorded(context: JobContext) -> None:
    assert run(context, JobSpec(command=("true",))).state is JobState.STORED


def test_only_the_registries_register_names() -> None:
    code = (
        "from perfloom.domain.jobs import JobSpec, MpiFlavor, RecorderName; "
        "from perfloom.domain.targets import SchedulerName; "
        "assert JobSpec().to_json()['recorder'] == 'perf-record'; "
        "assert [list(SchedulerName), list(MpiFlavor), list(RecorderName)] == [['none'], [], []]; "
        "from perfloom.recording import adapters; "
        "assert len(MpiFlavor) == len(adapters.MPI_LAUNCHERS) and RecorderName('pytorch') is RecorderName.PYTORCH"
    )
    subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, check=True, timeout=60)


def test_a_batch_system_that_is_taken_out_of_the_registry_leaves_no_key_error() -> None:
    code = (
        "from perfloom.recording import schedulers as s; from perfloom.domain.targets import SchedulerName, Target; "
        "SchedulerName.unregister('lsf'); del s.SCHEDULERS['lsf']; "
        "from perfloom.recording.fields import relevance; "
        "from perfloom.recording.probe.probe import probe_script; "
        "relevance.list_batch_labels(), relevance.list_choices(), relevance.make_hiding_rules(), probe_script(Target('t')); "
        "assert [s.scheduler_of(name) for name in SchedulerName][0] is None"
    )
    subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, check=True, timeout=60)
