"""The job form: what is typed, what it means, and that nothing typed is lost."""

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perfloom.domain.jobs import Batch, CallGraph, EventSplitting, JobSpec, Mpi, MpiFlavor, PyTorch, RecorderName, Scope
from perfloom.domain.targets import SchedulerName, Ssh, Target
from perfloom.recording import adapters  # noqa: F401  (registers the names of adapters)
from perfloom.recording.fields.job_form import JobForm, parse, to_form
from perfloom.recording.fields.job_json import from_json
from perfloom.recording.fields.job_validity import validate_job
from perfloom.recording.fields.relevance import (
    CHOICES_OF_FORM,
    get_target_choices,
    list_hiding_choices,
    normalize,
    relevant_fields,
)

ANY = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=10)
NAME = st.text(st.characters(categories=("L", "N", "P", "S")) | st.just(" "), max_size=20).map(str.strip)
EVENT = st.sampled_from(
    ["cycles", "instructions:u", "r01c4", "cpu/event=0x3c,umask=1/u", "{cycles,faults}:S", "sched:sched_switch"]
)
PATH = ANY.map("/".__add__)
NUMBER = st.none() | st.integers(1, 100)
WORD = NAME.filter(lambda text: not text.startswith("-"))
ENTRY = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0:"), max_size=10).map("/".__add__)
WHOLE_WORD = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=12)
ARGUMENTS = st.lists(ANY, max_size=3).map(tuple)

TARGETS = {
    one.name: one
    for one in (
        Target("local"),
        Target("node", ssh=Ssh("node17"), sudo=True),
        Target("cluster", ssh=Ssh("login"), scheduler=SchedulerName.SLURM),
        Target("farm", scheduler=SchedulerName.LSF),
    )
}

MPIS = st.builds(
    Mpi,
    flavour=st.sampled_from(tuple(MpiFlavor)),
    ranks=st.integers(9, 10**6),
    ranks_per_node=NUMBER,
    program=WORD.filter(lambda text: not text.startswith("$'")),
    arguments=ARGUMENTS,
    rank_arguments=ARGUMENTS,
    every=st.integers(1, 4),
    only=st.sampled_from(("", "0-3,8", "0,4", " 0 , 8")).map(str.strip),
    per_host=st.booleans(),
)
BATCHES = st.builds(
    Batch,
    queue=WORD,
    project=WORD,
    wall_time_s=st.none() | st.integers(1, 86_400 * 30),
    resources=NAME,
    nodes=NUMBER,
    cpus=NUMBER,
    exclusive=st.booleans(),
    arguments=ARGUMENTS,
)
PYTORCHS = st.builds(
    PyTorch,
    steps=st.sampled_from(("1,1,3,1", "whole", "20,2,5", "0,0,1,100", "Whole")),
    memory=st.booleans(),
    shapes=st.booleans(),
    stacks=st.booleans(),
    modules=st.booleans(),
    seconds=st.none() | st.floats(0.1, 3600),
)


def reachable(spec: JobSpec) -> bool:
    """Whether what is observed can be: no process behind a batch system, PyTorch in what is started itself."""
    if spec.fresh_inputs and (spec.cwd is not None or not spec.inputs) and spec.scope is not Scope.PROCESS:
        return False
    if spec.baseline and spec.splitting is EventSplitting.AT_ONCE and spec.scope is Scope.COMMAND:
        return False
    if spec.recorder is RecorderName.PYTORCH:
        return spec.scope is Scope.COMMAND and not (spec.mpi and spec.mpi.per_host)
    return spec.scope is not Scope.PROCESS or TARGETS[spec.target].scheduler is SchedulerName.NONE


