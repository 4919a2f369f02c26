"""PyTorch's profiler, injected into an unmodified program."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath

from ...domain.host_facts import HostFacts
from ...domain.jobs import JobSpec, PyTorch, RecorderName
from ...domain.rank_state import INJECTED_FILE
from .base import Artifact, Injection
from .findings import PreflightFinding, hint
from .torch_inject import OPTIONS, PREFIX, parse_steps

TRACE_PATTERN = "*.pt.trace.json.gz"
MANY_STEPS = 50

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
    fields: tuple[str, ...] = ("pytorch",)
    fields_hint: str = (
        "The program needs no change: Perfloom loads torch.profiler into it. A step ends with an optimizer step or, "
        "without an optimizer, with a batch of a DataLoader. Without both, the whole run is recorded."
    )
    uses_perf: bool = False
    samples: bool = False
    counts: bool = False
    needs_torch: bool = True
    only_command: bool = True
    program_title: str = "The command"
    nothing_recorded: str = NO_OPERATORS

    def events(self, spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
        return ()

    def find_problems(self, spec: JobSpec) -> Iterator[PreflightFinding]:
        steps = parse_steps(spec.pytorch.steps)
        if steps is not None and steps[2] > MANY_STEPS:
            text = f"{steps[2]:,} steps in one recording stay in the program's memory until they are written."
            yield hint("pytorch.steps", text, "A few steps are usually enough, as in 1,1,3,1.")
        elif steps is not None and steps[1] == 0:
            text = "Without a warm-up step, the first recorded step includes the startup of the profiler."
            yield hint("pytorch.steps", text, "Use at least one warm-up step, as in 1,1,3,1.")
        if spec.pytorch.modules and not spec.pytorch.stacks:
            text = "Without stacks, only modules of TorchScript models are recorded."
            yield hint("pytorch.modules", text, "To get the modules of other models, also record stacks.")

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
