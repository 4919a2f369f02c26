"""Job descriptions survive as JSON."""

import json

import pytest

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.host_facts import HostFacts, PerfEvent
from perfloom.domain.jobs import CallGraph, JobSpec, JobState, Outcome, RecorderName, Scope
from perfloom.recording import adapters  # noqa: F401  (registers the names of recorders)


def test_spec_survives_json() -> None:
    spec = JobSpec(
        name="a",
        recorder=RecorderName.PERF_STAT,
        scope=Scope.SYSTEM,
        command=("sh", "-c", "true"),
        environment={"A": "1"},
        events=("cycles", "r01c4"),
        call_graph=CallGraph.LBR,
        duration_s=1.5,
    )
    assert JobSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_unknown_keys_are_ignored_and_bad_values_refused() -> None:
    assert JobSpec.from_json({"name": "x", "of_2031": True}) == JobSpec(name="x")
    with pytest.raises(InvalidRequest):
        JobSpec.from_json({"scope": "galaxy"})


def test_outcome_and_facts_survive_json() -> None:
    outcome = Outcome(exit_status=3, reasons=("It ended with 3.",))
    assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))) == outcome
    facts = HostFacts("here", events=(PerfEvent("cycles", "hardware"),), options=("-z",), paranoid=2)
    assert HostFacts.from_json(json.loads(json.dumps(facts.to_json()))) == facts


def test_final_states() -> None:
    assert {state for state in JobState if state.final} == {
        JobState.STORED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.LOST,
    }
