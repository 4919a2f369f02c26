"""`perf stat`: exact counts of events, without call stacks."""

from dataclasses import dataclass
from pathlib import PurePath

from ...domain.facts import HostFacts
from ...domain.jobs import JobSpec, RecorderName, Scope
from .base import Artefact, program, target
from .events import to_count


@dataclass(frozen=True)
class PerfStat:
    name: RecorderName = RecorderName.PERF_STAT
    title: str = "Count with perf stat"

    def argv(self, spec: JobSpec, facts: HostFacts, artefacts: PurePath) -> tuple[str, ...]:
        """One object a line where perf can, else its own columns (set apart by `;`: event names hold commas)."""
        words = [program(facts), "stat", "-o", str(artefacts / "perf-stat.txt")]
        words += ["-j"] if "-j" in facts.stat_options else ["-x;"]
        if spec.repeat is not None and spec.repeat > 1:
            words += ["-r", str(spec.repeat)]
        if spec.interval_ms is not None:
            words += ["-I", str(spec.interval_ms)]
        for event in to_count(spec, facts):
            words += ["-e", event]
        if spec.per_cpu and spec.scope is Scope.SYSTEM:
            words += ["-A"]
        return (*words, *target(spec))

    def artefacts(self, spec: JobSpec) -> tuple[Artefact, ...]:
        return (Artefact("perf-stat.txt", "Counts of perf stat", text=True),)

    def injection(self, spec: JobSpec) -> None:
        """It is a program itself."""
