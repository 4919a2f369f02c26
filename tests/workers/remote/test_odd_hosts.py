"""What a host answers that is broken or means ill costs at most the jobs there, and nothing of what was recorded."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfloom.domain.errors import NotFound, Refused, Unavailable, Unreachable
from perfloom.domain.jobs import JobDetails, JobSpec
from perfloom.domain.targets import SchedulerName, Ssh, Target
from perfloom.recording.schedulers.slurm import MAX_HOSTS, expand_host_list
from perfloom.workers.base.jobfiles import JobFiles
from perfloom.workers.remote import collection
from perfloom.workers.targets import access, batch
from perfloom.workers.transports import ScriptResult, connections

ID = "a" * 12
LONG = "9" * 5000


class Answers:
    """A transport to a host with prepared answers."""

    title = "far"

    def __init__(self, *done: ScriptResult, get: Exception | None = None) -> None:
        self._done = list(done)
        self._get = get

    def run(self, script: str, **_: Any) -> ScriptResult:
        return self._done.pop(0) if len(self._done) > 1 else self._done[0]

    def get(self, copies: Any, progress: Any) -> None:
        if self._get is not None:
            raise self._get


@pytest.mark.parametrize(
    ("scheduler", "said"),
    [
        (SchedulerName.SLURM, f"7|{LONG}|RUNNING|normal|n1|N/A|None\nend\n"),
        (SchedulerName.LSF, f'{{"RECORDS": [{{"JOBID": "7", "STAT": "EXIT", "EXIT_CODE": "{LONG}"}}]}}'),
    ],
)
def test_a_batch_system_that_answers_nonsense_does_not_answer(scheduler: SchedulerName, said: str) -> None:
    there: Any = Answers(ScriptResult(0, said.encode(), b""))
    with pytest.raises(Unreachable):
        batch.query_states(there, Target("t", scheduler=scheduler), ["7"])


def test_a_list_of_hosts_has_an_end() -> None:
    assert expand_host_list("n[01-03,7]") == ("n01", "n02", "n03", "n7")
    assert len(expand_host_list("n[" + ",".join(["1-999999999"] * 20) + "]")) <= 2 * MAX_HOSTS
    assert expand_host_list(f"n[{LONG}]") == expand_host_list(f"n[1-{LONG}]") == expand_host_list("n[1-2-3]") == ()


def _look(there: str) -> ScriptResult:
    text = f"job {ID}\n{there}\n".encode()
    return ScriptResult(0, text if there == "gone" else text + b"states 0\n\noutput 0 0\n\nend\n", b"")


def _fetch(tmp_path: Path, there: Any) -> None:
    files = JobFiles(tmp_path / ID)
    files.prepare()
    job: Any = SimpleNamespace(
        id=ID, details=JobDetails(directory="/far/jobs/" + ID), job_spec=JobSpec(command=("true",))
    )
    context: Any = SimpleNamespace(settings=SimpleNamespace(reserve_bytes=0, data=tmp_path))
    collection._fetch(context, job, files, Target("odd"), there, lambda part, text: None)


def test_leftover_is_reported(tmp_path: Path) -> None:
    """An empty list, and a list that could not be made, are not the same."""
    with pytest.raises(Unavailable, match="cannot be listed: wc: it is away"):
        _fetch(tmp_path, Answers(_look("there"), ScriptResult(0, b"", b""), ScriptResult(1, b"", b"wc: it is away")))
    with pytest.raises(NotFound, match="no longer exists"):
        _fetch(tmp_path, Answers(_look("gone")))
    listed = ScriptResult(0, b"  9 ./run0/all/perf.data\n", b"")
    with pytest.raises(Unavailable):
        _fetch(tmp_path, Answers(_look("there"), ScriptResult(0, b"", b""), listed, get=NotFound("It is not there.")))


@pytest.mark.parametrize("name", ["perf.script.gz", "perf.script.zst"])
def test_damaged_text_is_reported_by_reader(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"no such thing")
    assert collection._has_content(tmp_path / name)


def test_rejection_applies_to_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be written there is no error of the connection."""
    target = Target("odd", ssh=Ssh("host.invalid"))
    context: Any = SimpleNamespace(secret_provider=lambda prompt: None, settings=SimpleNamespace(run_as=""))
    monkeypatch.setattr(connections, "is_open", lambda ssh: True)
    for _ in range(2):
        with pytest.raises(Refused, match="of one"), access.open_target(context, target, []):
            raise Refused("A directory of one.")
        with access.open_target(context, target, []):
            pass
    monkeypatch.setattr(connections, "is_open", lambda ssh: False)
    with pytest.raises(Refused, match="password"), access.open_target(context, target, []):
        raise Refused("A wrong password.")
    with pytest.raises(Refused, match="password"), access.open_target(context, target, []):
        pass
