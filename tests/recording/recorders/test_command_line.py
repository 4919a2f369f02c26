"""From a job spec to argv: the options of perf."""

import shlex
from dataclasses import replace
from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfloom.domain.host_facts import HostFacts, PerfEvent
from perfloom.domain.jobs import CallGraph, JobSpec, RecorderName, Scope
from perfloom.recording.plan import argv, command_line
from perfloom.recording.recorders import RECORDERS
from perfloom.recording.recorders.perf_arguments import find_argument_problem

BARE = HostFacts("h", perf="/usr/bin/perf")
FULL = replace(BARE, options=("-z", "-N", "--no-bpf-event", "--call-graph dwarf"), stat_options=("-j",))
SPEC = JobSpec(command=("./a.out", "-x", "two words"))


def words(spec: JobSpec, facts: HostFacts | None = FULL) -> list[str]:
    return list(argv(spec, facts, PurePath("/d/artefacts")))


def test_the_default_is_dwarf_at_199_hz() -> None:
    assert words(SPEC) == [
        *("perf", "record", "-o", "/d/artefacts/perf.data", "-F", "199", "-e", "cpu-clock"),
        *("--call-graph", "dwarf,8192", "-z", "-N", "--no-bpf-event", "--", "./a.out", "-x", "two words"),
    ]


def test_branch_stacks_are_an_option_of_perf_record() -> None:
    assert "-b" in words(replace(SPEC, branch_stacks=True))
    assert "-b" not in words(SPEC)
    assert "-b" not in words(replace(SPEC, branch_stacks=True, recorder=RecorderName.PERF_STAT))


def test_perf_on_standard_path_is_called_by_name() -> None:
    assert words(SPEC, replace(BARE, perf="/usr/local/bin/perf"))[0] == "perf"
    assert words(SPEC, replace(BARE, perf="/opt/tools/perf"))[0] == "/opt/tools/perf"


def test_options_that_a_perf_lacks_are_left_out() -> None:
    assert not {"-z", "-N", "--no-bpf-event"} & set(words(SPEC, BARE))


def test_before_any_worker_has_spoken_there_is_a_command_line_all_the_same() -> None:
    assert words(SPEC, None)[:2] == ["perf", "record"]


def test_build_ids_are_never_left_out() -> None:
    for facts in (None, BARE, replace(FULL, options=(*FULL.options, "-B"))):
        assert "-B" not in words(SPEC, facts)


@pytest.mark.parametrize(
    ("kernel", "records"),
    [("5.12.0", True), ("Linux 6.18.44-fc", True), ("5.11.22-generic", False), ("4.18.0-553.el8", False), ("", False)],
)
def test_mappings_have_build_ids_where_the_kernel_knows_them(kernel: str, records: bool) -> None:
    facts = replace(FULL, kernel=kernel, options=(*FULL.options, "--buildid-mmap"))
    assert ("--buildid-mmap" in words(SPEC, facts)) is records
    assert "--buildid-mmap" not in words(SPEC, replace(FULL, kernel=kernel))


@pytest.mark.parametrize(
    ("facts", "event"),
    [
        ({"hardware_counters": True}, "cycles"),
        ({"hardware_counters": False}, "cpu-clock"),
        ({"hardware_counters": None}, "cpu-clock"),
        ({"hardware_counters": True, "paranoid": 2}, "cycles:u"),
        ({"paranoid": 2}, "cpu-clock:u"),
        ({"paranoid": 4}, "cpu-clock:u"),
        ({"paranoid": 1}, "cpu-clock"),
        ({"paranoid": 2, "root": True}, "cpu-clock"),
        ({"paranoid": 2, "perf_capabilities": ("cap_perfmon",)}, "cpu-clock"),
        ({"paranoid": 2, "perf_capabilities": ("cap_syslog",)}, "cpu-clock:u"),
    ],
)
def test_the_event_is_what_the_host_has_for_time(facts: dict[str, object], event: str) -> None:
    line = words(SPEC, replace(BARE, **facts))  # type: ignore[arg-type]
    assert line[line.index("-e") + 1] == event


def test_requested_events_are_unchanged() -> None:
    line = words(replace(SPEC, events=("cycles:k", "{a,b}:S", "r1a8")), replace(BARE, paranoid=2))
    assert [line[i + 1] for i, word in enumerate(line) if word == "-e"] == ["cycles:k", "{a,b}:S", "r1a8"]


