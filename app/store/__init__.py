"""The store: profiles as columns on disk, and an SQL database of everything else. `open_store` opens it.

The modules are imported at first access, so that a process that only reads or writes columns does not load the
libraries of the database, and a command loads only the parts of the store that it uses.
"""

from typing import TYPE_CHECKING

from ..lazy_names import load_on_use

if TYPE_CHECKING:
    from .credentials import SealedBox
    from .event_total import EventTotal
    from .facade import Store, open_store
    from .files.originals import Original
    from .formulas import OwnFormula
    from .hosts import Check, Host
    from .job_series import NewRun, RunSeries
    from .jobs import Job, JobKind
    from .presets import Preset
    from .recovery import RecoveryReport
    from .result import OriginalFile, Result
    from .results import SORTS
    from .targets import StoredTarget

__all__ = [
    "SORTS",
    "Check",
    "EventTotal",
    "Host",
    "Job",
    "JobKind",
    "NewRun",
    "Original",
    "OriginalFile",
    "OwnFormula",
    "Preset",
    "RecoveryReport",
    "Result",
    "RunSeries",
    "SealedBox",
    "Store",
    "StoredTarget",
    "open_store",
]

_MODULES = {
    "SORTS": "results",
    "Check": "hosts",
    "EventTotal": "event_total",
    "Host": "hosts",
    "Job": "jobs",
    "JobKind": "jobs",
    "NewRun": "job_series",
    "Original": "files.originals",
    "OriginalFile": "result",
    "OwnFormula": "formulas",
    "Preset": "presets",
    "RecoveryReport": "recovery",
    "Result": "result",
    "RunSeries": "job_series",
    "SealedBox": "credentials",
    "Store": "facade",
    "StoredTarget": "targets",
    "open_store": "facade",
}

__getattr__ = load_on_use(__name__, _MODULES)
