"""What will not work is said before anything is queued, with what to do."""

from dataclasses import replace
from typing import Any

import pytest

from perfloom.domain.event_names import split_modifiers
from perfloom.domain.host_facts import HostFacts, PerfEvent
from perfloom.domain.jobs import CallGraph, JobSpec, Language, PyTorch, RecorderName, Scope
from perfloom.recording.recorders.events import event_type, events_to_count, single_events
from perfloom.recording.recorders.perf_record import counted_events
from perfloom.recording.recorders.preflight import PreflightFinding, Severity, preflight

LISTED = tuple(
    PerfEvent(name, group)
    for name, group in [
        ("cpu-clock", "software"),
        ("page-faults", "software"),
        ("sched:sched_switch", "tracepoint"),
        ("msr/tsc/", "pmu"),
    ]
)
HOST = HostFacts(
    "box",
    perf="/usr/bin/perf",
    user="ann",
    paranoid=1,
    kptr_restrict=0,
    max_frequency=100_000,
    hardware_counters=False,
    lbr=False,
    options=("-z", "-N", "--no-bpf-event", "--call-graph dwarf"),
    events=LISTED,
)
SPEC = JobSpec(command=("true",))


def about(spec: JobSpec, facts: HostFacts | None = HOST, **changes: Any) -> list[tuple[str, str]]:
    facts = replace(facts, **changes) if facts else None
    return [(finding.level.value, finding.field) for finding in preflight(spec, facts)]


def test_valid_job_has_no_findings() -> None:
    assert about(SPEC) == []


@pytest.mark.parametrize("event", ["context-switches", "cs/period=1/", "cpu-migrations", "cgroup-switches"])
def test_kernel_events_are_unobservable_in_user_space(event: str) -> None:
    spec = replace(SPEC, events=("task-clock", event), recorder=RecorderName.PERF_STAT)
    facts = replace(HOST, events=())
    assert preflight(spec, facts) == []
    (found,) = preflight(spec, replace(facts, paranoid=2))
    assert (found.level, found.field) == (Severity.WARNING, "events") and event in found.message
    assert "kernel.perf_event_paranoid=1" in found.advice and "cap_perfmon" in found.advice
    assert preflight(spec, replace(facts, paranoid=2, perf_capabilities=("cap_perfmon",))) == []
    asked = f"{event}u" if event.endswith("/") else f"{event}:u"
    for host in (facts, replace(facts, paranoid=2)):
        assert ("warning", "events") in about(replace(spec, events=(asked,)), host)


def test_a_tracepoint_of_the_kernel_is_not_recorded_in_user_space() -> None:
    assert about(replace(SPEC, events=("sched:sched_switch:u",)), None) == [("error", "events")]
    assert about(replace(SPEC, events=("syscalls:sys_enter_read:u",)), None) == []


def test_by_default_nothing_is_counted_that_is_not_seen() -> None:
    spec = replace(SPEC, recorder=RecorderName.PERF_STAT)
    assert "context-switches" in events_to_count(spec, HOST)
    assert events_to_count(spec, replace(HOST, paranoid=2)) == ("task-clock:u", "page-faults:u")