@pytest.mark.parametrize(
    ("spec", "rate"),
    [
        (SPEC, ["-F", "199"]),
        (replace(SPEC, frequency=4000), ["-F", "4000"]),
        (replace(SPEC, period=10_000), ["-c", "10000"]),
        (replace(SPEC, events=("sched:sched_switch",)), ["-c", "1"]),
        (replace(SPEC, events=("sched:sched_switch", "cpu-clock")), ["-F", "199"]),
        (replace(SPEC, events=("cpu-clock:u",)), ["-F", "199"]),
        (replace(SPEC, events=("sched:sched_switch",), frequency=99), ["-F", "99"]),
    ],
)
def test_sampling_rate(spec: JobSpec, rate: list[str]) -> None:
    line = words(spec)
    assert line[4:6] == rate and sum(word in ("-F", "-c") for word in line) == 1


@pytest.mark.parametrize(
    ("graph", "option"),
    [(CallGraph.DWARF, "dwarf,16384"), (CallGraph.FP, "fp"), (CallGraph.LBR, "lbr"), (CallGraph.NONE, None)],
)
def test_call_graphs(graph: CallGraph, option: str | None) -> None:
    line = words(replace(SPEC, call_graph=graph, stack_bytes=16384))
    assert (line[line.index("--call-graph") + 1] if "--call-graph" in line else None) == option


def test_scopes() -> None:
    assert words(replace(SPEC, scope=Scope.PROCESS, pid=42))[-2:] == ["-p", "42"]
    assert words(replace(SPEC, scope=Scope.SYSTEM))[-5:] == ["-a", "--", "./a.out", "-x", "two words"]
    assert words(JobSpec(scope=Scope.SYSTEM))[-1] == "-a"
    assert "--sample-cpu" in words(replace(SPEC, per_cpu=True))


def test_counting() -> None:
    spec = replace(SPEC, recorder=RecorderName.PERF_STAT, interval_ms=100, repeat=3, events=("cycles", "cpu-clock"))
    assert words(spec) == [
        *("perf", "stat", "-o", "/d/artefacts/perf-stat.txt", "-j", "-r", "3", "-I", "100"),
        *("-e", "cycles", "-e", "cpu-clock", "--", "./a.out", "-x", "two words"),
    ]
    assert words(spec, BARE)[4] == "-x;"
    whole = words(replace(spec, scope=Scope.SYSTEM, per_cpu=True))
    assert whole[whole.index("-a") - 1] == "-A"
    assert "-A" not in words(replace(spec, per_cpu=True))


def test_only_some_cpus() -> None:
    spec = JobSpec(scope=Scope.SYSTEM, cpu_list="0-3,8", events=("context-switches",))
    for recorder in (RecorderName.PERF_RECORD, RecorderName.PERF_STAT):
        line = words(replace(spec, recorder=recorder))
        assert line[line.index("-C") + 1] == "0-3,8" and line.index("-C") > line.index("-e")
        assert "-C" not in words(replace(spec, recorder=recorder, scope=Scope.COMMAND, command=("a",)))


def test_only_a_cgroup() -> None:
    spec = JobSpec(scope=Scope.SYSTEM, cgroup="a/b", cpu_list="1", events=("context-switches", "faults"))
    for recorder in (RecorderName.PERF_RECORD, RecorderName.PERF_STAT):
        line = words(replace(spec, recorder=recorder))
        at = line.index("-G")
        assert line[at - 4 : at + 2] == ["-e", "faults", "-C", "1", "-G", "a/b"]


def test_several_processes() -> None:
    spec = JobSpec(scope=Scope.PROCESS, pid=(42, 7), events=("context-switches",))
    for recorder in (RecorderName.PERF_RECORD, RecorderName.PERF_STAT):
        assert words(replace(spec, recorder=recorder))[-2:] == ["-p", "42,7"]


@pytest.mark.parametrize(
    ("recorder", "arguments"),
    [
        (RecorderName.PERF_RECORD, ("--all-user", "-m", "64", "--mmap-pages=128", "-W")),
        (RecorderName.PERF_STAT, ("--per-core", "--delay", "10")),
    ],
)
def test_further_arguments_of_perf(recorder: RecorderName, arguments: tuple[str, ...]) -> None:
    assert find_argument_problem(RECORDERS[recorder], arguments) is None
    line = words(replace(SPEC, recorder=recorder, perf_arguments=arguments))
    at = line.index("--")
    assert tuple(line[at - len(arguments) : at]) == arguments