SPECS = st.builds(
    JobSpec,
    name=NAME,
    target=st.sampled_from(("local", "node", "cluster", "farm")),
    recorder=st.sampled_from(tuple(RecorderName)),
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
    pid=st.integers(1, 4_194_304) | st.lists(st.integers(1, 4_194_304), min_size=2, max_size=3).map(tuple),
    per_cpu=st.booleans(),
    **{name: st.booleans() for name in ("off_cpu", "branch_stacks")},
    duration_s=st.none() | st.floats(0.1, 2_592_000, allow_nan=False),
    interval_ms=NUMBER,
    repeat=NUMBER,
    mpi=st.none() | MPIS,
    batch=BATCHES,
    pytorch=PYTORCHS,
    modules=st.lists(WHOLE_WORD.filter(lambda text: not text.startswith("-")), max_size=3).map(tuple),
    path=st.lists(ENTRY, max_size=3).map(tuple),
    library_path=st.lists(ENTRY, max_size=3).map(tuple),
    preload=st.lists(WHOLE_WORD.filter(lambda text: ":" not in text), max_size=2).map(tuple),
    splitting=st.sampled_from(EventSplitting),
    events_per_run=NUMBER,
    keep_recordings=st.booleans(),
    leave_files=st.booleans(),
    cpu_list=st.sampled_from(("", "0", "0-3,8")),
    perf_arguments=st.sampled_from(((), ("--all-user",), ("--filter", "a == 'b c'"))),
    fresh_inputs=st.booleans(),
    baseline=st.booleans(),
    cgroup=st.sampled_from(("", "/", "user.slice")),
).filter(reachable) | st.builds(JobSpec, command=st.just(("a",)), period=st.integers(1, 10**15))


