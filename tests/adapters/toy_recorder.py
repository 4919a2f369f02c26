"""A recorder that counts the runs of its command: 1, in the format of perf stat."""

from dataclasses import dataclass
from pathlib import PurePath

from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import JobSpec
from perfloom.recording.recorders import Artifact
from perfloom.recording.recorders.findings import PreflightFinding

SCRIPT = """out=$1; shift
[ "$1" != -- ] || shift
trap : INT
"$@"
status=$?
echo "1;;toy-runs;1;100.00;;" >"$out"
exit "$status"
"""


@dataclass(frozen=True)
class ToyRecorder:
    name: str = "toy-count"
    title: str = "Count runs"
    label: str = "Toy counter"
    hint: str = "Count runs of the command."
    fields: tuple[str, ...] = ()
    fields_hint: str = ""
    uses_perf: bool = False
    samples: bool = False
    counts: bool = False
    needs_torch: bool = False
    only_command: bool = True
    program_title: str = "The command"
    nothing_recorded: str = ""

    def events(self, spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
        return ()

    def find_problems(self, spec: JobSpec) -> tuple[PreflightFinding, ...]:
        return ()

    def argv(self, spec: JobSpec, facts: HostFacts, artifacts: PurePath) -> tuple[str, ...]:
        return ("sh", "-c", SCRIPT, "sh", str(artifacts / "toy-runs.txt"), *spec.command)

    def artifacts(self, spec: JobSpec) -> tuple[Artifact, ...]:
        return (Artifact("toy-runs.txt", "Counts", text=True),)

    def injection(self, spec: JobSpec) -> None:
        """It is a program itself."""
