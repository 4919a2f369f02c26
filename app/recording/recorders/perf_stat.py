"""`perf stat`: exact counts of events, without call stacks."""

from dataclasses import dataclass
from pathlib import PurePath

from ...domain.host_facts import HostFacts
from ...domain.jobs import JobSpec, RecorderName, Scope
from ...domain.rank_state import COUNTS_FILE
from .base import Artifact, perf_program, selection_arguments, target_arguments
from .events import events_to_count
from .findings import PreflightFinding


@dataclass(frozen=True)
class PerfStat:
    name: RecorderName = RecorderName.PERF_STAT
    title: str = "Count with perf stat"
    label: str = "perf stat"
    hint: str = "Count events exactly, without stacks."
    fields: tuple[str, ...] = ("perf", "counting")
    fields_hint: str = ""
    uses_perf: bool = True
    samples: bool = False
    counts: bool = True
    needs_torch: bool = False
    only_command: bool = False
    program_title: str = "perf stat"
    nothing_recorded: str = ""

    def events(self, spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
        return events_to_count(spec, facts)

    def find_problems(self, spec: JobSpec) -> tuple[PreflightFinding, ...]:
        """Those of perf's options are found by `preflight`."""
        return ()

    def argv(self, spec: JobSpec, facts: HostFacts, artifacts: PurePath) -> tuple[str, ...]:
        """JSON lines if perf supports them, else CSV (separated by `;`, because event names contain commas)."""
        words = [perf_program(facts), "stat", "-o", str(artifacts / COUNTS_FILE)]
        words += ["-j"] if "-j" in facts.stat_options else ["-x;"]
        if spec.repeat is not None and spec.repeat > 1:
            words += ["-r", str(spec.repeat)]
        if spec.interval_ms is not None:
            words += ["-I", str(spec.interval_ms)]
        for event in events_to_count(spec, facts):
            words += ["-e", event]
        words += selection_arguments(spec)
        if spec.per_cpu and spec.scope is Scope.SYSTEM:
            words += ["-A"]
        return (*words, *spec.perf_arguments, *target_arguments(spec))

    def artifacts(self, spec: JobSpec) -> tuple[Artifact, ...]:
        return (Artifact(COUNTS_FILE, "Counts of perf stat", text=True),)

    def injection(self, spec: JobSpec) -> None:
        """None: it is a program."""
