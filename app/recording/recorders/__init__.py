"""Recorders: each turns a JobSpec and the facts of a host into argv. A new one is one file and one entry here."""

from ...domain.jobs import JobSpec, RecorderName
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


__all__ = ["RECORDERS", "Artifact", "Injection", "Recorder", "recorder_of"]
