"""A user's request (JobSpec), its progress (JobState, JobDetails), what runs it (Executor) and how it ended
(Outcome).

The modules of the request are imported at first access: an import of files does not need them.
"""

from typing import TYPE_CHECKING

from ...lazy_names import load_on_use
from .details import Cancellation, JobDetails
from .series import SeriesRun, Side, order_runs
from .state import Executor, JobState, Outcome

if TYPE_CHECKING:
    from .language import Language
    from .parts import Batch, CallGraph, EventSplitting, Mpi, MpiFlavor, PyTorch, RecorderName, Scope
    from .spec import JOB_FIELDS, JOB_PARTS, JobSpec

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

_MODULES = {
    "JOB_FIELDS": "spec",
    "JOB_PARTS": "spec",
    "Batch": "parts",
    "CallGraph": "parts",
    "EventSplitting": "parts",
    "JobSpec": "spec",
    "Language": "language",
    "Mpi": "parts",
    "MpiFlavor": "parts",
    "PyTorch": "parts",
    "RecorderName": "parts",
    "Scope": "parts",
}

__getattr__ = load_on_use(__name__, _MODULES)
