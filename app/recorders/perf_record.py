"""`perf record`: samples of where time goes, with call stacks."""

from dataclasses import dataclass
from pathlib import PurePath

from ..domain.facts import HostFacts
from ..domain.jobs import CallGraph, JobSpec, RecorderName
from .base import Artefact, program, target
from .events import only_tracepoints, to_sample

FREQUENCY = 199
"""Hz when nothing was asked for: enough for a picture, little enough for 8 kB of stack each; a prime, so that it
does not beat with a program's own rhythm."""


@dataclass(frozen=True)
class PerfRecord:
    name: RecorderName = RecorderName.PERF_RECORD
    title: str = "Sample with perf record"

    def argv(self, spec: JobSpec, facts: HostFacts, artefacts: PurePath) -> tuple[str, ...]:
        """Never `-B`: without build ids perf puts wrong names on binaries that were rebuilt since."""
        words = [program(facts), "record", "-o", str(artefacts / "perf.data")]
        words += rate(spec, facts)
        for event in to_sample(spec, facts):
            words += ["-e", event]
        if spec.call_graph is CallGraph.DWARF:
            words += ["--call-graph", f"dwarf,{spec.stack_bytes}"]
        elif spec.call_graph is not CallGraph.NONE:
            words += ["--call-graph", str(spec.call_graph)]
        if spec.per_cpu:
            words += ["--sample-cpu"]
        words += [option for option in ("-z", "-N", "--no-bpf-event") if option in facts.options]
        return (*words, *target(spec))

    def artefacts(self, spec: JobSpec) -> tuple[Artefact, ...]:
        return (Artefact("perf.data", "Recording of perf record", text=False),)

    def injection(self, spec: JobSpec) -> None:
        """It is a program itself."""


def rate(spec: JobSpec, facts: HostFacts) -> list[str]:
    """How often: the user's frequency or period, else the default; every occurrence of tracepoints."""
    if spec.period is not None:
        return ["-c", str(spec.period)]
    if spec.frequency is not None:
        return ["-F", str(spec.frequency)]
    if only_tracepoints(to_sample(spec, facts), facts):
        return ["-c", "1"]
    return ["-F", str(FREQUENCY)]
