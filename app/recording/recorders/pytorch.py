"""PyTorch's profiler, injected into an unmodified program."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath

from ...domain.host_facts import HostFacts
from ...domain.jobs import JobSpec, PyTorch, RecorderName
from ...domain.rank_state import INJECTED_FILE
from .base import Artifact, Injection
from .torch_inject import OPTIONS, PREFIX

TRACE_PATTERN = "*.pt.trace.json.gz"

NO_OPERATORS = (
    "The command succeeded, but no PyTorch operator was recorded. Check that it uses PyTorch, in a Python that reads "
    "PYTHONPATH (not one started with -I, -E or -S)?"
)


@dataclass(frozen=True)
class PyTorchProfiler:
    name: RecorderName = RecorderName.PYTORCH
    title: str = "Record with PyTorch's profiler"
    label: str = "PyTorch"
    hint: str = "Operators, kernels and memory of PyTorch programs, by step."
    uses_perf: bool = False
    program_title: str = "The command"
    nothing_recorded: str = NO_OPERATORS

    def events(self, spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
        return ()

    def argv(self, spec: JobSpec, facts: HostFacts, artifacts: PurePath) -> tuple[str, ...]:
        """The command with its variables, as typed in the directory of the injected file."""
        injection = self.injection(spec)
        found = dict.fromkeys(injection.paths, ".") | {injection.folder: str(artifacts)} | dict(injection.variables)
        return ("env", *(f"{name}={value}" for name, value in found.items()), *spec.command)

    def artifacts(self, spec: JobSpec) -> tuple[Artifact, ...]:
        """One trace for each process that uses PyTorch."""
        return (Artifact(TRACE_PATTERN, "Trace of PyTorch's profiler", text=True),)

    def injection(self, spec: JobSpec) -> Injection:
        return Injection({INJECTED_FILE: _source()}, injected_variables(spec.pytorch), PREFIX + "OUT", ("PYTHONPATH",))


def injected_variables(asked: PyTorch) -> dict[str, str]:
    """The injected file and its variables."""
    found = {"STEPS": asked.steps} | {name: "1" for name in OPTIONS if getattr(asked, name.lower())}
    if asked.seconds is not None:
        found["SECONDS"] = f"{asked.seconds:g}"
    return {PREFIX + name: value for name, value in found.items()}


@cache
def _source() -> str:
    return Path(__file__).with_name("torch_inject.py").read_text(encoding="utf-8")