def posted(fields: JobForm) -> dict[str, list[str]]:
    """The form as a browser sends it: line breaks as \\r\\n, of a switch its empty value and, where it is on, its own."""
    sent: dict[str, list[str]] = {}
    for name, value in fields.items():
        if isinstance(value, bool):
            sent[name] = ["", "1"] if value else [""]
        else:
            sent[name] = [value.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")]
    return sent


@given(SPECS)
@example(JobSpec(command=("a",), environment={"A": "\n", "B": "\n0", "C": " \t", "D": "\v", "E": " a\n"}))
def test_form_of_spec_is_parsed_to_spec(spec: JobSpec) -> None:
    parsed = parse(JobForm.from_form(posted(to_form(spec))), TARGETS)
    assert parsed.errors == {}
    assert parsed.spec == normalize(spec, TARGETS[spec.target])


@given(SPECS)
def test_json_of_spec_is_parsed_to_spec(spec: JobSpec) -> None:
    assert from_json(spec.to_json(), TARGETS).spec == normalize(spec, TARGETS[spec.target])


TYPED = {name: st.booleans() if isinstance(default, bool) else ANY for name, default in JobForm.DEFAULTS.items()} | {
    "mpi": ANY | st.sampled_from(tuple(MpiFlavor)).map(str),
    "target": ANY | st.sampled_from(sorted(TARGETS)),
}


@given(st.builds(JobForm, **TYPED))
def test_anything_can_be_typed(typed: JobForm) -> None:
    """Any content of fields: errors by field or a spec that can be stored, never an exception."""
    parsed = parse(typed, TARGETS)
    assert (parsed.spec is None) == bool(parsed.errors)
    assert set(parsed.errors) <= set(JobForm.DEFAULTS)
    assert all(message[-1] in ".…})'" for message in parsed.errors.values()), parsed.errors


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
    return parse(JobForm(**{"command": "true"} | typed), TARGETS).errors


@pytest.mark.parametrize(
    ("field", "typed", "part"),
    [
        ("command", {"command": " "}, "Enter the command"),
        ("command", {"command": "echo 'a"}, "not closed"),
        ("command", {"command": "'' a"}, "first word"),
        ("command", {"command": "a $'\\xff'"}, "not UTF-8"),
        ("command", {"command": "a $'\\x00'"}, "zero byte"),
        ("command", {"command": "echo " + "x" * 140_000}, "kernel's limit is 131,071"),
        ("cwd", {"cwd": "here"}, "not an absolute path"),
        ("cwd", {"cwd": "~/x"}, "not an absolute path"),
        ("inputs", {"inputs": "/a\nb"}, "“b” is not an absolute path"),
        ("environment", {"environment": "A=1\nnonsense"}, "Line 2"),
        ("environment", {"environment": "A=1\n\nA=2"}, "Line 3 sets A a second time"),
        ("environment", {"environment": "1A=1"}, "not a valid variable name"),
        ("environment", {"environment": "A=$'x"}, "Line 1 opens"),
        ("events", {"events": "cpu/x"}, "pmu/terms/"),
        ("events", {"events": "-o/etc/x"}, "hyphen"),
        ("events", {"events": "\n".join(f"r{n:x}" for n in range(257))}, "at most 256"),
        ("frequency", {"frequency": "often"}, "not a whole number"),
        ("frequency", {"frequency": "٣"}, "not a whole number"),
        ("frequency", {"frequency": "0"}, "out of range"),
        ("frequency", {"frequency": "9" * 19}, "not a whole number"),
        ("period", {"sampling": "period"}, "choose a frequency"),
        ("period", {"sampling": "period", "period": "-1"}, "-1 is out of range"),
        ("stack_bytes", {"stack_bytes": "100"}, "Use 104"),
        ("stack_bytes", {"stack_bytes": "65536"}, "out of range"),
        ("pid", {"scope": "process"}, "PID"),
        ("pid", {"scope": "process", "pid": "0"}, "out of range"),
        ("pid", {"scope": "process", "pid": "7, 0"}, "out of range"),
        ("pid", {"scope": "process", "pid": "7 x"}, "not a whole number"),
        ("duration", {"duration": "a while"}, "not a duration"),
        ("duration", {"duration": "0"}, "out of range"),
        ("duration", {"duration": "31000000"}, "out of range"),
        ("interval", {"recorder": "perf-stat", "interval": "1.5"}, "not a whole number"),
        ("repeat", {"recorder": "perf-stat", "repeat": "101"}, "out of range"),
        ("recorder", {"recorder": "gprof"}, "is not valid. Use one of"),
        ("scope", {"scope": "galaxy"}, "is not valid. Use one of"),
        ("call_graph", {"call_graph": "magic"}, "is not valid. Use one of"),
        ("target", {"target": "mars"}, "No such target"),
        ("scope", {"target": "cluster", "scope": "process", "pid": "1"}, "through a batch system"),
        ("splitting", {"splitting": "somehow"}, "is not valid. Use one of"),
        ("events_per_run", {"splitting": "sequential", "events_per_run": "0"}, "out of range"),
        ("mpi", {"mpi": "lam"}, "is not valid. Use one of"),
        ("ranks", {"mpi": "openmpi"}, "number of ranks"),
        ("ranks", {"mpi": "openmpi", "ranks": "0"}, "out of range"),
        ("recorded", {"mpi": "openmpi", "ranks": "4", "recorded": "some"}, "is not valid"),
        ("only", {"mpi": "openmpi", "ranks": "4", "only": "0-4"}, "Rank 4 does not exist"),
        ("only", {"mpi": "openmpi", "ranks": "4", "only": "a"}, "Rank 'a' is not a number"),
        ("only", {"mpi": "openmpi", "ranks": "4", "only": ","}, "No ranks given"),
        ("only", {"mpi": "openmpi", "ranks": "4", "only": "1,3", "every": "2"}, "None of these ranks"),
        ("mpi_program", {"mpi": "openmpi", "ranks": "4", "mpi_program": "--x"}, "hyphen"),
        ("mpi_arguments", {"mpi": "openmpi", "ranks": "4", "mpi_arguments": "--x; touch /tmp/x"}, "needs a shell"),
        ("rank_arguments", {"mpi": "openmpi", "ranks": "4", "rank_arguments": "'"}, "not closed"),
        ("queue", {"target": "farm", "queue": "-P x"}, "hyphen"),
        ("wall_time", {"target": "farm", "wall_time": "30"}, "30 min"),
        ("wall_time", {"target": "farm", "wall_time": "400 d"}, "366 days"),
        ("modules", {"modules": "-l"}, "hyphen"),
        ("path", {"path": "bin"}, "not an absolute path"),
        ("preload", {"preload": "/a b.so"}, "space or colon"),
        ("scope", {"recorder": "pytorch", "scope": "system"}, "Choose a command"),
        ("recorded", {"recorder": "pytorch", "mpi": "srun", "ranks": "4", "recorded": "hosts"}, "Choose ranks"),
        *(
            ("steps", {"recorder": "pytorch", "steps": steps}, f"“{steps[:40]}” is not a valid schedule")
            for steps in (
                "x",
                "3",
                "1,1",
                "1,1,0,1",
                "1,1,3,0",
                "1,1,3,101",
                "1,-1,3,1",
                "1,1,3,1,1",
                "1 1 3 1",
                "1_0,1,3",
            )
        ),
        ("steps", {"recorder": "pytorch", "steps": "٣,1,3,1"}, "is not a valid schedule"),
        ("steps", {"recorder": "pytorch", "steps": "9" * 5000}, "is not a valid schedule"),
        ("steps", {"recorder": "pytorch", "steps": "$(touch /tmp/x),1,3,1"}, "is not a valid schedule"),
        ("torch_seconds", {"recorder": "pytorch", "torch_seconds": "2 h"}, "60 minutes"),
        ("torch_seconds", {"recorder": "pytorch", "torch_seconds": "0"}, "0.1 seconds"),
        ("torch_seconds", {"recorder": "pytorch", "torch_seconds": "long"}, "not a duration"),
        ("cpu_list", {"scope": "system", "cpu_list": "0-3, 8"}, "Write for example 0-3,8"),
        ("cgroup", {"scope": "system", "cgroup": "a,b"}, "Write for example system.slice"),
        ("cgroup", {"scope": "system", "cgroup": "-a"}, "Write for example system.slice"),
        ("perf_arguments", {"perf_arguments": "-o /etc/x"}, "“-o” is not allowed"),
        ("perf_arguments", {"recorder": "perf-stat", "perf_arguments": "--pre 'rm x'"}, "“--pre” is not allowed"),
        ("perf_arguments", {"perf_arguments": "-m; ls"}, "needs a shell"),
        ("fresh_inputs", {"fresh_inputs": True, "inputs": "/a", "cwd": "/x"}, "own directory"),
        ("fresh_inputs", {"fresh_inputs": True}, "no input files"),
        ("baseline", {"baseline": True, "splitting": "at-once"}, "disturb each other"),
        ("name", {"name": "x" * 201}, "at most 200"),
        ("name", {"name": "a\x1b[31m"}, "nonprintable"),
    ],
)
def test_each_mistake_is_said_at_its_field(field: str, typed: dict[str, str], part: str) -> None:
    found = errors(**typed)
    assert set(found) == {field}
    assert part in found[field]


def test_nothing_invisible_can_be_wrong() -> None:
    """Fields that recorder and scope leave unused are not checked, and are in no spec."""
    typed = JobForm(command="true", recorder="perf-stat", frequency="often", stack_bytes="x", call_graph="y", pid="z")
    assert parse(typed).spec == JobSpec(recorder=RecorderName.PERF_STAT, command=("true",))
    torch = JobForm(command="a", recorder="pytorch", events="cpu/x", splitting="?", sudo=True, stack_bytes="x")
    assert parse(torch).spec == JobSpec(recorder=RecorderName.PYTORCH, command=("a",))
    perf = JobForm(command="a", steps="x", torch_memory=True, torch_seconds="?")
    assert parse(perf).spec == JobSpec(command=("a",))
    process = JobForm(scope="process", pid="7", command="echo 'a", environment="?", repeat="x")
    assert parse(process).spec == JobSpec(scope=Scope.PROCESS, pid=7)


def test_every_field_is_used_somewhere() -> None:
    assert set(list_hiding_choices()) == set(JobForm.DEFAULTS)


@given(SPECS)
def test_irrelevant_fields_are_hidden(spec: JobSpec) -> None:
    target = TARGETS[spec.target]
    chosen = get_target_choices(target) | {
        name: value for name, value in to_form(spec).items() if name in CHOICES_OF_FORM
    }
    words = {f"{name}-{value}" for name, value in chosen.items()}
    used = relevant_fields(spec, target)
    for field, choices in list_hiding_choices().items():
        assert (field in used) == (not words & set(choices.split())), (field, words)


def test_fields_irrelevant_for_target_are_not_checked() -> None:
    typed = JobForm(command="true", queue="-x", wall_time="soon", nodes="?", sudo=True)
    assert parse(typed, TARGETS).spec == JobSpec(command=("true",))
    slurm = errors(target="cluster", queue="-x", wall_time="soon", nodes="?", resources="\n")
    assert set(slurm) == {"queue", "wall_time", "nodes"}
    assert set(errors(target="farm", nodes="?", resources="a\nb")) == {"resources"}
    # A description with that field is reported, because no form has hidden the field.
    wanted = {"command": ["true"], "sudo": True, "target": "cluster"}
    assert "does not allow perf with sudo" in from_json(wanted, TARGETS).errors["sudo"]
    assert from_json(wanted | {"target": "node"}, TARGETS).spec == JobSpec(command=("true",), target="node", sudo=True)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30 min", 1800), ("1.5h", 5400), ("2 d", 172_800), ("1:30", 5400), ("1:30:05", 5405), ("1-12:00", 129_600)],
)
def test_wall_times_as_people_write_them(text: str, seconds: int) -> None:
    spec = parse(JobForm(command="true", target="cluster", wall_time=text), TARGETS).spec
    assert spec is not None
    assert spec.batch.wall_time_s == seconds


