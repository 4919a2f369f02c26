"""What a user asks for (JobSpec), how far it got (JobState) and how it ended (Outcome)."""

from .parts import Batch, CallGraph, EventSplitting, Mpi, MpiFlavor, PyTorch, RecorderName, Scope
from .spec import JOB_FIELDS, JOB_PARTS, JobSpec
from .state import JobState, Outcome

__all__ = [
    "JOB_FIELDS",
    "JOB_PARTS",
    "Batch",
    "CallGraph",
    "EventSplitting",
    "JobSpec",
    "JobState",
    "Mpi",
    "MpiFlavor",
    "Outcome",
    "PyTorch",
    "RecorderName",
    "Scope",
]