def test_every_finding_has_advice() -> None:
    worst = replace(SPEC, events=("nonsense", "cycles:k", "sched:sched_switch", "instructions"), frequency=200_000)
    worst = replace(worst, scope=Scope.SYSTEM, per_cpu=True, period=3, call_graph=CallGraph.LBR)
    found = preflight(worst, replace(HOST, paranoid=2, kptr_restrict=1))
    assert len(found) > 6
    for finding in found:
        assert finding.advice.strip() and finding.message.endswith(".")
        assert PreflightFinding.from_json(finding.to_json()) == finding
    order = [list(Severity).index(finding.level) for finding in found]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"command": ()}, ("error", "command")),
        ({"command": ("",)}, ("error", "command")),
        ({"command": ("a", "b\0c")}, ("error", "command")),
        ({"environment": {"A=B": "c"}}, ("error", "environment")),
        ({"environment": {"": "c"}}, ("error", "environment")),
        ({"environment": {"A": "c\0"}}, ("error", "environment")),
        ({"scope": Scope.PROCESS}, ("error", "pid")),
        ({"scope": Scope.PROCESS, "pid": 0}, ("error", "pid")),
        ({"scope": Scope.PROCESS, "pid": 7}, ("hint", "duration_s")),
        ({"scope": Scope.SYSTEM, "command": ()}, ("hint", "duration_s")),
        ({"duration_s": 0.0}, ("error", "duration_s")),
        ({"duration_s": -1.0}, ("error", "duration_s")),
        ({"duration_s": float("nan")}, ("error", "duration_s")),
        ({"frequency": 99, "period": 99}, ("error", "frequency")),
        ({"frequency": 0}, ("error", "frequency")),
        ({"period": -5}, ("error", "period")),
        ({"stack_bytes": 65529}, ("error", "stack_bytes")),
        ({"stack_bytes": 65536}, ("error", "stack_bytes")),
        ({"stack_bytes": 0}, ("error", "stack_bytes")),
        ({"frequency": 20_000}, ("hint", "frequency")),
        ({"call_graph": CallGraph.FP}, ("hint", "call_graph")),
        ({"recorder": RecorderName.PERF_STAT, "interval_ms": 0}, ("error", "interval_ms")),
        ({"recorder": RecorderName.PERF_STAT, "interval_ms": 10}, ("hint", "interval_ms")),
        ({"recorder": RecorderName.PERF_STAT, "repeat": 101}, ("error", "repeat")),
        ({"recorder": RecorderName.PERF_STAT, "per_cpu": True}, ("warning", "per_cpu")),
        ({"recorder": RecorderName.PYTORCH, "scope": Scope.SYSTEM}, ("error", "scope")),
        ({"recorder": RecorderName.PYTORCH, "pytorch": PyTorch("1,0,3,1")}, ("hint", "pytorch.steps")),
        ({"recorder": RecorderName.PYTORCH, "pytorch": PyTorch("1,1,51,1")}, ("hint", "pytorch.steps")),
        ({"recorder": RecorderName.PYTORCH, "pytorch": PyTorch(modules=True)}, ("hint", "pytorch.modules")),
        ({"command": ("/usr/bin/python3.11", "train.py")}, ("warning", "command")),
    ],
)
def test_descriptions_that_no_host_can_carry_out(changes: dict[str, Any], expected: tuple[str, str]) -> None:
    assert expected in about(replace(SPEC, **changes), None)


def test_switches_of_one_program_need_more_events() -> None:
    def hints(*events: str, scope: Scope = Scope.COMMAND) -> list[str]:
        return [finding.advice for finding in preflight(replace(SPEC, events=events, scope=scope), None)]

    assert hints("sched:sched_switch") == ["Choose “Time off the CPU”, or record the whole system."]
    assert hints("sched:sched_switch/call-graph=fp/,page-faults") == hints("sched:sched_switch")
    for events in (("sched:*",), ("sched:sched_switch", "sched:sched_stat_runtime"), ("page-faults",)):
        assert hints(*events) == []
    assert hints("sched:sched_switch", scope=Scope.SYSTEM) == []


def test_a_script_that_can_be_found_and_perf_that_is_not_needed() -> None:
    bare = replace(SPEC, command=("python3", "train.py"), language=Language.PYTHON)
    assert about(replace(bare, cwd="/a")) == about(replace(bare, inputs=("/a/train.py",))) == []
    for words in (("python3", "/a.py"), ("python3", "-m", "a.b"), ("python3", "-c", "print(.5)"), ("./run", "a.py")):
        assert about(replace(SPEC, command=words, language=Language.PYTHON)) == []
    assert about(replace(SPEC, recorder=RecorderName.PYTORCH), perf=None, paranoid=4) == []