def test_path_entries_can_be_separated_by_colons() -> None:
    typed = JobForm(
        command="true", path="/a/bin:/b/bin\n\n /c d ", preload="libx.so:/y/liby.so", modules="gcc/12 mpi\nx"
    )
    spec = parse(typed).spec
    assert spec is not None
    assert (spec.path, spec.preload, spec.modules) == (
        ("/a/bin", "/b/bin", "/c d"),
        ("libx.so", "/y/liby.so"),
        ("gcc/12", "mpi", "x"),
    )


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5", 1.5), (" 2 min ", 120), ("1h", 3600), ("500 ms", 0.5), ("10s", 10)]
)
def test_durations_may_carry_a_unit(text: str, seconds: float) -> None:
    spec = parse(JobForm(command="true", duration=text)).spec
    assert spec is not None
    assert spec.duration_s == seconds


def test_variables_are_unchanged() -> None:
    text = "# a comment\nexport A=1\nB= two words \n\nC=\"quoted\"\nD=a=b\nE=\nF=$'x\\ny'\n G=$HOME"
    spec = parse(JobForm(command="true", environment=text)).spec
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
    fields = JobForm.from_form({"events": ["cycles\r\nfaults"], "event": ["cs", "cycles", " "]})
    assert fields["events"] == "cycles\nfaults\ncs"


