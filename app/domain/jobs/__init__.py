"""What a user asks for (JobSpec), how far it got (JobState, JobDetails) and how it ended (Outcome)."""

from .details import Cancellation, JobDetails
from .parts import Batch, CallGraph, EventSplitting, Mpi, MpiFlavor, PyTorch, RecorderName, Scope
from .spec import JOB_FIELDS, JOB_PARTS, JobSpec
from .state import JobState, Outcome

__all__ = [
    "JOB_FIELDS",
    "JOB_PARTS",
    "Batch",
    "CallGraph",
    "Cancellation",
    "EventSplitting",
    "JobDetails",
    "JobSpec",
    "JobState",
    "Mpi",
    "MpiFlavor",
    "Outcome",
    "PyTorch",
    "RecorderName",
    "Scope",
]
