"""A user's request (JobSpec), its progress (JobState, JobDetails), what runs it (Executor) and how it ended
(Outcome)."""

from .details import Cancellation, JobDetails
from .language import Language
from .parts import Batch, CallGraph, EventSplitting, Mpi, MpiFlavor, PyTorch, RecorderName, Scope
from .series import SeriesRun, Side, order_runs
from .spec import JOB_FIELDS, JOB_PARTS, JobSpec
from .state import Executor, JobState, Outcome

__all__ = [
    "JOB_FIELDS",
    "JOB_PARTS",
    "Batch",
    "CallGraph",
    "Cancellation",
    "EventSplitting",
    "Executor",
    "JobDetails",
    "JobSpec",
    "JobState",
    "Language",
    "Mpi",
    "MpiFlavor",
    "Outcome",
    "PyTorch",
    "RecorderName",
    "Scope",
    "SeriesRun",
    "Side",
    "order_runs",
]