@pytest.mark.parametrize(
    ("changes", "facts", "expected"),
    [
        ({}, {"perf": None}, ("error", "recorder")),
        ({}, {"perf": None, "perf_problem": "The perf here does not run."}, ("error", "recorder")),
        ({}, {"paranoid": 3}, ("error", "recorder")),
        ({}, {"paranoid": 4}, ("error", "recorder")),
        ({}, {"paranoid": 2}, ("hint", "events")),
        ({"scope": Scope.SYSTEM}, {"paranoid": 1}, ("error", "scope")),
        ({"events": ("cpu-clock:k",)}, {"paranoid": 2}, ("error", "events")),
        ({"events": ("sched:sched_switch",)}, {}, ("error", "events")),
        ({"scope": Scope.PROCESS, "pid": 7, "duration_s": 1.0}, {}, ("hint", "pid")),
        ({"events": ("instructions",)}, {}, ("error", "events")),
        ({"events": ("cache-misses:u",)}, {}, ("error", "events")),
        ({"events": ("L1-dcache-load-misses",)}, {}, ("error", "events")),
        ({"events": ("r1a8",)}, {}, ("error", "events")),
        ({"events": ("{instructions,cpu-clock}",)}, {}, ("error", "events")),
        ({"events": ("cpu-clock,instructions",)}, {}, ("error", "events")),
        ({"events": ("cycles",)}, {}, ("warning", "events")),
        ({"events": ("instructions",), "recorder": RecorderName.PERF_STAT}, {}, ("warning", "events")),
        ({"events": ("bus-cycles",)}, {"hardware_counters": True}, ("error", "events")),
        ({"events": ("cpu-clokc",)}, {}, ("warning", "events")),
        ({"frequency": 100_001}, {}, ("warning", "frequency")),
        ({"events": ("cpu-clock", "page-faults:u")}, {}, ("hint", "frequency")),
        ({"call_graph": CallGraph.LBR}, {}, ("error", "call_graph")),
        (
            {"call_graph": CallGraph.LBR, "events": ("cpu-clock",)},
            {"lbr": True, "hardware_counters": True},
            ("error", "call_graph"),
        ),
        ({}, {"options": ("-z",)}, ("error", "call_graph")),
        ({}, {"options": ("--call-graph dwarf",)}, ("hint", "call_graph")),
        ({}, {"kptr_restrict": 1}, ("hint", "events")),
    ],
)
def test_unsupported_by_host(changes: dict[str, Any], facts: dict[str, Any], expected: tuple[str, str]) -> None:
    assert expected in about(replace(SPEC, **changes), HOST, **facts)


@pytest.mark.parametrize("right", [{"root": True}, {"perf_capabilities": ("cap_perfmon",)}, {"paranoid": -1}])
def test_privileged_user_has_no_findings(right: dict[str, Any]) -> None:
    spec = replace(SPEC, scope=Scope.SYSTEM, events=("cpu-clock:k", "sched:sched_switch"))
    assert about(spec, replace(HOST, paranoid=2), **right) == []


def test_lbr_where_there_is_such_a_cpu() -> None:
    spec = replace(SPEC, call_graph=CallGraph.LBR)
    assert about(spec, HOST, lbr=True, hardware_counters=True) == []


LBR_HOST = {"lbr": True, "hardware_counters": True, "cpu": "Intel Xeon"}


