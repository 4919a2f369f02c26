"""JSON of jobs and targets with anything in it: every wrong field is reported, and nothing is raised."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.fields import declared_parts
from perfloom.domain.jobs import JobSpec
from perfloom.domain.targets import Target
from perfloom.recording.fields.job_json import from_json
from perfloom.recording.fields.target_file import from_data

WORDS: tuple[str, ...] = (
    "\udc80",
    "a\0b",
    "{a",
    "$'",
    "x" * 500,
    "none",
    "slurm",
    "openmpi",
    "pytorch",
    "perf-stat",
    "process",
)
WORDS += ("sequential", "0-3,8", "1,1,3,1", "local", "-x", "a=b", "9:", "true | cat", "'\udc80", "~/\udc80", ",")
NUMBERS = (0, -1, 1, 5, 2**63, 10**30, 0.5, 1e308, float("inf"), float("nan"))
texts = st.sampled_from(WORDS) | st.text(st.characters(), max_size=5)
leaves = st.none() | st.booleans() | st.sampled_from(NUMBERS) | texts
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=5
)


def _objects(cls: type[Any]) -> SearchStrategy[dict[str, Any]]:
    """JSON with the names of a class, and some others."""
    parts = declared_parts(cls)
    known = {
        each.name: values
        | st.lists(texts, max_size=3)
        | (_objects(parts[each.name].type) if each.name in parts else texts)
        for each in fields(cls)
    }
    named = st.lists(st.sampled_from(sorted(known)), unique=True, max_size=6).flatmap(
        lambda names: st.fixed_dictionaries({name: known[name] for name in names})
    )
    return st.builds(lambda one, other: other | one, named, st.dictionaries(texts, values, max_size=1))


@settings(max_examples=150, deadline=None)
@given(_objects(JobSpec))
def test_no_job_raises(data: dict[str, Any]) -> None:
    parsed = from_json(data)
    assert (parsed.spec is None) == bool(parsed.errors)
    "".join((*parsed.errors, *parsed.errors.values())).encode()


@settings(max_examples=150, deadline=None)
@given(_objects(Target))
def test_no_target_raises_anything_but_its_problems(data: dict[str, Any]) -> None:
    try:
        from_data(data)
    except InvalidRequest as error:
        error.message.encode()


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        ({"command": ["true"], "call_graph": "\udc80"}, "call_graph"),
        ({"command": ["true"], "recorder": "\udc80"}, "recorder"),
        ({"command": ["true"], "\udc80": 1}, "?"),
        ({"command": ["true"], "perf_arguments": ["\udc80"]}, "perf_arguments"),
        ({"command": "true '\udc80"}, "command"),
        ({"command": ["true"], "mpi": {"flavour": "x", "ranks": 0}}, "mpi ranks"),
        (
            {"command": ["true"], "mpi": {"ranks": 0, "every": 0, "a": 1, "b": 2}},
            "mpi ranks every mpi.a mpi.b",
        ),
        ({"command": ["true"], "batch": {"a": 1, "b": 2}}, "batch.a batch.b"),
        ({"command": ["true"], "batch": 5, "frequency": 0}, "batch frequency"),
        ({"command": ["true"], "mpi": 5, "frequency": 0}, "mpi frequency"),
    ],
    ids=ascii,
)
def test_every_wrong_field_of_a_job_is_reported(data: dict[str, Any], wrong: str) -> None:
    assert set(from_json(data).errors) == set(wrong.split())


def test_every_wrong_field_of_a_target_is_reported() -> None:
    with pytest.raises(InvalidRequest) as raised:
        from_data({"ssh": {"port": 99999, "user": "-a", "x": 1, "y": 2}, "counters": 0, "mpi": "x"})
    for name in ("name:", "host:", "port:", "user:", "ssh.x:", "ssh.y:", "counters:", "mpi:"):
        assert name in raised.value.message


def test_api_accepts_command_line() -> None:
    assert from_json({"command": "sh -c 'exit 3'"}).spec == JobSpec(command=("sh", "-c", "exit 3"))
    assert "command" in from_json({"command": "sh -c 'exit"}).errors
    assert "freq" in from_json({"command": ["true"], "freq": 3}).errors
