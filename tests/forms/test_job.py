"""The job form: what is typed, what it means, and that nothing typed is lost."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.jobs import CallGraph, JobSpec, RecorderName, Scope
from perfloom.forms.check import check, normalised, relevant
from perfloom.forms.job import JobFields, from_json, parse, to_fields

ANY = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=10)
NAME = st.text(st.characters(categories=("L", "N", "P", "S")) | st.just(" "), max_size=20).map(str.strip)
EVENT = st.sampled_from(
    ["cycles", "instructions:u", "r01c4", "cpu/event=0x3c,umask=1/u", "{cycles,faults}:S", "sched:sched_switch"]
)
PATH = ANY.map("/".__add__)
NUMBER = st.none() | st.integers(1, 100)

SPECS = st.builds(
    JobSpec,
    name=NAME,
    recorder=st.sampled_from(RecorderName),
    scope=st.sampled_from(Scope),
    command=st.tuples(ANY.filter(bool), ANY, ANY),
    cwd=st.none() | PATH,
    environment=st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True), ANY, max_size=4),
    inputs=st.lists(PATH, max_size=3).map(tuple),
    events=st.lists(EVENT, max_size=4).map(tuple),
    frequency=NUMBER,
    period=st.none(),
    call_graph=st.sampled_from(CallGraph),
    stack_bytes=st.integers(1, 8191).map(lambda eighth: eighth * 8),
    pid=st.integers(1, 4_194_304),
    per_cpu=st.booleans(),
    duration_s=st.none() | st.floats(0.1, 2_592_000, allow_nan=False),
    interval_ms=NUMBER,
    repeat=NUMBER,
) | st.builds(JobSpec, command=st.just(("a",)), period=st.integers(1, 10**15))


def posted(fields: JobFields) -> dict[str, list[str]]:
    """The form as a browser sends it: line breaks as \\r\\n, an unset switch not at all."""
    sent: dict[str, list[str]] = {}
    for name, value in vars(fields).items():
        if isinstance(value, bool):
            if value:
                sent[name] = ["1"]
        else:
            sent[name] = [value.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")]
    return sent


@given(SPECS)
def test_a_spec_comes_back_from_its_form(spec: JobSpec) -> None:
    parsed = parse(JobFields.from_form(posted(to_fields(spec))))
    assert parsed.errors == {}
    assert parsed.spec == normalised(spec)


@given(SPECS)
def test_a_spec_comes_back_from_its_json(spec: JobSpec) -> None:
    assert from_json(spec.to_json()).spec == normalised(spec)


@given(st.builds(JobFields, **{name: ANY for name in JobFields.__dataclass_fields__ if name != "per_cpu"}))
def test_anything_can_be_typed(typed: JobFields) -> None:
    """Whatever stands in the fields: errors by field or a spec that survives, never an exception."""
    parsed = parse(typed)
    assert (parsed.spec is None) == bool(parsed.errors)
    assert set(parsed.errors) <= set(JobFields.__dataclass_fields__)
    assert all(message[-1] in ".})'" for message in parsed.errors.values()), parsed.errors


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(sorted(JobSpec.__dataclass_fields__)), JSON) | JSON)
def test_any_json_gets_an_answer(data: Any) -> None:
    parsed = from_json(data)
    assert (parsed.spec is None) == bool(parsed.errors)


def errors(**typed: Any) -> dict[str, str]:
    return parse(replace(JobFields(command="true"), **typed)).errors


@pytest.mark.parametrize(
    ("field", "typed", "part"),
    [
        ("command", {"command": " "}, "Write the command"),
        ("command", {"command": "echo 'a"}, "never closed"),
        ("command", {"command": "'' a"}, "first word"),
        ("command", {"command": "a $'\\xff'"}, "no UTF-8"),
        ("command", {"command": "a $'\\x00'"}, "zero byte"),
        ("command", {"command": "echo " + "x" * 140_000}, "the kernel takes 131,071"),
        ("cwd", {"cwd": "here"}, "no absolute path"),
        ("cwd", {"cwd": "~/x"}, "no absolute path"),
        ("inputs", {"inputs": "/a\nb"}, "“b” is no absolute path"),
        ("environment", {"environment": "A=1\nnonsense"}, "Line 2"),
        ("environment", {"environment": "A=1\n\nA=2"}, "Line 3 sets A a second time"),
        ("environment", {"environment": "1A=1"}, "cannot name a variable"),
        ("environment", {"environment": "A=$'x"}, "Line 1 opens"),
        ("events", {"events": "cpu/x"}, "pmu/terms/"),
        ("events", {"events": "-o/etc/x"}, "hyphen"),
        ("events", {"events": "\n".join(f"r{n:x}" for n in range(257))}, "at most 256"),
        ("frequency", {"frequency": "often"}, "no whole number"),
        ("frequency", {"frequency": "٣"}, "no whole number"),
        ("frequency", {"frequency": "0"}, "out of range"),
        ("frequency", {"frequency": "9" * 19}, "no whole number"),
        ("period", {"sampling": "period"}, "choose a frequency"),
        ("period", {"sampling": "period", "period": "-1"}, "no whole number"),
        ("stack_bytes", {"stack_bytes": "100"}, "Use 104"),
        ("stack_bytes", {"stack_bytes": "65536"}, "out of range"),
        ("pid", {"scope": "process"}, "PID"),
        ("pid", {"scope": "process", "pid": "0"}, "out of range"),
        ("duration", {"duration": "a while"}, "no duration"),
        ("duration", {"duration": "0"}, "out of range"),
        ("duration", {"duration": "31000000"}, "out of range"),
        ("interval", {"recorder": "perf-stat", "interval": "1.5"}, "no whole number"),
        ("repeat", {"recorder": "perf-stat", "repeat": "101"}, "out of range"),
        ("recorder", {"recorder": "gprof"}, "none of"),
        ("scope", {"scope": "galaxy"}, "none of"),
        ("call_graph", {"call_graph": "magic"}, "none of"),
        ("target", {"target": "mars"}, "no such target"),
        ("name", {"name": "x" * 201}, "at most 200"),
        ("name", {"name": "a\x1b[31m"}, "cannot be shown"),
    ],
)
def test_each_mistake_is_said_at_its_field(field: str, typed: dict[str, str], part: str) -> None:
    found = errors(**typed)
    assert set(found) == {field}
    assert part in found[field]


def test_nothing_invisible_can_be_wrong() -> None:
    """Fields that recorder and scope leave unused are not looked at, and come into no spec."""
    typed = JobFields(command="true", recorder="perf-stat", frequency="often", stack_bytes="x", call_graph="y", pid="z")
    assert parse(typed).spec == JobSpec(recorder=RecorderName.PERF_STAT, command=("true",))
    process = JobFields(scope="process", pid="7", command="echo 'a", environment="?", repeat="x")
    assert parse(process).spec == JobSpec(scope=Scope.PROCESS, pid=7)


def test_every_field_is_used_somewhere() -> None:
    every = {
        field
        for recorder in RecorderName
        for scope in Scope
        for graph in CallGraph
        for field in relevant(JobSpec(recorder=recorder, scope=scope, call_graph=graph))
    }
    assert every == set(JobFields.__dataclass_fields__)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5", 1.5), (" 2 min ", 120), ("1h", 3600), ("500 ms", 0.5), ("10s", 10)]
)
def test_durations_may_carry_a_unit(text: str, seconds: float) -> None:
    spec = parse(JobFields(command="true", duration=text)).spec
    assert spec is not None
    assert spec.duration_s == seconds


def test_variables_are_taken_as_they_stand() -> None:
    text = "# a comment\nexport A=1\nB= two words \n\nC=\"quoted\"\nD=a=b\nE=\nF=$'x\\ny'\n G=$HOME"
    spec = parse(JobFields(command="true", environment=text)).spec
    assert spec is not None
    assert spec.environment == {
        "A": "1",
        "B": " two words ",
        "C": '"quoted"',
        "D": "a=b",
        "E": "",
        "F": "x\ny",
        "G": "$HOME",
    }


def test_no_message_repeats_the_value_of_a_variable() -> None:
    for text in ("A=hunter2\nA=hunter2", "A=$'hunter2", "A=" + "hunter2" * 20_000, "A=hunter2\n1=hunter2"):
        assert "hunter2" not in errors(environment=text)["environment"]


def test_ticked_events_join_the_typed_ones() -> None:
    fields = JobFields.from_form({"events": ["cycles\r\nfaults"], "event": ["cs", "cycles", " "]})
    assert fields.events == "cycles\nfaults\ncs"


def test_hints_leave_the_spec_as_it_is() -> None:
    parsed = parse(JobFields(command="echo $HOME"))
    assert parsed.spec is not None and parsed.spec.command == ("echo", "$HOME")
    assert len(parsed.hints["command"]) == 1


def test_values_of_another_type_are_said_not_raised() -> None:
    wrong: list[tuple[str, Any]] = [
        ("frequency", "199"),
        ("frequency", True),
        ("duration_s", "1"),
        ("duration_s", math.nan),
        ("environment", ["A=1"]),
        ("environment", {"A": 1}),
        ("cwd", 3),
        ("name", None),
        ("stack_bytes", None),
        ("per_cpu", 1),
        ("inputs", [3]),
        ("events", "cycles"),
    ]
    for name, value in wrong:
        scope = "system" if name == "per_cpu" else "command"
        parsed = from_json({"command": ["true"], "scope": scope, "duration_s": 1, name: value})
        assert set(parsed.errors) == {{"duration_s": "duration"}.get(name, name)}, name
    assert check(JobSpec(command=("a",), frequency=1, period=1)) == {
        "frequency": "Frequency and period exclude each other. Give one of the two."
    }


def test_the_api_takes_a_command_line_too() -> None:
    assert from_json({"command": "sh -c 'exit 3'"}).spec == JobSpec(command=("sh", "-c", "exit 3"))
    assert "command" in from_json({"command": "sh -c 'exit"}).errors
    assert "freq" in from_json({"command": ["true"], "freq": 3}).errors