@pytest.mark.parametrize(
    ("changes", "facts", "expected"),
    [
        ({}, LBR_HOST, []),
        ({"events": ("cycles:u", "instructions")}, LBR_HOST, []),
        ({}, LBR_HOST | {"hardware_counters": False}, [("error", "branch_stacks")]),
        ({}, LBR_HOST | {"lbr": False}, [("error", "branch_stacks")]),
        ({}, LBR_HOST | {"lbr": False, "cpu": "AMD EPYC"}, [("warning", "branch_stacks")]),
        ({"events": ("cpu-clock",)}, LBR_HOST, [("error", "branch_stacks")]),
        ({"events": ("{cycles,faults}",)}, LBR_HOST, [("error", "branch_stacks")]),
        ({"events": ("sched:sched_switch",)}, LBR_HOST | {"paranoid": -1}, [("error", "branch_stacks")]),
        ({"call_graph": CallGraph.LBR}, LBR_HOST, [("error", "call_graph")]),
        ({"recorder": RecorderName.PERF_STAT}, LBR_HOST | {"hardware_counters": False}, []),
    ],
)
def test_branch_stacks_need_hardware_events_and_a_cpu_that_records_them(
    changes: dict[str, Any], facts: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    spec = replace(SPEC, **{"branch_stacks": True, "events": ("cycles",)} | changes)
    found = [one for one in about(spec, HOST, **facts) if one[1] in ("branch_stacks", "call_graph")]
    assert found == expected


def test_the_advice_names_the_perf_that_is_there() -> None:
    found = preflight(replace(SPEC, scope=Scope.SYSTEM), replace(HOST, perf="/opt/perf"))
    assert "setcap cap_perfmon,cap_sys_ptrace,cap_syslog=ep /opt/perf" in found[0].advice


@pytest.mark.parametrize(
    ("event", "single"),
    [
        ("cycles", ["cycles"]),
        ("a,b", ["a", "b"]),
        ("{a,b}:S", ["a", "b"]),
        ("cpu/event=0x1,umask=2/u", ["cpu/event=0x1,umask=2/u"]),
        ("{cpu/a,b/,c}", ["cpu/a,b/", "c"]),
        ("", [""]),
    ],
)
def test_single_events_of_what_was_typed(event: str, single: list[str]) -> None:
    assert single_events(event) == single


@pytest.mark.parametrize(
    ("event", "name", "modifiers", "group"),
    [
        ("cycles:u", "cycles", "u", "hardware"),
        ("cycles:ppp", "cycles", "ppp", "hardware"),
        ("sched:sched_switch", "sched:sched_switch", "", "tracepoint"),
        ("sched:sched_switch:u", "sched:sched_switch", "u", "tracepoint"),
        ("cpu/event=0x3c/u", "cpu/event=0x3c/", "u", "raw"),
        ("msr/tsc/", "msr/tsc/", "", "pmu"),
        ("r01a8:k", "r01a8", "k", "raw"),
        ("dTLB-loads", "dTLB-loads", "", "cache"),
        ("faults", "faults", "", "software"),
        ("anything else", "anything else", "", None),
    ],
)
def test_event_type(event: str, name: str, modifiers: str, group: str | None) -> None:
    assert split_modifiers(event) == (name, modifiers)
    assert event_type(event, HOST) == group


@pytest.mark.parametrize(
    "event",
    [
        "cpu-clock/freq=199/",
        "page-faults/period=10/",
        "page-faults/period=10/u",
        "cpu-clock/freq=500,name=ticks,call-graph=fp/,page-faults/period=10/",
        "{cpu-clock/freq=9/,page-faults/period=10/}:S",
        "msr/tsc/",
        "msr/event=0x00/",
        *("cpu-clock/percore/", "cpu-clock/overwrite,time=0/", "cpu-clock/no-inherit/u", "cpu-clock/aux-output=0/"),
        *("software/config=0/", "software/config=0,period=9/u", "bpf-output/no-inherit=1,name=evt/"),
    ],
)
def test_terms_of_sampling_do_not_make_another_event(event: str) -> None:
    assert about(replace(SPEC, events=(event,))) == []


@pytest.mark.parametrize("event", ["instructions/freq=9/", "L1-dcache-loads/period=9/", "cpu/event=0x3c,period=9/"])
def test_unsupported_terms_are_rejected(event: str) -> None:
    assert about(replace(SPEC, events=(event,))) == [("error", "events")]


def test_terms_say_how_often() -> None:
    assert about(replace(SPEC, events=("page-faults/freq=99/",), period=10)) == [("hint", "frequency")]
    assert about(replace(SPEC, events=("page-faults/period=9/",), frequency=99)) == []
    assert about(replace(SPEC, events=("cpu-clock/freq=200000/",))) == [("error", "events")]
    assert about(replace(SPEC, events=("nosuch/event=1/",))) == [("warning", "events")]


@pytest.mark.parametrize("recorder", [RecorderName.PERF_RECORD, RecorderName.PERF_STAT])
@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("cpu-clock/freq=1e9/", "freq=1e9 of cpu-clock/freq=1e9/ is not a number for perf."),
        ("cpu-clock/period=-3/", "period=-3 of cpu-clock/period=-3/ is not a number for perf."),
        ("page-faults,cpu-clock/bogus=1/", "cpu-clock has no term bogus."),
        ("{page-faults,cpu-clock:zz}", "zz is not a modifier of cpu-clock."),
        ("page-faults/period=1/:u", ":u is not a modifier of page-faults."),
    ],
)
def test_what_perf_does_not_understand(recorder: RecorderName, event: str, said: str) -> None:
    """perf 6.1 refuses each of these."""
    found = preflight(replace(SPEC, recorder=recorder, events=(event,)), None)
    assert [finding.message for finding in found if finding.level is Severity.ERROR] == [said]