def test_steps_as_people_write_them() -> None:
    for typed, steps in (("", "1,1,3,1"), (" 2, 1,3 , 1 ", "2,1,3,1"), ("whole", "whole")):
        spec = parse(JobForm(command="a", recorder="pytorch", steps=typed, torch_seconds="1.5 min")).spec
        assert spec is not None
        assert spec.pytorch == PyTorch(steps=steps, seconds=90)


def test_hints_leave_the_spec_as_it_is() -> None:
    parsed = parse(JobForm(command="echo $HOME"))
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
        ("sudo", "yes"),
        ("mpi", 3),
        ("mpi", {}),
        ("mpi", {"flavour": "lam"}),
        ("mpi.tasks", {"flavour": "openmpi", "tasks": 4}),
        ("batch", "normal"),
        ("batch.partition", {"partition": "x"}),
        ("modules", "gcc"),
    ]
    for name, value in wrong:
        scope = "system" if name == "per_cpu" else "command"
        part = name.partition(".")[0]
        described = {"command": ["true"], "scope": scope, "duration_s": 1, "target": "node", part: value}
        assert set(from_json(described, TARGETS).errors) == {{"duration_s": "duration"}.get(name, name)}, name
    for word, value in (
        ("ranks", "4"),
        ("ranks", None),
        ("every", 0),
        ("per_host", 1),
        ("only", 3),
        ("arguments", "x"),
    ):
        described = {"command": ["true"], "mpi": {"flavour": "openmpi", "ranks": 4, word: value}}
        field = {"per_host": "recorded", "arguments": "mpi_arguments"}.get(word, word)
        assert set(from_json(described).errors) == {field}, word
    for word, value in (("wall_time_s", "1 h"), ("exclusive", "yes"), ("queue", None), ("arguments", [3])):
        described = {"command": ["true"], "target": "farm", "batch": {word: value}}
        field = {"wall_time_s": "wall_time", "arguments": "batch_arguments"}.get(word, word)
        assert set(from_json(described, TARGETS).errors) == {field}, word
    for word, value in (
        ("steps", 3),
        ("steps", None),
        ("memory", 1),
        ("stacks", "yes"),
        ("seconds", "10"),
        ("seconds", math.nan),
        ("seconds", True),
        ("hooks", True),
    ):
        described = {"command": ["true"], "recorder": "pytorch", "pytorch": {word: value}}
        field = {"steps": "steps", "hooks": "pytorch.hooks"}.get(word, f"torch_{word}")
        assert set(from_json(described).errors) == {field}, word
    assert set(from_json({"command": ["true"], "recorder": "pytorch", "pytorch": "whole"}).errors) == {"pytorch"}
    assert validate_job(JobSpec(command=("a",), frequency=1, period=1)) == {
        "frequency": "Frequency and period are mutually exclusive. Use one of them."
    }


