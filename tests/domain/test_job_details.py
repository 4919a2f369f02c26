"""JobDetails are stored as JSON, whose keys never change."""

from dataclasses import fields

from perfloom.domain.errors import Prompt
from perfloom.domain.isolation import ProcessNamespaces, ProtectedServer
from perfloom.domain.jobs import Cancellation, Executor, JobDetails, SeriesRun, Side

PLACE = {"uid": 1, "boot": "b", "mounts": "m", "pids": "p", "users": "u", "root": False}
STORED = {
    "planned": True,
    "runner_host": "here",
    "server": {"place": PLACE, "secrets": ("/token",)},
    "failures": 2,
    "kind": "HostKeyUnknown",
    "readings": 1,
    "long": True,
    "short": ["It was cancelled."],
    "error": "perf does not exist.",
    "perf_killed": True,
    "vanished": True,
    "series": {"id": "series000000", "number": 3, "side": "other", "run": 2, "base": ""},
    "supervisor": {"pid": 3, "started": 4, "boot": "b"},
    "directory": "/far/jobs/1",
    "runs": [[0, 1], [2]],
    "begun": 2,
    "submissions": {"0": "100", "1": "101"},
    "half": 1.5,
    "unreached": 2.5,
    "needs": [{"name": "password", "text": "Password of ada"}],
    "needed": 3.5,
    "quiet": 4.5,
    "ending": {"times": 2, "since": 5.5, "last": 6.5, "gentle": True},
    "collected": True,
    "left": True,
}
"""As version 0.1 stores them: all keys."""


def test_stored_details_remain_readable() -> None:
    details = JobDetails.from_json(STORED | {"of another version": 1})
    assert details == JobDetails(
        executor=Executor.SCRIPTS,
        runner_host="here",
        server=ProtectedServer(ProcessNamespaces(1, "b", "m", "p", "u"), ("/token",)),
        failures=2,
        error_kind="HostKeyUnknown",
        read_attempts=1,
        reads_long=True,
        incomplete_reasons=("It was cancelled.",),
        start_error="perf does not exist.",
        perf_killed=True,
        is_lost=True,
        series=SeriesRun("series000000", 3, Side.OTHER, 2),
        supervisor={"pid": 3, "started": 4, "boot": "b"},
        directory="/far/jobs/1",
        submission_runs=((0, 1), (2,)),
        begun=2,
        submission_ids={0: "100", 1: "101"},
        unanswered_since=1.5,
        unreachable_since=2.5,
        needed_secrets=(Prompt("password", "Password of ada"),),
        secrets_needed_at=3.5,
        quiet_since=4.5,
        cancellation=Cancellation(2, 5.5, 6.5, True),
        collected=True,
        cleaned_up=True,
    )
    assert details.to_json() == STORED
    # Every field is above: none has its default value.
    default = JobDetails()
    assert all(getattr(details, each.name) != getattr(default, each.name) for each in fields(JobDetails))


def test_default_values_are_not_stored() -> None:
    assert JobDetails().to_json() == {}
    # Earlier versions stored some of them.
    assert (
        JobDetails.from_json({"half": None, "needs": [], "short": None, "error": None, "planned": False})
        == JobDetails()
    )


def test_reachable_target_needs_no_secrets() -> None:
    details = JobDetails(unreachable_since=1.0, needed_secrets=(Prompt("a", "b"),), secrets_needed_at=2.0, begun=1)
    assert details.reachable() == JobDetails(begun=1)