@pytest.mark.parametrize(
    "event",
    [
        *("cpu-clock:u", "cpu-clock:pppk", "cpu-clock//", "cpu-clock/freq/", "cpu-clock/period=0x1F,name=a:b/u"),
        *("page-faults/percore,no-inherit,max-stack=4/", "page-faults/call-graph=fp/", "cpu/event=0x3c,umask=1/"),
    ],
)
def test_what_perf_understands(event: str) -> None:
    assert not preflight(replace(SPEC, events=(event,)), None)


def test_what_the_kernel_refuses_of_terms() -> None:
    assert about(replace(SPEC, events=("cpu-clock/freq=100001/",))) == [("error", "events")]
    assert about(replace(SPEC, events=("cpu-clock/freq=100000/",))) == []
    lbr = replace(SPEC, events=("cycles/call-graph=lbr/",))
    assert about(lbr, hardware_counters=True, events=()) == [("error", "events")]
    assert about(lbr, hardware_counters=True, events=(), lbr=True) == []
    assert about(replace(SPEC, events=("cpu-clock/max-stack=128/",))) == [("warning", "events")]
    assert about(replace(SPEC, events=("cpu-clock/max-stack=010/",))) == []


def test_only_what_perf_stat_takes_is_counted_beside_samples() -> None:
    assert counted_events(replace(SPEC, events=("page-faults/no-inherit,period=1/",)), HOST) == ()
    assert counted_events(replace(SPEC, events=("page-faults/period=1/",)), HOST) == ("page-faults",)


def test_what_is_not_counted_beside_its_samples() -> None:
    rare = replace(SPEC, events=("page-faults/period=1/",))
    assert about(rare) == []
    assert about(replace(rare, sudo=True)) == [("hint", "sudo")]
    beside = replace(rare, events=("page-faults/period=1/", "sched:sched_switch"), scope=Scope.SYSTEM, duration_s=1.0)
    assert ("hint", "events") in about(beside, root=True) and not counted_events(beside, HOST)


def test_time_off_the_cpu_says_what_the_host_permits() -> None:
    spec = replace(SPEC, off_cpu=True, call_graph=CallGraph.NONE)
    assert about(spec) == [("hint", "off_cpu")]
    found = {finding.field: finding for finding in preflight(spec, replace(HOST, paranoid=2))}
    assert found["off_cpu"].level is Severity.WARNING and "kernel.perf_event_paranoid=1" in found["off_cpu"].advice
    # perf itself is not permitted, which is said once.
    assert about(spec, paranoid=3) == [("error", "recorder")]
    assert ("error", "scope") in about(replace(spec, scope=Scope.SYSTEM, duration_s=1.0))
    traced = (*LISTED, PerfEvent("sched:sched_waking", "tracepoint"))
    # Each switch copies its stack.
    assert about(replace(spec, call_graph=CallGraph.DWARF), root=True, events=traced) == [("hint", "off_cpu")]
    lbr = about(
        replace(spec, call_graph=CallGraph.LBR, events=("cycles",)), lbr=True, hardware_counters=True, events=()
    )
    assert ("error", "call_graph") in lbr
    # Not counted at the same time.
    assert about(replace(spec, events=("page-faults/period=100/",))).count(("hint", "off_cpu")) == 2
    assert about(replace(spec, recorder=RecorderName.PERF_STAT)) == []