@pytest.mark.parametrize(
    "line",
    [
        *("-o /etc/x", "-o/etc/x", "--output=/etc/x", "--out /etc/x", "-Wo /etc/x", "-e cycles", "--", "ls", "-- ls"),
        *("-W ls", "--kcore", "--switch-output", "-m", "-m --", "--mmap-pages=", "--all-user=1", "-F 9", "-a", "-"),
        *("--vmlinux /x", "--control fifo:/x", "-m64"),
    ],
)
def test_arguments_that_perf_does_not_get(line: str) -> None:
    problem = find_argument_problem(RECORDERS[RecorderName.PERF_RECORD], line.split())
    assert problem is not None and problem.endswith(".")
    for other in ("--pre x", "--post x", "-x,", "--append", "--log-fd 1", "-o x", "--metric-only"):
        assert find_argument_problem(RECORDERS[RecorderName.PERF_STAT], other.split())


def test_counting_has_default_events() -> None:
    spec = replace(SPEC, recorder=RecorderName.PERF_STAT)
    assert "task-clock" in words(spec) and "cycles" not in words(spec)
    assert {"cycles", "instructions"} <= set(words(spec, replace(FULL, hardware_counters=True)))
    assert "task-clock:u" in words(spec, replace(FULL, paranoid=2))


def test_tracepoint_is_distinguished_from_modifier() -> None:
    facts = replace(FULL, events=(PerfEvent("e:pk", "tracepoint"),))
    assert "-c" in words(replace(SPEC, events=("e:pk",)), facts)
    assert "-c" not in words(replace(SPEC, events=("e:pk",)), FULL)


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_shown_command_is_run(command: list[str]) -> None:
    spec = JobSpec(command=tuple(command))
    assert tuple(shlex.split(command_line(spec, FULL))) == argv(spec, FULL, PurePath("artefacts"))
    assert argv(spec, FULL, PurePath("artefacts"))[-len(command) :] == tuple(command)


def test_every_recorder_lists_its_artifacts() -> None:
    for name, recorder in RECORDERS.items():
        spec = JobSpec(recorder=name, command=("x",))
        main = recorder.artifacts(spec)[0]
        # The injected recorder gets a directory, and chooses its file names.
        injection = recorder.injection(spec)
        assert (f"{injection.folder}=/d/artefacts" if injection else f"/d/artefacts/{main.name}") in words(spec)
        assert main.text == (name is not RecorderName.PERF_RECORD) and main.title and recorder.title


TRACED = replace(
    FULL, root=True, events=tuple(PerfEvent(f"sched:sched_{n}", "tracepoint") for n in ("switch", "waking"))
)


@pytest.mark.parametrize(
    ("changes", "facts", "options"),
    [
        # Where perf may not sample the kernel, only the records of switches.
        ({}, replace(FULL, paranoid=2), "-F 199 -e cpu-clock:u --sample-cpu --switch-events"),
        (
            {},
            replace(FULL, paranoid=1),
            "-F 199 -e cpu-clock -e context-switches/period=1/ --sample-cpu --switch-events",
        ),
        # Listed, but not permitted.
        (
            {},
            replace(TRACED, root=False, paranoid=1),
            "-F 199 -e cpu-clock -e context-switches/period=1/ --sample-cpu --switch-events",
        ),
        (
            {},
            TRACED,
            "-c 1 -e cpu-clock/freq=199/ -e sched:sched_switch -e sched:sched_waking --sample-cpu --switch-events",
        ),
        (
            {"scope": Scope.SYSTEM},
            TRACED,
            "-c 1 -e cpu-clock/freq=199/ -e sched:sched_switch -e sched:sched_waking --sample-cpu -a",
        ),
        (
            {"events": ("cpu-clock:u", "page-faults/period=9/"), "frequency": 99},
            TRACED,
            "-c 1 -e cpu-clock/freq=99/u -e page-faults/period=9/ -e sched:sched_switch -e sched:sched_waking "
            "--sample-cpu --switch-events",
        ),
        # Groups and tracepoints keep the rate of the job.
        (
            {"events": ("{cycles,instructions}", "cs"), "period": 1000},
            TRACED,
            "-c 1000 -e {cycles,instructions} -e cs/period=1/ --sample-cpu --switch-events",
        ),
    ],
)
def test_time_off_the_cpu_is_recorded_as_the_host_permits(
    changes: dict[str, object], facts: HostFacts, options: str
) -> None:
    spec = replace(SPEC, off_cpu=True, call_graph=CallGraph.FP, **changes)  # type: ignore[arg-type]
    line = [word for word in words(spec, facts) if word not in ("-z", "-N", "--no-bpf-event", "--call-graph", "fp")]
    assert " ".join(line[4 : line.index("--")]) == options


def test_no_perf_stat_runs_inside_when_switches_are_recorded() -> None:
    spec = replace(SPEC, events=("page-faults",))
    assert "stat" in words(spec) and "stat" not in words(replace(spec, off_cpu=True))
