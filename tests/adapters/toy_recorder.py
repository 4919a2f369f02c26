"""A recorder that counts the runs of its command: 1, in the format of perf stat."""

from dataclasses import dataclass
from pathlib import PurePath

from perfloom.domain.host_facts import HostFacts
from perfloom.domain.jobs import JobSpec
from perfloom.recording.recorders import Artifact

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
    uses_perf: bool = False
    program_title: str = "The command"
    nothing_recorded: str = ""

    def events(self, spec: JobSpec, facts: HostFacts) -> tuple[str, ...]:
        return ()

    def argv(self, spec: JobSpec, facts: HostFacts, artifacts: PurePath) -> tuple[str, ...]:
        return ("sh", "-c", SCRIPT, "sh", str(artifacts / "toy-runs.txt"), *spec.command)

    def artifacts(self, spec: JobSpec) -> tuple[Artifact, ...]:
        return (Artifact("toy-runs.txt", "Counts", text=True),)

    def injection(self, spec: JobSpec) -> None:
        """It is a program itself."""
