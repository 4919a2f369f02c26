"""Recorders: each turns a JobSpec and the facts of a host into argv. A new one is one file and one entry here."""

from ...domain.jobs import JobSpec, RecorderName
from ...domain.rank_state import BUILD_IDS_FILE, TEXT_FILES
from .base import Artifact, Injection, Recorder
from .perf_record import PerfRecord
from .perf_stat import PerfStat
from .pytorch import PyTorchProfiler

RECORDERS: dict[RecorderName, Recorder] = {
    RecorderName.register(recorder.name): recorder for recorder in (PerfRecord(), PerfStat(), PyTorchProfiler())
}


def recorder_of(spec: JobSpec) -> Recorder:
    """The recorder of a job."""
    return RECORDERS[spec.recorder]


def artifact_patterns(spec: JobSpec) -> tuple[str, ...]:
    """The names of what a recording leaves, as patterns of a shell; with the text that is computed from it there."""
    artifacts = recorder_of(spec).artifacts(spec)
    texts = () if all(artifact.text for artifact in artifacts) else (*TEXT_FILES, BUILD_IDS_FILE)
    return (*texts, *(artifact.name for artifact in artifacts))


__all__ = ["RECORDERS", "Artifact", "Injection", "Recorder", "artifact_patterns", "recorder_of"]
