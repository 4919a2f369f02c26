"""`perf record`: samples of where time goes, with call stacks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ...domain.event_names import SOFTWARE_EVENTS, is_occurrence, split_modifiers, split_sampling_terms
from ...domain.host_facts import HostFacts
from ...domain.jobs import CallGraph, JobSpec, RecorderName, Scope
from ...domain.jobs.parts import DEFAULT_HZ
from ...domain.rank_state import COUNTS_FILE, RECORDING_FILE
from .base import Artifact, perf_program, selection_arguments, target_arguments
from .event_grammar import find_event_problem
from .events import are_tracepoints, event_type, needs_event_fields, single_events, timed_events
from .findings import PreflightFinding
from .off_cpu import SWITCHES, events_of_switches, options_of_switches, traces_switches, with_own_rate

FIRST_WITH_BUILD_IDS = (5, 12)
"""The first Linux that records build ids when a program maps a file."""
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})")


@dataclass(frozen=True)
class PerfRecord:
    name: RecorderName = RecorderName.PERF_RECORD
    title: str = "Sample with perf record"
    label: str = "perf record"
    hint: str = "Sample call stacks: shows where time goes, as a flame graph."
    fields: tuple[str, ...] = ("perf", "sampling")
    fields_hint: str = ""
    uses_perf: bool = True
    samples: bool = True
    counts: bool = False
    needs_torch: bool = False
    only_command: bool = False
    program_title: str = "perf record"
    nothing_recorded: str = ""

    def events(self, spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
        return timed_events(spec, facts)

    def find_problems(self, spec: JobSpec) -> tuple[PreflightFinding, ...]:
        """Those of perf's options are found by `preflight`."""
        return ()

    def argv(self, spec: JobSpec, facts: HostFacts, artifacts: PurePath) -> tuple[str, ...]:
        """Never with `-B`: without build IDs perf assigns wrong symbols to binaries that were rebuilt later."""
        words = [perf_program(facts), "record", "-o", str(artifacts / RECORDING_FILE)]
        traces = traces_switches(spec, facts)
        words += ["-c", "1"] if traces else rate_options(spec, facts)
        for event in timed_events(spec, facts):
            words += ["-e", with_own_rate(event, spec) if traces else with_rate(event, spec)]
        for event in events_of_switches(spec, facts):
            words += ["-e", event]
        words += selection_arguments(spec)
        if spec.call_graph is CallGraph.DWARF:
            words += ["--call-graph", f"dwarf,{spec.stack_bytes}"]
        elif spec.call_graph is not CallGraph.NONE:
            words += ["--call-graph", str(spec.call_graph)]
        words += options_of_switches(spec, facts)
        if spec.branch_stacks:
            words += ["-b"]
        if spec.per_cpu and not spec.off_cpu:
            words += ["--sample-cpu"]
        words += [option for option in ("-z", "-N", "--no-bpf-event") if option in facts.options]
        # Compressed recordings have no other build ids.
        if "--buildid-mmap" in facts.options and kernel_version(facts) >= FIRST_WITH_BUILD_IDS:
            words += ["--buildid-mmap"]
        return (*words, *spec.perf_arguments, *target_arguments(spec))

    def artifacts(self, spec: JobSpec) -> tuple[Artifact, ...]:
        """The recording, and what was counted at the same time."""
        return (
            Artifact(RECORDING_FILE, "Recording of perf record", text=False),
            Artifact(COUNTS_FILE, "Counts of perf stat", text=True),
        )

    def injection(self, spec: JobSpec) -> None:
        """None: it is a program."""


def kernel_version(facts: HostFacts) -> tuple[int, int]:
    """The version of the host's kernel; (0, 0) if it is unknown."""
    found = _VERSION.search(facts.kernel)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def counted_events(spec: JobSpec, facts: HostFacts | None) -> tuple[str, ...]:
    """The events that are also counted: those of `countable_events`, but none if switches or the fields of tracepoints
    are evaluated, because they would also record perf stat."""
    alone = spec.off_cpu or needs_event_fields(spec.events, spec.call_graph is not CallGraph.NONE)
    return () if alone else countable_events(spec, facts)


def countable_events(spec: JobSpec, facts: HostFacts | None) -> tuple[str, ...]:
    """The events whose samples have no absolute total, because they are sampled by occurrence; and on request hardware
    events."""
    found: dict[str, None] = {}
    for event in (part for typed_event in spec.events for part in single_events(typed_event)):
        name = split_sampling_terms(event)[0]
        hardware = event_type(event, facts) in ("hardware", "cache", "raw")
        is_countable = is_occurrence(name) or (hardware and spec.count_hardware)
        if is_countable and find_event_problem(name, counting=True) is None:
            found[name] = None
    return tuple(found)


def nested_stat_argv(argv: tuple[str, ...], spec: JobSpec, facts: HostFacts, artifacts: PurePath) -> tuple[str, ...]:
    """The command line `argv` with a perf stat that perf record runs, if events are to be counted. It starts the
    command, or observes the scope of perf record for the same time."""
    events = counted_events(spec, facts)
    if not events:
        return argv
    inside = [perf_program(facts), "stat", "-x,", "-o", str(artifacts / COUNTS_FILE)]
    for event in events:
        inside += ["-e", event]
    inside += selection_arguments(spec)
    end = target_arguments(spec)
    observed = {Scope.PROCESS: target_arguments(spec), Scope.SYSTEM: ("-a",)}.get(spec.scope, ())
    return (*argv[: len(argv) - len(end)], *observed, "--", *inside, *end)


def has_nested_stat(argv: Sequence[str]) -> bool:
    """Whether a command line is one of `nested_stat_argv`."""
    words = list(argv)
    inside = words[words.index("--") + 1 :] if "--" in words else []
    return words[1:2] == ["record"] and inside[1:4] == ["stat", "-x,", "-o"] and PurePath(inside[4]).name == COUNTS_FILE


def events_to_sample(spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
    """All events that `perf record` samples."""
    return (*timed_events(spec, facts), *events_of_switches(spec, facts))


def with_rate(event: str, spec: JobSpec) -> str:
    """An event with its own sampling rate, if the user set none: every occurrence of rare software events, if call
    stacks are cheap enough."""
    name, modifiers = split_modifiers(event)
    if spec.off_cpu and name in SWITCHES:
        return f"{name}/period=1/{modifiers}"
    given = spec.period is not None or spec.frequency is not None or "/" in event
    if (
        given
        or spec.call_graph not in (CallGraph.FP, CallGraph.NONE)
        or name not in SOFTWARE_EVENTS
        or not is_occurrence(name)
    ):
        return event
    return f"{name}/period=1/{modifiers}"


def rate_options(spec: JobSpec, facts: HostFacts) -> list[str]:
    """The rate options: the user's frequency or period, else the default; every occurrence of tracepoints."""
    if spec.period is not None:
        return ["-c", str(spec.period)]
    if spec.frequency is not None:
        return ["-F", str(spec.frequency)]
    if are_tracepoints(timed_events(spec, facts), facts):
        return ["-c", "1"]
    return ["-F", str(DEFAULT_HZ)]