def test_every_wrong_field_of_json_is_reported_at_once() -> None:
    described = {
        "freq": 3,
        "command": "true",
        "modules": "gcc",
        "frequency": "often",
        "duration_s": 0,
        "stack_bytes": 100,
        "repeat": "unused with perf record",
        "environment": {"A": 1},
        "splitting": "somehow",
        "batch": [],
        "mpi": {"flavour": "openmpi", "ranks": 0, "every": None, "arguments": "x", "tasks": 4},
    }
    found = from_json(described).errors
    assert found.pop("freq").startswith("A job has no field “freq”. Its fields are: baseline, batch, ")
    assert found.pop("splitting").startswith("“somehow” is not valid. Use one of: one-run")
    assert found.pop("mpi.tasks").startswith("“mpi” has no field “tasks”. Its fields are: ")
    assert found == {
        "modules": "“modules” must be a list of strings.",
        "mpi_arguments": "“mpi.arguments” must be a list of strings.",
        "batch": "“batch” must be an object with its own fields.",
        "frequency": "This must be a whole number.",
        "duration": "The time limit is out of range. Use 0.1 seconds to 30 days.",
        "stack_bytes": "This must be a multiple of 8. Use 104.",
        "environment": "The value of A must be a string.",
        "ranks": "0 is out of range. Use 1 to 1,000,000 ranks.",
        "every": "Enter the number of ranks, 1 or more.",
    }
    assert set(from_json({"mpi": {"ranks": 4}, "recorder": "gprof"}).errors) == {"mpi", "recorder", "command"}


def test_one_process_or_several() -> None:
    """A spec of an earlier version has one number."""
    assert JobSpec.from_json({"scope": "process", "pid": 7}).pids == (7,)
    assert JobSpec.from_json({"scope": "process", "pid": [7, 8]}).pids == (7, 8)
    assert from_json({"scope": "process", "pid": [7, 8]}).spec == JobSpec(scope=Scope.PROCESS, pid=(7, 8))
    for wrong in ([], None, ["7"], "7", [True], {}):
        assert set(from_json({"scope": "process", "pid": wrong}).errors) == {"pid"}, wrong
    assert parse(JobForm(scope="process", pid="7 8,9")).spec == JobSpec(scope=Scope.PROCESS, pid=(7, 8, 9))
